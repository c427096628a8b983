package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/keyindex"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// View is a store folder as it lies there, for those who examine it: nothing
// is recovered. What opening the files changes all the same (an empty one is
// removed, a short one completed) goes to Deps.FS: give it an Overlay. A View
// belongs to one goroutine.
type View struct {
	s *Store
	// Unclean says that the last stop was, or that the store is open.
	Unclean bool
	// TablesErr is why the topic table could not be read: all records count
	// as those of known topics then.
	TablesErr error
	// CheckpointErr is why the checkpoint is not believed: it counts as zeros.
	CheckpointErr error
	// States is what the queues held when they were last synced; set by Queues.
	States []queuelog.State
}

// OpenView opens a folder without locking it. Errors: all that Config.Validate
// finds, and a commit log that cannot be opened.
func OpenView(cfg Config, deps Deps) (*View, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, fs: deps.FS, now: time.Now, log: discard, queues: map[string]topicQueues{}}
	v := &View{s: s}
	var err error
	if v.Unclean, err = vfs.Exists(s.fs, s.path("abort")); err != nil {
		return nil, err
	}
	if v.TablesErr = s.loadTables(); v.TablesErr != nil {
		s.batchCQ.Store(&map[string]bool{})
		s.deleted.m.Store(&map[string]int64{})
	}
	if err := s.checkpoint.load(s.fs, s.path("checkpoint")); errors.Is(err, errCheckpoint) {
		v.CheckpointErr = err
	} else if err != nil {
		return nil, err
	}
	s.clog, err = commitlog.Open(commitlog.Config{Dir: s.path("commitlog"), SegmentBytes: cfg.SegmentBytes}, commitlog.Deps{FS: s.fs, Now: s.now})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Close closes the files.
func (v *View) Close() error {
	var err error
	if v.s.layout != nil {
		err = v.s.layout.Close()
	}
	return errors.Join(err, v.s.clog.Close(), v.s.checkpoint.close())
}

// Queues gives all queues, in whatever layout they are; one that is damaged
// with an error. Call it once.
func (v *View) Queues(each func(topic string, id int32, q *queuelog.Queue, err error) error) error {
	found, err := v.s.foundLayout()
	if err != nil {
		return err
	}
	v.s.openLayout(found, !v.Unclean)
	v.States, err = v.s.layout.Load(each)
	return err
}

// CommitLog is the log, before its recovery: nothing can be appended.
func (v *View) CommitLog() *commitlog.Log { return v.s.clog }

// Queued tells whether the record at a commit log offset belongs to a queue.
func (v *View) Queued(off int64, f *message.Fields) bool { return v.s.queued(off, f) }

// Batched tells whether the record at a commit log offset belongs to a batch
// consume queue.
func (v *View) Batched(off int64, f *message.Fields) bool { return v.s.batched(off, f) }

// Deleted tells whether the record at a commit log offset is one of a topic that
// was deleted.
func (v *View) Deleted(off int64, f *message.Fields) bool { return v.s.deleted.has(f.Topic, off) }

// Topics are those of the table, none when it could not be read.
func (v *View) Topics() map[string]TopicConfig {
	if v.TablesErr != nil {
		return nil
	}
	return v.s.Topics()
}

// Unit is the queue entry that the record at a commit log offset should have.
func (v *View) Unit(off int64, f *message.Fields) queuelog.Unit { return v.s.unit(off, f) }

// Checkpoint is what the checkpoint file says: store times in ms up to which
// commit log, queues and key index were synced, and the commit log offset of a
// record that is synced with all in front of it and the end of what was synced, 0
// where that is not known.
type Checkpoint struct {
	CommitLog int64 `json:"commit_log"`
	Queues    int64 `json:"queues"`
	Index     int64 `json:"index"`
	Reached   int64 `json:"reached"`
	Synced    int64 `json:"synced"`
}

// Checkpoint returns the checkpoint; zeros when there is none.
func (v *View) Checkpoint() Checkpoint {
	c := v.s.checkpoint.get()
	return Checkpoint{c.physic, c.logics, c.index, c.reached, c.synced}
}

// QueueStates reports whether the file of queue states can be read.
func (v *View) QueueStates() error {
	return queuelog.CheckDirectory(v.s.fs, v.s.path(directoryFile), v.s.checkpoint.get().logics)
}

// IndexDir is the folder of the key index, with RocketMQ's hash or with ours.
func (v *View) IndexDir(compatible bool) string {
	if compatible {
		return v.s.path("index")
	}
	return v.s.path("sluice.index")
}

// IndexView is a key index as it lies there, and the keys that it should have.
type IndexView struct {
	*keyindex.Index
	keys index
}

// OpenIndex opens a key index without repairing it. The error is
// fs.ErrNotExist when the secret of its hashes is missing.
func (v *View) OpenIndex(compatible bool) (*IndexView, error) {
	x := &IndexView{}
	if !compatible {
		secret, err := v.s.loadIndexSecret()
		if err != nil {
			return nil, fmt.Errorf("secret of the key index: %w", err)
		}
		x.keys.secret = secret
	}
	x.keys.hasher = x.keys.newHasher()
	var err error
	x.Index, err = keyindex.Open(keyindex.Config{
		Dir: v.IndexDir(compatible), Slots: v.s.cfg.IndexSlots, Entries: v.s.cfg.IndexEntries, FS: v.s.fs, Now: v.s.now, Logger: v.s.log,
	})
	return x, err
}

// Hashes returns those of the keys of one record, in the order of the index;
// valid until the next call.
func (x *IndexView) Hashes(f *message.Fields) []int32 {
	if f.SysFlag&message.SysFlagTransaction == message.SysFlagRollback {
		return nil
	}
	x.keys.keyHashes(f)
	return x.keys.hashes
}
