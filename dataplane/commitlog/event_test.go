package commitlog

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// events keeps what happened.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) add(one Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, one)
}

// take returns what happened since the last take.
func (e *events) take() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

// openEvents opens a log with a clock that the test moves.
func openEvents(t *testing.T, fsys vfs.FS, cfg Config, now func() time.Time) (*Log, *events) {
	t.Helper()
	seen := &events{}
	cfg.Dir, cfg.SegmentBytes, cfg.FlushInterval = "/log", segmentBytes, time.Hour
	l, err := Open(cfg, Deps{FS: fsys, Now: now, Events: seen.add, Advanced: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Recover(Recovery{Visit: func(int64, *message.Fields, []byte) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	l.Start()
	t.Cleanup(func() { l.Close() })
	return l, seen
}

func wantEvents(t *testing.T, seen *events, want ...Event) {
	t.Helper()
	if got := seen.take(); !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		t.Errorf("happened %+v, want %+v", got, want)
	}
}

func TestEvents_filesComeAndGo(t *testing.T) {
	l, seen := openEvents(t, vfs.NewMem(nil), Config{}, time.Now)
	body := segmentBytes - message.BlankBytes - overhead // one record fills a file
	mustAppend(t, l, request(nil, 1, body))
	wantEvents(t, seen, SegmentCreated{0, segmentBytes})
	mustAppend(t, l, request(nil, 1, body))
	wantEvents(t, seen, SegmentCreated{segmentBytes, segmentBytes}, SegmentSealed{0, segmentBytes})
	mustAppend(t, l, request(nil, 1, body))
	seen.take()
	if _, err := l.Expire(time.Now().Add(time.Hour), l.Written(), 1); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, seen, SegmentRemoved{0, segmentBytes, RemovedByAge})
	if _, err := l.DropOldest(l.Written(), RemovedEarly); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, seen, SegmentRemoved{segmentBytes, segmentBytes, RemovedEarly})
}

func TestEvents_slowAndFailedSync(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	ff := vfs.NewFaults(vfs.NewMem(nil))
	l, seen := openEvents(t, ff, Config{}, func() time.Time { return now })
	mustAppend(t, l, request(nil, 1, 10))
	seen.take()
	sync := func(takes time.Duration, fails error) {
		ff.Set(func(op vfs.Op, _ string) (int, error) {
			if op != vfs.OpSync {
				return 0, nil
			}
			now = now.Add(takes)
			return 0, fails
		})
	}
	sync(SlowFlush-1, nil)
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, seen)
	size := mustAppend(t, l, request(nil, 1, 10)).Records
	sync(SlowFlush, nil)
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, seen, FlushSlow{SlowFlush, int64(len(size))})
	mustAppend(t, l, request(nil, 1, 10))
	sync(0, errors.New("injected"))
	for range 3 { // the log stands still, and says so once
		if err := l.flush(); !errors.Is(err, ErrFailed) {
			t.Fatal(err)
		}
	}
	got := seen.take()
	if f, ok := got[0].(FlushFailed); len(got) != 1 || !ok || !errors.Is(f.Err, ErrFailed) {
		t.Errorf("happened %+v", got)
	}
}

func TestEvents_pressureIsOneEpisode(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l, seen := openEvents(t, vfs.NewMem(nil), Config{MaxPending: 1}, func() time.Time { return now })
	mustAppend(t, l, request(nil, 1, 10))
	seen.take()
	w := &told{}
	var size int
	for range 5 {
		if r, err := submit(t, l, w, nil, 10); err == nil {
			size = len(r.Records)
		} else if !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		l.relax()
		now = now.Add(calmTime / 10)
	}
	wantEvents(t, seen, BackpressureBegan{1, size})
	l.Lead()
	l.relax()
	wantEvents(t, seen)
	now = now.Add(calmTime)
	l.relax()
	wantEvents(t, seen, BackpressureEnded{4, 3 * calmTime / 10})
	if _, err := submit(t, l, w, nil, 10); err != nil {
		t.Fatal(err)
	}
	l.Lead()
	l.relax()
	wantEvents(t, seen)
}

// rude is a Waiter with a defect.
type rude struct{}

func (rude) Done(*Request, error) Waker { panic("defect") }

// A waiter that panics takes down neither the process nor the log.
func TestSubmit_waiterPanics(t *testing.T) {
	l, seen := openEvents(t, vfs.NewMem(nil), Config{}, time.Now)
	var seq Sequence
	w := &told{waker: &wakes{}}
	for _, waiter := range []Waiter{w, rude{}, w} {
		if _, err := submit(t, l, waiter, &seq, 10); err != nil {
			t.Fatal(err)
		}
	}
	l.Lead()
	if len(w.done) != 2 || w.waker.n.Load() != 2 {
		t.Errorf("%d others were told, and woken %d times; want 2 and 2", len(w.done), w.waker.n.Load())
	}
	panicked := 0
	for _, e := range seen.take() {
		if p, ok := e.(WaiterPanicked); ok && p.Value == "defect" && p.Stack != "" {
			panicked++
		}
	}
	if r := mustAppend(t, l, request(&seq, 1, 10)); r.QueueOffset != 3 || panicked != 1 {
		t.Errorf("the next one is at %d, want 3; %d panics were told of, want 1", r.QueueOffset, panicked)
	}
}
