package transaction

import (
	"context"
	"slices"

	"github.com/sluicemq/sluice/dataplane/message"
)

// Counts are what happened since the start, and what is there now.
type Counts struct {
	Open, GivenUpNow                                        int // now
	Committed, RolledBack, Checks, Unreached, GivenUp, Lost int64
}

// Counts returns the counts.
func (c *Coordinator) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.counts
	out.Open = len(c.t.byDue)
	out.GivenUpNow = len(c.t.halves) - out.Open
	return out
}

// open returns how many transactions of a namespace have not ended.
func (c *Coordinator) open(namespace string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t.open[namespace]
}

// Info describes a transaction that has not ended.
type Info struct {
	HalfOffset     int64
	PhysicalOffset int64
	Topic, Group   string // physical
	UniqueKey      string
	Stored         int64 // ms
	NextCheck      int64 // ms; 0 for one that was given up
	Checks         int
	State          State
	Bytes          int // of the body
}

// MaxListed is the most that one List returns.
const MaxListed = 100

// List returns transactions of a namespace that have not ended, with half
// offsets from from on, and the offset to go on at, -1 at the end. topic, if
// not "", selects. At most MaxListed are returned, and as many are looked at
// as ctx allows.
func (c *Coordinator) List(ctx context.Context, namespace, topic string, from int64, limit int) ([]Info, int64, error) {
	limit = min(max(limit, 1), MaxListed)
	var out []Info
	for ctx.Err() == nil {
		some := c.some(namespace, from, limit)
		if len(some) == 0 {
			return out, -1, nil
		}
		for _, h := range some {
			if len(out) == limit {
				return out, h.offset, nil
			}
			from = h.offset + 1
			m, err := c.half(End{HalfOffset: h.offset, PhysicalOffset: h.physical})
			if err != nil {
				continue // ended or removed meanwhile
			}
			info := Info{
				HalfOffset: h.offset, PhysicalOffset: h.physical, Topic: property(m, message.KeyRealTopic), Group: property(m, message.KeyProducerGroup),
				UniqueKey: property(m, message.KeyUniqueKey), Stored: h.stored, NextCheck: h.due, Checks: h.checks, State: h.state, Bytes: len(m.Body),
			}
			if h.state == StateGivenUp {
				info.NextCheck = 0
			}
			if topic == "" || info.Topic == topic {
				out = append(out, info)
			}
		}
	}
	return nil, 0, context.Cause(ctx)
}

// some copies transactions of a namespace from an offset on.
func (c *Coordinator) some(namespace string, from int64, limit int) []half {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []half
	i, _ := slices.BinarySearch(c.t.order, from)
	for _, offset := range c.t.order[i:] {
		h := c.t.halves[offset]
		if h == nil || h.namespace != namespace {
			continue
		}
		if out = append(out, *h); len(out) > limit {
			break
		}
	}
	return out
}

// Resume asks about a transaction from the beginning again, also one that was
// given up; which one, and who may, as for End. The error is ErrEnded when it
// has ended.
func (c *Coordinator) Resume(ctx context.Context, e End) error {
	m, err := c.allowed(e)
	if err != nil {
		return err
	}
	h, err := c.take(ctx, m)
	if err != nil {
		return err
	}
	if h == nil {
		return ErrEnded
	}
	c.finish(h, func() {
		if h.state == StateGivenUp {
			h.state = StateOpen
		}
		h.checks = 0
		now := c.deps.Now().UnixMilli()
		c.marks.set(h.offset, mark{at: now, state: markOpen})
		c.t.again(h, now)
	})
	return nil
}
