package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// fold is a Fold with its position; owned by the dispatcher.
type fold struct {
	next  int64
	apply func(offset int64, rec []byte)
}

// makeFolds asks the folds where they stand. One that is ahead of the log saw
// records that a crash has taken; their offsets will be given out again.
func (s *Store) makeFolds(folds []Fold) {
	first, end := s.clog.Range()
	s.foldsFrom.Store(end)
	for _, f := range folds {
		next := min(max(f.From(), first), end)
		s.folds = append(s.folds, fold{next: next, apply: f.Apply})
		s.foldsFrom.Store(min(s.foldsFrom.Load(), next))
	}
}

// visible is the commit log offset up to which records may be read: with
// FlushSync and FlushQuorum nobody sees what a power cut could take back, otherwise nobody sees
// it of a message whose writer waits for the sync.
func (s *Store) visible() int64 {
	switch s.cfg.Flush {
	case FlushSync:
		return s.clog.Flushed()
	case FlushQuorum:
		return s.terms.Committed(s.clog.Flushed())
	}
	return s.clog.Settled()
}

// dispatchLoop is the dispatcher. What fails is tried again each QueueFlush,
// from where it stopped. It ends with ctx.
func (s *Store) dispatchLoop(ctx context.Context) error {
	flush := time.NewTicker(s.cfg.QueueFlush)
	defer flush.Stop()
	d := &dispatcher{s: s, scan: s.clog.Scan(0, 0)}
	for {
		err := s.catchUpFolds(ctx)
		if err == nil {
			err = d.dispatch(ctx, s.visible())
		}
		wake := s.wake
		if err != nil && ctx.Err() == nil {
			s.happened(DispatchFailed{Again: s.cfg.QueueFlush, From: s.dispatched.Load(), Err: err})
			wake = nil // not with each append
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), d.flush())
		case <-wake:
		case <-flush.C:
			if d.units < s.flushUnits() {
				break
			}
			if err := d.flush(); err != nil {
				// The units stay in memory and readable; the next tick tries again.
				s.happened(QueueFlushFailed{err})
			}
		}
	}
}

// dispatch makes everything up to the commit log offset to readable, outside
// of dispatchLoop.
func (s *Store) dispatch(ctx context.Context, to int64) error {
	if err := s.catchUpFolds(ctx); err != nil {
		return err
	}
	d := &dispatcher{s: s, scan: s.clog.Scan(0, 0)}
	return errors.Join(d.dispatch(ctx, to), d.flush())
}

