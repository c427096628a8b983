package transaction

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// Resolution is what became of a transaction.
type Resolution uint8

// The resolutions.
const (
	Unknown Resolution = iota // nobody knows yet: the producer is asked later
	Commit
	Rollback
)

// End is a decision about one half message.
type End struct {
	HalfOffset     int64 // in HalfTopic; -1: whatever is at PhysicalOffset
	PhysicalOffset int64
	Group          string // physical producer group that must have sent it; "": any
	UniqueKey      string // that it must have; "": any
	Resolution     Resolution
	// Allow, if set, is asked whether the caller may decide about a message of
	// this topic; its error ends the call.
	Allow func(topic string) error
}

// End delivers or drops a half message, for good. A decision that comes after
// checks, or after the message was given up, counts. The same decision twice
// is one. Errors: ErrUnknown, ErrEnded, the one of Allow, those of Deliver and
// of the store; after the latter two the transaction is as open as before.
func (c *Coordinator) End(ctx context.Context, e End) error {
	m, err := c.allowed(e)
	if err != nil {
		return err
	}
	if e.Resolution == Unknown {
		return nil
	}
	h, err := c.take(ctx, m)
	if err != nil {
		return err
	}
	if h == nil {
		return c.repeated(ctx, m, e.Resolution)
	}
	return c.decide(ctx, h, m, e.Resolution)
}

// allowed reads the half message that e is about, if its caller may decide.
func (c *Coordinator) allowed(e End) (*message.Message, error) {
	m, err := c.half(e)
	if err == nil && e.Allow != nil {
		err = e.Allow(property(m, message.KeyRealTopic))
	}
	return m, err
}

// half reads the half message that e is about.
func (c *Coordinator) half(e End) (*message.Message, error) {
	rec, err := c.deps.Store.ReadAt(e.PhysicalOffset)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	m, err := message.Decode(rec)
	if err != nil || m.Topic != HalfTopic || e.HalfOffset >= 0 && m.QueueOffset != e.HalfOffset {
		return nil, ErrUnknown
	}
	if group, _ := m.Property(message.KeyProducerGroup); e.Group != "" && group != e.Group {
		return nil, ErrUnknown
	}
	if key, _ := m.Property(message.KeyUniqueKey); e.UniqueKey != "" && key != e.UniqueKey {
		return nil, ErrUnknown
	}
	return &m, nil
}

