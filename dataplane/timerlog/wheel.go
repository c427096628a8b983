package timerlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

const (
	// Slots is the number of slots: seven days of seconds, twice.
	Slots = 2 * 7 * 24 * 3600
	// SlotBytes is the length of a slot.
	SlotBytes = 32
	// WheelBytes is the length of the file: 38,707,200.
	WheelBytes = Slots * SlotBytes
)

// pageBytes is how much of the wheel is written together: 128 slots.
const pageBytes = 4096

// Slot is what waits for one step of time:
//
//	0 TIME i64   8 FIRST i64   16 LAST i64   24 NUM i32   28 MAGIC i32 (0)
type Slot struct {
	Time        int64 // ms / precision
	First, Last int64 // positions of its oldest and its newest unit in the timer log
	Num         int32 // messages less those taken back
	Magic       int32
}

// AppendSlot appends the bytes of s to b.
func AppendSlot(b []byte, s Slot) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.Time))
	b = binary.BigEndian.AppendUint64(b, uint64(s.First))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Last))
	b = binary.BigEndian.AppendUint32(b, uint32(s.Num))
	return binary.BigEndian.AppendUint32(b, uint32(s.Magic))
}

// DecodeSlot reads a slot from the begin of b, which has SlotBytes or more.
// Every content is a slot; a Time that is not asked for means an unused one.
func DecodeSlot(b []byte) Slot {
	i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	return Slot{Time: i64(0), First: i64(8), Last: i64(16), Num: int32(binary.BigEndian.Uint32(b[24:])), Magic: int32(binary.BigEndian.Uint32(b[28:]))}
}

// Wheel is a timer wheel.
type Wheel struct {
	f         vfs.File
	precision int64
	pages     map[int64]*[pageBytes]byte // changed and not synced, by their place in the file
}

// OpenWheel opens the wheel in a file, or makes an empty one. The precision is
// the length of a step in ms: 100, 200, 500 or 1000, always the same for a file,
// which does not know it. A file of another length is ErrSize.
func OpenWheel(fsys vfs.FS, name string, precisionMs int64) (*Wheel, error) {
	if !slices.Contains(precisions, precisionMs) {
		return nil, fmt.Errorf("timer precision of %d ms: it must be one of %v", precisionMs, precisions)
	}
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(name)
	}
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	switch {
	case err != nil:
	case size == 0: // new, or the making of it was cut short
		if err = f.Truncate(WheelBytes); err == nil {
			err = errors.Join(f.Sync(), fsys.SyncDir(filepath.Dir(name)))
		}
	case size != WheelBytes:
		err = fmt.Errorf("timer wheel %s has %d bytes, not %d: %w", name, size, WheelBytes, ErrSize)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Wheel{f: f, precision: precisionMs, pages: map[int64]*[pageBytes]byte{}}, nil
}

var precisions = []int64{100, 200, 500, 1000}

// place is the byte at which the slot of a time begins.
func (w *Wheel) place(timeMs int64) int64 { return timeMs / w.precision % Slots * SlotBytes }

// Slot returns the slot of a time in ms, not negative; false when nothing was
// put for just this time.
func (w *Wheel) Slot(timeMs int64) (Slot, bool, error) {
	at := w.place(timeMs)
	var b [SlotBytes]byte
	if p := w.pages[at-at%pageBytes]; p != nil {
		copy(b[:], p[at%pageBytes:])
	} else if _, err := w.f.ReadAt(b[:], at); err != nil {
		return Slot{}, false, fmt.Errorf("read the timer slot at %d: %w", at, err)
	}
	s := DecodeSlot(b[:])
	if s.Time == 0 || s.Time != timeMs/w.precision {
		return Slot{}, false, nil
	}
	return s, true, nil
}

// Put sets the slot of a time in ms, in place of the one that had its place; it
// sets s.Time itself. It is in memory until Sync, so that no slot in the file
// points at a unit that the log has not synced. After an error nothing was
// changed.
func (w *Wheel) Put(timeMs int64, s Slot) error {
	s.Time = timeMs / w.precision
	return w.put(timeMs, s)
}

// Clear makes the slot of a time an unused one. When another time has its place
// by now, nothing happens.
func (w *Wheel) Clear(timeMs int64) error {
	if _, ok, err := w.Slot(timeMs); !ok || err != nil {
		return err
	}
	return w.put(timeMs, Slot{})
}

func (w *Wheel) put(timeMs int64, s Slot) error {
	at := w.place(timeMs)
	page := at - at%pageBytes
	p := w.pages[page]
	if p == nil {
		p = new([pageBytes]byte)
		if _, err := w.f.ReadAt(p[:], page); err != nil {
			return fmt.Errorf("read timer slots at %d: %w", page, err)
		}
		w.pages[page] = p
	}
	AppendSlot(p[at%pageBytes:at%pageBytes], s)
	return nil
}

// Each calls visit for every slot that is in use or was, in the order of the
// file, and ends with the first error of visit. What visit puts may be visited
// or not.
func (w *Wheel) Each(visit func(Slot) error) error {
	b, zero := make([]byte, pageBytes), make([]byte, pageBytes) // most of the file is a hole
	for at := int64(0); at < WheelBytes; at += int64(len(b)) {
		if p := w.pages[at]; p != nil {
			copy(b, p[:])
		} else if _, err := w.f.ReadAt(b, at); err != nil {
			return fmt.Errorf("read timer slots at %d: %w", at, err)
		}
		if bytes.Equal(b, zero) {
			continue
		}
		for i := 0; i < len(b); i += SlotBytes {
			if s := DecodeSlot(b[i:]); s != (Slot{}) {
				if err := visit(s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Sync makes all slots durable. The log must be synced before. After an error
// the slots stay in memory.
func (w *Wheel) Sync() error {
	for at, p := range w.pages {
		if _, err := w.f.WriteAt(p[:], at); err != nil {
			return err
		}
	}
	if err := w.f.Sync(); err != nil {
		return err
	}
	clear(w.pages)
	return nil
}

// Close closes the file. What was not synced may be lost.
func (w *Wheel) Close() error { return w.f.Close() }
