package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/queuelog"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Where the layouts are.
const (
	filesFolder   = "consumequeue"
	directoryFile = "queues.state" // of the compatible layout
	pagesFolder   = "sluice.queues"
)

// directoryName is the path of a layout's directory in the store. That of the
// compact layout is there exactly when the store has that layout.
func directoryName(layout QueueLayout) string {
	if layout == LayoutCompact {
		return filepath.Join(pagesFolder, "directory")
	}
	return directoryFile
}

// queueLayout keeps the queues on the disk: *queuelog.Files, *queuelog.Pages.
type queueLayout interface {
	Load(each func(topic string, id int32, q *queuelog.Queue, err error) error) ([]queuelog.State, error)
	Open(topic string, id int32) (*queuelog.Queue, error)
	Flush(queues []*queuelog.Queue) error
	Sync(queues []*queuelog.Queue, storeTime int64) error
	Remove(topic string, queues []*queuelog.Queue) error
	Close() error
}

// queue is one queue of a topic.
type queue struct {
	topic   string
	id      int32
	dirty   bool // has units that are not in a file; owned by the dispatcher
	touched atomic.Bool
	log     *queuelog.Queue
	seq     commitlog.Sequence
	gate    gate // of appends

	building  atomic.Bool // log is being built anew
	low       int64       // first offset that is told meanwhile; written before building
	suspected atomic.Bool // a reader found it damaged
	mended    atomic.Bool // it was told that a record names another place
}

// busy is the error of whoever reads while the queue is being built.
func (q *queue) busy() error {
	return fmt.Errorf("%s queue %d: %w", q.topic, q.id, ErrBuilding)
}

// topicQueues are the queues of one topic, sorted by id. With 100,000 topics a
// look-up is a walk through cold memory: this one needs few steps.
type topicQueues []queueEntry

type queueEntry struct {
	id int32
	q  *queue
}

func (t topicQueues) find(id int32) *queue {
	if id >= 0 && int(id) < len(t) && t[id].id == id {
		return t[id].q // of a topic that has them all
	}
	i, ok := slices.BinarySearchFunc(t, id, func(e queueEntry, id int32) int { return cmp.Compare(e.id, id) })
	if !ok {
		return nil
	}
	return t[i].q
}

// touchedQueues are those that the next sync has to look at. Whoever changes a
// queue touches it after that.
type touchedQueues struct {
	mu   sync.Mutex
	list []*queue
}

func (t *touchedQueues) touch(q *queue) {
	if q.touched.Load() || q.touched.Swap(true) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, q)
}

func (t *touchedQueues) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.list)
}

// all returns the set of this moment.
func (t *touchedQueues) all() []*queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list)
}

// take empties the set. A change that comes later touches its queue again.
func (t *touchedQueues) take() []*queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.list
	t.list = nil
	for _, q := range list {
		q.touched.Store(false)
	}
	return list
}

func logsOf(queues []*queue) []*queuelog.Queue {
	logs := make([]*queuelog.Queue, len(queues))
	for i, q := range queues {
		logs[i] = q.log
	}
	return logs
}

