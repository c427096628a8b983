package commitlog

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// told is a Waiter that remembers what it was told.
type told struct {
	mu    sync.Mutex
	done  []*Request
	errs  []error
	waker *wakes
}

type wakes struct{ n atomic.Int32 }

func (w *wakes) Wake() { w.n.Add(1) }

func (w *told) Done(r *Request, err error) Waker {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done, w.errs = append(w.done, r), append(w.errs, err)
	if w.waker == nil {
		return nil
	}
	return w.waker
}

// submit is request with a waiter.
func submit(t *testing.T, l *Log, w Waiter, seq *Sequence, body int) (*Request, error) {
	t.Helper()
	r := request(seq, 1, body)
	r.Waiter = w
	return r, l.Submit(r)
}

func TestSubmit_writesTogetherInOrderAndWakesOnce(t *testing.T) {
	mem := vfs.NewFaults(vfs.NewMem(nil))
	l, _ := openLog(t, mem)
	var seq Sequence
	a, b := &told{waker: &wakes{}}, &told{waker: &wakes{}}
	for i := range 6 {
		w := a
		if i >= 4 {
			w = b
		}
		if _, err := submit(t, l, w, &seq, 10); err != nil {
			t.Fatal(err)
		}
	}
	if l.Written() != 0 || len(a.done) != 0 {
		t.Fatal("written before anybody led")
	}
	writes := 0
	mem.Set(func(op vfs.Op, _ string) (int, error) {
		if op == vfs.OpWrite {
			writes++
		}
		return 0, nil
	})
	l.Lead()
	if writes != 1 || len(a.done) != 4 || len(b.done) != 2 || a.waker.n.Load() != 1 || b.waker.n.Load() != 1 {
		t.Fatalf("%d writes, told %d and %d, woken %d and %d times", writes, len(a.done), len(b.done), a.waker.n.Load(), b.waker.n.Load())
	}
	for i, r := range slices.Concat(a.done, b.done) {
		if r.QueueOffset != int64(i) || r.PhysicalOffset != int64(i*(overhead+10)) {
			t.Errorf("request %d is at %d, %d", i, r.QueueOffset, r.PhysicalOffset)
		}
	}
}

