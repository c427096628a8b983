package store

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// copyStore returns the disk of a store with queue files of 20 entries, so
// that each queue has two.
func copyStore(t *testing.T) (*damageStore, Config) {
	t.Helper()
	cfg := testConfig()
	cfg.QueueSegmentBytes = 400
	return newDamageStoreWith(t, cfg), cfg
}

// Queue files that are gone, empty or zero come back from the log with the old
// offsets, and other queues' files are not touched.
func TestOpen_queueFilesComeBack_B037_B038(t *testing.T) {
	d, cfg := copyStore(t)
	const first, last, more = "/00000000000000000000", "/00000000000000000400", "/00000000000000000800"
	dir := "/store/consumequeue/A/0"
	for name, change := range map[string]func(disk *vfs.Mem) error{
		"zero file behind":     func(disk *vfs.Mem) error { return vfs.WriteFile(disk, dir+more, make([]byte, 400)) },
		"empty file behind":    func(disk *vfs.Mem) error { return vfs.WriteFile(disk, dir+more, nil) },
		"first file missing":   func(disk *vfs.Mem) error { return disk.Remove(dir + first) },
		"last file missing":    func(disk *vfs.Mem) error { return disk.Remove(dir + last) },
		"last file zero":       func(disk *vfs.Mem) error { return vfs.WriteFile(disk, dir+last, make([]byte, 400)) },
		"folder empty":         func(disk *vfs.Mem) error { return errors.Join(disk.Remove(dir+first), disk.Remove(dir+last)) },
		"folder missing":       func(disk *vfs.Mem) error { return disk.RemoveAll(dir) },
		"all folders missing":  func(disk *vfs.Mem) error { return disk.RemoveAll("/store/consumequeue") },
		"index folder missing": func(disk *vfs.Mem) error { return disk.RemoveAll("/store/sluice.index") },
	} {
		for _, unclean := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unclean=%v", name, unclean), func(t *testing.T) {
				disk := d.disk.CrashClone(1, 1)
				want := queueFiles(disk)
				err := change(disk)
				if unclean {
					err = errors.Join(err, vfs.WriteFile(disk, "/store/abort", nil))
				}
				if err != nil {
					t.Fatal(err)
				}
				s, _, err := d.open(disk, cfg)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.served(s, none); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if got := queueFiles(disk); got != want {
					t.Errorf("queue files differ:\n%s\n%s", got, want)
				}
			})
		}
	}
}

