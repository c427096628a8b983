package timerlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// DefaultFileBytes is RocketMQ's mappedFileSizeTimerLog.
const DefaultFileBytes = 100 << 20

// bufferBytes is how much of the log is read at once, and how much of it
// waits in memory to be written.
const bufferBytes = 1260 * UnitBytes

// Config says where a log is.
type Config struct {
	FS        vfs.FS
	Dir       string // made when missing
	FileBytes int64  // of each file; at least a unit and a marker, 68
}

// Log is a timer log. Positions count bytes over all files.
type Log struct {
	cfg     Config
	first   int64 // begin of the oldest file
	files   int64 // end of the newest file
	end     int64 // position of the next unit
	written int64 // units in front of it are in the files
	tail    []byte
	open    vfs.File // the file that was used last
	openAt  int64    // its begin
	block   []byte   // what At read last
	blockAt int64    // its position
}

// Open opens a log for reading and writing. Everything in front of synced, the
// checkpoint's LastTimerLogFlushPos, must be there, else it is ErrDamaged. What
// stands behind is kept up to the first unit that cannot be one, and cut off
// from there, durably. A file of another size is ErrSize.
func Open(cfg Config, synced int64) (*Log, error) {
	if err := cfg.FS.MkdirAll(cfg.Dir); err != nil {
		return nil, err
	}
	if err := cfg.FS.SyncDir(filepath.Dir(cfg.Dir)); err != nil {
		return nil, err
	}
	l, err := load(cfg, synced)
	if err != nil {
		return nil, err
	}
	if err := l.cut(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// load finds the files and the end without changing anything.
func load(cfg Config, synced int64) (*Log, error) {
	if cfg.FileBytes < UnitBytes+markerBytes {
		return nil, fmt.Errorf("timer log files of %d bytes: at least %d are needed", cfg.FileBytes, UnitBytes+markerBytes)
	}
	l := &Log{cfg: cfg}
	infos, err := l.list()
	if err != nil {
		return nil, err
	}
	for i, info := range infos {
		if info.base%cfg.FileBytes != 0 || info.Size != cfg.FileBytes {
			if i == len(infos)-1 && info.Size == 0 {
				continue // the making of it was cut short
			}
			return nil, fmt.Errorf("timer log file %s has %d bytes, the files have %d: open the folder with the size that it was made with: %w", info.Name, info.Size, cfg.FileBytes, ErrSize)
		}
		if l.files == 0 {
			l.first, l.files = info.base, info.base
		}
		if info.base != l.files {
			return nil, fmt.Errorf("timer log file %s follows one that ends at %d: files between them are missing: %w", info.Name, l.files, ErrDamaged)
		}
		l.files += cfg.FileBytes
	}
	base := max(synced-1, 0)
	l.end = min(max(l.first, base-base%cfg.FileBytes), l.files)
	for full := true; full && l.end < l.files; {
		if l.end, full, err = l.walk(l.end, func(int64, Unit) error { return nil }); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		if full {
			l.end = l.fileEnd(l.end)
		}
	}
	if l.end < synced {
		err := fmt.Errorf("timer log %s ends at %d, but was synced up to %d: %w", cfg.Dir, l.end, synced, ErrDamaged)
		return nil, errors.Join(err, l.Close())
	}
	l.written = l.end
	return l, nil
}

// logFile is a file whose name is its begin in 20 digits.
type logFile struct {
	vfs.Info
	base int64
}

// list finds the files in order; others are left alone.
func (l *Log) list() (files []logFile, err error) {
	infos, err := l.cfg.FS.ReadDir(l.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, info := range infos {
		if base, err := strconv.ParseUint(info.Name, 10, 63); err == nil && len(info.Name) == 20 && !info.Dir {
			files = append(files, logFile{info, int64(base)})
		}
	}
	return files, err
}

// cut clears what stands behind the end, so that nothing old can follow a unit
// that is written there later.
func (l *Log) cut() error {
	files, err := l.list()
	if err != nil {
		return err
	}
	for _, file := range files {
		if file.base >= l.end || file.Size == 0 {
			if err := l.cfg.FS.Remove(l.name(file.base)); err != nil {
				return err
			}
		}
	}
	if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
		return err
	}
	if l.end%l.cfg.FileBytes == 0 {
		l.files = l.end // the next append makes a file
		return nil
	}
	l.files = l.fileEnd(l.end)
	return l.clear()
}

// clear makes the newest file zero behind the end. The size stays as it is at
// each moment: a power cut must not leave a file of another one.
func (l *Log) clear() error {
	f, err := l.file(l.end)
	if err != nil {
		return err
	}
	b, zero := make([]byte, bufferBytes), make([]byte, bufferBytes)
	for at := l.end - l.openAt; at < l.cfg.FileBytes; at += int64(len(b)) {
		b = b[:min(int64(len(b)), l.cfg.FileBytes-at)]
		if _, err := f.ReadAt(b, at); err != nil {
			return fmt.Errorf("read behind the last timer unit at %d: %w", l.end, err)
		}
		if !bytes.Equal(b, zero[:len(b)]) {
			if _, err := f.WriteAt(zero[:len(b)], at); err != nil {
				return err
			}
		}
	}
	return f.Sync()
}

// Range returns the begin of the oldest file and the position of the next unit.
func (l *Log) Range() (first, end int64) { return l.first, l.end }

// Append adds a unit and returns its position. It is in memory until more than
// a buffer waits, a file is full, or Sync. After an error nothing was added;
// Append may be tried again.
func (l *Log) Append(u Unit) (int64, error) {
	if l.end < l.files && l.fileEnd(l.end)-l.end < UnitBytes+markerBytes {
		if err := l.roll(); err != nil {
			return 0, err
		}
	}
	if l.end >= l.files {
		if err := l.create(); err != nil {
			return 0, err
		}
	}
	if len(l.tail) >= bufferBytes {
		if err := l.write(); err != nil {
			return 0, err
		}
	}
	pos := l.end
	l.tail = AppendUnit(l.tail, u)
	l.end += UnitBytes
	return pos, nil
}

// roll closes the newest file with a marker.
func (l *Log) roll() error {
	if err := l.write(); err != nil {
		return err
	}
	f, err := l.file(l.end)
	if err != nil {
		return err
	}
	next := l.fileEnd(l.end)
	if _, err := f.WriteAt(appendMarker(nil, next-l.end), l.end-l.openAt); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	l.end, l.written = next, next
	return nil
}

// create makes the file that begins at the end.
func (l *Log) create() error {
	f, err := l.cfg.FS.Create(l.name(l.end))
	if err != nil {
		return err
	}
	if err = f.Truncate(l.cfg.FileBytes); err == nil {
		// The size first: a power cut leaves a file that is empty or of its size.
		err = f.Sync()
	}
	if err == nil {
		err = l.cfg.FS.SyncDir(l.cfg.Dir)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, l.cfg.FS.Remove(l.name(l.end)))
	}
	if l.first == l.files {
		l.first = l.end
	}
	l.files = l.end + l.cfg.FileBytes
	return nil
}

// write brings the tail, which lies in one file, to it.
func (l *Log) write() error {
	if len(l.tail) == 0 {
		return nil
	}
	f, err := l.file(l.written)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(l.tail, l.written-l.openAt); err != nil {
		return err
	}
	l.written, l.tail = l.end, l.tail[:0]
	return nil
}

// Sync makes all units durable.
func (l *Log) Sync() error {
	if err := l.write(); err != nil || l.end >= l.files {
		return err // a full file was synced when it was closed
	}
	f, err := l.file(l.end)
	if err != nil {
		return err
	}
	return f.Sync()
}

// At returns the unit at a position. The error is ErrDamaged for a position
// that is outside of the log or between two units, too: it came from a unit or
// a slot.
func (l *Log) At(pos int64) (Unit, error) {
	if pos < l.first || pos >= l.end || pos%l.cfg.FileBytes%UnitBytes != 0 {
		return Unit{}, fmt.Errorf("no timer unit begins at %d in a log from %d to %d: %w", pos, l.first, l.end, ErrDamaged)
	}
	if pos >= l.written {
		return DecodeUnit(l.tail[pos-l.written:], pos)
	}
	if pos < l.blockAt || pos+UnitBytes > l.blockAt+int64(len(l.block)) {
		if err := l.readBlock(pos); err != nil {
			return Unit{}, err
		}
	}
	return DecodeUnit(l.block[pos-l.blockAt:], pos)
}

// blockBytes is how much At reads at once: the units of a chain that were added
// in a row are together.
const blockBytes = 78 * UnitBytes

// readBlock brings the unit at pos and what is in front of it to l.block. All
// of that is written and never changes.
func (l *Log) readBlock(pos int64) error {
	f, err := l.file(pos)
	if err != nil {
		return err
	}
	from := max(pos+UnitBytes-blockBytes, l.openAt)
	l.block = slices.Grow(l.block[:0], blockBytes)[:pos+UnitBytes-from]
	if _, err := f.ReadAt(l.block, from-l.openAt); err != nil {
		l.block = l.block[:0]
		return fmt.Errorf("read the timer unit at %d: %w", pos, err)
	}
	l.blockAt = from
	return nil
}

// Each calls visit for the units from a position on, the oldest first, and
// ends with the first error of visit. A position in front of the log means
// its begin.
func (l *Log) Each(from int64, visit func(pos int64, u Unit) error) error {
	if err := l.write(); err != nil {
		return err
	}
	for pos := max(from, l.first); pos < l.end; {
		end, full, err := l.walk(pos, visit)
		if err != nil {
			return err
		}
		if pos = end; full {
			pos = l.fileEnd(end)
		} else if end < l.end {
			return fmt.Errorf("timer log to %d has neither a unit nor an end marker at %d: %w", l.end, end, ErrDamaged)
		}
	}
	return nil
}

// walk visits the units of one file from a position on, and returns where they
// end; full tells that a marker stands there.
func (l *Log) walk(pos int64, visit func(pos int64, u Unit) error) (end int64, full bool, err error) {
	b := make([]byte, min(bufferBytes, l.cfg.FileBytes))
	for limit := l.fileEnd(pos); ; {
		f, err := l.file(pos) // again: visit may have used another one
		if err != nil {
			return pos, false, err
		}
		part := b[:min(int64(len(b)), limit-pos)]
		if _, err := f.ReadAt(part, pos-l.openAt); err != nil {
			return pos, false, fmt.Errorf("read timer units at %d: %w", pos, err)
		}
		for len(part) >= UnitBytes && limit-pos >= UnitBytes+markerBytes {
			u, err := DecodeUnit(part, pos)
			if err != nil {
				return pos, false, nil
			}
			if err := visit(pos, u); err != nil {
				return pos, false, err
			}
			pos, part = pos+UnitBytes, part[UnitBytes:]
		}
		if limit-pos < UnitBytes+markerBytes {
			var m [markerBytes]byte
			if f, err = l.file(pos); err == nil {
				_, err = f.ReadAt(m[:], pos-l.openAt)
			}
			return pos, err == nil && isMarker(m[:], limit-pos), err
		}
	}
}

// DropBefore removes the files that lie wholly in front of a position, but for
// the newest.
func (l *Log) DropBefore(pos int64) error {
	for l.first+l.cfg.FileBytes <= min(pos, l.files-l.cfg.FileBytes) {
		if l.open != nil && l.openAt == l.first {
			if err := l.Close(); err != nil {
				return err
			}
		}
		if err := l.cfg.FS.Remove(l.name(l.first)); err != nil {
			return err
		}
		l.first += l.cfg.FileBytes
	}
	return l.cfg.FS.SyncDir(l.cfg.Dir)
}

// Close closes the files. What was not synced may be lost.
func (l *Log) Close() error {
	if l.open == nil {
		return nil
	}
	f := l.open
	l.open = nil
	return f.Close()
}

func (l *Log) fileEnd(pos int64) int64 { return pos - pos%l.cfg.FileBytes + l.cfg.FileBytes }

func (l *Log) name(base int64) string { return filepath.Join(l.cfg.Dir, fmt.Sprintf("%020d", base)) }

// file opens the file that holds a position; one is open at a time.
func (l *Log) file(pos int64) (vfs.File, error) {
	base := pos - pos%l.cfg.FileBytes
	if l.open != nil && l.openAt == base {
		return l.open, nil
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	f, err := l.cfg.FS.Open(l.name(base))
	if err != nil {
		return nil, err
	}
	l.open, l.openAt = f, base
	return f, nil
}
