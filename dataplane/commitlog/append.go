package commitlog

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Sequence counts the messages of one queue; its values are given out in the
// order of the log.
type Sequence struct{ next atomic.Int64 }

// Set gives the next value; only while no append with this sequence is under way.
func (s *Sequence) Set(next int64) { s.next.Store(next) }

// Raise makes the next value at least min.
func (s *Sequence) Raise(min int64) {
	for next := s.next.Load(); next < min && !s.next.CompareAndSwap(next, min); next = s.next.Load() {
	}
}

// Next returns the value that the next message will get.
func (s *Sequence) Next() int64 { return s.next.Load() }

// Request is one append. It may be used again when it is done.
type Request struct {
	// Records are one or more encoded records back to back. They are stored
	// contiguously, all or none; the log patches their offsets and store time.
	Records []byte
	Count   int
	// Sequence gives the queue offsets; nil stores queue offset 0 without counting.
	Sequence *Sequence
	Sync     bool // wait for the sync that covers the records
	// Waiter is told once when the request is done. Append sets it.
	Waiter Waiter

	// Results: where the first record went. Records follow each other.
	PhysicalOffset, QueueOffset, StoreTimestamp int64

	state  requestState // guarded by Log.mu
	queued time.Time
	err    error
	done   blocked // of Append
}

// Waiter waits for a request.
type Waiter interface {
	// Done says that the request is stored with the durability asked for, or
	// not at all when err is not nil; see Append for the errors. It runs on the
	// goroutine that writes for everybody and must not block. What it returns,
	// nil for nothing, is woken after others that were written together with
	// this request were told, once for all of them in a row that return the same.
	Done(r *Request, err error) Waker
}

// Waker is something that wants to know when a row of requests is done.
type Waker interface{ Wake() }

type requestState uint8

const (
	stateQueued requestState = iota
	stateWriting
	stateSyncing
	stateAbandoned
)

// Abandoned reports that Append gave up waiting for the sync: the log still
// holds the request.
func (r *Request) Abandoned() bool { return r.state == stateAbandoned }

// maxBatchBytes is how much one write gathers; a single request may be larger.
const maxBatchBytes = 1 << 20

type batch struct{ reqs []*Request }

// Submit hands over r, which belongs to the log until its Waiter is told.
// Nothing is written before somebody calls Lead. With an error the log does not
// have r: ErrBusy, ErrTooLarge, ErrFailed, ErrClosed.
func (l *Log) Submit(r *Request) error {
	err := l.submit(r)
	if errors.Is(err, ErrBusy) {
		l.refused(r.queued, 1)
	}
	return err
}

func (l *Log) submit(r *Request) error {
	if int64(len(r.Records))+message.BlankBytes > l.cfg.SegmentBytes {
		return fmt.Errorf("%d bytes: %w", len(r.Records), ErrTooLarge)
	}
	r.state, r.err, r.queued = stateQueued, nil, l.deps.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.running:
		return ErrClosed
	case l.failed != nil:
		return l.failed
	case len(l.queue) >= l.cfg.MaxPending:
		return fmt.Errorf("%d appends are waiting: %w", l.cfg.MaxPending, ErrBusy)
	case !l.roomLocked(len(r.Records)):
		return fmt.Errorf("%d bytes are waiting to be appended: %w", l.queuedBytes, ErrBusy)
	}
	l.queue = append(l.queue, r)
	l.queuedBytes += len(r.Records)
	return nil
}

// smallRecords is up to where a request finds room when large ones have filled
// their part of MaxPendingBytes, so that who sends little is not shut out by who
// sends much.
const smallRecords = 64 << 10

func (l *Log) roomLocked(n int) bool {
	limit := l.cfg.MaxPendingBytes
	if n > smallRecords {
		limit -= limit / 4
	}
	return l.queuedBytes+n <= limit || len(l.queue) == 0
}

