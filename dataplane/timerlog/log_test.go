package timerlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// testFileBytes has room for five units and, behind them, 24 bytes.
const testFileBytes = 5*UnitBytes + 24

const writeTime = 1_700_000_000_000

func testUnit(delay int32) Unit {
	return Unit{Previous: -1, Magic: MagicDefault, WriteTime: writeTime, Delay: delay, Offset: 100, Size: 200, TopicHash: 3}
}

// newTimers makes a small log and a wheel in a folder of the disk.
func newTimers(t *testing.T) (*Log, *Wheel, string) {
	t.Helper()
	dir := t.TempDir()
	l, err := Open(Config{FS: vfs.OS(), Dir: filepath.Join(dir, "timerlog"), FileBytes: testFileBytes}, 0)
	must(t, err)
	w, err := OpenWheel(vfs.OS(), filepath.Join(dir, "timerwheel"), 1000)
	must(t, err)
	t.Cleanup(func() { l.Close(); w.Close() })
	return l, w, dir
}

// units reads a log and compares what Each and At say.
func units(t *testing.T, l *Log) (out []Unit) {
	t.Helper()
	must(t, l.Each(0, func(pos int64, u Unit) error {
		if at, err := l.At(pos); err != nil || at != u {
			t.Errorf("unit at %d: %+v, %v, want %+v", pos, at, err, u)
		}
		out = append(out, u)
		return nil
	}))
	return out
}

func TestLog_manyFiles(t *testing.T) {
	l, _, dir := newTimers(t)
	var want []int64
	for i := range int32(23) {
		pos, err := l.Append(testUnit(i))
		must(t, err)
		want = append(want, pos)
		if exp := int64(i)/5*testFileBytes + int64(i)%5*UnitBytes; pos != exp {
			t.Errorf("unit %d at %d, want %d", i, pos, exp)
		}
		if u, err := l.At(pos); err != nil || u.Delay != i {
			t.Errorf("unit %d read at once: %+v, %v", i, u, err)
		}
	}
	must(t, l.Sync())
	_, end := l.Range()
	for _, synced := range []int64{0, want[3], end} {
		again, err := Open(l.cfg, synced)
		must(t, err)
		if got := units(t, again); len(got) != 23 || got[22].Delay != 22 {
			t.Errorf("synced %d: %d units", synced, len(got))
		}
		must(t, again.Close())
	}
	must(t, l.DropBefore(want[12]))
	if first, _ := l.Range(); first != 2*testFileBytes {
		t.Errorf("the log begins at %d", first)
	}
	if infos, err := vfs.OS().ReadDir(filepath.Join(dir, "timerlog")); err != nil || len(infos) != 3 {
		t.Errorf("files %v, %v", infos, err)
	}
	must(t, l.DropBefore(end+testFileBytes))
	if got := units(t, l); len(got) != 3 {
		t.Errorf("the newest file has %d units, want 3", len(got))
	}
	for _, pos := range []int64{want[12], end, want[21] + 1, -1} {
		if _, err := l.At(pos); !errors.Is(err, ErrDamaged) {
			t.Errorf("At(%d): %v", pos, err)
		}
	}
	if pos, err := l.Append(testUnit(23)); err != nil || pos != end {
		t.Errorf("the next unit is at %d, %v, want %d", pos, err, end)
	}
}

// A log whose files do not fit is not opened, and the message names the file.
func TestOpen_filesThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, l *Log) (synced int64)
		want  error
		text  string
	}{
		{"other size", func(t *testing.T, l *Log) int64 { return resize(t, l.name(0), testFileBytes-1) }, ErrSize, "00000000000000000000 has 283 bytes"},
		{"short newest file", func(t *testing.T, l *Log) int64 { return resize(t, l.name(2*testFileBytes), 100) }, ErrSize, "00000000000000000568 has 100 bytes"},
		{"file missing", func(t *testing.T, l *Log) int64 { must(t, vfs.OS().Remove(l.name(testFileBytes))); return 0 }, ErrDamaged, "follows one that ends at 284"},
		{"newest synced file missing", func(t *testing.T, l *Log) int64 {
			must(t, vfs.OS().Remove(l.name(2*testFileBytes)))
			return 2*testFileBytes + UnitBytes
		}, ErrDamaged, "ends at 568, but was synced up to 620"},
		{"synced unit damaged", func(t *testing.T, l *Log) int64 {
			overwrite(t, l.name(2*testFileBytes), 0, 0xFF)
			return 2*testFileBytes + UnitBytes
		}, ErrDamaged, "ends at 568"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _, _ := newTimers(t)
			for i := range int32(12) {
				_, err := l.Append(testUnit(i))
				must(t, err)
			}
			must(t, l.Sync())
			must(t, l.Close())
			_, err := Open(l.cfg, c.spoil(t, l))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
		})
	}
}

