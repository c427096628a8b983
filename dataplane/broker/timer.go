package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/timerlog"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// TimerTopic parks messages that wait for a time of their own.
const TimerTopic = message.TimerTopic

// MaxDelay is how far ahead a message may be wanted. Whoever says it, says
// Config.MaxDelay, which DefaultConfig sets to this.
const MaxDelay = 365 * 24 * time.Hour

const (
	timerStep   = 1000                     // ms of a slot of the wheel
	timerTurn   = timerlog.Slots           // slots
	readTimers  = 1024                     // records that one step takes in or sends on, at most
	maxTakes    = 32                       // times that records are taken in before some are sent on
	readBytes   = 4 << 20                  // bytes of them, unless one alone is larger
	savePeriod  = time.Second              // of the checkpoint
	maxIdle     = time.Second              // between two looks at the clock, which may be set
	minIdle     = 5 * time.Millisecond     // so much later a message may come for nobody's fault
	retryTimer  = time.Second              // until what could not be stored is tried again
	lookUpTime  = 5 * time.Second          // for one look for a message that may have been delivered
	needPeriod  = time.Minute              // between two looks for the oldest record that is needed
	maxDelayInt = int64(math.MaxInt32) - 1 // of a unit, ms
)

// timers delivers messages at any time. A message that waits is a record of
// TimerTopic, which is where it survives; enqueue follows that topic's queue and
// puts a unit for each record into the wheel, deliver takes the units of one slot
// after the other out of it and stores their messages again, in their own topics.
//
// Wheel, log and checkpoint only say again what the records say. The promise:
//
//   - A message comes at the millisecond at which it is wanted or later, never
//     earlier, by this machine's clock. A clock that is set forward makes it come
//     at once, one that is set back makes it wait.
//   - It comes at least once. The checkpoint moves over a slot when each message
//     of it is stored in its topic, on the disk, or was taken back or dropped.
//   - It comes once, also over a crash: what may have been delivered behind the
//     last checkpoint is looked for in its topic, by its unique key, before it is
//     delivered. Only a topic whose keys cannot be read makes it wait.
//
// One goroutine at a time works on it: whoever holds turn.
type timers struct {
	b      *Broker
	fs     vfs.FS
	window int64 // slots ahead that a record may wait before it is written again
	kept   int   // entries of a slot in memory
	wake   chan struct{}
	tally  timerTally

	turn     sync.Mutex // held while one of the methods works on what follows, with its I/O
	files    bool       // log and wheel are open
	log      *timerlog.Log
	wheel    *timerlog.Wheel
	occupied bitmap              // places in the wheel with something that waits
	read     int64               // ms: the slot that is being delivered; those in front of it are done
	next     int64               // queue offset of TimerTopic to take in next
	slot     slot                // what is left of the slot at read
	cancels  map[cancelKey]int64 // messages that were taken back, with their TIMER_OUT_MS
	done     []int64             // slots that were delivered and are still in the wheel
	sent     int64               // end of what was delivered, in the commit log
	pending  *timerSave          // that waits until this is on the disk
	doubted  map[int64]bool      // by commit log offset: may have been delivered, and is not in the slot any more that says so
	horizon  int64               // ms: what was wanted until then may have been delivered by the process before this one
	saved    timerlog.Checkpoint
	savedAt  time.Time
	failedAt time.Time // of the last error that was logged

	neededAt time.Time
	needed   atomic.Int64 // commit log offset of the oldest record that waits
}

