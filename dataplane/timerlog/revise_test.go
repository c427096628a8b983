package timerlog

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// A power cut leaves a wheel that Revise brings back: every unit that the log
// has, and that is due later than the read time, is in the chain of its slot,
// once, and no other unit is.
func TestRevise_afterAPowerCut(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		mem := vfs.NewMem(nil)
		cfg := Config{FS: mem, Dir: "/timerlog", FileBytes: 20*UnitBytes + 30}
		l, err := Open(cfg, 0)
		must(t, err)
		w, err := OpenWheel(mem, "/timerwheel", 1000)
		must(t, err)
		var synced int64
		for range 100 {
			_, err := Add(l, w, testUnit(rng.Int32N(9)*1000))
			must(t, err)
			if rng.IntN(20) == 0 {
				must(t, l.Sync())
				if rng.IntN(3) > 0 {
					must(t, w.Sync())
					_, synced = l.Range()
				}
			}
		}
		if seed%4 == 3 { // as a RocketMQ that was killed may leave it: the wheel in front of the log
			must(t, w.Sync())
		}
		disk := mem.CrashClone(0.5, seed)
		cfg.FS = disk
		l, err = Open(cfg, synced)
		must(t, err)
		w, err = OpenWheel(disk, "/timerwheel", 1000)
		must(t, err)
		const read = writeTime + 4000
		_, err = Revise(l, w, synced, read)
		must(t, err)
		want := map[int64]int{}
		for _, u := range units(t, l) {
			if u.Due() >= read {
				want[u.Due()]++
			}
		}
		for due := int64(read); due < writeTime+9000; due += 1000 {
			n := 0
			s, ok, err := w.Slot(due)
			must(t, err)
			if ok {
				must(t, Chain(l, w, s, func(int64, Unit) error { n++; return nil }))
			}
			if n != want[due] {
				t.Errorf("seed %d: the chain of %d has %d units, want %d", seed, due-writeTime, n, want[due])
			}
		}
	}
}

// No slot in the file points at a unit that the log did not sync.
func TestWheel_waitsForSync(t *testing.T) {
	l, w, dir := newTimers(t)
	_, err := Add(l, w, testUnit(1000))
	must(t, err)
	again, err := OpenWheel(vfs.OS(), filepath.Join(dir, "timerwheel"), 1000)
	must(t, err)
	defer again.Close()
	if _, ok, err := again.Slot(writeTime + 1000); ok || err != nil {
		t.Errorf("the slot is in the file: %v %v", ok, err)
	}
	must(t, w.Sync())
	if _, ok, err := again.Slot(writeTime + 1000); !ok || err != nil {
		t.Errorf("the slot is not in the file: %v %v", ok, err)
	}
	must(t, w.Clear(writeTime+1000+Slots*1000)) // the same place, a turn later
	if _, ok, _ := w.Slot(writeTime + 1000); !ok {
		t.Error("the slot of another time was cleared")
	}
	must(t, w.Clear(writeTime+1000))
	if _, ok, _ := w.Slot(writeTime + 1000); ok {
		t.Error("a cleared slot is in use")
	}
}
