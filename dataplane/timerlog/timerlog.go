// Package timerlog holds the files in which RocketMQ keeps what waits for a
// time: the timer log (one unit for each waiting message, oldest first), the
// timer wheel (one slot for each step of time, pointing at the chain of its
// units) and the timer checkpoint. FORMAT.md draws them, byte for byte.
//
// It owns the bytes and the rule that says which slot a message goes to. It
// does not schedule: who reads the timer topic, who delivers and when the files
// are synced is the business of its user. Log and Wheel are used by one
// goroutine at a time; all memory they take is bounded: a buffer, and the slots
// that changed since the last Sync, at most 38,707,200 bytes.
//
// The files say again what the commit log says: the order for durability is
// Log.Sync, Wheel.Sync, Checkpoint.Write. What is missing behind the
// checkpoint is read from the timer topic again.
package timerlog

import (
	"errors"
	"fmt"
)

// ErrDamaged is in the chain of every error that means: the bytes of a file
// cannot be what was written.
var ErrDamaged = errors.New("damaged")

// ErrSize is in the chain of errors about a file whose size or name does not
// fit to the configured one.
var ErrSize = errors.New("size does not fit")

// Add appends a unit to the log and links it into the slot of its time: it
// sets u.Previous, and counts a unit with MagicDelete as one less. It returns
// the unit's position. After an error in the wheel the unit is in the log and
// in no chain.
func Add(l *Log, w *Wheel, u Unit) (int64, error) {
	s, ok, err := w.Slot(u.Due())
	if err != nil {
		return 0, err
	}
	u.Previous = -1
	if ok {
		u.Previous = s.Last
	}
	pos, err := l.Append(u)
	if err != nil {
		return 0, err
	}
	if !ok {
		s = Slot{First: pos}
	}
	return pos, w.Put(u.Due(), s.with(pos, u))
}

// Chain calls visit for the units of a slot, the newest first, and ends with
// the first error of visit. Units in front of the log's begin are gone with
// their files and end the chain. A unit of another time is ErrDamaged.
func Chain(l *Log, w *Wheel, s Slot, visit func(pos int64, u Unit) error) error {
	first, _ := l.Range()
	for pos := s.Last; pos >= first; {
		u, err := l.At(pos)
		if err != nil {
			return err
		}
		if u.Due()/w.precision != s.Time {
			return fmt.Errorf("timer unit at %d is due at %d ms, its slot holds those of %d ms: %w", pos, u.Due(), s.Time*w.precision, ErrDamaged)
		}
		if err := visit(pos, u); err != nil {
			return err
		}
		pos = u.Previous
	}
	return nil
}

// OutMs is the value of TIMER_OUT_MS for a message that its sender wants at
// deliverMs: the last step of the wheel in front of it, both in ms.
func OutMs(deliverMs, precisionMs int64) int64 {
	if rest := deliverMs % precisionMs; rest != 0 {
		return deliverMs - rest
	}
	return deliverMs - precisionMs
}

// Place says into which slot a message goes that is due at dueMs and enters
// the wheel at writeMs. One that is due a window of slots ahead or more is
// rolled: it goes a window ahead and is put again then, or half a window when
// less than a third of one would be left, so that no short way comes last.
func Place(dueMs, writeMs, precisionMs, windowSlots int64) (slotMs int64, rolled bool) {
	window := windowSlots * precisionMs
	ahead := dueMs - writeMs
	switch {
	case ahead < window:
		return dueMs, false
	case ahead-window < windowSlots/3*precisionMs:
		return writeMs + windowSlots/2*precisionMs, true
	default:
		return writeMs + window, true
	}
}
