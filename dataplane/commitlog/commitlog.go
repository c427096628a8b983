// Package commitlog is the one log that all messages of a broker go to: files
// of equal size, one after the other, named by the offset of their first byte.
//
// It owns placing, writing, syncing, scanning, repairing and deleting; it does
// not know topics or queues beyond the counter that a Request carries. FORMAT.md
// describes the files.
//
// Appends of many goroutines are gathered: whoever finds nobody writing
// becomes the leader and places and writes everything that waits with one
// write; what came meanwhile is written by a goroutine of the log. Offsets are given out
// only by the leader and taken back when its write fails, so a refused append
// leaves no hole. Reads take no lock.
package commitlog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Config shapes a log. SegmentBytes is part of the data.
type Config struct {
	Dir           string
	SegmentBytes  int64
	FlushInterval time.Duration // how long written bytes may stay unsynced
	Preallocate   bool          // make the next file in the background
	// Appends that wait to be written, in number and bytes, and how long one may
	// wait; what is beyond is refused with ErrBusy. 0: 10,000, 64 MiB, no limit.
	MaxPending      int
	MaxPendingBytes int
	MaxWait         time.Duration
}

// Deps are what a log is given; all but Events and Observer are needed.
type Deps struct {
	FS  vfs.FS
	Now func() time.Time
	// Events is told what happens. It must not block nor call the log, and several goroutines call it.
	Events func(Event)
	// Advanced is called after Written or Flushed has grown; it must not block.
	Advanced func()
	Observer Observer
}

// Observer is told how long work took, by the goroutine that did it, so it must
// not block.
type Observer interface {
	// Appended is one request, from Submit until its Waiter is told of success.
	Appended(took time.Duration, bytes int)
	// Wrote is one gathered write with all that belongs to it.
	Wrote(took time.Duration, bytes int64)
	// Synced is one sync of all that was written before.
	Synced(took time.Duration, bytes int64)
}

// unobserved is the Observer of a log without one.
type unobserved struct{}

func (unobserved) Appended(time.Duration, int) {}
func (unobserved) Wrote(time.Duration, int64)  {}
func (unobserved) Synced(time.Duration, int64) {}

// Log is an open commit log. After Open, call Recover once, then Start.
type Log struct {
	cfg  Config
	deps Deps

	segs        atomic.Pointer[[]*segment] // sorted, gapless, never changed in place; the first and the last are no holes
	written     atomic.Int64               // end of what can be read
	writtenTime atomic.Int64               // store time of the last record in front of written
	flushed     atomic.Int64               // end of what is synced
	settled     atomic.Int64               // see Settled
	flushedTime atomic.Int64
	flushedAt   atomic.Int64 // clock time, in ns, up to which everything written is synced

	mu          sync.Mutex
	running     bool          // Start was called and Close was not
	failed      error         // a sync failed
	queue       []*Request    // waiting to be written
	queuedBytes int           // of queue
	room        chan struct{} // closed when the queue got shorter; nil when nobody waits
	leading     bool          // somebody writes
	idle        *sync.Cond    // signalled when leading ends
	syncing     []*Request    // written, waiting for the sync
	flushing    []*Request    // those that the sync under way covers
	spare       []*Request    // memory for the next syncing
	pressure    pressure

	// Owned by the leader.
	buf    []byte
	dirty  bool      // bytes behind written may not be zero
	behind time.Time // since when the clock is far behind; zero while it is not

	allocMu  sync.Mutex
	next     *segment // made ahead of need
	nextBase int64    // where the file after all those that takeNext gave begins

	batches  sync.Pool // of *batch
	flushC   chan struct{}
	leadC    chan struct{}
	prepareC chan struct{}
	stop     chan struct{}
	done     sync.WaitGroup // flushLoop, leadLoop, prepareLoop
}

