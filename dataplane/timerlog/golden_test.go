package timerlog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// recorded is what stands in the recorded files, by another decoder.
type recorded struct {
	Timercheck struct {
		LastReadTimeMs, LastTimerLogFlushPos, LastTimerQueueOffset, MasterTimerQueueOffset, StateVersion, Timestamp, Counter int64
	}
	Timerlog struct {
		Units []struct {
			Position, PrevPos, CurrWriteTime, PhysicalOffset int64
			Magic, DelayTime, Size, TopicHash                int32
		}
	}
	Timerwheel struct {
		NonZeroSlots []struct {
			Slot, Time, FirstPos, LastPos int64
			Num, Magic                    int32
		}
	}
}

const (
	goldenFileBytes = 65536
	goldenPrecision = 1000
)

// golden unpacks the recorded timer files of store-basic.
func golden(t *testing.T) (string, recorded) {
	t.Helper()
	f, err := os.Open("testdata/store-basic-timer.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.FileInfo().IsDir() {
			continue
		}
		data, err := io.ReadAll(tr)
		must(t, err)
		must(t, os.MkdirAll(filepath.Dir(path), 0o750))
		must(t, os.WriteFile(path, data, 0o640))
	}
	var r recorded
	data, err := os.ReadFile("testdata/store-basic-timer.json")
	must(t, err)
	must(t, json.Unmarshal(data, &r))
	return filepath.Join(dir, "store-basic"), r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openGolden(t *testing.T, dir string) (*Log, *Wheel) {
	t.Helper()
	cp, err := ReadCheckpoint(vfs.OS(), filepath.Join(dir, "config", "timercheck"))
	must(t, err)
	l, err := Open(Config{FS: vfs.OS(), Dir: filepath.Join(dir, "timerlog"), FileBytes: goldenFileBytes}, cp.LastTimerLogFlushPos)
	must(t, err)
	w, err := OpenWheel(vfs.OS(), filepath.Join(dir, "timerwheel"), goldenPrecision)
	must(t, err)
	t.Cleanup(func() { l.Close(); w.Close() })
	return l, w
}

func readAll(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, name := range []string{"timerwheel", "timerlog/00000000000000000000", "config/timercheck"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		out[name] = b
	}
	return out
}

func same(t *testing.T, got, want map[string][]byte) {
	t.Helper()
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s differs from what RocketMQ wrote", name)
		}
	}
}

// Every unit, slot and number of the recorded files is found, and opening and
// closing them changes no byte.
func TestGolden_read(t *testing.T) {
	dir, want := golden(t)
	before := readAll(t, dir)
	l, w := openGolden(t, dir)
	n := 0
	must(t, l.Each(0, func(pos int64, u Unit) error {
		r := want.Timerlog.Units[n]
		if w := (Unit{r.PrevPos, r.Magic, r.CurrWriteTime, r.DelayTime, r.PhysicalOffset, r.Size, r.TopicHash, 0}); u != w || pos != r.Position {
			t.Errorf("unit %d at %d is %+v, want %+v at %d", n, pos, u, w, r.Position)
		}
		n++
		return nil
	}))
	if n != len(want.Timerlog.Units) {
		t.Errorf("%d units, want %d", n, len(want.Timerlog.Units))
	}
	n = 0
	must(t, w.Each(func(s Slot) error {
		r := want.Timerwheel.NonZeroSlots[n]
		if w := (Slot{r.Time, r.FirstPos, r.LastPos, r.Num, r.Magic}); s != w || s.Time%Slots != r.Slot {
			t.Errorf("slot %d is %+v, want %+v", n, s, w)
		}
		if got, ok, err := w.Slot(s.Time * goldenPrecision); err != nil || !ok || got != s {
			t.Errorf("slot of %d: %+v %v %v", s.Time, got, ok, err)
		}
		n++
		return nil
	}))
	if n != len(want.Timerwheel.NonZeroSlots) {
		t.Errorf("%d slots, want %d", n, len(want.Timerwheel.NonZeroSlots))
	}
	cp, err := ReadCheckpoint(vfs.OS(), filepath.Join(dir, "config", "timercheck"))
	if err != nil || cp != Checkpoint(want.Timercheck) {
		t.Errorf("checkpoint %+v, %v, want %+v", cp, err, want.Timercheck)
	}
	must(t, Check(vfs.OS(), dir, goldenFileBytes, func(file string, at int64, what string) { t.Errorf("%s at %d: %s", file, at, what) }))
	must(t, l.Sync())
	must(t, w.Sync())
	same(t, readAll(t, dir), before)
}

