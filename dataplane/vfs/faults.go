package vfs

import (
	"io"
	"sync/atomic"
)

// Op is a step that a Fault may refuse.
type Op string

// The steps, named like the methods they stand for.
const (
	OpOpen     Op = "open"
	OpCreate   Op = "create"
	OpMkdir    Op = "mkdir"
	OpRename   Op = "rename"
	OpRemove   Op = "remove"
	OpSyncDir  Op = "syncdir"
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpTruncate Op = "truncate"
	OpSync     Op = "sync"
	OpLock     Op = "lock"
)

// Fault is called before a step on a name. With an error the step is not done
// and the caller gets the error; of a refused write the first partial bytes
// are written all the same.
type Fault func(op Op, name string) (partial int, err error)

// Faults is a file system that fails on purpose, or watches every step of
// another one.
type Faults struct {
	inner FS
	fault atomic.Pointer[Fault]
}

// NewFaults wraps inner; it behaves like inner until Set.
func NewFaults(inner FS) *Faults { return &Faults{inner: inner} }

// Set changes what fails; nil for nothing.
func (f *Faults) Set(fault Fault) {
	if fault == nil {
		f.fault.Store(nil)
		return
	}
	f.fault.Store(&fault)
}

func (f *Faults) before(op Op, name string) (int, error) {
	if p := f.fault.Load(); p != nil {
		return (*p)(op, name)
	}
	return 0, nil
}

// Open implements FS.
func (f *Faults) Open(name string) (File, error) {
	if _, err := f.before(OpOpen, name); err != nil {
		return nil, err
	}
	return f.file(name)(f.inner.Open(name))
}

// Create implements FS.
func (f *Faults) Create(name string) (File, error) {
	if _, err := f.before(OpCreate, name); err != nil {
		return nil, err
	}
	return f.file(name)(f.inner.Create(name))
}

func (f *Faults) file(name string) func(File, error) (File, error) {
	return func(in File, err error) (File, error) {
		if err != nil {
			return nil, err
		}
		return &faultFile{File: in, fs: f, name: name}, nil
	}
}

// MkdirAll implements FS.
func (f *Faults) MkdirAll(name string) error {
	if _, err := f.before(OpMkdir, name); err != nil {
		return err
	}
	return f.inner.MkdirAll(name)
}

// ReadDir implements FS.
func (f *Faults) ReadDir(name string) ([]Info, error) { return f.inner.ReadDir(name) }

// Stat implements FS.
func (f *Faults) Stat(name string) (Info, error) { return f.inner.Stat(name) }

// Rename implements FS.
func (f *Faults) Rename(oldName, newName string) error {
	if _, err := f.before(OpRename, newName); err != nil {
		return err
	}
	return f.inner.Rename(oldName, newName)
}

// Remove implements FS.
func (f *Faults) Remove(name string) error {
	if _, err := f.before(OpRemove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// RemoveAll implements FS.
func (f *Faults) RemoveAll(name string) error {
	if _, err := f.before(OpRemove, name); err != nil {
		return err
	}
	return f.inner.RemoveAll(name)
}

// SyncDir implements FS.
func (f *Faults) SyncDir(name string) error {
	if _, err := f.before(OpSyncDir, name); err != nil {
		return err
	}
	return f.inner.SyncDir(name)
}

// Lock implements FS.
func (f *Faults) Lock(name string, content []byte) (io.Closer, error) {
	if _, err := f.before(OpLock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name, content)
}

// Space implements FS.
func (f *Faults) Space(name string) (Space, error) { return f.inner.Space(name) }

type faultFile struct {
	File
	fs   *Faults
	name string
}

func (f *faultFile) ReadAt(b []byte, off int64) (int, error) {
	if _, err := f.fs.before(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f *faultFile) WriteAt(b []byte, off int64) (int, error) {
	partial, err := f.fs.before(OpWrite, f.name)
	if err == nil {
		return f.File.WriteAt(b, off)
	}
	if partial = min(partial, len(b)); partial > 0 {
		if n, werr := f.File.WriteAt(b[:partial], off); werr != nil {
			return n, werr
		}
	}
	return partial, err
}

func (f *faultFile) Truncate(size int64) error {
	if _, err := f.fs.before(OpTruncate, f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Sync() error {
	if _, err := f.fs.before(OpSync, f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) SyncData() error {
	if _, err := f.fs.before(OpSync, f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}
