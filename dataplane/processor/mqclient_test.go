package processor

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/namesrv"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/vfs"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// pushHandler answers nothing and hands pushes to fn.
func pushHandler(fn func(*wire.Frame)) remoting.Handler {
	return remoting.HandlerFunc(func(_ context.Context, _ *remoting.Conn, f *wire.Frame) *wire.Frame {
		fn(f)
		return nil
	})
}

// TestSystemClient drives every call of mqclient against a real broker.
func TestSystemClient(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	b, ns := e.system.At(e.addr), e.system.At(e.ns)
	topic := nsA + "%made"
	e.putTopic(topic, 2)
	route, ok, err := ns.Route(ctx, topic)
	if err != nil || !ok || route.QueueDatas[0].WriteQueueNums != 2 || route.BrokerDatas[0].BrokerAddrs["0"] != e.addr {
		t.Fatalf("a topic is routable when PutTopic returns: %+v, %t, %v", route, ok, err)
	}
	if cluster, err := ns.Cluster(ctx); err != nil || len(cluster.BrokerAddrTable) != 1 {
		t.Errorf("cluster: %+v, %v", cluster, err)
	}
	topics, version, err := b.Topics(ctx)
	if err != nil || topics[topic].Attributes["message.type"] != "NORMAL" || version == (wire.DataVersion{}) {
		t.Errorf("topics: %+v %+v, %v", topics[topic], version, err)
	}
	groups, _, err := b.Groups(ctx)
	if err != nil || groups[nsA+"%g"].RetryMaxTimes != 16 {
		t.Errorf("groups: %+v, %v", groups, err)
	}
	sent, err := b.Send(ctx, mqclient.SendRequest{Topic: topic, QueueID: 1, Body: []byte("hello"), Actor: "usr_1", Born: time.Now()})
	if err != nil || sent.QueueID != 1 || sent.UniqueKey == "" {
		t.Fatalf("send: %+v, %v", sent, err)
	}
	got, err := b.Pull(ctx, mqclient.PullRequest{Topic: topic, QueueID: 1, Hold: time.Second})
	if err != nil || len(got.Messages) != 1 || string(got.Messages[0].Body) != "hello" || got.Next != 1 {
		t.Fatalf("pull: %+v, %v", got, err)
	}
	if v, _ := got.Messages[0].Property("__SLUICE"); v != "usr_1,h" {
		t.Errorf("owner %q", v)
	}
	m, err := b.View(ctx, got.Messages[0].PhysicalOffset)
	if err != nil || m.Topic != topic {
		t.Errorf("view: %+v, %v", m, err)
	}
	if most, err := b.MaxOffset(ctx, topic, 1); err != nil || most != 1 {
		t.Errorf("max: %d, %v", most, err)
	}
	if least, err := b.MinOffset(ctx, topic, 1); err != nil || least != 0 {
		t.Errorf("min: %d, %v", least, err)
	}
	if at, err := b.OffsetByTime(ctx, topic, 1, time.Now().Add(time.Hour)); err != nil || at != 1 {
		t.Errorf("by time: %d, %v", at, err)
	}
	if err := b.CommitOffset(ctx, nsA+"%g", topic, 1, 1); err != nil {
		t.Error(err)
	}
	stats, err := b.GroupStats(ctx, nsA+"%g", "")
	if err != nil || len(stats) != 2 || stats[0].Topic != topic {
		t.Errorf("group stats: %+v, %v", stats, err)
	}
	if queues, err := b.TopicStats(ctx, topic); err != nil || len(queues) != 2 {
		t.Errorf("topic stats: %+v, %v", queues, err)
	}
	if online, err := b.Consumers(ctx, nsA+"%g"); err != nil || len(online.Connections) != 0 {
		t.Errorf("consumers: %+v, %v", online, err)
	}
	policyCalls(t, e, b)
	if _, _, err := b.Usage(ctx); !isCode(err, wire.RequestCodeNotSupported) {
		t.Errorf("usage without a meter: %v", err)
	}
	if err := b.DeleteTopic(ctx, topic); err != nil {
		t.Error(err)
	}
	if !e.core.Registered(ctx) {
		t.Error("registration failed")
	}
	if _, ok, err := ns.Route(ctx, topic); ok || err != nil {
		t.Errorf("a deleted topic is routed: %t, %v", ok, err)
	}
	if err := b.DeleteGroup(ctx, nsA+"%g", true); err != nil {
		t.Error(err)
	}
	if err := b.PutTopic(ctx, wire.TopicConfig{TopicName: "../x", Perm: 6, ReadQueueNums: 1, WriteQueueNums: 1}); err == nil {
		t.Error("a path was made a topic")
	}
}

func isCode(err error, want int32) bool {
	code, ok := mqclient.CodeOf(err)
	return ok && code == want
}

func policyCalls(t *testing.T, e *env, n mqclient.Node) {
	t.Helper()
	delta, err := policy.SealDelta(e.sign, "c1", e.rev+5, e.rev+6, &policy.Delta{})
	if err != nil {
		t.Fatal(err)
	}
	if rev, err := n.ApplyPolicy(t.Context(), delta); !errors.Is(err, mqclient.ErrPolicyStale) || rev != e.rev {
		t.Errorf("stale delta: %d, %v", rev, err)
	}
	snap, err := policy.SealSnapshot(e.sign, "c1", e.rev+1, e.snap)
	if err != nil {
		t.Fatal(err)
	}
	if rev, err := n.ApplyPolicy(t.Context(), snap); err != nil || rev != e.rev+1 {
		t.Errorf("snapshot: %d, %v", rev, err)
	}
	if rev, hash, err := n.PolicyStatus(t.Context()); err != nil || rev != e.rev+1 || hash != e.engine.Hash() {
		t.Errorf("status: %d %s, %v", rev, hash, err)
	}
	if _, err := n.ApplyPolicy(t.Context(), []byte("{}")); err == nil {
		t.Error("garbage was applied")
	}
	if rev, _, err := e.system.At(e.ns).PolicyStatus(t.Context()); err != nil || rev != e.rev+1 {
		t.Errorf("name server's status: %d, %v", rev, err)
	}
}

// A name server that restarted knows the broker again at once, not a period
// later.
func TestRegistration_comesBackAfterNameServerRestart(t *testing.T) {
	e := newEnv(t)
	registered := make(chan struct{}, 16)
	start := func(addr string) *remoting.Server {
		t.Helper()
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		names := namesrv.New(namesrv.Deps{Policy: e.engine})
		srv, err := remoting.NewServer(remoting.Config{}, ln, remoting.HandlerFunc(func(ctx context.Context, c *remoting.Conn, f *wire.Frame) *wire.Frame {
			resp := names.Handle(ctx, c, f)
			if f.Code == wire.RegisterBroker && resp.Code == wire.Success {
				registered <- struct{}{}
			}
			return resp
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- srv.Serve() }()
		t.Cleanup(func() {
			srv.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return srv
	}
	first := start("127.0.0.1:0")
	addr := first.Addr().String()
	cfg := e.core.Config()
	cfg.NameServers, cfg.RegisterPeriod = []string{addr}, time.Hour
	core, err := broker.New(cfg, broker.Deps{Store: openStore(t), FS: vfs.NewMem(time.Now), Registrar: mqclient.Registrar{Client: e.system}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- core.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		core.Close()
	})
	<-registered
	first.Close()
	start(addr)
	<-registered
}
