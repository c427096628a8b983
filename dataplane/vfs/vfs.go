// Package vfs is the file system as the logs see it: few calls, positions
// instead of cursors, and every step that matters for durability explicit.
//
// It owns three implementations: OS (the real disk), Mem (memory, which can
// say what a disk would hold after a power cut) and Faults (either of them,
// failing on purpose). It knows nothing about messages. All implementations
// may be used by many goroutines.
//
// Durability rule that callers follow: bytes are safe after File.Sync; a
// created, renamed or removed name is safe after SyncDir of its folder.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// ErrLocked is returned by Lock when another process (or another open store of
// this process) holds the lock.
var ErrLocked = errors.New("locked by another process")

// ErrNoSpace is in the chain of every error that means "the disk is full, or
// the quota or file-size limit is reached".
var ErrNoSpace = errors.New("no space left")

// ErrReadOnly is in the chain of every error that means "nothing can be
// written here, to any file".
var ErrReadOnly = errors.New("read-only file system")

// ErrTooManyFiles is in the chain of every error that means "the limit of open
// files of the process or the machine is reached".
var ErrTooManyFiles = errors.New("too many open files")

// FS is a tree of files. Names use the separator of the operating system.
// Missing names give errors for which errors.Is(err, fs.ErrNotExist) holds.
type FS interface {
	// Open opens a file for reading and writing; it must exist.
	Open(name string) (File, error)
	// Create makes an empty file, or empties an existing one, and opens it.
	Create(name string) (File, error)
	// MkdirAll makes a folder and what is missing above it.
	MkdirAll(name string) error
	// ReadDir lists a folder, sorted by name.
	ReadDir(name string) ([]Info, error)
	// Stat describes a file or folder.
	Stat(name string) (Info, error)
	// Rename replaces newName by oldName at once.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty folder.
	Remove(name string) error
	// RemoveAll deletes a tree; a missing one is no error.
	RemoveAll(name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
	// Lock creates the file if needed, locks it against other processes until
	// the result is closed, and writes content into it.
	Lock(name string, content []byte) (io.Closer, error)
	// Space tells how much the disk below a folder holds.
	Space(name string) (Space, error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Truncate sets the size; a longer file is filled with zeros.
	Truncate(size int64) error
	// Sync makes all completed writes and the size durable.
	Sync() error
	// SyncData is Sync but for the time of the last write, which may be lost: it
	// need not wait for the file system's journal when blocks are overwritten.
	SyncData() error
	// Forget says that nobody is expected to read [off, off+n) soon: what the
	// page cache holds of it may go, as far as it is on the disk. A hint.
	Forget(off, n int64)
	// Size returns the present size.
	Size() (int64, error)
}

// Info describes a name.
type Info struct {
	Name    string // last element
	Size    int64
	ModTime time.Time
	Dir     bool
}

// Space is the state of a disk in bytes.
type Space struct{ Total, Free int64 }

// ReadFile returns the whole content of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// WriteFile creates a file with the given content and makes the content
// durable; the name still needs SyncDir.
func WriteFile(fsys FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Exists reports whether a name is there.
func Exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
