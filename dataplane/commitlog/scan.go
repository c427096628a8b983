package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sluicemq/sluice/dataplane/message"
)

// scanChunk is how much a Scanner reads at once.
const scanChunk = 512 << 10

// sectorBytes is the smallest unit that a disk writes or loses.
const sectorBytes = 512

// Scanner walks over the records of a log in order. It belongs to one goroutine.
type Scanner struct {
	l      *Log
	off    int64 // of the next record
	limit  int64
	verify bool // check sums, and sectors lost in a power cut
	buf    []byte
	bufOff int64 // offset of buf[0]
}

// errMissing marks places in a file that is missing between others.
var errMissing = errors.New("the commit log file is missing")

// Scan returns a scanner over [from, to); from and to must be starts of
// records or ends of files. Checksums are not verified.
func (l *Log) Scan(from, to int64) *Scanner { return &Scanner{l: l, off: from, limit: to} }

// ScanVerified is Scan with checksums verified; a place without a good record
// is ErrCorrupt. It may be called before Recover.
func (l *Log) ScanVerified(from, to int64) *Scanner {
	return &Scanner{l: l, off: from, limit: to, verify: true}
}

// Reset moves the scanner, keeping its buffer and what it has read.
func (s *Scanner) Reset(from, to int64) { s.off, s.limit = from, to }

// Skip moves the scanner inside of its range.
func (s *Scanner) Skip(to int64) { s.off = to }

// Offset returns the offset of the next record: where the scan stopped after an error.
func (s *Scanner) Offset() int64 { return s.off }

// Next returns the next record and its offset; rec and the slices of f are
// valid until the next call. At the limit the error is io.EOF. A place that
// holds no record gives message.ErrCorrupt; the scanner stays there.
func (s *Scanner) Next() (off int64, f message.Fields, rec []byte, err error) {
	for s.off < s.limit {
		head, err := s.window(s.off, message.BlankBytes)
		if err != nil {
			return s.off, f, nil, err
		}
		size, magic, _ := message.Head(head)
		if magic == message.MagicBlank && int64(size) == s.l.SegmentEnd(s.off)-s.off {
			s.off = s.l.SegmentEnd(s.off)
			continue
		}
		if size < message.MinRecordBytes {
			return s.off, f, nil, fmt.Errorf("offset %d: size %d: %w", s.off, size, message.ErrCorrupt)
		}
		if rec, err = s.window(s.off, int(size)); err != nil {
			return s.off, f, nil, err
		}
		if f, err = s.check(rec); err != nil {
			return s.off, f, nil, fmt.Errorf("offset %d: %w", s.off, err)
		}
		off = s.off
		s.off += int64(size)
		return off, f, rec, nil
	}
	return s.off, f, nil, io.EOF
}

func (s *Scanner) check(rec []byte) (f message.Fields, err error) {
	if s.verify {
		f, err = message.Verify(rec)
	} else {
		f, err = message.Parse(rec)
	}
	switch {
	case err != nil:
		return f, err
	case f.PhysicalOffset != s.off:
		return f, fmt.Errorf("record of offset %d: %w", f.PhysicalOffset, message.ErrCorrupt)
	case s.verify && lostSector(rec, s.off%s.l.cfg.SegmentBytes, f):
		return f, fmt.Errorf("a sector of the record is zero: %w", message.ErrCorrupt)
	}
	return f, nil
}

// lostSector reports that one of the disk sectors that hold the topic or the
// properties has nothing but zeros of rec: the checksum covers the body only,
// so a power cut that loses such a sector would otherwise go unnoticed. No
// topic and no properties that we store contain a zero byte. pos is the
// position of rec in its file.
func lostSector(rec []byte, pos int64, f message.Fields) bool {
	props := len(rec) - len(f.Properties)
	topic := props - 2 - len(f.Topic)
	return zeroSector(rec, pos, topic, topic+len(f.Topic)) || zeroSector(rec, pos, props, len(rec))
}

