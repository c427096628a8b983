package remoting

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/dataplane/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func echo(_ context.Context, _ *Conn, f *wire.Frame) *wire.Frame {
	r := f.Reply(wire.Success, "")
	r.Body = f.Body
	return r
}

// logLines collects log text.
type logLines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startServer(t *testing.T, cfg Config, h HandlerFunc, log *slog.Logger) *Server {
	t.Helper()
	return startHandler(t, cfg, h, log)
}

func startHandler(t *testing.T, cfg Config, h Handler, log *slog.Logger) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(cfg, ln, h, log)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

func newClient(t *testing.T, opts ClientOptions) *Client {
	t.Helper()
	c, err := NewClient(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func dialRaw(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

// waitClosed reads until the server closes and returns what came before.
func waitClosed(t *testing.T, c net.Conn) []byte {
	t.Helper()
	b, err := io.ReadAll(c)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		t.Fatal("the server did not close the connection")
	}
	return b
}

func TestInvoke_manyAtOnceMatchesOpaque(t *testing.T) {
	s := startServer(t, Config{}, echo, nil)
	c := newClient(t, ClientOptions{})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			body := binary.BigEndian.AppendUint32(nil, uint32(i))
			f, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, body))
			if err != nil || string(f.Body) != string(body) {
				t.Errorf("request %d: %v, %v", i, f, err)
			}
		})
	}
	wg.Wait()
}

func TestReply_usesEncodingOfRequest(t *testing.T) {
	s := startServer(t, Config{}, echo, nil)
	c := newClient(t, ClientOptions{})
	for _, enc := range []wire.Serialize{wire.SerializeJSON, wire.SerializeCompact} {
		req := wire.Request(1, []byte("x"))
		req.Serialize = enc
		f, err := c.Invoke(t.Context(), s.Addr().String(), req)
		if err != nil || f.Serialize != enc {
			t.Errorf("encoding %d: %+v, %v", enc, f, err)
		}
	}
}

func TestPush_fromServerToClient(t *testing.T) {
	pushed := make(chan *wire.Frame, 1)
	s := startServer(t, Config{}, func(ctx context.Context, c *Conn, f *wire.Frame) *wire.Frame {
		if err := c.OneWay(wire.Request(wire.NotifyConsumerIDsChanged, nil)); err != nil {
			t.Error(err)
		}
		answer, err := c.Invoke(ctx, wire.Request(wire.GetConsumerRunningInfo, []byte("ask")))
		if err != nil {
			t.Error(err)
			return f.Reply(wire.SystemError, err.Error())
		}
		return f.Reply(answer.Code, string(answer.Body))
	}, nil)
	c := newClient(t, ClientOptions{Handler: HandlerFunc(func(ctx context.Context, _ *Conn, f *wire.Frame) *wire.Frame {
		if f.IsOneWay() {
			pushed <- f
			return nil
		}
		return echo(ctx, nil, f)
	})})
	f, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(34, nil))
	if err != nil || f.Code != wire.Success || f.Remark != "ask" {
		t.Fatalf("got %+v, %v", f, err)
	}
	if p := <-pushed; p.Code != wire.NotifyConsumerIDsChanged {
		t.Errorf("pushed %+v", p)
	}
}

// B001: lying lengths and senders of one byte a second cost one connection,
// not memory; a client beside them is not disturbed.
func TestServer_cutsOffHostileFrames(t *testing.T) {
	s := startServer(t, Config{FrameGrace: 150 * time.Millisecond}, echo, nil)
	c := newClient(t, ClientOptions{})
	if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	half := binary.BigEndian.AppendUint32(nil, wire.MaxFrame)
	half = binary.BigEndian.AppendUint32(half, 1<<20)
	kinds := [][]byte{
		{0x00, 0xFF, 0xFF, 0xFF, 0, 0, 0, 2, '{'},
		{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
		{0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 3, 0, 0, 0, 0},
		{0, 0, 0, 64, 0x00, 0xFF, 0xFF, 0xFF},
		half,
		{0},
	}
	var conns []net.Conn
	for _, k := range kinds {
		for range 20 {
			nc := dialRaw(t, s)
			if _, err := nc.Write(k); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, nc)
		}
	}
	for _, nc := range conns {
		waitClosed(t, nc)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 50<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
	if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); err != nil {
		t.Errorf("the client beside them: %v", err)
	}
}

