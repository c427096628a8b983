package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(m.Run()) // the official SDK leaves goroutines behind
	}
	// The SDK's metrics library starts this when it is linked.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const (
	nsA = "aaaaaaaa"
	nsB = "bbbbbbbb"
)

// clock is the time of everything in one env.
type clock struct {
	mu     sync.Mutex
	offset time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// logs keeps what was logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// counts is a Meter that remembers.
type counts struct {
	mu                    sync.Mutex
	calls, rejected, open map[broker.Caller]int
	delivered, emptyPolls int
}

func newCounts() *counts {
	return &counts{calls: map[broker.Caller]int{}, rejected: map[broker.Caller]int{}, open: map[broker.Caller]int{}}
}

func (c *counts) add(m map[broker.Caller]int, who broker.Caller, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m[who] += n
}

func (c *counts) get(m map[broker.Caller]int, who broker.Caller) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m[who]
}

func (c *counts) Call(who broker.Caller)     { c.add(c.calls, who, 1) }
func (c *counts) Rejected(who broker.Caller) { c.add(c.rejected, who, 1) }
func (c *counts) Connected(who broker.Caller) func() {
	c.add(c.open, who, 1)
	return func() { c.add(c.open, who, -1) }
}
func (c *counts) Delivered(d broker.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivered += len(d.Records)
}
func (c *counts) Replied(broker.Caller, *message.Message) {}
func (c *counts) EmptyPoll(broker.Caller, string, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.emptyPolls++
}

// env is a broker with its gRPC front, on one in-memory disk, and the policy
// of two tenants.
type env struct {
	t        testing.TB
	cfg      Config
	clock    clock
	logs     logs
	meter    *counts
	signing  ed25519.PrivateKey
	engine   *policy.Engine
	snapshot *policy.Snapshot
	revision uint64

	disk  *vfs.Mem
	store *store.Store
	core  *broker.Broker
	front *Front
	addr  string
	stop  func()
}

func all(ns string) []policy.Scope {
	return []policy.Scope{{NamespaceID: ns, Permissions: []string{"PUB", "SUB"}, Topics: []string{"*"}, Groups: []string{"*"}}}
}

