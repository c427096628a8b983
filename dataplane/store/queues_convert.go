package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/dataplane/queuelog"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// A conversion writes the other layout beside the present one. What makes it
// the layout of the store is one step at the end: that the directory of the
// compact layout takes its name, or is removed. Before that step an
// interrupted conversion has changed nothing, and behind it only the rest of
// the old layout is left; the next conversion removes both.

// convertBatch is how many queues are made durable together.
const convertBatch = 1000

// convertWorkers write queues at the same time: each file of the compatible
// layout has to be synced by itself.
const convertWorkers = 8

// conversion is one run of ConvertQueues.
type conversion struct {
	s        *Store
	from, to queueLayout
	progress func(done, total int)
}

// ConvertQueues gives the queues of a store that is not open the layout to;
// cfg.QueueLayout is not looked at. When it has that layout already nothing
// happens. progress is told how many queues are done, from one goroutine at a
// time; it may be nil. Interrupted, it can be begun again, and until the last
// moment the store has the old layout.
//
// Errors: all that Config.Validate finds; ErrLocked; ErrUnclean when the last
// stop was not clean; ErrQueuesDamaged when the queues have to be repaired by a
// start first.
func ConvertQueues(cfg Config, deps Deps, to QueueLayout, progress func(done, total int)) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if to > LayoutCompact {
		return fmt.Errorf("queue layout %d: it is compatible or compact", to)
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	s := newStore(cfg, deps)
	err := s.convertQueues(to, progress)
	if err = errors.Join(err, s.release()); err != nil {
		return fmt.Errorf("convert queues of %s: %w", cfg.Dir, err)
	}
	return nil
}

func (s *Store) convertQueues(to QueueLayout, progress func(done, total int)) error {
	// A mistyped folder is not made.
	if _, err := s.fs.Stat(s.path("commitlog")); err != nil {
		return err
	}
	if err := s.takeLock(); err != nil {
		return err
	}
	switch unclean, err := vfs.Exists(s.fs, s.path("abort")); {
	case err != nil:
		return err
	case unclean:
		return fmt.Errorf("start and stop the server once, so that it repairs the store: %w", ErrUnclean)
	}
	if err := s.checkFormat(); err != nil {
		return err
	}
	if err := s.checkpoint.load(s.fs, s.path("checkpoint")); err != nil {
		return err
	}
	if err := s.fs.MkdirAll(s.path(filesFolder)); err != nil {
		return err
	}
	from, err := s.foundLayout()
	if err != nil || from == to {
		return err
	}
	if err := s.removeLayout(to); err != nil {
		return err
	}
	if err := s.fs.MkdirAll(s.path(filesFolder)); err != nil {
		return err
	}
	synced := s.checkpoint.get().logics
	c := &conversion{s: s, progress: progress,
		from: newLayout(&s.cfg, s.fs, from, directoryName(from), true, s.made.Version > 0, synced),
		to:   newLayout(&s.cfg, s.fs, to, directoryName(to)+".converted", true, true, 0)}
	if err := errors.Join(c.run(synced), c.from.Close(), c.to.Close()); err != nil {
		return err
	}
	// The sizes cannot be seen from the files of both layouts.
	if err := s.saveFormat(); err != nil {
		return err
	}
	return s.switchLayout(from, to)
}

// run copies all queues.
func (c *conversion) run(synced int64) error {
	type source struct {
		topic string
		id    int32
		log   *queuelog.Queue
	}
	var queues []source
	_, err := c.from.Load(func(topic string, id int32, q *queuelog.Queue, err error) error {
		queues = append(queues, source{topic, id, q})
		return err
	})
	if errors.Is(err, queuelog.ErrDamaged) || errors.Is(err, queuelog.ErrDirectory) {
		return fmt.Errorf("start and stop the server once, so that it repairs them: %w: %w", ErrQueuesDamaged, err)
	}
	if err != nil {
		return err
	}
	if _, err := c.to.Load(func(string, int32, *queuelog.Queue, error) error { return nil }); err != nil {
		return err
	}
	slices.SortFunc(queues, func(a, b source) int { return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id)) })
	done := 0
	for batch := range slices.Chunk(queues, convertBatch) {
		made := make([]*queuelog.Queue, len(batch))
		var g errgroup.Group
		g.SetLimit(convertWorkers)
		for i, q := range batch {
			g.Go(func() error {
				var err error
				if made[i], err = c.to.Open(q.topic, q.id); err != nil {
					return err
				}
				if err = made[i].CopyFrom(q.log); err != nil {
					return err
				}
				if _, files := c.to.(*queuelog.Files); files {
					return made[i].Sync()
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if err := c.to.Sync(made, 0); err != nil {
			return err
		}
		for i, q := range batch {
			if err := errors.Join(made[i].Close(), q.log.Close()); err != nil {
				return err
			}
		}
		done += len(batch)
		c.progress(done, len(queues))
	}
	// Only now the new directory may say that nothing is missing.
	return c.to.Sync(nil, synced)
}

// switchLayout makes the layout that was written the one of the store.
func (s *Store) switchLayout(from, to QueueLayout) error {
	if err := s.fs.Rename(s.path(directoryName(to)+".converted"), s.path(directoryName(to))); err != nil {
		return err
	}
	dir := s.path(pagesFolder)
	if to == LayoutCompatible {
		if err := errors.Join(s.fs.SyncDir(s.path(filesFolder)), s.fs.SyncDir(s.cfg.Dir)); err != nil {
			return err
		}
		if err := s.fs.Remove(s.path(directoryName(from))); err != nil {
			return err
		}
	}
	if err := s.fs.SyncDir(dir); err != nil {
		return err
	}
	if err := s.removeLayout(from); err != nil {
		return err
	}
	return errors.Join(s.fs.MkdirAll(s.path(filesFolder)), s.fs.SyncDir(s.cfg.Dir))
}

// removeLayout deletes the files of a layout that is not the store's.
func (s *Store) removeLayout(layout QueueLayout) error {
	if layout == LayoutCompact {
		return s.fs.RemoveAll(s.path(pagesFolder))
	}
	for _, name := range []string{directoryFile, directoryFile + ".converted", filesFolder} {
		if err := s.fs.RemoveAll(s.path(name)); err != nil {
			return err
		}
	}
	return nil
}