// awaitRoom blocks until a large request may find room; false when it is small,
// or nothing moved for MaxWait, or ctx ended.
func (l *Log) awaitRoom(ctx context.Context, n int) bool {
	if n <= smallRecords || l.cfg.MaxWait <= 0 {
		return false
	}
	l.mu.Lock()
	if l.roomLocked(n) {
		l.mu.Unlock()
		return true
	}
	if l.room == nil {
		l.room = make(chan struct{})
	}
	moved := l.room
	l.mu.Unlock()
	t := time.NewTimer(l.cfg.MaxWait)
	defer t.Stop()
	select {
	case <-moved:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// Lead writes what was submitted, unless somebody does already: the caller
// writes once for everybody, and what came meanwhile is left to a goroutine of
// the log.
func (l *Log) Lead() {
	l.mu.Lock()
	if l.leading || len(l.queue) == 0 {
		l.mu.Unlock()
		return
	}
	l.leading = true
	l.mu.Unlock()
	if l.lead() {
		poke(l.leadC)
	}
}

// leadLoop goes on leading where a Lead left off. It ends when stop is closed.
func (l *Log) leadLoop() {
	for {
		select {
		case <-l.stop:
			return
		case <-l.leadC:
		}
		for l.lead() {
		}
	}
}

// blocked is the Waiter of an Append.
type blocked chan error

func (b blocked) Done(_ *Request, err error) Waker {
	b <- err
	return nil
}

// Append stores the records of r and blocks until they are written, with Sync
// until they are synced. Large ones wait for room before they are refused. When ctx ends earlier, requests that were not begun
// are taken back; one that waits for its sync stays stored and is Abandoned.
// Errors: ErrDiskFull, ErrBusy, ErrTooLarge, ErrFailed, ErrClosed, ctx.Err(),
// or another error of the file system; nothing is stored then, except with
// ErrFailed or Abandoned, where it may be.
func (l *Log) Append(ctx context.Context, r *Request) error {
	if r.done == nil {
		r.done = make(blocked, 1)
	}
	done := r.done
	r.Waiter = done
	for {
		err := l.submit(r)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrBusy) {
			return err
		}
		if !l.awaitRoom(ctx, len(r.Records)) {
			l.refused(r.queued, 1)
			return err
		}
	}
	l.Lead()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if l.withdraw(r) {
			return ctx.Err()
		}
		return <-done // it is being written; that does not take long
	}
}

// withdraw takes r out of the queue or gives up its sync; false when r is
// being written or done.
func (l *Log) withdraw(r *Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch r.state {
	case stateQueued:
		for i, q := range l.queue {
			if q == r {
				l.queue = append(l.queue[:i], l.queue[i+1:]...)
				l.queuedBytes -= len(r.Records)
				return true
			}
		}
	case stateSyncing:
		r.state = stateAbandoned
		return true
	}
	return false
}

