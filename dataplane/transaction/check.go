package transaction

import (
	"context"
	"errors"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// maxPerTick bounds what one tick looks at; the rest follows with the next.
const maxPerTick = 5000

// Tick does what is due: it reads the table at the first call, takes new half
// messages in, asks producers, gives up what was asked about too often, and
// writes progress. Nothing that is wrong with one message keeps the others
// waiting. It must not run twice at the same time.
func (c *Coordinator) Tick(ctx context.Context) error {
	c.mu.Lock()
	loaded := c.loaded
	c.mu.Unlock()
	if !loaded {
		if err := c.load(); err != nil {
			return err
		}
		c.mu.Lock()
		c.loaded = true
		c.announceLocked()
		c.mu.Unlock()
	} else if err := c.follow(); err != nil {
		return err
	}
	now := c.deps.Now().UnixMilli()
	c.followClock(now)
	for n := 0; n < maxPerTick && ctx.Err() == nil; n++ {
		h := c.nextDue(now)
		if h == nil {
			break
		}
		if err := c.look(ctx, h, now); err != nil {
			c.deps.Logger.Warn("transaction was not checked; trying again", "offset", h.offset, "err", err)
			c.finish(h, func() { c.t.again(h, now+c.cfg.Period.Milliseconds()) })
		}
	}
	return c.save()
}

// followClock moves all due times with a clock that was set back: nobody waits
// until it is where it was.
func (c *Coordinator) followClock(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if back := c.ticked - now; back > c.cfg.Period.Milliseconds() {
		c.deps.Logger.Warn("clock was set back: checks of transactions follow it", "ms", back)
		for _, h := range c.t.byDue { // all by the same: the heap stays one
			h.due -= back
		}
	}
	c.ticked = now
}

// nextDue takes the next transaction that is due; nil when there is none. One
// that somebody ends right now is left to them.
func (c *Coordinator) nextDue(now int64) *half {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.t.byDue) > 0 && c.t.byDue[0].due <= now {
		h := c.t.byDue[0]
		if h.ending == nil {
			h.ending = make(chan struct{})
			return h
		}
		c.t.again(h, now+c.cfg.Period.Milliseconds())
	}
	return nil
}

// finish ends the look at a transaction that nextDue took.
func (c *Coordinator) finish(h *half, do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	h.giveLocked()
}

// look does what is to do about a transaction that is due. With an error it is
// still taken.
func (c *Coordinator) look(ctx context.Context, h *half, now int64) error {
	m, err := c.half(End{HalfOffset: h.offset, PhysicalOffset: h.physical})
	if errors.Is(err, ErrUnknown) {
		c.deps.Logger.Error("half message is not in the log any more: its transaction is dropped", "offset", h.offset, "physical", h.physical)
		c.finish(h, func() {
			c.t.remove(h)
			c.marks.set(h.offset, mark{state: markEnded})
			c.counts.Lost++
		})
		return nil
	}
	if err != nil {
		return err
	}
	delivered := h.state == StateCommitted
	if h.recovered && !delivered {
		if delivered, err = c.delivered(ctx, m); err != nil {
			return err
		}
		c.mu.Lock()
		h.recovered = false // looked; ours is the only hand on it
		c.mu.Unlock()
	}
	if delivered {
		if err := c.ops.add(ctx, h.offset); err != nil {
			return err
		}
		c.finish(h, func() { c.endedLocked(h, true) })
		return nil
	}
	if h.state == StateGivenUp {
		c.finish(h, func() { c.t.rest(h) })
		return nil
	}
	group, topic := property(m, message.KeyProducerGroup), property(m, message.KeyRealTopic)
	switch {
	case group == "" || topic == "":
		return c.giveUp(ctx, h, m, "it names no producer group or no topic")
	case !c.deps.Topic(topic):
		return c.giveUp(ctx, h, m, "its topic does not exist any more")
	case h.checks >= c.cfg.Checks:
		return c.giveUp(ctx, h, m, "nobody decided after all checks")
	case now-h.stored > c.cfg.MaxAge.Milliseconds():
		return c.giveUp(ctx, h, m, "it is too old")
	}
	answer := c.deps.Ask(Check{
		Group: group, Topic: topic, HalfOffset: h.offset, PhysicalOffset: h.physical,
		UniqueKey: property(m, message.KeyUniqueKey), Count: h.checks + 1,
		Message: func() (*message.Message, error) {
			m, err := c.half(End{HalfOffset: h.offset, PhysicalOffset: h.physical})
			if err != nil {
				return nil, err
			}
			return restored(m), nil
		},
	})
	c.finish(h, func() {
		if answer == Busy {
			c.t.again(h, now+busyPause)
			return
		}
		h.checks++ // also when nobody is there: it does not wait for ever
		c.counts.Checks++
		if answer == Nobody {
			c.counts.Unreached++
		}
		c.marks.set(h.offset, mark{at: now, checks: uint16(h.checks), state: markOpen})
		c.t.again(h, now+c.cfg.Period.Milliseconds())
	})
	return nil
}

// busyPause is how long a question waits for producers to have room for it.
const busyPause = 1000 // ms

func property(m *message.Message, key string) string {
	v, _ := m.Property(key)
	return v
}

// giveUp puts a copy where RocketMQ's tools look for it, and asks nobody any
// more.
func (c *Coordinator) giveUp(ctx context.Context, h *half, m *message.Message, why string) error {
	out := *m
	out.Topic, out.QueueID = GivenUpTopic, 0
	out.Properties = message.AppendPropertiesWithout(nil, m.Properties, message.KeyCheckTimes, c.deps.OwnerKey)
	if p := message.AppendProperty(out.Properties, message.KeyCheckTimes, itoa(int64(h.checks))); len(p) <= message.MaxPropertiesBytes {
		out.Properties = p
	}
	if _, err := c.deps.Store.Append(ctx, &out, store.DurabilityDefault); err != nil {
		return err
	}
	topic := property(m, message.KeyRealTopic)
	c.deps.Logger.Warn("transaction was given up", "why", why, "topic", topic, "offset", h.offset, "checks", h.checks)
	c.finish(h, func() {
		h.state = StateGivenUp
		c.t.rest(h)
		c.marks.set(h.offset, mark{at: c.deps.Now().UnixMilli(), checks: uint16(h.checks), state: markGivenUp})
		c.counts.GivenUp++
	})
	return nil
}

// save writes the marks and says how far RocketMQ would have to read again.
func (c *Coordinator) save() error {
	c.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.marks.write(); err != nil {
		return err // progress must not pass what only a mark tells
	}
	first := c.t.first(c.next)
	c.deps.Progress.Set(HalfTopic, first)
	c.deps.Progress.Set(OpTopic, c.opsDone.pass(first))
	return nil
}

// forget drops given up messages that the log has no more.
func (c *Coordinator) forget() {
	low, _ := c.deps.Store.QueueOffsets(HalfTopic, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, offset := range c.t.order {
		if offset >= low {
			return
		}
		if h := c.t.halves[offset]; h != nil && h.ending == nil && h.state == StateGivenUp {
			c.t.remove(h)
			c.marks.set(offset, mark{state: markEnded})
		}
	}
}
