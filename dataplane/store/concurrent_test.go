package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Readers see a gapless queue while files roll and expire, on the real disk.
func TestStore_readersWhileFilesRollAndExpire(t *testing.T) {
	cfg := testConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "store")
	cfg.QueueFlush, cfg.Checkpoint, cfg.FlushInterval = 3*time.Millisecond, 7*time.Millisecond, 2*time.Millisecond
	cfg.Retention, cfg.RetentionCheck, cfg.Preallocate = 20*time.Millisecond, 5*time.Millisecond, true
	h := start(t, cfg, Deps{FS: vfs.OS()})
	const queues, each = 3, 400
	var readers, writers sync.WaitGroup
	var read atomic.Int64
	stop := make(chan struct{})
	for q := range int32(queues) {
		readers.Go(func() {
			for at := int64(0); ; {
				b, err := h.Read("T", q, at, ReadOptions{MaxMessages: 20})
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				for _, rec := range b.Records {
					f, err := message.Verify(rec)
					if err != nil || f.QueueOffset < at || b.Status == ReadFound && f.QueueID != q {
						t.Errorf("queue %d at %d: offset %d, %v", q, at, f.QueueOffset, err)
						return
					}
					read.Add(1)
				}
				if b.Status == ReadOffsetTooBig {
					t.Errorf("queue %d: max %d went below %d", q, b.Max, at)
					return
				}
				if b.Status != ReadNoQueue {
					at = b.Next
				}
				b.Release()
				if at >= each {
					return
				}
				select {
				case <-stop:
					if _, hi := h.QueueOffsets("T", q); hi >= each && at >= hi {
						return
					}
				default:
				}
			}
		})
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(q), 5))
			for i := 0; i < each; i++ {
				d := DurabilityAsync
				if rng.IntN(20) == 0 {
					d = DurabilitySync
				}
				if _, err := h.Append(t.Context(), msg("T", q, strings.Repeat("x", rng.IntN(2000))), d); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if read.Load() == 0 {
		t.Error("nothing was read")
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Append(t.Context(), msg("T", 0, "x"), DurabilityDefault); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := h.Read("T", 0, 0, ReadOptions{}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	h = start(t, cfg, Deps{FS: vfs.OS()})
	for q := range int32(queues) {
		if _, hi := h.QueueOffsets("T", q); hi != each {
			t.Errorf("queue %d has %d messages after a restart", q, hi)
		}
	}
}

// With FlushSync and FlushQuorum nothing is readable that a power cut could take
// back.
func TestFlushSync_readableMeansDurable(t *testing.T) {
	for _, mode := range []FlushMode{FlushSync, FlushQuorum} {
		readableMeansDurable(t, mode)
	}
}

func readableMeansDurable(t *testing.T, mode FlushMode) {
	mem := vfs.NewMem(nil)
	cfg := testConfig()
	cfg.Flush = mode
	h := start(t, cfg, Deps{FS: mem})
	for i := range 20 {
		h.append(msg("T", 0, fmt.Sprint(i)))
		h.await("T", 0, int64(i+1))
		crashed, err := Open(cfg, Deps{FS: mem.CrashClone(0, uint64(i))})
		if err != nil {
			t.Fatal(err)
		}
		if got := bodies(t, crashed, "T", 0); len(got) != i+1 {
			t.Fatalf("%d of %d messages", len(got), i+1)
		}
		if err := crashed.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// B030: a stop with messages that are not dispatched needs no repair after.
func TestClose_dispatchesEverything(t *testing.T) {
	mem := vfs.NewMem(nil)
	s, err := Open(testConfig(), Deps{FS: mem}) // never runs
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := s.Append(t.Context(), msg("T", 0, fmt.Sprint(i)), DurabilityAsync); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if ok, _ := vfs.Exists(mem, "/store/abort"); ok {
		t.Fatal("abort file was left")
	}
	h := start(t, testConfig(), Deps{FS: mem})
	if got := bodies(t, h.Store, "T", 0); len(got) != 50 {
		t.Fatalf("%d messages", len(got))
	}
}

// An abort file stays when the stop could not write everything.
func TestClose_failedStopNeedsRecovery(t *testing.T) {
	mem := vfs.NewMem(nil)
	ff := vfs.NewFaults(mem)
	s, err := Open(testConfig(), Deps{FS: ff})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), msg("T", 0, "x"), DurabilitySync); err != nil {
		t.Fatal(err)
	}
	ff.Set(func(op vfs.Op, name string) (int, error) {
		if op == vfs.OpCreate && strings.Contains(name, "consumequeue") {
			return 0, vfs.ErrNoSpace
		}
		return 0, nil
	})
	if err := s.Close(); !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatalf("close: %v", err)
	}
	if ok, _ := vfs.Exists(mem, "/store/abort"); !ok {
		t.Fatal("abort file is gone")
	}
	h := start(t, testConfig(), Deps{FS: mem})
	if got := bodies(t, h.Store, "T", 0); len(got) != 1 {
		t.Fatalf("%q", got)
	}
}

func benchStore(tb testing.TB, flush FlushMode) (*Store, func()) {
	cfg := DefaultConfig()
	cfg.Dir, cfg.Flush = filepath.Join(tb.TempDir(), "store"), flush
	s, err := Open(cfg, Deps{FS: vfs.OS()})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	}
}

