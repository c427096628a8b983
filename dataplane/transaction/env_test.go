package transaction

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"net/netip"
	"runtime"
	"sync/atomic"
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
	groupA = "aaaaaaaa%p"
)

var host = netip.MustParseAddrPort("127.0.0.1:10911")

// env is a coordinator over a real store, both on memory, with a clock that
// only the test moves.
type env struct {
	*Coordinator
	t     testing.TB
	st    *store.Store
	fs    vfs.FS
	cfg   Config
	ms    atomic.Int64                // the clock
	heard atomic.Pointer[Coordinator] // who is told of arrivals
	saved map[string]int64            // progress as the last save has it
	live  map[string]int64
	asked []Check
	// answer is what Ask says; gone topics do not exist; deliver may fail.
	answer  Answer
	gone    map[string]bool
	deliver func(*message.Message) error
}

func newEnv(t testing.TB) *env {
	e := &env{
		t: t, fs: vfs.NewMem(time.Now), cfg: Config{First: 6 * time.Second, Period: 30 * time.Second, Checks: 3, MaxAge: time.Hour, MaxOpen: 1000},
		saved: map[string]int64{}, live: map[string]int64{}, answer: Asked, gone: map[string]bool{},
	}
	e.ms.Store(1_800_000_000_000)
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.SegmentBytes, cfg.QueueSegmentBytes, cfg.Preallocate = "/store", 1<<20, 20_000, false
	cfg.IndexSlots, cfg.IndexEntries, cfg.StoreHost = 100, 1000, host
	var err error
	if e.st, err = store.Open(cfg, store.Deps{FS: e.fs, Now: e.now}); err != nil {
		t.Fatal(err)
	}
	e.st.OnArrival(func(a store.Arrival) {
		if c := e.heard.Load(); c != nil && a.Topic == HalfTopic {
			c.Arrived()
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.st.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, e.st.Close()); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	e.start()
	return e
}

func (e *env) now() time.Time { return time.UnixMilli(e.ms.Load()) }

// Get and Set implement Progress.
func (e *env) Get(topic string) int64         { return e.live[topic] }
func (e *env) Set(topic string, offset int64) { e.live[topic] = offset }

func (e *env) start() {
	e.t.Helper()
	c, err := New(e.cfg, Deps{
		Store: e.st, FS: e.fs, Dir: "/broker", Progress: e, Now: e.now, Logger: slog.New(slog.DiscardHandler), Host: host, OwnerKey: "__OWNER",
		Topic: func(name string) bool { return !e.gone[name] },
		Ask: func(c Check) Answer {
			e.asked = append(e.asked, c)
			return e.answer
		},
		Deliver: func(ctx context.Context, m *message.Message) error {
			if e.deliver != nil {
				if err := e.deliver(m); err != nil {
					return err
				}
			}
			_, err := e.st.Append(ctx, m, store.DurabilityDefault)
			return err
		},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.Coordinator = c
	e.heard.Store(c)
	e.t.Cleanup(func() { _ = c.Close() })
	e.tick()
}

// crash ends the process: what was not saved is gone.
func (e *env) crash() {
	e.live = maps.Clone(e.saved)
	e.start()
}

func (e *env) save() { e.saved = maps.Clone(e.live) }

func (e *env) tick() {
	e.t.Helper()
	e.settle()
	if err := e.Tick(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
}

// settle returns once everything in the log is in its queue.
func (e *env) settle() {
	for {
		if e.st.Metrics().UndispatchedBytes == 0 {
			return
		}
		runtime.Gosched()
	}
}

func (e *env) advance(d time.Duration) {
	e.t.Helper()
	e.ms.Add(d.Milliseconds())
	e.tick()
}

// send sends a half message with a key of its own.
func (e *env) send(key string, props ...string) End {
	e.t.Helper()
	m := &message.Message{Topic: topicA, QueueID: 1, Body: []byte(key), BornTimestamp: e.ms.Load(), BornHost: host, StoreHost: host, SysFlag: message.SysFlagPrepared}
	all := append([]string{message.KeyUniqueKey, key, message.KeyTransactionPrepared, "true", message.KeyProducerGroup, groupA, "__OWNER", "me"}, props...)
	for i := 0; i < len(all); i += 2 {
		m.Properties = message.AppendProperty(m.Properties, all[i], all[i+1])
	}
	a, err := e.Send(e.t.Context(), m)
	if err != nil {
		e.t.Fatal(err)
	}
	return End{HalfOffset: a.QueueOffset, PhysicalOffset: a.PhysicalOffset, Group: groupA}
}

func (e *env) end(x End, r Resolution) error {
	x.Resolution = r
	return e.End(e.t.Context(), x)
}

// bodies reads a queue from its beginning.
func (e *env) bodies(topic string, queue int32) []string {
	e.t.Helper()
	e.settle()
	out := []string{}
	for next := int64(0); ; {
		b, err := e.st.Read(topic, queue, next, store.ReadOptions{})
		if err != nil {
			e.t.Fatal(err)
		}
		for _, rec := range b.Records {
			m, err := message.Decode(rec)
			if err != nil {
				e.t.Fatal(err)
			}
			out = append(out, string(m.Body))
		}
		over := b.Status == store.ReadNotFound || b.Status == store.ReadNoQueue
		next = b.Next
		b.Release()
		if over {
			return out
		}
	}
}

func (e *env) wantBodies(topic string, queue int32, want ...string) {
	e.t.Helper()
	if got := e.bodies(topic, queue); fmt.Sprint(got) != fmt.Sprint(want) {
		e.t.Errorf("%s queue %d holds %v, want %v", topic, queue, got, want)
	}
}

func crcOf(b []byte) []byte { return binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, castagnoli)) }
