package broker

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// Receive asks for messages of any queue of a topic that nobody else of the
// group has. What is not acknowledged within Invisible comes again.
type Receive struct {
	Who       Caller
	Group     string // physical
	Topic     string // physical
	Max       int    // messages, at most 32; 0: 32
	MaxBytes  int    // 0: 4 MiB
	Filter    *Filter
	Invisible time.Duration
	Wait      time.Duration // for the first message; 0 answers at once
	// Admit, if set, is asked before messages are handed over. Another result
	// than 0 is how long to wait before they may be.
	Admit func(messages int) time.Duration
}

// Received is one message handed out. Record belongs to the caller.
type Received struct {
	Record    []byte
	Handle    string // what acknowledges it
	Attempt   int32  // number of this delivery, from 1
	QueueID   int32
	Offset    int64
	VisibleAt time.Time // when it comes again
}

// Receive hands out messages, waiting for the first one. An empty result
// without an error means that the time is over. When ctx ends first, nothing
// is handed out.
func (b *Broker) Receive(ctx context.Context, q Receive) ([]Received, error) {
	t, limit, err := b.checkReceive(&q)
	if err != nil {
		return nil, err
	}
	rec := b.receives.receiver(groupTopic{q.Group, q.Topic})
	deadline := time.Now().Add(q.Wait)
	for {
		changed := rec.watch()
		out, soonest, err := b.receiveOnce(ctx, rec, t, &q, limit)
		if len(out) > 0 && q.Admit != nil {
			if wait := q.Admit(len(out)); wait > 0 {
				b.giveBackAll(&q, out)
				out, soonest, changed = nil, b.now().Add(wait).UnixMilli(), nil
			}
		}
		if err != nil || len(out) > 0 {
			rec.unwatch()
			b.receivedBy(&q, out)
			return out, err
		}
		more, err := b.receives.sleep(ctx, q.Who.NamespaceID, places(q.Filter.Bytes()), changed, time.Until(deadline), soonest)
		rec.unwatch()
		if err != nil || !more {
			b.meter.EmptyPoll(q.Who, q.Topic, q.Group)
			return nil, err
		}
	}
}

func (b *Broker) checkReceive(q *Receive) (t store.TopicConfig, maxAttempts int32, err error) {
	t, ok := b.store.Topic(q.Topic)
	if !ok {
		return t, 0, topicNotFound(q.Topic)
	}
	if t.Perm&store.PermRead == 0 {
		return t, 0, &Error{Code: CodeNoPermission, Text: "the topic cannot be read", Topic: q.Topic}
	}
	g, ok := b.store.Group(q.Group)
	if !ok {
		return t, 0, groupNotFound(q.Group)
	}
	if !g.ConsumeEnable {
		return t, 0, &Error{Code: CodeNoPermission, Text: "consuming is switched off for the group", Group: q.Group}
	}
	if q.Invisible <= 0 || q.Invisible > b.cfg.MaxInvisible {
		return t, 0, &Error{Code: CodeBadInvisibleTime, Text: "the invisible time must be positive and within the limit", Limit: b.cfg.MaxInvisible.String()}
	}
	if q.Max <= 0 || q.Max > maxPullMessages {
		q.Max = maxPullMessages
	}
	if q.MaxBytes <= 0 {
		q.MaxBytes = 4 << 20
	}
	return t, int32(g.RetryMaxTimes) + 1, nil
}

// watch counts the caller in and returns what is closed at the next arrival:
// taken before the queues are looked at, so that nothing slips between.
func (rec *receiver) watch() <-chan struct{} {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.waiting++
	return rec.changed
}

func (rec *receiver) unwatch() {
	rec.mu.Lock()
	rec.waiting--
	rec.mu.Unlock()
}

