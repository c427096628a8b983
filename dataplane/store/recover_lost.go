package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// A crash takes away the end of the commit log, but never what was synced. When
// that is gone, a file is missing, or somebody has cut or damaged it. Whatever
// it held had offsets that consumers have seen, so none of them is given out
// again: the log goes on in a file behind all that is known, and the entries of
// the queues stay and say that their messages were removed.

// maxLostQueues is how many queues the report of lost messages names.
const maxLostQueues = 20

// maxLostFiles is how far an end of the log is believed that a queue's entry
// names: those of the compatible layout have no checksum.
const maxLostFiles = 1 << 16

// knownEnd returns a commit log offset that the log has reached, and whether it
// was synced up to there and ends in front of it. dirEnd is the end that the
// directory of the queues names.
//
// The checkpoint says how far the log was synced; after a clean stop whatever the
// directory names was, too. Of a checkpoint that others have written only the store
// time of the newest synced record tells.
func (r *recovery) knownEnd(dirEnd int64, got *commitlog.Recovered) (known int64, lost bool) {
	v := r.s.checkpoint.get()
	switch {
	case v.synced > got.End, v.reached > 0 && v.reached >= got.End:
	case r.clean && dirEnd > got.End:
	case v.synced == 0 && v.reached == 0 && v.physic > got.LastTime:
	default:
		return got.End, false
	}
	known = max(got.End, v.synced, v.reached)
	for _, end := range []int64{dirEnd, r.newestEnd} {
		if (end-got.End)/r.s.cfg.SegmentBytes < maxLostFiles {
			known = max(known, end)
		}
	}
	return known, true
}

// lostTail notices that synced records are missing at the end of the log. Then
// it has the log go on behind them, sets got.End, and says what is lost.
func (r *recovery) lostTail(states []queuelog.State, got *commitlog.Recovered) error {
	s := r.s
	states = slices.DeleteFunc(slices.Clone(states), func(st queuelog.State) bool {
		return ValidName(st.Topic) != nil || st.ID < 0 || s.deleted.has([]byte(st.Topic), st.End-1)
	})
	dirEnd := int64(0)
	if s.cfg.QueueLayout == LayoutCompact {
		dirEnd = r.newestEnd
	}
	for _, st := range states {
		dirEnd = max(dirEnd, st.End)
	}
	known, lost := r.knownEnd(dirEnd, got)
	if !lost {
		return nil
	}
	from := got.End
	end, err := s.clog.SkipTo(max(known, from+1))
	if err != nil {
		return fmt.Errorf("records from %d of the commit log on are lost, and it cannot go on behind them: %w", from, err)
	}
	got.End, r.lost = end, true
	r.logMin = s.clog.Bases()[0]
	s.metrics.holes.add(from)
	return r.reportLost(states, from, known)
}

// LostInQueue is how many messages of a queue are lost.
type LostInQueue struct {
	Topic    string
	Queue    int32
	Messages int64
}

// reportLost says how many messages were between two commit log offsets, as far as
// the queues and their directory know.
func (r *recovery) reportLost(states []queuelog.State, from, to int64) error {
	next := map[*queue]int64{}
	for _, st := range states {
		q, err := r.s.makeQueue(st.Topic, st.ID)
		if err != nil {
			return err
		}
		next[q] = st.Next
	}
	told := LogEndLost{From: from, To: to}
	_, told.Next = r.s.clog.Range()
	for _, q := range r.s.allQueues() {
		_, first := q.log.Range()
		behind := max(first, next[q])
		if q.log.End() > from && !r.rebuild[q] {
			var err error
			if first, err = q.log.Search(func(u queuelog.Unit) (bool, error) { return u.Offset >= from, nil }); err != nil {
				if err := r.damaged(q, err); err != nil {
					return err
				}
				continue
			}
		}
		if n := behind - max(first, r.seen[q]); n > 0 {
			told.Queues = append(told.Queues, LostInQueue{q.topic, q.id, n})
			told.Messages += n
		}
	}
	slices.SortFunc(told.Queues, func(a, b LostInQueue) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Queue, b.Queue))
	})
	told.More = max(0, len(told.Queues)-maxLostQueues)
	told.Queues = told.Queues[:len(told.Queues)-told.More]
	r.s.happened(told)
	return nil
}

// standIn has blank units take the places that the directory knows and the
// commit log has no record for, so that their offsets are not given out again.
func (r *recovery) standIn(states []queuelog.State, end int64) error {
	for _, st := range states {
		q := r.s.findQueue(st.Topic, st.ID)
		if q == nil || q.building.Load() || st.End > end || r.s.deleted.has([]byte(st.Topic), st.End-1) {
			continue
		}
		if err := r.standInFor(q, st); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) standInFor(q *queue, st queuelog.State) error {
	_, next := q.log.Range()
	if next >= st.Next {
		return nil
	}
	r.s.happened(QueueLostMessages{Topic: q.topic, Queue: q.id, From: next, To: st.Next})
	if err := q.log.StandIn(st.Next, st.End); err != nil {
		return fmt.Errorf("fill %s queue %d up to %d: %w", q.topic, q.id, st.Next, err)
	}
	r.s.touched.touch(q)
	return nil
}
