// Package keyindex finds messages by key: for every key of every message an
// entry with the hash of topic and key, and the place of the record in the
// commit log.
//
// It owns the files of an index folder, whose layout is RocketMQ's (FORMAT.md).
// An entry is a hint: hashes collide and records expire, so whoever asks reads
// the record and compares. Everything in the files can be made again from the
// commit log: nothing is synced before a file is full, and after an unclean
// stop Repair keeps what is certain and says where to go on.
//
// One goroutine writes (Repair, Put, Flush, Sync, Expire); any may Find.
package keyindex

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// ErrDamaged means that the folder holds something else than an index of the
// configured sizes: remove it and build it again.
var ErrDamaged = errors.New("key index damaged")

// Config shapes the files; Slots and Entries are part of the data.
type Config struct {
	Dir     string
	Slots   int32 // of the hash table of a file
	Entries int32 // room of a file; entry 0 is never used
	FS      vfs.FS
	Now     func() time.Time // names new files, in its zone
	Logger  *slog.Logger
}

// Index is an open index folder.
type Index struct {
	cfg Config

	life sync.RWMutex // held for reading while files are read, for writing while some are closed

	mu     sync.RWMutex // the writer changes what follows under it
	files  []*file      // oldest first; entries go into the last one
	done   int64        // the newest record all of whose keys are here, -1 for none
	synced int64        // store time of the newest entry that is on the disk for certain
}

// Open loads the folder; a missing one is empty. Repair comes next. Errors:
// ErrDamaged, or of the file system.
func Open(cfg Config) (*Index, error) {
	x := &Index{cfg: cfg, done: -1}
	if err := x.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open key index %s: %w", cfg.Dir, err), x.Close())
	}
	return x, nil
}

func (x *Index) load() error {
	info, err := x.cfg.FS.Stat(x.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Dir {
		err = fmt.Errorf("it is no folder: %w", ErrDamaged)
	}
	if err != nil {
		return err
	}
	infos, err := x.cfg.FS.ReadDir(x.cfg.Dir)
	if err != nil {
		return err
	}
	for _, info := range infos {
		if _, err := strconv.ParseInt(info.Name, 10, 64); info.Dir || err != nil {
			x.cfg.Logger.Warn("file in the index folder is left alone", "name", info.Name)
			continue
		}
		f, err := openFile(x.cfg, info.Name)
		if err != nil {
			return err
		}
		x.files = append(x.files, f)
	}
	if n := len(x.files); n > 0 {
		x.done = x.files[n-1].head.endOffset
	}
	return nil
}

// current is the file that takes entries, nil for none.
func (x *Index) current() *file {
	if len(x.files) == 0 {
		return nil
	}
	return x.files[len(x.files)-1]
}

// Resume is the commit log offset where the records begin that Put wants, or
// the one of the record in front of them: Put ignores what it has.
func (x *Index) Resume() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if c := x.current(); c != nil {
		return max(0, c.head.endOffset)
	}
	return 0
}

// Span is the part of the commit log whose keys are in one file.
type Span struct{ First, Last int64 } // records

// Spans returns those of all files, oldest first; for whoever writes.
func (x *Index) Spans() []Span {
	var spans []Span
	for _, f := range x.files {
		if f.head.count > 1 {
			spans = append(spans, Span{f.head.beginOffset, f.head.endOffset})
		}
	}
	return spans
}

// SyncedTime is the store time in ms up to which entries survive a power cut.
func (x *Index) SyncedTime() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.synced
}

// Put adds the keys of the record at a commit log offset, given by the hashes
// of message.KeyHash. Offsets grow; a record that is here already is ignored.
// After an error the same call may be made again.
func (x *Index) Put(offset, storeTime int64, hashes []int32) error {
	if offset <= x.done || len(hashes) == 0 {
		return nil
	}
	for _, h := range hashes {
		c := x.current()
		// An entry in front of its file's time has none: the clock was set back.
		if c == nil || c.head.count >= x.cfg.Entries || c.head.count > 1 && storeTime < c.head.begin {
			var err error
			if c, err = x.roll(); err != nil {
				return fmt.Errorf("new key index file: %w", err)
			}
		}
		page, err := c.slotPage(&x.mu, h%x.cfg.Slots)
		if err != nil {
			return fmt.Errorf("key index %s: %w", c.name, err)
		}
		x.mu.Lock()
		c.put(page, h, offset, storeTime)
		x.mu.Unlock()
	}
	x.mu.Lock()
	x.done = offset
	x.mu.Unlock()
	return nil
}