// openTimers reads the state of a folder. The log of a fresh one is made with
// the first message that waits.
func openTimers(b *Broker, fs vfs.FS) (*timers, error) {
	t := &timers{b: b, fs: fs, window: b.cfg.TimerWindow.Milliseconds() / timerStep, kept: keptEntries, wake: make(chan struct{}, 1), doubted: map[int64]bool{}}
	t.tally.init()
	t.needed.Store(math.MaxInt64)
	cp, err := timerlog.ReadCheckpoint(fs, t.path("config", "timercheck"))
	if err != nil && !errors.Is(err, timerlog.ErrDamaged) {
		return nil, err
	}
	damaged := err
	t.saved = cp
	now := t.nowMs()
	t.read = floorStep(now)
	if cp.LastReadTimeMs > 0 {
		// With a clock that was set back nothing may wait for the old time. Slots
		// in front of it are cleared, or their messages looked for.
		t.read = min(t.read, floorStep(cp.LastReadTimeMs))
	}
	// What is wanted behind the newest record has not been delivered.
	t.horizon = max(b.store.NewestStoreTime(), cp.LastReadTimeMs)
	t.next = cp.LastTimerQueueOffset
	if _, end := b.store.QueueOffsets(TimerTopic, 0); t.next > end {
		// The commit log lost its tail. What is sent from now on gets the places
		// that have been taken in before.
		b.log.Error("delayed messages were lost with the end of the commit log", "messages", t.next-end, "offset", end)
		t.next = end
	}
	found, err := vfs.Exists(fs, t.path("timerwheel"))
	if err != nil {
		return nil, err
	}
	if damaged == nil && found {
		damaged, err = damage(t.openFiles())
	}
	if err != nil {
		return nil, err
	}
	if damaged != nil || !found && t.next > 0 {
		b.log.Error("timer files cannot be used and are made anew from the messages", "err", damaged)
		if err := t.reset(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// damage tells errors that mean damage from others.
func damage(err error) (damaged, other error) {
	if errors.Is(err, timerlog.ErrDamaged) || errors.Is(err, timerlog.ErrSize) {
		return err, nil
	}
	return nil, err
}

func (t *timers) path(elem ...string) string {
	return filepath.Join(append([]string{t.b.cfg.TimerDir}, elem...)...)
}

func (t *timers) nowMs() int64 { return t.b.now().UnixMilli() }

func floorStep(ms int64) int64 { return ms - ms%timerStep }

// openFiles opens log and wheel, brings them in line with each other, and finds
// what waits.
func (t *timers) openFiles() error {
	for _, dir := range []string{t.path(), t.path("config")} {
		if err := t.fs.MkdirAll(dir); err != nil {
			return err
		}
	}
	fileBytes, err := t.fileBytes()
	if err != nil {
		return err
	}
	synced := t.saved.LastTimerLogFlushPos
	if t.log, err = timerlog.Open(timerlog.Config{FS: t.fs, Dir: t.path("timerlog"), FileBytes: fileBytes}, synced); err != nil {
		return err
	}
	if t.saved == (timerlog.Checkpoint{}) {
		t.read = floorStep(t.nowMs()) // nothing waits yet
	}
	if t.wheel, err = timerlog.OpenWheel(t.fs, t.path("timerwheel"), timerStep); err != nil {
		return errors.Join(err, t.log.Close())
	}
	t.files = true
	changed, err := timerlog.Revise(t.log, t.wheel, synced, t.read)
	if err != nil {
		return errors.Join(err, t.closeFiles())
	}
	if changed > 0 {
		t.b.log.Info("timer wheel was brought in line with its log", "slots", changed)
	}
	if err := errors.Join(t.findNext(), t.findWaiting()); err != nil {
		return errors.Join(err, t.closeFiles())
	}
	return nil
}

// fileBytes is the size of the log's files: that of those that are there.
func (t *timers) fileBytes() (int64, error) {
	infos, err := t.fs.ReadDir(t.path("timerlog"))
	if err != nil {
		return t.b.cfg.TimerLogBytes, nil //nolint:nilerr // there is none yet
	}
	for _, info := range infos {
		if _, err := strconv.ParseUint(info.Name, 10, 63); err == nil && info.Size > 0 {
			return info.Size, nil
		}
	}
	return t.b.cfg.TimerLogBytes, nil
}

// findNext moves next behind the newest unit's record: after a crash the log
// may know more than the checkpoint.
func (t *timers) findNext() error {
	newest := timerlog.Unit{Offset: -1}
	err := t.log.Each(t.saved.LastTimerLogFlushPos, func(_ int64, u timerlog.Unit) error {
		newest = u
		return nil
	})
	if err != nil || newest.Offset < 0 {
		return err
	}
	rec, err := t.b.store.ReadAt(newest.Offset)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if f, err := message.Parse(rec); err == nil && string(f.Topic) == TimerTopic {
		t.next = max(t.next, f.QueueOffset+1)
	}
	return nil
}

// findWaiting marks the slots with something that waits, and counts it.
func (t *timers) findWaiting() error {
	t.occupied, t.cancels = bitmap{}, map[cancelKey]int64{}
	t.tally.reset()
	var strangers []int64
	var cancels []store.Place
	err := t.wheel.Each(func(s timerlog.Slot) error {
		at := s.Time * timerStep
		if at < t.read {
			return nil
		}
		if at >= t.read+timerTurn/2*timerStep {
			strangers = append(strangers, at)
		}
		t.occupied.set(place(at))
		return timerlog.Chain(t.log, t.wheel, s, func(_ int64, u timerlog.Unit) error {
			if u.Magic&timerlog.MagicDelete == 0 {
				t.tally.add(u.TopicHash, 1)
			} else {
				cancels = append(cancels, store.Place{Offset: u.Offset, Size: u.Size})
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	if was := floorStep(t.saved.LastReadTimeMs); was > t.read {
		strangers = append(strangers, was) // it holds what was late for the clock before
	}
	return errors.Join(t.loadCancels(cancels), t.bringNear(strangers))
}

// bringNear puts units that wait in slots far ahead into slots of this turn of
// the wheel: a clock that was wrong put them there, and a later turn would
// overwrite them.
func (t *timers) bringNear(slots []int64) error {
	for _, at := range slots {
		s, ok, err := t.wheel.Slot(at)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		var units []timerlog.Unit
		if err := timerlog.Chain(t.log, t.wheel, s, func(_ int64, u timerlog.Unit) error {
			units = append(units, u)
			return nil
		}); err != nil {
			return err
		}
		slices.Reverse(units)
		if err := t.wheel.Clear(at); err != nil {
			return err
		}
		t.occupied.clear(place(at))
		if err := t.placeAgain(units, at, t.read); err != nil {
			return err
		}
	}
	return nil
}

// place adds a unit for a message that is due at out, ms, and enters the wheel
// at write. One that is late goes into the slot that is being delivered.
func (t *timers) place(u *timerlog.Unit, out, write int64) error {
	slot, rolled := timerlog.Place(out, write, timerStep, t.window)
	u.Magic &^= timerlog.MagicRoll
	if rolled {
		u.Magic |= timerlog.MagicRoll
	}
	slot = max(slot, t.read)
	if u.WriteTime = min(write, slot); slot-u.WriteTime > maxDelayInt {
		u.WriteTime = slot
	}
	u.Delay = int32(slot - u.WriteTime)
	if _, err := timerlog.Add(t.log, t.wheel, *u); err != nil {
		return err
	}
	t.occupied.set(place(slot))
	return nil
}

// reset makes the files anew: the topic is read from its begin, and what is
// found there may have been delivered.
func (t *timers) reset() error {
	err := t.closeFiles()
	for _, name := range []string{"timerwheel", "timerlog"} {
		err = errors.Join(err, t.fs.RemoveAll(t.path(name)))
	}
	if err != nil {
		return err
	}
	t.horizon = max(t.horizon, t.nowMs())
	t.saved.LastTimerLogFlushPos, t.saved.LastTimerQueueOffset = 0, 0
	t.next, t.done, t.pending, t.slot, t.occupied, t.cancels = 0, nil, nil, slot{}, bitmap{}, nil
	t.tally.reset()
	t.needed.Store(0)
	t.neededAt = time.Time{}
	if t.saved.LastReadTimeMs > 0 {
		return t.saved.Write(t.fs, t.path("config", "timercheck"))
	}
	return nil
}

func (t *timers) closeFiles() error {
	if !t.files {
		return nil
	}
	t.files = false
	return errors.Join(t.log.Close(), t.wheel.Close())
}

func (t *timers) arrived(a store.Arrival) {
	if a.Topic != TimerTopic {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run works until ctx ends: at each arrival, and when cron says that the next
// message is due.
func (t *timers) run(ctx context.Context) error {
	c := cron.New()
	job := cron.NewChain(cron.SkipIfStillRunning(cron.DiscardLogger)).Then(cron.FuncJob(func() { t.tick(ctx) }))
	id := c.Schedule(nextDue{t}, job)
	c.Start()
	for {
		select {
		case <-ctx.Done():
			<-c.Stop().Done()
			return nil
		case <-t.wake:
			t.tick(ctx)
			// What came may be wanted before the schedule's next time.
			c.Remove(id)
			id = c.Schedule(nextDue{t}, job)
		}
	}
}

// nextDue is a schedule of single messages.
type nextDue struct{ t *timers }

// Next implements cron.Schedule. It adds to now, so that the schedule does not
// feel a wall clock that is set.
func (n nextDue) Next(now time.Time) time.Time {
	wait := maxIdle
	if due := n.t.tally.next.Load(); due > 0 {
		wait = time.UnixMilli(due).Sub(n.t.b.now())
	}
	return now.Add(min(max(wait, minIdle), maxIdle))
}

// tick takes in what was parked and delivers what is due, until nothing is left
// to do now.
func (t *timers) tick(ctx context.Context) {
	t.turn.Lock()
	defer t.turn.Unlock()
	for ctx.Err() == nil {
		more, err := t.step(ctx)
		if damaged, _ := damage(err); damaged != nil {
			t.b.log.Error("timer files are damaged and are made anew from the messages", "err", err)
			err = t.reset()
		}
		if err != nil {
			if now := t.b.now(); now.Sub(t.failedAt) >= time.Second || now.Before(t.failedAt) {
				t.failedAt = now
				t.b.log.Error("delayed messages wait longer; trying again", "err", err)
			}
			break
		}
		if !more {
			break
		}
	}
	t.tally.next.Store(t.nextTime())
}

// step does a bounded part of the work and tells whether there is more.
func (t *timers) step(ctx context.Context) (more bool, err error) {
	if now := floorStep(t.nowMs()); t.files && now < t.read {
		if back, err := t.stepBack(now); !back || err != nil {
			return false, err
		}
	}
	took := readTimers
	far := t.files && t.isFar()
	if far {
		took = 0 // a slot of the present time would be taken for one of an earlier turn
	}
	for n := 0; took == readTimers && n < maxTakes; n++ {
		if took, err = t.enqueue(); err != nil {
			return false, fmt.Errorf("take in: %w", err)
		}
	}
	if !t.files {
		return took > 0, nil
	}
	moved, err := t.deliver(ctx)
	if err != nil {
		return false, fmt.Errorf("deliver: %w", err)
	}
	if err := t.save(); err != nil {
		return false, fmt.Errorf("save: %w", err)
	}
	if err := t.trim(); err != nil {
		return false, fmt.Errorf("look for the oldest: %w", err)
	}
	return took > 0 || moved || far && !t.isFar(), nil
}

// isFar tells whether the slot that is being delivered is far in the past: the
// clock was set forward, or nothing ran for long.
func (t *timers) isFar() bool { return t.nowMs()-t.read > timerTurn/2*timerStep }

// nextTime is when there is something to do, ms; 0 when nothing waits.
func (t *timers) nextTime() int64 {
	if !t.files {
		return 0
	}
	at := int64(math.MaxInt64)
	if now := t.nowMs(); now < t.read {
		return now // back, as soon as the commit log is synced
	}
	if len(t.slot.heap) > 0 {
		at = t.slot.heap[0].at
	}
	if slot, ok := t.nextSlot(t.read + timerStep); ok {
		at = min(at, slot)
	}
	if t.pending != nil || len(t.done) > 0 {
		at = min(at, t.nowMs()+savePeriod.Milliseconds())
	}
	if at == math.MaxInt64 {
		return 0
	}
	return at
}

// nextSlot is the first slot at or behind a time with something that waits.
func (t *timers) nextSlot(from int64) (int64, bool) {
	n := t.occupied.after(place(from))
	return from + n*timerStep, n >= 0
}

// close saves. Nothing else may be called any more.
func (t *timers) close() error {
	t.turn.Lock()
	defer t.turn.Unlock()
	if !t.files {
		return nil
	}
	return errors.Join(t.saveLast(), t.closeFiles())
}

// place is the index of a time's slot.
func place(ms int64) int64 { return ms / timerStep % timerTurn }

// bitmap has a bit for each place of the wheel: 150 KB.
type bitmap struct{ words []uint64 }

func (m *bitmap) set(i int64) {
	if m.words == nil {
		m.words = make([]uint64, (timerTurn+63)/64)
	}
	m.words[i/64] |= 1 << (i % 64)
}

func (m *bitmap) clear(i int64) {
	if m.words != nil {
		m.words[i/64] &^= 1 << (i % 64)
	}
}

func (m *bitmap) has(i int64) bool { return m.words != nil && m.words[i/64]&(1<<(i%64)) != 0 }

// after is how many places behind i, around the wheel, the next bit is set; -1
// when none is.
func (m *bitmap) after(i int64) int64 {
	if m.words == nil {
		return -1
	}
	for n := int64(0); n < timerTurn; {
		at := (i + n) % timerTurn
		if at%64 == 0 && m.words[at/64] == 0 {
			n += min(64, timerTurn-at)
			continue
		}
		if m.has(at) {
			return n
		}
		n++
	}
	return -1
}
