package store

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
)

// A topic is deleted behind a barrier: its queues take no more appends, those
// under way are written, and only then a mark says up to which commit log
// offset the topic's records mean nothing any more. So no record with an old
// queue offset stands behind the mark, where it would go into a queue of the
// topic made again.

// gate counts the appends to a queue that are under way. Only one goroutine at
// a time may shut and open it.
type gate struct {
	state atomic.Int64                  // how many; and gateShut while the gate is shut
	left  atomic.Pointer[chan struct{}] // poked when nobody seems to be inside a shut gate
}

const gateShut = math.MinInt64 / 2

// enter lets an append in; pair it with leave. It is false while the gate is shut.
func (g *gate) enter() bool {
	if g.state.Add(1) > 0 {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.state.Add(-1) == gateShut {
		poke(*g.left.Load())
	}
}

// shut lets nobody in until open.
func (g *gate) shut() {
	left := make(chan struct{}, 1)
	g.left.Store(&left)
	g.state.Add(gateShut)
}

// wait waits until nobody is inside a gate that is shut. A poke alone says
// little: who left before the gate was opened and shut again may poke late.
func (g *gate) wait() {
	for g.state.Load() != gateShut {
		<-*g.left.Load()
	}
}

func (g *gate) open() { g.state.Add(-gateShut) }

func beingDeleted(topic string) error {
	return fmt.Errorf("topic %s is being deleted: %w", topic, ErrBusy)
}

// DeleteTopic removes a topic and its queues. Its records stay in the commit
// log until they expire, but never come back into a queue, also when a topic
// of that name is made again. Deleting what is not there is no error.
//
// It waits for appends to the topic that are under way; further ones are
// refused with ErrBusy until it returns. After an error the topic is as it
// was, or it is gone and only files of its queues are left: then Topic does
// not know it any more, and the files go when it is deleted again, with the next
// start, or with what is stored in their place.
func (s *Store) DeleteTopic(name string) error {
	if err := s.usable(name); err != nil {
		return fmt.Errorf("topic %w", err)
	}
	queues := s.beginDelete(name)
	err := s.deleteTopic(name, queues)
	s.endDelete(name)
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	return nil
}

// deleteTopic needs the barrier of beginDelete.
func (s *Store) deleteTopic(name string, queues topicQueues) error {
	if _, known := s.Topic(name); known || len(queues) > 0 {
		if err := s.strike(name, queues); err != nil {
			for _, e := range queues {
				e.q.gate.open()
			}
			return err
		}
	}
	// Gates stay shut, for those who have found the queues before.
	s.queuesMu.Lock()
	logs := s.leftover[name]
	for _, e := range queues {
		logs = append(logs, e.q.log)
	}
	s.leftover[name] = logs
	s.queuesMu.Unlock()
	if err := errors.Join(s.layout.Remove(name, logs), s.removeBatches(name)); err != nil {
		return err
	}
	s.queuesMu.Lock()
	delete(s.leftover, name)
	s.queuesMu.Unlock()
	return nil
}

// beginDelete lets nobody append to a topic or make a queue of it, and waits
// until what was appended is written. It returns the queues that it has.
func (s *Store) beginDelete(name string) topicQueues {
	s.queuesMu.Lock()
	for other := s.deleting[name]; other != nil; other = s.deleting[name] {
		s.queuesMu.Unlock()
		<-other
		s.queuesMu.Lock()
	}
	s.deleting[name] = make(chan struct{})
	queues := s.queues[name] // nobody changes it until endDelete
	for _, e := range queues {
		e.q.gate.shut()
	}
	s.queuesMu.Unlock()
	s.Lead() // what was submitted and is left to whoever leads next
	for _, e := range queues {
		e.q.gate.wait()
	}
	return queues
}

func (s *Store) endDelete(name string) {
	s.queuesMu.Lock()
	defer s.queuesMu.Unlock()
	close(s.deleting[name])
	delete(s.deleting, name)
}

// strike takes a topic out of the tables, durably. After an error nothing has
// changed.
func (s *Store) strike(name string, queues topicQueues) error {
	// The mark first: a crash in between leaves a topic without messages,
	// which may be deleted again.
	mark := s.clog.Written()
	if err := s.deleted.note(name, mark); err != nil {
		return err
	}
	if err := s.topics.change(name, nil); err != nil {
		s.deleted.takeBack(name)
		return err
	}
	s.findBatchCQ()
	// In one step for the dispatcher: it never finds a record good and its
	// queue gone.
	s.dispatchMu.Lock()
	defer s.dispatchMu.Unlock()
	s.deleted.enforce(name, mark)
	if len(queues) > 0 {
		s.queuesMu.Lock()
		defer s.queuesMu.Unlock()
		delete(s.queues, name)
	}
	return nil
}

// deletedTopics remembers up to which commit log offset records of a deleted
// topic are to be ignored. The dispatcher never waits for the file.
type deletedTopics struct {
	m    atomic.Pointer[map[string]int64] // in force; never changed in place
	mu   sync.Mutex                       // held while m is replaced
	save func(map[string]int64) error

	fileMu sync.Mutex       // held while the file is written; in front of mu
	file   map[string]int64 // what it is to hold: the marks in force, and those of topics that are about to go
	stale  bool             // it may hold something else
}

func (d *deletedTopics) has(topic []byte, off int64) bool {
	m := *d.m.Load()
	if len(m) == 0 {
		return false
	}
	end, ok := m[string(topic)]
	return ok && off < end
}

// change replaces what is in force.
func (d *deletedTopics) change(do func(map[string]int64)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := maps.Clone(*d.m.Load())
	do(m)
	d.m.Store(&m)
}

// note puts a mark into the file, durably. It is in force with enforce only,
// and takeBack takes it out again; one of them must follow.
func (d *deletedTopics) note(topic string, end int64) error {
	d.fileMu.Lock()
	defer d.fileMu.Unlock()
	d.file[topic] = end
	err := d.saveLocked()
	if err != nil {
		d.restoreLocked(topic)
	}
	return err
}

// saveLocked writes the file. After an error it is not known what it holds:
// freshen tries again.
func (d *deletedTopics) saveLocked() error {
	err := d.save(d.file)
	d.stale = err != nil
	return err
}

// restoreLocked has the file hold the mark that is in force, if there is one.
func (d *deletedTopics) restoreLocked(topic string) {
	if end, ok := (*d.m.Load())[topic]; ok {
		d.file[topic] = end
	} else {
		delete(d.file, topic)
	}
}

// enforce has a noted mark count.
func (d *deletedTopics) enforce(topic string, end int64) {
	d.change(func(m map[string]int64) { m[topic] = end })
}

// takeBack undoes note. A file that cannot be written now is left to freshen.
func (d *deletedTopics) takeBack(topic string) {
	d.fileMu.Lock()
	defer d.fileMu.Unlock()
	d.restoreLocked(topic)
	_ = d.saveLocked()
}

// freshen writes the file if it may hold what it should not.
func (d *deletedTopics) freshen() error {
	d.fileMu.Lock()
	defer d.fileMu.Unlock()
	if !d.stale {
		return nil
	}
	return d.saveLocked()
}

// clamp lowers marks behind the end of the log, durably: what a crash took
// away will be written anew, by other topics of the same name. Only recovery
// may call it.
func (d *deletedTopics) clamp(logEnd int64) error {
	d.fileMu.Lock()
	defer d.fileMu.Unlock()
	changed := false
	for topic, end := range d.file {
		if end > logEnd {
			d.file[topic], changed = logEnd, true
		}
	}
	if !changed {
		return nil
	}
	if err := d.saveLocked(); err != nil {
		return err
	}
	d.change(func(m map[string]int64) { maps.Copy(m, d.file) })
	return nil
}

// forget drops what no record of the log needs any more. The file follows with
// the next note.
func (d *deletedTopics) forget(logMin int64) {
	d.fileMu.Lock()
	defer d.fileMu.Unlock()
	old := func(_ string, end int64) bool { return end <= logMin }
	maps.DeleteFunc(d.file, old)
	d.change(func(m map[string]int64) { maps.DeleteFunc(m, old) })
}
