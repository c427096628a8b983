package store

import (
	"errors"
	"math"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// recovery is the work of one Open. Queues that turn out to be incomplete are
// built anew from the whole commit log.
type recovery struct {
	s       *Store
	clean   bool  // the last stop was
	from    int64 // where the scan of the commit log begins
	logMin  int64
	rebuild map[*queue]bool
	last    int64 // start of the last record
	order   map[*queue]*queueOrder
	seen    map[*queue]int64 // behind the last offset of the scan, of each queue in it

	rebuildBatch map[batchKey]bool // batch consume queues that are built anew
	building     int               // queues in rebuild; set once, for the metrics
	known        []queuelog.State  // what the directory said of them
	tried        bool              // finishRebuild has begun; owned by whoever calls it

	newest    *queue // the one with the newest record when it was loaded, nil for none
	newestEnd int64  // commit log offset behind that record
	lost      bool   // the log ends in front of what was synced
	oldest    int64  // commit log offset of the oldest record in any queue, -1 when not known
}

// queueOrder is what a scan knows of the queue offsets of one queue. They
// count up by one, and no checksum covers them: a wrong one must not take the
// place of another message, nor hide all those behind it.
type queueOrder struct {
	known   bool
	next    int64 // expected
	waiting *waitingRecord
}

// waitingRecord jumped ahead: the next record of the queue tells whether
// messages in front of it are missing or its queue offset is damaged.
type waitingRecord struct {
	index, off int64
	unit       queuelog.Unit
}

// recover finds the ends of commit log and queues and makes them agree. After
// a clean stop the newest queue entry tells where the log ends; otherwise the
// scan begins where the checkpoint says that everything was synced.
func (s *Store) recover(clean bool) error {
	r := &recovery{s: s, clean: clean, rebuild: map[*queue]bool{}, order: map[*queue]*queueOrder{}, seen: map[*queue]int64{}, rebuildBatch: map[batchKey]bool{}, last: -1, oldest: math.MaxInt64}
	states, err := r.loadQueues(clean)
	if err != nil {
		return err
	}
	if err := r.loadBatches(); err != nil {
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
		r.from = r.checkpointed(r.newest != nil || len(states) > 0)
	}
	keep, err := s.keepCut()
	if err != nil {
		return err
	}
	began := s.now()
	s.happened(RecoveryBegan{Clean: clean, From: r.from, Queues: len(s.allQueues())})
	got, err := s.clog.Recover(commitlog.Recovery{
		From: r.from, FlushedTime: s.checkpoint.get().physic, FlushedTo: s.checkpoint.get().synced, Clean: clean, Keep: keep, Visit: r.visit,
	})
	if err == nil {
		err = r.settle()
	}
	if err != nil {
		return err
	}
	cutAt := got.End
	if err := r.lostTail(states, &got); err != nil {
		return err
	}
	if err := s.deleted.clamp(got.End); err != nil {
		return err
	}
	if r.newestEnd > got.End {
		if err := r.each(func(q *queue) (bool, error) { return q.log.Truncate(got.End) }); err != nil {
			return err
		}
	}
	if err := s.eachBatch(func(q *queuelog.Batch) error { return q.Truncate(got.End) }); err != nil {
		return err
	}
	if err := r.missing(states, got.End); err != nil {
		return err
	}
	if r.oldest < r.logMin {
		if err := r.each(func(q *queue) (bool, error) { return q.log.Expire(r.logMin) }); err != nil {
			return err
		}
	}
	if err := errors.Join(r.rebuildQueues(states, got.End), r.rebuildBatches(got.End)); err != nil {
		return err
	}
	if err := r.standIn(states, got.End); err != nil {
		return err
	}
	if err := s.eachBatch(func(q *queuelog.Batch) error { return q.Expire(r.logMin) }); err != nil {
		return err
	}
	for _, d := range got.Damaged {
		s.metrics.holes.add(d.From)
	}
	s.happened(RecoveryEnded{Clean: clean, From: r.from, End: cutAt, Cut: got.Cut, Reason: got.Reason, Damaged: len(got.Damaged), Rebuilt: len(r.rebuild), Took: s.now().Sub(began)})
	for _, q := range s.touched.all() {
		// One that is still to be built is empty; it got its next offset already.
		if !q.building.Load() {
			_, next := q.log.Range()
			q.seq.Set(next)
		}
	}
	s.dispatched.Store(got.End)
	s.storedTime.Store(got.LastTime)
	// What is behind the end will be written anew: nothing of it was reached.
	if err := s.checkpoint.update(func(v *checkpointValues) {
		if v.reached >= cutAt {
			v.reached = 0
		}
	}); err != nil {
		return err
	}
	s.lastRecord.Store(max(r.last, s.checkpoint.get().reached))
	// A queue that was cut or built anew is noted before anything is appended
	// to it. Others are as if they had just been dispatched.
	if !clean && s.cfg.QueueLayout == LayoutCompatible || r.newestEnd > got.End || len(r.rebuild) > 0 || r.lost {
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
	r.s.happened(QueueDamaged{Topic: q.topic, Queue: q.id, Err: err})
	r.rebuild[q] = true
	return nil
}

// newestEntry returns the record that the newest queue entry points to; false
// when there is no such record.
func (r *recovery) newestEntry() (int64, bool, error) {
	if r.newest == nil {
		return 0, false, nil
	}
	u, ok, err := r.newest.log.Last()
	if err != nil || !ok {
		return 0, false, r.damaged(r.newest, err)
	}
	f, err := r.s.clog.Peek(u.Offset)
	return u.Offset, err == nil && f.Size == u.Size, nil
}

// checkpointed returns a place in the commit log in front of which everything
// was in synced queues: the record that the checkpoint names, or where that was
// written by others, the newest file that the times allow; or the start of the
// log. known is false when the queues may be gone without a trace.
func (r *recovery) checkpointed(known bool) int64 {
	v := r.s.checkpoint.get()
	if f, err := r.s.clog.Peek(v.reached); err == nil && known && v.reached >= r.logMin && f.StoreTimestamp <= min(v.physic, v.logics) {
		return v.reached
	}
	limit := min(v.physic, v.logics) - 3000
	bases := r.s.clog.Bases()
	for i := len(bases) - 1; i >= 0 && known && limit > 0; i-- {
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
		return r.visitBatch(off, f)
	}
	q, err := s.makeQueue(string(f.Topic), f.QueueID)
	if err != nil {
		return err
	}
	// No offset is larger than what the log has room for.
	if f.QueueOffset <= off/message.MinRecordBytes {
		r.seen[q] = max(r.seen[q], f.QueueOffset+1)
	}
	if r.rebuild[q] {
		return nil
	}
	_, hi := q.log.Range()
	if r.from > r.logMin && (f.QueueOffset > hi || hi == 0 && f.QueueOffset > 0) {
		s.happened(QueueIncomplete{Topic: q.topic, Queue: q.id, Offset: hi, Want: f.QueueOffset})
		r.rebuild[q] = true
		return nil
	}
	return r.put(q, off, f)
}

// put adds a record to its queue, or lets it wait for the next one.
func (r *recovery) put(q *queue, off int64, f *message.Fields) error {
	o := r.order[q]
	if o == nil {
		o = &queueOrder{}
		r.order[q] = o
	}
	index, u := f.QueueOffset, r.s.unit(off, f)
	if !o.known {
		// The first one is believed when the queue has it, or wants it next;
		// otherwise the second one tells.
		at, ok, err := q.log.At(index)
		if err != nil {
			return r.damaged(q, err)
		}
		lo, hi := q.log.Range()
		if o.known, o.next = true, -1; index == hi || index < lo || ok && at.Offset == off {
			o.next = index
		}
	}
	if w := o.waiting; w != nil {
		o.waiting = nil
		if index == w.index+1 {
			o.next = index
			if err := r.add(q, w.index, w.off, w.unit); err != nil {
				return err
			}
		} else {
			r.reject(q, w.index, w.off, o.next)
			if index == o.next+1 {
				o.next = index // the rejected one had that place
			}
		}
	}
	switch {
	case index < o.next:
		r.reject(q, index, off, o.next)
		return nil
	case index > o.next:
		o.waiting = &waitingRecord{index, off, u}
		return nil
	}
	o.next++
	return r.add(q, index, off, u)
}

// belongs tells whether an entry is that of a good record with this place in
// the queue.
func (r *recovery) belongs(q *queue, index int64, u queuelog.Unit) bool {
	f, err := r.s.clog.Peek(u.Offset)
	return err == nil && f.QueueOffset == index && f.Size == u.Size && f.QueueID == q.id && string(f.Topic) == q.topic
}

func (r *recovery) reject(q *queue, index, off, want int64) {
	r.s.happened(RecordRejected{Topic: q.topic, Queue: q.id, Offset: index, Want: want, Physical: off})
}

// settle adds the records that wait at the end of a scan: nothing contradicts
// them.
func (r *recovery) settle() error {
	for q, o := range r.order {
		w := o.waiting
		if w == nil {
			continue
		}
		if err := r.add(q, w.index, w.off, w.unit); err != nil {
			return err
		}
	}
	clear(r.order)
	return nil
}

// add gives a record its entry; one that is there is compared.
func (r *recovery) add(q *queue, index, off int64, u queuelog.Unit) error {
	lo, _ := q.log.Range()
	outcome := q.log.Append(index, u)
	r.s.touched.touch(q)
	r.s.reportOutcome(q, off, index, outcome)
	if outcome != queuelog.Repeated || index < lo {
		return nil
	}
	has, ok, err := q.log.At(index)
	if err != nil {
		return r.damaged(q, err)
	}
	if ok && has.Offset != off && r.belongs(q, index, has) {
		r.reject(q, index, off, index)
		return nil
	}
	changed, err := q.log.Repair(index, u)
	if changed {
		r.s.happened(QueueEntryRepaired{Topic: q.topic, Queue: q.id, Offset: index})
	}
	return r.damaged(q, err)
}
