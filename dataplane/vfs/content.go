package vfs

import (
	"bytes"
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// dataFinder is a File that knows which of its parts were ever written.
type dataFinder interface {
	// nextData returns the first offset from off on that may hold something else
	// than zeros; ok is false when none does.
	nextData(off int64) (at int64, ok bool, err error)
}

// contentChunk is how much ContentEnd reads at a time.
const contentChunk = 1 << 20

// ContentEnd returns the offset behind the last byte of a file, from from on,
// that is not zero; from when all are. What the file system knows to be empty,
// as most of a file that was made at its full size is, costs nothing.
func ContentEnd(f File, from int64) (int64, error) {
	size, err := f.Size()
	if err != nil || from >= size {
		return from, err
	}
	finder, _ := f.(dataFinder)
	b := make([]byte, min(contentChunk, size-from))
	zeros := make([]byte, len(b)) // comparing is ten times as fast as trimming
	end := from
	for at := from; at < size; at += int64(len(b)) {
		if finder != nil {
			next, ok, err := finder.nextData(at)
			if err != nil {
				return 0, err
			}
			if !ok || next >= size {
				break
			}
			at = max(at, next)
		}
		b = b[:min(int64(len(b)), size-at)]
		if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if !bytes.Equal(b, zeros[:len(b)]) {
			end = at + int64(len(bytes.TrimRight(b, "\x00")))
		}
	}
	return end, nil
}

// nextData implements dataFinder. A file system that cannot tell says that there
// is something everywhere.
func (f osFile) nextData(off int64) (at int64, ok bool, err error) {
	conn, err := f.f.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		at, failed = unix.Seek(int(fd), off, unix.SEEK_DATA) // nothing here reads from a cursor
	})
	switch {
	case err != nil:
		return 0, false, err
	case errors.Is(failed, unix.ENXIO):
		return 0, false, nil
	case failed != nil:
		return off, true, nil
	}
	return at, true, nil
}
