package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// recovery is the work of one Open. Queues that turn out to be incomplete are
// built anew from the whole commit log.
type recovery struct {
	s       *Store
	from    int64 // where the scan of the commit log begins
	logMin  int64
	rebuild map[*queue]bool
	last    int64 // start of the last record
}

// recover finds the ends of commit log and queues and makes them agree. After
// a clean stop the newest queue entry tells where the log ends; otherwise the
// scan begins where the checkpoint says that everything was synced.
func (s *Store) recover(clean bool) error {
	r := &recovery{s: s, rebuild: map[*queue]bool{}, last: -1}
	states, err := r.loadQueues(clean)
	if err != nil {
		return err
	}
	if bases := s.clog.Bases(); len(bases) > 0 {
		r.logMin = bases[0]
	}
	from, ok := int64(0), false
	if clean {
		if from, ok, err = r.newestEntry(); err != nil {
			return err
		}
	}
	if r.from = from; !ok {
		r.from = r.checkpointed()
	}
	got, err := s.clog.Recover(commitlog.Recovery{
		From: r.from, FlushedTime: s.checkpoint.get().physic, Clean: clean, Visit: r.visit,
	})
	if err != nil {
		return err
	}
	if err := s.deleted.clamp(got.End); err != nil {
		return err
	}
	if err := r.each(func(q *queue) (bool, error) { return q.log.Truncate(got.End) }); err != nil {
		return err
	}
	if err := r.missing(states, got.End); err != nil {
		return err
	}
	if err := r.each(func(q *queue) (bool, error) { return q.log.Expire(r.logMin) }); err != nil {
		return err
	}
	if err := r.rebuildQueues(got.End); err != nil {
		return err
	}
	if got.Cut || len(got.Damaged) > 0 || !clean {
		s.log.Warn("store was repaired", "clean", clean, "from", r.from, "end", got.End,
			"cut", got.Cut, "reason", got.Reason, "damaged", len(got.Damaged), "rebuilt", len(r.rebuild))
	}
	for _, q := range s.allQueues() {
		_, next := q.log.Range()
		q.seq.Set(next)
	}
	s.dispatched.Store(got.End)
	s.storedTime.Store(got.LastTime)
	if !clean {
		if err := s.saveProgress(true); err != nil {
			return err
		}
	}
	return s.checkpoint.update(func(v *checkpointValues) {
		if r.last >= 0 {
			v.confirm = r.last
		}
	})
}

// each does something to all queues but those that are built anew; one that
// turns out to be damaged is built anew, too.
func (r *recovery) each(do func(*queue) (changed bool, err error)) error {
	for _, q := range r.s.allQueues() {
		if r.rebuild[q] {
			continue
		}
		changed, err := do(q)
		if changed {
			r.s.touched.touch(q)
		}
		if err := r.damaged(q, err); err != nil {
			return err
		}
	}
	return nil
}

// damaged has a queue built anew whose error says so, and returns other errors.
func (r *recovery) damaged(q *queue, err error) error {
	if !errors.Is(err, queuelog.ErrDamaged) {
		return err
	}
	r.s.log.Error("consume queue is damaged and is built anew", "topic", q.topic, "queue", q.id, "err", err)
	r.rebuild[q] = true
	return nil
}

// newestEntry returns the record that the newest queue entry points to; false
// when there is no such record.
func (r *recovery) newestEntry() (int64, bool, error) {
	var newest *queue
	var end int64
	for _, q := range r.s.allQueues() {
		if e := q.log.End(); e > end {
			newest, end = q, e
		}
	}
	if newest == nil {
		return 0, false, nil
	}
	u, ok, err := newest.log.Last()
	if err != nil || !ok {
		return 0, false, r.damaged(newest, err)
	}
	f, err := r.s.clog.Peek(u.Offset)
	return u.Offset, err == nil && f.Size == u.Size, nil
}

// checkpointed returns the newest file of the commit log in front of which
// everything was in synced queues, or the start of the log.
func (r *recovery) checkpointed() int64 {
	queued := false
	for _, q := range r.s.allQueues() {
		queued = queued || q.log.End() > 0
	}
	v := r.s.checkpoint.get()
	limit := min(v.physic, v.logics) - 3000
	bases := r.s.clog.Bases()
	for i := len(bases) - 1; i >= 0 && queued && limit > 0; i-- {
		if f, err := r.s.clog.Peek(bases[i]); err == nil && f.StoreTimestamp <= limit {
			return bases[i]
		}
	}
	return r.logMin
}

// visit dispatches one record of the scan. Records that are in their queue
// already are compared with their entry: a crash may have left half of it.
func (r *recovery) visit(off int64, f *message.Fields, _ []byte) error {
	r.last = off
	s := r.s
	if !s.queued(off, f) {
		return nil
	}
	q, err := s.makeQueue(string(f.Topic), f.QueueID)
	if err != nil || r.rebuild[q] {
		return err
	}
	lo, hi := q.log.Range()
	if r.from > r.logMin && (f.QueueOffset > hi || hi == 0 && f.QueueOffset > 0) {
		s.log.Error("consume queue is incomplete and is built anew", "topic", q.topic, "queue", q.id, "offset", hi, "want", f.QueueOffset)
		r.rebuild[q] = true
		return nil
	}
	return r.put(q, lo, off, f)
}

func (r *recovery) put(q *queue, lo, off int64, f *message.Fields) error {
	u := r.s.unit(off, f)
	outcome := q.log.Append(f.QueueOffset, u)
	r.s.touched.touch(q)
	r.s.reportOutcome(q, off, f, outcome)
	if outcome != queuelog.Repeated || f.QueueOffset < lo {
		return nil
	}
	changed, err := q.log.Repair(f.QueueOffset, u)
	if changed {
		r.s.log.Warn("consume queue entry was repaired", "topic", q.topic, "queue", q.id, "offset", f.QueueOffset)
	}
	return r.damaged(q, err)
}

// rebuildQueues fills the queues that could not be trusted from the whole log.
func (r *recovery) rebuildQueues(end int64) error {
	if len(r.rebuild) == 0 {
		return nil
	}
	s := r.s
	for q := range r.rebuild {
		if err := q.log.Reset(); err != nil {
			return fmt.Errorf("rebuild consume queue: %w", err)
		}
		s.touched.touch(q)
	}
	return s.scan(context.Background(), s.clog.Scan(r.logMin, end), func(off int64, f *message.Fields, _ []byte) error {
		if !s.queued(off, f) {
			return nil
		}
		if q := s.findQueue(string(f.Topic), f.QueueID); q != nil && r.rebuild[q] {
			return r.put(q, 0, off, f)
		}
		return nil
	})
}