// take makes the caller the one who ends a transaction; nil when it has ended.
// A record is a half message only at its place in HalfTopic: what reads as one
// may as well lie in the body of a message, with an offset of somebody else's.
func (c *Coordinator) take(ctx context.Context, m *message.Message) (*half, error) {
	offset := m.QueueOffset
	if err := c.await(ctx, offset); err != nil {
		return nil, err
	}
	if err := c.checkPlace(m); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		h := c.t.halves[offset]
		if h == nil {
			return nil, nil
		}
		if h.ending == nil {
			h.ending = make(chan struct{})
			return h, nil
		}
		ending := h.ending
		c.mu.Unlock()
		var err error
		select {
		case <-ending:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		c.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
}

// checkPlace returns ErrUnknown when the queue of half messages has another record
// at m's offset, or none.
func (c *Coordinator) checkPlace(m *message.Message) error {
	batch, err := c.deps.Store.Read(HalfTopic, 0, m.QueueOffset, store.ReadOptions{MaxMessages: 1})
	if err != nil {
		return fmt.Errorf("read %s at %d: %w", HalfTopic, m.QueueOffset, err)
	}
	defer batch.Release()
	if len(batch.Records) == 1 {
		f, err := message.Parse(batch.Records[0])
		if err == nil && f.QueueOffset == m.QueueOffset && f.PhysicalOffset == m.PhysicalOffset {
			return nil
		}
	}
	return ErrUnknown
}

// giveLocked ends what take began.
func (h *half) giveLocked() {
	close(h.ending)
	h.ending = nil
}

// decide ends a transaction that was taken. A crash after the delivery and
// before the record in OpTopic leaves it open with its delivery in the log:
// the next process looks for that before it asks anybody (delivered).
func (c *Coordinator) decide(ctx context.Context, h *half, m *message.Message, r Resolution) error {
	c.mu.Lock()
	delivered := h.state == StateCommitted
	recovered := h.recovered
	c.mu.Unlock()
	var err error
	if recovered && !delivered {
		delivered, err = c.delivered(ctx, m)
	}
	ended := false // the other way
	switch {
	case err != nil:
	case delivered && r == Rollback:
		ended = true
	case !delivered && r == Commit:
		if err = c.deps.Deliver(ctx, Committed(m)); err == nil {
			delivered = true
		}
	}
	var noted error
	if err == nil {
		noted = c.ops.add(ctx, h.offset)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer h.giveLocked()
	switch {
	case err != nil:
		h.recovered = true // it may be in the log all the same
		return err
	case noted == nil:
		c.endedLocked(h, delivered)
	case delivered:
		// What was asked for is done. The record that says so is tried again at
		// the next tick.
		c.deps.Logger.Error("end of a transaction was not noted; trying again", "offset", h.offset, "err", noted)
		h.state = StateCommitted
		c.t.again(h, c.deps.Now().UnixMilli())
	default:
		return noted
	}
	if ended {
		return ErrEnded
	}
	return nil
}

// endedLocked forgets a transaction that has ended.
func (c *Coordinator) endedLocked(h *half, delivered bool) {
	c.t.remove(h)
	c.marks.set(h.offset, mark{state: markEnded})
	if h.state == StateGivenUp {
		// The records of OpTopic about it are not read again at a start: only
		// the mark says that it has ended.
		if err := c.marks.write(); err != nil {
			c.deps.Logger.Error("end of a transaction was not marked; trying again", "offset", h.offset, "err", err)
		}
	}
	if delivered {
		c.counts.Committed++
	} else {
		c.counts.RolledBack++
	}
}

// Committed is a half message in the form in which its topic gets it: with
// RocketMQ's mark, and the place of the half message.
func Committed(m *message.Message) *message.Message {
	out := restored(m)
	out.SysFlag = m.SysFlag&^message.SysFlagTransaction | message.SysFlagCommit
	out.PreparedTransactionOffset = m.PhysicalOffset
	return out
}

// restored is a half message as its producer sent it.
func restored(m *message.Message) *message.Message {
	out := *m
	out.Topic, out.QueueID = property(m, message.KeyRealTopic), realQueue(m)
	out.Properties = message.AppendPropertiesWithout(nil, m.Properties, message.KeyRealTopic, message.KeyRealQueueID)
	return &out
}

func realQueue(m *message.Message) int32 {
	v, _ := m.Property(message.KeyRealQueueID)
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return -1 // the broker chooses
	}
	return int32(n)
}

// repeated answers a decision about a transaction that has ended.
func (c *Coordinator) repeated(ctx context.Context, m *message.Message, r Resolution) error {
	delivered, err := c.delivered(ctx, m)
	if err != nil {
		return err
	}
	if delivered != (r == Commit) {
		return ErrEnded
	}
	return nil
}

// delivered looks whether a half message has been committed: whether a record
// with its key names it, of whatever time: the clock may have been set back in
// between. One that was committed with a delay is found where it
// waits, or in its topic.
func (c *Coordinator) delivered(ctx context.Context, m *message.Message) (bool, error) {
	key, _ := m.Property(message.KeyUniqueKey)
	if key == "" {
		return false, nil
	}
	topics := []string{property(m, message.KeyRealTopic)}
	for _, delay := range []string{message.KeyDelay, message.KeyTimerDelaySec, message.KeyTimerDelayMs, message.KeyTimerDeliverMs} {
		if property(m, delay) != "" {
			topics = append(topics, message.ScheduleTopic, timerTopic)
			break
		}
	}
	for _, topic := range topics {
		found, err := c.deps.Store.FindByKey(ctx, store.KeyQuery{Topic: topic, Key: key, Kind: store.KeyUnique, To: 1<<63 - 1, Max: store.MaxFound})
		if err != nil {
			return false, fmt.Errorf("look for a delivery: %w", err)
		}
		for _, rec := range found {
			f, err := message.Parse(rec)
			if err == nil && f.SysFlag&message.SysFlagTransaction == message.SysFlagCommit && f.PreparedTransactionOffset == m.PhysicalOffset {
				return true, nil
			}
		}
	}
	return false, nil
}

// timerTopic is where messages with a time of their own wait.
const timerTopic = "rmq_sys_wheel_timer"
