package commitlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const segmentBytes = 4096

func testDeps(fsys vfs.FS) Deps {
	return Deps{FS: fsys, Now: time.Now, Advanced: func() {}}
}

// openLog opens, recovers and starts a log.
func openLog(t *testing.T, fsys vfs.FS) (*Log, Recovered) {
	t.Helper()
	l, err := Open(Config{Dir: "/log", SegmentBytes: segmentBytes, FlushInterval: time.Hour}, testDeps(fsys))
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Recover(Recovery{Visit: func(int64, *message.Fields, []byte) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	l.Start()
	t.Cleanup(func() { l.Close() })
	return l, r
}

// request makes a request of count records with the given body size.
func request(seq *Sequence, count, body int) *Request {
	r := &Request{Count: count, Sequence: seq}
	for i := range count {
		m := message.Message{Topic: "T", Body: bytes.Repeat([]byte{byte('a' + i)}, body), Properties: []byte("K\x01v\x02")}
		r.Records, _ = message.AppendRecord(r.Records, &m)
	}
	return r
}

const overhead = message.MinRecordBytes + 1 + 4 // topic T and K=v

func mustAppend(t *testing.T, l *Log, r *Request) *Request {
	t.Helper()
	if err := l.Append(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// readAll scans the whole log.
func readAll(t *testing.T, l *Log) (offs []int64, queueOffs []int64) {
	t.Helper()
	s := l.Scan(l.Range())
	for {
		off, f, _, err := s.Next()
		if err == io.EOF {
			return offs, queueOffs
		}
		if err != nil {
			t.Fatal(err)
		}
		offs, queueOffs = append(offs, off), append(queueOffs, f.QueueOffset)
	}
}

func TestAppend_placesAndPatches(t *testing.T) {
	l, _ := openLog(t, vfs.NewMem(nil))
	var seq Sequence
	seq.Set(5)
	a := mustAppend(t, l, request(&seq, 1, 100))
	b := mustAppend(t, l, request(&seq, 3, 10))
	c := mustAppend(t, l, request(nil, 1, 0)) // B011: an empty body is a record like others
	if a.PhysicalOffset != 0 || a.QueueOffset != 5 || b.PhysicalOffset != overhead+100 || b.QueueOffset != 6 || c.QueueOffset != 0 {
		t.Fatalf("a %+v\nb %+v\nc %+v", a, b, c)
	}
	offs, queueOffs := readAll(t, l)
	if fmt.Sprint(queueOffs) != "[5 6 7 8 0]" || len(offs) != 5 || seq.Next() != 9 {
		t.Fatalf("offsets %v, queue offsets %v", offs, queueOffs)
	}
	f, err := l.Peek(offs[4])
	if err != nil || f.StoreTimestamp != c.StoreTimestamp || len(f.Body) != 0 {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestAppend_endOfFileRule(t *testing.T) {
	for _, tt := range []struct {
		name      string
		left      int // after the first record
		second    int // size of the second record
		wantRoll  bool
		wantBlank int32
	}{
		{"fits with the marker", 208, 200, false, 0},
		{"one byte too much", 207, 200, true, 207},
		{"marker fills the file", 8, 200, true, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := openLog(t, vfs.NewMem(nil))
			var seq Sequence
			mustAppend(t, l, request(&seq, 1, segmentBytes-tt.left-overhead))
			r := mustAppend(t, l, request(&seq, 1, tt.second-overhead))
			want := int64(segmentBytes - tt.left)
			if tt.wantRoll {
				want = segmentBytes
				var b [8]byte
				if err := l.ReadAt(b[:], int64(segmentBytes-tt.left)); err != nil {
					t.Fatal(err)
				}
				if left, magic, _ := message.Head(b[:]); left != tt.wantBlank || magic != message.MagicBlank {
					t.Fatalf("marker %d %x", left, magic)
				}
			}
			if r.PhysicalOffset != want {
				t.Fatalf("at %d, want %d", r.PhysicalOffset, want)
			}
			if offs, _ := readAll(t, l); len(offs) != 2 {
				t.Fatalf("read %v", offs)
			}
		})
	}
}

func TestAppend_batchStaysInOneFile(t *testing.T) {
	l, _ := openLog(t, vfs.NewMem(nil))
	var seq Sequence
	mustAppend(t, l, request(&seq, 1, 3000))
	r := mustAppend(t, l, request(&seq, 8, 100))
	if r.PhysicalOffset != segmentBytes || r.QueueOffset != 1 {
		t.Fatalf("batch at %d", r.PhysicalOffset)
	}
	if err := l.Append(t.Context(), request(&seq, 30, 100)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("batch over a file: %v", err)
	}
	if seq.Next() != 9 {
		t.Fatalf("next %d", seq.Next())
	}
}

func TestOpen_findsTheSameLog(t *testing.T) {
	mem := vfs.NewMem(nil)
	l, _ := openLog(t, mem)
	var seq Sequence
	for i := range 50 {
		mustAppend(t, l, request(&seq, 1, 10*i))
	}
	want, _ := readAll(t, l)
	_, end := l.Range()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, r := openLog(t, mem)
	if got, _ := readAll(t, l); fmt.Sprint(got) != fmt.Sprint(want) || r.End != end || r.Cut || r.Reason != nil {
		t.Fatalf("recovered %+v, %d of %d records", r, len(got), len(want))
	}
}

// B015, B016: a refused append takes no offset and leaves no bytes, and the
// next one works as soon as the cause is gone.
func TestAppend_failedWriteLeavesNoHole(t *testing.T) {
	mem := vfs.NewMem(nil)
	ff := vfs.NewFaults(mem)
	l, _ := openLog(t, ff)
	var seq Sequence
	mustAppend(t, l, request(&seq, 1, 100))
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpCreate, vfs.OpTruncate} {
		ff.Set(func(o vfs.Op, _ string) (int, error) {
			if o == op || o == vfs.OpTruncate {
				return 700, fmt.Errorf("device: %w", vfs.ErrNoSpace)
			}
			return 0, nil
		})
		body := 100
		if op != vfs.OpWrite {
			body = 3500 // needs a new file
		}
		for range 3 {
			if err := l.Append(t.Context(), request(&seq, 5, body/5)); !errors.Is(err, ErrDiskFull) {
				t.Fatalf("%s: %v", op, err)
			}
		}
		before, _ := readAll(t, l)
		ff.Set(nil)
		r := mustAppend(t, l, request(&seq, 1, 50))
		if r.QueueOffset != int64(len(before)) {
			t.Fatalf("%s: queue offset %d after %d records", op, r.QueueOffset, len(before))
		}
	}
	// Nothing of the failed writes comes back after a crash.
	_, n := readAll(t, l)
	crashed, _ := openLog(t, mem.CrashClone(1, 1))
	if _, m := readAll(t, crashed); fmt.Sprint(n) != fmt.Sprint(m) {
		t.Fatalf("before %v, after %v", n, m)
	}
}

func TestAppend_failedRollFailsOnlyWhatDidNotFit(t *testing.T) {
	ff := vfs.NewFaults(vfs.NewMem(nil))
	l, _ := openLog(t, ff)
	var seq Sequence
	mustAppend(t, l, request(&seq, 1, 3000))
	ff.Set(func(o vfs.Op, _ string) (int, error) {
		if o == vfs.OpCreate {
			return 0, vfs.ErrNoSpace
		}
		return 0, nil
	})
	reqs := []*Request{request(&seq, 1, 100), request(&seq, 1, 2000), request(&seq, 1, 100)}
	l.write(reqs, time.Now())
	if reqs[0].err != nil || !errors.Is(reqs[1].err, ErrDiskFull) || !errors.Is(reqs[2].err, ErrDiskFull) || seq.Next() != 2 {
		t.Fatalf("%v, %v, %v, next %d", reqs[0].err, reqs[1].err, reqs[2].err, seq.Next())
	}
	// The write that ends the file fails: all of it is taken back.
	ff.Set(func(o vfs.Op, _ string) (int, error) {
		if o == vfs.OpWrite {
			return 10, vfs.ErrNoSpace
		}
		return 0, nil
	})
	reqs = []*Request{request(&seq, 1, 2000), request(&seq, 1, 100)}
	l.write(reqs, time.Now())
	if !errors.Is(reqs[0].err, ErrDiskFull) || !errors.Is(reqs[1].err, ErrDiskFull) || seq.Next() != 2 {
		t.Fatalf("%v, %v, next %d", reqs[0].err, reqs[1].err, seq.Next())
	}
	ff.Set(nil)
	if r := mustAppend(t, l, request(&seq, 1, 2000)); r.PhysicalOffset != segmentBytes || r.QueueOffset != 2 {
		t.Fatalf("%+v", r)
	}
}

func TestAppend_failedSyncStopsTheLog(t *testing.T) {
	ff := vfs.NewFaults(vfs.NewMem(nil))
	l, _ := openLog(t, ff)
	var seq Sequence
	mustAppend(t, l, request(&seq, 1, 10)) // makes the file
	boom := errors.New("boom")
	ff.Set(func(o vfs.Op, _ string) (int, error) {
		if o == vfs.OpSync {
			return 0, boom
		}
		return 0, nil
	})
	r := request(&seq, 1, 10)
	r.Sync = true
	if err := l.Append(t.Context(), r); !errors.Is(err, ErrFailed) || !errors.Is(err, boom) {
		t.Fatal(err)
	}
	ff.Set(nil)
	if err := l.Append(t.Context(), request(&seq, 1, 10)); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	if offs, _ := readAll(t, l); len(offs) != 2 {
		t.Fatal("reads must go on")
	}
}

func TestAppend_contextEnds(t *testing.T) {
	ff := vfs.NewFaults(vfs.NewMem(nil))
	l, _ := openLog(t, ff)
	var seq Sequence
	mustAppend(t, l, request(&seq, 1, 10)) // makes the file
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ff.Set(func(o vfs.Op, _ string) (int, error) {
		if o == vfs.OpWrite || o == vfs.OpSync {
			once.Do(func() { close(entered); <-release })
		}
		return 0, nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { mustAppend(t, l, request(&seq, 1, 10)) })
	<-entered // the leader writes
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Append(ctx, request(&seq, 1, 10)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(release)
	wg.Wait()
	if offs, _ := readAll(t, l); len(offs) != 2 {
		t.Fatalf("a request that was taken back is stored: %v", offs)
	}
	// One that waits for its sync stays stored.
	entered, release, once = make(chan struct{}), make(chan struct{}), sync.Once{}
	ff.Set(func(o vfs.Op, _ string) (int, error) {
		if o == vfs.OpSync {
			once.Do(func() { close(entered); <-release })
		}
		return 0, nil
	})
	r := request(&seq, 1, 10)
	r.Sync = true
	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if err := l.Append(ctx, r); !errors.Is(err, context.Canceled) || !r.Abandoned() {
		t.Fatal(err)
	}
	close(release)
	if offs, _ := readAll(t, l); len(offs) != 3 {
		t.Fatalf("read %v", offs)
	}
}

func TestAppend_manyGoroutines(t *testing.T) {
	mem := vfs.NewMem(nil)
	l, err := Open(Config{Dir: "/log", SegmentBytes: segmentBytes, FlushInterval: time.Millisecond, Preallocate: true}, testDeps(mem))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Recover(Recovery{}); err != nil {
		t.Fatal(err)
	}
	l.Start()
	const workers, each = 8, 100
	seqs := make([]Sequence, 3)
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			min, max := l.Range()
			s := l.Scan(min, max)
			for {
				if _, _, _, err := s.Next(); err != nil {
					if err != io.EOF && !errors.Is(err, ErrNotFound) {
						t.Error(err)
					}
					break
				}
			}
			if _, err := l.Expire(time.Now().Add(-20*time.Millisecond), max, 1); err != nil {
				t.Error(err)
			}
		}
	})
	for w := range workers {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			for range each {
				r := request(&seqs[rng.IntN(len(seqs))], 1+rng.IntN(3), rng.IntN(300))
				r.Sync = rng.IntN(4) == 0
				if err := l.Append(t.Context(), r); err != nil {
					t.Error(err)
				} else if r.Sync && l.Flushed() < r.PhysicalOffset+int64(len(r.Records)) {
					t.Error("acknowledged before the sync")
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), request(nil, 1, 1)); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if infos, _ := mem.ReadDir("/log"); infos[len(infos)-1].Name > fmt.Sprintf("%020d", l.Written()) {
		t.Fatal("the file made ahead of need was left")
	}
}

func TestExpire_byAgeAndNeverTheLast(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	mem := vfs.NewMem(func() time.Time { return now })
	l, _ := openLog(t, mem)
	var seq Sequence
	for range 4 {
		mustAppend(t, l, request(&seq, 1, 3900))
		now = now.Add(time.Hour)
	}
	if n, err := l.Expire(now.Add(time.Hour), segmentBytes-1, 10); n != 0 || err != nil {
		t.Fatalf("deleted %d behind the limit, %v", n, err)
	}
	if n, err := l.Expire(now.Add(-90*time.Minute), l.Written(), 10); n != 2 || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	if min, _ := l.Range(); min != 2*segmentBytes {
		t.Fatalf("min %d", min)
	}
	if err := l.ReadAt(make([]byte, 8), segmentBytes); !errors.Is(err, ErrNotFound) {
		t.Fatalf("read of a deleted file: %v", err)
	}
	if n, err := l.Expire(now.Add(time.Hour), l.Written(), 10); n != 1 || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	if ok, err := l.DropOldest(l.Written(), RemovedEarly); ok || err != nil {
		t.Fatalf("the last file went: %v", err)
	}
	if infos, _ := mem.ReadDir("/log"); len(infos) != 1 {
		t.Fatalf("%d files", len(infos))
	}
}

func TestOpen_refusesWrongFiles(t *testing.T) {
	for name, sizes := range map[string]map[int64]int{
		"far away":       {0: segmentBytes, (maxHoles + 2) * segmentBytes: segmentBytes},
		"too long":       {0: segmentBytes + 1},
		"not a multiple": {100: segmentBytes},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem(nil)
			if err := mem.MkdirAll("/log"); err != nil {
				t.Fatal(err)
			}
			for base, size := range sizes {
				if err := vfs.WriteFile(mem, fmt.Sprintf("/log/%020d", base), bytes.Repeat([]byte{1}, size)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Open(Config{Dir: "/log", SegmentBytes: segmentBytes}, testDeps(mem)); err == nil {
				t.Fatal("opened")
			}
		})
	}
}

// A file that is missing or cut in the middle takes its own records with it
// and no others, whatever the checkpoint says of a missing one.
func TestOpen_fencesALostFile(t *testing.T) {
	for _, lost := range []string{"missing", "empty", "short"} {
		t.Run(lost, func(t *testing.T) {
			mem := vfs.NewMem(nil)
			now := time.UnixMilli(1000)
			deps := testDeps(mem)
			deps.Now = func() time.Time { return now }
			cfg := Config{Dir: "/log", SegmentBytes: segmentBytes, FlushInterval: time.Hour}
			l, err := Open(cfg, deps)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Recover(Recovery{}); err != nil {
				t.Fatal(err)
			}
			l.Start()
			var seq Sequence
			for range 60 {
				now = now.Add(time.Second)
				mustAppend(t, l, request(&seq, 1, 300))
			}
			offs, _ := readAll(t, l)
			if bases := l.Bases(); len(bases) < 4 {
				t.Fatalf("only %d files", len(bases))
			}
			flushed := l.writtenTime.Load()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("/log/%020d", segmentBytes)
			f, err := mem.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			switch lost {
			case "missing":
				flushed, err = 0, mem.Remove(name)
			case "empty":
				err = f.Truncate(0)
			case "short":
				err = f.Truncate(700)
			}
			if err != nil {
				t.Fatal(err)
			}
			if l, err = Open(cfg, deps); err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var got []int64
			r, err := l.Recover(Recovery{FlushedTime: flushed, Visit: func(off int64, _ *message.Fields, _ []byte) error { got = append(got, off); return nil }})
			if err != nil || len(r.Damaged) != 1 || r.Damaged[0].To != 2*segmentBytes {
				t.Fatalf("%+v, %v", r, err)
			}
			from := r.Damaged[0].From
			want := slices.DeleteFunc(slices.Clone(offs), func(off int64) bool { return off >= from && off < 2*segmentBytes })
			if !slices.Equal(got, want) || len(want) == len(offs) {
				t.Fatalf("got %v, want %v", got, want)
			}
			l.Start()
			mustAppend(t, l, request(&seq, 1, 300))
			var b [8]byte
			if err := l.ReadAt(b[:], segmentBytes+800); lost == "missing" && !errors.Is(err, ErrNotFound) {
				t.Errorf("read of the missing file: %v", err)
			}
			if err := l.ReadAt(b[:], want[len(want)-1]); err != nil {
				t.Error(err)
			}
			for n := 0; ; n++ {
				if ok, err := l.DropOldest(l.Written(), RemovedEarly); err != nil {
					t.Fatal(err)
				} else if !ok {
					break
				}
				if first, _ := l.Range(); lost == "missing" && first == segmentBytes {
					t.Error("the log begins with a missing file")
				}
			}
		})
	}
}

// A damaged record in front of synced ones is skipped; a torn tail is cut.
func TestRecover_damageIsNotATail(t *testing.T) {
	mem := vfs.NewMem(nil)
	now := time.UnixMilli(1000)
	deps := testDeps(mem)
	deps.Now = func() time.Time { now = now.Add(time.Second); return now }
	l, err := Open(Config{Dir: "/log", SegmentBytes: segmentBytes, FlushInterval: time.Hour}, deps)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Recover(Recovery{}); err != nil {
		t.Fatal(err)
	}
	l.Start()
	var seq Sequence
	for range 30 {
		mustAppend(t, l, request(&seq, 1, 300))
	}
	offs, _ := readAll(t, l)
	flushedTime := now.UnixMilli()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, _ := mem.Open("/log/00000000000000000000")
	if _, err := f.WriteAt([]byte("XXXXXXXX"), offs[3]); err != nil { // destroys size and magic
		t.Fatal(err)
	}
	for _, tt := range []struct {
		flushed int64
		want    int
	}{{flushedTime, 29}, {0, 3}} {
		clone := mem.CrashClone(1, 1)
		l, err := Open(Config{Dir: "/log", SegmentBytes: segmentBytes, FlushInterval: time.Hour}, testDeps(clone))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		r, err := l.Recover(Recovery{FlushedTime: tt.flushed, Visit: func(int64, *message.Fields, []byte) error { n++; return nil }})
		if err != nil || n != tt.want || r.Cut != (tt.want == 3) || len(r.Damaged) != btoi(tt.want != 3) {
			t.Fatalf("flushed %d: %d records, %+v, %v", tt.flushed, n, r, err)
		}
		l.Close()
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Every single lost sector of the last record is noticed.
func TestRecover_noticesEveryLostSector(t *testing.T) {
	mem := vfs.NewMem(nil)
	l, _ := openLog(t, mem)
	var seq Sequence
	mustAppend(t, l, request(&seq, 1, 300))
	r := request(&seq, 0, 0)
	r.Count = 1
	m := message.Message{Topic: strings.Repeat("t", 100), Body: make([]byte, 700), Properties: []byte("K\x01" + strings.Repeat("v", 1200) + "\x02")}
	r.Records, _ = message.AppendRecord(nil, &m)
	mustAppend(t, l, r)
	start, end := int(r.PhysicalOffset), int(l.Written())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for sector := start / sectorBytes; sector <= (end-1)/sectorBytes; sector++ {
		clone := mem.CrashClone(1, 1)
		f, _ := clone.Open("/log/00000000000000000000")
		from, to := max(start, sector*sectorBytes), min(end, (sector+1)*sectorBytes)
		lost := make([]byte, to-from)
		old := make([]byte, to-from)
		f.ReadAt(old, int64(from))
		if _, err := f.WriteAt(lost, int64(from)); err != nil {
			t.Fatal(err)
		}
		c, rec := openLog(t, clone)
		offs, _ := readAll(t, c)
		if want := 1 + btoi(bytes.Equal(old, lost)); len(offs) != want {
			t.Fatalf("sector %d (bytes %d to %d of the record): %d records, want %d, %+v", sector, from-start, to-start, len(offs), want, rec)
		}
	}
}

// After a power cut at any step the log is a prefix that holds every record
// whose sync was acknowledged.
func TestRecover_crashAtEveryStep(t *testing.T) {
	mem := vfs.NewMem(nil)
	ff := vfs.NewFaults(mem)
	type written struct {
		off int64
		rec []byte
	}
	var all []written // in log order
	var acked int64   // end of the last acknowledged sync
	steps := 0
	check := func() {
		steps++
		for seed, keep := range []float64{0, 0.5, 0.9, 1} {
			c := mem.CrashClone(keep, uint64(steps*10+seed))
			l, err := Open(Config{Dir: "/log", SegmentBytes: segmentBytes, FlushInterval: time.Hour}, testDeps(c))
			if err != nil {
				t.Errorf("step %d keep %v: %v", steps, keep, err)
				return
			}
			i := 0
			r, err := l.Recover(Recovery{Visit: func(off int64, _ *message.Fields, rec []byte) error {
				if i < len(all) && (all[i].off != off || !bytes.Equal(all[i].rec, rec)) {
					return fmt.Errorf("record %d at %d differs", i, off)
				}
				i++
				return nil
			}})
			if err != nil || r.End < acked || i > len(all)+2 {
				t.Errorf("step %d keep %v: end %d, acknowledged %d, %d of %d records: %v", steps, keep, r.End, acked, i, len(all), err)
			}
			l.Close()
		}
	}
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		if op != vfs.OpRead && op != vfs.OpOpen {
			check()
		}
		return 0, nil
	})
	l, _ := openLog(t, ff)
	var seq Sequence
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		r := request(&seq, 1+rng.IntN(2), rng.IntN(900))
		r.Sync = rng.IntN(3) == 0
		mustAppend(t, l, r)
		pos := r.PhysicalOffset
		for rec := r.Records; len(rec) > 0; {
			size, _, _ := message.Head(rec)
			all = append(all, written{pos, bytes.Clone(rec[:size])})
			rec, pos = rec[size:], pos+int64(size)
		}
		if r.Sync {
			acked = pos
		}
	}
	ff.Set(nil)
	if steps < 80 {
		t.Fatalf("only %d steps", steps)
	}
}
