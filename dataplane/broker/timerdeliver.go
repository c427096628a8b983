package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/timerlog"
)

// enqueue takes in what was parked since the last time.
func (t *timers) enqueue() (n int, err error) {
	batch, err := t.b.store.Read(TimerTopic, 0, t.next, store.ReadOptions{MaxMessages: readTimers, MaxBytes: readBytes})
	if err != nil {
		return 0, err
	}
	defer batch.Release()
	switch batch.Status {
	case store.ReadNotFound:
		return 0, nil
	case store.ReadFound:
	default:
		if t.next != batch.Next {
			t.b.log.Warn("timer topic has no message at the place to go on from", "offset", t.next, "next", batch.Next, "why", batch.Status)
		}
		t.next = batch.Next
		return 0, nil
	}
	if !t.files {
		if err := t.openFiles(); err != nil {
			return 0, err
		}
	}
	for _, rec := range batch.Records {
		f, err := message.Parse(rec)
		if err != nil {
			return n, err
		}
		if err := t.takeIn(&f, rec); err != nil {
			t.next = f.QueueOffset
			return n, err
		}
		n++
	}
	t.next = batch.Next
	return n, nil
}

// takeIn puts one parked message into the wheel.
func (t *timers) takeIn(f *message.Fields, rec []byte) error {
	out, okOut := timeProperty(f.Properties, message.KeyTimerOutMs)
	topic, okTopic := message.FindProperty(f.Properties, message.KeyRealTopic)
	if !okOut || !okTopic {
		t.tally.drop(dropIllegal)
		t.b.log.Error("parked message has neither time nor topic and is dropped", "offset", f.PhysicalOffset)
		return nil
	}
	u := timerlog.Unit{
		Magic: timerlog.MagicDefault, Offset: f.PhysicalOffset, Size: f.Size,
		TopicHash: message.StringHash(string(topic)), Wanted: wantedAt(f.Properties, out),
	}
	_, cancels := message.FindProperty(f.Properties, message.KeyTimerDeleteKey)
	if cancels {
		u.Magic |= timerlog.MagicDelete
	}
	// The store time and not the present one: whoever takes the record in again
	// finds the same slot. A store time in the future is that of a wrong clock.
	write := floorStep(min(f.StoreTimestamp, t.nowMs()))
	if err := t.place(&u, out, write); err != nil {
		return err
	}
	if cancels {
		t.cancelBy(rec)
	} else {
		t.tally.add(u.TopicHash, 1)
	}
	if u.Due() == t.read && t.slot.loaded {
		t.slot.offer(&u)
	}
	return nil
}

// timeProperty reads a time in ms; false when there is none.
func timeProperty(props []byte, key string) (int64, bool) {
	v, ok := message.FindProperty(props, key)
	if !ok {
		return 0, false
	}
	ms, err := strconv.ParseInt(string(v), 10, 64)
	return ms, err == nil && ms > 0
}

// wantedAt is the exact time of a parked message whose TIMER_OUT_MS is out: what
// it says, or the end of its step.
func wantedAt(props []byte, out int64) int64 {
	if ms, ok := timeProperty(props, message.KeyTimerDeliverMs); ok && timerlog.OutMs(ms, timerStep) == out {
		return ms
	}
	return out + timerStep
}

// deliver sends on what is due of the present slot, or goes to the next one. It
// tells whether there may be more to do now.
func (t *timers) deliver(ctx context.Context) (moved bool, err error) {
	now := t.nowMs()
	if !t.slot.loaded || t.slot.more && len(t.slot.heap) == 0 {
		if err := t.load(); err != nil {
			return false, err
		}
	}
	var batch []timed
	for bytes := 0; len(batch) < readTimers && bytes < readBytes; {
		e, ok := t.slot.pop(now)
		if !ok {
			break
		}
		batch = append(batch, e)
		bytes += int(e.size)
	}
	if len(batch) > 0 {
		t.slot.touched = true
		return true, t.deliverAll(ctx, batch)
	}
	if len(t.slot.heap) > 0 || t.slot.more || now < t.read+timerStep {
		return false, nil
	}
	return t.advance(floorStep(now)), nil
}

