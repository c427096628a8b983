package store

import (
	"context"
	"time"
)

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