// sleep waits for an arrival, for a message in flight to become visible, or
// for the end. It takes n places meanwhile. more says that looking again makes
// sense.
func (r *receives) sleep(ctx context.Context, ns string, n int, changed <-chan struct{}, left time.Duration, soonest int64) (more bool, err error) {
	if left <= 0 {
		return false, nil
	}
	r.mu.Lock()
	if r.waiting+n > r.b.cfg.MaxParked || r.byNS[ns]+n > r.b.cfg.MaxParkedOfOne {
		r.mu.Unlock()
		return false, fail(CodeTooManyPolls, "too many receivers are waiting: try again later")
	}
	r.waiting += n
	r.byNS[ns] += n
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.waiting -= n
		if r.byNS[ns] -= n; r.byNS[ns] <= 0 {
			delete(r.byNS, ns)
		}
		r.mu.Unlock()
	}()
	more = false
	if soonest > 0 {
		if until := time.Duration(soonest-r.b.now().UnixMilli()) * time.Millisecond; until < left {
			left, more = max(until, time.Millisecond), true
		}
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-changed:
		return true, nil
	case <-t.C:
		return more, nil
	case <-r.stopped:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// receiveOnce goes once over the queues. soonest is the earliest time, in ms,
// at which a message in flight becomes visible; 0 if none.
func (b *Broker) receiveOnce(ctx context.Context, rec *receiver, t store.TopicConfig, q *Receive, maxAttempts int32) (out []Received, soonest int64, err error) {
	n := max(t.ReadQueueNums, 1)
	rec.mu.Lock()
	rec.rotate++
	first := rec.rotate
	rec.mu.Unlock()
	size := 0
	var seq int64
	for i := range n {
		p := b.receives.queue(rec, int32((first+i)%n))
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
		got, due, wrote, err := b.take(ctx, p, q, q.Max-len(out), q.MaxBytes-size, maxAttempts)
		<-p.turn
		if err != nil {
			return nil, 0, err
		}
		seq = max(seq, wrote)
		for _, m := range got {
			size += len(m.Record)
		}
		out = append(out, got...)
		if due > 0 && (soonest == 0 || due < soonest) {
			soonest = due
		}
		if len(out) >= q.Max || size >= q.MaxBytes {
			break
		}
	}
	if seq > 0 {
		if err := b.receives.journal.wait(seq); err != nil {
			return nil, 0, &Error{Code: CodeUnavailable, Text: "the broker cannot keep what was received", Err: err}
		}
	}
	return out, soonest, nil
}

func (b *Broker) receivedBy(q *Receive, out []Received) {
	if len(out) == 0 {
		return
	}
	records := make([][]byte, len(out))
	for i := range out {
		records[i] = out[i].Record
	}
	b.meter.Delivered(Delivery{Who: q.Who, Topic: q.Topic, Group: q.Group, Records: records})
}

// giveBackAll undoes a receive whose caller is over its rate.
func (b *Broker) giveBackAll(q *Receive, out []Received) {
	for i := range out {
		if err := b.GiveBack(q.Group, q.Topic, out[i].Handle); err != nil {
			b.log.Error("received message was not given back; it comes again later", "topic", q.Topic, "group", q.Group, "err", err)
		}
	}
}

// taking collects the changes of one take for the journal.
type taking struct {
	out   []Received
	ended []int64
	set   []*lease
	moved bool
	later time.Duration // until the store reads so far behind again; 0 when it did
}

// take hands out messages of one queue: first those whose time ran out, then
// new ones. The caller holds the turn.
func (b *Broker) take(ctx context.Context, p *progress, q *Receive, room, maxBytes int, maxAttempts int32) (out []Received, soonest, seq int64, err error) {
	var tk taking
	seq = b.reconcile(p)
	if err := b.takeDue(ctx, p, q, &tk, room, maxAttempts); err != nil {
		return nil, 0, 0, err
	}
	if err := b.takeNew(ctx, p, q, &tk, room-len(tk.out), maxBytes); err != nil {
		return nil, 0, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return nil, 0, 0, nil
	}
	if tk.moved || len(tk.set)+len(tk.ended) > 0 {
		b.baseLocked(p)
		seq = b.receives.journal.add(p.appendState(nil, tk.ended, tk.set))
	}
	if len(p.due) > 0 {
		soonest = p.due[0].visibleAt
	}
	if later := b.now().Add(tk.later).UnixMilli(); tk.later > 0 && (soonest == 0 || later < soonest) {
		soonest = later
	}
	return tk.out, soonest, seq, nil
}

// baseLocked stores the oldest message in flight as the group's offset. The
// offset table's lock is taken inside the queue's, never the other way round.
func (b *Broker) baseLocked(p *progress) {
	if base := p.oldestLocked(); base != p.base {
		p.base = base
		b.offsets.set(p.key.group, p.key.topic, p.queue, base)
	}
}

// reconcile fixes the position at the first receive, follows an offset that
// somebody else stored (a pull consumer of the same group, or a reset), and
// keeps the position within the queue.
func (b *Broker) reconcile(p *progress) (seq int64) {
	low, top := b.store.QueueOffsets(p.key.topic, p.queue)
	stored, ok := b.offsets.get(p.key.group, p.key.topic, p.queue)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.fresh && ok:
		p.next = stored
	case p.fresh && b.startsAtZero(p.key.topic, p.queue, low, top):
		p.next = 0
	case p.fresh:
		p.next = top
	case ok && stored > p.base:
		p.next = max(p.next, stored)
		for offset := range p.leases {
			if offset < stored {
				p.endLocked(offset)
			}
		}
	case ok && stored < p.base:
		p.clearLocked()
		p.next = stored
	case p.next > top:
		p.clearLocked()
	default:
		return 0
	}
	p.fresh = false
	p.next = min(max(p.next, low), top)
	p.base = p.oldestLocked()
	b.offsets.set(p.key.group, p.key.topic, p.queue, p.base)
	set := make([]*lease, 0, len(p.leases))
	for _, l := range p.leases {
		set = append(set, l)
	}
	b.receives.journal.add(p.appendClear(nil))
	return b.receives.journal.add(p.appendState(nil, nil, set))
}

