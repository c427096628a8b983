package timerlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// errStop ends a walk whose result is known.
var errStop = errors.New("stop")

// Check compares the timer files of a store folder with each other: the log up
// to the checkpoint, and the chain of each slot that is still to come. It calls
// fault with the file below the folder, the byte in it and what is wrong; its
// error is about the reading. It writes nothing; fileBytes is the size of the
// log's files. A folder without a wheel is good.
func Check(fsys vfs.FS, dir string, fileBytes int64, fault func(file string, at int64, what string)) error {
	info, err := fsys.Stat(filepath.Join(dir, "timerwheel"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size != WheelBytes:
		fault("timerwheel", info.Size, fmt.Sprintf("it has %d bytes, not %d", info.Size, WheelBytes))
		return nil
	}
	const checkpoint = "config/timercheck"
	cp, err := ReadCheckpoint(fsys, filepath.Join(dir, filepath.FromSlash(checkpoint)))
	if err != nil {
		return told(err, checkpoint, fault)
	}
	l, err := load(Config{FS: fsys, Dir: filepath.Join(dir, "timerlog"), FileBytes: fileBytes}, cp.LastTimerLogFlushPos)
	if err != nil {
		return told(err, "timerlog", fault)
	}
	w, err := OpenWheel(fsys, filepath.Join(dir, "timerwheel"), precisions[0])
	if err != nil {
		return errors.Join(told(err, "timerwheel", fault), l.Close())
	}
	if err = w.findPrecision(l); err == nil {
		err = w.Each(func(s Slot) error {
			if s.Time*w.precision < cp.LastReadTimeMs {
				return nil // delivered; its units may be gone
			}
			first := int64(-1)
			err := Chain(l, w, s, func(pos int64, _ Unit) error { first = pos; return nil })
			if err == nil && first != s.First {
				err = fmt.Errorf("the slot says that its first unit is at %d, it is at %d: %w", s.First, first, ErrDamaged)
			}
			if err != nil && errors.Is(err, ErrDamaged) {
				fault("timerwheel", s.Time%Slots*SlotBytes, err.Error())
				return nil
			}
			return err
		})
	}
	return errors.Join(err, w.Close(), l.Close())
}

// told turns damage into a fault.
func told(err error, file string, fault func(string, int64, string)) error {
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrSize) {
		fault(file, 0, err.Error())
		return nil
	}
	return err
}

// findPrecision takes the precision, which no file says, from a slot and its
// newest unit: one counts steps, the other ms.
func (w *Wheel) findPrecision(l *Log) error {
	err := w.Each(func(s Slot) error {
		if u, err := l.At(s.Last); err == nil && s.Time > 0 && u.Due()%s.Time == 0 && slices.Contains(precisions, u.Due()/s.Time) {
			w.precision = u.Due() / s.Time
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}
