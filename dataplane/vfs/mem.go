package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// sector is the unit that a power cut keeps or loses.
const sector = 512

// Mem is a file system in memory that knows which bytes and names were synced.
// CrashClone makes the disk that a power cut at this moment could leave.
type Mem struct {
	mu    sync.Mutex
	now   func() time.Time
	root  *memDir // what running programs see
	safe  *memDir // what SyncDir has made durable
	names []nameChange
	locks map[string]bool
	space Space
}

// memDir maps clean absolute paths to files; folders have a nil file.
type memDir struct{ entries map[string]*memFile }

// nameChange is a step on names that is not durable yet. The zero file with
// put set is a folder.
type nameChange struct {
	dir  string // the folder whose SyncDir makes it durable
	drop string // name that vanishes, with all below it
	put  string // name that appears
	file *memFile
}

// memFile is the content of a file: the synced bytes and every later change.
type memFile struct {
	data    []byte
	synced  []byte
	changes []dataChange
	mtime   time.Time
}

// dataChange is a write, or with data == nil a change of the size to off.
type dataChange struct {
	off  int64
	data []byte
}

// NewMem returns an empty file system whose modification times come from now
// (nil for time.Now).
func NewMem(now func() time.Time) *Mem {
	if now == nil {
		now = time.Now
	}
	return &Mem{
		now: now, root: &memDir{map[string]*memFile{}}, safe: &memDir{map[string]*memFile{}},
		locks: map[string]bool{}, space: Space{Total: 1 << 42, Free: 1 << 41},
	}
}

func clean(name string) string { return filepath.Clean("/" + name) }

func notExist(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// CrashClone returns the disk after a power cut now: everything synced, plus
// each later sector, size change and name change with probability keep. It
// takes no locks over. The same seed gives the same disk.
func (m *Mem) CrashClone(keep float64, seed uint64) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	rng := rand.New(rand.NewPCG(seed, 1))
	names := map[string]*memFile{}
	for name, f := range m.safe.entries {
		names[name] = f
	}
	for _, c := range m.names {
		if rng.Float64() < keep {
			c.apply(names)
		}
	}
	// A kept name below a lost folder is lost with it.
	for name := range names {
		for dir := filepath.Dir(name); dir != "/"; dir = filepath.Dir(dir) {
			if _, ok := names[dir]; !ok {
				delete(names, name)
			}
		}
	}
	out := NewMem(m.now)
	out.space = m.space
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted {
		f := names[name]
		if f == nil {
			out.root.entries[name] = nil
		} else {
			data := f.crash(keep, rng)
			out.root.entries[name] = &memFile{data: data, synced: slices.Clone(data), mtime: f.mtime}
		}
		out.safe.entries[name] = out.root.entries[name]
	}
	return out
}

// crash returns the content after a power cut.
func (f *memFile) crash(keep float64, rng *rand.Rand) []byte {
	data := slices.Clone(f.synced)
	for _, c := range f.changes {
		if c.data == nil {
			if rng.Float64() < keep {
				data = resize(data, c.off)
			}
			continue
		}
		for b, off := c.data, c.off; len(b) > 0; {
			n := min(int64(len(b)), sector-off%sector)
			if rng.Float64() < keep {
				if end := off + n; end > int64(len(data)) {
					data = resize(data, end)
				}
				copy(data[off:], b[:n])
			}
			b, off = b[n:], off+n
		}
	}
	return data
}

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

func (c nameChange) apply(names map[string]*memFile) {
	if c.drop != "" {
		for name := range names {
			if name == c.drop || strings.HasPrefix(name, c.drop+"/") {
				delete(names, name)
			}
		}
	}
	if c.put != "" {
		names[c.put] = c.file
	}
}

// change makes a step visible now and durable at the next SyncDir.
func (m *Mem) changeLocked(c nameChange) {
	c.apply(m.root.entries)
	m.names = append(m.names, c)
}

func (m *Mem) fileLocked(op, name string) (*memFile, error) {
	f, ok := m.root.entries[clean(name)]
	if !ok {
		return nil, notExist(op, name)
	}
	if f == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("is a folder")}
	}
	return f, nil
}

