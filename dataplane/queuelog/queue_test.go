package queuelog

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

func testConfig(fsys vfs.FS) Config { return Config{FileBytes: 10 * UnitBytes, FS: fsys} }

func open(t *testing.T, fsys vfs.FS) *Queue {
	t.Helper()
	q, err := NewFiles(testConfig(fsys), "/cq", "/directory").Open("T", 0)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func unit(i int64) Unit { return Unit{Offset: i * 100, Size: 100, TagsCode: -i} }

func readAll(t *testing.T, q *Queue) []Unit {
	t.Helper()
	from, max := q.Range()
	var units []Unit
	for from < max {
		n := len(units)
		var err error
		if units, err = q.Read(units, from, 7); err != nil || len(units) == n {
			t.Fatalf("read at %d of %d: %v", from, max, err)
		}
		from += int64(len(units) - n)
	}
	return units
}

func TestAppend_readBeforeAndAfterFlush(t *testing.T) {
	mem := vfs.NewMem(nil)
	q := open(t, mem)
	for i := range int64(25) {
		if got := q.Append(i, unit(i)); got != Added {
			t.Fatalf("unit %d: %v", i, got)
		}
		if i%4 == 0 {
			if err := q.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if got := readAll(t, q); int64(len(got)) != i+1 || got[i] != unit(i) {
			t.Fatalf("read %v", got)
		}
	}
	if got := q.Append(24, unit(24)); got != Repeated {
		t.Fatal(got)
	}
	if got := q.Append(25, unit(3)); got != Repeated {
		t.Fatalf("an old record became message 25: %v", got)
	}
	if got := q.Append(-1, unit(99)); got != Rejected {
		t.Fatal(got)
	}
	if got := q.Append(1<<40, unit(99)); got != Rejected {
		t.Fatal(got)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	infos, _ := mem.ReadDir("/cq/T/0")
	if len(infos) != 3 || infos[2].Name != "00000000000000000400" || infos[2].Size != 200 {
		t.Fatalf("files %+v", infos)
	}
	if b, _ := vfs.ReadFile(mem, "/cq/T/0/00000000000000000400"); !bytes.Equal(b[:20], unit(20).append(nil)) || !bytes.Equal(b[100:], make([]byte, 100)) {
		t.Fatalf("bytes %x", b)
	}
}

func TestAppend_firstOffsetAndGapsAreBlank(t *testing.T) {
	mem := vfs.NewMem(nil)
	q := open(t, mem)
	q.Append(25, unit(25))
	if got := q.Append(28, unit(28)); got != AddedGap {
		t.Fatal(got)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(mem, "/cq/T/0/00000000000000000400")
	pre := blank.append(nil)
	want := bytes.Join([][]byte{pre, pre, pre, pre, pre, unit(25).append(nil), pre, pre, unit(28).append(nil), make([]byte, 20)}, nil)
	if err != nil || !bytes.Equal(b, want) {
		t.Fatalf("got\n%x\nwant\n%x, %v", b, want, err)
	}
	q = open(t, mem)
	if _, err := q.Expire(0); err != nil {
		t.Fatal(err)
	}
	if lo, hi := q.Range(); lo != 25 || hi != 29 || q.End() != 2900 {
		t.Fatalf("range %d %d end %d", lo, hi, q.End())
	}
	if _, ok, _ := q.At(26); ok {
		t.Fatal("a blank unit is a message")
	}
	if at, err := q.Search(func(u Unit) (bool, error) { return u.Offset > 2500, nil }); at != 26 || err != nil {
		t.Fatalf("search %d %v", at, err)
	}
	if _, err := q.Expire(2600); err != nil {
		t.Fatal(err)
	}
	if lo, _ := q.Range(); lo != 28 {
		t.Fatalf("min %d", lo)
	}
}

func TestExpire_keepsTheLastFile(t *testing.T) {
	mem := vfs.NewMem(nil)
	q := open(t, mem)
	for i := range int64(35) {
		q.Append(i, unit(i))
	}
	if err := q.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Expire(1150); err != nil {
		t.Fatal(err)
	}
	if lo, hi := q.Range(); lo != 12 || hi != 35 {
		t.Fatalf("range %d %d", lo, hi)
	}
	if _, err := q.Expire(1 << 40); err != nil {
		t.Fatal(err)
	}
	if lo, hi := q.Range(); lo != 35 || hi != 35 {
		t.Fatalf("range %d %d", lo, hi)
	}
	q = open(t, mem)
	if _, hi := q.Range(); hi != 35 {
		t.Fatalf("the offsets start again at %d", hi)
	}
}

func TestTruncate_atEveryUnit(t *testing.T) {
	for cut := range int64(26) {
		mem := vfs.NewMem(nil)
		q := open(t, mem)
		for i := range int64(25) {
			q.Append(i, unit(i))
			if i == 17 {
				if err := q.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := q.Truncate(cut*100 + 50); err != nil { // inside of the record
			t.Fatal(err)
		}
		want := min(cut, 25)
		for range 2 {
			if got := readAll(t, q); int64(len(got)) != want || q.End() != want*100 {
				t.Fatalf("cut %d: %d units, end %d", cut, len(got), q.End())
			}
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			q = open(t, mem)
		}
		infos, _ := mem.ReadDir("/cq/T/0")
		if len(infos) != int(want+9)/10 {
			t.Fatalf("cut %d: %d files", cut, len(infos))
		}
	}
}

// After a power cut at any step, loading and dispatching again from what the
// last Sync covered gives the bytes of a fresh build.
func TestOpen_crashAtEveryStep(t *testing.T) {
	mem := vfs.NewMem(nil)
	if err := mem.MkdirAll("/cq"); err != nil {
		t.Fatal(err)
	}
	if err := mem.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	ff := vfs.NewFaults(mem)
	var synced, added int64
	steps := 0
	const first = 3 // the queue starts late
	ff.Set(func(op vfs.Op, name string) (int, error) {
		if op == vfs.OpRead || op == vfs.OpOpen {
			return 0, nil
		}
		steps++
		for i, keep := range []float64{0, 0.5, 0.8, 1} {
			c := mem.CrashClone(keep, uint64(steps*10+i))
			q := open(t, c)
			if _, max := q.Range(); max < synced {
				t.Fatalf("step %d keep %v: %d of %d synced units", steps, keep, max, synced)
			}
			if _, err := q.Truncate(added * 100); err != nil {
				t.Fatal(err)
			}
			for i := max(synced, first); i < added; i++ {
				if q.Append(i, unit(i)) == Repeated {
					if _, err := q.Repair(i, unit(i)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			compare(t, c, added)
		}
		return 0, nil
	})
	q := open(t, ff)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := int64(first); i < 60; i++ {
		q.Append(i, unit(i))
		added = i + 1
		switch rng.IntN(6) {
		case 0:
			if err := q.Flush(); err != nil {
				t.Fatal(err)
			}
		case 1:
			if err := q.Sync(); err != nil {
				t.Fatal(err)
			}
			synced = added
		}
	}
	if steps < 30 {
		t.Fatalf("%d steps", steps)
	}
}

// compare checks the files of a queue against a fresh build of n units.
func compare(t *testing.T, fsys vfs.FS, n int64) {
	t.Helper()
	fresh := vfs.NewMem(nil)
	q := open(t, fresh)
	for i := int64(3); i < n; i++ {
		q.Append(i, unit(i))
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	want, _ := fresh.ReadDir("/cq/T/0")
	got, _ := fsys.ReadDir("/cq/T/0")
	if len(got) != len(want) {
		t.Fatalf("%d files, want %d", len(got), len(want))
	}
	for i := range want {
		name := filepath.Join("/cq/T/0", want[i].Name)
		a, _ := vfs.ReadFile(fsys, name)
		b, _ := vfs.ReadFile(fresh, name)
		if got[i].Name != want[i].Name || !bytes.Equal(a, b) {
			t.Fatalf("file %s differs:\n%x\n%x", name, a, b)
		}
	}
}

func TestRead_whileWriting(t *testing.T) {
	q, err := NewFiles(Config{FileBytes: 50 * UnitBytes, FS: vfs.OS()}, t.TempDir(), "").Open("T", 0)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				from, max := q.Range()
				for at := from; at < max; {
					units, err := q.Read(nil, at, 100)
					if err != nil {
						return // the file was expired
					}
					for i, u := range units {
						if u != unit(at+int64(i)) {
							t.Errorf("unit %d is %+v", at+int64(i), u)
							return
						}
					}
					at += max64(1, len(units))
				}
				if max == 3000 {
					return
				}
			}
		})
	}
	for i := range int64(3000) {
		q.Append(i, unit(i))
		if i%37 == 0 {
			err = q.Flush()
		} else if i%101 == 0 {
			err = q.Sync()
		} else if i%503 == 0 {
			_, err = q.Expire((i - 500) * 100)
		}
		if err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

func max64(a int64, b int) int64 { return max(a, int64(b)) }

func BenchmarkAppend(b *testing.B) {
	q, err := NewFiles(Config{FileBytes: 6_000_000, FS: vfs.OS()}, b.TempDir(), "").Open("T", 0)
	if err != nil {
		b.Fatal(err)
	}
	i := int64(0)
	for b.Loop() {
		q.Append(i, unit(i))
		if i++; i%1000 == 0 {
			if err := q.Flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := q.Close(); err != nil {
		b.Fatal(err)
	}
}

// A queue that was removed stays so when somebody who still holds it empties
// it: its folder may be that of another one by then.
func TestReset_afterRemove(t *testing.T) {
	mem := vfs.NewMem(nil)
	must(t, mem.MkdirAll("/q"))
	l := NewFiles(Config{FS: mem, FileBytes: 10 * UnitBytes}, "/q", "/queues.state")
	if _, err := l.Load(nil); err != nil {
		t.Fatal(err)
	}
	old, err := l.Open("T", 0)
	must(t, err)
	old.Append(0, unit(0))
	must(t, l.Sync([]*Queue{old}, 1))
	must(t, l.Remove("T", []*Queue{old}))
	q, err := l.Open("T", 0)
	must(t, err)
	q.Append(0, unit(1))
	must(t, l.Sync([]*Queue{q}, 2))
	must(t, old.Reset())
	if old.Append(0, unit(2)) != Repeated {
		t.Error("a queue that was removed takes units again")
	}
	must(t, old.Flush())
	q, err = l.Open("T", 0)
	must(t, err)
	if got := readAll(t, q); len(got) != 1 || got[0] != unit(1) {
		t.Errorf("the other queue has %v", got)
	}
	must(t, l.Close())
}
