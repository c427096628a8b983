package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ReadOnly returns the real file system for those who only look: files are
// opened without the right to write, and whatever would change something is
// refused with ErrReadOnly. MkdirAll of a folder that is there and SyncDir do
// nothing. Lock makes no file: it keeps writers away as long as it is held,
// and lets other readers in.
func ReadOnly() FS { return readOnlyFS{} }

type readOnlyFS struct{ osFS }

func refuse(op, name string) error { return &os.PathError{Op: op, Path: name, Err: ErrReadOnly} }

func (readOnlyFS) Open(name string) (File, error)       { return openFile(name, os.O_RDONLY) }
func (readOnlyFS) Create(name string) (File, error)     { return nil, refuse("create", name) }
func (readOnlyFS) Rename(oldName, newName string) error { return refuse("rename", oldName) }
func (readOnlyFS) Remove(name string) error             { return refuse("remove", name) }
func (readOnlyFS) RemoveAll(name string) error          { return refuse("remove", name) }
func (readOnlyFS) SyncDir(string) error                 { return nil }

func (readOnlyFS) MkdirAll(name string) error {
	if fi, err := os.Stat(name); err != nil || !fi.IsDir() {
		return refuse("mkdir", name)
	}
	return nil
}

// Lock takes a shared fcntl lock on byte 0; where there is no lock file nobody
// has ever written, and there is nothing to hold.
func (readOnlyFS) Lock(name string, _ []byte) (io.Closer, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, osError(err)
	}
	lk := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lk); err != nil {
		f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}
