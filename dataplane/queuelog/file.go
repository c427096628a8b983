package queuelog

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"sync"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// file is one file of a queue. It is opened when it is used and closed by
// idle, so that a store with many queues does not hold them all open.
type file struct {
	first int64 // number of its first unit
	units int64
	name  string

	mu    sync.Mutex
	f     vfs.File
	users int
	unuse bool // close when the last user is done
}

// use opens the file if needed; pair it with done.
func (x *file) use(fsys vfs.FS) (vfs.File, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.f == nil {
		f, err := fsys.Open(x.name)
		if err != nil {
			return nil, err
		}
		x.f = f
	}
	x.users++
	x.unuse = false
	return x.f, nil
}

func (x *file) done() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.users--
	if x.users == 0 && x.unuse {
		x.f.Close()
		x.f = nil
	}
}

// idle closes the file as soon as nobody uses it.
func (x *file) idle() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users > 0 {
		x.unuse = true
	} else if x.f != nil {
		x.f.Close()
		x.f = nil
	}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 800*UnitBytes); return &b }}

// read appends up to n units of this file to dst.
func (x *file) read(fsys vfs.FS, dst []Unit, from int64, n int) ([]Unit, error) {
	f, err := x.use(fsys)
	if err != nil {
		return dst, err
	}
	defer x.done()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b := (*buf)[:min(int64(len(*buf)), int64(n)*UnitBytes, (x.first+x.units-from)*UnitBytes)]
	if _, err := f.ReadAt(b, (from-x.first)*UnitBytes); err != nil {
		return dst, fmt.Errorf("read units at %d of %s: %w", from, x.name, err)
	}
	for ; len(b) > 0; b = b[UnitBytes:] {
		dst = append(dst, decode(b))
	}
	return dst, nil
}

func (x *file) write(fsys vfs.FS, from int64, b []byte) error {
	f, err := x.use(fsys)
	if err != nil {
		return err
	}
	defer x.done()
	_, err = f.WriteAt(b, (from-x.first)*UnitBytes)
	return err
}

func (x *file) sync(fsys vfs.FS) error {
	f, err := x.use(fsys)
	if err != nil {
		return err
	}
	defer x.done()
	return f.Sync()
}

// clear makes everything from unit from on zero and the size right.
func (x *file) clear(fsys vfs.FS, from int64) error {
	f, err := x.use(fsys)
	if err != nil {
		return err
	}
	defer x.done()
	if from < x.first+x.units {
		if err := f.Truncate((from - x.first) * UnitBytes); err != nil {
			return err
		}
	}
	return f.Truncate(x.units * UnitBytes)
}

func (x *file) remove(fsys vfs.FS) error {
	x.idle()
	return fsys.Remove(x.name)
}

// fileOf returns the file that has the unit, or nil; it needs mu.
func (q *Queue) fileOf(index int64) *file {
	if len(q.files) == 0 || index < q.files[0].first {
		return nil
	}
	if i := (index - q.files[0].first) / q.cfg.unitsPerFile(); i < int64(len(q.files)) {
		return q.files[i]
	}
	return nil
}

func (q *Queue) fileName(first int64) string {
	return filepath.Join(q.dir, fmt.Sprintf("%020d", first*UnitBytes))
}

// fileFor returns the file to write the unit to, creating it if needed; it
// needs writer.
func (q *Queue) fileFor(index int64) (*file, error) {
	if f := q.fileOf(index); f != nil {
		return f, nil
	}
	per := q.cfg.unitsPerFile()
	if len(q.files) == 0 {
		if err := q.cfg.FS.MkdirAll(q.dir); err != nil {
			return nil, err
		}
	} else if err := q.syncNames(); err != nil {
		// A file must not survive a crash without those in front of it.
		return nil, err
	}
	x := &file{first: index - index%per, units: per}
	x.name = q.fileName(x.first)
	f, err := q.cfg.FS.Create(x.name)
	if err != nil {
		return nil, err
	}
	x.f = f
	q.named = false
	if err := f.Truncate(per * UnitBytes); err != nil {
		return nil, errors.Join(err, x.remove(q.cfg.FS))
	}
	if n := len(q.files); n > 0 {
		q.files[n-1].idle()
	}
	q.mu.Lock()
	q.files = append(append([]*file(nil), q.files...), x)
	q.mu.Unlock()
	return x, nil
}