// B001: senders who send nearly all of a large frame and stop hold a bounded
// amount together, are cut off, and leave small requests and, afterwards, large
// ones alone.
func TestServer_boundsLargeFrames_B001(t *testing.T) {
	s := startServer(t, Config{FrameGrace: 500 * time.Millisecond, MaxLarge: wire.MaxFrame}, echo, nil)
	c := newClient(t, ClientOptions{})
	head := []byte(`{"code":10,"opaque":1}`)
	half := binary.BigEndian.AppendUint32(nil, uint32(4+len(head)+8<<20))
	half = binary.BigEndian.AppendUint32(half, uint32(len(head)))
	half = append(half, head...)
	half = append(half, make([]byte, 7<<20)...)
	var conns []net.Conn
	for range 8 {
		nc := dialRaw(t, s)
		conns = append(conns, nc)
		go func() { _, _ = nc.Write(half) }() // ends when the server closes
	}
	for range 20 {
		if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, make([]byte, 1000))); err != nil {
			t.Fatalf("a small request beside them: %v", err)
		}
		s.large.mu.Lock()
		left := s.large.left
		s.large.mu.Unlock()
		if left < 0 {
			t.Fatalf("%d bytes over the limit", -left)
		}
	}
	for _, nc := range conns {
		waitCut(t, nc)
	}
	for range 3 {
		if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, make([]byte, 12<<20))); err != nil {
			t.Fatalf("a large request afterwards: %v", err)
		}
	}
	_ = c.Close()
	_ = s.Close()
	if s.large.left != wire.MaxFrame {
		t.Errorf("%d bytes were not given back", wire.MaxFrame-s.large.left)
	}
}

// waitCut is waitClosed for a connection on which the server left bytes
// unread: its end may be a reset.
func waitCut(t *testing.T, c net.Conn) {
	t.Helper()
	var ne net.Error
	if _, err := io.ReadAll(c); errors.As(err, &ne) && ne.Timeout() {
		t.Fatal("the server did not close the connection")
	}
}

// B002: a malformed header closes the connection without an internal text,
// and the next connection works.
func TestServer_closesOnMalformedHeader(t *testing.T) {
	s := startServer(t, Config{}, echo, nil)
	for _, header := range []string{"", "ab", "null", "[]", `{"opaque":"x"}`, `{"code":1e99}`, strings.Repeat(`{"a":`, 200), `{"extFields":[]}`} {
		nc := dialRaw(t, s)
		b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
		if _, err := nc.Write(append(b, header...)); err != nil {
			t.Fatal(err)
		}
		if got := waitClosed(t, nc); len(got) > 0 {
			t.Errorf("header %.20q: answered %q", header, got)
		}
	}
	c := newClient(t, ClientOptions{})
	if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); err != nil {
		t.Error(err)
	}
}

// B003: other protocols are named in one log line and closed at once, or
// handed on.
func TestServer_namesForeignProtocols(t *testing.T) {
	for bytes, want := range map[string]string{
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": "HTTP/2 (gRPC)",
		"GET / HTTP/1.1\r\n\r\n":           "HTTP/1",
		"\x16\x03\x01\x02\x00\x01\x00":     "TLS",
		"SSH-2.0-x\r\n":                    "unknown",
	} {
		log := &logLines{}
		s := startServer(t, Config{}, echo, slog.New(slog.NewTextHandler(log, nil)))
		nc := dialRaw(t, s)
		if _, err := nc.Write([]byte(bytes)); err != nil {
			t.Fatal(err)
		}
		waitClosed(t, nc)
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("%q: log %q, want one line naming %s", bytes, got, want)
		}
	}
	flood := &logLines{}
	many := startServer(t, Config{}, echo, slog.New(slog.NewTextHandler(flood, nil)))
	for range 50 {
		nc := dialRaw(t, many)
		if _, err := nc.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		waitClosed(t, nc)
	}
	if n := strings.Count(flood.String(), "\n"); n > 5 {
		t.Errorf("%d lines for a flood", n)
	}
	taken := make(chan string, 1)
	s := startServer(t, Config{Foreign: func(nc net.Conn, p Protocol) bool {
		go func() {
			b := make([]byte, 3)
			io.ReadFull(nc, b)
			taken <- p.String() + string(b)
			nc.Close()
		}()
		return true
	}}, echo, nil)
	nc := dialRaw(t, s)
	nc.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	if got := <-taken; got != "HTTP/1GET" {
		t.Errorf("handed on as %q", got)
	}
}

