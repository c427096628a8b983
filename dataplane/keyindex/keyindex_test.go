package keyindex

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

var t0 = time.Date(2023, 11, 14, 22, 13, 20, 123_000_000, time.UTC) // 1700000000123

func config(fs vfs.FS, slots, entries int32) Config {
	return Config{Dir: "/index", Slots: slots, Entries: entries, FS: fs, Now: func() time.Time { return t0 }, Logger: slog.New(slog.DiscardHandler)}
}

func open(t testing.TB, cfg Config) *Index {
	t.Helper()
	x, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Repair(true, 0, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	return x
}

func find(t testing.TB, x *Index, hash int32, from, to int64) []int64 {
	t.Helper()
	var got []int64
	if err := x.Find(context.Background(), hash, from, to, func(off int64) (bool, error) {
		got = append(got, off)
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func content(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fs, "/index/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func names(t testing.TB, fs vfs.FS) (out []string) {
	t.Helper()
	infos, err := fs.ReadDir("/index")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		out = append(out, info.Name)
	}
	return out
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	k1, k2 = 2746024, 2746025 // TopicTest#k1, TopicTest#k2
)

// The bytes that RocketMQ's own encoder makes of the same puts.
func TestPut_golden(t *testing.T) {
	fs := vfs.NewMem(nil)
	put := func(x *Index) {
		t.Helper()
		for _, p := range []struct {
			off, ms int64
			hash    int32
		}{{1024, 1700000000123, k1}, {2048, 1700000005999, k1}, {4096, 1700000001000, k2}} {
			if err := x.Put(p.off, p.ms, []int32{p.hash}); err != nil {
				t.Fatal(err)
			}
		}
	}
	x := open(t, config(fs, 100, 400))
	put(x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, config(fs, 100, 400)) // nothing was flushed
	put(x)
	if err := x.Sync(); err != nil {
		t.Fatal(err)
	}
	got := content(t, fs, x.files[len(x.files)-1].name)
	for at, want := range map[int]string{
		0:                  "0000018bcfe5687b0000018bcfe56be8000000000000040000000000000010000000000200000004",
		40 + 4*24:          "0000000200000003",
		40 + 4*100:         "0000000000000000000000000000000000000000",
		40 + 4*100 + 20:    "0029e6a800000000000004000000000000000000",
		40 + 4*100 + 40:    "0029e6a800000000000008000000000500000001",
		40 + 4*100 + 60:    "0029e6a900000000000010000000000000000000",
		40 + 4*100 + 20*80: "0000000000000000000000000000000000000000",
	} {
		if w := unhex(t, want); !bytes.Equal(got[at:at+len(w)], w) {
			t.Errorf("at %d: %x, want %s", at, got[at:at+len(w)], want)
		}
	}
	if len(got) != 40+4*100+20*400 || x.SyncedTime() != 1700000001000 {
		t.Errorf("%d bytes, synced to %d", len(got), x.SyncedTime())
	}
}

// A further file begins with the end of the one in front: the time of its
// first entry counts from there.
func TestPut_furtherFile(t *testing.T) {
	fs := vfs.NewMem(nil)
	x := open(t, config(fs, 100, 3))
	for i, ms := range []int64{1699999980000, 1699999990000, 1700000000123} {
		if err := x.Put(int64(4000+500*i), ms, []int32{k1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, fs); !slices.Equal(got, []string{"20231114221320123", "20231114221320124"}) {
		t.Fatalf("files %v", got)
	}
	b := content(t, fs, "20231114221320124")
	if h := decodeHeader(b); h != (header{1700000000123, 1700000000123, 5000, 5000, 1, 2}) {
		t.Errorf("header %+v", h)
	}
	if e := decodeEntry(b[40+4*100+20:]); e != (entry{k1, 5000, 10, 0}) {
		t.Errorf("entry %+v", e)
	}
	if got := find(t, x, k1, 0, math.MaxInt64); !slices.Equal(got, []int64{5000, 4500, 4000}) {
		t.Errorf("found %v", got)
	}
	if got := find(t, x, k1, 1700000000000, 1700000000200); !slices.Equal(got, []int64{5000}) {
		t.Errorf("found %v in the second of the first entry", got)
	}
	if err := x.Expire(4501); err != nil {
		t.Fatal(err)
	}
	if got := names(t, fs); !slices.Equal(got, []string{"20231114221320124"}) {
		t.Errorf("files %v after expiry", got)
	}
	if err := x.Expire(math.MaxInt64); err != nil || len(names(t, fs)) != 1 {
		t.Errorf("the last file went away: %v", err)
	}
}

// record is one record of the model: a list is the oracle.
type record struct {
	off, ms int64
	hashes  []int32
}

type model struct{ records []record }

func (m *model) next(rng *rand.Rand) record {
	r := record{off: 0, ms: t0.UnixMilli()}
	if n := len(m.records); n > 0 {
		last := m.records[n-1]
		r.off, r.ms = last.off+200, last.ms+rng.Int64N(3000)
	}
	for range rng.IntN(4) {
		r.hashes = append(r.hashes, rng.Int32N(40))
	}
	m.records = append(m.records, r)
	return r
}

func (m *model) end() int64 { return int64(len(m.records)) * 200 }

// check compares every hash over all and over a part of the time.
func (m *model) check(x *Index) error {
	for hash := range int32(40) {
		for _, span := range [][2]int64{{0, math.MaxInt64}, {t0.UnixMilli() + 20_000, t0.UnixMilli() + 60_000}} {
			var got []int64
			err := x.Find(context.Background(), hash, span[0], span[1], func(off int64) (bool, error) {
				got = append(got, off)
				return true, nil
			})
			if err != nil {
				return err
			}
			var must, may []int64
			for _, r := range slices.Backward(m.records) {
				if slices.Contains(r.hashes, hash) {
					may = append(may, r.off)
					if r.ms >= span[0] && r.ms <= span[1] {
						must = append(must, r.off)
					}
				}
			}
			for _, off := range must {
				if !slices.Contains(got, off) {
					return fmt.Errorf("hash %d from %d to %d: record %d is missing in %v", hash, span[0], span[1], off, got)
				}
			}
			for i, off := range got {
				if !slices.Contains(may, off) || i > 0 && off >= got[i-1] {
					return fmt.Errorf("hash %d: record %d of %v is wrong or in the wrong order", hash, off, got)
				}
			}
		}
	}
	return nil
}

// Whatever the order of puts, flushes and clean starts, the index finds what a
// list of all records finds.
func TestIndex_equalsAList(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := vfs.NewMem(nil)
		cfg := config(fs, 1+rng.Int32N(50), 2+rng.Int32N(60))
		x := open(t, cfg)
		m := &model{}
		for n := range 300 {
			r := m.next(rng)
			if err := x.Put(r.off, r.ms, r.hashes); err != nil {
				t.Fatal(err)
			}
			switch rng.IntN(20) {
			case 0:
				if err := x.Flush(); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := errors.Join(x.Sync(), x.Close()); err != nil {
					t.Fatal(err)
				}
				x = open(t, cfg)
				// A record that is there is not put twice.
				for _, r := range m.records {
					if r.off >= x.Resume() {
						if err := x.Put(r.off, r.ms, r.hashes); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if n%50 == 49 {
				if err := m.check(x); err != nil {
					t.Fatalf("seed %d, %d records: %v", seed, n+1, err)
				}
			}
		}
		x.Close()
	}
}

// After a power cut at any step, a repair and the puts from Resume on, nothing
// is missing and nothing is there twice.
func TestRepair_crashAtEveryStep(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 2))
		mem := vfs.NewMem(nil)
		if err := errors.Join(mem.MkdirAll("/index"), mem.SyncDir("/")); err != nil {
			t.Fatal(err)
		}
		ff := vfs.NewFaults(mem)
		slots, entries := 1+rng.Int32N(300), 2+rng.Int32N(90)
		m := &model{}
		var x *Index
		synced := func() int64 {
			if x == nil {
				return 0
			}
			return x.synced // by the writer itself
		}
		steps := 0
		ff.Set(func(op vfs.Op, name string) (int, error) {
			if op == vfs.OpRead || op == vfs.OpOpen || op == vfs.OpLock || t.Failed() {
				return 0, nil
			}
			steps++
			for i, keep := range []float64{0, 0.5, 1} {
				disk := mem.CrashClone(keep, seed*100_000+uint64(3*steps+i))
				if err := m.recovered(config(disk, slots, entries), synced()); err != nil {
					t.Errorf("seed %d step %d (%s %s) keep %v: %v", seed, steps, op, name, keep, err)
				}
			}
			return 0, nil
		})
		x = open(t, config(ff, slots, entries))
		for range 120 {
			r := m.next(rng)
			if err := x.Put(r.off, r.ms, r.hashes); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(6) == 0 {
				if err := x.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if steps < 20 {
			t.Fatalf("only %d steps", steps)
		}
		x.Close()
	}
}

// recovered opens what a crash has left, also when it comes again in the
// middle of the repair, and completes it.
func (m *model) recovered(cfg Config, synced int64) error {
	mem := cfg.FS.(*vfs.Mem)
	ff := vfs.NewFaults(mem)
	rng := rand.New(rand.NewPCG(uint64(len(m.records)), 3))
	stop := rng.IntN(8)
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		if op == vfs.OpRead || op == vfs.OpOpen {
			return 0, nil
		}
		if stop--; stop < 0 {
			return 0, errors.New("power cut")
		}
		return 0, nil
	})
	broken := cfg
	broken.FS = ff
	if x, err := Open(broken); err == nil {
		_ = x.Repair(false, synced, m.end())
		x.Close()
	}
	cfg.FS = mem.CrashClone(0.5, uint64(stop+9))

	x, err := Open(cfg)
	if err != nil {
		return err
	}
	defer x.Close()
	if err := x.Repair(false, synced, m.end()); err != nil {
		return err
	}
	for _, r := range m.records {
		if r.off >= x.Resume() {
			if err := x.Put(r.off, r.ms, r.hashes); err != nil {
				return err
			}
		}
	}
	return m.check(x)
}

// A log that lost its end takes the keys of what it lost with it.
func TestRepair_logEndsEarlier(t *testing.T) {
	fs := vfs.NewMem(nil)
	cfg := config(fs, 10, 20)
	x := open(t, cfg)
	m := &model{}
	rng := rand.New(rand.NewPCG(1, 4))
	for range 60 {
		r := m.next(rng)
		if err := x.Put(r.off, r.ms, r.hashes); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(x.Sync(), x.Close()); err != nil {
		t.Fatal(err)
	}
	for _, clean := range []bool{true, false} {
		for keep := 60; keep >= 0; keep -= 7 {
			m := &model{records: slices.Clone(m.records[:keep])}
			cfg := config(fs.CrashClone(1, 1), 10, 20)
			x, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := x.Repair(clean, 0, m.end()); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				m.next(rng)
			}
			for _, r := range m.records {
				if r.off >= x.Resume() {
					if err := x.Put(r.off, r.ms, r.hashes); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := m.check(x); err != nil {
				t.Errorf("clean %v, %d records: %v", clean, keep, err)
			}
			x.Close()
		}
	}
}

// Entries that cannot be written stay findable, and go to the disk when it has
// space again.
func TestFlush_diskFull(t *testing.T) {
	ff := vfs.NewFaults(vfs.NewMem(nil))
	x := open(t, config(ff, 10, 100))
	if err := x.Put(0, 1000, []int32{7}); err != nil {
		t.Fatal(err)
	}
	full := true
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		if full && op == vfs.OpWrite {
			return 0, vfs.ErrNoSpace
		}
		return 0, nil
	})
	if err := x.Put(200, 1000, []int32{7}); err != nil {
		t.Fatal(err)
	}
	if err := x.Flush(); !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("flush: %v", err)
	}
	if got := find(t, x, 7, 0, 2000); !slices.Equal(got, []int64{200, 0}) {
		t.Errorf("found %v", got)
	}
	full = false
	if err := errors.Join(x.Sync(), x.Close()); err != nil {
		t.Fatal(err)
	}
	x = open(t, config(ff, 10, 100))
	if got := find(t, x, 7, 0, 2000); !slices.Equal(got, []int64{200, 0}) {
		t.Errorf("found %v after the disk had space", got)
	}
}

// Files that are none of ours are left alone; other sizes are refused.
func TestOpen_foreign(t *testing.T) {
	fs := vfs.NewMem(nil)
	if err := errors.Join(fs.MkdirAll("/index"), vfs.WriteFile(fs, "/index/notes.txt", []byte("hello"))); err != nil {
		t.Fatal(err)
	}
	x := open(t, config(fs, 10, 100))
	if err := errors.Join(x.Put(0, 1000, []int32{7}), x.Sync(), x.Close()); err != nil {
		t.Fatal(err)
	}
	if got := names(t, fs); len(got) != 2 {
		t.Errorf("files %v", got)
	}
	if _, err := Open(config(fs, 10, 50)); err == nil {
		t.Error("a file of another size was opened")
	}
}

// Readers meet a writer that puts, flushes, rolls and expires.
func TestFind_whileWriting(t *testing.T) {
	x := open(t, config(vfs.NewMem(nil), 16, 50))
	stop := make(chan struct{})
	read := make(chan error, 2)
	for range 2 {
		go func() {
			for {
				select {
				case <-stop:
					read <- nil
					return
				default:
				}
				last := int64(math.MaxInt64)
				err := x.Find(context.Background(), 3, 0, math.MaxInt64, func(off int64) (bool, error) {
					if off >= last || off%200 != 0 {
						return false, fmt.Errorf("offset %d behind %d", off, last)
					}
					last = off
					return true, nil
				})
				if err != nil {
					read <- err
					return
				}
			}
		}()
	}
	for n := range int64(3000) {
		err := x.Put(200*n, n, []int32{int32(n % 5), 3})
		if n%7 == 0 {
			err = errors.Join(err, x.Flush())
		}
		if n%300 == 0 {
			err = errors.Join(err, x.Expire(200*(n-1000)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	for range 2 {
		if err := <-read; err != nil {
			t.Error(err)
		}
	}
}

// Any bytes in a file: no panic, no endless chain, and what is put afterwards
// is found.
func FuzzRepair(f *testing.F) {
	fs := vfs.NewMem(nil)
	x, err := Open(config(fs, 4, 10))
	if err != nil {
		f.Fatal(err)
	}
	for n := range int64(6) {
		if err := x.Put(200*n, 1000*n, []int32{3}); err != nil {
			f.Fatal(err)
		}
	}
	if err := x.Sync(); err != nil {
		f.Fatal(err)
	}
	f.Add(content(f, fs, x.files[0].name), false)
	f.Add(content(f, fs, x.files[0].name), true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, clean bool) {
		fs := vfs.NewMem(nil)
		cfg := config(fs, 4, 10)
		if err := errors.Join(fs.MkdirAll("/index"), vfs.WriteFile(fs, "/index/20231114221320000", b)); err != nil {
			t.Fatal(err)
		}
		x, err := Open(cfg)
		if err != nil {
			if int64(len(b)) <= cfg.fileBytes() {
				t.Fatal(err)
			}
			return
		}
		if err := x.Repair(clean, 0, 1<<40); err != nil {
			t.Fatal(err)
		}
		off := x.Resume() + 200
		if err := errors.Join(x.Put(off, 1<<41, []int32{3}), x.Sync()); err != nil {
			t.Fatal(err)
		}
		found := find(t, x, 3, 0, math.MaxInt64)
		if !slices.Contains(found, off) {
			t.Errorf("offset %d is not in %v", off, found)
		}
	})
}

func BenchmarkPut(b *testing.B) {
	x := open(b, Config{
		Dir: b.TempDir() + "/index", Slots: 5_000_000, Entries: 20_000_000, FS: vfs.OS(), Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	defer x.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	hashes := make([]int32, 3)
	b.ReportAllocs()
	for n := range b.N {
		for i := range hashes {
			hashes[i] = rng.Int32()
		}
		if err := x.Put(int64(n)*1000, t0.UnixMilli()+int64(n)/20, hashes); err != nil {
			b.Fatal(err)
		}
		if n%20_000 == 0 {
			if err := x.Flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