// syncNames makes the names of all files and of the folders
// <root>/<topic>/<queue> durable; it needs writer.
func (q *Queue) syncNames() error {
	if q.named {
		return nil
	}
	topic := filepath.Dir(q.dir)
	for _, dir := range []string{q.dir, topic, filepath.Dir(topic)} {
		if err := q.cfg.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	q.named = true
	return nil
}

func (q *Queue) writeFileLocked(index int64, b []byte) error {
	f := q.fileOf(index)
	if f == nil {
		return fmt.Errorf("unit %d: %w", index, ErrDamaged)
	}
	return f.write(q.cfg.FS, index, b)
}

// load finds the files and the end of the queue.
func (q *Queue) load() error {
	ok, err := vfs.Exists(q.cfg.FS, q.dir)
	if err != nil || !ok {
		return err
	}
	infos, err := q.cfg.FS.ReadDir(q.dir)
	if err != nil {
		return err
	}
	per := q.cfg.unitsPerFile()
	for i, info := range infos {
		pos, err := strconv.ParseInt(info.Name, 10, 64)
		if info.Dir || err != nil || len(info.Name) != 20 {
			continue
		}
		x := &file{first: pos / UnitBytes, units: per, name: filepath.Join(q.dir, info.Name)}
		if info.Size == 0 && i == len(infos)-1 {
			if err := x.remove(q.cfg.FS); err != nil {
				return err
			}
			continue
		}
		if pos%(per*UnitBytes) != 0 || info.Size > per*UnitBytes {
			return fmt.Errorf("file %s of %d bytes does not fit to files of %d bytes", info.Name, info.Size, per*UnitBytes)
		}
		if n := len(q.files); n > 0 && x.first != q.files[n-1].first+per {
			return fmt.Errorf("file %s does not follow: %w", info.Name, ErrDamaged)
		}
		if info.Size < per*UnitBytes {
			// Creation or clearing was interrupted.
			if err := x.clear(q.cfg.FS, x.first+per); err != nil {
				return err
			}
		}
		q.files = append(q.files, x)
	}
	return q.findMax()
}

// findMax looks for the first unused unit in the last three files; what is
// behind it is dropped. Offsets must grow, or the unit was not written whole.
func (q *Queue) findMax() error {
	if len(q.files) == 0 {
		return nil
	}
	last := q.files[len(q.files)-1]
	var end int64
	var err error
	if q.cfg.Clean {
		end, err = last.firstUnused(q.cfg.FS)
	} else {
		end, err = q.scanUnits()
	}
	if err != nil {
		return err
	}
	q.min, q.max, q.written, q.tailBase = q.files[0].first, end, end, end
	if q.cfg.Clean && end > last.first {
		return q.findEndLocked()
	}
	return q.truncateLocked(end)
}

// firstUnused finds the end of a file by halving.
func (x *file) firstUnused(fsys vfs.FS) (int64, error) {
	var failed error
	n := sort.Search(int(x.units), func(i int) bool {
		var buf [1]Unit
		got, err := x.read(fsys, buf[:0], x.first+int64(i), 1)
		if err != nil {
			failed = err
			return true
		}
		return !got[0].valid()
	})
	return x.first + int64(n), failed
}

// scanUnits reads the last three files up to the first unit that is not good.
func (q *Queue) scanUnits() (int64, error) {
	x := max(0, len(q.files)-3)
	end := q.files[x].first
	last := int64(-1)
	units := make([]Unit, 0, 800)
	for ; x < len(q.files); x++ {
		f := q.files[x]
		for end < f.first+f.units {
			var err error
			if units, err = f.read(q.cfg.FS, units[:0], end, cap(units)); err != nil {
				return 0, err
			}
			for _, u := range units {
				if !u.valid() || !u.Blank() && u.Offset <= last {
					return end, nil
				}
				if !u.Blank() {
					last = u.Offset
				}
				end++
			}
		}
	}
	return end, nil
}