// roll makes a new file behind the present one, which is then on the disk.
func (x *Index) roll() (*file, error) {
	if err := x.cfg.FS.MkdirAll(x.cfg.Dir); err != nil {
		return nil, err
	}
	var head header
	head.count = 1
	if c := x.current(); c != nil {
		if err := x.Sync(); err != nil {
			return nil, err
		}
		head.begin, head.end, head.beginOffset, head.endOffset = c.head.end, c.head.end, c.head.endOffset, c.head.endOffset
	}
	f, err := createFile(x.cfg, x.newName(), head)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.current(); c != nil {
		c.slots = nil // 4 bytes a slot
	}
	x.files = append(x.files, f)
	return f, nil
}

// newName is the time of now, behind the name of the last file.
func (x *Index) newName() string {
	t := x.cfg.Now()
	var last string
	if c := x.current(); c != nil {
		last = c.name
	}
	for {
		name := t.Format("20060102150405") + fmt.Sprintf("%03d", t.Nanosecond()/int(time.Millisecond))
		if name > last {
			return name
		}
		// The clock was set back, or two files in one ms.
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n == math.MaxInt64 {
			t = t.Add(time.Millisecond)
			continue
		}
		return fmt.Sprintf("%017d", n+1)
	}
}

// Flush writes the entries to the files. The hash table stays in memory until
// Sync: nearly all of it changes between two calls, and who finds the files
// without it makes it again from the entries.
func (x *Index) Flush() error { return x.flush(false) }

func (x *Index) flush(slots bool) error {
	c := x.current()
	if c == nil {
		return nil
	}
	if err := c.flush(&x.mu, slots); err != nil {
		return fmt.Errorf("write key index %s: %w", c.name, err)
	}
	return nil
}

// Sync writes everything and makes it durable.
func (x *Index) Sync() error {
	c := x.current()
	if c == nil {
		return nil
	}
	err := x.flush(true)
	if err == nil {
		err = c.f.Sync()
	}
	if err == nil {
		err = x.cfg.FS.SyncDir(x.cfg.Dir)
	}
	if err != nil {
		return fmt.Errorf("sync key index: %w", err)
	}
	x.mu.Lock()
	x.synced = c.head.end
	x.mu.Unlock()
	return nil
}

// Pending is how many entries wait for a Flush.
func (x *Index) Pending() int {
	if c := x.current(); c != nil {
		return len(c.tail) / entryBytes
	}
	return 0
}

// Expire deletes the files all of whose records are in front of a commit log
// offset; the last file stays.
func (x *Index) Expire(logMin int64) error {
	n := 0
	for n < len(x.files)-1 && x.files[n].head.endOffset < logMin {
		n++
	}
	if n == 0 {
		return nil
	}
	return x.drop(x.files[:n], x.files[n:])
}

// Clear deletes all files: the index begins anew.
func (x *Index) Clear() error {
	err := x.drop(x.files, nil)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done = -1
	return err
}

// drop removes files and keeps others.
func (x *Index) drop(gone, rest []*file) error {
	x.life.Lock()
	defer x.life.Unlock()
	x.mu.Lock()
	x.files = append([]*file(nil), rest...)
	x.mu.Unlock()
	for _, f := range gone {
		if err := errors.Join(f.f.Close(), x.cfg.FS.Remove(f.path)); err != nil {
			return fmt.Errorf("delete key index %s: %w", f.name, err)
		}
	}
	return x.cfg.FS.SyncDir(x.cfg.Dir)
}

// Close closes the files; what was not flushed is lost.
func (x *Index) Close() error {
	x.life.Lock()
	defer x.life.Unlock()
	x.mu.Lock()
	files := x.files
	x.files = nil
	x.mu.Unlock()
	var errs []error
	for _, f := range files {
		errs = append(errs, f.f.Close())
	}
	return errors.Join(errs...)
}

// Find calls visit with the commit log offsets of records that may have the
// key, newest first, until it returns false or an error. Only records stored
// from from to to (ms, both included) are worth a look; the store time of an
// entry is known to the second, so some others come too. Several keys of one
// record with the same hash give it once.
func (x *Index) Find(ctx context.Context, hash int32, from, to int64, visit func(offset int64) (bool, error)) error {
	x.life.RLock()
	defer x.life.RUnlock()
	x.mu.RLock()
	files := x.files
	x.mu.RUnlock()
	last := int64(-1)
	for i := len(files) - 1; i >= 0; i-- {
		f := files[i]
		view, err := f.look(&x.mu, hash%x.cfg.Slots)
		if err != nil {
			return fmt.Errorf("key index %s: %w", f.name, err)
		}
		if view.head.begin > to || view.head.end < from {
			continue
		}
		for steps, n := 0, view.first; n > 0 && n < view.head.count; steps++ {
			if steps%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			e, err := view.entry(n)
			if err != nil {
				return fmt.Errorf("key index %s: %w", f.name, err)
			}
			if e.hash == hash && e.offset != last && view.within(n, e, from, to) {
				last = e.offset
				if more, err := visit(e.offset); !more || err != nil {
					return err
				}
			}
			if e.previous >= n {
				break // damaged: chains lead back
			}
			n = e.previous
		}
	}
	return nil
}
