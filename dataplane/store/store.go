// Package store is the message store of one broker: the facade over the commit
// log, the consume queues and the key index that are made from it, and the
// tables of topics and consumer groups.
//
// It owns a folder: who may write to it (lock file), how it is repaired after
// a crash (abort file, checkpoint), when data is deleted. It does not know
// clients, tenants, offsets of consumers or protocols.
//
// An append is acknowledged when its record is in the commit log with the
// durability asked for; one dispatcher goroutine then makes it readable in its
// queue and reports the arrival. All methods may be called by many goroutines.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/queuelog"
	"github.com/sluicemq/sluice/dataplane/replica"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Store is an open store folder. Open it, set OnArrival, call Run, and Close it.
type Store struct {
	cfg    Config
	fs     vfs.FS
	now    func() time.Time
	log    *slog.Logger
	listen func(Event) // may be nil
	lock   io.Closer
	made   Format // of the folder as it was found; zero when nothing says it

	clog       *commitlog.Log
	checkpoint checkpoint
	topics     *table[TopicConfig]
	groups     *table[GroupConfig]
	batchCQ    atomic.Pointer[map[string]bool] // topics with queue.type=BatchCQ
	deleted    deletedTopics

	configMu sync.Mutex // held while a configuration file is replaced

	queuesMu sync.RWMutex
	queues   map[string]topicQueues
	batches  map[batchKey]*queuelog.Batch
	deleting map[string]chan struct{}     // topics whose deletion is under way; closed when it is over
	leftover map[string][]*queuelog.Queue // of deleted topics: queues whose files could not be deleted
	layout   queueLayout
	touched  touchedQueues

	wake       chan struct{} // the commit log has grown
	arrival    atomic.Pointer[func(Arrival)]
	needed     atomic.Pointer[func() int64] // see OnRetain
	folds      []fold
	foldsFrom  atomic.Int64  // commit log offset that folds still have to see, until they caught up
	dispatched atomic.Int64  // commit log offset up to which queues are complete
	storedTime atomic.Int64  // store time of the last dispatched record
	lastRecord atomic.Int64  // commit log offset of the last dispatched record, written behind dispatched
	reach      reach         // owned by whoever calls saveProgress
	disk       atomic.Uint32 // a DiskState
	clock      clockWatch    // owned by whoever calls retain
	topicBytes topicBytes    // the same
	rebuilding atomic.Pointer[recovery]
	suspects   chan *queue // damaged, for rebuildLoop
	syncMu     sync.Mutex  // held while queues are synced and noted, and while one is emptied; in front of dispatchMu
	dispatchMu sync.Mutex  // held while records are dispatched, and while queues take their place or leave it; in front of queuesMu
	index      index
	terms      *replica.Terms
	metrics    metrics
	cold       coldReads

	closed  atomic.Bool
	mu      sync.Mutex
	cancel  context.CancelFunc // ends Run
	running sync.WaitGroup     // calls of Run

	appends      sync.Pool           // of *appendOp
	largeAppends sync.Pool           // of *appendOp with memory for large records
	largeRoom    *semaphore.Weighted // largeRoom bytes, for their records
	reads        sync.Pool           // of *readBuffers
}

var discard = slog.New(slog.DiscardHandler)

// Open locks a store folder, repairs it and loads it. The folder is made if it
// is missing. Errors: all that Config.Validate finds; ErrLocked; ErrReadOnly;
// ErrTooManyFiles; ErrNewerVersion; ErrSizes; ErrConfigDamaged; others of the
// file system. None of them changes what the folder holds.
func Open(cfg Config, deps Deps) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := newStore(cfg, deps)
	if err := s.open(deps.Folds); err != nil {
		s.release()
		return nil, fmt.Errorf("open store %s: %w", cfg.Dir, err)
	}
	return s, nil
}

// newStore returns a store that is still to be opened.
func newStore(cfg Config, deps Deps) *Store {
	s := &Store{cfg: cfg, fs: deps.FS, now: deps.Now, log: deps.Logger, listen: deps.Events, wake: make(chan struct{}, 1), suspects: make(chan *queue, 64), queues: map[string]topicQueues{}, deleting: map[string]chan struct{}{}, leftover: map[string][]*queuelog.Queue{}}
	if s.fs == nil {
		s.fs = vfs.OS()
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = discard
	}
	s.topicBytes = topicBytes{}
	s.cold.init(&s.cfg, s.now)
	s.largeRoom = semaphore.NewWeighted(largeRoom)
	return s
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.cfg.Dir}, elem...)...)
}

