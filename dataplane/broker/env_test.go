package broker

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topicA = "aaaaaaaa%orders"
	groupA = "aaaaaaaa%g"
)

// env is a broker core over a store, both on one in-memory disk.
type env struct {
	*Broker
	t  testing.TB
	st Store
	fs vfs.FS
}

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Dir = "/broker"
	cfg.Addr = "127.0.0.1:10911"
	cfg.StoreHost = netip.MustParseAddrPort("127.0.0.1:10911")
	return cfg
}

// newEnv opens a broker with topicA (2 queues) and groupA.
func newEnv(t testing.TB) *env {
	t.Helper()
	e := &env{t: t, st: openStore(t), fs: vfs.NewMem(time.Now)}
	e.open(testConfig())
	e.putTopic(topicA, 2)
	e.putGroup(groupA)
	return e
}

func (e *env) open(cfg Config) {
	e.t.Helper()
	b, err := New(cfg, Deps{Store: e.st, FS: e.fs})
	if err != nil {
		e.t.Fatal(err)
	}
	e.Broker = b
	e.t.Cleanup(func() { b.Close() })
}

// restart opens a new core on the same store and disk, as after kill -9: the
// old one saved nothing at its end.
func (e *env) restart() {
	e.t.Helper()
	e.open(testConfig())
}

// run starts the periodic work until the test ends.
func (e *env) run() {
	ctx, cancel := context.WithCancel(e.t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	e.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			e.t.Errorf("Run: %v", err)
		}
	})
}

func (e *env) putTopic(name string, queues int) {
	e.t.Helper()
	t := store.DefaultTopicConfig(name)
	t.ReadQueueNums, t.WriteQueueNums = queues, queues
	if err := e.PutTopic(e.t.Context(), t); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) putGroup(name string) {
	e.t.Helper()
	if err := e.PutGroup(e.t.Context(), store.DefaultGroupConfig(name)); err != nil {
		e.t.Fatal(err)
	}
}

var caller = Caller{KeyID: "slk_a", NamespaceID: "aaaaaaaa", Protocol: ProtocolRemoting}

func msg(topic string, queue int32, body string, props ...string) *message.Message {
	m := &message.Message{Topic: topic, QueueID: queue, Body: []byte(body), BornTimestamp: 1}
	for i := 0; i+1 < len(props); i += 2 {
		m.Properties = message.AppendProperty(m.Properties, props[i], props[i+1])
	}
	return m
}

func (e *env) send(m *message.Message) Sent {
	e.t.Helper()
	s, err := e.Send(e.t.Context(), caller, m, -1)
	if err != nil {
		e.t.Fatal(err)
	}
	e.readable(m.Topic, s.QueueID, s.QueueOffset)
	return s
}

// readable returns once a message has reached its queue.
func (e *env) readable(topic string, queue int32, offset int64) {
	e.t.Helper()
	for {
		if _, top := e.st.QueueOffsets(topic, queue); top > offset {
			return
		}
		if e.t.Context().Err() != nil {
			e.t.Fatal("the message never reached its queue")
		}
		runtime.Gosched()
	}
}

func (e *env) sendN(n int) {
	e.t.Helper()
	for i := range n {
		e.send(msg(topicA, 0, fmt.Sprint("m", i)))
	}
}

func bodyOf(t testing.TB, rec []byte) string {
	t.Helper()
	m, err := message.Decode(rec)
	if err != nil {
		t.Fatal(err)
	}
	return string(m.Body)
}

func bodies(t testing.TB, got []Received) []string {
	t.Helper()
	out := []string{}
	for _, r := range got {
		out = append(out, bodyOf(t, r.Record))
	}
	return out
}

// pulled is one answer of Pull.
type pulled struct {
	Pulled
	err error
}

func (e *env) pull(p Pull) pulled {
	e.t.Helper()
	ch := make(chan pulled, 1)
	p.Who = caller
	e.Pull(p, func(out Pulled, err error) { ch <- pulled{out, err} })
	return <-ch
}

// take receives at once.
func (e *env) take(n int, invisible time.Duration) []Received {
	e.t.Helper()
	got, err := e.Receive(e.t.Context(), Receive{Who: caller, Group: groupA, Topic: topicA, Max: n, Invisible: invisible})
	if err != nil {
		e.t.Fatal(err)
	}
	return got
}
