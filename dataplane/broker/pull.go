package broker

import (
	"strconv"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
)

// PullStatus is the outcome of a pull that did not fail.
type PullStatus uint8

// The outcomes, with the remoting code that says the same.
const (
	PullFound       PullStatus = iota // 0
	PullNone                          // 19: nothing new, also after the hold
	PullSkipped                       // 20: filtered or removed; go on at Next at once
	PullOffsetMoved                   // 21: the offset is not in the queue; go on at Next
)

// Pull is one request for messages of a queue.
type Pull struct {
	Who         Caller
	Group       string // physical; may be "" for the system
	Topic       string // physical
	QueueID     int32
	Offset      int64
	MaxMessages int // 0: 32
	MaxBytes    int // 0: 256 KiB
	Filter      *Filter
	// Commit is the group's new offset for the queue, -1 for none. An offset
	// that cannot be right is not stored, and the pull goes on.
	Commit int64
	// Hold is how long to wait for a message when there is none; it is cut to
	// Config.MaxHold. 0 answers at once.
	Hold time.Duration
	// Retained is about how many bytes its front keeps until the answer: the
	// request, and Filter unless it is one of the group's.
	Retained int
	// Admit, if set, is asked before messages are handed over. Another result
	// than 0 is how long to wait before they may be.
	Admit func(messages int) time.Duration
	// Refused, if set, is asked when a parked pull wakes, and for all of them
	// by CheckHolds: an error ends the pull and is its answer.
	Refused func() error

	deadline time.Time
	passed   bool // records were passed over while the pull was parked
}

// Pulled is the answer. Records are whole stored records, valid until Release.
type Pulled struct {
	Status         PullStatus
	Next, Min, Max int64
	Records        [][]byte
	batch          store.Batch
	wait           time.Duration // until the store reads so far behind again
}

// Release gives the memory of Records back.
func (p *Pulled) Release() {
	p.Records = nil
	p.batch.Release()
}

// The most that one pull returns.
const (
	maxPullMessages = 32
	maxPullBytes    = 256 << 10
)

// Pull reads messages and calls answer exactly once: before it returns, or
// later from another goroutine if the pull was parked. answer owns the result
// and may block.
func (b *Broker) Pull(p Pull, answer func(Pulled, error)) {
	if err := b.checkPull(&p); err != nil {
		answer(Pulled{}, err)
		return
	}
	if p.Commit >= 0 && p.Group != "" {
		if err := b.CommitOffset(p.Group, p.Topic, p.QueueID, p.Commit); err != nil {
			b.log.Warn("offset of a pull refused", "topic", p.Topic, "group", p.Group, "queue", p.QueueID, "offset", p.Commit, "err", err)
		}
	}
	p.deadline = time.Now().Add(min(p.Hold, b.cfg.MaxHold))
	out, err := b.read(&p)
	if err != nil || out.Status != PullNone || out.wait > 0 || p.Hold <= 0 {
		b.finishPull(&p, out, err, answer)
		return
	}
	b.park(p, answer)
}

// park keeps the pull until a message that it wants arrives or its time ends.
// The queue is read again after the pull is in the table: a message that
// arrived between the first read and the entry found nobody to wake, and one
// that arrives after the entry wakes it.
func (b *Broker) park(p Pull, answer func(Pulled, error)) {
	h := &hold{queue: queueKey{p.Topic, p.QueueID}, ns: p.Who.NamespaceID, places: places(p.Retained), offset: p.Offset, filter: p.Filter, refused: p.Refused}
	h.wake = func() {
		b.again(&p, answer)
	}
	if !b.holds.add(h, time.Until(p.deadline)) {
		// Table full or closing: the client will ask again, not too soon for
		// the broker, since it also waits for this answer.
		out, err := b.read(&p)
		b.finishPull(&p, out, err, answer)
		return
	}
	if _, top := b.store.QueueOffsets(p.Topic, p.QueueID); top > p.Offset {
		b.holds.recheck(h)
	}
}

// CheckHolds ends the parked pulls that are refused now.
func (b *Broker) CheckHolds() { b.holds.check() }

// slowest is the shortest time that a caller over its rate waits for an empty
// answer.
const slowest = 500 * time.Millisecond

// slowDown keeps a pull that is over its rate, or whose group reads too much that
// is far behind, for the time that Admit or the store told, then reads again; or,
// when that is beyond its hold, answers empty.
func (b *Broker) slowDown(p *Pull, wait time.Duration, out Pulled, answer func(Pulled, error)) {
	empty := Pulled{Status: PullNone, Next: p.Offset, Min: out.Min, Max: out.Max}
	if p.passed {
		empty.Status = PullSkipped
	}
	out.Release()
	left := time.Until(p.deadline)
	h := &hold{queue: queueKey{queue: -1}, ns: p.Who.NamespaceID, places: places(p.Retained), refused: p.Refused} // no arrival matches it
	h.wake = func() { b.again(p, answer) }
	if wait >= left {
		wait = max(left, min(wait, slowest))
		h.wake = func() { answer(empty, nil) }
	}
	if !b.holds.add(h, wait) {
		answer(empty, nil)
	}
}

