package commitlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Statements 12 and 18: files are named by their begin in 20 digits, all have
// their size from the start, and a full one ends with a marker of what is left.
func TestFiles_namesSizesMarkers(t *testing.T) {
	mem := vfs.NewMem(nil)
	l, _ := openLog(t, mem)
	var seq Sequence
	var last *Request
	for range 4 {
		last = mustAppend(t, l, request(&seq, 1, 3000))
	}
	infos, err := mem.ReadDir("/log")
	if err != nil || len(infos) != 4 || last.PhysicalOffset != 3*segmentBytes {
		t.Fatalf("%d files, %v", len(infos), err)
	}
	const used = overhead + 3000
	for i, info := range infos {
		if want := fmt.Sprintf("%020d", i*segmentBytes); info.Name != want || info.Size != segmentBytes {
			t.Errorf("file %d: %s of %d bytes, want %s of %d", i, info.Name, info.Size, want, segmentBytes)
		}
		if i == 3 {
			continue
		}
		var b [8]byte
		if err := l.ReadAt(b[:], int64(i*segmentBytes+used)); err != nil {
			t.Fatal(err)
		}
		if left, magic, _ := message.Head(b[:]); left != segmentBytes-used || uint32(magic) != 0xCBD43194 {
			t.Errorf("marker of file %d: %d %x", i, left, magic)
		}
	}
}

// Statement 14: the records of a batch have offsets that follow each other and
// one store time.
func TestBatch_offsetsAndTime(t *testing.T) {
	mem := vfs.NewMem(nil)
	now := time.UnixMilli(1_700_000_000_000)
	deps := testDeps(mem)
	deps.Now = func() time.Time { now = now.Add(time.Millisecond); return now }
	l, err := Open(Config{Dir: "/log", SegmentBytes: segmentBytes, FlushInterval: time.Hour}, deps)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Recover(Recovery{Visit: func(int64, *message.Fields, []byte) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	l.Start()
	var seq Sequence
	seq.Set(4)
	r := mustAppend(t, l, request(&seq, 5, 20))
	s := l.Scan(l.Range())
	for i := range int64(5) {
		off, f, _, err := s.Next()
		if err != nil || f.QueueOffset != 4+i || f.PhysicalOffset != off || f.StoreTimestamp != r.StoreTimestamp {
			t.Errorf("record %d: at %d, queue offset %d, stored %d, %v; want %d, %d", i, f.PhysicalOffset, f.QueueOffset, f.StoreTimestamp, err, 4+i, r.StoreTimestamp)
		}
	}
}

// Statements 16 and 17: an empty last file and one of zeros are nothing but
// room: the log is the same, and goes on.
func TestOpen_emptyAndZeroLastFile(t *testing.T) {
	for name, size := range map[string]int{"empty": 0, "zeros": segmentBytes} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem(nil)
			l, _ := openLog(t, mem)
			var seq Sequence
			mustAppend(t, l, request(&seq, 1, 3000))
			end := l.Written()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if err := vfs.WriteFile(mem, fmt.Sprintf("/log/%020d", segmentBytes), make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			l, r := openLog(t, mem)
			if r.End != end || l.Written() != end {
				t.Errorf("the log ends at %d, want %d", r.End, end)
			}
			mustAppend(t, l, request(&seq, 1, 3000))
			if offs, _ := readAll(t, l); len(offs) != 2 || offs[1] != segmentBytes {
				t.Errorf("records at %v", offs)
			}
		})
	}
}

// Statement 44: a whole record that stands where it was not written is none.
func TestRecover_recordOfAnotherPlace(t *testing.T) {
	mem := vfs.NewMem(nil)
	l, _ := openLog(t, mem)
	var seq Sequence
	r := mustAppend(t, l, request(&seq, 1, 300))
	end := l.Written()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Open(fmt.Sprintf("/log/%020d", 0))
	if err != nil {
		t.Fatal(err)
	}
	rec := make([]byte, end)
	if _, err := f.ReadAt(rec, r.PhysicalOffset); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(rec, end); err != nil {
		t.Fatal(err)
	}
	f.Close()
	l, got := openLog(t, mem)
	if got.End != end {
		t.Errorf("the log ends at %d, want %d", got.End, end)
	}
	if offs, _ := readAll(t, l); len(offs) != 1 {
		t.Errorf("records at %v", offs)
	}
}

// Statement 49: one round removes no more files than it was told to.
func TestExpire_atMostSoManyFiles(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	mem := vfs.NewMem(func() time.Time { return now })
	l, _ := openLog(t, mem)
	var seq Sequence
	for range 14 {
		mustAppend(t, l, request(&seq, 1, 3900))
	}
	for _, want := range []int{10, 3, 0} {
		if n, err := l.Expire(now.Add(time.Hour), l.Written(), 10); n != want || err != nil {
			t.Errorf("%d files went, %v, want %d", n, err, want)
		}
	}
}
