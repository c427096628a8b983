package commitlog

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// segment is one file. It is closed when the log and every reader let it go.
type segment struct {
	base int64
	size int64
	name string
	file vfs.File // nil for a hole: the file is missing
	refs atomic.Int64
}

// maxHoles is how many files may be missing in a row: more is no damage but a
// file that does not belong here.
const maxHoles = 1 << 16

// hole tells whether the file is missing, with what was in it.
func (s *segment) hole() bool { return s.file == nil }

func newSegment(base, size int64, name string, file vfs.File) *segment {
	s := &segment{base: base, size: size, name: name, file: file}
	s.refs.Store(1)
	return s
}

func (s *segment) end() int64 { return s.base + s.size }

// acquire takes a reference; false when the segment is closed already.
func (s *segment) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *segment) release() {
	if s.refs.Add(-1) == 0 && !s.hole() {
		s.file.Close() // nothing unsynced is lost: the log syncs before it lets go
	}
}

// clear makes everything from off to the end of the file zero.
func (s *segment) clear(off int64) error {
	if err := s.file.Truncate(off - s.base); err != nil {
		return err
	}
	return s.file.Truncate(s.size)
}

// acquire returns the segment that holds off, with a reference, or nil.
func (l *Log) acquire(off int64) *segment {
	segs := *l.segs.Load()
	if len(segs) == 0 || off < segs[0].base {
		return nil
	}
	i := (off - segs[0].base) / l.cfg.SegmentBytes
	if i >= int64(len(segs)) || segs[i].hole() || !segs[i].acquire() {
		return nil
	}
	return segs[i]
}

// inHole tells whether off is in a missing file between others.
func (l *Log) inHole(off int64) bool {
	segs := *l.segs.Load()
	if len(segs) == 0 || off < segs[0].base {
		return false
	}
	i := (off - segs[0].base) / l.cfg.SegmentBytes
	return i < int64(len(segs)) && segs[i].hole()
}

func (l *Log) segmentName(base int64) string {
	return filepath.Join(l.cfg.Dir, fmt.Sprintf("%020d", base))
}

// load opens all files. What it returns with an error is still open.
func (l *Log) load() ([]*segment, error) {
	fsys := l.deps.FS
	if err := fsys.MkdirAll(l.cfg.Dir); err != nil {
		return nil, err
	}
	if err := fsys.SyncDir(filepath.Dir(l.cfg.Dir)); err != nil {
		return nil, err
	}
	infos, err := fsys.ReadDir(l.cfg.Dir)
	if err != nil {
		return nil, err
	}
	var segs []*segment
	var sizes []int64
	for _, info := range infos {
		base, err := strconv.ParseInt(info.Name, 10, 64)
		if info.Dir || err != nil || len(info.Name) != 20 {
			continue
		}
		if base%l.cfg.SegmentBytes != 0 || info.Size > l.cfg.SegmentBytes {
			return segs, fmt.Errorf("file %s of %d bytes does not fit to segments of %d bytes: set the size that the folder was made with, or move the file away if it does not belong here", info.Name, info.Size, l.cfg.SegmentBytes)
		}
		if n := len(segs); n > 0 && base != segs[n-1].end() {
			missing := (base - segs[n-1].end()) / l.cfg.SegmentBytes
			if missing > maxHoles {
				return segs, fmt.Errorf("file %s is %d files behind %s: move it away if it does not belong here", info.Name, missing, segs[n-1].name)
			}
			l.deps.Events(SegmentsMissing{First: l.segmentName(segs[n-1].end()), Files: missing})
			for range missing {
				hole := segs[len(segs)-1].end()
				segs = append(segs, newSegment(hole, l.cfg.SegmentBytes, l.segmentName(hole), nil))
				sizes = append(sizes, l.cfg.SegmentBytes)
			}
		}
		name := l.segmentName(base)
		f, err := fsys.Open(name)
		if err != nil {
			return segs, err
		}
		segs = append(segs, newSegment(base, l.cfg.SegmentBytes, name, f))
		sizes = append(sizes, info.Size)
	}
	if n := len(segs); n > 0 && sizes[n-1] == 0 {
		segs[n-1].release()
		if err := fsys.Remove(segs[n-1].name); err != nil {
			return segs[:n-1], err
		}
		segs, sizes = segs[:n-1], sizes[:n-1]
		for n--; n > 0 && segs[n-1].hole(); n-- {
			segs, sizes = segs[:n-1], sizes[:n-1]
		}
	}
	return segs, l.complete(segs, sizes)
}

// complete gives short files their full size. That of the last file with data
// was not made or cleared to its end; one in front of it was cut by somebody:
// the zeros that it gets are damage, which whoever reads there finds.
func (l *Log) complete(segs []*segment, sizes []int64) error {
	data := false
	for i := len(segs) - 1; i >= 0; i-- {
		s := segs[i]
		if sizes[i] < s.size {
			if err := s.file.Truncate(s.size); err != nil {
				return err
			}
			if err := s.file.Sync(); err != nil {
				return err
			}
			l.deps.Events(SegmentCompleted{File: s.name, Bytes: sizes[i], Cut: data})
		}
		if data || s.hole() {
			continue
		}
		var head [8]byte
		if _, err := s.file.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		data = head != [8]byte{} // else made ahead of need
	}
	return nil
}

