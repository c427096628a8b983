package queuelog

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// fileList keeps the units of a queue in files of its own.
type fileList struct {
	l     *Files
	dir   string
	named bool // the names of all files are on the disk; guarded by Queue.writer
	files atomic.Pointer[[]*file]
}

func (x *fileList) all() []*file {
	if p := x.files.Load(); p != nil {
		return *p
	}
	return nil
}

// set replaces the list; readers of the old one go on.
func (x *fileList) set(files []*file) {
	files = append([]*file(nil), files...)
	x.files.Store(&files)
}

func (x *fileList) grain() int64 { return x.l.cfg.unitsPerFile() }

func (x *fileList) first() int64 {
	if files := x.all(); len(files) > 0 {
		return files[0].first
	}
	return -1
}

// of returns the file that has the unit, or nil.
func (x *fileList) of(index int64) *file {
	files := x.all()
	if len(files) == 0 || index < files[0].first {
		return nil
	}
	if i := (index - files[0].first) / x.grain(); i < int64(len(files)) {
		return files[i]
	}
	return nil
}

func (x *fileList) read(dst []Unit, from int64, n int) ([]Unit, error) {
	f := x.of(from)
	if f == nil {
		return dst, nil
	}
	return f.read(&x.l.handles, dst, from, n)
}

func (x *fileList) write(from int64, b []byte) error {
	for len(b) > 0 {
		f, err := x.make(from)
		if err != nil {
			return err
		}
		n := min(int64(len(b))/UnitBytes, f.first+f.units-from)
		if err := f.write(&x.l.handles, from, b[:n*UnitBytes]); err != nil {
			return err
		}
		b, from = b[n*UnitBytes:], from+n
	}
	return nil
}

// make returns the file to write the unit to, creating it if needed.
func (x *fileList) make(index int64) (*file, error) {
	if f := x.of(index); f != nil {
		return f, nil
	}
	fsys, per, files := x.l.cfg.FS, x.grain(), x.all()
	if len(files) == 0 {
		if err := fsys.MkdirAll(x.dir); err != nil {
			return nil, err
		}
	} else if err := x.syncNames(); err != nil {
		// A file must not survive a crash without those in front of it.
		return nil, err
	}
	y := &file{first: index - index%per, units: per}
	y.name = filepath.Join(x.dir, fmt.Sprintf("%020d", y.first*UnitBytes))
	f, err := fsys.Create(y.name)
	if err != nil {
		return nil, err
	}
	y.f = f
	x.named = false
	if err := f.Truncate(per * UnitBytes); err != nil {
		return nil, errors.Join(err, y.remove(&x.l.handles))
	}
	x.l.handles.opened(y)
	if n := len(files); n > 0 {
		files[n-1].idle()
	}
	x.set(append(files[:len(files):len(files)], y))
	return y, nil
}

// syncNames makes the names of all files and of the folders
// <root>/<topic>/<queue> durable.
func (x *fileList) syncNames() error {
	if x.named {
		return nil
	}
	topic := filepath.Dir(x.dir)
	for _, dir := range []string{x.dir, topic, filepath.Dir(topic)} {
		if err := x.l.cfg.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	x.named = true
	return nil
}

func (x *fileList) sync(from int64) error {
	files := x.all()
	for _, f := range files {
		if f.first+f.units > from {
			if err := f.sync(&x.l.handles); err != nil {
				return err
			}
		}
	}
	if len(files) == 0 {
		return nil
	}
	return x.syncNames()
}

func (x *fileList) rest() {
	for _, f := range x.all() {
		f.idle()
	}
}

// cut leaves no file without a unit in front of max, and zeros behind it.
func (x *fileList) cut(max int64) error {
	files := x.all()
	keep := len(files)
	for keep > 0 && files[keep-1].first >= max {
		keep--
		if err := files[keep].remove(&x.l.handles); err != nil {
			return err
		}
		x.named = false
	}
	x.set(files[:keep])
	if keep > 0 {
		return files[keep-1].clear(&x.l.handles, max)
	}
	return nil
}

// drop keeps the last file, whatever it holds.
func (x *fileList) drop(before int64) error {
	for files := x.all(); len(files) > 1 && files[1].first <= before; files = x.all() {
		x.set(files[1:])
		if err := files[0].remove(&x.l.handles); err != nil {
			return err
		}
		if err := x.l.cfg.FS.SyncDir(x.dir); err != nil {
			return err
		}
	}
	return nil
}

func (x *fileList) clear() error {
	files := x.all()
	x.set(nil)
	x.named = true
	for _, f := range files {
		f.idle()
	}
	return x.l.cfg.FS.RemoveAll(x.dir)
}

func (x *fileList) note() (first int64, list []uint32, from int64) { return 0, nil, 0 }

func (x *fileList) noted() {}

// load finds the files and, behind a clean stop, the end of the last one.
// Otherwise the end has to be looked for with scan.
func (x *fileList) load() error {
	fsys := x.l.cfg.FS
	ok, err := vfs.Exists(fsys, x.dir)
	if err != nil || !ok {
		return err
	}
	infos, err := fsys.ReadDir(x.dir)
	if err != nil {
		return err
	}
	per := x.grain()
	var files []*file
	for i, info := range infos {
		pos, err := strconv.ParseInt(info.Name, 10, 64)
		if info.Dir || err != nil || len(info.Name) != 20 {
			continue
		}
		y := &file{first: pos / UnitBytes, units: per, name: filepath.Join(x.dir, info.Name)}
		if info.Size == 0 && i == len(infos)-1 {
			if err := y.remove(&x.l.handles); err != nil {
				return err
			}
			continue
		}
		if pos%(per*UnitBytes) != 0 || info.Size > per*UnitBytes {
			return fmt.Errorf("file %s of %d bytes does not fit to files of %d bytes: %w", info.Name, info.Size, per*UnitBytes, ErrSize)
		}
		if n := len(files); n > 0 && y.first != files[n-1].first+per {
			return fmt.Errorf("file %s does not follow: %w", info.Name, ErrDamaged)
		}
		if info.Size < per*UnitBytes {
			// Creation or clearing was interrupted.
			if err := y.clear(&x.l.handles, y.first+per); err != nil {
				return err
			}
		}
		files = append(files, y)
	}
	x.set(files)
	return nil
}

// end looks for the first unused unit: in the last file by halving, or with
// scan in the last three files unit by unit. There, offsets must grow, or the
// unit was not written whole.
func (x *fileList) end(clean bool) (int64, error) {
	files := x.all()
	if clean {
		return files[len(files)-1].firstUnused(&x.l.handles)
	}
	at := max(0, len(files)-3)
	end := files[at].first
	last := int64(-1)
	units := make([]Unit, 0, 800)
	for ; at < len(files); at++ {
		f := files[at]
		for end < f.first+f.units {
			var err error
			if units, err = f.read(&x.l.handles, units[:0], end, cap(units)); err != nil {
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