func benchMessage() *message.Message {
	m := msg("BenchTopic", 0, "")
	m.Body = bytes.Repeat([]byte("b"), 1024)
	return m
}

// B030: what is in no queue yet does not expire.
func TestRetain_keepsWhatIsNotDispatched(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	mem := vfs.NewMem(clock)
	cfg := testConfig()
	cfg.DiskFreeBytes = 1
	s, err := Open(cfg, Deps{FS: mem, Now: clock}) // never runs
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if _, err := s.Append(t.Context(), msg("T", 0, strings.Repeat("x", 2000)), DurabilityAsync); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(1000 * time.Hour)
	mem.SetSpace(vfs.Space{Total: 1000, Free: 0})
	if err := s.retain(); err != nil {
		t.Fatal(err)
	}
	if first, _ := s.CommitLogRange(); first != 0 {
		t.Fatalf("log begins at %d", first)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mem.SetSpace(vfs.Space{Total: 1000, Free: 900})
	h := start(t, cfg, Deps{FS: mem, Now: clock})
	if got := bodies(t, h.Store, "T", 0); len(got) != 40 {
		t.Fatalf("%d messages", len(got))
	}
}

func BenchmarkAppend1KiB(b *testing.B) {
	for _, mode := range []FlushMode{FlushAsync, FlushSync} {
		for _, parallel := range []int{1, 64} {
			b.Run(fmt.Sprintf("sync=%v/goroutines=%d", mode == FlushSync, parallel), func(b *testing.B) {
				s, stop := benchStore(b, mode)
				defer stop()
				b.SetBytes(1024)
				b.ReportAllocs()
				b.SetParallelism(parallel)
				b.ResetTimer()
				b.RunParallel(func(p *testing.PB) {
					m := benchMessage()
					for p.Next() {
						if _, err := s.Append(b.Context(), m, DurabilityDefault); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

func BenchmarkRead1KiB(b *testing.B) {
	s, stop := benchStore(b, FlushAsync)
	defer stop()
	m := benchMessage()
	const total = 50_000
	for range total {
		if _, err := s.Append(b.Context(), m, DurabilityAsync); err != nil {
			b.Fatal(err)
		}
	}
	for s.Dispatched() < s.clog.Written() {
		runtime.Gosched()
	}
	b.SetBytes(1024)
	b.ReportAllocs()
	at, n := int64(0), 0
	for b.Loop() {
		if n > 0 { // one iteration is one message
			n--
			continue
		}
		batch, err := s.Read("BenchTopic", 0, at, ReadOptions{MaxMessages: 32})
		if err != nil || len(batch.Records) == 0 {
			b.Fatal(batch.Status, err)
		}
		n = len(batch.Records) - 1
		if at = batch.Next; at >= total {
			at = 0
		}
		batch.Release()
	}
}