// advance ends the present slot and goes to the next one with something that
// waits, at most to the one at now.
func (t *timers) advance(now int64) bool {
	if t.occupied.has(place(t.read)) {
		t.occupied.clear(place(t.read))
		t.done = append(t.done, t.read)
	}
	next, ok := t.nextSlot(t.read + timerStep)
	if !ok || next > now {
		next, ok = now, false
	}
	t.read, t.slot = next, slot{}
	return ok
}

// stepBack goes to an earlier slot, since the clock was set back: what is parked
// from now on must not wait until the clock is where it was. Nothing comes twice:
// slots that are done are cleared, and of the present one only what is left is
// put into the wheel again. It tells whether it went; first everything that was
// delivered must be on the disk.
func (t *timers) stepBack(now int64) (bool, error) {
	if t.b.store.Synced() < t.sent {
		t.b.store.RequestSync()
		return false, nil
	}
	left, err := t.leftover()
	if err != nil {
		return false, err
	}
	done := t.done
	if t.pending != nil {
		done = append(done, t.pending.done...)
	}
	if t.slot.touched {
		done = append(done, t.read)
		t.occupied.clear(place(t.read))
	}
	for _, at := range done {
		if err := t.wheel.Clear(at); err != nil {
			return false, err
		}
	}
	t.b.log.Warn("clock was set back: delayed messages wait for it", "from", t.read, "to", now)
	begun := t.read
	t.read, t.slot, t.done, t.pending = now, slot{}, nil, &timerSave{read: now, end: t.sent}
	if err := t.placeAgain(left, begun, now); err != nil {
		return true, err
	}
	return true, errors.Join(t.bringNear(t.farSlots()), t.write())
}

// leftover returns the units of the present slot that were not yet delivered,
// the oldest first; none when the slot was not begun and stays as it is.
func (t *timers) leftover() (units []timerlog.Unit, err error) {
	s, ok, err := t.wheel.Slot(t.read)
	if err != nil || !ok || !t.slot.touched {
		return nil, err
	}
	left := make(map[int64]bool, len(t.slot.heap))
	for _, e := range t.slot.heap {
		left[e.offset] = true
	}
	err = timerlog.Chain(t.log, t.wheel, s, func(_ int64, u timerlog.Unit) error {
		if !works(&u) || left[u.Offset] || t.slot.more && compareEntries(entryOf(&u), t.slot.bound) > 0 {
			units = append(units, u)
		}
		return nil
	})
	slices.Reverse(units)
	return units, err
}

// placeAgain puts units of a slot into slots as if they came at write, ms. Those
// that may have been delivered keep that doubt.
func (t *timers) placeAgain(units []timerlog.Unit, slot, write int64) error {
	for i := range units {
		out := slot
		if units[i].Wanted > 0 {
			out = timerlog.OutMs(units[i].Wanted, timerStep)
		}
		if slot <= t.horizon {
			t.doubted[units[i].Offset] = true
		}
		if err := t.place(&units[i], out, write); err != nil {
			return err
		}
	}
	return nil
}

// farSlots are the slots in use that do not belong to this turn of the wheel.
func (t *timers) farSlots() (slots []int64) {
	_ = t.wheel.Each(func(s timerlog.Slot) error {
		if at := s.Time * timerStep; at >= t.read+timerTurn/2*timerStep {
			slots = append(slots, at)
		}
		return nil
	})
	return slots
}

// delivery is an entry on its way into its topic.
type delivery struct {
	timed
	wait  *sync.WaitGroup
	end   int64 // of the stored copy in the commit log
	err   error
	tells string // why nothing was stored; empty when it was, or err says it
}

// Appended implements store.Waiter.
func (d *delivery) Appended(a store.Appended, err error) store.Waker {
	d.end, d.err = a.PhysicalOffset+int64(a.Size), err
	d.wait.Done()
	return nil
}

