package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/sluicemq/sluice/dataplane/broker"
)

func (e *env) dialTLS(cfg *tls.Config) *client {
	e.t.Helper()
	cc, err := grpc.NewClient(e.addr, grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { cc.Close() })
	return &client{MessagingServiceClient: v2.NewMessagingServiceClient(cc), e: e, cc: cc, headers: signed("slk_a", "secret-a")}
}

func TestPort_takesTLSAndPlaintext(t *testing.T) {
	cfg, pool := certificate(t)
	e := newEnv(t, func(c *Config) { c.TLSMode, c.TLS = TLSPermissive, cfg })
	e.client("slk_a").mustSend("orders", "plain")
	e.dialTLS(&tls.Config{RootCAs: pool}).mustSend("orders", "verified")
	e.dialTLS(&tls.Config{InsecureSkipVerify: true}).mustSend("orders", "trusting")
	e.client("slk_a").take("orders", "g", 3)
}

func TestPort_modes(t *testing.T) {
	cfg, pool := certificate(t)
	query := func(c *client) error {
		ctx, cancel := context.WithTimeout(c.ctx(), 3*time.Second)
		defer cancel()
		_, err := c.QueryRoute(ctx, &v2.QueryRouteRequest{Topic: named("orders"), Endpoints: dialled()})
		return err
	}
	for _, c := range []struct {
		mode       TLSMode
		plain, tls bool
		says       string
	}{
		{TLSDisabled, true, false, "protocol=TLS"},
		{TLSPermissive, true, true, ""},
		{TLSRequired, false, true, `protocol="plaintext gRPC"`},
	} {
		e := newEnv(t, func(f *Config) { f.TLSMode, f.TLS = c.mode, cfg })
		if err := query(e.client("slk_a")); (err == nil) != c.plain {
			t.Errorf("mode %d, plaintext: %v", c.mode, err)
		}
		if err := query(e.dialTLS(&tls.Config{RootCAs: pool})); (err == nil) != c.tls {
			t.Errorf("mode %d, TLS: %v", c.mode, err)
		}
		if !strings.Contains(e.logs.String(), c.says) {
			t.Errorf("mode %d: log %q does not say %s", c.mode, e.logs.String(), c.says)
		}
	}
}

// B003: a client of another protocol fails at once, and one line says which.
func TestPort_namesForeignProtocols_B003(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct{ sent, says string }{
		{"\x00\x00\x01\x02\x00\x00\x00\xfa{\"code\":105", `protocol="RocketMQ remoting"`},
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "protocol=HTTP/1"},
		{"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", `protocol="PROXY protocol"`},
		{"EHLO mail\r\n", "protocol=unknown"},
	} {
		nc, err := net.Dial("tcp", e.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.WriteString(nc, c.sent); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(nc) // ends because the server closes
		if strings.HasPrefix(c.sent, "GET") && !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			t.Errorf("an HTTP client reads %q, want 400", answer)
		}
		nc.Close()
		if n := strings.Count(e.logs.String(), c.says); n != 1 {
			t.Errorf("%d log lines say %s, want 1", n, c.says)
		}
	}
	e.client("slk_a").mustSend("orders", "still works")
}

// B006: probes leave nothing behind.
func TestPort_probesLeaveNothing_B006(t *testing.T) {
	e := newEnv(t)
	for i := range 300 {
		nc, err := net.Dial("tcp", e.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(nc, strings.Repeat("\x7f", i%3*10))
		nc.Close()
	}
	e.noConnections()
}

// noConnections waits until the front counts no open connection.
func (e *env) noConnections() {
	e.t.Helper()
	for {
		e.front.ln.mu.Lock()
		open, ips := e.front.ln.open, len(e.front.ln.byIP)
		e.front.ln.mu.Unlock()
		if open == 0 && ips == 0 {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-e.t.Context().Done():
			e.t.Fatalf("%d connections are still counted", open)
		}
	}
}

func TestPort_connectionLimit(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxConnectionsPerIP = 2 })
	var held []net.Conn
	for range 2 {
		nc, err := net.Dial("tcp", e.addr)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, nc)
	}
	over, err := net.Dial("tcp", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	_ = over.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := bufio.NewReader(over).ReadByte(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the third connection: %v, want it closed", err)
	}
	for _, nc := range held {
		nc.Close()
	}
	e.noConnections()
	e.client("slk_a").mustSend("orders", "room again")
}

func TestConnections_countedForTheCaller(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	c.mustSend("orders", "a", "b")
	who := broker.Caller{KeyID: "slk_a", NamespaceID: nsA, Protocol: broker.ProtocolGRPC}
	if n := e.meter.get(e.meter.open, who); n != 1 {
		t.Errorf("%d connections are counted, want 1", n)
	}
	if n := e.meter.get(e.meter.calls, who); n != 2 {
		t.Errorf("%d calls are counted, want 2", n)
	}
	want(t, c.send(msg("nowhere", "x")).GetStatus(), v2.Code_TOPIC_NOT_FOUND)
	if n := e.meter.get(e.meter.rejected, who); n != 1 {
		t.Errorf("%d refused calls are counted, want 1", n)
	}
	c.cc.Close()
	e.noConnections()
	if n := e.meter.get(e.meter.open, who); n != 0 {
		t.Errorf("%d connections are counted after the close, want 0", n)
	}
}

func TestHealthAndReflection(t *testing.T) {
	e := newEnv(t)
	cc := e.dial()
	h, err := healthpb.NewHealthClient(cc).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
	rs, err := reflectionpb.NewServerReflectionClient(cc).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := rs.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	list, err := rs.Recv()
	if err != nil || !strings.Contains(list.String(), "apache.rocketmq.v2.MessagingService") {
		t.Errorf("reflection: %v, %v", list, err)
	}
	_ = rs.CloseSend()
	_, _ = rs.Recv()
}

// Closing answers what waits, within the caller's deadline.
func TestClose_answersWaitingPolls(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	ts := c.telemetry(consumerSettings("g", v2.ClientType_SIMPLE_CONSUMER, "orders"))
	if _, err := ts.Recv(); err != nil {
		t.Fatal(err)
	}
	type result struct {
		status *v2.Status
		err    error
	}
	got := make(chan result, 1)
	rs, err := c.ReceiveMessage(c.ctx(), poll("orders", "g"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		resp, err := rs.Recv()
		got <- result{resp.GetStatus(), err}
	}()
	e.waiting(2)
	start := time.Now()
	e.stop()
	if took := time.Since(start); took > time.Second {
		t.Errorf("Close took %v although all waits could be answered", took)
	}
	if r := <-got; r.err != nil || r.status.GetCode() != v2.Code_MESSAGE_NOT_FOUND {
		t.Errorf("the waiting poll got %v, %v", r.status, r.err)
	}
	if _, err := ts.Recv(); err == nil {
		t.Error("the telemetry stream is still open")
	}
}

// waiting returns when n streams are open, telemetry included.
func (e *env) waiting(n int) {
	e.t.Helper()
	for {
		e.front.watches.mu.Lock()
		open := len(e.front.watches.open)
		e.front.watches.mu.Unlock()
		if open >= n {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-e.t.Context().Done():
			e.t.Fatal("the stream never opened")
		}
	}
}

func TestConfig_reportsAllProblems(t *testing.T) {
	err := (&Config{TLSMode: TLSRequired, Advertise: []string{"nohost"}, MinPoll: time.Second}).Validate()
	for _, name := range []string{"grpc.tls", "grpc.advertise", "grpc.maxBodyBytes", "grpc.maxPoll", "grpc.minPoll", "grpc.sessionExpiry"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	good := DefaultConfig()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
