package timerlog

import (
	"bytes"
	"fmt"
)

// Revise brings the wheel in line with the log after a stop that was not clean.
// Slots that are due at readMs or later get the units from position synced on
// that they do not know yet. When a slot points behind the end of the log, the
// wheel is not what the log was synced for: all slots are then made anew from
// all units of the log. It counts the slots whose units it changed.
//
// Slots of earlier times have been delivered and are left alone, or cleared
// when all are made anew.
func Revise(l *Log, w *Wheel, synced, readMs int64) (changed int, err error) {
	_, end := l.Range()
	anew := false
	if err := w.Each(func(s Slot) error {
		anew = anew || s.Last >= end && s.Time*w.precision >= readMs
		return nil
	}); err != nil {
		return 0, err
	}
	if anew {
		synced = 0
		if err := w.clearAll(); err != nil {
			return 0, err
		}
	}
	last := int64(-1)
	err = l.Each(synced, func(pos int64, u Unit) error {
		if u.Due() < readMs {
			return nil
		}
		s, ok, err := w.Slot(u.Due())
		if err != nil || ok && s.Last >= pos {
			return err
		}
		if !ok {
			s = Slot{First: pos}
		}
		if last != u.Due() {
			last = u.Due()
			changed++
		}
		return w.Put(u.Due(), s.with(pos, u))
	})
	return changed, err
}

// with is the slot after a unit at pos was added to it.
func (s Slot) with(pos int64, u Unit) Slot {
	s.Last = pos
	if s.Num++; u.Magic&MagicDelete != 0 {
		s.Num -= 2
	}
	return s
}

// clearAll makes all slots unused.
func (w *Wheel) clearAll() error {
	b, zero := make([]byte, pageBytes), make([]byte, pageBytes)
	for at := int64(0); at < WheelBytes; at += pageBytes {
		if _, err := w.f.ReadAt(b, at); err != nil {
			return fmt.Errorf("read timer slots at %d: %w", at, err)
		}
		if w.pages[at] != nil || !bytes.Equal(b, zero) {
			w.pages[at] = new([pageBytes]byte)
		}
	}
	return nil
}