// deliverAll stores the messages of entries in their topics, in order. Those
// that could not be stored for now are given back to the slot.
func (t *timers) deliverAll(ctx context.Context, batch []timed) error {
	records, release, err := t.records(batch)
	if err != nil {
		t.giveBack(batch, t.nowMs())
		return err
	}
	defer release()
	var wait sync.WaitGroup
	all := make([]delivery, len(batch))
	for i := range batch {
		d := &all[i]
		d.timed, d.wait = batch[i], &wait
		m, why, err := t.outgoing(ctx, &d.timed, records[d.offset])
		if err != nil || m == nil {
			d.tells, d.err = why, err
			continue
		}
		wait.Add(1)
		if err := t.b.store.Submit(m, durability(m), d); err != nil {
			d.err = err
			wait.Done()
		}
	}
	t.b.store.Lead()
	wait.Wait()
	now := t.nowMs()
	for i := range all {
		t.settle(&all[i], now)
	}
	return nil
}

func (t *timers) giveBack(batch []timed, at int64) {
	for _, e := range batch {
		t.slot.later(e, at+retryTimer.Milliseconds())
	}
}

// settle takes note of what became of an entry.
func (t *timers) settle(d *delivery, now int64) {
	switch {
	case d.err != nil && !lasting(d.err):
		t.tally.retries.Add(1)
		if t.tally.retries.Load()%1000 == 1 {
			t.b.log.Warn("delayed message could not be stored; trying again", "offset", d.offset, "err", d.err)
		}
		t.slot.later(d.timed, now+retryTimer.Milliseconds())
		return
	case d.err != nil:
		t.tally.drop(dropRefused)
		t.b.log.Error("delayed message can never be stored and is dropped", "offset", d.offset, "err", d.err)
	case d.tells != "":
		t.tally.drop(d.tells)
		if d.tells == dropLost || d.tells == dropTopic {
			t.b.log.Warn("delayed message is dropped", "why", d.tells, "offset", d.offset)
		}
	case d.magic&timerlog.MagicRoll != 0:
		t.tally.rolled.Add(1)
	default:
		t.tally.deliveredAt(d.wanted, now)
	}
	t.sent = max(t.sent, d.end)
	if d.magic&timerlog.MagicDelete == 0 {
		t.tally.add(d.hash, -1) // one that was rolled is taken in again
	}
}

// lasting tells errors that a message will have for ever.
func lasting(err error) bool {
	for _, e := range []error{store.ErrName, store.ErrTopic, store.ErrQueueID, store.ErrMessageTooLarge, message.ErrBodyTooLarge, store.ErrPropertiesTooLarge, store.ErrProperties, store.ErrUnsupported} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// records reads the records of entries, by their commit log offsets; those that
// are not there are left out.
func (t *timers) records(batch []timed) (map[int64][]byte, func(), error) {
	places := make([]store.Place, len(batch))
	for i, e := range batch {
		places[i] = store.Place{Offset: e.offset, Size: e.size}
	}
	slices.SortFunc(places, func(a, b store.Place) int { return compareEntries(timed{at: a.Offset}, timed{at: b.Offset}) })
	read, err := t.b.store.ReadPlaces(places)
	if err != nil {
		return nil, nil, err
	}
	records := make(map[int64][]byte, len(batch))
	for _, rec := range read.Records {
		if f, err := message.Parse(rec); err == nil {
			records[f.PhysicalOffset] = rec
		}
	}
	for _, e := range batch {
		if len(records) == len(batch) || records[e.offset] != nil {
			continue
		}
		rec, err := t.b.store.ReadAt(e.offset)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			read.Release()
			return nil, nil, err
		}
		records[e.offset] = rec
	}
	return records, func() { read.Release() }, nil
}

