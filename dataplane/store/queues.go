package store

import (
	"errors"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// queue is one queue of a topic.
type queue struct {
	topic string
	id    int32
	log   *queuelog.Queue
	seq   commitlog.Sequence
	dirty bool // has units that are not in a file; owned by the dispatcher

	seen struct { // the first unit, as saveQueueStates last saw it; owned by it
		known       bool
		low, offset int64
	}
}

// findQueue returns a queue, or nil.
func (s *Store) findQueue(topic string, id int32) *queue {
	s.queuesMu.RLock()
	defer s.queuesMu.RUnlock()
	return s.queues[topic][id]
}

// makeQueue returns a queue, empty if it is new.
func (s *Store) makeQueue(topic string, id int32) (*queue, error) {
	if q := s.findQueue(topic, id); q != nil {
		return q, nil
	}
	s.queuesMu.Lock()
	defer s.queuesMu.Unlock()
	if q := s.queues[topic][id]; q != nil {
		return q, nil
	}
	return s.openQueueLocked(topic, id)
}

// openQueueLocked loads a queue into the table.
func (s *Store) openQueueLocked(topic string, id int32) (*queue, error) {
	log, err := queuelog.Open(s.queueCfg, s.queueDir(topic, id))
	if err != nil {
		return nil, err
	}
	q := &queue{topic: topic, id: id, log: log}
	_, next := log.Range()
	q.seq.Set(next)
	if s.queues[topic] == nil {
		s.queues[topic] = map[int32]*queue{}
	}
	s.queues[topic][id] = q
	return q, nil
}

func (s *Store) queueDir(topic string, id int32) string {
	return s.path("consumequeue", topic, strconv.Itoa(int(id)))
}

// allQueues returns the queues of this moment.
func (s *Store) allQueues() []*queue {
	s.queuesMu.RLock()
	defer s.queuesMu.RUnlock()
	var all []*queue
	for _, t := range s.queues {
		for _, q := range t {
			all = append(all, q)
		}
	}
	return all
}

// loadQueues opens all queues of the folder.
func (r *recovery) loadQueues() error {
	s := r.s
	topics, err := s.fs.ReadDir(s.path("consumequeue"))
	if err != nil {
		return err
	}
	s.queuesMu.Lock()
	defer s.queuesMu.Unlock()
	for _, topic := range topics {
		if !topic.Dir {
			continue
		}
		ids, err := s.fs.ReadDir(s.path("consumequeue", topic.Name))
		if err != nil {
			return err
		}
		for _, id := range ids {
			var n int64
			n, err = strconv.ParseInt(id.Name, 10, 32)
			if !id.Dir || err != nil || n < 0 {
				continue
			}
			_, err = s.openQueueLocked(topic.Name, int32(n))
			if errors.Is(err, queuelog.ErrDamaged) {
				s.log.Error("consume queue is built anew", "err", err)
				if err := s.fs.RemoveAll(s.queueDir(topic.Name, int32(n))); err != nil {
					return err
				}
				var q *queue
				if q, err = s.openQueueLocked(topic.Name, int32(n)); err == nil {
					r.rebuild[q] = true
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
