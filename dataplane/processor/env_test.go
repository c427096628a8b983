package processor

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/namesrv"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
	"github.com/sluicemq/sluice/dataplane/wire"
)

func TestMain(m *testing.M) {
	rlog.SetLogLevel("fatal")
	code := m.Run()
	// The official client leaves goroutines of its own behind: only a leaked
	// goroutine with a frame of ours counts.
	if err := goleak.Find(); err != nil {
		for _, stack := range strings.Split(err.Error(), " Goroutine ") {
			if strings.Contains(stack, "sluicemq/sluice/") {
				fmt.Fprintln(os.Stderr, "leaked goroutine", stack)
				code = 1
			}
		}
	}
	os.Exit(code)
}

const (
	nsA = "aaaaaaaa"
	nsB = "bbbbbbbb"
)

var systemSecret = []byte("0123456789abcdef0123456789abcdef")

func all(ns string) policy.Scope {
	return policy.Scope{NamespaceID: ns, Permissions: []string{"PUB", "SUB", "MANAGE", "DESCRIBE"}, Topics: []string{"*"}, Groups: []string{"*"}}
}

// env is a whole data plane in this process: policy, name server, broker and
// store, with two tenants A and B that both have topic orders and group g.
type env struct {
	t       testing.TB
	sign    ed25519.PrivateKey
	engine  *policy.Engine
	snap    *policy.Snapshot
	rev     uint64
	core    *broker.Broker
	st      broker.Store
	proc    *Processor
	addr    string // broker
	ns      string // name server
	client  *remoting.Client
	system  *mqclient.Client
	brokers *remoting.Server
}

func newEnv(t testing.TB, change ...func(*broker.Config)) *env {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, sign: private}
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv("SLUICE_TEST_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	e.engine, err = policy.Open(policy.Config{
		Dir: t.TempDir(), Cluster: "c1", SystemSecret: systemSecret, Trusted: []ed25519.PublicKey{public}, Now: time.Now, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.snap = &policy.Snapshot{
		Namespaces: map[string]policy.Namespace{nsA: {TenantID: "ten_a"}, nsB: {TenantID: "ten_b"}},
		Keys: map[string]policy.Key{
			"slk_a": {Secret: "secret-a", TenantID: "ten_a", Scopes: []policy.Scope{all(nsA)}},
			"slk_b": {Secret: "secret-b", TenantID: "ten_b", Scopes: []policy.Scope{all(nsB)}},
			"slk_pub": {Secret: "secret-pub", TenantID: "ten_a", Scopes: []policy.Scope{
				{NamespaceID: nsA, Permissions: []string{"PUB"}, Topics: []string{"orders"}},
			}},
		},
	}
	e.apply()

	nsLn, brokerLn := listen(t), listen(t)
	e.ns, e.addr = nsLn.Addr().String(), brokerLn.Addr().String()
	if e.system, err = mqclient.New(mqclient.Config{Secret: systemSecret}); err != nil {
		t.Fatal(err)
	}
	e.st = openStore(t)
	cfg := broker.DefaultConfig()
	cfg.Dir, cfg.Addr, cfg.StoreHost, cfg.NameServers = "/broker", e.addr, netip.MustParseAddrPort(e.addr), []string{e.ns}
	for _, c := range change {
		c(&cfg)
	}
	e.core, err = broker.New(cfg, broker.Deps{Store: e.st, FS: vfs.NewMem(time.Now), Logger: logger, Registrar: mqclient.Registrar{Client: e.system}})
	if err != nil {
		t.Fatal(err)
	}
	e.proc = New(Deps{Broker: e.core, Policy: e.engine, Logger: logger})
	names := namesrv.New(namesrv.Deps{Policy: e.engine, Logger: logger})
	nsServer, err := remoting.NewServer(remoting.Config{}, nsLn, names, logger)
	if err != nil {
		t.Fatal(err)
	}
	if e.brokers, err = remoting.NewServer(remoting.Config{}, brokerLn, e.proc, logger); err != nil {
		t.Fatal(err)
	}
	if e.client, err = remoting.NewClient(remoting.ClientOptions{}); err != nil {
		t.Fatal(err)
	}
	e.serve(nsServer, names)
	for _, ns := range []string{nsA, nsB} {
		e.putTopic(ns+"%orders", 4)
		e.putGroup(ns + "%g")
	}
	if !e.core.Registered(t.Context()) {
		t.Fatal("the broker did not register")
	}
	return e
}

