package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// QueueRange returns the first and the next offset of a queue.
func (b *Broker) QueueRange(topic string, queueID int32) (low, top int64, err error) {
	t, ok := b.store.Topic(topic)
	if !ok {
		return 0, 0, topicNotFound(topic)
	}
	if err := checkQueue(t, queueID); err != nil {
		return 0, 0, err
	}
	low, top = b.store.QueueOffsets(topic, queueID)
	return low, top, nil
}

// OffsetByTime returns the offset for a store time in milliseconds.
func (b *Broker) OffsetByTime(topic string, queueID int32, ms int64, boundary store.Boundary) (int64, error) {
	if _, _, err := b.QueueRange(topic, queueID); err != nil {
		return 0, err
	}
	offset, err := b.store.OffsetByTime(topic, queueID, ms, boundary)
	return offset, fromStore(err)
}

// EarliestTime returns when the first message of a queue was stored, -1 when
// it has none.
func (b *Broker) EarliestTime(topic string, queueID int32) (int64, error) {
	low, _, err := b.QueueRange(topic, queueID)
	if err != nil {
		return -1, err
	}
	if ms, ok := b.store.StoreTimeAt(topic, queueID, low); ok {
		return ms, nil
	}
	return -1, nil
}

// View returns a copy of the record at a commit log offset. allowed decides,
// by its physical topic, whether the caller may see it; one that it may not is
// answered like one that does not exist.
func (b *Broker) View(offset int64, allowed func(topic string) bool) ([]byte, error) {
	rec, err := b.store.ReadAt(offset)
	if err != nil {
		return nil, fromStore(err)
	}
	f, err := message.Parse(rec)
	if err != nil || !allowed(string(f.Topic)) {
		return nil, fail(CodeMessageNotFound, "there is no message at this offset")
	}
	return rec, nil
}

// findTime is what one look-up by key may take.
const findTime = 3 * time.Second

// FindByKey returns copies of the newest records of a topic that have a key, in
// the order of the commit log; see store.FindByKey.
func (b *Broker) FindByKey(ctx context.Context, q store.KeyQuery) ([][]byte, error) {
	if _, ok := b.store.Topic(q.Topic); !ok {
		return nil, topicNotFound(q.Topic)
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	recs, err := b.store.FindByKey(ctx, q)
	if ctx.Err() != nil && !errors.Is(err, store.ErrIndexing) {
		return nil, &Error{Code: CodeBusy, Text: "the look-up took too long: ask for a shorter time", Topic: q.Topic, Err: err}
	}
	return recs, fromStore(err)
}

// QueueStats is a queue of a topic.
type QueueStats struct {
	QueueID    int32
	Min, Max   int64
	LastStored int64 // ms; 0 for an empty queue
}

// TopicStats returns the state of each queue.
func (b *Broker) TopicStats(topic string) ([]QueueStats, error) {
	t, ok := b.store.Topic(topic)
	if !ok {
		return nil, topicNotFound(topic)
	}
	out := make([]QueueStats, 0, t.ReadQueueNums)
	for q := range int32(max(t.ReadQueueNums, t.WriteQueueNums)) {
		s := QueueStats{QueueID: q}
		s.Min, s.Max = b.store.QueueOffsets(topic, q)
		if s.Max > s.Min {
			s.LastStored, _ = b.store.StoreTimeAt(topic, q, s.Max-1)
		}
		out = append(out, s)
	}
	return out, nil
}

// GroupProgress is a group's place in one queue.
type GroupProgress struct {
	Topic        string
	QueueID      int32
	Offset, Max  int64 // next to consume, next to be written; Offset <= Max
	LastConsumed int64 // store time of the last consumed message, ms; 0 if none
	InFlight     int   // received and neither acknowledged nor visible again
}

// GroupStats returns the group's progress in topic, or in every topic that it
// has consumed when topic is "".
func (b *Broker) GroupStats(group, topic string) ([]GroupProgress, error) {
	if _, ok := b.store.Group(group); !ok {
		return nil, groupNotFound(group)
	}
	topics := []string{topic}
	if topic == "" {
		topics = b.offsets.topicsOf(group)
		slices.Sort(topics)
	}
	var out []GroupProgress
	for _, name := range topics {
		t, ok := b.store.Topic(name)
		if !ok {
			continue
		}
		for q := range int32(max(t.ReadQueueNums, t.WriteQueueNums)) {
			low, top := b.store.QueueOffsets(name, q)
			p := GroupProgress{Topic: name, QueueID: q, Max: top}
			if offset, ok := b.offsets.get(group, name, q); ok {
				p.Offset = min(max(offset, low), top)
			}
			if p.Offset > low {
				p.LastConsumed, _ = b.store.StoreTimeAt(name, q, p.Offset-1)
			}
			p.InFlight = b.receives.inFlight(group, name, q)
			out = append(out, p)
		}
	}
	return out, nil
}

// GroupsOf returns the groups that consume a topic: those with members that
// subscribe to it and those with offsets in it, sorted.
func (b *Broker) GroupsOf(topic string) []string {
	set := map[string]bool{}
	b.members.mu.Lock()
	for name, g := range b.members.consumers {
		if _, ok := g.subs[topic]; ok {
			set[name] = true
		}
	}
	b.members.mu.Unlock()
	b.offsets.mu.Lock()
	for key := range b.offsets.table {
		if key.topic == topic {
			set[key.group] = true
		}
	}
	b.offsets.mu.Unlock()
	out := make([]string, 0, len(set))
	for name := range set {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// LogRange returns the first and the next commit log offset.
func (b *Broker) LogRange() (low, top int64) { return b.store.CommitLogRange() }

// TimeSpan is from when to when the messages of a queue are, and where a group
// is in it; times are store times in ms, 0 for none.
type TimeSpan struct {
	QueueID               int32
	First, Last, Consumed int64
	Behind                time.Duration // age of the next message to consume
}

// TimeSpans returns the span of each queue of a topic.
func (b *Broker) TimeSpans(group, topic string) ([]TimeSpan, error) {
	progress, err := b.GroupStats(group, topic)
	if err != nil {
		return nil, err
	}
	at := func(queue int32, offset int64) int64 {
		ms, _ := b.store.StoreTimeAt(topic, queue, offset)
		return ms
	}
	out := make([]TimeSpan, len(progress))
	for i, p := range progress {
		low, top := b.store.QueueOffsets(topic, p.QueueID)
		out[i] = TimeSpan{QueueID: p.QueueID, First: at(p.QueueID, low), Last: at(p.QueueID, top-1), Consumed: p.LastConsumed}
		if next := at(p.QueueID, p.Offset); next > 0 && p.Offset < p.Max {
			out[i].Behind = b.now().Sub(time.UnixMilli(next))
		}
	}
	return out, nil
}