// outgoing makes the message to store for an entry. Without one it says why
// there is nothing to store; an error means: try again.
func (t *timers) outgoing(ctx context.Context, e *timed, rec []byte) (*message.Message, string, error) {
	m, err := message.Decode(rec)
	if rec == nil || err != nil || !t.isOf(e, &m) {
		return nil, dropLost, nil
	}
	topic, _ := message.GetProperty(m.Properties, message.KeyRealTopic)
	cancels := e.magic&timerlog.MagicDelete != 0
	if !cancels && t.isCancelled(topic, m.Properties) {
		return nil, dropCancelled, nil
	}
	rolls := e.magic&timerlog.MagicRoll != 0
	to := topic
	if rolls {
		to = TimerTopic
	}
	if due := cmp.Or(e.wanted, t.read); due <= t.horizon || rolls && t.read <= t.horizon || t.doubted[e.offset] {
		if known, err := t.known(ctx, to, &m); known || err != nil {
			return nil, dropKnown, err
		}
	}
	if rolls {
		times, _ := timeProperty(m.Properties, message.KeyTimerRollTimes)
		m.Properties = message.AppendPropertiesWithout(nil, m.Properties, OwnerKey, message.KeyTimerRollTimes)
		addProperty(&m, message.KeyTimerRollTimes, strconv.FormatInt(times+1, 10))
		t.b.addHosts(&m)
		return &m, "", nil
	}
	c, ok := t.b.store.Topic(topic)
	if !ok {
		return nil, dropTopic, nil
	}
	queue, _ := timeProperty(m.Properties, message.KeyRealQueueID)
	if n := int64(max(c.WriteQueueNums, 1)); queue >= n {
		queue %= n // the topic has fewer queues now
	}
	entered := floorStep(m.StoreTimestamp)
	m.Topic, m.QueueID = topic, int32(queue)
	m.Properties = charged(topic, m.Properties, message.KeyTimerEnqueueMs, message.KeyTimerDequeueMs)
	addProperty(&m, message.KeyTimerEnqueueMs, strconv.FormatInt(entered, 10))
	addProperty(&m, message.KeyTimerDequeueMs, strconv.FormatInt(t.nowMs(), 10))
	t.b.addHosts(&m)
	return &m, "", nil
}

// isOf tells whether a record is the one that an entry was made for: the log may
// have lost its tail, and another one have taken the place.
func (t *timers) isOf(e *timed, m *message.Message) bool {
	topic, _ := message.FindProperty(m.Properties, message.KeyRealTopic)
	out, ok := timeProperty(m.Properties, message.KeyTimerOutMs)
	_, cancels := message.FindProperty(m.Properties, message.KeyTimerDeleteKey)
	return ok && m.Topic == TimerTopic && message.StringHash(string(topic)) == e.hash &&
		cancels == (e.magic&timerlog.MagicDelete != 0) && (e.wanted == 0 || wantedAt(m.Properties, out) == e.wanted)
}

// known looks for the copy of a parked message in the topic that it goes to.
func (t *timers) known(ctx context.Context, topic string, m *message.Message) (bool, error) {
	unique, ok := message.GetProperty(m.Properties, message.KeyUniqueKey)
	if !ok {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	found, err := t.b.store.FindByKey(ctx, store.KeyQuery{Topic: topic, Key: unique, Kind: store.KeyUnique, To: math.MaxInt64, Max: store.MaxFound})
	if err != nil {
		return false, fmt.Errorf("look for the message with id %q: %w", unique, err)
	}
	same := func(key string, props []byte) bool {
		a, _ := message.FindProperty(m.Properties, key)
		b, _ := message.FindProperty(props, key)
		return string(a) == string(b)
	}
	times, _ := timeProperty(m.Properties, message.KeyTimerRollTimes)
	for _, rec := range found {
		f, err := message.Parse(rec)
		if err != nil || f.PhysicalOffset <= m.PhysicalOffset || f.BornTimestamp != m.BornTimestamp || !same(message.KeyTimerOutMs, f.Properties) {
			continue
		}
		if more, _ := timeProperty(f.Properties, message.KeyTimerRollTimes); topic != TimerTopic || more > times {
			return true, nil
		}
	}
	return false, nil
}
