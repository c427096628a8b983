package broker

import (
	"context"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

type waitFor struct{ sync.WaitGroup }

// Appended implements store.Waiter.
func (w *waitFor) Appended(store.Appended, error) store.Waker {
	w.Done()
	return nil
}

// BenchmarkTimer parks b.N messages of 200 bytes over ten seconds, takes them
// into the wheel and delivers them, on the disk of the temporary folder:
//
//	takes/s      messages taken into the wheel
//	delivers/s   messages delivered once they are due
//	B/pending    memory that each one takes while it waits
func BenchmarkTimer(b *testing.B) {
	var mu sync.Mutex
	now := time.UnixMilli(timerStart)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	sc := store.DefaultConfig()
	sc.Dir, sc.SegmentBytes, sc.Preallocate = b.TempDir(), 256<<20, false
	sc.StoreHost = netip.MustParseAddrPort("127.0.0.1:10911")
	s, err := store.Open(sc, store.Deps{Now: clock})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	cfg := testConfig()
	cfg.Dir, cfg.TimerDir = b.TempDir(), sc.Dir
	core, err := New(cfg, Deps{Store: s, FS: vfs.OS(), Now: clock})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = core.Close(); cancel(); <-done; _ = s.Close() }()
	if err := s.PutTopic(store.DefaultTopicConfig(topicA)); err != nil {
		b.Fatal(err)
	}
	dispatched := func() {
		for _, end := s.CommitLogRange(); s.Dispatched() < end; {
			time.Sleep(time.Millisecond)
		}
	}
	var wait waitFor
	body := make([]byte, 200)
	for i := range b.N {
		m := &message.Message{Topic: topicA, Body: body, BornTimestamp: timerStart}
		m.Properties = message.AppendProperty(nil, message.KeyTimerDeliverMs, strconv.Itoa(timerStart+60_000+i%10_000))
		wait.Add(1)
		if err := core.Submit(caller, m, nil, &wait); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			core.Lead()
			wait.Wait()
		}
	}
	core.Lead()
	wait.Wait()
	dispatched()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	b.ResetTimer()
	began := time.Now()
	core.timers.tick(b.Context())
	took := time.Since(began)
	b.StopTimer()
	if n := core.TimerStats().Pending; n != int64(b.N) {
		b.Fatalf("%d of %d wait", n, b.N)
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "B/pending")
	mu.Lock()
	now = now.Add(70 * time.Second)
	mu.Unlock()
	b.StartTimer()
	began = time.Now()
	core.timers.tick(b.Context())
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "delivers/s")
	b.ReportMetric(float64(b.N)/took.Seconds(), "takes/s")
	if n := core.TimerStats().Delivered; n != int64(b.N) {
		b.Fatalf("%d of %d were delivered", n, b.N)
	}
}