func newEnv(t testing.TB, change ...func(*Config)) *env {
	t.Helper()
	e := &env{t: t, cfg: DefaultConfig(), meter: newCounts()}
	e.cfg.MinPoll, e.cfg.MaxPoll = time.Millisecond, 5*time.Second
	for _, f := range change {
		f(&e.cfg)
	}
	_, e.signing, _ = ed25519.GenerateKey(nil)
	e.snapshot = &policy.Snapshot{
		Namespaces: map[string]policy.Namespace{nsA: {TenantID: "ten_a"}, nsB: {TenantID: "ten_b"}, "cccccccc": {TenantID: "ten_a"}},
		Keys: map[string]policy.Key{
			"slk_a":    {Secret: "secret-a", TenantID: "ten_a", Scopes: all(nsA)},
			"slk_b":    {Secret: "secret-b", TenantID: "ten_b", Scopes: all(nsB)},
			"slk_two":  {Secret: "secret-two", TenantID: "ten_a", Scopes: append(all(nsA), all("cccccccc")...)},
			"slk_pub":  {Secret: "secret-pub", TenantID: "ten_a", Scopes: []policy.Scope{{NamespaceID: nsA, Permissions: []string{"PUB"}, Topics: []string{"orders"}}}},
			"slk_far":  {Secret: "secret-far", TenantID: "ten_a", AllowedCIDRs: []string{"10.9.0.0/16"}, Scopes: all(nsA)},
			"slk_near": {Secret: "secret-near", TenantID: "ten_a", AllowedCIDRs: []string{"127.0.0.1/32"}, Scopes: all(nsA)},
		},
	}
	var err error
	e.engine, err = policy.Open(policy.Config{
		Dir: t.TempDir(), Cluster: "c1", SystemSecret: []byte("0123456789abcdef"), Trusted: []ed25519.PublicKey{e.signing.Public().(ed25519.PublicKey)},
		Now: e.clock.now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	e.applyPolicy()
	e.disk = vfs.NewMem(e.clock.now)
	e.start("127.0.0.1:0")
	t.Cleanup(func() { e.stop() })
	for _, ns := range []string{nsA, nsB, "cccccccc"} {
		e.topic(ns+"%orders", "NORMAL")
		e.group(ns+"%g", nil)
	}
	return e
}

func (e *env) applyPolicy() {
	e.t.Helper()
	e.revision++
	raw, err := policy.SealSnapshot(e.signing, "c1", e.revision, e.snapshot)
	if err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.engine.Apply(raw); err != nil {
		e.t.Fatal(err)
	}
}

// start opens everything on the env's disk and serves on addr.
func (e *env) start(addr string) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	logger := slog.New(slog.NewTextHandler(&e.logs, nil))
	host := netip.MustParseAddrPort("127.0.0.1:10911")
	sc := store.DefaultConfig()
	sc.IndexSlots, sc.IndexEntries = 100, 1000
	sc.Dir, sc.SegmentBytes, sc.Preallocate, sc.StoreHost = "/store", 16<<20, false, host
	st, err := store.Open(sc, store.Deps{FS: e.disk, Now: e.clock.now, Logger: logger})
	if err != nil {
		e.t.Fatal(err)
	}
	bc := broker.DefaultConfig()
	bc.Dir, bc.Addr, bc.StoreHost = "/broker", host.String(), host
	core, err := broker.New(bc, broker.Deps{Store: st, FS: e.disk, Now: e.clock.now, Logger: logger, Meter: e.meter})
	if err != nil {
		e.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		e.t.Fatal(err)
	}
	front, err := New(e.cfg, Deps{Broker: core, Policy: e.engine, Listener: ln, Meter: e.meter, Now: e.clock.now, Logger: logger})
	if err != nil {
		e.t.Fatal(err)
	}
	e.store, e.core, e.front, e.addr = st, core, front, ln.Addr().String()
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{st.Run, core.Run, front.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				e.t.Errorf("run: %v", err)
			}
		})
	}
	e.stop = sync.OnceFunc(func() {
		drain, done := context.WithTimeout(context.Background(), 2*time.Second)
		defer done()
		if err := front.Close(drain); err != nil {
			e.t.Errorf("front.Close: %v", err)
		}
		err := core.Close()
		cancel()
		wg.Wait()
		if err = errors.Join(err, st.Close()); err != nil {
			e.t.Errorf("close: %v", err)
		}
	})
}

// restart stops the server and starts it again on the same address.
func (e *env) restart() {
	e.t.Helper()
	e.stop()
	e.start(e.addr)
}

// kill starts the server again on what a killed process leaves behind.
func (e *env) kill() {
	e.t.Helper()
	left := e.disk.CrashClone(1, 1)
	e.stop()
	e.disk = left
	e.start(e.addr)
}

func (e *env) topic(physical, kind string) {
	e.t.Helper()
	tc := store.DefaultTopicConfig(physical)
	tc.ReadQueueNums, tc.WriteQueueNums = 2, 2
	tc.Attributes = map[string]string{store.AttributeMessageType: kind}
	if err := e.core.PutTopic(e.t.Context(), tc); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) group(physical string, change func(*store.GroupConfig)) {
	e.t.Helper()
	g := store.DefaultGroupConfig(physical)
	if change != nil {
		change(&g)
	}
	if err := e.core.PutGroup(e.t.Context(), g); err != nil {
		e.t.Fatal(err)
	}
}

// client is a raw protocol client that signs as one key.
type client struct {
	v2.MessagingServiceClient
	e       *env
	cc      *grpc.ClientConn
	headers metadata.MD
}

func (e *env) dial() *grpc.ClientConn {
	e.t.Helper()
	cc, err := grpc.NewClient(e.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { cc.Close() })
	return cc
}

func (e *env) client(key string) *client {
	e.t.Helper()
	cc := e.dial()
	return &client{MessagingServiceClient: v2.NewMessagingServiceClient(cc), e: e, cc: cc, headers: signed(key, e.snapshot.Keys[key].Secret)}
}

func signature(secret, date string) string {
	h := hmac.New(sha1.New, []byte(secret))
	h.Write([]byte(date))
	return fmt.Sprintf("%x", h.Sum(nil))
}

func signed(key, secret string) metadata.MD {
	const date = "20261129T120000Z"
	return metadata.Pairs("x-mq-client-id", "host@1@0@"+key, "x-mq-language", "GO", "x-mq-date-time", date,
		"authorization", "MQv2-HMAC-SHA1 Credential="+key+"//Rocketmq, SignedHeaders=x-mq-date-time, Signature="+signature(secret, date))
}

