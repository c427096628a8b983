package broker

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// unpack puts the files of an archive into dir, without the archive's own top
// folder.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(filepath.ToSlash(filepath.Clean("/" + h.Name))[1:], "/")
		if h.FileInfo().IsDir() || name == "" {
			continue
		}
		data, err := io.ReadAll(tr)
		path := filepath.Join(dir, name)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, data, 0o640)); err != nil {
			t.Fatal(err)
		}
	}
}

// A folder that RocketMQ recorded goes on here: what waited there comes at its
// time, what was taken back there does not, and what was rolled is rolled again.
func TestTimer_goesOnWithRocketMQsFiles(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "../store/testdata/store-basic.tar.gz", dir)
	unpack(t, "../timerlog/testdata/store-basic-timer.tar.gz", dir)
	const read = int64(1_795_962_406_000)
	now := read + 500
	clock := func() time.Time { return time.UnixMilli(now) }
	sc := store.DefaultConfig()
	sc.Dir, sc.SegmentBytes, sc.QueueSegmentBytes, sc.Preallocate = dir, 1<<20, 2000, false
	sc.IndexSlots, sc.IndexEntries, sc.IndexCompatible = 100, 200, true
	sc.StoreHost = netip.MustParseAddrPort("127.0.0.1:10911")
	s, err := store.Open(sc, store.Deps{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	cfg := testConfig()
	cfg.Dir, cfg.TimerDir = t.TempDir(), dir
	b, err := New(cfg, Deps{Store: s, FS: vfs.OS(), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close(); cancel(); <-done; _ = s.Close() }()
	_, before := s.CommitLogRange()
	// tick returns the real topics of what was written meanwhile.
	tick := func() (topics []string) {
		t.Helper()
		for last := int64(-1); last != before; {
			b.timers.tick(t.Context())
			_, end := s.CommitLogRange()
			for s.Dispatched() < end {
				time.Sleep(time.Millisecond)
			}
			for last = before; before < end; {
				rec, err := s.ReadAt(before)
				if err != nil {
					t.Fatal(err)
				}
				f, err := message.Parse(rec)
				if err != nil {
					t.Fatal(err)
				}
				topics = append(topics, string(f.Topic))
				before += int64(len(rec))
			}
		}
		return topics
	}
	if got := b.TimerStats(); got.Pending != 4 {
		t.Errorf("%+v, want 4 that wait", got)
	}
	type step struct {
		ms   int64
		want int // messages written
	}
	var all []string
	for _, c := range []step{{read + 500, 0}, {1_795_969_387_999, 0}, {1_795_969_388_000, 2}, {1_795_969_488_000, 0}} {
		now = c.ms
		got := tick()
		if len(got) != c.want {
			t.Errorf("at %d: %v were written, want %d", c.ms, got, c.want)
		}
		all = append(all, got...)
	}
	if slices.Contains(all, TimerTopic) {
		t.Errorf("written: %v", all)
	}
	if got := b.TimerStats(); got.Dropped[dropCancelled] != 1 || got.Pending != 1 {
		t.Errorf("%+v, want one taken back and one that waits", got)
	}
	now = 1_796_134_988_000 + 1000
	if got := tick(); !slices.Equal(got, []string{TimerTopic}) {
		t.Errorf("when the rolled one's slot came: %v", got)
	}
	now += 86_400_000
	if got := tick(); len(got) != 1 || got[0] == TimerTopic {
		t.Errorf("three days after it was sent: %v", got)
	}
}
