package store

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// Queues that cannot be trusted are built anew from the commit log. When that
// is long, it happens behind the start, in Run: everything else is served
// meanwhile, reads of these queues are refused with ErrBuilding, and appends
// get the offsets that follow those given out before.
//
// What a crash finds in between is known to be incomplete: the directory of
// the queues keeps what they held before, the checkpoint does not move, and a
// stop leaves the mark of an unclean one. So the next start builds them again.

// rebuildUnits is how many units a rebuild gathers in memory.
const rebuildUnits = 1 << 18

// rebuildQueues fills the queues of a recovery, now or later. states is what
// the directory knows of them.
func (r *recovery) rebuildQueues(states []queuelog.State, end int64) error {
	if len(r.rebuild) == 0 {
		return nil
	}
	s := r.s
	later := end-r.logMin > s.cfg.RebuildBehind
	known := map[string]map[int32]queuelog.State{}
	if later {
		for _, st := range states {
			if known[st.Topic] == nil {
				known[st.Topic] = map[int32]queuelog.State{}
			}
			known[st.Topic][st.ID] = st
		}
	}
	behind := &recovery{s: s, rebuild: map[*queue]bool{}, order: map[*queue]*queueOrder{}, from: r.logMin, logMin: r.logMin, last: -1}
	for q := range r.rebuild {
		_, next := q.log.Range()
		if err := q.log.Reset(); err != nil {
			return fmt.Errorf("rebuild consume queue: %w", err)
		}
		// Without the directory nobody knows the next offset before the log
		// was read.
		if st, ok := known[q.topic][q.id]; ok && st.Next > 0 {
			q.seq.Set(max(next, st.Next, r.seen[q]))
			q.low = st.Low
			q.building.Store(true)
			behind.rebuild[q] = true
			if st.End <= end {
				behind.known = append(behind.known, st)
			}
			delete(r.rebuild, q)
			continue
		}
		s.touched.touch(q)
	}
	if len(behind.rebuild) > 0 {
		s.happened(RebuildBegan{Queues: len(behind.rebuild), From: r.logMin, To: end})
		behind.building = len(behind.rebuild)
		s.rebuilding.Store(behind)
	}
	if len(r.rebuild) == 0 {
		return nil
	}
	_, err := r.fill(context.Background(), r.logMin, end)
	if err != nil {
		return err
	}
	return r.settle()
}

// fill adds the records of a part of the commit log to the queues that are
// built, and returns how many there were.
func (r *recovery) fill(ctx context.Context, from, to int64) (units int, err error) {
	s := r.s
	err = s.scan(ctx, s.clog.Scan(from, to), func(off int64, f *message.Fields, _ []byte) error {
		if !s.queued(off, f) {
			return nil
		}
		q := s.findQueue(string(f.Topic), f.QueueID)
		if q == nil || !r.rebuild[q] {
			return nil
		}
		if units++; units%rebuildUnits == 0 {
			if err := s.layout.Flush(logsOf(r.queues())); err != nil {
				return err
			}
		}
		return r.put(q, off, f)
	})
	return units, err
}

func (r *recovery) queues() []*queue {
	all := make([]*queue, 0, len(r.rebuild))
	for q := range r.rebuild {
		all = append(all, q)
	}
	return all
}

// rebuildLoop builds what recovery has left, and then queues that turn out to
// be damaged when they are read. What fails, on a full disk for example, is
// tried again each RetentionCheck. It ends with ctx.
func (s *Store) rebuildLoop(ctx context.Context) error {
	for {
		suspects, again := s.suspects, (<-chan time.Time)(nil)
		if err := s.finishRebuild(ctx); err != nil && ctx.Err() == nil {
			s.happened(RebuildFailed{Again: s.cfg.RetentionCheck, Err: err})
			// Suspects wait: there is one rebuild at a time.
			suspects, again = nil, time.After(s.cfg.RetentionCheck)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
		case q := <-suspects:
			if err := s.beginRebuild(q); err != nil {
				s.happened(RebuildFailed{Err: err})
			}
		}
	}
}

// suspect has a queue built anew that a reader found damaged: once while the
// store is open, since what the commit log does not have either comes back as
// damaged as it was.
func (s *Store) suspect(q *queue, offset int64) {
	if q.suspected.Swap(true) {
		return
	}
	select {
	case s.suspects <- q:
		s.happened(QueueDamaged{Topic: q.topic, Queue: q.id, Offset: offset})
	default:
		q.suspected.Store(false) // many at once: the next reader says so again
	}
}

// beginRebuild empties a queue. Nobody notes in the directory what it holds
// from then on: a start finds less than is noted.
func (s *Store) beginRebuild(q *queue) error {
	if s.rebuilding.Load() != nil || s.findQueue(q.topic, q.id) != q {
		q.suspected.Store(false)
		return nil
	}
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	s.dispatchMu.Lock()
	defer s.dispatchMu.Unlock()
	first, _ := s.clog.Range()
	low, next := q.log.Range()
	q.low = low
	q.building.Store(true)
	known := []queuelog.State{{Topic: q.topic, ID: q.id, Next: next, End: q.log.End()}}
	r := &recovery{s: s, rebuild: map[*queue]bool{q: true}, building: 1, known: known, order: map[*queue]*queueOrder{}, from: first, logMin: first, last: -1}
	s.rebuilding.Store(r)
	err := q.log.Reset()
	r.tried = err != nil
	return err
}

// startOver empties queues again that an attempt to build them has left half
// filled. Nobody else looks at their logs meanwhile.
func (r *recovery) startOver() error {
	if r.tried {
		for q := range r.rebuild {
			if err := q.log.Reset(); err != nil {
				return fmt.Errorf("rebuild consume queue: %w", err)
			}
		}
		clear(r.order)
	}
	r.tried = true
	return nil
}

// finishRebuild builds queues that are to be built. Until it is done the
// dispatcher passes them over; it stands still while the last part is added,
// so no record is missed and none comes twice.
func (s *Store) finishRebuild(ctx context.Context) error {
	r := s.rebuilding.Load()
	if r == nil {
		return nil
	}
	if err := r.startOver(); err != nil {
		return err
	}
	from := r.logMin
	for range 8 { // what came meanwhile gets less each time
		to := s.dispatched.Load()
		if to <= from {
			break
		}
		if _, err := r.fill(ctx, from, to); err != nil {
			return err
		}
		from = to
	}
	s.dispatchMu.Lock()
	defer s.dispatchMu.Unlock()
	_, err := r.fill(ctx, from, s.dispatched.Load())
	if err == nil {
		err = r.settle()
	}
	if err != nil {
		return err
	}
	for _, st := range r.known {
		if q := s.findQueue(st.Topic, st.ID); r.rebuild[q] {
			if err := r.standInFor(q, st); err != nil {
				return err
			}
		}
	}
	first, _ := s.clog.Range()
	for q := range r.rebuild {
		if _, err := q.log.Expire(first); err != nil {
			return err
		}
	}
	// From here on nothing fails: all of them take their place together.
	for q := range r.rebuild {
		q.building.Store(false)
		s.touched.touch(q)
	}
	s.rebuilding.Store(nil)
	s.happened(RebuildEnded{len(r.rebuild)})
	if arrival := s.arrival.Load(); arrival != nil {
		for q := range r.rebuild {
			if _, next := q.log.Range(); next > 0 {
				(*arrival)(Arrival{Topic: q.topic, QueueID: q.id, NextOffset: next})
			}
		}
	}
	return nil
}