// What a start does not look at is noticed by the first who reads it: the
// queue is built anew behind his back, and he comes again.
func TestRead_damagedQueueIsBuiltAnew(t *testing.T) {
	for _, layout := range []QueueLayout{LayoutCompatible, LayoutCompact} {
		cfg := testConfig()
		cfg.QueueSegmentBytes, cfg.QueueLayout = 400, layout
		d := newDamageStoreWith(t, cfg)
		disk := d.disk.CrashClone(1, 1)
		var err error
		if layout == LayoutCompact {
			for page := range int64(4) { // the headers of all pages
				err = errors.Join(err, flipByte(disk, "/store/sluice.queues/00000000000000000000", 1024*page+8, 1))
			}
		} else {
			err = vfs.WriteFile(disk, "/store/consumequeue/A/0/00000000000000000000", make([]byte, 400))
		}
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := d.open(disk, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b, err := s.Read("A", 0, 3, ReadOptions{MaxMessages: 1})
		if layout == LayoutCompact && !errors.Is(err, ErrBuilding) {
			t.Fatalf("%v: %v, %v", layout, b.Status, err)
		}
		b.Release()
		if len(s.suspects) != 1 {
			t.Fatalf("%v: %d queues are suspected", layout, len(s.suspects))
		}
		if err := s.beginRebuild(<-s.suspects); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read("A", 0, 3, ReadOptions{}); !errors.Is(err, ErrBuilding) {
			t.Errorf("%v: read meanwhile: %v", layout, err)
		}
		a, err := s.Append(ctx, msg("A", 0, "meanwhile"), DurabilitySync)
		if err != nil || a.QueueOffset != 33 {
			t.Errorf("%v: append meanwhile: %+v, %v", layout, a, err)
		}
		if err := errors.Join(s.dispatch(ctx, s.visible()), s.saveProgress(true)); err != nil {
			t.Fatal(err)
		}
		// A power cut in the middle takes nothing along.
		crashed, _, err := d.open(disk.CrashClone(0, 1), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for q := 0; q < 2; q++ { // in the compact layout the damage is found again
			_, _ = crashed.Read("A", 0, 3, ReadOptions{})
			if len(crashed.suspects) > 0 {
				err = errors.Join(err, crashed.beginRebuild(<-crashed.suspects))
			}
			err = errors.Join(err, crashed.finishRebuild(ctx))
		}
		if got := bodies(t, crashed, "A", 0); err != nil || len(got) != 34 || got[33] != "meanwhile" {
			t.Errorf("%v: after a power cut %d messages, %v", layout, len(got), err)
		}
		crashed.Close()
		if err := s.finishRebuild(ctx); err != nil {
			t.Fatal(err)
		}
		if got := bodies(t, s, "A", 0); len(got) != 34 || got[33] != "meanwhile" {
			t.Errorf("%v: %d messages", layout, len(got))
		}
		if layout == LayoutCompatible {
			if err := d.served(s, none); err != nil {
				t.Errorf("%v: %v", layout, err)
			}
		}
	}
}

// Ids and keys find their messages after a clean stop, after a kill, and with
// the index gone.
func TestFindByKey_afterEveryKindOfStart_B032(t *testing.T) {
	d, cfg := copyStore(t)
	for _, how := range []string{"clean", "killed", "index gone", "index gone and killed"} {
		disk := d.disk.CrashClone(1, 1)
		var err error
		if strings.Contains(how, "gone") {
			err = disk.RemoveAll("/store/sluice.index")
		}
		if strings.Contains(how, "killed") {
			err = errors.Join(err, vfs.WriteFile(disk, "/store/abort", nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := d.open(disk, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.indexTo(ctx, s.visible()); err != nil {
			t.Fatal(err)
		}
		for _, m := range d.all {
			found, err := s.FindByKey(ctx, KeyQuery{Topic: m.topic, Key: m.key, To: math.MaxInt64, Max: 2})
			if err != nil || len(found) != 1 {
				t.Fatalf("%s: key %s: %d found, %v", how, m.key, len(found), err)
			}
			if rec, err := s.ReadAt(m.phys); err != nil || string(rec) != string(found[0]) {
				t.Fatalf("%s: by offset: %v", how, err)
			}
		}
		s.Close()
	}
}

// Each file of progress, cut, emptied or filled with zeros, one at a time: the
// copy is used, or a start refuses; nothing is taken for "never was there".
func TestLoadConfig_damagedInEveryWay_B033(t *testing.T) {
	disk := vfs.NewMem(later)
	s, err := Open(testConfig(), Deps{FS: disk, Now: later})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{`{"offset":1}`, `{"offset":2}`} {
		if err := s.SaveConfig("progress.json", []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	const file = "/store/config/progress.json"
	for _, how := range fileDamages {
		if how.name == "too long" {
			continue // zeros behind JSON: as "foreign"
		}
		for _, both := range []bool{false, true} {
			c := disk.CrashClone(1, 1)
			err := how.change(c, file)
			if both {
				err = errors.Join(err, how.change(c, file+".bak"))
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(testConfig(), Deps{FS: c, Now: later})
			if err != nil {
				t.Fatal(err)
			}
			data, err := s.LoadConfig("progress.json")
			switch {
			case !both && (err != nil || string(data) != `{"offset":1}`):
				t.Errorf("%s: %q, %v; want the version before", how.name, data, err)
			case both && how.name != "missing" && !errors.Is(err, ErrConfigDamaged):
				t.Errorf("%s with its copy: %q, %v", how.name, data, err)
			}
			s.Close()
		}
	}
}

// A search by time finds every message that is there, also beside a hole.
func TestOffsetByTime_besideAHole(t *testing.T) {
	d, cfg := copyStore(t)
	for _, change := range []func(disk *vfs.Mem) error{
		func(disk *vfs.Mem) error { return disk.Remove("/store/commitlog/00000000000000016384") },
		func(disk *vfs.Mem) error {
			return vfs.WriteFile(disk, "/store/commitlog/00000000000000016384", make([]byte, 16384))
		},
		func(disk *vfs.Mem) error {
			return flipByte(disk, "/store/commitlog/00000000000000016384", d.all[50].phys-16384+4, 1)
		},
	} {
		disk := d.disk.CrashClone(1, 1)
		if err := change(disk); err != nil {
			t.Fatal(err)
		}
		s, _, err := d.open(disk, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range d.all {
			if _, err := s.ReadAt(m.phys); err != nil {
				continue
			}
			stored := d.newest() - int64(len(d.all)-1-i)*10_000
			for _, b := range []Boundary{BoundaryLower, BoundaryUpper} {
				if at, err := s.OffsetByTime(m.topic, m.queue, stored, b); b == BoundaryUpper && (err != nil || at != m.offset) ||
					b == BoundaryLower && (err != nil || at > m.offset || at < m.offset-40) {
					t.Errorf("message %d of %s queue %d, boundary %d: found at %d, %v", m.offset, m.topic, m.queue, b, at, err)
				}
			}
		}
		s.Close()
	}
}