// again goes on with a pull that was parked.
func (b *Broker) again(p *Pull, answer func(Pulled, error)) {
	if p.Refused != nil {
		if err := p.Refused(); err != nil {
			answer(Pulled{}, err)
			return
		}
	}
	out, err := b.read(p)
	if err == nil && out.Status == PullSkipped && time.Now().Before(p.deadline) {
		// What arrived is not for this pull: it waits on behind it.
		p.Offset, p.passed = out.Next, true
		b.park(*p, answer)
		return
	}
	b.finishPull(p, out, err, answer)
}

func (b *Broker) finishPull(p *Pull, out Pulled, err error, answer func(Pulled, error)) {
	if err == nil && out.wait > 0 {
		b.slowDown(p, out.wait, out, answer)
		return
	}
	if err == nil && len(out.Records) > 0 && p.Admit != nil {
		if wait := p.Admit(len(out.Records)); wait > 0 {
			b.slowDown(p, wait, out, answer)
			return
		}
	}
	if err == nil {
		if len(out.Records) > 0 {
			b.meter.Delivered(Delivery{Who: p.Who, Topic: p.Topic, Group: p.Group, Records: out.Records})
		} else {
			b.meter.EmptyPoll(p.Who, p.Topic, p.Group)
		}
	}
	answer(out, err)
}

func (b *Broker) checkPull(p *Pull) error {
	t, ok := b.store.Topic(p.Topic)
	if !ok {
		return topicNotFound(p.Topic)
	}
	if t.Perm&store.PermRead == 0 {
		return &Error{Code: CodeNoPermission, Text: "the topic cannot be read", Topic: p.Topic}
	}
	if err := checkQueue(t, p.QueueID); err != nil {
		return err
	}
	if p.Group != "" {
		g, ok := b.store.Group(p.Group)
		if !ok {
			return groupNotFound(p.Group)
		}
		if !g.ConsumeEnable {
			return &Error{Code: CodeNoPermission, Text: "consuming is switched off for the group", Group: p.Group}
		}
	}
	if p.MaxMessages <= 0 || p.MaxMessages > maxPullMessages {
		p.MaxMessages = maxPullMessages
	}
	if p.MaxBytes <= 0 || p.MaxBytes > maxPullBytes {
		p.MaxBytes = maxPullBytes
	}
	return nil
}

func checkQueue(t store.TopicConfig, queueID int32) error {
	if n := max(t.ReadQueueNums, t.WriteQueueNums); queueID < 0 || int(queueID) >= n {
		return &Error{Code: CodeInvalidParameter, Text: "queue id " + strconv.Itoa(int(queueID)) + " does not exist", Topic: t.TopicName, Limit: strconv.Itoa(n) + " queues"}
	}
	return nil
}

// read asks the store and translates its status. After a reset of the group it
// says where to go on.
func (b *Broker) read(p *Pull) (Pulled, error) {
	if p.Group != "" {
		if to, ok := b.resets.take(resetKey{groupTopic{p.Group, p.Topic}, p.QueueID}); ok && to != p.Offset {
			out := Pulled{Status: PullOffsetMoved, Next: to}
			out.Min, out.Max = b.store.QueueOffsets(p.Topic, p.QueueID)
			return out, nil
		}
	}
	batch, err := b.readMatching(p.Topic, p.QueueID, p.Offset, p.Filter, store.ReadOptions{MaxMessages: p.MaxMessages, MaxBytes: p.MaxBytes, Group: p.Group})
	if err != nil {
		return Pulled{}, fromStore(err)
	}
	out := Pulled{Next: batch.Next, Min: batch.Min, Max: batch.Max, Records: batch.Records, batch: batch}
	switch batch.Status {
	case store.ReadFound:
		out.Status = PullFound
	case store.ReadNoMatch, store.ReadRemoved:
		out.Status = PullSkipped
	case store.ReadNotFound:
		out.Status = PullNone
	case store.ReadLater:
		out.Status, out.wait = PullNone, batch.Wait
	case store.ReadNoQueue:
		out.Status, out.Next = PullNone, 0
		if p.Offset > 0 {
			out.Status = PullOffsetMoved
		}
	default:
		out.Status = PullOffsetMoved
	}
	if out.Status == PullNone && p.passed && out.wait == 0 {
		out.Status = PullSkipped // so that the client takes Next over
	}
	return out, nil
}
