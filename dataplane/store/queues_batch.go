package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Topics with queue.type=BatchCQ have batch consume queues: a record may hold
// several messages, and the queue says which. We serve what others have
// appended and keep the queues up to date; we append to no such topic.

const batchFolder = "batchconsumequeue"

// batchKey names a batch consume queue.
type batchKey struct {
	topic string
	id    int32
}

func (s *Store) batchDir(k batchKey) string {
	return s.path(batchFolder, k.topic, strconv.Itoa(int(k.id)))
}

// findBatch returns a batch consume queue, or nil.
func (s *Store) findBatch(topic string, id int32) *queuelog.Batch {
	s.queuesMu.RLock()
	defer s.queuesMu.RUnlock()
	return s.batches[batchKey{topic, id}]
}

// allBatches returns the batch consume queues of this moment.
func (s *Store) allBatches() map[batchKey]*queuelog.Batch {
	s.queuesMu.RLock()
	defer s.queuesMu.RUnlock()
	return maps.Clone(s.batches)
}

// eachBatch does something to all batch consume queues.
func (s *Store) eachBatch(do func(*queuelog.Batch) error) error {
	var errs queuelog.Errors
	for k, q := range s.allBatches() {
		if err := do(q); err != nil {
			errs.Add(fmt.Errorf("%s queue %d: %w", k.topic, k.id, err))
		}
	}
	return errs.Join()
}

// makeBatch returns a batch consume queue, loaded from its files if it has any.
func (s *Store) makeBatch(k batchKey) (*queuelog.Batch, error) {
	s.queuesMu.Lock()
	defer s.queuesMu.Unlock()
	if q := s.batches[k]; q != nil {
		return q, nil
	}
	q, err := queuelog.OpenBatch(queuelog.Config{FS: s.fs, FileBytes: s.cfg.QueueSegmentBytes}, s.batchDir(k))
	if err != nil {
		return nil, err
	}
	if s.batches == nil {
		s.batches = map[batchKey]*queuelog.Batch{}
	}
	s.batches[k] = q
	return q, nil
}