// Large requests leave a quarter of the bound to small ones, and those that block
// wait for room.
func TestSubmit_largeOnesDoNotShutOutSmallOnes(t *testing.T) {
	l, err := Open(Config{Dir: "/log", SegmentBytes: 4 << 20, FlushInterval: time.Hour, MaxPendingBytes: 400_000, MaxWait: time.Minute}, testDeps(vfs.NewMem(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Recover(Recovery{Visit: func(int64, *message.Fields, []byte) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	l.Start()
	defer l.Close()
	w := &told{}
	large := func() error { _, err := submit(t, l, w, nil, 100_000); return err }
	for range 2 {
		if err := large(); err != nil {
			t.Fatal(err)
		}
	}
	if err := large(); !errors.Is(err, ErrBusy) {
		t.Fatalf("a third large one: %v", err)
	}
	if _, err := submit(t, l, w, nil, 50_000); err != nil {
		t.Errorf("a small one beside large ones: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Append(t.Context(), request(nil, 1, 100_000)) }()
	for { // until it waits, or was never refused
		l.mu.Lock()
		waits := l.room != nil
		l.mu.Unlock()
		if waits {
			break
		}
		runtime.Gosched()
	}
	l.Lead()
	if err := <-done; err != nil {
		t.Errorf("one that waited for room: %v", err)
	}
}

// What was submitted and never led is written by Stop.
func TestStop_writesWhatWasSubmitted(t *testing.T) {
	l, _ := openLog(t, vfs.NewMem(nil))
	w := &told{}
	if _, err := submit(t, l, w, nil, 10); err != nil {
		t.Fatal(err)
	}
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	if len(w.done) != 1 || w.errs[0] != nil || l.Flushed() != overhead+10 {
		t.Fatalf("told %v, flushed %d", w.errs, l.Flushed())
	}
	if _, err := submit(t, l, w, nil, 10); !errors.Is(err, ErrClosed) {
		t.Errorf("after Stop: %v", err)
	}
}

// The queue is bounded in number, bytes and time, and what is refused leaves no
// hole in its queue.
func TestSubmit_boundsTheQueue_B015(t *testing.T) {
	now := time.Unix(1000, 0)
	deps := testDeps(vfs.NewMem(nil))
	deps.Now = func() time.Time { return now }
	l, err := Open(Config{Dir: "/log", SegmentBytes: segmentBytes, FlushInterval: time.Hour, MaxPending: 3, MaxPendingBytes: 1000, MaxWait: time.Second}, deps)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Recover(Recovery{Visit: func(int64, *message.Fields, []byte) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	l.Start()
	defer l.Close()
	w := &told{}
	var seq Sequence
	if _, err := submit(t, l, w, &seq, 2000); err != nil { // alone it may be larger
		t.Fatal(err)
	}
	if _, err := submit(t, l, w, &seq, 10); !errors.Is(err, ErrBusy) {
		t.Fatalf("beyond MaxPendingBytes: %v", err)
	}
	l.Lead()
	for range 3 {
		if _, err := submit(t, l, w, &seq, 10); err != nil {
			t.Fatal(err)
		}
		now = now.Add(400 * time.Millisecond)
	}
	if _, err := submit(t, l, w, &seq, 10); !errors.Is(err, ErrBusy) {
		t.Fatalf("beyond MaxPending: %v", err)
	}
	l.Lead() // the first of them is 1.2 s old
	if len(w.errs) != 4 || w.errs[0] != nil || !errors.Is(w.errs[1], ErrBusy) || w.errs[2] != nil || w.errs[3] != nil {
		t.Fatalf("told %v", w.errs)
	}
	if _, queueOffs := readAll(t, l); !slices.Equal(queueOffs, []int64{0, 1, 2}) {
		t.Errorf("queue offsets %v", queueOffs)
	}
}

// Nobody sees a record whose writer waits for its sync, nor one behind it,
// until the sync is done; the writers of others are told at once.
func TestSettled_waitsForWhoWaitsForTheSync_B039(t *testing.T) {
	mem := vfs.NewFaults(vfs.NewMem(nil))
	l, _ := openLog(t, mem)
	var seq Sequence
	first := mustAppend(t, l, request(&seq, 1, 10))
	entered, release := make(chan struct{}), make(chan struct{})
	mem.Set(func(op vfs.Op, _ string) (int, error) {
		if op == vfs.OpSync {
			entered <- struct{}{}
			<-release
		}
		return 0, nil
	})
	slow := request(&seq, 1, 10)
	slow.Sync = true
	done := make(chan error, 1)
	go func() { done <- l.Append(t.Context(), slow) }()
	<-entered
	behind := mustAppend(t, l, request(&seq, 1, 10))
	if l.Written() != 3*(overhead+10) || l.Settled() != overhead+10 || first.PhysicalOffset != 0 || behind.PhysicalOffset != 2*(overhead+10) {
		t.Errorf("written %d, settled %d", l.Written(), l.Settled())
	}
	mem.Set(nil)
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if l.Settled() != l.Written() {
		t.Errorf("settled %d of %d after the sync", l.Settled(), l.Written())
	}
}

// A sync that fails while others are being written stops the log, ends nobody
// else, and leaves what waited for it out of sight.
func TestFlush_failsWhileOthersAreWritten(t *testing.T) {
	mem := vfs.NewFaults(vfs.NewMem(nil))
	l, _ := openLog(t, mem)
	mustAppend(t, l, request(nil, 1, 10))
	writing, writes := make(chan struct{}), 0
	mem.Set(func(op vfs.Op, _ string) (int, error) {
		switch op {
		case vfs.OpSync:
			<-writing
			return 0, errors.New("input/output error")
		case vfs.OpWrite:
			if writes++; writes == 2 {
				close(writing)
				for l.Err() == nil { // the test's own time limit ends a wait in vain
					runtime.Gosched()
				}
			}
		}
		return 0, nil
	})
	w := &told{}
	slow := request(nil, 1, 10)
	slow.Sync, slow.Waiter = true, w
	if err := l.Submit(slow); err != nil {
		t.Fatal(err)
	}
	l.Lead()
	if _, err := submit(t, l, w, nil, 10); err != nil {
		t.Fatal(err)
	}
	l.Lead()
	if err := l.Stop(); !errors.Is(err, ErrFailed) {
		t.Errorf("Stop: %v", err)
	}
	failed := 0
	for _, err := range w.errs {
		if errors.Is(err, ErrFailed) {
			failed++
		}
	}
	if len(w.errs) != 2 || failed != 1 {
		t.Errorf("told %v", w.errs)
	}
	if l.Settled() != overhead+10 {
		t.Errorf("settled %d, want the end of the first record, %d", l.Settled(), overhead+10)
	}
}
