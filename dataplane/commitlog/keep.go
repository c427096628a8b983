package commitlog

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Keep says where a recovery puts copies of what it cuts off. Not only whole
// records are kept: one with a damaged byte is no record any more, and just
// that is what somebody will want to look at.
type Keep struct {
	Dir   string // below the folder that holds the log's folder; made when it is needed
	Bytes int64  // of copies at most; what is beyond is lost, with an event
}

// Kept is a copy of bytes that were cut off. The file holds nothing but them.
type Kept struct {
	Range
	File string // in Keep.Dir, named like a file of the log by the offset of its first byte
}

// keep copies what stands behind the end, without zeros, and makes the copies
// durable. That the disk is full does not keep the log from being opened.
// After a clean stop a file whose next bytes are zero is zero to its end.
func (l *Log) keep(out *Recovered, k Keep, clean bool) error {
	if k.Dir == "" {
		return nil
	}
	for _, s := range *l.segs.Load() {
		if s.hole() || s.end() <= out.End {
			continue
		}
		from := max(out.End, s.base)
		if clean {
			if zero, err := s.zeroFrom(from); err != nil || zero {
				if err != nil {
					return err
				}
				continue
			}
		}
		end, err := vfs.ContentEnd(s.file, from-s.base)
		if err != nil {
			return fmt.Errorf("look for what is cut off %s: %w", s.name, err)
		}
		end += s.base
		if end == from {
			continue
		}
		if end-from > k.Bytes {
			l.deps.Events(TailNotKept{From: from, To: end, Err: fmt.Errorf("%s is full: remove old copies", filepath.Dir(filepath.Dir(k.Dir)))})
			continue
		}
		name := filepath.Join(k.Dir, fmt.Sprintf("%020d", from))
		err = l.copyOut(s, from, end, name)
		if errors.Is(err, vfs.ErrNoSpace) {
			l.deps.Events(TailNotKept{From: from, To: end, Err: err})
			continue
		}
		if err != nil {
			return fmt.Errorf("copy what is cut off %s: %w", s.name, err)
		}
		k.Bytes -= end - from
		out.Kept = append(out.Kept, Kept{Range{from, end}, name})
		l.deps.Events(TailKept{From: from, To: end, File: name})
	}
	return nil
}

// copyOut copies bytes of a file into a new one, durably with its folders.
func (l *Log) copyOut(s *segment, from, to int64, name string) (err error) {
	fsys, root := l.deps.FS, filepath.Dir(filepath.Clean(l.cfg.Dir))
	if err := fsys.MkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			err = errors.Join(err, fsys.Remove(name))
		}
	}()
	b := make([]byte, scanChunk)
	for at := from; at < to; at += int64(len(b)) {
		b = b[:min(int64(len(b)), to-at)]
		if _, err := s.file.ReadAt(b, at-s.base); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, at-from); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if err := fsys.SyncDir(dir); err != nil || dir == root || dir == filepath.Dir(dir) {
			return err
		}
	}
}