// lead writes what waits, as much as one write gathers, and reports whether
// more came meanwhile: then the caller still leads, or has to pass it on. Only
// the holder of Log.leading may call it.
func (l *Log) lead() (more bool) {
	b, _ := l.batches.Get().(*batch)
	if b == nil {
		b = &batch{}
	}
	l.mu.Lock()
	size, n := 0, 0
	for n < len(l.queue) && (n == 0 || size+len(l.queue[n].Records) <= maxBatchBytes) {
		size += len(l.queue[n].Records)
		l.queue[n].state = stateWriting
		n++
	}
	b.reqs = append(b.reqs[:0], l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	l.queuedBytes -= size
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
	failed := l.failed
	l.mu.Unlock()

	// The oldest stand first: who waited too long would be answered when nobody
	// listens any more, and hold up all the others.
	late, began, from := 0, l.deps.Now(), l.written.Load()
	if l.cfg.MaxWait > 0 {
		for late < n && began.Sub(b.reqs[late].queued) > l.cfg.MaxWait {
			late++
		}
		if late > 0 {
			l.refused(began, late)
			fail(b.reqs[:late], fmt.Errorf("waited longer than %v to be written: %w", l.cfg.MaxWait, ErrBusy))
		}
	}
	switch {
	case failed != nil:
		fail(b.reqs, failed)
	case late < n:
		l.write(b.reqs[late:], began)
	}
	done := l.deps.Now()
	if end := l.written.Load(); end > from {
		l.deps.Observer.Wrote(done.Sub(began), end-from)
	}

	l.mu.Lock()
	syncs := false
	for i, r := range b.reqs {
		if r.err == nil && r.Sync {
			r.state = stateSyncing
			l.syncing = append(l.syncing, r)
			b.reqs[i] = nil
			syncs = true
		}
	}
	l.settleLocked()
	more = len(l.queue) > 0
	if !more {
		l.leading = false
		l.idle.Broadcast()
	}
	l.mu.Unlock()
	if syncs {
		poke(l.flushC)
	}
	l.tell(b.reqs, done)
	clear(b.reqs)
	l.batches.Put(b)
	l.deps.Advanced()
	return more
}

// tell ends requests at a time; nil ones are passed over.
func (l *Log) tell(reqs []*Request, now time.Time) {
	var row Waker
	for _, r := range reqs {
		if r == nil {
			continue
		}
		if r.err == nil {
			l.deps.Observer.Appended(now.Sub(r.queued), len(r.Records))
		}
		next := l.tellOne(r)
		if row != nil && row != next {
			row.Wake()
		}
		row = next
	}
	if row != nil {
		row.Wake()
	}
}

// tellOne is the edge where a broken invariant of a waiter ends: it must take
// down neither the process nor the writer of everybody's messages.
func (l *Log) tellOne(r *Request) (next Waker) {
	defer func() {
		if v := recover(); v != nil {
			l.deps.Events(WaiterPanicked{Value: v, Stack: string(debug.Stack())})
			next = nil
		}
	}()
	return r.Waiter.Done(r, r.err)
}

// fail gives all requests the same error.
func fail(reqs []*Request, err error) {
	for _, r := range reqs {
		r.err = err
	}
}

// undo takes back the offsets that place gave.
func undo(reqs []*Request) {
	for _, r := range reqs {
		if r.Sequence != nil {
			r.Sequence.next.Add(-int64(r.Count))
		}
	}
}

// place gives the records of r their offsets.
func (l *Log) place(r *Request, pos, now int64) {
	r.PhysicalOffset, r.QueueOffset, r.StoreTimestamp = pos, 0, now
	if r.Sequence != nil {
		r.QueueOffset = r.Sequence.next.Add(int64(r.Count)) - int64(r.Count)
	}
	queueOffset := r.QueueOffset
	for rec := r.Records; len(rec) > 0; {
		size, _, _ := message.Head(rec)
		message.Patch(rec, queueOffset, pos, now)
		rec = rec[size:]
		pos += int64(size)
		if r.Sequence != nil {
			queueOffset++
		}
	}
}

// write places and writes requests at a time; each gets its err.
func (l *Log) write(reqs []*Request, at time.Time) {
	if err := l.prepareWrite(); err != nil {
		fail(reqs, err)
		return
	}
	segs := *l.segs.Load()
	seg := segs[len(segs)-1]
	now := l.storeTime(at)
	base := l.written.Load() // where buf goes
	buf := l.buf[:0]
	first := 0 // reqs[first:i] are in buf
	for i, r := range reqs {
		pos := base + int64(len(buf))
		if left := seg.end() - pos; int64(len(r.Records))+message.BlankBytes > left {
			next, err := l.takeNext(seg.end())
			if err != nil {
				fail(reqs[i:], full(err))
				reqs = reqs[:i]
				break
			}
			if left >= message.BlankBytes {
				buf = append(buf, 0, 0, 0, 0, 0, 0, 0, 0)
				message.PutBlank(buf[len(buf)-message.BlankBytes:], int32(left))
			}
			if err := l.put(seg, base, buf, reqs[first:i]); err != nil {
				l.giveNext(next)
				fail(reqs[i:], err)
				return
			}
			l.addSegment(next)
			l.publish(seg.end(), now)
			poke(l.prepareC)
			l.deps.Events(SegmentSealed{Base: seg.base, Next: next.base})
			seg, base, pos, buf, first = next, next.base, next.base, buf[:0], i
		}
		l.place(r, pos, now)
		if len(buf) == 0 && i == len(reqs)-1 {
			// Alone in its write: no copy.
			if l.put(seg, base, r.Records, reqs[first:]) == nil {
				l.publish(base+int64(len(r.Records)), now)
			}
			return
		}
		buf = append(buf, r.Records...)
	}
	if l.buf = buf; cap(l.buf) > 8*maxBatchBytes {
		l.buf = nil
	}
	if len(buf) > 0 && l.put(seg, base, buf, reqs[first:]) == nil {
		l.publish(base+int64(len(buf)), now)
	}
}

// prepareWrite makes sure that there is a file and that the bytes behind the
// log's end are zero: what a failed write left there could be taken for
// records after a crash.
func (l *Log) prepareWrite() error {
	segs := *l.segs.Load()
	end := l.written.Load()
	if len(segs) == 0 {
		s, err := l.takeNext(end - end%l.cfg.SegmentBytes)
		if err != nil {
			return full(err)
		}
		l.addSegment(s)
		poke(l.prepareC)
		return nil
	}
	if last := segs[len(segs)-1]; l.dirty && end < last.end() {
		if err := last.clear(end); err != nil {
			return full(fmt.Errorf("clear behind %d: %w", end, err))
		}
	}
	l.dirty = false
	return nil
}

// put writes b at off. When that fails the requests get the error too and
// their offsets are taken back.
func (l *Log) put(s *segment, off int64, b []byte, reqs []*Request) error {
	if _, err := s.file.WriteAt(b, off-s.base); err != nil {
		l.dirty = true
		err = full(fmt.Errorf("write %d bytes at %d: %w", len(b), off, err))
		undo(reqs)
		fail(reqs, err)
		return err
	}
	return nil
}

// publish makes everything in front of end readable. The time follows the
// end, so whoever reads the time first and then the end never pairs a time
// with an end that does not have its record yet.
func (l *Log) publish(end, now int64) {
	l.written.Store(end)
	l.writtenTime.Store(now)
}

// full marks errors that mean a full disk.
func full(err error) error {
	if errors.Is(err, vfs.ErrNoSpace) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}