// catchUpFolds shows the folds what was dispatched before they were there.
func (s *Store) catchUpFolds(ctx context.Context) error {
	from, to := s.foldsFrom.Load(), s.dispatched.Load()
	if from < to {
		err := s.scan(ctx, s.clog.Scan(from, to), func(off int64, _ *message.Fields, rec []byte) error {
			s.fold(off, rec)
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.foldsFrom.Store(math.MaxInt64)
	return nil
}

func (s *Store) fold(off int64, rec []byte) {
	for i := range s.folds {
		if f := &s.folds[i]; off >= f.next {
			f.apply(off, rec)
			f.next = off + int64(len(rec))
		}
	}
}

// scan visits records up to the scanner's limit. Damaged places are reported
// and left out up to the end of their file.
func (s *Store) scan(ctx context.Context, sc *commitlog.Scanner, visit func(off int64, f *message.Fields, rec []byte) error) error {
	var f message.Fields // one for all: it escapes into visit
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		off, fields, rec, err := sc.Next()
		f = fields
		switch {
		case err == nil:
			if err := visit(off, &f, rec); err != nil {
				return err
			}
		case err == io.EOF:
			return nil
		case errors.Is(err, commitlog.ErrNotFound):
			// Deleted meanwhile.
			first, _ := s.clog.Range()
			if first <= off {
				return fmt.Errorf("dispatch: %w", err)
			}
			sc.Skip(first)
		case errors.Is(err, message.ErrCorrupt):
			next := s.clog.SegmentEnd(off)
			if at, ok := s.clog.Resync(off, s.clog.Written()); ok {
				next = at
			}
			if s.metrics.holes.add(off) {
				s.happened(commitlog.DamageSkipped{From: off, To: next, Err: err})
			}
			sc.Skip(next)
		default:
			return fmt.Errorf("dispatch: %w", err)
		}
	}
}

// dispatcher is the state of the one goroutine that dispatches.
type dispatcher struct {
	s     *Store
	scan  *commitlog.Scanner
	dirty []*queue
	units int // that the dirty queues got
}

func (d *dispatcher) dispatch(ctx context.Context, to int64) error {
	s := d.s
	s.dispatchMu.Lock()
	defer s.dispatchMu.Unlock()
	from := s.dispatched.Load()
	if from >= to {
		return nil
	}
	began := s.now()
	d.scan.Reset(from, to)
	arrival := s.arrival.Load()
	err := s.scan(ctx, d.scan, func(off int64, f *message.Fields, rec []byte) error {
		s.fold(off, rec)
		q, outcome, err := s.enqueue(off, f)
		if err != nil {
			return err
		}
		if q != nil {
			s.touched.touch(q)
			d.units++
			if !q.dirty {
				q.dirty = true
				d.dirty = append(d.dirty, q)
			}
			s.reportOutcome(q, off, f.QueueOffset, outcome)
			if outcome == queuelog.Repeated {
				if err := s.placeTaken(q, off, f.QueueOffset); err != nil {
					return err
				}
			}
		}
		next, err := s.enqueueBatch(off, f)
		if err != nil {
			return err
		}
		s.dispatched.Store(off + int64(f.Size))
		s.storedTime.Store(f.StoreTimestamp)
		s.lastRecord.Store(off)
		if q != nil && arrival != nil && outcome != queuelog.Repeated {
			_, next := q.log.Range()
			(*arrival)(Arrival{Topic: q.topic, QueueID: q.id, NextOffset: next, TagsCode: s.tagsCode(f)})
		}
		if next > 0 && arrival != nil {
			(*arrival)(Arrival{Topic: string(f.Topic), QueueID: f.QueueID, NextOffset: next, TagsCode: s.tagsCode(f)})
		}
		return nil
	})
	if err == nil {
		s.dispatched.Store(to) // over an end-of-file marker
		s.metrics.dispatch.observe(s.now().Sub(began), to-from)
	}
	return err
}

// flush writes the units of queues that got some.
func (d *dispatcher) flush() error {
	if err := d.s.layout.Flush(logsOf(d.dirty)); err != nil {
		return err
	}
	for _, q := range d.dirty {
		q.dirty = false
	}
	clear(d.dirty)
	d.dirty, d.units = d.dirty[:0], 0
	return d.s.eachBatch((*queuelog.Batch).Flush)
}

// enqueue adds a record to its queue; the queue is nil for records that are in none.
func (s *Store) enqueue(off int64, f *message.Fields) (*queue, queuelog.Outcome, error) {
	if !s.queued(off, f) {
		return nil, queuelog.Repeated, nil
	}
	s.queuesMu.RLock()
	q := s.queues[string(f.Topic)].find(f.QueueID)
	s.queuesMu.RUnlock()
	if q == nil {
		var err error
		if q, err = s.makeQueue(string(f.Topic), f.QueueID); err != nil {
			return nil, 0, err
		}
	}
	if q.building.Load() {
		return nil, queuelog.Repeated, nil // whoever builds it comes by
	}
	return q, q.log.Append(f.QueueOffset, s.unit(off, f)), nil
}

// queued tells whether a record belongs to a queue: half and rollback records
// do not, nor do those of a deleted topic or of batch consume queues.
func (s *Store) queued(off int64, f *message.Fields) bool {
	t := f.SysFlag & message.SysFlagTransaction
	return t != message.SysFlagPrepared && t != message.SysFlagRollback &&
		f.SysFlag&message.SysFlagInnerBatch == 0 && f.QueueID >= 0 &&
		!(*s.batchCQ.Load())[string(f.Topic)] && !s.deleted.has(f.Topic, off) && ValidName(f.Topic) == nil
}

func (s *Store) unit(off int64, f *message.Fields) queuelog.Unit {
	return queuelog.Unit{Offset: off, Size: f.Size, TagsCode: s.tagsCode(f)}
}

// tagsCode is the hash of the tags; for delayed messages the time of delivery.
func (s *Store) tagsCode(f *message.Fields) int64 {
	if string(f.Topic) == message.ScheduleTopic {
		if v, ok := message.FindProperty(f.Properties, message.KeyDelay); ok {
			if level, err := strconv.Atoi(string(v)); err == nil && level > 0 {
				delay := time.Second
				if n := len(s.cfg.DelayLevels); n > 0 {
					delay = s.cfg.DelayLevels[min(level, n)-1]
				}
				return f.StoreTimestamp + delay.Milliseconds()
			}
		}
	}
	return message.TagsCodeOf(f.Properties)
}

func (s *Store) reportOutcome(q *queue, off, index int64, outcome queuelog.Outcome) {
	switch outcome {
	case queuelog.AddedGap:
		s.happened(MessagesMissing{Topic: q.topic, Queue: q.id, Offset: index, Physical: off})
	case queuelog.Rejected:
		s.happened(RecordRejected{Topic: q.topic, Queue: q.id, Offset: index, Want: -1, Physical: off})
	}
}

// placeTaken reports a record whose place in the queue is another's. That must
// not be; if it is, at least the next message gets a place of its own.
func (s *Store) placeTaken(q *queue, off, index int64) error {
	u, ok, err := q.log.At(index)
	if err != nil && !errors.Is(err, queuelog.ErrDamaged) || ok && u.Offset == off {
		return err // in doubt, or it was added before what failed
	}
	_, next := q.log.Range()
	q.seq.Raise(next)
	s.happened(PlaceTaken{Topic: q.topic, Queue: q.id, Offset: index, Next: next, Physical: off, TakenBy: u.Offset})
	return nil
}
