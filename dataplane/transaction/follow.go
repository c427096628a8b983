package transaction

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// load reads, at the first tick, what the last process left: the records of
// OpTopic that may name open transactions, and HalfTopic from the first open
// one on.
func (c *Coordinator) load() error {
	done := map[int64]bool{}
	if err := c.readOps(done); err != nil {
		return err
	}
	c.mu.Lock()
	c.next = c.deps.Progress.Get(HalfTopic)
	from := c.next
	var givenUp []int64
	for offset, k := range c.marks.live {
		if offset < from {
			if k.state == markGivenUp {
				givenUp = append(givenUp, offset)
			} else {
				c.marks.set(offset, mark{state: markEnded})
			}
		}
	}
	c.mu.Unlock()
	for _, offset := range givenUp {
		if err := c.readOne(offset); err != nil {
			return err
		}
	}
	return c.read(func(h *half) bool {
		h.recovered = true
		return !done[h.offset]
	})
}

// readOps collects the half messages that the records of OpTopic name.
func (c *Coordinator) readOps(done map[int64]bool) error {
	next := c.deps.Progress.Get(OpTopic)
	for {
		batch, err := c.deps.Store.Read(OpTopic, 0, next, store.ReadOptions{})
		if err != nil {
			return fmt.Errorf("read %s: %w", OpTopic, err)
		}
		for _, rec := range batch.Records {
			f, err := message.Parse(rec)
			if err != nil {
				continue
			}
			highest := int64(-1)
			parseOp(f.Body, func(offset int64) {
				done[offset] = true
				highest = max(highest, offset)
			})
			c.mu.Lock()
			c.opsDone.add(f.QueueOffset, highest)
			c.mu.Unlock()
		}
		over := ended(batch, &next)
		batch.Release()
		if over {
			c.mu.Lock()
			c.opsDone.next = max(c.opsDone.next, next)
			c.mu.Unlock()
			return nil
		}
	}
}

// ended moves next behind what was read and tells whether it was the end.
func ended(b store.Batch, next *int64) bool {
	switch b.Status {
	case store.ReadNotFound, store.ReadNoQueue:
		return true
	case store.ReadOffsetTooBig:
		*next = b.Next // the log lost its tail
		return true
	}
	*next = b.Next
	return false
}

// follow takes new half messages into the table.
func (c *Coordinator) follow() error {
	return c.read(func(*half) bool { return true })
}

// read takes half messages from c.next on into the table, if wanted.
func (c *Coordinator) read(wanted func(*half) bool) error {
	c.following.Lock()
	defer c.following.Unlock()
	c.mu.Lock()
	next := c.next
	c.mu.Unlock()
	for {
		batch, err := c.deps.Store.Read(HalfTopic, 0, next, store.ReadOptions{MaxMessages: 256, MaxBytes: 4 << 20})
		if err != nil {
			return fmt.Errorf("read %s: %w", HalfTopic, err)
		}
		var found []*half
		for _, rec := range batch.Records {
			if h := c.parse(rec); h != nil && wanted(h) {
				found = append(found, h)
			}
		}
		over := ended(batch, &next)
		batch.Release()
		c.mu.Lock()
		for _, h := range found {
			c.addLocked(h)
		}
		if c.next != next {
			c.next = next
			c.announceLocked()
		}
		c.mu.Unlock()
		if over {
			return nil
		}
	}
}

// readOne takes one half message into the table that was given up before.
func (c *Coordinator) readOne(offset int64) error {
	batch, err := c.deps.Store.Read(HalfTopic, 0, offset, store.ReadOptions{MaxMessages: 1})
	if err != nil {
		return fmt.Errorf("read %s at %d: %w", HalfTopic, offset, err)
	}
	defer batch.Release()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(batch.Records) == 1 {
		if h := c.parse(batch.Records[0]); h != nil && h.offset == offset {
			h.recovered = true
			c.addLocked(h)
			return nil
		}
	}
	c.marks.set(offset, mark{state: markEnded}) // the log has it no more
	return nil
}

// addLocked adds a half message with what is known of its checks.
func (c *Coordinator) addLocked(h *half) {
	if k, ok := c.marks.live[h.offset]; ok && k.at >= h.stored { // else of one that a power cut took, with this offset
		h.checks = int(k.checks)
		if k.state == markGivenUp {
			h.state = StateGivenUp
		}
		h.due = max(h.due, min(k.at, c.deps.Now().UnixMilli())+c.cfg.Period.Milliseconds())
	}
	if c.t.add(h) && h.state == StateGivenUp {
		c.t.again(h, 0) // once, to see whether it was delivered after all
	}
}

// announceLocked tells those who wait for the table.
func (c *Coordinator) announceLocked() {
	close(c.news)
	c.news = make(chan struct{})
}

// parse makes the table's entry of a record of HalfTopic. One that cannot be
// read has nothing to wait for: it is looked at next, and given up then.
func (c *Coordinator) parse(rec []byte) *half {
	f, err := message.Parse(rec)
	if err != nil {
		return nil
	}
	topic, _ := message.GetProperty(f.Properties, message.KeyRealTopic)
	h := &half{offset: f.QueueOffset, physical: f.PhysicalOffset, namespace: namespaceOf(topic), stored: f.StoreTimestamp}
	// A store time in the future is that of a wrong clock.
	h.due = min(h.stored, c.deps.Now().UnixMilli()) + c.first(f.Properties).Milliseconds()
	if v, ok := message.FindProperty(f.Properties, message.KeyCheckTimes); ok { // a RocketMQ broker has asked already
		if n, err := strconv.Atoi(string(v)); err == nil && n > 0 {
			h.checks = min(n, MaxChecks)
		}
	}
	return h
}

// first is the age at which a message is asked about for the first time.
func (c *Coordinator) first(properties []byte) time.Duration {
	v, ok := message.FindProperty(properties, message.KeyCheckImmunityTime)
	if !ok {
		return c.cfg.First
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n <= 0 {
		return c.cfg.First
	}
	return min(time.Duration(min(n, int64(c.cfg.MaxAge/time.Second)))*time.Second, c.cfg.MaxAge)
}

// Arrived is the store's signal for a message in HalfTopic; it does not block.
func (c *Coordinator) Arrived() {
	c.mu.Lock()
	if c.waiting > 0 {
		c.announceLocked()
	}
	c.mu.Unlock()
}

// await returns once the table has everything up to a half message; the error
// is that of ctx.
func (c *Coordinator) await(ctx context.Context, offset int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting++
	defer func() { c.waiting-- }()
	for !c.loaded || c.next <= offset {
		news := c.news // before the look: an arrival after it closes this one
		if c.loaded {
			c.mu.Unlock()
			err := c.follow()
			c.mu.Lock()
			if err != nil {
				return err
			}
			if c.next > offset {
				return nil
			}
		}
		c.mu.Unlock()
		var err error
		select {
		case <-news:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		c.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}
