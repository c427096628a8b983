package broker

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
)

// Reset says where a group goes on in a topic.
type Reset struct {
	Group, Topic string // physical
	QueueID      int32  // -1: all queues
	// Offset is the next message to consume, for one queue; -1: Time says it.
	Offset int64
	// Time is a store time in ms: the group goes on at the first message that
	// is not older. -1, and what is not in the past, is the end.
	Time int64
}

// ResetQueue is what a reset does to one queue.
type ResetQueue struct {
	QueueID  int32
	From, To int64 // next message to consume, before and after; From is -1 if the group has no place yet
	Min, Max int64 // of the queue at that moment
}

// resets are the queues whose consumers have not heard of their reset yet.
// Until they have, what they commit is from before, and does not count.
type resets struct {
	now func() time.Time

	some atomic.Bool // there may be pending ones: nearly always there are none

	mu      sync.Mutex
	pending map[resetKey]pendingReset
}

type resetKey struct {
	groupTopic
	queue int32
}

type pendingReset struct {
	to    int64
	until time.Time
}

func newResets(now func() time.Time) *resets {
	return &resets{now: now, pending: map[resetKey]pendingReset{}}
}

// resetTime is how long a reset waits for a consumer to hear of it, since it was
// made or since the last commit from before: one that pulls hears within its hold,
// one that does not commits every few seconds.
const resetTime = 2 * time.Minute

func (r *resets) put(k resetKey, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for other, p := range r.pending {
		if now.After(p.until) {
			delete(r.pending, other)
		}
	}
	r.pending[k] = pendingReset{to, now.Add(resetTime)}
	r.some.Store(true)
}