// serve starts everything and stops it in order when the test ends.
func (e *env) serve(nsServer *remoting.Server, names *namesrv.Server) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 5)
	run := func(fn func() error) { go func() { done <- fn() }() }
	run(nsServer.Serve)
	run(e.brokers.Serve)
	run(func() error { return names.Run(ctx, nsServer.Conns) })
	run(func() error { return e.core.Run(ctx) })
	run(func() error { return e.proc.Run(ctx, e.brokers.Conns) })
	e.t.Cleanup(func() {
		e.core.Drain()
		e.client.Close()
		stop, stopped := context.WithTimeout(context.Background(), 5*time.Second)
		defer stopped()
		if err := e.brokers.Shutdown(stop); err != nil {
			e.t.Errorf("broker did not drain: %v", err)
		}
		cancel()
		e.system.Close()
		nsServer.Close()
		for range cap(done) {
			if err := <-done; err != nil {
				e.t.Errorf("run: %v", err)
			}
		}
		if err := e.core.Close(); err != nil {
			e.t.Errorf("close: %v", err)
		}
	})
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// apply puts the snapshot in force.
func (e *env) apply() {
	e.t.Helper()
	e.rev++
	envelope, err := policy.SealSnapshot(e.sign, "c1", e.rev, e.snap)
	if err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.engine.Apply(envelope); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) putTopic(name string, queues int) {
	e.t.Helper()
	err := e.system.At(e.addr).PutTopic(e.t.Context(), wire.TopicConfig{
		TopicName: name, Perm: store.PermRead | store.PermWrite, ReadQueueNums: int32(queues), WriteQueueNums: int32(queues),
		Attributes: map[string]string{store.AttributeMessageType: "NORMAL"},
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) putGroup(name string) {
	e.t.Helper()
	if err := e.system.At(e.addr).PutGroup(e.t.Context(), mqclient.DefaultGroup(name)); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) secret(key string) []byte {
	if key == policy.SystemKeyID {
		return systemSecret
	}
	return []byte(e.snap.Keys[key].Secret)
}

// frame makes a request signed by key; "" leaves it unsigned.
func (e *env) frame(key string, code int32, ext map[string]string, body []byte) *wire.Frame {
	signed := map[string]string{}
	for k, v := range ext {
		signed[k] = v
	}
	if key != "" {
		policy.SignRemoting(signed, body, key, e.secret(key))
	}
	f := wire.Request(code, body)
	for k, v := range signed {
		f.Ext.Add(k, v)
	}
	return f
}

// call sends a request to the broker.
func (e *env) call(key string, code int32, ext map[string]string, body []byte) *wire.Frame {
	e.t.Helper()
	resp, err := e.client.Invoke(e.t.Context(), e.addr, e.frame(key, code, ext, body))
	if err != nil {
		e.t.Fatalf("code %d: %v", code, err)
	}
	if resp.Code == wire.Success && resp.Ext.Value("queueId") != "" && resp.Ext.Value("recallHandle") == "" { // with one it waits elsewhere
		e.readable(key, resp, code, ext)
	}
	return resp
}

// readable returns once a message that was sent has reached its queue.
func (e *env) readable(key string, resp *wire.Frame, code int32, ext map[string]string) {
	e.t.Helper()
	topic := ext["b"]
	if code == wire.SendMessage {
		topic = ext["topic"]
	}
	if ns := e.snap.Keys[key].Scopes; len(ns) > 0 && !strings.Contains(topic, "%") {
		topic = policy.PhysicalName(ns[0].NamespaceID, topic)
	}
	r := wire.ReadFields(resp.Ext)
	queue, offset := r.Int32("queueId"), r.Int64("queueOffset")
	offset += int64(strings.Count(resp.Ext.Value("msgId"), ","))
	for {
		if _, top := e.st.QueueOffsets(topic, queue); top > offset || r.Err() != nil {
			return
		}
		if e.t.Context().Err() != nil {
			e.t.Fatal("the message never reached its queue")
		}
		runtime.Gosched()
	}
}

// must is call for a request that has to succeed.
func (e *env) must(key string, code int32, ext map[string]string, body []byte) *wire.Frame {
	e.t.Helper()
	resp := e.call(key, code, ext, body)
	if resp.Code != wire.Success {
		e.t.Fatalf("code %d by %s: %d %s", code, key, resp.Code, resp.Remark)
	}
	return resp
}

func sendExt(topic string, queue int32, props ...string) map[string]string {
	h := wire.SendHeader{
		ProducerGroup: "p", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: queue,
		BornTimestamp: 1, MaxReconsumeTimes: -1,
	}
	var p []byte
	for i := 0; i+1 < len(props); i += 2 {
		p = message.AppendProperty(p, props[i], props[i+1])
	}
	h.Properties = string(p)
	return h.Fields(wire.SendMessageV2).Map()
}

func pullExt(group, topic string, queue int32, offset int64) map[string]string {
	h := wire.PullHeader{
		ConsumerGroup: group, Topic: topic, QueueID: queue, QueueOffset: offset, MaxMessages: 32,
		SysFlag: wire.PullFlagSubscription | wire.PullFlagSuspend, Subscription: "*", ExpressionType: "TAG",
		SuspendTimeoutMillis: 10_000, // what was stored can be read a moment later
	}
	return h.Fields().Map()
}

// records decodes a pull body.
func (e *env) records(body []byte) []message.Message {
	e.t.Helper()
	var out []message.Message
	for len(body) > 0 {
		size, _, ok := message.Head(body)
		if !ok || int(size) > len(body) {
			e.t.Fatal("the body is not a row of records")
		}
		m, err := message.Decode(body[:size])
		if err != nil {
			e.t.Fatal(err)
		}
		out = append(out, m)
		body = body[size:]
	}
	return out
}