// with returns a client with other headers; an empty value removes one.
func (c *client) with(pairs ...string) *client {
	other := *c
	other.headers = c.headers.Copy()
	for i := 0; i < len(pairs); i += 2 {
		other.headers.Delete(pairs[i])
		if pairs[i+1] != "" {
			other.headers.Set(pairs[i], pairs[i+1])
		}
	}
	return &other
}

func (c *client) ctx() context.Context {
	return metadata.NewOutgoingContext(c.e.t.Context(), c.headers)
}

func named(name string) *v2.Resource { return &v2.Resource{Name: name} }

func dialled() *v2.Endpoints {
	return &v2.Endpoints{Scheme: v2.AddressScheme_IPv4, Addresses: []*v2.Address{{Host: "127.0.0.1", Port: 8081}}}
}

var lastID struct {
	sync.Mutex
	n int
}

func msg(topic, body string) *v2.Message {
	lastID.Lock()
	defer lastID.Unlock()
	lastID.n++
	return &v2.Message{Topic: named(topic), Body: []byte(body), SystemProperties: &v2.SystemProperties{
		MessageId: fmt.Sprintf("01%032X", lastID.n), MessageType: v2.MessageType_NORMAL, BornHost: "host",
	}}
}

// send stores messages and returns once they can be read.
func (c *client) send(messages ...*v2.Message) *v2.SendMessageResponse {
	c.e.t.Helper()
	resp, err := c.SendMessage(c.ctx(), &v2.SendMessageRequest{Messages: messages})
	if err != nil {
		c.e.t.Fatal(err)
	}
	return resp
}

func (c *client) mustSend(topic string, bodies ...string) {
	c.e.t.Helper()
	for _, body := range bodies {
		want(c.e.t, c.send(msg(topic, body)).GetStatus(), v2.Code_OK)
	}
}

// poll is one receive of a simple consumer.
func poll(topic, group string) *v2.ReceiveMessageRequest {
	return &v2.ReceiveMessageRequest{
		Group: named(group), MessageQueue: &v2.MessageQueue{Topic: named(topic), Id: 0}, BatchSize: 32,
		FilterExpression:  &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"},
		InvisibleDuration: durationpb.New(30 * time.Second), LongPollingTimeout: durationpb.New(2 * time.Second),
	}
}

// receive does one receive to its end.
func (c *client) receive(req *v2.ReceiveMessageRequest) (*v2.Status, []*v2.Message) {
	c.e.t.Helper()
	status, messages, err := c.tryReceive(c.ctx(), req)
	if err != nil {
		c.e.t.Fatal(err)
	}
	return status, messages
}