func (m *Mem) dirLocked(op, name string) error {
	if name = clean(name); name == "/" {
		return nil
	}
	if f, ok := m.root.entries[name]; !ok || f != nil {
		return notExist(op, name)
	}
	return nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.fileLocked("open", name)
	if err != nil {
		return nil, err
	}
	return &memHandle{m: m, f: f}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := clean(name)
	if err := m.dirLocked("create", filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, ok := m.root.entries[path]
	switch {
	case ok && f == nil:
		return nil, &fs.PathError{Op: "create", Path: name, Err: fmt.Errorf("is a folder")}
	case ok:
		f.truncate(0, m.now())
	default:
		f = &memFile{mtime: m.now()}
		m.changeLocked(nameChange{dir: filepath.Dir(path), put: path, file: f})
	}
	return &memHandle{m: m, f: f}, nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := clean(name)
	var missing []string
	for p := path; p != "/"; p = filepath.Dir(p) {
		f, ok := m.root.entries[p]
		if ok && f != nil {
			return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
		}
		if !ok {
			missing = append(missing, p)
		}
	}
	slices.Reverse(missing)
	for _, p := range missing {
		m.changeLocked(nameChange{dir: filepath.Dir(p), put: p})
	}
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.dirLocked("readdir", name); err != nil {
		return nil, err
	}
	var infos []Info
	dir := clean(name)
	for path, f := range m.root.entries {
		if filepath.Dir(path) == dir {
			infos = append(infos, memInfo(path, f))
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

func memInfo(path string, f *memFile) Info {
	if f == nil {
		return Info{Name: filepath.Base(path), Dir: true}
	}
	return Info{Name: filepath.Base(path), Size: int64(len(f.data)), ModTime: f.mtime}
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := clean(name)
	f, ok := m.root.entries[path]
	if !ok && path != "/" {
		return Info{}, notExist("stat", name)
	}
	return memInfo(path, f), nil
}

// Rename implements FS for files.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.fileLocked("rename", oldName)
	if err != nil {
		return err
	}
	to := clean(newName)
	if err := m.dirLocked("rename", filepath.Dir(to)); err != nil {
		return err
	}
	m.changeLocked(nameChange{dir: filepath.Dir(to), drop: clean(oldName), put: to, file: f})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := clean(name)
	f, ok := m.root.entries[path]
	if !ok {
		return notExist("remove", name)
	}
	if f == nil {
		for p := range m.root.entries {
			if filepath.Dir(p) == path {
				return &fs.PathError{Op: "remove", Path: name, Err: fmt.Errorf("folder not empty")}
			}
		}
	}
	m.changeLocked(nameChange{dir: filepath.Dir(path), drop: path})
	return nil
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := clean(name)
	if _, ok := m.root.entries[path]; ok {
		m.changeLocked(nameChange{dir: filepath.Dir(path), drop: path})
	}
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.dirLocked("syncdir", name); err != nil {
		return err
	}
	dir := clean(name)
	m.names = slices.DeleteFunc(m.names, func(c nameChange) bool {
		if c.dir == dir {
			c.apply(m.safe.entries)
		}
		return c.dir == dir
	})
	return nil
}

// Lock implements FS.
func (m *Mem) Lock(name string, content []byte) (io.Closer, error) {
	f, err := m.Create(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	path := clean(name)
	if m.locks[path] {
		return nil, ErrLocked
	}
	m.locks[path] = true
	f.(*memHandle).f.write(content, 0, m.now())
	return &memLock{m: m, path: path}, nil
}

type memLock struct {
	m    *Mem
	path string
}

// Close releases the lock.
func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locks, l.path)
	return nil
}

// Space implements FS.
func (m *Mem) Space(string) (Space, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.space, nil
}

// SetSpace sets what Space answers.
func (m *Mem) SetSpace(s Space) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.space = s
}

// Chtime sets the modification time of a file.
func (m *Mem) Chtime(name string, t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.fileLocked("chtime", name)
	if err == nil {
		f.mtime = t
	}
	return err
}

func (f *memFile) truncate(size int64, now time.Time) {
	f.data = resize(f.data, size)
	f.changes = append(f.changes, dataChange{off: size})
	f.mtime = now
}

func (f *memFile) write(b []byte, off int64, now time.Time) {
	if end := off + int64(len(b)); end > int64(len(f.data)) {
		f.data = resize(f.data, end)
	}
	copy(f.data[off:], b)
	f.changes = append(f.changes, dataChange{off: off, data: append([]byte{}, b...)})
	f.mtime = now
}

// sync makes the changes since the last sync safe; a large file is not copied
// for a small one.
func (f *memFile) sync() {
	for _, c := range f.changes {
		end := c.off + int64(len(c.data))
		if c.data == nil || end > int64(len(f.synced)) {
			f.synced = resize(f.synced, end)
		}
		copy(f.synced[c.off:], c.data)
	}
	f.changes = nil
}

// memHandle is an open file; it keeps the content alive after a Remove.
type memHandle struct {
	m      *Mem
	f      *memFile
	closed bool
}

func (h *memHandle) check() error {
	if h.closed {
		return fs.ErrClosed
	}
	return nil
}

func (h *memHandle) ReadAt(b []byte, off int64) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check(); err != nil {
		return 0, err
	}
	if off >= int64(len(h.f.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.f.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *memHandle) WriteAt(b []byte, off int64) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check(); err != nil {
		return 0, err
	}
	h.f.write(b, off, h.m.now())
	return len(b), nil
}

func (h *memHandle) Truncate(size int64) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check(); err != nil {
		return err
	}
	h.f.truncate(size, h.m.now())
	return nil
}

func (h *memHandle) Sync() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if err := h.check(); err != nil {
		return err
	}
	h.f.sync()
	return nil
}

// SyncData keeps the time, too.
func (h *memHandle) SyncData() error { return h.Sync() }

func (h *memHandle) Forget(int64, int64) {}

func (h *memHandle) Size() (int64, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return int64(len(h.f.data)), h.check()
}

func (h *memHandle) Close() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	err := h.check()
	h.closed = true
	return err
}
