package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// gateFS stops reads of the first commit log file until it is opened.
type gateFS struct {
	vfs.FS
	mu     sync.Mutex
	closed bool
	open   chan struct{}
}

type gateFile struct {
	vfs.File
	g *gateFS
}

func (g *gateFS) Open(name string) (vfs.File, error) {
	f, err := g.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, "commitlog/00000000000000000000") {
		return f, err
	}
	return &gateFile{f, g}, nil
}

func (f *gateFile) ReadAt(b []byte, off int64) (int, error) {
	f.g.mu.Lock()
	closed := f.g.closed
	f.g.mu.Unlock()
	if closed {
		<-f.g.open
	}
	return f.File.ReadAt(b, off)
}

// Damaged queues of a long log are built behind the start: the others are
// served meanwhile, appends to all get the right offsets, and reads of those
// that are not there yet say that they may be tried again.
func TestOpen_buildsQueuesBehindTheStart(t *testing.T) {
	for _, gone := range []string{"A", "A/0", ""} {
		t.Run("without "+gone, func(t *testing.T) {
			d := newDamageStore(t)
			cfg := testConfig()
			cfg.RebuildBehind = 1000
			disk := d.disk.CrashClone(1, 1)
			if err := disk.RemoveAll("/store/consumequeue/" + gone); err != nil {
				t.Fatal(err)
			}
			g := &gateFS{FS: disk, open: make(chan struct{})}
			s, err := Open(cfg, Deps{FS: g, Now: later, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			arrived := make(chan Arrival, 100)
			s.OnArrival(func(a Arrival) {
				if a.Topic == "A" && a.QueueID == 0 {
					arrived <- a
				}
			})
			if q := s.findQueue("A", 0); !q.building.Load() {
				t.Fatal("the queue is not being built")
			}
			g.mu.Lock()
			g.closed = true
			g.mu.Unlock()
			ran := make(chan error, 1)
			run, stop := context.WithCancel(ctx)
			defer stop()
			go func() { ran <- s.Run(run) }()

			var next int64
			for _, m := range d.all {
				if m.topic == "A" && m.queue == 0 {
					next = m.offset + 1
				}
			}
			if lo, hi := s.QueueOffsets("A", 0); lo != 0 || hi != next {
				t.Errorf("the queue is told to be from %d to %d, want 0 to %d", lo, hi, next)
			}
			if _, err := s.Read("A", 0, 0, ReadOptions{}); !errors.Is(err, ErrBuilding) {
				t.Errorf("read: %v", err)
			}
			if _, err := s.OffsetByTime("A", 0, 1, BoundaryLower); !errors.Is(err, ErrBuilding) {
				t.Errorf("offset by time: %v", err)
			}
			for i := range int64(3) {
				if a, err := s.Append(ctx, msg("A", 0, fmt.Sprintf("new%d", i)), DurabilitySync); err != nil || a.QueueOffset != next+i {
					t.Fatalf("append: %+v, %v; want %d", a, err, next+i)
				}
			}
			if b, err := s.Read("B", 0, 20, ReadOptions{MaxMessages: 1}); gone != "" && (err != nil || b.Status != ReadFound) {
				t.Errorf("another queue: %v, %v", b.Status, err)
			}
			if err := s.saveProgress(true); err != nil {
				t.Fatal(err)
			}
			// A power cut now: the next start knows that the queue is not whole.
			crashed, _, err := d.open(disk.CrashClone(1, 1), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := crashed.finishRebuild(ctx); err != nil {
				t.Fatal(err)
			}
			if err := d.served(crashed, none); err != nil {
				t.Errorf("after a power cut: %v", err)
			}
			if lo, hi := crashed.QueueOffsets("A", 0); lo != 0 || hi != next+3 {
				t.Errorf("after a power cut: from %d to %d", lo, hi)
			}
			crashed.Close()

			close(g.open)
			for a := range arrived {
				if a.NextOffset == next+3 {
					break
				}
			}
			if err := d.readable(s, none); err != nil {
				t.Error(err)
			}
			if got := bodies(t, s, "A", 0); len(got) != int(next)+3 || got[next+2] != "new2" {
				t.Errorf("%d messages", len(got))
			}
			stop()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if ok, _ := vfs.Exists(disk, "/store/abort"); ok {
				t.Error("the stop was not clean")
			}
			if s, _, err = d.open(disk, cfg); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := d.served(s, none); err != nil {
				t.Errorf("opened again: %v", err)
			}
		})
	}
}

// A stop in the middle leaves the mark of an unclean one, and the next start
// builds the queues again.
func TestClose_whileQueuesAreBuilt(t *testing.T) {
	d := newDamageStore(t)
	cfg := testConfig()
	cfg.RebuildBehind = 1000
	disk := d.disk.CrashClone(1, 1)
	if err := disk.RemoveAll("/store/consumequeue"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s, _, err := d.open(disk, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(ctx, msg("A", 1, "x"), DurabilitySync); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if ok, _ := vfs.Exists(disk, "/store/abort"); !ok {
			t.Fatal("the next start will not look")
		}
	}
	s, _, err := d.open(disk, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.finishRebuild(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.served(s, none); err != nil {
		t.Error(err)
	}
	if lo, hi := s.QueueOffsets("A", 1); lo != 0 || hi != 32+2 {
		t.Errorf("from %d to %d", lo, hi)
	}
}

// A queue that got records since the checkpoint and turns out to lack a part
// goes on counting where it was, also while it is built behind the start.
func TestOpen_queueToBeBuiltThatTheScanMet(t *testing.T) {
	cfg := testConfig()
	disk := vfs.NewMem(nil)
	s, err := Open(cfg, Deps{FS: disk})
	mustDo(t, err)
	mustDo(t, s.PutTopic(DefaultTopicConfig("A")))
	add := func(s *Store, body string) Appended {
		t.Helper()
		a, err := s.Append(ctx, msg("A", 0, body), DurabilitySync)
		mustDo(t, err)
		return a
	}
	for i := range 200 {
		add(s, fmt.Sprint(i, strings.Repeat("b", 350)))
	}
	mustDo(t, s.dispatch(ctx, s.visible()))
	mustDo(t, s.saveProgress(true))
	for i := range 5 {
		add(s, fmt.Sprint("late", i))
	}
	crashed := disk.CrashClone(1, 1)
	mustDo(t, s.Close())
	mustDo(t, crashed.Remove("/store/consumequeue/A/0/00000000000000000000"))

	cfg.RebuildBehind = 1000
	s, err = Open(cfg, Deps{FS: crashed})
	mustDo(t, err)
	defer s.Close()
	if !s.findQueue("A", 0).building.Load() || s.Metrics().BuildingQueues != 1 {
		t.Fatalf("the queue is not being built, %d are", s.Metrics().BuildingQueues)
	}
	if a := add(s, "new"); a.QueueOffset != 205 {
		t.Errorf("the next message got offset %d, want 205", a.QueueOffset)
	}
	mustDo(t, s.finishRebuild(ctx))
	mustDo(t, s.dispatch(ctx, s.visible()))
	if n := s.Metrics().BuildingQueues; n != 0 {
		t.Errorf("%d queues are being built when it is over", n)
	}
	if got := bodies(t, s, "A", 0); len(got) != 206 || got[204] != "late4" || got[205] != "new" {
		t.Errorf("%d messages", len(got))
	}
}

// What kept queues from being built passes by: they are built then, without a
// start, and nothing is in them twice.
func TestRun_buildsAgainWhatFailed(t *testing.T) {
	for _, layout := range []QueueLayout{LayoutCompatible, LayoutCompact} {
		t.Run(layout.String(), func(t *testing.T) {
			d := newDamageStoreOf(t, layout)
			cfg := testConfig()
			cfg.QueueLayout, cfg.RebuildBehind, cfg.RetentionCheck = layout, 1000, time.Millisecond
			disk := vfs.NewFaults(d.disk.CrashClone(1, 1))
			s, err := Open(cfg, Deps{FS: disk, Now: later})
			mustDo(t, err)
			defer s.Close()
			arrived := make(chan Arrival, 100)
			s.OnArrival(func(a Arrival) { arrived <- a })
			// In the middle, and once before anything was read.
			var reads atomic.Int64
			disk.Set(func(op vfs.Op, name string) (int, error) {
				if op == vfs.OpRead && strings.Contains(name, "commitlog") {
					if n := reads.Add(1); n == 3 || n == 4 {
						return 0, errors.New("EIO")
					}
				}
				return 0, nil
			})
			q := s.findQueue("A", 0)
			s.suspect(q, 0)
			run, stop := context.WithCancel(ctx)
			ran := make(chan error, 1)
			go func() { ran <- s.Run(run) }()
			select {
			case a := <-arrived:
				if a.Topic != "A" || a.NextOffset != 33 {
					t.Errorf("built up to %+v", a)
				}
			case <-time.After(20 * time.Second):
				t.Error("the queue is not built again")
			}
			stop()
			mustDo(t, <-ran)
			if reads.Load() < 5 {
				t.Errorf("only %d reads: nothing failed", reads.Load())
			}
			if s.rebuilding.Load() != nil || q.building.Load() {
				t.Error("the rebuild is not over")
			}
			mustDo(t, d.served(s, none))
		})
	}
}
