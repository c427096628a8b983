package store

import (
	"context"
	"errors"
	"time"
)

// maxExpired is how many commit log files one look deletes.
const maxExpired = 10

// maintainLoop writes the checkpoint, syncs queues and deletes old data. It
// ends with ctx.
func (s *Store) maintainLoop(ctx context.Context) error {
	progress := time.NewTicker(s.cfg.QueueFlush)
	defer progress.Stop()
	sync := time.NewTicker(s.cfg.Checkpoint)
	defer sync.Stop()
	retention := time.NewTicker(s.cfg.RetentionCheck)
	defer retention.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-progress.C:
			err = s.saveProgress(false)
		case <-sync.C:
			err = s.saveProgress(true)
		case <-retention.C:
			err = s.retain()
		}
		if err != nil {
			// Nothing is lost by it: the next tick tries again, and a recovery
			// starts further back.
			s.log.Error("store maintenance failed", "err", err)
		}
	}
}

// saveProgress writes the checkpoint; with queues it syncs them first, so that
// a recovery need not look at what was dispatched until now.
func (s *Store) saveProgress(queues bool) error {
	// Read before the queues are synced: what is dispatched meanwhile may be
	// missing in those that had their turn already.
	dispatched := s.storedTime.Load()
	if queues {
		if err := s.syncQueues(dispatched); err != nil {
			return err
		}
	}
	return s.checkpoint.update(func(v *checkpointValues) {
		v.physic = max(v.physic, s.clog.FlushedTime())
		v.index = max(v.index, s.index.syncedTime())
		if queues {
			v.logics = max(v.logics, dispatched)
		}
	})
}

// retain looks at the disk and deletes old data.
func (s *Store) retain() error {
	crowded := s.checkDisk()
	limit := min(s.dispatched.Load(), s.foldsFrom.Load()) // what nobody has seen yet must stay
	n, err := s.clog.Expire(s.now().Add(-s.cfg.Retention), limit, maxExpired)
	if err == nil && n == 0 && crowded {
		var dropped bool
		if dropped, err = s.clog.DropOldest(limit); dropped {
			n = 1
			s.log.Warn("disk is nearly full: the oldest commit log file was deleted before its time")
		}
	}
	if n > 0 {
		err = errors.Join(err, s.expireQueues())
		s.checkDisk()
	}
	return err
}

// expireQueues removes units of records that are gone.
func (s *Store) expireQueues() error {
	first, _ := s.clog.Range()
	var errs []error
	for _, q := range s.allQueues() {
		changed, err := q.log.Expire(first)
		if changed {
			s.touched.touch(q)
		}
		errs = append(errs, err)
	}
	s.deleted.forget(first)
	return errors.Join(errs...)
}

// checkDisk sets diskFull and reports whether old data should go. Between the
// two ratios a full disk stays full.
func (s *Store) checkDisk() (crowded bool) {
	space, err := s.fs.Space(s.cfg.Dir)
	if err != nil || space.Total <= 0 {
		s.log.Warn("free disk space is unknown", "err", err)
		return false
	}
	used := 1 - float64(space.Free)/float64(space.Total)
	enough := space.Free >= s.cfg.DiskFreeBytes
	switch was := s.diskFull.Load(); {
	case !was && used > s.cfg.DiskFullRatio && !enough:
		s.diskFull.Store(true)
		s.log.Error("disk is full: messages are refused", "used", used, "limit", s.cfg.DiskFullRatio)
	case was && (used <= s.cfg.DiskCleanRatio || enough):
		s.diskFull.Store(false)
		s.log.Info("disk has space again: messages are accepted", "used", used)
	}
	return used > s.cfg.DiskCleanRatio && !enough
}
