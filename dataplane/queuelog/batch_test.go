package queuelog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

func openBatch(t *testing.T, fsys vfs.FS) *Batch {
	t.Helper()
	q, err := OpenBatch(testConfig(fsys), "/bcq/T/0")
	must(t, err)
	return q
}

// batchUnits makes n records of one to five messages.
func batchUnits(n int) []BatchUnit {
	rng := rand.New(rand.NewPCG(1, 2))
	var units []BatchUnit
	var base, offset int64
	for range n {
		u := BatchUnit{Unit: Unit{Offset: offset, Size: 100, TagsCode: 7}, StoreTime: 1000 + offset, Base: base, Count: int16(1 + rng.IntN(5))}
		units = append(units, u)
		base, offset = u.Next(), offset+100
	}
	return units
}

// Statement 31 of the format: 46 bytes, the compacted offset is -1.
func TestBatchUnit_bytes(t *testing.T) {
	u := BatchUnit{Unit: Unit{Offset: 0xbc2, Size: 0x412, TagsCode: 0x53}, StoreTime: 0x1a227ec7d19, Base: 4, Count: 6}
	want := "0000000000000bc2" + "00000412" + "0000000000000053" + "000001a227ec7d19" + "0000000000000004" + "0006" + "ffffffff" + "00000000"
	b := u.append(nil)
	if hex.EncodeToString(b) != want || len(b) != BatchUnitBytes {
		t.Errorf("got %x, want %s", b, want)
	}
	if got := decodeBatch(b); got != u || got.Next() != 10 {
		t.Errorf("decoded %+v", got)
	}
}

// Each message is found in its record, whether that is in memory or in one of
// several files, and after a new start.
func TestBatch_findsEveryMessage(t *testing.T) {
	mem := vfs.NewMem(nil)
	q := openBatch(t, mem)
	units := batchUnits(37)
	for i, u := range units {
		if got := q.Append(u); got != Added {
			t.Fatalf("unit %d: %v", i, got)
		}
		if got := q.Append(u); got != Repeated {
			t.Fatalf("unit %d again: %v", i, got)
		}
		if i%5 == 0 {
			must(t, q.Flush())
		}
	}
	check := func(what string, first int) {
		t.Helper()
		if lo, hi := q.Range(); lo != units[first].Base || hi != units[36].Next() || q.End() != 3700 {
			t.Fatalf("%s: %d to %d, end %d", what, lo, hi, q.End())
		}
		for _, u := range units[first:] {
			for at := u.Base; at < u.Next(); at++ {
				got, err := q.Read(nil, at, 3)
				if err != nil || len(got) == 0 || got[0] != u {
					t.Fatalf("%s: message %d: %v, %v, want %+v", what, at, got, err, u)
				}
			}
			if at, err := q.SearchTime(u.StoreTime-1, false); err != nil || at != u.Base {
				t.Fatalf("%s: time %d: %d, %v", what, u.StoreTime-1, at, err)
			}
		}
		if at, err := q.SearchTime(units[30].StoreTime+1, true); err != nil || at != units[30].Next()-1 {
			t.Fatalf("%s: last message up to unit 30: %d, %v", what, at, err)
		}
		if at, err := q.SearchTime(0, true); err != nil || at != units[first].Base {
			t.Fatalf("%s: last message up to time 0: %d, %v", what, at, err)
		}
		if got, err := q.Read(nil, units[36].Next(), 3); err != nil || len(got) != 0 {
			t.Fatalf("%s: behind the end: %v, %v", what, got, err)
		}
	}
	check("in memory", 0)
	must(t, q.Sync())
	must(t, q.Close())
	if got := list(t, mem, "/bcq/T/0"); len(got) != 4 || got[1] != "00000000000000000460" {
		t.Fatalf("files %v", got)
	}
	q = openBatch(t, mem)
	check("opened again", 0)
	must(t, q.Expire(units[23].Offset))
	check("expired", 23)
	if got := list(t, mem, "/bcq/T/0"); len(got) != 2 {
		t.Fatalf("files %v", got)
	}
	q = openBatch(t, mem)
	must(t, q.Expire(units[23].Offset))
	check("expired and opened again", 23)
}

func list(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	infos, err := fsys.ReadDir(dir)
	must(t, err)
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

// Cut at every record and filled again, the files have the bytes of a fresh build.
func TestBatch_truncateAtEveryRecord(t *testing.T) {
	units := batchUnits(25)
	build := func(mem *vfs.Mem, cut int64) []byte {
		q := openBatch(t, mem)
		for _, u := range units {
			q.Append(u)
			if u.Offset == 1700 {
				must(t, q.Sync())
			}
		}
		if cut >= 0 {
			must(t, q.Truncate(cut*100+50))
			if _, hi := q.Range(); cut > 0 && hi != units[cut-1].Next() || cut == 0 && hi != 0 {
				t.Fatalf("cut %d: max %d", cut, hi)
			}
			for _, u := range units {
				q.Append(u)
			}
		}
		must(t, q.Close())
		var all []byte
		for _, name := range list(t, mem, "/bcq/T/0") {
			b, err := vfs.ReadFile(mem, "/bcq/T/0/"+name)
			must(t, err)
			all = append(all, b...)
		}
		return all
	}
	want := build(vfs.NewMem(nil), -1)
	for cut := range int64(25) {
		if got := build(vfs.NewMem(nil), cut); !bytes.Equal(got, want) {
			t.Fatalf("cut %d: files differ", cut)
		}
	}
}

// A power cut leaves at least what was synced, and only good entries.
func TestBatch_crashAtEveryStep(t *testing.T) {
	mem := vfs.NewMem(nil)
	ff := vfs.NewFaults(mem)
	units := batchUnits(60)
	added, synced, steps := 0, 0, 0
	ff.Set(func(op vfs.Op, name string) (int, error) {
		if op == vfs.OpRead || op == vfs.OpOpen {
			return 0, nil
		}
		steps++
		for i, keep := range []float64{0, 0.5, 1} {
			q, err := OpenBatch(testConfig(mem.CrashClone(keep, uint64(steps*10+i))), "/bcq/T/0")
			must(t, err)
			if q.next < int64(synced) || q.next > int64(added) {
				t.Fatalf("step %d (%s %s) keep %v: %d units, %d synced, %d added", steps, op, name, keep, q.next, synced, added)
			}
			for n := range q.next {
				if u, err := q.unitLocked(n); err != nil || u != units[n] {
					t.Fatalf("step %d keep %v: unit %d is %+v, %v", steps, keep, n, u, err)
				}
			}
		}
		return 0, nil
	})
	q := openBatch(t, ff)
	for i, u := range units {
		q.Append(u)
		added = i + 1
		if i%3 == 0 {
			must(t, q.Flush())
		}
		if i%7 == 0 {
			must(t, q.Sync())
			synced = added
		}
	}
	if steps < 30 {
		t.Fatalf("%d steps", steps)
	}
}

func TestOpenBatch_filesThatDoNotFit(t *testing.T) {
	for name, damage := range map[string]func(mem *vfs.Mem) error{
		"too long": func(mem *vfs.Mem) error {
			return vfs.WriteFile(mem, "/bcq/T/0/00000000000000000000", make([]byte, 461))
		},
		"gap": func(mem *vfs.Mem) error { return mem.Remove("/bcq/T/0/00000000000000000460") },
	} {
		mem := vfs.NewMem(nil)
		q := openBatch(t, mem)
		for _, u := range batchUnits(25) {
			q.Append(u)
		}
		must(t, q.Close())
		must(t, damage(mem))
		if _, err := OpenBatch(testConfig(mem), "/bcq/T/0"); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
