package queuelog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Config shapes the queues of a store; FileBytes is part of the data.
type Config struct {
	FS        vfs.FS
	FileBytes int64 // of a queue's file, rounded up to whole units
	Sized     bool  // FileBytes is known to be right: a file of another size is damaged
	OpenFiles int   // how many queue files are open at once; 0: 4096
	// Clean says that the last stop was clean: files are units up to the first
	// unused one and zero behind it. Otherwise the newest files are checked.
	Clean bool
	// NotBefore is the store time up to which the last Sync is known to have
	// come; a directory that is older is damaged.
	NotBefore int64
}

func (c *Config) unitsPerFile() int64 { return (c.FileBytes + UnitBytes - 1) / UnitBytes }

// State is what a directory says about a queue.
type State struct {
	Topic          string
	ID             int32
	Low, Next      int64 // first offset and the one behind the last on the disk
	LowOffset, End int64 // commit log offset of the unit at Low, -1 when not known, and behind the last
}

// Files is the layout of RocketMQ: a folder <root>/<topic>/<queue id> of each
// queue with files of its own, and beside it, of our own, a directory that
// tells what is missing when files are gone. All methods may be called by many
// goroutines, but Load comes first.
type Files struct {
	cfg     Config
	root    string
	handles handles

	mu  sync.Mutex // guards the directory and the order of its records
	dir *directory
}

// NewFiles returns the layout of the folder root; the directory is the file
// with the given path.
func NewFiles(cfg Config, root, directory string) *Files {
	if cfg.OpenFiles <= 0 {
		cfg.OpenFiles = 4096
	}
	return &Files{cfg: cfg, root: root, handles: handles{fs: cfg.FS, limit: cfg.OpenFiles}, dir: newDirectory(cfg.FS, directory, 0, 0)}
}

// Load finds the queues that are there, and gives what the directory says
// about them. A queue whose files do not fit together comes empty with
// ErrDamaged. With ErrDirectory everything was loaded, but nothing can be
// missed.
func (l *Files) Load(each func(topic string, id int32, q *Queue, err error) error) ([]State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, derr := l.dir.load(l.cfg.NotBefore)
	if errors.Is(derr, fs.ErrNotExist) {
		derr = nil
	} else if derr != nil && !errors.Is(derr, ErrDirectory) {
		return nil, derr
	}
	if l.dir.f == nil {
		l.dir.time = 0
		if err := l.dir.create(nil); err != nil {
			return nil, err
		}
	}
	known := map[string]map[int32]*entry{}
	var states []State
	for _, e := range all {
		if e == nil {
			continue
		}
		states = append(states, State{e.topic, e.id, e.low, e.next, e.lowOffset, e.end})
		if known[e.topic] == nil {
			known[e.topic] = map[int32]*entry{}
		}
		known[e.topic][e.id] = e
	}
	topics, err := l.cfg.FS.ReadDir(l.root)
	if err != nil {
		return nil, err
	}
	for _, topic := range topics {
		if !topic.Dir {
			continue
		}
		ids, err := l.cfg.FS.ReadDir(filepath.Join(l.root, topic.Name))
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			n, err := strconv.ParseInt(id.Name, 10, 32)
			if !id.Dir || err != nil || n < 0 {
				continue
			}
			q, err := l.load(topic.Name, int32(n), known[topic.Name][int32(n)], l.cfg.Clean)
			if err != nil && !errors.Is(err, ErrDamaged) {
				return nil, err
			}
			if err := each(topic.Name, int32(n), q, err); err != nil {
				return nil, err
			}
		}
	}
	return states, derr
}

// load opens a queue. With ErrDamaged its files are gone.
func (l *Files) load(topic string, id int32, e *entry, clean bool) (*Queue, error) {
	x := &fileList{l: l, dir: filepath.Join(l.root, topic, strconv.Itoa(int(id))), named: true}
	q := &Queue{topic: topic, id: id, on: x, reach: l.cfg.unitsPerFile(), minOffset: -1}
	if e != nil {
		q.number, q.known = e.number, true
	} else {
		q.number = l.dir.numbers.Add(1) - 1
	}
	err := x.load()
	if err == nil && x.first() >= 0 {
		var end int64
		if end, err = x.end(clean); err == nil {
			q.min, q.max, q.written, q.synced, q.tailBase = x.first(), end, end, end, end
			if clean && end > x.all()[len(x.all())-1].first {
				err = q.findEndLocked()
			} else {
				err = q.truncateLocked(end)
			}
		}
		if e != nil && e.low >= q.min && e.low <= q.max {
			q.min, q.minOffset = e.low, e.lowOffset
		}
	}
	if err == nil {
		return q, nil
	}
	err = fmt.Errorf("open %s: %w", q, err)
	if l.cfg.Sized && errors.Is(err, ErrSize) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if errors.Is(err, ErrDamaged) {
		err = errors.Join(err, q.Reset())
	}
	return q, err
}

// Open returns a queue that Load has not given: it is empty.
func (l *Files) Open(topic string, id int32) (*Queue, error) {
	return l.load(topic, id, nil, false)
}

// Flush writes the queues to their files.
func (l *Files) Flush(queues []*Queue) error {
	var errs Errors
	for _, q := range queues {
		errs.Add(q.Flush())
	}
	return errs.Join()
}

// Sync makes the queues durable with all that was appended until the call, and
// notes that nothing up to storeTime is missing in any queue. Everything that
// has changed since the last Sync must be in the list.
func (l *Files) Sync(queues []*Queue, storeTime int64) error {
	for _, q := range queues {
		if err := q.Sync(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range queues {
		q.note(l.dir)
		if err := l.dir.writeFull(); err != nil {
			return err
		}
	}
	return l.commit(queues, storeTime)
}

func (l *Files) commit(queues []*Queue, storeTime int64) error {
	if l.dir.unchanged(storeTime) {
		return nil
	}
	if err := l.dir.commit(max(storeTime, l.dir.time, l.cfg.NotBefore)); err != nil {
		return err
	}
	for _, q := range queues {
		q.noted()
	}
	return l.dir.shorten()
}

// Remove deletes queues of one topic for good: appends that are under way are
// ignored, and a topic's folder goes with its last queue.
func (l *Files) Remove(topic string, queues []*Queue) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range queues {
		if err := q.Remove(); err != nil {
			return err
		}
		if q.known {
			l.dir.forget(q.number)
		}
	}
	if err := l.removeFolder(filepath.Join(l.root, topic)); err != nil {
		return err
	}
	return l.commit(nil, l.dir.time)
}

// removeFolder removes a topic's folder unless it has queues.
func (l *Files) removeFolder(dir string) error {
	infos, err := l.cfg.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(infos, func(i vfs.Info) bool { return i.Dir }) {
		return l.cfg.FS.SyncDir(dir)
	}
	return errors.Join(l.cfg.FS.RemoveAll(dir), l.cfg.FS.SyncDir(l.root))
}

// Close closes the directory; the queues have to be closed each.
func (l *Files) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dir.close()
}
