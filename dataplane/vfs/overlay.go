package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// pageBytes is the unit in which an Overlay keeps what was written.
const pageBytes = 4096

// Overlay is a file system on top of another one that is only read: all
// changes stay in memory. It shows what a program would do to a folder.
type Overlay struct {
	base FS

	mu     sync.Mutex
	files  map[string]*overlayFile // opened or made
	made   map[string]bool         // folders
	hidden map[string]bool         // names of the base that are gone, with all below them
}

// overlayFile is the content of a file: pages that were written, above the
// first keep bytes of the base, above zeros.
type overlayFile struct {
	o     *Overlay
	base  File // nil for none
	name  string
	keep  int64
	size  int64
	was   int64 // size of the base
	from  int64 // first byte of the base that was touched; was for none
	pages map[int64]*[pageBytes]byte
	mtime time.Time
}

// NewOverlay returns an overlay without changes.
func NewOverlay(base FS) *Overlay {
	return &Overlay{base: base, files: map[string]*overlayFile{}, made: map[string]bool{}, hidden: map[string]bool{}}
}

// Change is what an Overlay would do to one file of its base.
type Change struct {
	Name     string
	Was, Now int64 // sizes; -1 where there is no file
	From     int64 // what is in front of it has not changed
}

// Changes lists the files that differ from those of the base, sorted by name.
func (o *Overlay) Changes() ([]Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []Change
	for name := range o.hidden {
		removed, err := o.removedLocked(name)
		if err != nil {
			return nil, err
		}
		out = append(out, removed...)
	}
	for name, f := range o.files {
		switch {
		case f.base == nil || o.hiddenLocked(name):
			out = slices.DeleteFunc(out, func(c Change) bool { return c.Name == name })
			out = append(out, Change{Name: name, Was: -1, Now: f.size})
			if info, err := o.base.Stat(name); err == nil {
				out[len(out)-1].Was = info.Size
			}
		case f.from < f.was || f.size != f.was:
			out = append(out, Change{Name: name, Was: f.was, Now: f.size, From: min(f.from, f.size)})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// removedLocked lists the files of the base at and below a hidden name.
func (o *Overlay) removedLocked(name string) ([]Change, error) {
	info, err := o.base.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Dir {
		return []Change{{Name: name, Was: info.Size, Now: -1}}, nil
	}
	infos, err := o.base.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var out []Change
	for _, info := range infos {
		below, err := o.removedLocked(filepath.Join(name, info.Name))
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

// Close closes the files of the base.
func (o *Overlay) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, f := range o.files {
		if f.base != nil {
			errs = append(errs, f.base.Close())
			f.base = nil
		}
	}
	return errors.Join(errs...)
}

// hiddenLocked tells whether the base's file of that name is gone.
func (o *Overlay) hiddenLocked(name string) bool {
	for p := name; ; p = filepath.Dir(p) {
		if o.hidden[p] {
			return true
		}
		if p == filepath.Dir(p) {
			return false
		}
	}
}

func (o *Overlay) baseStatLocked(name string) (Info, error) {
	if o.hiddenLocked(name) {
		return Info{}, notExist("stat", name)
	}
	return o.base.Stat(name)
}

// Stat implements FS.
func (o *Overlay) Stat(name string) (Info, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.statLocked(filepath.Clean(name))
}

func (o *Overlay) statLocked(name string) (Info, error) {
	if f := o.files[name]; f != nil {
		return Info{Name: filepath.Base(name), Size: f.size, ModTime: f.mtime}, nil
	}
	if o.made[name] {
		return Info{Name: filepath.Base(name), Dir: true}, nil
	}
	return o.baseStatLocked(name)
}

// Open implements FS.
func (o *Overlay) Open(name string) (File, error) {
	name = filepath.Clean(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.files[name]; f != nil {
		return &overlayHandle{f: f}, nil
	}
	info, err := o.baseStatLocked(name)
	if err != nil {
		return nil, err
	}
	base, err := o.base.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := base.Size()
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	f := &overlayFile{o: o, base: base, name: name, keep: size, size: size, was: size, from: size, pages: map[int64]*[pageBytes]byte{}, mtime: info.ModTime}
	o.files[name] = f
	return &overlayHandle{f: f}, nil
}

// Create implements FS.
func (o *Overlay) Create(name string) (File, error) {
	name = filepath.Clean(name)
	if ok, err := Exists(o, name); err != nil {
		return nil, err
	} else if ok {
		f, err := o.Open(name)
		if err == nil {
			err = f.Truncate(0)
		}
		return f, err
	}
	if _, err := o.Stat(filepath.Dir(name)); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &overlayFile{o: o, name: name, pages: map[int64]*[pageBytes]byte{}}
	o.files[name] = f
	return &overlayHandle{f: f}, nil
}

// MkdirAll implements FS.
func (o *Overlay) MkdirAll(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for p := filepath.Clean(name); ; p = filepath.Dir(p) {
		info, err := o.statLocked(p)
		switch {
		case err == nil && !info.Dir:
			return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
		case err == nil || p == filepath.Dir(p):
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		o.made[p] = true
	}
}

// ReadDir implements FS.
func (o *Overlay) ReadDir(name string) ([]Info, error) {
	name = filepath.Clean(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[string]Info{}
	if !o.hiddenLocked(name) {
		infos, err := o.base.ReadDir(name)
		if err != nil && !(o.made[name] && errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		for _, info := range infos {
			if !o.hidden[filepath.Join(name, info.Name)] {
				all[info.Name] = info
			}
		}
	} else if !o.made[name] {
		return nil, notExist("readdir", name)
	}
	for path, f := range o.files {
		if filepath.Dir(path) == name {
			n := filepath.Base(path)
			all[n] = Info{Name: n, Size: f.size, ModTime: f.mtime}
		}
	}
	for path := range o.made {
		if filepath.Dir(path) == name && path != name {
			n := filepath.Base(path)
			all[n] = Info{Name: n, Dir: true}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Info) int { return strings.Compare(a.Name, b.Name) }), nil
}

// Rename implements FS for files.
func (o *Overlay) Rename(oldName, newName string) error {
	f, err := o.Open(oldName)
	if err != nil {
		return err
	}
	in := f.(*overlayHandle).f
	from, to := filepath.Clean(oldName), filepath.Clean(newName)
	if _, err := o.Stat(filepath.Dir(to)); err != nil {
		return err
	}
	// Another name has no base: all of the file is new there.
	moved := &overlayFile{o: o, name: to, mtime: in.mtime, pages: map[int64]*[pageBytes]byte{}}
	b := make([]byte, pageBytes)
	for off := int64(0); off < in.size; off += pageBytes {
		n, err := f.ReadAt(b, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := (&overlayHandle{f: moved}).WriteAt(b[:n], off); err != nil {
			return err
		}
	}
	if err := o.Remove(from); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.baseStatLocked(to); err == nil {
		o.hidden[to] = true
	}
	o.files[to] = moved
	return nil
}

// Remove implements FS.
func (o *Overlay) Remove(name string) error {
	name = filepath.Clean(name)
	info, err := o.Stat(name)
	if err != nil {
		return err
	}
	if info.Dir {
		below, err := o.ReadDir(name)
		if err != nil {
			return err
		}
		if len(below) > 0 {
			return &fs.PathError{Op: "remove", Path: name, Err: fmt.Errorf("folder not empty")}
		}
	}
	return o.RemoveAll(name)
}

// RemoveAll implements FS.
func (o *Overlay) RemoveAll(name string) error {
	name = filepath.Clean(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	below := func(path string) bool {
		return path == name || strings.HasPrefix(path, name+string(filepath.Separator))
	}
	maps.DeleteFunc(o.files, func(path string, _ *overlayFile) bool { return below(path) })
	maps.DeleteFunc(o.made, func(path string, _ bool) bool { return below(path) })
	if _, err := o.baseStatLocked(name); err == nil {
		maps.DeleteFunc(o.hidden, func(path string, _ bool) bool { return below(path) })
		o.hidden[name] = true
	}
	return nil
}

// SyncDir implements FS.
func (o *Overlay) SyncDir(string) error { return nil }

// Lock implements FS: it locks the base.
func (o *Overlay) Lock(name string, content []byte) (io.Closer, error) {
	return o.base.Lock(name, content)
}

// Space implements FS.
func (o *Overlay) Space(name string) (Space, error) { return o.base.Space(name) }

// overlayHandle is an open file of an Overlay; closing it closes nothing.
type overlayHandle struct{ f *overlayFile }

func (h *overlayHandle) ReadAt(b []byte, off int64) (int, error) {
	f := h.f
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	if off >= f.size {
		return 0, io.EOF
	}
	want := len(b)
	b = b[:min(int64(want), f.size-off)]
	for n := 0; n < len(b); {
		at := off + int64(n)
		part := b[n:min(len(b), n+int(pageBytes-at%pageBytes))]
		if p := f.pages[at/pageBytes]; p != nil {
			copy(part, p[at%pageBytes:])
		} else if len(f.pages) == 0 {
			part = b[n:] // nothing above the base: at once
			if err := f.readBase(part, at); err != nil {
				return n, err
			}
		} else if err := f.readBase(part, at); err != nil {
			return n, err
		}
		n += len(part)
	}
	if len(b) < want {
		return len(b), io.EOF
	}
	return len(b), nil
}

// readBase fills b from the base, and with zeros behind what is kept of it.
func (f *overlayFile) readBase(b []byte, off int64) error {
	n := int(max(0, min(int64(len(b)), f.keep-off)))
	clear(b[n:])
	if n == 0 {
		return nil
	}
	if f.base == nil {
		return fs.ErrClosed
	}
	_, err := f.base.ReadAt(b[:n], off)
	return err
}

func (h *overlayHandle) WriteAt(b []byte, off int64) (int, error) {
	f := h.f
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	for n := 0; n < len(b); {
		at := off + int64(n)
		p := f.pages[at/pageBytes]
		if p == nil {
			p = new([pageBytes]byte)
			if err := f.readBase(p[:], at-at%pageBytes); err != nil {
				return n, err
			}
			f.pages[at/pageBytes] = p
		}
		n += copy(p[at%pageBytes:], b[n:])
	}
	f.size = max(f.size, off+int64(len(b)))
	f.from = min(f.from, off)
	return len(b), nil
}

func (h *overlayHandle) Truncate(size int64) error {
	f := h.f
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	if size < f.size {
		f.keep, f.from = min(f.keep, size), min(f.from, size)
		for n, p := range f.pages {
			if n*pageBytes >= size {
				delete(f.pages, n)
			} else if (n+1)*pageBytes > size {
				clear(p[size-n*pageBytes:])
			}
		}
	}
	f.size = size
	return nil
}

func (h *overlayHandle) Sync() error { return nil }

// SyncData implements File.
func (h *overlayHandle) SyncData() error { return nil }

// Forget implements File.
func (h *overlayHandle) Forget(int64, int64) {}

func (h *overlayHandle) Size() (int64, error) {
	h.f.o.mu.Lock()
	defer h.f.o.mu.Unlock()
	return h.f.size, nil
}

func (h *overlayHandle) Close() error { return nil }
