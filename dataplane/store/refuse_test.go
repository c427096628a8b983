package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// wholeDisk describes every file below the store but those that each start
// writes.
func wholeDisk(t *testing.T, disk *vfs.Mem) string {
	t.Helper()
	var out strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		infos, err := disk.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			if name := dir + "/" + info.Name; info.Dir {
				walk(name)
			} else if info.Name != "lock" && info.Name != "abort" {
				b, err := vfs.ReadFile(disk, name)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&out, "%s %d %x\n", name, len(b), b)
			}
		}
	}
	walk("/store")
	return out.String()
}

// What must not be opened is refused with an error of its own, and stays as
// it is; opened rightly afterwards, it has lost nothing.
func TestOpen_refuses(t *testing.T) {
	d := newDamageStore(t)
	newer := func(disk *vfs.Mem, _ *Config, _ *vfs.Faults) error {
		format := `{"version":2,"segmentBytes":16384,"queueSegmentBytes":1200,"other":[1]}`
		return vfs.WriteFile(disk, "/store/config/"+formatFile, fmt.Appendf(nil, `{"more":1,"sum":%d,"format":%s}`, crc32.ChecksumIEEE([]byte(format)), format))
	}
	all := func(err error) func(*vfs.Mem, *Config, *vfs.Faults) error {
		return func(_ *vfs.Mem, _ *Config, ff *vfs.Faults) error {
			ff.Set(func(op vfs.Op, _ string) (int, error) {
				if op == vfs.OpRead || op == vfs.OpOpen && !errors.Is(err, vfs.ErrTooManyFiles) {
					return 0, nil
				}
				return 0, fmt.Errorf("%s: %w", op, err)
			})
			return nil
		}
	}
	for name, c := range map[string]struct {
		prepare func(disk *vfs.Mem, cfg *Config, ff *vfs.Faults) error
		want    error
		says    string
		undo    func(disk *vfs.Mem) error
	}{
		"written by a newer version": {newer, ErrNewerVersion, "format 2, this program knows formats up to 1", func(disk *vfs.Mem) error {
			return disk.Remove("/store/config/" + formatFile)
		}},
		"other commit log files": {func(_ *vfs.Mem, cfg *Config, _ *vfs.Faults) error { cfg.SegmentBytes *= 2; return nil }, ErrSizes, "store.segment_bytes is 32768, but the store was made with 16384: set it back", nil},
		"other queue files":      {func(_ *vfs.Mem, cfg *Config, _ *vfs.Faults) error { cfg.QueueSegmentBytes *= 2; return nil }, ErrSizes, "store.queue_segment_bytes is 2400, but the store was made with 1200", nil},
		"read-only disk":         {all(vfs.ErrReadOnly), ErrReadOnly, "read-only file system", nil},
		"no more open files":     {all(vfs.ErrTooManyFiles), ErrTooManyFiles, "too many open files", nil},
		"open already": {func(disk *vfs.Mem, cfg *Config, _ *vfs.Faults) error {
			l, err := disk.Lock("/store/lock", nil)
			t.Cleanup(func() { l.Close() })
			return err
		}, ErrLocked, "data directory /store is used by another process", func(disk *vfs.Mem) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			disk := d.disk.CrashClone(1, 1)
			cfg, ff := testConfig(), vfs.NewFaults(disk)
			if err := c.prepare(disk, &cfg, ff); err != nil {
				t.Fatal(err)
			}
			before := wholeDisk(t, disk)
			_, _, err := d.open(ff, cfg)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %v: %s", err, c.want, c.says)
			}
			if after := wholeDisk(t, disk); after != before {
				t.Error("the folder has changed")
			}
			disk = disk.CrashClone(1, 1) // without locks
			if c.undo != nil {
				if err := c.undo(disk); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := d.check(disk, testConfig(), none); err != nil {
				t.Error(err)
			}
		})
	}
}

