package store

import (
	"context"
	"errors"
	"time"
)

// maxUnsynced is how much of the commit log is dispatched until the queues are
// synced before their time: so much a recovery reads at most, and what one
// tick brings.
const maxUnsynced = 256 << 20

// maxUnsyncedCompact is the same for the compact layout, which is for stores
// with many queues: a sync writes a page of each that got a message.
const maxUnsyncedCompact = 512 << 20

func (s *Store) maxUnsynced() int64 {
	if s.cfg.QueueLayout == LayoutCompact {
		return maxUnsyncedCompact
	}
	return maxUnsynced
}

// reach is how far the queues were synced: everything up to the end of the
// record at last. In the commit log that may not be on the disk yet.
type reach struct{ last, end int64 }

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
			err = s.saveProgress(s.dispatched.Load()-s.reach.end > s.maxUnsynced())
		case <-sync.C:
			err = errors.Join(s.saveProgress(true), s.deleted.freshen())
		case <-retention.C:
			err = s.retain()
		}
		if err != nil {
			// Nothing is lost by it: the next tick tries again, and a recovery
			// starts further back.
			s.happened(MaintenanceFailed{err})
		}
	}
}

// saveProgress writes the checkpoint; with queues it syncs them first, so that
// a recovery need not look at what was dispatched until now.
func (s *Store) saveProgress(queues bool) error {
	// Read before the queues are synced: what is dispatched meanwhile may be
	// missing in those that had their turn already. The last record comes in
	// front of the end, which so is never in front of the record's.
	dispatched := s.storedTime.Load()
	last := s.lastRecord.Load()
	end := s.dispatched.Load()
	began := s.now()
	if queues {
		whole, err := s.syncQueues(dispatched)
		if err != nil {
			return err
		}
		// While queues are built the next start must find what they lack.
		if queues = whole; queues {
			s.reach = reach{last, end}
		}
	}
	flushed := s.clog.Flushed()
	err := s.checkpoint.update(func(v *checkpointValues) {
		v.physic = max(v.physic, s.clog.FlushedTime())
		v.index = max(v.index, s.index.syncedTime())
		if queues {
			v.logics = max(v.logics, dispatched)
		}
		v.synced = max(v.synced, flushed)
		if s.reach.end <= flushed {
			v.reached = max(v.reached, s.reach.last)
		}
	})
	if err == nil && queues {
		s.happened(CheckpointWritten{Reached: s.reach.end, Took: s.now().Sub(began)})
	}
	return err
}