func resize(t *testing.T, name string, size int64) int64 {
	t.Helper()
	f, err := vfs.OS().Open(name)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
	return 0
}

// overwrite changes a byte of a file and returns what it was.
func overwrite(t *testing.T, name string, at int64, b byte) byte {
	t.Helper()
	f, err := vfs.OS().Open(name)
	must(t, err)
	defer f.Close()
	var was [1]byte
	_, err = f.ReadAt(was[:], at)
	must(t, err)
	_, err = f.WriteAt([]byte{b}, at)
	must(t, err)
	return was[0]
}

// Every field of a unit that cannot be is named, and cuts the log when it was
// not synced.
func TestDecodeUnit_everyField(t *testing.T) {
	good := AppendUnit(nil, Unit{Previous: 52, Magic: 1, WriteTime: writeTime, Delay: 5, Offset: 1, Size: 2})
	for _, c := range []struct {
		field string
		at    int
		bytes []byte
	}{
		{"size", 3, []byte{53}}, {"previous", 4, []byte{0x80}}, {"previous", 11, []byte{104}}, {"magic", 15, []byte{0}}, {"magic", 15, []byte{2}}, {"magic", 14, []byte{1}},
		{"write time", 16, make([]byte, 8)}, {"write time", 16, []byte{0x80}}, {"commit log offset", 28, []byte{0x80}}, {"record size", 36, make([]byte, 4)}, {"record size", 36, []byte{0x80}},
	} {
		b := append([]byte{}, good...)
		copy(b[c.at:], c.bytes)
		if _, err := DecodeUnit(b, 104); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), ": "+c.field+" is ") {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	if _, err := DecodeUnit(good[:51], 104); !errors.Is(err, ErrDamaged) {
		t.Errorf("51 bytes: %v", err)
	}
}

// A power cut at any step leaves what was synced, in order, and nothing that
// was not appended; what is appended then is not followed by anything old.
func TestLog_crashAtEveryStep(t *testing.T) {
	mem := vfs.NewMem(nil)
	ff := vfs.NewFaults(mem)
	cfg := Config{FS: ff, Dir: "/timerlog", FileBytes: 20*UnitBytes + 30}
	var appended int32
	var syncedUnits int
	var synced int64
	steps := 0
	check := func() {
		steps++
		for i, keep := range []float64{0, 0.5, 0.9, 1} {
			seed := uint64(10*steps + i)
			c := cfg
			disk := mem.CrashClone(keep, seed)
			c.FS = disk
			for round := range int32(2) {
				l, err := Open(c, synced)
				if err != nil {
					t.Errorf("seed %d, step %d, keep %v: %v", seed, steps, keep, err)
					return
				}
				got := units(t, l)
				if len(got) < syncedUnits || len(got) > int(appended)+1+int(round) {
					t.Errorf("seed %d, step %d, keep %v: %d units, %d synced, %d appended", seed, steps, keep, len(got), syncedUnits, appended)
				}
				for n, u := range got {
					if u.Delay != int32(n) {
						t.Fatalf("seed %d, step %d, keep %v: unit %d is %+v", seed, steps, keep, n, u)
					}
				}
				_, err = l.Append(testUnit(int32(len(got))))
				must(t, err)
				must(t, l.Sync())
				must(t, l.Close())
				disk = disk.CrashClone(0, seed)
				c.FS = disk
			}
		}
	}
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		if op != vfs.OpRead && op != vfs.OpOpen {
			check()
		}
		return 0, nil
	})
	l, err := Open(cfg, 0)
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for ; appended < 130; appended++ {
		_, err := l.Append(testUnit(appended))
		must(t, err)
		switch rng.IntN(6) {
		case 0:
			must(t, l.Sync())
			_, synced = l.Range()
			syncedUnits = int(appended) + 1
		case 1:
			must(t, l.write())
		}
	}
	ff.Set(nil)
	if steps < 60 {
		t.Errorf("only %d steps", steps)
	}
}