// loadBatches opens the batch consume queues of the folder; those whose files
// do not fit together are built anew.
func (r *recovery) loadBatches() error {
	s := r.s
	topics := slices.Sorted(maps.Keys(*s.batchCQ.Load()))
	for _, topic := range topics {
		c, _ := s.Topic(topic)
		for id := range int32(max(c.ReadQueueNums, c.WriteQueueNums)) {
			k := batchKey{topic, id}
			_, err := s.makeBatch(k)
			if errors.Is(err, queuelog.ErrDamaged) {
				s.happened(QueueDamaged{Topic: topic, Queue: id, Batch: true, Err: err})
				if err = s.fs.RemoveAll(s.batchDir(k)); err == nil {
					_, err = s.makeBatch(k)
				}
				r.rebuildBatch[k] = true
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// batched tells whether a record belongs to a batch consume queue.
func (s *Store) batched(off int64, f *message.Fields) bool {
	t := f.SysFlag & message.SysFlagTransaction
	return (*s.batchCQ.Load())[string(f.Topic)] && t != message.SysFlagPrepared && t != message.SysFlagRollback &&
		f.QueueID >= 0 && !s.deleted.has(f.Topic, off) && ValidName(f.Topic) == nil
}

// batchUnit is the entry of a record. An inner batch says itself how many
// messages it has; one that does not counts as one.
func (s *Store) batchUnit(off int64, f *message.Fields) queuelog.BatchUnit {
	u := queuelog.BatchUnit{Unit: s.unit(off, f), StoreTime: f.StoreTimestamp, Base: f.QueueOffset, Count: 1}
	if f.SysFlag&message.SysFlagInnerBatch == 0 {
		return u
	}
	if v, ok := message.FindProperty(f.Properties, message.KeyInnerNum); ok {
		if n, err := strconv.ParseInt(string(v), 10, 16); err == nil && n > 0 {
			u.Count = int16(n)
		}
	}
	if v, ok := message.FindProperty(f.Properties, message.KeyInnerBase); ok {
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && n >= 0 {
			u.Base = n
		}
	}
	return u
}

// enqueueBatch adds a record to its batch consume queue. It returns the offset
// behind its last message, 0 when the record is in none or was there already.
func (s *Store) enqueueBatch(off int64, f *message.Fields) (next int64, err error) {
	if !s.batched(off, f) {
		return 0, nil
	}
	q, err := s.makeBatch(batchKey{string(f.Topic), f.QueueID})
	if err != nil {
		return 0, err
	}
	u := s.batchUnit(off, f)
	outcome := q.Append(u)
	if outcome == queuelog.Repeated || outcome == queuelog.Rejected {
		return 0, nil
	}
	if outcome == queuelog.AddedGap {
		s.happened(MessagesMissing{Topic: string(f.Topic), Queue: f.QueueID, Batch: true, Offset: u.Base, Physical: off})
	}
	return u.Next(), nil
}

// visitBatch is visit for records of batch consume queues.
func (r *recovery) visitBatch(off int64, f *message.Fields) error {
	if !r.s.batched(off, f) {
		return nil
	}
	k := batchKey{string(f.Topic), f.QueueID}
	q, err := r.s.makeBatch(k)
	if err != nil || r.rebuildBatch[k] {
		return err
	}
	if _, hi := q.Range(); r.from > r.logMin && r.s.batchUnit(off, f).Base > hi {
		r.s.happened(QueueIncomplete{Topic: k.topic, Queue: k.id, Batch: true, Offset: hi, Want: f.QueueOffset})
		r.rebuildBatch[k] = true
		return nil
	}
	_, err = r.s.enqueueBatch(off, f)
	return err
}

// rebuildBatches fills the batch consume queues that could not be trusted from
// the whole log.
func (r *recovery) rebuildBatches(end int64) error {
	s := r.s
	for k := range r.rebuildBatch {
		if err := s.findBatch(k.topic, k.id).Reset(); err != nil {
			return fmt.Errorf("rebuild batch consume queue: %w", err)
		}
	}
	if len(r.rebuildBatch) == 0 {
		return nil
	}
	return s.scan(context.Background(), s.clog.Scan(r.logMin, end), func(off int64, f *message.Fields, _ []byte) error {
		if !r.rebuildBatch[batchKey{string(f.Topic), f.QueueID}] {
			return nil
		}
		_, err := s.enqueueBatch(off, f)
		return err
	})
}

// removeBatches deletes the batch consume queues of a topic, also those that an
// attempt before has left.
func (s *Store) removeBatches(topic string) error {
	s.queuesMu.Lock()
	var gone []*queuelog.Batch
	for k, q := range s.batches {
		if k.topic == topic {
			gone = append(gone, q)
			delete(s.batches, k)
		}
	}
	s.queuesMu.Unlock()
	for _, q := range gone {
		if err := q.Reset(); err != nil {
			return err
		}
	}
	dir := s.path(batchFolder, topic)
	if there, err := vfs.Exists(s.fs, dir); err != nil || !there {
		return err
	}
	return s.fs.RemoveAll(dir)
}

// readBatch is Read for batch consume queues: the first record is the one that
// has the message at offset, also when it begins in front of it, and Next is
// behind the last message of the last one.
func (s *Store) readBatch(q *queuelog.Batch, topic string, queueID int32, offset int64, o ReadOptions) (Batch, error) {
	b := Batch{Next: offset}
	b.Min, b.Max = q.Range()
	if b.edge(offset) {
		return b, nil
	}
	o.limit()
	bufs := s.takeReadBuffers()
	b.bufs = bufs
	removed, err := s.chooseBatch(q, &b, o)
	if err == nil {
		var lost bool
		lost, err = s.fetch(nil, bufs)
		removed = removed || lost
	}
	if err != nil {
		b.Release()
		return Batch{}, fmt.Errorf("read %s queue %d at %d: %w", topic, queueID, offset, err)
	}
	b.finish(removed)
	return b, nil
}

// chooseBatch is choose for batch consume queues.
func (s *Store) chooseBatch(q *queuelog.Batch, b *Batch, o ReadOptions) (removed bool, err error) {
	logMin, _ := s.clog.Range()
	bufs := b.bufs
	messages, total := 0, 0
	for budget := scanUnits; budget > 0 && b.Next < b.Max; {
		units, err := q.Read(nil, b.Next, min(budget, 64))
		if err != nil {
			return removed, err
		}
		if len(units) == 0 {
			b.Next = b.Max
			return true, nil
		}
		budget -= len(units)
		for _, u := range units {
			switch {
			case u.Size < message.MinRecordBytes || u.Offset < logMin:
				removed = true
			case o.Match != nil && !o.Match(u.TagsCode):
			case u.Size > maxKeptRead && !s.sized(u.Unit):
				removed = true
			case len(bufs.wanted) > 0 && (total+int(u.Size) > o.MaxBytes || messages+int(u.Count) > o.MaxMessages):
				return removed, nil
			default:
				bufs.wanted = append(bufs.wanted, u.Unit)
				total += int(u.Size)
				messages += int(u.Count)
			}
			b.Next = u.Next()
		}
	}
	return removed, nil
}

// batchTimeAt is StoreTimeAt for batch consume queues.
func (s *Store) batchTimeAt(topic string, queueID int32, offset int64) (ms int64, ok bool) {
	q := s.findBatch(topic, queueID)
	if q == nil {
		return 0, false
	}
	units, err := q.Read(nil, offset, 1)
	if err != nil || len(units) == 0 || units[0].Base > offset {
		return 0, false
	}
	return units[0].StoreTime, true
}
