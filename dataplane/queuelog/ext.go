package queuelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// An extension holds what a unit has no room for: RocketMQ brokers with
// enableConsumeQueueExt write one beside a queue, and the unit's tags code is
// then an address in it. We follow such addresses and write no extensions for
// our own queues.
const (
	ExtFileBytes = 48 << 20 // size of a file of an extension

	extHeader  = 20
	extMax     = math.MaxInt16
	extEndRoom = 4 // bytes that stay free in a file: the end mark, an i16 of -1, is in them
)

// ExtUnit is one entry:
//
//	0 SIZE i16, 2 TAGSCODE i64, 10 STORETIME i64, 18 BITMAPLEN i16, 20 BITMAP
type ExtUnit struct {
	TagsCode, StoreTime int64
	Bitmap              []byte
}

func (u *ExtUnit) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(extHeader+len(u.Bitmap)))
	b = binary.BigEndian.AppendUint64(b, uint64(u.TagsCode))
	b = binary.BigEndian.AppendUint64(b, uint64(u.StoreTime))
	b = binary.BigEndian.AppendUint16(b, uint16(len(u.Bitmap)))
	return append(b, u.Bitmap...)
}

// IsExtAddress reports that a tags code is an address in an extension: no hash
// of tags is so small.
func IsExtAddress(tagsCode int64) bool { return tagsCode < math.MinInt32 }

// Ext is the extension of one queue. Read may be called by many goroutines,
// Append by one.
type Ext struct {
	fs        vfs.FS
	dir       string
	fileBytes int64
	next      int64 // byte behind the last entry; -1 before it was looked for
}

// NewExt returns the extension in a folder, which need not be there.
func NewExt(fsys vfs.FS, dir string, fileBytes int64) *Ext {
	return &Ext{fs: fsys, dir: dir, fileBytes: fileBytes, next: -1}
}

func (x *Ext) fileName(first int64) string { return filepath.Join(x.dir, fmt.Sprintf("%020d", first)) }

// Read returns the entry at an address. ErrDamaged when there is none.
func (x *Ext) Read(address int64) (ExtUnit, error) {
	at := address - math.MinInt64 // wraps to what was added to it
	if !IsExtAddress(address) {
		return ExtUnit{}, fmt.Errorf("%d is no address of an extension: %w", address, ErrDamaged)
	}
	f, err := x.fs.Open(x.fileName(at - at%x.fileBytes))
	if errors.Is(err, fs.ErrNotExist) {
		return ExtUnit{}, fmt.Errorf("extension entry at %d: %w: %w", at, ErrDamaged, err)
	}
	if err != nil {
		return ExtUnit{}, err
	}
	defer f.Close()
	return x.readUnit(f, at%x.fileBytes)
}

func (x *Ext) readUnit(f vfs.File, at int64) (ExtUnit, error) {
	bad := func(what string, v int) (ExtUnit, error) {
		return ExtUnit{}, fmt.Errorf("extension entry at byte %d of a file in %s has %s %d: %w", at, x.dir, what, v, ErrDamaged)
	}
	var head [extHeader]byte
	if at+extHeader > x.fileBytes-extEndRoom {
		return bad("room for bytes", int(x.fileBytes-extEndRoom-at))
	}
	if _, err := f.ReadAt(head[:], at); err != nil {
		return ExtUnit{}, err
	}
	size, n := int(int16(binary.BigEndian.Uint16(head[:]))), int(int16(binary.BigEndian.Uint16(head[18:])))
	if size < extHeader || at+int64(size) > x.fileBytes-extEndRoom {
		return bad("size", size)
	}
	if n != size-extHeader {
		return bad("a bitmap of bytes", n)
	}
	u := ExtUnit{TagsCode: int64(binary.BigEndian.Uint64(head[2:])), StoreTime: int64(binary.BigEndian.Uint64(head[10:])), Bitmap: make([]byte, n)}
	if n > 0 {
		if _, err := f.ReadAt(u.Bitmap, at+extHeader); err != nil {
			return ExtUnit{}, err
		}
	}
	return u, nil
}

// Append adds an entry and returns its address. It is not synced.
func (x *Ext) Append(u ExtUnit) (address int64, err error) {
	size := int64(extHeader + len(u.Bitmap))
	if size > extMax || size+extEndRoom > x.fileBytes {
		return 0, fmt.Errorf("extension entry of %d bytes, at most %d can be", size, min(extMax, x.fileBytes-extEndRoom))
	}
	if x.next < 0 {
		if err := x.findEnd(); err != nil {
			return 0, err
		}
	}
	if room := x.fileBytes - x.next%x.fileBytes; size+extEndRoom > room {
		// The last entry left room for the mark.
		if err := x.write(x.next, []byte{0xff, 0xff}); err != nil {
			return 0, err
		}
		x.next += room
	}
	if err := x.write(x.next, u.append(nil)); err != nil {
		return 0, err
	}
	address = x.next + math.MinInt64
	x.next += size
	return address, nil
}

// findEnd walks through the last file: no entry is in two.
func (x *Ext) findEnd() error {
	if err := x.fs.MkdirAll(x.dir); err != nil {
		return err
	}
	infos, err := x.fs.ReadDir(x.dir)
	if err != nil {
		return err
	}
	x.next = 0
	for _, info := range infos {
		if first, err := strconv.ParseInt(info.Name, 10, 64); err == nil && len(info.Name) == 20 && !info.Dir {
			x.next = first
		}
	}
	f, err := x.fs.Open(x.fileName(x.next))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		u, err := x.readUnit(f, x.next%x.fileBytes)
		if errors.Is(err, ErrDamaged) {
			return nil
		}
		if err != nil {
			return err
		}
		x.next += int64(extHeader + len(u.Bitmap))
	}
}

// write puts bytes at a byte of the extension, into a file that is made whole
// when it is the first to be there.
func (x *Ext) write(at int64, b []byte) error {
	name := x.fileName(at - at%x.fileBytes)
	f, err := x.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = x.fs.Create(name); err == nil {
			err = f.Truncate(x.fileBytes)
		}
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at%x.fileBytes)
	return errors.Join(err, f.Close())
}