// B006: probes that connect, send junk or nothing and leave, leave nothing.
func TestServer_probesLeakNothing(t *testing.T) {
	s := startServer(t, Config{}, echo, nil)
	before := runtime.NumGoroutine()
	for i := range 600 {
		nc, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc.Write(make([]byte, []int{0, 1, 20}[i%3]))
		nc.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(s.conns) + len(s.opening); n != 0 {
		t.Errorf("%d connections are still counted", n)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("goroutines: %d before, %d after", before, after)
	}
}

func TestShutdown_finishesAcceptedRequests(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := startServer(t, Config{}, func(_ context.Context, _ *Conn, f *wire.Frame) *wire.Frame {
		close(entered)
		<-release
		return f.Reply(wire.Success, "done")
	}, nil)
	c := newClient(t, ClientOptions{})
	answer := make(chan *wire.Frame, 1)
	go func() {
		f, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil))
		if err != nil {
			t.Error(err)
		}
		answer <- f
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	<-s.done
	close(release)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if f := <-answer; f == nil || f.Remark != "done" {
		t.Errorf("answer %+v", f)
	}
}

func TestOneWay_fullQueueDropsAndReplyCloses(t *testing.T) {
	a, b := net.Pipe() // nobody reads b: the writer blocks at once
	defer b.Close()
	cfg, err := Config{MaxQueue: 1000, WriteTimeout: 50 * time.Millisecond}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(cfg, loggerOrDiscard(nil), newShared(cfg), a, nil, nil)
	if err := c.OneWay(wire.Request(40, make([]byte, 900))); err != nil {
		t.Fatal(err)
	}
	if err := c.OneWay(wire.Request(40, make([]byte, 900))); !errors.Is(err, ErrQueueFull) {
		t.Errorf("second push: %v", err)
	}
	c.Reply(wire.Request(1, nil), &wire.Frame{Body: make([]byte, 900)})
	if err := c.OneWay(wire.Request(40, nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("after a reply that found no room: %v", err)
	}
}

func TestHandle_panicAnswersWithoutDetails(t *testing.T) {
	s := startServer(t, Config{}, func(context.Context, *Conn, *wire.Frame) *wire.Frame { panic("secret") }, nil)
	c := newClient(t, ClientOptions{})
	f, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil))
	if err != nil || f.Code != wire.SystemError || strings.Contains(f.Remark, "secret") {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestConn_closeHooksAndInvokeEnd(t *testing.T) {
	closed := make(chan struct{})
	s := startServer(t, Config{}, func(_ context.Context, c *Conn, f *wire.Frame) *wire.Frame {
		c.OnClose(func() { close(closed) })
		c.Close()
		return nil
	}, nil)
	c := newClient(t, ClientOptions{})
	if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("invoke: %v", err)
	}
	<-closed
}

func TestServer_limitsConnections(t *testing.T) {
	s := startServer(t, Config{MaxConns: 1}, echo, nil)
	c := newClient(t, ClientOptions{})
	if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); err != nil {
		t.Fatal(err)
	}
	waitClosed(t, dialRaw(t, s))
}

func certificate(t *testing.T) (*tls.Config, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: pool}
}

func TestServer_tlsModes(t *testing.T) {
	server, client := certificate(t)
	for _, c := range []struct {
		mode          TLSMode
		plain, secure bool
	}{{TLSDisabled, true, false}, {TLSPermissive, true, true}, {TLSRequired, false, true}} {
		s := startServer(t, Config{TLSMode: c.mode, TLS: server}, echo, nil)
		for _, secure := range []bool{false, true} {
			opts, want := ClientOptions{}, c.plain
			if secure {
				opts.TLS, want = client, c.secure
			}
			_, err := newClient(t, opts).Invoke(t.Context(), s.Addr().String(), wire.Request(1, []byte("x")))
			if (err == nil) != want {
				t.Errorf("mode %d secure %t: %v", c.mode, secure, err)
			}
		}
	}
	if _, err := NewServer(Config{TLSMode: TLSRequired}, nil, nil, nil); err == nil {
		t.Error("TLS without a configuration was accepted")
	}
	if m, err := ParseTLSMode("permissive"); err != nil || m != TLSPermissive {
		t.Errorf("parse: %v, %v", m, err)
	}
	if _, err := ParseTLSMode("maybe"); err == nil {
		t.Error("unknown mode was accepted")
	}
}

func BenchmarkInvoke(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s, err := NewServer(Config{}, ln, HandlerFunc(echo), nil)
	if err != nil {
		b.Fatal(err)
	}
	go s.Serve()
	defer s.Close()
	c, err := NewClient(ClientOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	body := make([]byte, 1024)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Invoke(context.Background(), ln.Addr().String(), wire.Request(1, body)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
