package commitlog

import (
	"fmt"
	"time"
)

// flushLoop syncs on demand and every FlushInterval. It ends when stop is
// closed; Close waits for it.
func (l *Log) flushLoop() {
	tick := time.NewTicker(l.cfg.FlushInterval)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-l.flushC:
		case <-tick.C:
		}
		_ = l.flush() // whoever waits for it was told, and the log stands still
		l.relax()
	}
}

// RequestFlush has everything that is written synced soon, and does not wait.
func (l *Log) RequestFlush() { poke(l.flushC) }

// flush syncs all that is written and tells those who wait for it. Called by
// flushLoop, and by Close and Recover when that does not run.
//
// Files are synced oldest first, so a synced record never stands behind a lost
// one. After a failed sync the kernel may have dropped the bytes, so nothing
// that comes later could be trusted: the log stops.
func (l *Log) flush() error {
	l.mu.Lock()
	waiting := l.syncing
	l.flushing = waiting
	l.syncing, l.spare = l.spare[:0], nil
	err := l.failed
	l.mu.Unlock()

	// The time is read before the end: see publish.
	storeTime := l.writtenTime.Load()
	end := l.written.Load()
	from, began := l.flushed.Load(), l.deps.Now()
	if err == nil && from < end {
		if err = l.syncRange(from, end); err == nil {
			l.flushedTime.Store(storeTime)
			l.flushed.Store(end)
		}
	}
	if err == nil {
		l.flushedAt.Store(began.UnixNano())
	}
	l.mu.Lock()
	broke := err != nil && l.failed == nil
	if broke {
		l.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	l.flushing, err = nil, l.failed
	l.settleLocked()
	l.mu.Unlock()
	done := l.deps.Now()
	if err == nil && from < end {
		l.deps.Observer.Synced(done.Sub(began), end-from)
		if took := done.Sub(began); took >= SlowFlush {
			l.deps.Events(FlushSlow{took, end - from})
		}
	}
	if broke {
		l.deps.Events(FlushFailed{err})
	}
	fail(waiting, err)
	l.tell(waiting, done)
	told := len(waiting)
	clear(waiting)
	l.mu.Lock()
	l.spare = waiting
	l.mu.Unlock()
	if from < end || told > 0 {
		l.deps.Advanced()
	}
	return err
}

func (l *Log) syncRange(from, end int64) error {
	for _, s := range *l.segs.Load() {
		if s.hole() || s.end() <= from || s.base >= end || !s.acquire() {
			continue
		}
		err := s.file.SyncData() // the size was synced when the file was made
		s.release()
		if err != nil {
			return fmt.Errorf("sync segment %020d: %w", s.base, err)
		}
	}
	return nil
}

// Settled is the end of what has the durability that its writers asked for, in
// front of the first record whose writer still waits for a sync: who reads no
// further never sees what a power cut takes from a writer that was told nothing.
func (l *Log) Settled() int64 { return l.settled.Load() }

// settleLocked moves Settled. After a failed sync it stays where it is: what
// waited for that one stays out of sight.
func (l *Log) settleLocked() {
	if l.failed != nil {
		return
	}
	end := l.written.Load()
	switch {
	case len(l.flushing) > 0:
		end = l.flushing[0].PhysicalOffset
	case len(l.syncing) > 0:
		end = l.syncing[0].PhysicalOffset
	}
	l.settled.Store(end)
}
