package store

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// meteredFS counts the bytes that are read from commit log files.
type meteredFS struct {
	vfs.FS
	read atomic.Int64
}

type meteredFile struct {
	vfs.File
	m *meteredFS
}

func (m *meteredFS) Open(name string) (vfs.File, error) {
	f, err := m.FS.Open(name)
	if err != nil || !strings.Contains(name, "/commitlog/") {
		return f, err
	}
	return &meteredFile{f, m}, nil
}

func (f *meteredFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.m.read.Add(int64(n))
	return n, err
}

// After a kill a start reads what came since the checkpoint, and not more when
// the log in front of it is ten times as long.
func TestOpen_readsWhatCameSinceTheCheckpoint_B195(t *testing.T) {
	for _, layout := range []QueueLayout{LayoutCompatible, LayoutCompact} {
		var read []int64
		for _, messages := range []int{300, 3000} {
			now := time.UnixMilli(1_700_000_000_000)
			mem := vfs.NewMem(func() time.Time { return now })
			cfg := testConfig()
			cfg.SegmentBytes, cfg.QueueLayout = 256<<10, layout
			s, err := Open(cfg, Deps{FS: mem, Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			body := strings.Repeat("b", 1000)
			send := func(n int) {
				for i := range n {
					now = now.Add(10 * time.Millisecond)
					if _, err := s.Append(ctx, msg("T", int32(i%4), body), DurabilitySync); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.dispatch(ctx, s.visible()); err != nil {
					t.Fatal(err)
				}
			}
			send(messages)
			if err := s.saveProgress(true); err != nil {
				t.Fatal(err)
			}
			since := s.clog.Written()
			send(20)
			since = s.clog.Written() - since
			m := &meteredFS{FS: mem.CrashClone(1, 1)}
			s.Close()
			if s, err = Open(cfg, Deps{FS: m, Now: func() time.Time { return now }}); err != nil {
				t.Fatal(err)
			}
			got := m.read.Load()
			if _, hi := s.QueueOffsets("T", 0); hi != int64(messages+20)/4 {
				t.Errorf("%v: queue ends at %d", layout, hi)
			}
			s.Close()
			// A chunk that goes on behind the end, twice, the begins of files, and
			// the rest of the last one, for what is cut off is kept.
			if limit := since + 7*cfg.SegmentBytes/2; got > limit {
				t.Errorf("%v, %d messages: %d bytes were read, %d came since the checkpoint", layout, messages, got, since)
			}
			read = append(read, got)
		}
		if read[1] > read[0]+int64(64<<10) {
			t.Errorf("%v: %d bytes were read of the short log, %d of the long one", layout, read[0], read[1])
		}
	}
}
