package timerlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

const day = 24 * 3600 * 1000

// Statement 52: a unit has 52 bytes, a chain ends with -1, a marker has 16.
func TestUnit_bytes(t *testing.T) {
	u := Unit{Previous: -1, Magic: MagicDefault | MagicRoll, WriteTime: 1700000000000, Delay: 172800000, Offset: 1024, Size: 300, TopicHash: -2, Wanted: 0}
	want := "00000034" + "ffffffffffffffff" + "00000003" + "0000018bcfe56800" + "0a4cb800" + "0000000000000400" + "0000012c" + "fffffffe" + "0000000000000000"
	b := AppendUnit(nil, u)
	if got := hex.EncodeToString(b); got != want || len(b) != 52 {
		t.Errorf("%d bytes\n%s, want\n%s", len(b), got, want)
	}
	if got, err := DecodeUnit(b, 0); err != nil || got != u {
		t.Errorf("read back: %+v, %v", got, err)
	}
	if got, want := hex.EncodeToString(appendMarker(nil, 16)), "00000010"+"0000000000000000"+"cbd43194"; got != want {
		t.Errorf("marker %s, want %s", got, want)
	}
	l, w, _ := newTimers(t)
	for i, want := range []int64{-1, 0, 52} {
		pos, err := Add(l, w, testUnit(7000))
		must(t, err)
		if u, err := l.At(pos); err != nil || u.Previous != want {
			t.Errorf("unit %d: previous %d, %v, want %d", i, u.Previous, err, want)
		}
	}
}

// Statement 52: with RocketMQ's file size the last unit of a file begins at
// 104,857,532 and the marker fills it.
func TestLog_endOfADefaultFile(t *testing.T) {
	l, err := Open(Config{FS: vfs.OS(), Dir: t.TempDir(), FileBytes: DefaultFileBytes}, 0)
	must(t, err)
	defer l.Close()
	must(t, l.create())
	l.end, l.written = 104_857_532, 104_857_532
	for _, want := range []int64{104_857_532, 104_857_600} {
		if pos, err := l.Append(testUnit(1)); err != nil || pos != want {
			t.Fatalf("position %d, %v, want %d", pos, err, want)
		}
	}
	var m [16]byte
	f, err := vfs.OS().Open(l.name(0))
	must(t, err)
	defer f.Close()
	if _, err := f.ReadAt(m[:], 104_857_584); err != nil || hex.EncodeToString(m[:]) != "000000100000000000000000cbd43194" {
		t.Errorf("marker %x, %v", m, err)
	}
}

// Statement 53: the file of the wheel has 38,707,200 bytes, slots count steps
// of time, and their place is that time modulo 1,209,600.
func TestWheel_bytes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "timerwheel")
	w, err := OpenWheel(vfs.OS(), name, 1000)
	must(t, err)
	must(t, w.Put(1700000003000, Slot{First: 52, Last: 104, Num: 2}))
	if _, ok, err := w.Slot(1700000003000 + Slots*1000); ok || err != nil {
		t.Errorf("a time one turn later: %v %v", ok, err)
	}
	must(t, w.Sync())
	must(t, w.Close())
	b, err := vfs.ReadFile(vfs.OS(), name)
	must(t, err)
	if len(b) != 38_707_200 {
		t.Errorf("%d bytes", len(b))
	}
	want := "000000006553f103" + "0000000000000034" + "0000000000000068" + "00000002" + "00000000"
	if got := hex.EncodeToString(b[512003*32:][:32]); got != want {
		t.Errorf("slot %s, want %s", got, want)
	}
	clear(b[512003*32:][:32])
	if !bytes.Equal(b, make([]byte, WheelBytes)) {
		t.Error("other bytes are set, too")
	}
	if _, err := OpenWheel(vfs.OS(), name, 250); err == nil {
		t.Error("a precision of 250 ms was taken")
	}
	must(t, vfs.WriteFile(vfs.OS(), name, make([]byte, 32)))
	if _, err := OpenWheel(vfs.OS(), name, 1000); !errors.Is(err, ErrSize) {
		t.Errorf("file of another length: %v", err)
	}
}

// Statement 54.
func TestOutMs(t *testing.T) {
	for _, c := range []struct{ deliver, precision, want int64 }{
		{1700000003000, 1000, 1700000002000}, {1700000003001, 1000, 1700000003000}, {1700000002999, 1000, 1700000002000},
		{1700000003200, 100, 1700000003100}, {1700000003250, 100, 1700000003200},
	} {
		if got := OutMs(c.deliver, c.precision); got != c.want {
			t.Errorf("OutMs(%d, %d) = %d, want %d", c.deliver, c.precision, got, c.want)
		}
	}
}

// Statement 55: what is due a window ahead or more is rolled.
func TestPlace(t *testing.T) {
	const write, window, hour = int64(1700000000000), int64(172_800), int64(3600 * 1000)
	for _, c := range []struct {
		delay, slot int64
		rolled      bool
	}{
		{2*day - 1000, 2*day - 1000, false},
		{2 * day, day, true},
		{2*day + 8*hour, day, true},
		{2*day + 16*hour - 1000, day, true},
		{2*day + 16*hour, 2 * day, true},
		{3 * day, 2 * day, true},
	} {
		t.Run(fmt.Sprintf("%d h", c.delay/hour), func(t *testing.T) {
			if slot, rolled := Place(write+c.delay, write, 1000, window); slot != write+c.slot || rolled != c.rolled {
				t.Errorf("slot %d ms ahead, rolled %v, want %d %v", slot-write, rolled, c.slot, c.rolled)
			}
		})
	}
}

// The network form and the file of the checkpoint.
func TestCheckpoint_bytes(t *testing.T) {
	c := Checkpoint{1, 2, 3, 4, 5, 6, 7}
	b := AppendCheckpoint(nil, c)
	if len(b) != 56 || b[7] != 1 || b[15] != 2 || b[23] != 3 || b[31] != 4 || b[39] != 5 || b[47] != 6 || b[55] != 7 {
		t.Errorf("%x", b)
	}
	mem := vfs.NewMem(nil)
	must(t, mem.MkdirAll("/config"))
	must(t, mem.SyncDir("/")) // the folder is the business of the store
	if got, err := ReadCheckpoint(mem, "/config/timercheck"); err != nil || got != (Checkpoint{}) {
		t.Errorf("missing: %+v, %v", got, err)
	}
	for _, c := range []Checkpoint{c, {LastReadTimeMs: 9}} {
		must(t, c.Write(mem, "/config/timercheck"))
		crashed := mem.CrashClone(0, 1)
		if got, err := ReadCheckpoint(crashed, "/config/timercheck"); err != nil || got != c {
			t.Errorf("after a power cut: %+v, %v, want %+v", got, err, c)
		}
		if info, err := crashed.Stat("/config/timercheck"); err != nil || info.Size != 4096 {
			t.Errorf("file %+v, %v", info, err)
		}
	}
	b[8] = 0x80
	if _, err := DecodeCheckpoint(b); !errors.Is(err, ErrDamaged) {
		t.Errorf("a negative position: %v", err)
	}
	if _, err := DecodeCheckpoint(b[:55]); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte too few: %v", err)
	}
}
