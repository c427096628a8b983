package store

import (
	"strconv"

	"github.com/sluicemq/sluice/dataplane/queuelog"
)

// AttributeReserveBytes of a topic is how many bytes of its newest messages can
// be read, in all queues together; -1 or nothing for as many as are there. Of our
// own: RocketMQ keeps it and does nothing with it.
const AttributeReserveBytes = "reserve.bytes"

// byteMarks is how many parts of a topic's limit can be told apart: so much less
// than the limit may be left.
const byteMarks = 64

// topicBytes counts the messages of topics that have a limit by size. Queue
// entries have the sizes, so each of them is read once, when it is new, and all
// of them after a start; what was counted need not be read again to forget it.
// It belongs to whoever calls retain.
type topicBytes map[string]*countedTopic

// countedTopic is a topic's messages in the order of the commit log.
type countedTopic struct {
	limit   int64
	total   int64            // bytes of all that was counted
	counted map[*queue]int64 // queue offset up to which it was
	marks   []byteMark       // oldest first
}

// byteMark says that all messages from a commit log offset on are total-before.
type byteMark struct{ offset, before int64 }

// byteLimits returns the topics with a limit by size.
func (s *Store) byteLimits() map[string]int64 {
	var all map[string]int64
	for name, c := range s.topics.state.Load().rows {
		if n, err := strconv.ParseInt(c.Attributes[AttributeReserveBytes], 10, 64); err == nil && n > 0 {
			if all == nil {
				all = map[string]int64{}
			}
			all[name] = n
		}
	}
	return all
}

// count takes in what is new and returns for each topic with a limit the commit
// log offset in front of which its messages are too many.
func (t topicBytes) count(s *Store, limits map[string]int64) (map[string]int64, error) {
	queues := map[string][]*queue{}
	for _, q := range s.allQueues() {
		if _, ok := limits[q.topic]; ok {
			queues[q.topic] = append(queues[q.topic], q)
		}
	}
	for topic := range t {
		if _, ok := queues[topic]; !ok {
			delete(t, topic)
		}
	}
	cut := map[string]int64{}
	var errs queuelog.Errors
	for topic, of := range queues {
		c := t[topic]
		if c == nil || c.limit != limits[topic] || c.outdated(of) {
			c = &countedTopic{limit: limits[topic], counted: map[*queue]int64{}}
			t[topic] = c
		}
		if err := c.add(of); err != nil {
			delete(t, topic) // and begin again
			errs.Add(err)
			continue
		}
		cut[topic] = c.cut()
	}
	return cut, errs.Join()
}

// outdated tells whether a queue is another one than was counted.
func (c *countedTopic) outdated(queues []*queue) bool {
	known := 0
	for _, q := range queues {
		from, ok := c.counted[q]
		if _, hi := q.log.Range(); ok && hi < from || q.building.Load() {
			return true
		}
		if ok {
			known++
		}
	}
	return known < len(c.counted)
}

// cursor is a queue whose entries are being counted.
type cursor struct {
	q        *queue
	next, hi int64
	units    []queuelog.Unit // read ahead, from next on
	memory   []queuelog.Unit
}

// add counts the new entries of all queues, merged.
func (c *countedTopic) add(queues []*queue) error {
	cursors := make([]*cursor, 0, len(queues))
	for _, q := range queues {
		if q.building.Load() {
			continue
		}
		lo, hi := q.log.Range()
		cursors = append(cursors, &cursor{q: q, next: max(lo, c.counted[q]), hi: hi})
	}
	for {
		var first *cursor
		for _, x := range cursors {
			if err := x.fill(); err != nil {
				return err
			}
			if len(x.units) > 0 && (first == nil || x.units[0].Offset < first.units[0].Offset) {
				first = x
			}
		}
		if first == nil {
			break
		}
		c.take(first.units[0])
		first.units, first.next = first.units[1:], first.next+1
	}
	for _, x := range cursors {
		c.counted[x.q] = x.next
	}
	return nil
}

// fill reads on unless there are units.
func (x *cursor) fill() error {
	for len(x.units) == 0 && x.next < x.hi {
		got, err := x.q.log.Read(x.memory[:0], x.next, int(min(x.hi-x.next, scanUnits)))
		if err != nil {
			return err
		}
		if x.memory, x.units = got, got; len(got) == 0 {
			lo, _ := x.q.log.Range()
			x.next = min(max(x.next+1, lo), x.hi) // gone meanwhile
		}
	}
	return nil
}

func (c *countedTopic) take(u queuelog.Unit) {
	if u.Blank() {
		return
	}
	if n := len(c.marks); n == 0 || c.total-c.marks[n-1].before >= c.limit/byteMarks {
		if n >= 4*byteMarks {
			c.cut()
		}
		c.marks = append(c.marks, byteMark{u.Offset, c.total})
	}
	c.total += int64(u.Size)
}

// cut returns the commit log offset from which on the topic has no more than its
// limit, or just the newest message, and forgets the marks in front of it.
func (c *countedTopic) cut() int64 {
	for i, m := range c.marks {
		if c.total-m.before <= c.limit || i == len(c.marks)-1 {
			c.marks = append(c.marks[:0], c.marks[i:]...)
			return m.offset
		}
	}
	return 0
}
