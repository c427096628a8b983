package queuelog

import (
	"fmt"
	"sort"
	"sync"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// handles bounds how many files of queues are open at once: the one that was
// opened first is closed when there are more, unless it is in use. A store
// with many queues cannot hold them all open.
type handles struct {
	fs    vfs.FS
	limit int

	mu   sync.Mutex
	open []*file // oldest first
}

// opened takes a file in and closes what is too much. The caller holds no
// lock of a file.
func (h *handles) opened(x *file) {
	h.mu.Lock()
	h.open = append(h.open, x)
	var out []*file
	if n := len(h.open) - h.limit; n > 0 {
		out = append(out, h.open[:n]...)
		h.open = h.open[n:]
	}
	h.mu.Unlock()
	for _, x := range out {
		x.idle()
	}
}

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
func (x *file) use(h *handles) (vfs.File, error) {
	x.mu.Lock()
	if x.f != nil {
		defer x.mu.Unlock()
		x.users++
		return x.f, nil
	}
	f, err := h.fs.Open(x.name)
	if err != nil {
		x.mu.Unlock()
		return nil, err
	}
	x.f = f
	x.users++
	x.unuse = false
	x.mu.Unlock()
	h.opened(x)
	return f, nil
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
func (x *file) read(h *handles, dst []Unit, from int64, n int) ([]Unit, error) {
	f, err := x.use(h)
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

func (x *file) write(h *handles, from int64, b []byte) error {
	f, err := x.use(h)
	if err != nil {
		return err
	}
	defer x.done()
	_, err = f.WriteAt(b, (from-x.first)*UnitBytes)
	return err
}

func (x *file) sync(h *handles) error {
	f, err := x.use(h)
	if err != nil {
		return err
	}
	defer x.done()
	return f.Sync()
}

// clear makes everything from unit from on zero and the size right.
func (x *file) clear(h *handles, from int64) error {
	f, err := x.use(h)
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

func (x *file) remove(h *handles) error {
	x.idle()
	return h.fs.Remove(x.name)
}

// firstUnused finds the end of a file by halving.
func (x *file) firstUnused(h *handles) (int64, error) {
	var failed error
	n := sort.Search(int(x.units), func(i int) bool {
		var buf [1]Unit
		got, err := x.read(h, buf[:0], x.first+int64(i), 1)
		if err != nil {
			failed = err
			return true
		}
		return !got[0].valid()
	})
	return x.first + int64(n), failed
}