// Whole units behind a torn one were written before the power cut: they must
// not follow what is written in the torn one's place.
func TestOpen_nothingOldFollows(t *testing.T) {
	l, _, _ := newTimers(t)
	for i := range int32(8) {
		_, err := l.Append(testUnit(i))
		must(t, err)
	}
	must(t, l.Sync())
	must(t, l.Close())
	overwrite(t, l.name(0), 2*UnitBytes, 0xFF)
	cut, err := Open(l.cfg, 2*UnitBytes)
	must(t, err)
	_, err = cut.Append(testUnit(100))
	must(t, err)
	must(t, cut.Sync())
	must(t, cut.Close())
	again, err := Open(l.cfg, 0)
	must(t, err)
	defer again.Close()
	got := units(t, again)
	if len(got) != 3 || got[2].Delay != 100 {
		t.Errorf("%d units, %+v", len(got), got)
	}
}

// A full disk refuses the unit and keeps what there is; with room again it
// goes on.
func TestLog_failedStepsLeaveNoHole(t *testing.T) {
	ff := vfs.NewFaults(vfs.NewMem(nil))
	l, err := Open(Config{FS: ff, Dir: "/timerlog", FileBytes: testFileBytes}, 0)
	must(t, err)
	n, failed := 0, 0
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		if n++; n%7 == 0 && op != vfs.OpRead && op != vfs.OpOpen && op != vfs.OpRemove {
			failed++
			return 0, vfs.ErrNoSpace
		}
		return 0, nil
	})
	var added int32
	for range 200 {
		if _, err := l.Append(testUnit(added)); err == nil {
			added++
		} else if !errors.Is(err, vfs.ErrNoSpace) {
			t.Fatal(err)
		}
	}
	ff.Set(nil)
	if failed < 5 || added < 140 {
		t.Errorf("%d steps failed, %d units were added", failed, added)
	}
	must(t, l.Sync())
	again, err := Open(l.cfg, l.end)
	must(t, err)
	for i, u := range units(t, again) {
		if u.Delay != int32(i) {
			t.Fatalf("unit %d is %+v", i, u)
		}
	}
}

// The wheel equals a map, while pages are written and read again.
func TestWheel_equalsAMap(t *testing.T) {
	_, w, dir := newTimers(t)
	rng := rand.New(rand.NewPCG(3, 4))
	want := map[int64]Slot{}
	for i := range 20_000 {
		time := writeTime + rng.Int64N(2*Slots)*1000
		if rng.IntN(3) > 0 {
			s := Slot{First: int64(i), Last: int64(i + 1), Num: 1}
			must(t, w.Put(time, s))
			s.Time = time / 1000
			want[s.Time%Slots] = s
		}
		s := want[time/1000%Slots]
		if got, ok, err := w.Slot(time + 999); err != nil || ok != (s.Time == time/1000) || ok && got != s {
			t.Fatalf("step %d, slot of %d: %+v %v %v, want %+v", i, time, got, ok, err, s)
		}
		if i%997 == 0 {
			must(t, w.Sync())
		}
	}
	must(t, w.Sync())
	again, err := OpenWheel(vfs.OS(), filepath.Join(dir, "timerwheel"), 1000)
	must(t, err)
	defer again.Close()
	n := 0
	must(t, again.Each(func(s Slot) error {
		if n++; s != want[s.Time%Slots] {
			t.Errorf("slot %+v, want %+v", s, want[s.Time%Slots])
		}
		return nil
	}))
	if n != len(want) {
		t.Errorf("%d slots, want %d", n, len(want))
	}
}