func (s *Store) open(folds []Fold) error {
	for _, dir := range []string{s.cfg.Dir, s.path("config"), s.path(filesFolder)} {
		if err := s.fs.MkdirAll(dir); err != nil {
			return err
		}
	}
	if err := errors.Join(s.fs.SyncDir(filepath.Dir(filepath.Clean(s.cfg.Dir))), s.fs.SyncDir(s.cfg.Dir)); err != nil {
		return err
	}
	if err := s.takeLock(); err != nil {
		return err
	}
	unclean, err := vfs.Exists(s.fs, s.path("abort"))
	if err != nil {
		return err
	}
	if err := s.checkFormat(); err != nil {
		return err
	}
	if err := s.loadTables(); err != nil {
		return err
	}
	err = s.checkpoint.load(s.fs, s.path("checkpoint"))
	if errors.Is(err, errCheckpoint) {
		s.happened(CheckpointDamaged{Err: err})
		err = nil
	}
	if err != nil {
		return err
	}
	interval := s.cfg.FlushInterval
	if s.cfg.Flush.waits() {
		// What asks for no sync is not readable before one.
		interval = min(interval, 10*time.Millisecond)
	}
	s.clog, err = commitlog.Open(commitlog.Config{
		Dir: s.path("commitlog"), SegmentBytes: s.cfg.SegmentBytes, FlushInterval: interval, Preallocate: s.cfg.Preallocate,
		MaxWait: maxAppendWait,
	}, commitlog.Deps{FS: s.fs, Now: s.now, Events: s.happened, Advanced: func() { poke(s.wake) }, Observer: &s.metrics})
	if err != nil {
		return err
	}
	if err := s.checkLayout(); err != nil {
		return err
	}
	// From here on the folder may change: the mark comes first.
	if err := vfs.WriteFile(s.fs, s.path("abort"), []byte(strconv.Itoa(os.Getpid()))); err != nil {
		return err
	}
	if err := s.fs.SyncDir(s.cfg.Dir); err != nil {
		return err
	}
	if err := s.saveFormat(); err != nil {
		return err
	}
	if err := s.openIndex(unclean); err != nil {
		return err
	}
	if err := s.recover(!unclean); err != nil {
		return err
	}
	if err := s.beginTerm(); err != nil {
		return err
	}
	s.makeFolds(folds)
	if err := s.expireQueues(false, nil); err != nil {
		return err
	}
	s.checkDisk()
	s.clog.Start()
	return nil
}

// takeLock keeps other processes out; release gives it back.
func (s *Store) takeLock() error {
	lock, err := s.fs.Lock(s.path("lock"), []byte("lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("data directory %s is used by another process: %w", s.cfg.Dir, ErrLocked)
	}
	if err != nil {
		return err
	}
	s.lock = lock
	return nil
}

// maxAppendWait is how long an append may wait for the disk to take others; it
// is then refused with ErrBusy. RocketMQ calls a disk busy after the same time.
const maxAppendWait = time.Second

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run makes appended messages readable and their keys known, calls the arrival function and the
// folds, writes queues and checkpoint, and deletes old data, until ctx ends or
// Close is called; that is no error.
func (s *Store) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.closed.Load() {
		s.mu.Unlock()
		return nil
	}
	if s.cancel != nil {
		s.mu.Unlock()
		return errors.New("store runs already")
	}
	ctx, cancel := context.WithCancel(ctx)
	s.cancel = cancel
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
		cancel()
	}()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.dispatchLoop(ctx) })
	g.Go(func() error { return s.maintainLoop(ctx) })
	g.Go(func() error { return s.indexLoop(ctx) })
	g.Go(func() error { return s.rebuildLoop(ctx) })
	err := g.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Close refuses new appends, waits for those under way, dispatches and syncs
// everything, and releases the folder. It is idempotent. When it returns nil
// the next Open needs no repair, except of queues that were being built anew.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed.Swap(true) {
		s.mu.Unlock()
		return nil
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()

	err := s.clog.Stop()
	if derr := s.dispatch(context.Background(), s.clog.Written()); err == nil {
		err = derr
	}
	if ierr := s.finishIndex(); err == nil {
		err = ierr
	}
	if serr := s.saveProgress(true); err == nil {
		err = serr
	}
	if err == nil && s.rebuilding.Load() != nil {
		s.happened(RebuildCut{})
		return s.release()
	}
	if err == nil {
		// Only now: without the mark the next start trusts the queues.
		err = s.fs.Remove(s.path("abort"))
	}
	if err == nil {
		err = s.fs.SyncDir(s.cfg.Dir)
	}
	return errors.Join(err, s.release())
}

// release closes whatever open has opened.
func (s *Store) release() error {
	var errs []error
	if s.clog != nil {
		errs = append(errs, s.clog.Close())
	}
	for _, q := range s.allQueues() {
		errs = append(errs, q.log.Close())
	}
	errs = append(errs, s.eachBatch((*queuelog.Batch).Close))
	if s.layout != nil {
		errs = append(errs, s.layout.Close())
	}
	errs = append(errs, s.checkpoint.close(), s.index.close())
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// CommitLogRange returns the offset of the first byte and of the next record
// of the commit log.
func (s *Store) CommitLogRange() (min, max int64) { return s.clog.Range() }

// OnArrival sets the function that is told of each message as soon as it can
// be read; call it before Run. The function must not block: it runs on the
// dispatcher.
func (s *Store) OnArrival(f func(Arrival)) { s.arrival.Store(&f) }

// Dispatched is the commit log offset up to which messages can be read.
func (s *Store) Dispatched() int64 { return s.dispatched.Load() }