// ReadQueueLayout returns the layout that the queues of a store folder have;
// none when it has no queues.
func ReadQueueLayout(fsys vfs.FS, dir string, none QueueLayout) (QueueLayout, error) {
	compact, err := vfs.Exists(fsys, filepath.Join(dir, directoryName(LayoutCompact)))
	if err != nil || compact {
		return LayoutCompact, err
	}
	infos, err := fsys.ReadDir(filepath.Join(dir, filesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return none, err
	}
	if slices.ContainsFunc(infos, func(i vfs.Info) bool { return i.Dir }) {
		return LayoutCompatible, nil
	}
	// Pages without their directory, which somebody has lost.
	infos, err = fsys.ReadDir(filepath.Join(dir, pagesFolder))
	if len(infos) > 0 {
		return LayoutCompact, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return none, err
}

// foundLayout returns the layout of the folder; an empty one has what is configured.
func (s *Store) foundLayout() (QueueLayout, error) {
	return ReadQueueLayout(s.fs, s.cfg.Dir, s.cfg.QueueLayout)
}

// checkLayout refuses to go on when the queues have another layout than the
// configured one: they would be missed.
func (s *Store) checkLayout() error {
	found, err := s.foundLayout()
	if err != nil || found == s.cfg.QueueLayout {
		return err
	}
	return fmt.Errorf("store.queue_layout is %s, but the queues have the %s layout: set it to %s, or stop the server and run \"sluice store convert --to %s %s\": %w",
		s.cfg.QueueLayout, found, found, s.cfg.QueueLayout, s.cfg.Dir, ErrQueueLayout)
}

// openLayout makes the layout that holds the queues; it is still to be loaded.
func (s *Store) openLayout(layout QueueLayout, clean bool) {
	s.layout = newLayout(&s.cfg, s.fs, layout, directoryName(layout), clean, s.made.Version > 0, s.checkpoint.get().logics)
}

// findQueue returns a queue, or nil.
func (s *Store) findQueue(topic string, id int32) *queue {
	s.queuesMu.RLock()
	defer s.queuesMu.RUnlock()
	return s.queues[topic].find(id)
}

// makeQueue returns a queue, empty if it is new. While its topic is deleted
// the error is ErrBusy.
func (s *Store) makeQueue(topic string, id int32) (*queue, error) {
	if q := s.findQueue(topic, id); q != nil {
		return q, nil
	}
	s.queuesMu.Lock()
	defer s.queuesMu.Unlock()
	if q := s.queues[topic].find(id); q != nil {
		return q, nil
	}
	if s.deleting[topic] != nil {
		return nil, beingDeleted(topic)
	}
	log, err := s.layout.Open(topic, id)
	if err == nil && log.End() > 0 && s.deleted.has([]byte(topic), log.End()-1) {
		err = log.Reset() // its files could not be deleted with the topic
	}
	if err != nil {
		return nil, err
	}
	return s.addQueueLocked(topic, id, log), nil
}

func (s *Store) addQueueLocked(topic string, id int32, log *queuelog.Queue) *queue {
	q := &queue{topic: topic, id: id, log: log}
	_, next := log.Range()
	q.seq.Set(next)
	// Readers hold the lock: they never see the list while it changes.
	list := s.queues[topic]
	i, _ := slices.BinarySearchFunc(list, id, func(e queueEntry, id int32) int { return cmp.Compare(e.id, id) })
	s.queues[topic] = slices.Insert(list, i, queueEntry{id, q})
	return q
}

// allQueues returns the queues of this moment.
func (s *Store) allQueues() []*queue {
	s.queuesMu.RLock()
	defer s.queuesMu.RUnlock()
	var all []*queue
	for _, t := range s.queues {
		for _, e := range t {
			all = append(all, e.q)
		}
	}
	return all
}

// loadQueues opens all queues of the folder. What the directory says about
// them comes back for missing.
func (r *recovery) loadQueues(clean bool) ([]queuelog.State, error) {
	s := r.s
	s.openLayout(s.cfg.QueueLayout, clean)
	s.queuesMu.Lock()
	defer s.queuesMu.Unlock()
	var gone []*queue
	states, err := s.layout.Load(func(topic string, id int32, log *queuelog.Queue, err error) error {
		if err != nil && !errors.Is(err, queuelog.ErrDamaged) {
			return err
		}
		q := s.addQueueLocked(topic, id, log)
		switch {
		case err != nil:
			s.happened(QueueDamaged{Topic: topic, Queue: id, Err: err})
			r.rebuild[q] = true
		case log.End() > 0 && s.deleted.has([]byte(topic), log.End()-1):
			gone = append(gone, q)
		default:
			r.loaded(q)
		}
		return nil
	})
	if errors.Is(err, queuelog.ErrDirectory) {
		s.happened(DirectoryRemade{err})
	} else if err != nil {
		return nil, err
	}
	// A crash came between the deletion of the topic and that of its queues.
	for _, q := range gone {
		s.queues[q.topic] = slices.DeleteFunc(s.queues[q.topic], func(e queueEntry) bool { return e.q == q })
		if err := s.layout.Remove(q.topic, logsOf([]*queue{q})); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// loaded notes what spares recovery a walk through all queues.
func (r *recovery) loaded(q *queue) {
	lo, hi := q.log.Range()
	if lo == hi {
		return
	}
	if end := q.log.End(); end > r.newestEnd {
		r.newest, r.newestEnd = q, end
	}
	r.oldest = min(r.oldest, q.log.First())
}

// syncQueues makes everything dispatched up to a store time durable in the
// queues. Its cost follows what has changed since the last time. whole is
// false when some queue was left out, since it is being built.
func (s *Store) syncQueues(dispatched int64) (whole bool, err error) {
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	whole = s.rebuilding.Load() == nil
	// Those that are being built are touched again when they are complete.
	queues := slices.DeleteFunc(s.touched.take(), func(q *queue) bool { return q.building.Load() })
	err = errors.Join(s.layout.Sync(logsOf(queues), dispatched), s.eachBatch((*queuelog.Batch).Sync))
	for _, q := range queues {
		if err != nil || q.log.Unsynced() {
			s.touched.touch(q)
		}
	}
	return whole, err
}

// flushUnits is how many units gather in memory before they are worth to be
// written: a crash reads the commit log from the last sync on anyhow. Files of
// their own are written at each tick, as other readers of the folder expect.
func (s *Store) flushUnits() int {
	if s.cfg.QueueLayout == LayoutCompact {
		return 1 << 20
	}
	return 0
}

// newLayout returns a layout that is still to be loaded. synced is the store
// time up to which its last sync is known to have come; sized says that the
// files are known to have the configured sizes.
func newLayout(cfg *Config, fsys vfs.FS, layout QueueLayout, directory string, clean, sized bool, synced int64) queueLayout {
	perFile := (cfg.QueueSegmentBytes + queuelog.UnitBytes - 1) / queuelog.UnitBytes
	if layout == LayoutCompact {
		// 16 queue files make one of pages; whole words of 64.
		pages := (cfg.QueueSegmentBytes*16/queuelog.PageBytes + 63) / 64 * 64
		return queuelog.NewPages(queuelog.PagesConfig{
			FS: fsys, PagesPerFile: uint32(max(pages, 64)), Reach: perFile, NotBefore: synced,
		}, filepath.Join(cfg.Dir, pagesFolder), filepath.Join(cfg.Dir, directory))
	}
	return queuelog.NewFiles(queuelog.Config{FS: fsys, FileBytes: cfg.QueueSegmentBytes, Clean: clean, Sized: sized, NotBefore: synced},
		filepath.Join(cfg.Dir, filesFolder), filepath.Join(cfg.Dir, directory))
}
