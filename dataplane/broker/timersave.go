package broker

import (
	"math"
	"time"

	"github.com/sluicemq/sluice/dataplane/timerlog"
)

// timerSave is a checkpoint that is to be written.
type timerSave struct {
	read int64
	end  int64 // what must be on the disk before, in the commit log
	done []int64
}

const (
	readPeriod  = 60 * timerStep  // ms that the read time may move without a checkpoint when nothing else changed
	lastSync    = 2 * time.Second // that a close waits for the commit log
	lastSyncGap = 2 * time.Millisecond
)

// save writes the checkpoint if something changed since, each savePeriod.
func (t *timers) save() error {
	if t.pending == nil {
		now := t.b.now()
		if since := now.Sub(t.savedAt); since >= 0 && since < savePeriod || !t.changed() {
			return nil
		}
		t.savedAt = now
		t.pending, t.done = &timerSave{read: t.read, end: t.sent, done: t.done}, nil
	}
	if t.b.store.Synced() < t.pending.end {
		t.b.store.RequestSync()
		return nil
	}
	return t.write()
}

func (t *timers) changed() bool {
	_, end := t.log.Range()
	moved := t.read - t.saved.LastReadTimeMs
	return len(t.done) > 0 || t.next != t.saved.LastTimerQueueOffset || end != t.saved.LastTimerLogFlushPos || moved < 0 || moved >= readPeriod
}

// write writes the pending checkpoint: log, wheel, then what says that they are
// good.
func (t *timers) write() error {
	p := t.pending
	for _, at := range p.done {
		if err := t.wheel.Clear(at); err != nil {
			return err
		}
	}
	if err := t.log.Sync(); err != nil {
		return err
	}
	if err := t.wheel.Sync(); err != nil {
		return err
	}
	_, end := t.log.Range()
	cp := t.saved
	cp.LastReadTimeMs, cp.LastTimerLogFlushPos, cp.LastTimerQueueOffset, cp.MasterTimerQueueOffset = p.read, end, t.next, t.next
	cp.Timestamp = t.nowMs()
	cp.Counter++
	if err := cp.Write(t.fs, t.path("config", "timercheck")); err != nil {
		return err
	}
	t.saved, t.pending = cp, nil
	return nil
}

// saveLast is save for a stop: it waits a while for the commit log. What is not
// synced then is looked for after the next start.
func (t *timers) saveLast() error {
	if t.pending == nil {
		t.pending, t.done = &timerSave{read: t.read, end: t.sent, done: t.done}, nil
	} else {
		t.pending.read, t.pending.end, t.pending.done, t.done = t.read, t.sent, append(t.pending.done, t.done...), nil
	}
	for waited := time.Duration(0); t.b.store.Synced() < t.pending.end; waited += lastSyncGap {
		if waited >= lastSync {
			return nil
		}
		t.b.store.RequestSync()
		time.Sleep(lastSyncGap)
	}
	return t.write()
}

// trim finds, each needPeriod, the oldest record that waits: retention keeps it,
// and files of the timer log in front of its unit go.
func (t *timers) trim() error {
	now := t.b.now()
	if since := now.Sub(t.neededAt); since >= 0 && since < needPeriod {
		return nil
	}
	_, oldest := t.log.Range()
	err := t.wheel.Each(func(s timerlog.Slot) error {
		if s.Time*timerStep >= t.read {
			oldest = min(oldest, s.First)
		}
		return nil
	})
	if err != nil {
		return err
	}
	needed := int64(math.MaxInt64)
	if first, end := t.log.Range(); oldest < end {
		u, err := t.log.At(max(oldest, first))
		if err != nil {
			return err
		}
		needed = u.Offset
	}
	t.needed.Store(needed)
	// The next start reads the log from the checkpoint's position on.
	if err := t.log.DropBefore(min(oldest, t.saved.LastTimerLogFlushPos)); err != nil {
		return err
	}
	t.neededAt = now
	t.forgetCancels()
	return nil
}