// What was still to come when the folder was recorded: two messages in one
// slot, one that was recalled, one that was rolled.
func TestGolden_waitingRecalledRolled(t *testing.T) {
	dir, want := golden(t)
	l, w := openGolden(t, dir)
	records := goldenRecords(t)
	type found struct {
		due     int64
		magic   int32
		deliver string
	}
	var got []found
	must(t, w.Each(func(s Slot) error {
		if s.Time*goldenPrecision < want.Timercheck.LastReadTimeMs {
			return nil
		}
		return Chain(l, w, s, func(pos int64, u Unit) error {
			r, ok := records[u.Offset]
			if !ok || r.Size != u.Size || r.Topic != "rmq_sys_wheel_timer" {
				t.Errorf("unit at %d: record at %d of %d bytes is %+v", pos, u.Offset, u.Size, r)
			}
			if h := message.StringHash(r.Properties[message.KeyRealTopic]); h != u.TopicHash {
				t.Errorf("unit at %d: topic hash %d, want %d", pos, u.TopicHash, h)
			}
			got = append(got, found{u.Due(), u.Magic, r.Properties[message.KeyTimerDeliverMs]})
			return nil
		})
	}))
	if exp := []found{
		{1795969387000, 1, "1795969388000"}, {1795969387000, 1, "1795969388000"},
		{1795969487000, 5, "1795969487001"}, {1795969487000, 1, "1795969488000"},
		{1796134988000, 3, "1796206988189"},
	}; !slices.Equal(got, exp) {
		t.Errorf("waiting: %v\nwant %v", got, exp)
	}
}

type record struct {
	PhysicalOffset int64
	Size           int32
	Topic          string
	Properties     map[string]string
}

// goldenRecords are the records of store-basic by their offset.
func goldenRecords(t *testing.T) map[int64]record {
	t.Helper()
	f, err := os.Open("../store/testdata/store-basic.json.gz")
	must(t, err)
	defer f.Close()
	zr, err := gzip.NewReader(f)
	must(t, err)
	var m struct {
		CommitLog struct{ Records []record } `json:"commitLog"`
	}
	must(t, json.NewDecoder(zr).Decode(&m))
	out := map[int64]record{}
	for _, r := range m.CommitLog.Records {
		out[r.PhysicalOffset] = r
	}
	return out
}

// The same messages put through Place and Add give the recorded bytes.
func TestGolden_write(t *testing.T) {
	from, want := golden(t)
	records := goldenRecords(t)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "config"), 0o750))
	l, w := openGolden(t, dir)
	for _, r := range want.Timerlog.Units {
		out, err := strconv.ParseInt(records[r.PhysicalOffset].Properties[message.KeyTimerOutMs], 10, 64)
		must(t, err)
		due, rolled := Place(out, r.CurrWriteTime, goldenPrecision, 172_800)
		u := Unit{Magic: MagicDefault, WriteTime: r.CurrWriteTime, Delay: int32(due - r.CurrWriteTime), Offset: r.PhysicalOffset, Size: r.Size, TopicHash: r.TopicHash}
		if rolled {
			u.Magic |= MagicRoll
		}
		if records[r.PhysicalOffset].Properties[message.KeyTimerDeleteKey] != "" {
			u.Magic |= MagicDelete
		}
		if pos, err := Add(l, w, u); err != nil || pos != r.Position {
			t.Errorf("unit of the record at %d: position %d, %v, want %d", r.PhysicalOffset, pos, err, r.Position)
		}
	}
	must(t, l.Sync())
	must(t, w.Sync())
	must(t, Checkpoint(want.Timercheck).Write(vfs.OS(), filepath.Join(dir, "config", "timercheck")))
	same(t, readAll(t, dir), readAll(t, from))
}