// Other sizes of the index make it anew; other sizes of a store that never had
// a message are taken.
func TestOpen_takesOtherSizesWhereNothingIsLost(t *testing.T) {
	d := newDamageStore(t)
	cfg := testConfig()
	cfg.IndexSlots, cfg.IndexEntries = 13, 29 // files of the same size
	if _, err := d.check(d.disk.CrashClone(1, 1), cfg, none); err != nil {
		t.Error(err)
	}
	disk := vfs.NewMem(later)
	s, err := Open(testConfig(), Deps{FS: disk, Now: later})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.SegmentBytes *= 2
	if s, err = Open(cfg, Deps{FS: disk, Now: later}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err := ReadFormat(disk, "/store"); f != cfg.format() || err != nil {
		t.Errorf("format %+v, %v", f, err)
	}
}

// The limit of open files may be reached at any step of a start: that is told,
// and takes nothing along, not even what could be made anew.
func TestOpen_noMoreFilesAtAnyStep(t *testing.T) {
	d := newDamageStore(t)
	for fail := 1; ; fail++ {
		disk := d.disk.CrashClone(1, 1)
		ff := vfs.NewFaults(disk)
		n := 0
		ff.Set(func(op vfs.Op, _ string) (int, error) {
			if op == vfs.OpOpen || op == vfs.OpCreate {
				if n++; n >= fail {
					return 0, vfs.ErrTooManyFiles
				}
			}
			return 0, nil
		})
		queues, index := queueFiles(disk), firstFile(disk, "/store/sluice.index")
		s, _, err := d.open(ff, testConfig())
		if err == nil {
			if fail < 10 {
				t.Errorf("only %d files were opened", fail)
			}
			ff.Set(nil)
			s.Close()
			return
		}
		if !errors.Is(err, ErrTooManyFiles) {
			t.Fatalf("file %d: %v", fail, err)
		}
		if queueFiles(disk) != queues || firstFile(disk, "/store/sluice.index") != index {
			t.Errorf("file %d: queues or index have changed", fail)
		}
		if _, err := d.check(disk.CrashClone(1, 1), testConfig(), none); err != nil {
			t.Errorf("file %d: %v", fail, err)
		}
	}
}

// A running store that cannot open another file refuses the append that needs
// it, and goes on when it can.
func TestAppend_noMoreFiles(t *testing.T) {
	ff := vfs.NewFaults(vfs.NewMem(later))
	s, err := Open(testConfig(), Deps{FS: ff, Now: later})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	body := strings.Repeat("b", 5000)
	for range 3 {
		if _, err := s.Append(ctx, msg("T", 0, body), DurabilitySync); err != nil {
			t.Fatal(err)
		}
	}
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		if op == vfs.OpCreate || op == vfs.OpOpen {
			return 0, vfs.ErrTooManyFiles
		}
		return 0, nil
	})
	if _, err := s.Append(ctx, msg("T", 0, body), DurabilitySync); !errors.Is(err, ErrTooManyFiles) {
		t.Errorf("append without files: %v", err)
	}
	ff.Set(nil)
	if a, err := s.Append(ctx, msg("T", 0, body), DurabilitySync); err != nil || a.QueueOffset != 3 {
		t.Errorf("%+v, %v", a, err)
	}
}

// A clock that is wrong by ten years neither deletes messages nor breaks the
// order of store times.
func TestStore_wrongClock(t *testing.T) {
	d := newDamageStore(t)
	for name, wrong := range map[string]time.Duration{"ahead": 10 * 365 * 24 * time.Hour, "behind": -10 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			disk := d.disk.CrashClone(1, 1)
			now := later().Add(wrong)
			seen := &events{}
			s, err := Open(testConfig(), Deps{FS: disk, Now: func() time.Time { return now }, Events: seen.add})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for range 3 {
				if err := s.retain(); err != nil {
					t.Fatal(err)
				}
				a, err := s.Append(ctx, msg("A", 0, "x"), DurabilitySync)
				if err != nil || a.StoreTimestamp < d.newest() {
					t.Fatalf("%+v, %v: older than %d", a, err, d.newest())
				}
				if err := s.dispatch(ctx, s.visible()); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.served(s, none); err != nil {
				t.Error(err)
			}
			if got := of[ClockWrong](seen); len(got) != 1 || got[0].Ahead != (name == "ahead") {
				t.Errorf("the clock is not told of, or too often: %+v", got)
			}
			if name == "behind" {
				return
			}
			// A clock that stays there is believed after another retention.
			now = now.Add(testConfig().Retention + time.Hour)
			if err := s.retain(); err != nil {
				t.Fatal(err)
			}
			if first, _ := s.CommitLogRange(); first == 0 {
				t.Error("nothing is deleted any more")
			}
		})
	}
}
