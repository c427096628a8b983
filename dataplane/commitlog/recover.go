package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sluicemq/sluice/dataplane/message"
)

// Recovery says how to find the end of the log.
type Recovery struct {
	// From is where the scan begins: the start of a record or of a file.
	From int64
	// FlushedTime is a store time up to which all records were synced, FlushedTo
	// an offset; what only one of them says counts. A damaged place with such
	// records behind it is no torn tail: it is skipped and reported, and the
	// records behind it live on. Times fall where a clock was set back.
	FlushedTime, FlushedTo int64
	// Clean says that the last stop was clean: the bytes behind the end are
	// trusted to be zero when the first of them are.
	Clean bool
	// Keep gets a copy of what is cut off; the zero Keep for none.
	Keep Keep
	// Visit sees every record from From on; its slices are valid during the
	// call. An error ends the recovery.
	Visit func(off int64, f *message.Fields, rec []byte) error
}

// Range is a part of the log.
type Range struct{ From, To int64 }

// progressBytes is how much of the log a recovery checks between two lines of
// its progress.
const progressBytes = 256 << 20

// Recovered is the outcome of a recovery.
type Recovered struct {
	End      int64
	LastTime int64   // store time of the last record, 0 if none was scanned
	Damaged  []Range // skipped places inside of the log
	Cut      bool    // bytes or files behind End were removed
	Kept     []Kept  // copies of them
	Reason   error   // what stands at End, nil when just zeros
}

// Recover finds the end of the log by verifying records from r.From on, cuts
// off what stands behind the last good one, and makes that zero. All files
// behind the one with the end are removed. Call it once, after Open.
func (l *Log) Recover(r Recovery) (Recovered, error) {
	segs := *l.segs.Load()
	out := Recovered{End: r.From}
	if len(segs) == 0 {
		l.setEnd(out)
		return out, nil
	}
	limit := segs[len(segs)-1].end()
	s := &Scanner{l: l, off: max(r.From, segs[0].base), limit: limit, verify: true}
	var f message.Fields // one for all: it escapes into Visit
	told := s.off
	for {
		if s.off-told > progressBytes {
			told = s.off
			l.deps.Events(CheckProgress{From: r.From, At: s.off, FilesEnd: limit})
		}
		off, fields, rec, err := s.Next()
		f = fields
		if err == nil {
			out.LastTime = f.StoreTimestamp
			if err := r.Visit(off, &f, rec); err != nil {
				return out, err
			}
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, message.ErrCorrupt) {
			return out, fmt.Errorf("recover: %w", err)
		}
		if errors.Is(err, message.ErrCorrupt) {
			next, ok := l.skipDamage(off, limit, out.LastTime, r)
			if !ok && errors.Is(err, errMissing) {
				// No crash leaves a gap between files: names become durable one
				// after the other, and cut takes them away from the end.
				next, ok = l.resync(off, limit, math.MaxInt64, 0)
			}
			if ok {
				out.Damaged = append(out.Damaged, Range{off, next})
				l.deps.Events(DamageSkipped{off, next, err})
				s.Reset(next, limit)
				continue
			}
			out.Reason = err
		}
		out.End = s.Offset()
		break
	}
	if err := l.keep(&out, r.Keep, r.Clean); err != nil {
		return out, err
	}
	if err := l.cut(&out, r.Clean); err != nil {
		return out, fmt.Errorf("cut commit log at %d: %w", out.End, err)
	}
	l.setEnd(out)
	return out, nil
}

// skipDamage finds where the log goes on behind a damaged place; only when
// synced records are missing is it worth the search.
func (l *Log) skipDamage(off, limit, lastTime int64, r Recovery) (int64, bool) {
	if lastTime >= r.FlushedTime && off >= r.FlushedTo {
		return 0, false
	}
	return l.resync(off, limit, r.FlushedTime, r.FlushedTo)
}

func (l *Log) setEnd(r Recovered) {
	l.written.Store(r.End)
	l.flushed.Store(r.End)
	l.settled.Store(r.End)
	l.writtenTime.Store(r.LastTime)
	l.flushedTime.Store(r.LastTime)
}

// cut removes what is behind the end. Whole files go first and durably, so a
// crash in between never leaves data behind a shortened file.
func (l *Log) cut(out *Recovered, clean bool) error {
	segs := *l.segs.Load()
	keep := len(segs)
	for keep > 0 && segs[keep-1].base >= out.End && segs[keep-1].base > segs[0].base {
		keep--
	}
	for i := len(segs) - 1; i >= keep; i-- {
		if segs[i].hole() {
			continue
		}
		_, err := l.Peek(segs[i].base)
		segs[i].release()
		if err := l.deps.FS.Remove(segs[i].name); err != nil {
			return err
		}
		// One by one: a gap would look like a lost file, and bring back what
		// stands behind it.
		if err := l.deps.FS.SyncDir(l.cfg.Dir); err != nil {
			return err
		}
		if err == nil { // it had records
			out.Cut = true
			l.deps.Events(SegmentRemoved{Base: segs[i].base, Bytes: segs[i].size, Reason: RemovedByRepair})
		}
	}
	rest := append([]*segment(nil), segs[:keep]...)
	l.segs.Store(&rest)
	if keep == 0 {
		return nil
	}
	if last := rest[keep-1]; out.End < last.end() {
		zero, err := last.zeroFrom(out.End)
		if err != nil {
			return err
		}
		if zero {
			out.Reason = nil
		} else {
			out.Cut = true
		}
		// What was checked is a part of the file only, enough for a report.
		if !zero || !clean {
			if err := last.clear(out.End); err != nil {
				return err
			}
		}
	}
	// Also the good records may never have been synced.
	for i, s := range rest {
		if clean && i < len(rest)-1 || s.hole() {
			continue
		}
		if err := s.file.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// zeroFrom reports whether the bytes from off on, at most scanChunk of them,
// are zero.
func (s *segment) zeroFrom(off int64) (bool, error) {
	b := make([]byte, min(scanChunk, s.end()-off))
	if _, err := s.file.ReadAt(b, off-s.base); err != nil {
		return false, err
	}
	return len(bytes.TrimLeft(b, "\x00")) == 0, nil
}
