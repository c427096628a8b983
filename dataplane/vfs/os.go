package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// OS returns the real file system. Folders are made with mode 0o750 and files
// with 0o640.
func OS() FS { return osFS{} }

type osFS struct{}

type osFile struct{ f *os.File }

// osError adds to an error the one of ours that it means.
func osError(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w: %w", ErrTooManyFiles, err)
	}
	return err
}

func openFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o640)
	if err != nil {
		return nil, osError(err)
	}
	return osFile{f}, nil
}

func (osFS) Open(name string) (File, error) { return openFile(name, os.O_RDWR) }

func (osFS) Create(name string) (File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) MkdirAll(name string) error { return osError(os.MkdirAll(name, 0o750)) }

func (osFS) ReadDir(name string) ([]Info, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, osError(err)
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		fi, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, osInfo(fi))
	}
	return infos, nil
}

func osInfo(fi os.FileInfo) Info {
	return Info{Name: fi.Name(), Size: fi.Size(), ModTime: fi.ModTime(), Dir: fi.IsDir()}
}

func (osFS) Stat(name string) (Info, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return osInfo(fi), nil
}

func (osFS) Rename(oldName, newName string) error { return osError(os.Rename(oldName, newName)) }
func (osFS) Remove(name string) error             { return osError(os.Remove(name)) }
func (osFS) RemoveAll(name string) error          { return osError(os.RemoveAll(name)) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return osError(err)
	}
	return osError(errors.Join(d.Sync(), d.Close()))
}

func (osFS) Space(name string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(name, &st); err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: name, Err: err}
	}
	bs := int64(st.Bsize)
	return Space{Total: int64(st.Blocks) * bs, Free: int64(st.Bavail) * bs}, nil
}

func (f osFile) ReadAt(b []byte, off int64) (int, error) { return f.f.ReadAt(b, off) }

func (f osFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(b, off)
	return n, osError(err)
}

func (f osFile) Truncate(size int64) error { return osError(f.f.Truncate(size)) }
func (f osFile) Sync() error               { return osError(f.f.Sync()) }
func (f osFile) SyncData() error {
	for {
		if err := unix.Fdatasync(int(f.f.Fd())); err != unix.EINTR {
			return osError(err)
		}
	}
}
func (f osFile) Forget(off, n int64) {
	_ = unix.Fadvise(int(f.f.Fd()), off, n, unix.FADV_DONTNEED) // a hint
}
func (f osFile) Close() error { return f.f.Close() }

func (f osFile) Size() (int64, error) {
	fi, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// A POSIX record lock belongs to the process, so it does not keep two stores
// of one process apart; this table does.
var heldLocks = struct {
	sync.Mutex
	names map[string]bool
}{names: map[string]bool{}}

type osLock struct {
	name string
	f    *os.File
	once sync.Once
	err  error
}

// Lock takes an exclusive fcntl lock on byte 0, the one a Java FileChannel
// takes for the range [0,1).
func (osFS) Lock(name string, content []byte) (io.Closer, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	heldLocks.Lock()
	defer heldLocks.Unlock()
	if heldLocks.names[abs] {
		return nil, ErrLocked
	}
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, osError(err)
	}
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lk); err != nil {
		f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, ErrLocked
		}
		return nil, &os.PathError{Op: "lock", Path: abs, Err: err}
	}
	// The content is for people; on a full disk the lock is what counts.
	if _, err := f.WriteAt(content, 0); err != nil && !errors.Is(osError(err), ErrNoSpace) {
		f.Close()
		return nil, err
	}
	heldLocks.names[abs] = true
	return &osLock{name: abs, f: f}, nil
}

// Close releases the lock; the file stays.
func (l *osLock) Close() error {
	l.once.Do(func() {
		heldLocks.Lock()
		defer heldLocks.Unlock()
		delete(heldLocks.names, l.name)
		l.err = l.f.Close()
	})
	return l.err
}