// zeroSector looks at the sectors that hold rec[from:to].
func zeroSector(rec []byte, pos int64, from, to int) bool {
	for from < to {
		sector := from - int((pos+int64(from))%sectorBytes)
		if len(bytes.Trim(rec[max(0, sector):min(len(rec), sector+sectorBytes)], "\x00")) == 0 {
			return true
		}
		from = sector + sectorBytes
	}
	return false
}

// window returns n bytes from off on, out of one file and in front of the
// limit; less is ErrCorrupt.
func (s *Scanner) window(off int64, n int) ([]byte, error) {
	if i := off - s.bufOff; i >= 0 && i+int64(n) <= int64(len(s.buf)) {
		return s.buf[i : i+int64(n)], nil
	}
	room := min(s.l.SegmentEnd(off), s.limit) - off
	if int64(n) > room {
		return nil, fmt.Errorf("offset %d: %d bytes where %d are left: %w", off, n, room, message.ErrCorrupt)
	}
	seg := s.l.acquire(off)
	if seg == nil && s.l.inHole(off) {
		return nil, fmt.Errorf("offset %d: %w: %w", off, errMissing, message.ErrCorrupt)
	}
	if seg == nil {
		return nil, fmt.Errorf("offset %d: %w", off, ErrNotFound)
	}
	defer seg.release()
	want := int(min(room, int64(max(n, scanChunk))))
	if cap(s.buf) < want {
		s.buf = make([]byte, 0, max(want, min(scanChunk, int(s.l.cfg.SegmentBytes))))
	}
	s.buf, s.bufOff = s.buf[:want], off
	if _, err := seg.file.ReadAt(s.buf, off-seg.base); err != nil {
		s.buf = s.buf[:0]
		return nil, fmt.Errorf("read %d bytes at %d: %w", want, off, err)
	}
	return s.buf[:n], nil
}

// Peek reads and verifies the record at off. ErrCorrupt or ErrNotFound when
// there is none. It may be called before Recover.
func (l *Log) Peek(off int64) (message.Fields, error) {
	s := Scanner{l: l, off: off, limit: l.SegmentEnd(off), verify: true}
	got, f, _, err := s.Next()
	if errors.Is(err, io.EOF) || err == nil && got != off {
		err = fmt.Errorf("offset %d: %w", off, ErrNotFound)
	}
	return f, err
}

// Resync returns the next good record behind a damaged place at from and in
// front of to, false for none. It may be called before Recover.
func (l *Log) Resync(from, to int64) (int64, bool) {
	return l.resync(from, to, math.MaxInt64, 0)
}

// resync looks for the next verified record behind a damaged place at from
// that was stored not later than flushedTime or stands in front of flushedTo, in
// the same file or at the start of later ones.
func (l *Log) resync(from, limit, flushedTime, flushedTo int64) (int64, bool) {
	magic := []byte{0xDA, 0xA3, 0x20} // what both versions begin with
	s := Scanner{l: l, limit: limit, verify: true}
	good := func(off int64) bool {
		s.Reset(off, limit)
		got, f, _, err := s.Next()
		return err == nil && got == off && (f.StoreTimestamp <= flushedTime || off < flushedTo)
	}
	const overlap = 7 // a magic may stand across two chunks
	chunk := make([]byte, scanChunk)
	end := l.SegmentEnd(from)
	for pos := from + 1; pos+overlap < end && !l.inHole(from); pos += scanChunk - overlap {
		seg := l.acquire(pos)
		if seg == nil {
			return 0, false
		}
		n, err := seg.file.ReadAt(chunk[:min(scanChunk, end-pos)], pos-seg.base)
		seg.release()
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, false
		}
		for i := 4; i < n; i++ {
			skip := bytes.Index(chunk[i:n], magic)
			if skip < 0 {
				break
			}
			if i += skip; good(pos + int64(i) - 4) {
				return pos + int64(i) - 4, true
			}
		}
	}
	for ; end < limit; end += l.cfg.SegmentBytes {
		if good(end) {
			return end, true
		}
	}
	return 0, false
}