func (c *client) tryReceive(ctx context.Context, req *v2.ReceiveMessageRequest) (status *v2.Status, messages []*v2.Message, err error) {
	rs, err := c.ReceiveMessage(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	for {
		resp, err := rs.Recv()
		if err == io.EOF {
			return status, messages, nil
		}
		if err != nil {
			return status, messages, err
		}
		switch content := resp.GetContent().(type) {
		case *v2.ReceiveMessageResponse_Status:
			if status != nil || messages != nil {
				c.e.t.Error("the status does not come first, or twice")
			}
			status = content.Status
		case *v2.ReceiveMessageResponse_Message:
			messages = append(messages, content.Message)
		case *v2.ReceiveMessageResponse_DeliveryTimestamp:
		default:
			c.e.t.Error("answer without content: one SDK panics on it")
		}
	}
}

// take receives until n messages are there.
func (c *client) take(topic, group string, n int) []*v2.Message {
	c.e.t.Helper()
	var out []*v2.Message
	for len(out) < n {
		status, messages := c.receive(poll(topic, group))
		if status.GetCode() != v2.Code_OK {
			c.e.t.Fatalf("received %d of %d messages, then %v", len(out), n, status)
		}
		out = append(out, messages...)
	}
	if len(out) > n {
		c.e.t.Fatalf("received %d messages, want %d", len(out), n)
	}
	return out
}

// none asserts that there is nothing to receive now.
func (c *client) none(topic, group string) {
	c.e.t.Helper()
	req := poll(topic, group)
	req.LongPollingTimeout = durationpb.New(20 * time.Millisecond)
	status, messages := c.receive(req)
	want(c.e.t, status, v2.Code_MESSAGE_NOT_FOUND)
	if len(messages) > 0 {
		c.e.t.Errorf("got message %q, want none", messages[0].GetBody())
	}
}

func (c *client) ack(topic, group string, messages ...*v2.Message) *v2.AckMessageResponse {
	c.e.t.Helper()
	req := &v2.AckMessageRequest{Topic: named(topic), Group: named(group)}
	for _, m := range messages {
		req.Entries = append(req.Entries, &v2.AckMessageEntry{MessageId: m.GetSystemProperties().GetMessageId(), ReceiptHandle: m.GetSystemProperties().GetReceiptHandle()})
	}
	resp, err := c.AckMessage(c.ctx(), req)
	if err != nil {
		c.e.t.Fatal(err)
	}
	return resp
}

func (c *client) change(topic, group, handle string, d time.Duration) *v2.ChangeInvisibleDurationResponse {
	c.e.t.Helper()
	resp, err := c.ChangeInvisibleDuration(c.ctx(), &v2.ChangeInvisibleDurationRequest{
		Topic: named(topic), Group: named(group), ReceiptHandle: handle, InvisibleDuration: durationpb.New(d),
	})
	if err != nil {
		c.e.t.Fatal(err)
	}
	return resp
}

// want checks a status, and that a refusal has the form of all refusals.
func want(t testing.TB, status *v2.Status, code v2.Code) {
	t.Helper()
	if status.GetCode() != code {
		t.Errorf("got status %v %q, want %v", status.GetCode(), status.GetMessage(), code)
	}
	refusal := status.GetCode() >= v2.Code_BAD_REQUEST && status.GetCode() != v2.Code_MESSAGE_NOT_FOUND
	if text := status.GetMessage(); refusal && (!strings.HasPrefix(text, "[SLUICE:") || !strings.Contains(text, "; request_id=")) {
		t.Errorf("refusal reads %q, want [SLUICE:<code>] …; request_id=…", text)
	}
}

func bodies(messages []*v2.Message) []string {
	out := make([]string, len(messages))
	for i, m := range messages {
		out[i] = string(m.GetBody())
	}
	return out
}

// consumerSettings are what a consumer tells at its start.
func consumerSettings(group string, kind v2.ClientType, topics ...string) *v2.Settings {
	sub := &v2.Subscription{Group: named(group)}
	for _, topic := range topics {
		sub.Subscriptions = append(sub.Subscriptions, &v2.SubscriptionEntry{Topic: named(topic), Expression: &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"}})
	}
	return &v2.Settings{
		ClientType: kind.Enum(), AccessPoint: dialled(), RequestTimeout: durationpb.New(3 * time.Second),
		PubSub: &v2.Settings_Subscription{Subscription: sub}, UserAgent: &v2.UA{Language: v2.Language_GOLANG, Version: "5.1.4"},
	}
}

func producerSettings(topics ...string) *v2.Settings {
	p := &v2.Publishing{}
	for _, topic := range topics {
		p.Topics = append(p.Topics, named(topic))
	}
	return &v2.Settings{
		ClientType: v2.ClientType_PRODUCER.Enum(), AccessPoint: dialled(), RequestTimeout: durationpb.New(3 * time.Second),
		PubSub: &v2.Settings_Publishing{Publishing: p}, UserAgent: &v2.UA{Language: v2.Language_GOLANG, Version: "5.1.4"},
	}
}

// telemetry opens a stream and tells settings.
func (c *client) telemetry(settings *v2.Settings) grpc.BidiStreamingClient[v2.TelemetryCommand, v2.TelemetryCommand] {
	c.e.t.Helper()
	ts, err := c.Telemetry(c.ctx())
	if err != nil {
		c.e.t.Fatal(err)
	}
	c.tell(ts, settings)
	return ts
}

func (c *client) tell(ts grpc.BidiStreamingClient[v2.TelemetryCommand, v2.TelemetryCommand], settings *v2.Settings) {
	c.e.t.Helper()
	if err := ts.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: settings}}); err != nil && err != io.EOF { // the server may have ended the stream already
		c.e.t.Fatal(err)
	}
}

// certificate makes a self-signed one for 127.0.0.1.
func certificate(t testing.TB) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}