// create makes the file at base, durable with its full size.
func (l *Log) create(base int64) (*segment, error) {
	name := l.segmentName(base)
	f, err := l.deps.FS.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create segment %020d: %w", base, err)
	}
	if err = f.Truncate(l.cfg.SegmentBytes); err == nil {
		if err = f.Sync(); err == nil {
			err = l.deps.FS.SyncDir(l.cfg.Dir)
		}
	}
	if err != nil {
		f.Close()
		return nil, errors.Join(fmt.Errorf("create segment %020d: %w", base, err), l.deps.FS.Remove(name))
	}
	return newSegment(base, l.cfg.SegmentBytes, name, f), nil
}

// takeNext returns the file at base, made ahead of need or now.
func (l *Log) takeNext(base int64) (*segment, error) {
	s, made, err := l.takeNextNow(base)
	if err != nil {
		return nil, err
	}
	if made {
		l.deps.Events(SegmentCreated{Base: base, Bytes: l.cfg.SegmentBytes})
	}
	return s, nil
}

func (l *Log) takeNextNow(base int64) (s *segment, made bool, err error) {
	l.allocMu.Lock()
	defer l.allocMu.Unlock()
	if s = l.next; s == nil {
		if s, err = l.create(base); err != nil {
			return nil, false, err
		}
		made = true
	}
	l.next, l.nextBase = nil, base+l.cfg.SegmentBytes
	return s, made, nil
}

// giveNext puts back a file that takeNext gave but that was not used.
func (l *Log) giveNext(s *segment) {
	l.allocMu.Lock()
	defer l.allocMu.Unlock()
	l.next = s
}

// prepareLoop makes the next file whenever the log has moved on to the last
// one. It ends when stop is closed; a failure is retried by the appender.
func (l *Log) prepareLoop() {
	for {
		select {
		case <-l.stop:
			return
		case <-l.prepareC:
		}
		l.allocMu.Lock()
		base, due := l.nextBase, l.next == nil && l.nextBase > 0
		var err error
		if due {
			l.next, err = l.create(base)
		}
		l.allocMu.Unlock()
		switch {
		case err != nil:
			l.deps.Events(SegmentNotCreated{err})
		case due:
			l.deps.Events(SegmentCreated{Base: base, Bytes: l.cfg.SegmentBytes})
		}
	}
}

// Expire deletes the oldest files that were last written before t and end at
// or before the offset limit, at most n of them and never the last one. It
// returns how many are gone.
func (l *Log) Expire(t time.Time, limit int64, n int) (int, error) {
	for deleted := range n {
		segs := *l.segs.Load()
		if len(segs) < 2 || segs[0].end() > limit {
			return deleted, nil
		}
		info, err := l.deps.FS.Stat(segs[0].name)
		if err != nil {
			return deleted, fmt.Errorf("expire: %w", err)
		}
		if !info.ModTime.Before(t) {
			return deleted, nil
		}
		if err := l.dropOldest(RemovedByAge); err != nil {
			return deleted, fmt.Errorf("expire: %w", err)
		}
	}
	return n, nil
}

// DropOldest deletes the oldest file whatever its age, if it ends at or before
// the offset limit; false when it does not or is the last one.
func (l *Log) DropOldest(limit int64, why RemoveReason) (bool, error) {
	if segs := *l.segs.Load(); len(segs) < 2 || segs[0].end() > limit {
		return false, nil
	}
	return true, l.dropOldest(why)
}

// dropOldest takes the first segment out of the list before the file goes, so
// that no new reader finds it; those that read it keep it open. Holes behind
// it go with it. The folder is synced each time, so a crash cannot bring an
// older file back over a gap.
func (l *Log) dropOldest(why RemoveReason) error {
	var first *segment
	for {
		old := l.segs.Load()
		rest := append([]*segment(nil), (*old)[1:]...)
		for rest[0].hole() {
			rest = rest[1:]
		}
		first = (*old)[0]
		if l.segs.CompareAndSwap(old, &rest) {
			break
		}
	}
	first.release()
	if err := l.deps.FS.Remove(first.name); err != nil {
		return err
	}
	if err := l.deps.FS.SyncDir(l.cfg.Dir); err != nil {
		return err
	}
	l.deps.Events(SegmentRemoved{Base: first.base, Bytes: first.size, Reason: why})
	return nil
}

// addSegment makes a file part of the log.
func (l *Log) addSegment(s *segment) {
	for {
		old := l.segs.Load()
		segs := append(append([]*segment(nil), *old...), s)
		if l.segs.CompareAndSwap(old, &segs) {
			return
		}
	}
}