// Check finds what was changed in the recorded files, and where.
func TestCheck_namesTheDamage(t *testing.T) {
	const log, wheel = "timerlog/00000000000000000000", "timerwheel"
	dir, _ := golden(t)
	before := readAll(t, dir)
	slot := int64(922987 * SlotBytes) // two waiting messages, at 156 and 208
	for _, c := range []struct {
		file string
		at   int64
		b    byte
		want string
	}{
		{log, 156 + 3, 51, "timerlog at 0: timer log"},
		{log, 208 + 15, 8, "timerlog at 0: timer log"},
		{log, 208 + 27, 1, "timerwheel at 29535584: timer unit at 208 is due at"},
		{log, 208 + 11, 52, "timerwheel at 29535584: timer unit at 52 is due at"},
		{wheel, slot + 15, 0, "timerwheel at 29535584: the slot says that its first unit is at 0, it is at 156"},
		{wheel, slot + 23, 209, "timerwheel at 29535584: no timer unit begins at 209"},
		{wheel, slot + 7, 0xFF, "timer unit at 208 is due at"},
		{"config/timercheck", 8, 0x80, "config/timercheck at 0: timer checkpoint: number 2"},
		{"config/timercheck", 14, 4, "timerlog at 0: timer log"},
	} {
		t.Run(fmt.Sprintf("%s at %d", filepath.Base(c.file), c.at), func(t *testing.T) {
			was := overwrite(t, filepath.Join(dir, c.file), c.at, c.b)
			var got []string
			must(t, Check(vfs.OS(), dir, goldenFileBytes, func(file string, at int64, what string) {
				got = append(got, fmt.Sprintf("%s at %d: %s", file, at, what))
			}))
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			overwrite(t, filepath.Join(dir, c.file), c.at, was)
		})
	}
	same(t, readAll(t, dir), before)
}

func FuzzDecodeUnit(f *testing.F) {
	f.Add(AppendUnit(nil, testUnit(4)), int64(52))
	f.Add([]byte{}, int64(-1))
	f.Fuzz(func(t *testing.T, b []byte, pos int64) {
		u, err := DecodeUnit(b, pos)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		again := AppendUnit(nil, u)
		if got, err := DecodeUnit(again, pos); err != nil || got != u || string(again[:44]) != string(b[:44]) {
			t.Fatalf("%+v is read again as %+v, %v", u, got, err)
		}
	})
}

func FuzzDecodeSlot(f *testing.F) {
	f.Add(make([]byte, SlotBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= SlotBytes && string(AppendSlot(nil, DecodeSlot(b))) != string(b[:SlotBytes]) {
			t.Fatalf("%x is written as %+v", b, DecodeSlot(b))
		}
	})
}

func FuzzDecodeCheckpoint(f *testing.F) {
	f.Add(AppendCheckpoint(nil, Checkpoint{1, 2, 3, 4, 5, 6, 7}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeCheckpoint(b); err == nil && string(AppendCheckpoint(nil, c)) != string(b[:CheckpointBytes]) {
			t.Fatalf("%x is written as %+v", b, c)
		}
	})
}

// Any bytes as files: Open and everything after it end with an error or what
// the bytes say, and never loop: previous positions only fall.
func FuzzOpen(f *testing.F) {
	file := AppendUnit(nil, testUnit(1))
	for i := range int64(4) {
		u := testUnit(1)
		u.Previous = i * UnitBytes
		file = AppendUnit(file, u)
	}
	f.Add(append(appendMarker(file, 24), make([]byte, 8)...), int64(0), int64(208))
	f.Add(make([]byte, testFileBytes+1), int64(1), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, synced, last int64) {
		mem := vfs.NewMem(nil)
		must(t, mem.MkdirAll("/timerlog"))
		for base := int64(0); base == 0 || base < int64(len(b)); base += testFileBytes {
			must(t, vfs.WriteFile(mem, fmt.Sprintf("/timerlog/%020d", base), b[base:min(base+testFileBytes, int64(len(b)))]))
		}
		l, err := Open(Config{FS: mem, Dir: "/timerlog", FileBytes: testFileBytes}, synced)
		if err != nil {
			return
		}
		first, end := l.Range()
		must(t, l.Each(0, func(pos int64, _ Unit) error { _, err := l.At(pos); return err }))
		if first < 0 || end > int64(len(b)) || end < synced {
			t.Fatalf("range %d to %d of %d bytes, synced %d", first, end, len(b), synced)
		}
		w := &Wheel{precision: 1000}
		err = Chain(l, w, Slot{Time: (writeTime + 1) / 1000, Last: last}, func(pos int64, _ Unit) error {
			if pos > last {
				t.Fatalf("chain from %d goes up to %d", last, pos)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
	})
}