// Open loads the files of a log; a missing folder is made. It removes an empty
// last file and completes one whose creation was interrupted.
func Open(cfg Config, deps Deps) (*Log, error) {
	if cfg.MaxPending <= 0 {
		cfg.MaxPending = 10_000
	}
	if cfg.MaxPendingBytes <= 0 {
		cfg.MaxPendingBytes = 64 << 20
	}
	if deps.Events == nil {
		deps.Events = func(Event) {}
	}
	if deps.Observer == nil {
		deps.Observer = unobserved{}
	}
	l := &Log{
		cfg: cfg, deps: deps,
		flushC: make(chan struct{}, 1), leadC: make(chan struct{}, 1), prepareC: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	l.idle = sync.NewCond(&l.mu)
	segs, err := l.load()
	if err != nil {
		for _, s := range segs {
			s.release()
		}
		return nil, fmt.Errorf("open commit log %s: %w", cfg.Dir, err)
	}
	l.segs.Store(&segs)
	return l, nil
}

// Start begins the background work; Recover must have been called.
func (l *Log) Start() {
	l.flushedAt.Store(l.deps.Now().UnixNano())
	l.mu.Lock()
	l.running = true
	l.mu.Unlock()
	if segs := *l.segs.Load(); len(segs) > 0 {
		l.allocMu.Lock()
		l.nextBase = segs[len(segs)-1].end()
		l.allocMu.Unlock()
	}
	l.done.Go(l.flushLoop)
	l.done.Go(l.leadLoop)
	if l.cfg.Preallocate {
		l.done.Go(l.prepareLoop)
		poke(l.prepareC)
	}
}

// Stop refuses new appends, waits for those under way, syncs everything and
// ends the background work. Reads go on. The error is that of the last sync.
func (l *Log) Stop() error {
	l.mu.Lock()
	wasRunning := l.running
	l.running = false
	for l.leading {
		l.idle.Wait()
	}
	l.mu.Unlock()
	l.Lead() // what was submitted and never led; nothing is added any more
	l.mu.Lock()
	for l.leading {
		l.idle.Wait()
	}
	l.mu.Unlock()
	if !wasRunning {
		return nil
	}
	close(l.stop)
	l.done.Wait()
	return l.flush()
}

// Close is Stop, and closes the files. It is idempotent.
func (l *Log) Close() error {
	err := l.Stop()
	l.allocMu.Lock()
	next := l.next
	l.next = nil
	l.allocMu.Unlock()
	if next != nil {
		next.release()
		err = errors.Join(err, l.deps.FS.Remove(next.name))
	}
	empty := []*segment{}
	for _, s := range *l.segs.Swap(&empty) {
		s.release()
	}
	return err
}

// Range returns the offset of the first byte and of the next record.
func (l *Log) Range() (min, max int64) {
	max = l.written.Load()
	if segs := *l.segs.Load(); len(segs) > 0 {
		return segs[0].base, max
	}
	return max, max
}

// Written is the end of what can be read.
func (l *Log) Written() int64 { return l.written.Load() }

// Flushed is the end of what is synced.
func (l *Log) Flushed() int64 { return l.flushed.Load() }

// WrittenTime returns the store time of the newest record; 0 when there is none.
func (l *Log) WrittenTime() int64 { return l.writtenTime.Load() }

// FlushedTime is a store time up to which all records are synced.
func (l *Log) FlushedTime() int64 { return l.flushedTime.Load() }

// FlushLag is for how long something may have been written and not synced at the
// clock's time now: since the last good sync began. 0 when all is synced.
func (l *Log) FlushLag(now time.Time) time.Duration {
	at := l.flushedAt.Load()
	if l.flushed.Load() == l.written.Load() || at == 0 {
		return 0
	}
	return max(now.Sub(time.Unix(0, at)), 0)
}

// Waiting is the number of requests that wait to be written, and of the bytes of
// their records.
func (l *Log) Waiting() (requests, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue), l.queuedBytes
}

// Err returns what stopped the log, nil while it works.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// ReadAt fills b from one file; ErrNotFound when the range is not in the log.
func (l *Log) ReadAt(b []byte, off int64) error {
	if off+int64(len(b)) > l.written.Load() {
		return fmt.Errorf("offset %d: %w", off, ErrNotFound)
	}
	s := l.acquire(off)
	if s == nil {
		return fmt.Errorf("offset %d: %w", off, ErrNotFound)
	}
	defer s.release()
	if off+int64(len(b)) > s.end() {
		return fmt.Errorf("offset %d: %w", off, ErrNotFound)
	}
	if _, err := s.file.ReadAt(b, off-s.base); err != nil {
		return fmt.Errorf("read %d bytes at %d: %w", len(b), off, err)
	}
	return nil
}

// Forget says that nobody is expected to read the part of one file soon that
// begins at off: it need not stay in the page cache.
func (l *Log) Forget(off, n int64) {
	if s := l.acquire(off); s != nil {
		s.file.Forget(off-s.base, min(n, s.end()-off))
		s.release()
	}
}

// SegmentEnd returns the offset behind the file that holds off.
func (l *Log) SegmentEnd(off int64) int64 { return off - off%l.cfg.SegmentBytes + l.cfg.SegmentBytes }

// Bases returns the first offsets of all files, oldest first.
func (l *Log) Bases() []int64 {
	segs := *l.segs.Load()
	bases := make([]int64, 0, len(segs))
	for _, s := range segs {
		if !s.hole() {
			bases = append(bases, s.base)
		}
	}
	return bases
}

// poke wakes the owner of c, if it is not awake already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
