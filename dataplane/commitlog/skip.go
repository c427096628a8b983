package commitlog

import (
	"fmt"

	"github.com/sluicemq/sluice/dataplane/message"
)

// SkipTo has the log go on in a new file: the first that begins at or behind
// off, and behind the end of the log. What was in between is lost, and its
// offsets go to no other record: reads of them say that nothing is there, and a
// file that is brought back later finds its place free. It returns the new end
// of the log. Call it after Recover and before Start.
func (l *Log) SkipTo(off int64) (int64, error) {
	segs := append([]*segment(nil), *l.segs.Load()...)
	end := l.written.Load()
	next := l.fileBase(off)
	if n := len(segs); n > 0 {
		last := segs[n-1]
		if end < last.end() {
			var marker [message.BlankBytes]byte
			message.PutBlank(marker[:], int32(last.end()-end))
			if _, err := last.file.WriteAt(marker[:], end-last.base); err != nil {
				return end, fmt.Errorf("end file %s: %w", last.name, full(err))
			}
			if err := last.file.Sync(); err != nil {
				return end, fmt.Errorf("end file %s: %w", last.name, err)
			}
		}
		next = max(next, last.end())
		if missing := (next - last.end()) / l.cfg.SegmentBytes; missing > maxHoles {
			return end, fmt.Errorf("offset %d is %d files behind %s, at most %d may be missing", off, missing, last.name, maxHoles)
		}
		for base := last.end(); base < next; base += l.cfg.SegmentBytes {
			segs = append(segs, newSegment(base, l.cfg.SegmentBytes, l.segmentName(base), nil))
		}
	}
	s, err := l.create(next)
	if err != nil {
		return end, full(err)
	}
	l.deps.Events(SegmentCreated{Base: next, Bytes: l.cfg.SegmentBytes})
	segs = append(segs, s)
	l.segs.Store(&segs)
	l.setEnd(Recovered{End: next, LastTime: l.writtenTime.Load()})
	return next, nil
}

// fileBase is the first offset at or behind off at which a file may begin.
func (l *Log) fileBase(off int64) int64 {
	if rest := off % l.cfg.SegmentBytes; rest != 0 {
		return off - rest + l.cfg.SegmentBytes
	}
	return off
}