// get returns where the consumers of a queue go on that have not heard yet.
func (r *resets) get(k resetKey) (to int64, ok bool) {
	if !r.some.Load() {
		return 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.pending[k]
	return p.to, ok && !r.now().After(p.until)
}

// refuse tells whether a commit is from before a reset. Whoever sent it has not
// heard yet: one that works through many messages that it has already does not
// pull for a long time. So the reset waits longer.
func (r *resets) refuse(k resetKey) bool {
	if !r.some.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.pending[k]
	now := r.now()
	if !ok || now.After(p.until) {
		return false
	}
	p.until = now.Add(resetTime)
	r.pending[k] = p
	return true
}

// take is get for a consumer that hears now.
func (r *resets) take(k resetKey) (to int64, ok bool) {
	if !r.some.Load() {
		return 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.pending[k]
	if !ok {
		return 0, false
	}
	delete(r.pending, k)
	r.some.Store(len(r.pending) > 0)
	return p.to, !r.now().After(p.until)
}

// PreviewReset tells what ResetOffsets would do now.
func (b *Broker) PreviewReset(r Reset) ([]ResetQueue, error) {
	if _, ok := b.store.Group(r.Group); !ok {
		return nil, groupNotFound(r.Group)
	}
	t, ok := b.store.Topic(r.Topic)
	if !ok {
		return nil, topicNotFound(r.Topic)
	}
	first, end := int32(0), int32(max(t.ReadQueueNums, t.WriteQueueNums))
	if r.QueueID >= 0 {
		if err := checkQueue(t, r.QueueID); err != nil {
			return nil, err
		}
		first, end = r.QueueID, r.QueueID+1
	} else if r.Offset >= 0 {
		return nil, fail(CodeInvalidParameter, "an offset is for one queue: name it, or reset by time")
	}
	out := make([]ResetQueue, 0, end-first)
	for id := first; id < end; id++ {
		q, err := b.previewQueue(&r, id)
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

func (b *Broker) previewQueue(r *Reset, id int32) (ResetQueue, error) {
	q := ResetQueue{QueueID: id, From: -1}
	q.Min, q.Max = b.store.QueueOffsets(r.Topic, id)
	if offset, ok := b.offsets.get(r.Group, r.Topic, id); ok {
		q.From = min(offset, q.Max)
	}
	switch {
	case r.Offset > q.Max:
		return q, &Error{Code: CodeInvalidParameter, Text: "offset " + strconv.FormatInt(r.Offset, 10) + " is beyond the end of the queue", Topic: r.Topic, Limit: strconv.FormatInt(q.Max, 10)}
	case r.Offset >= 0:
		q.To = max(r.Offset, q.Min)
	case r.Time < 0 || r.Time >= b.now().UnixMilli():
		q.To = q.Max
	default:
		to, err := b.store.OffsetByTime(r.Topic, id, r.Time, store.BoundaryLower)
		if err != nil {
			return q, fromStore(err)
		}
		q.To = min(max(to, q.Min), q.Max)
	}
	return q, nil
}

// ResetOffsets moves a group, online or not, forward or back, and returns what
// changed. Members that pull hear of it with their next pull, or at once if
// that is parked; what is received goes on from the new place, and what was in
// flight does not count any more. To undo it, reset each queue to its From.
func (b *Broker) ResetOffsets(r Reset) ([]ResetQueue, error) {
	queues, err := b.PreviewReset(r)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		key := resetKey{groupTopic{r.Group, r.Topic}, q.QueueID}
		if b.pulls(r.Group) {
			b.resets.put(key, q.To)
		}
		if err := b.receives.reset(key, q.To); err != nil {
			return nil, err
		}
		b.offsets.set(r.Group, r.Topic, q.QueueID, q.To)
		b.holds.wake(queueKey{r.Topic, q.QueueID})
		b.log.Info("consumer offset was reset", "topic", r.Topic, "group", r.Group, "queue", q.QueueID, "from", q.From, "to", q.To)
	}
	return queues, nil
}

// pulls tells whether a group has members that remember their place
// themselves.
func (b *Broker) pulls(group string) bool {
	m, _ := b.Members(group)
	for _, c := range m.Clients {
		if c.Protocol == ProtocolRemoting {
			return true
		}
	}
	return false
}

// reset puts what a group received of a queue back to an offset.
func (r *receives) reset(k resetKey, to int64) error {
	p := r.find(k.group, k.topic, k.queue)
	if p == nil {
		return nil
	}
	p.turn <- struct{}{} // whoever reads the queue now ends first
	p.mu.Lock()
	p.clearLocked()
	p.next, p.base, p.fresh = to, to, false
	seq := r.journal.add(p.appendClear(nil))
	p.mu.Unlock()
	<-p.turn
	r.receiver(k.groupTopic).signal()
	if err := r.journal.wait(seq); err != nil {
		return &Error{Code: CodeUnavailable, Text: "the broker cannot keep where the group goes on", Err: err}
	}
	return nil
}

// CloneOffsets gives one group the places of another in a topic. Its members
// hear of it as of a reset.
func (b *Broker) CloneOffsets(from, to, topic string) error {
	for _, group := range []string{from, to} {
		if _, ok := b.store.Group(group); !ok {
			return groupNotFound(group)
		}
	}
	t, ok := b.store.Topic(topic)
	if !ok {
		return topicNotFound(topic)
	}
	for id := range int32(max(t.ReadQueueNums, t.WriteQueueNums)) {
		offset, ok := b.offsets.get(from, topic, id)
		if !ok {
			continue
		}
		if _, top := b.store.QueueOffsets(topic, id); offset > top {
			offset = top
		}
		if _, err := b.ResetOffsets(Reset{Group: to, Topic: topic, QueueID: id, Offset: offset}); err != nil {
			return err
		}
	}
	return nil
}

// TopicsOf returns the topics that a group has a place in, sorted.
func (b *Broker) TopicsOf(group string) ([]string, error) {
	if _, ok := b.store.Group(group); !ok {
		return nil, groupNotFound(group)
	}
	topics := b.offsets.topicsOf(group)
	slices.Sort(topics)
	return topics, nil
}