// takeDue hands out again what was not acknowledged in time. A message whose
// attempts are used up goes to the dead letters instead, one that the filter
// does not want any more counts as consumed.
func (b *Broker) takeDue(ctx context.Context, p *progress, q *Receive, tk *taking, room int, maxAttempts int32) error {
	now := b.now()
	for len(tk.out) < room {
		p.mu.Lock()
		if len(p.due) == 0 || p.due[0].visibleAt > now.UnixMilli() {
			p.mu.Unlock()
			return nil
		}
		old := *p.due[0]
		p.mu.Unlock()
		rec, found, err := b.readOne(p, old.offset)
		if err != nil {
			return err
		}
		wanted := found && wants(q.Filter, rec)
		if wanted && old.attempt >= maxAttempts {
			if err := b.deadRecord(ctx, p.key.group, rec); err != nil {
				return err
			}
			wanted = false
		}
		p.mu.Lock()
		current := p.leases[old.offset]
		switch {
		case current == nil || current.nonce != old.nonce || current.visibleAt != old.visibleAt:
			// Acknowledged or prolonged while its record was read.
		case !wanted:
			p.endLocked(old.offset)
			tk.ended = append(tk.ended, old.offset)
		default:
			l := p.setLocked(lease{offset: old.offset, attempt: old.attempt + 1, nonce: rand.Uint64(), visibleAt: now.Add(q.Invisible).UnixMilli()})
			tk.set = append(tk.set, l)
			tk.out = append(tk.out, received(p, l, rec))
		}
		p.mu.Unlock()
	}
	return nil
}

func received(p *progress, l *lease, rec []byte) Received {
	return Received{
		Record: rec, Handle: handle(p.queue, l), Attempt: l.attempt, QueueID: p.queue, Offset: l.offset,
		VisibleAt: time.UnixMilli(l.visibleAt),
	}
}

// readOne copies one record; found is false when it was deleted.
func (b *Broker) readOne(p *progress, offset int64) (rec []byte, found bool, err error) {
	batch, err := b.store.Read(p.key.topic, p.queue, offset, store.ReadOptions{MaxMessages: 1})
	if err != nil {
		return nil, false, fromStore(err)
	}
	defer batch.Release()
	if batch.Status != store.ReadFound {
		return nil, false, nil
	}
	rec = bytes.Clone(batch.Records[0])
	f, err := message.Parse(rec)
	return rec, err == nil && f.QueueOffset == offset, nil
}

// takeNew hands out messages that the group never had. Records that the filter
// does not want are passed over for good, as with pull consumers.
func (b *Broker) takeNew(ctx context.Context, p *progress, q *Receive, tk *taking, room, maxBytes int) error {
	p.mu.Lock()
	next, free := p.next, b.cfg.MaxInFlight-len(p.leases)
	p.mu.Unlock()
	room = min(room, free)
	for room > 0 && maxBytes > 0 && ctx.Err() == nil {
		batch, err := b.readMatching(p.key.topic, p.queue, next, q.Filter, store.ReadOptions{MaxMessages: room, MaxBytes: min(maxBytes, maxPullBytes), Group: p.key.group})
		if err != nil {
			return fromStore(err)
		}
		status := batch.Status
		tk.later = batch.Wait
		p.mu.Lock()
		if status == store.ReadFound || status == store.ReadNoMatch || status == store.ReadRemoved || status == store.ReadOffsetTooSmall {
			visibleAt := b.now().Add(q.Invisible).UnixMilli()
			for _, rec := range batch.Records {
				f, err := message.Parse(rec)
				if err != nil {
					continue
				}
				l := p.setLocked(lease{offset: f.QueueOffset, attempt: 1, nonce: rand.Uint64(), visibleAt: visibleAt})
				tk.set = append(tk.set, l)
				tk.out = append(tk.out, received(p, l, bytes.Clone(rec)))
				room--
				maxBytes -= len(rec)
			}
			p.next, next, tk.moved = batch.Next, batch.Next, true
		}
		p.mu.Unlock()
		batch.Release()
		if status != store.ReadNoMatch && status != store.ReadRemoved && status != store.ReadOffsetTooSmall {
			if status != store.ReadFound || len(tk.out) > 0 {
				return nil
			}
		}
	}
	return nil
}
