package commitlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// spoiled makes a log of three files on a disk whose second file has a damaged
// record, and returns where that begins.
func spoiled(t *testing.T, disk vfs.FS) int64 {
	t.Helper()
	l, _ := openLog(t, disk)
	for l.Written() < 2*segmentBytes+500 {
		mustAppend(t, l, request(nil, 1, 300))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := disk.Open(fmt.Sprintf("/log/%020d", segmentBytes))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0}, 100); err != nil { // in the body of the first
		t.Fatal(err)
	}
	return segmentBytes
}

// recovered opens and recovers a log, and returns what happened.
func recovered(t *testing.T, disk vfs.FS, r Recovery) (*Log, Recovered, *events, error) {
	t.Helper()
	l, seen := unrecovered(t, disk)
	r.Visit = func(int64, *message.Fields, []byte) error { return nil }
	out, err := l.Recover(r)
	return l, out, seen, err
}

// What is cut off is kept file by file without zeros, up to a limit, and a full
// disk does not keep the log from being opened.
func TestRecover_keepsWhatIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		room  int64
		full  bool
		files int // that are kept
	}{"room for all": {1 << 20, false, 2}, "for the end only": {1000, false, 1}, "for nothing": {0, false, 0}, "disk is full": {1 << 20, true, 0}} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem(nil)
			disk := vfs.NewFaults(mem)
			from := spoiled(t, disk)
			disk.Set(func(op vfs.Op, name string) (int, error) {
				if c.full && op == vfs.OpWrite && strings.HasPrefix(name, "/cut/") {
					return 0, vfs.ErrNoSpace
				}
				return 0, nil
			})
			l, out, seen, err := recovered(t, disk, Recovery{Keep: Keep{Dir: "/cut/now/commitlog", Bytes: c.room}})
			if err != nil || out.End != from || len(out.Kept) != c.files {
				t.Fatalf("%+v, %v", out, err)
			}
			kept, lost := 0, 0
			for _, e := range seen.take() {
				switch e.(type) {
				case TailKept:
					kept++
				case TailNotKept:
					lost++
				}
			}
			if kept != c.files || kept+lost != 2 {
				t.Errorf("%d are told to be kept, %d to be lost", kept, lost)
			}
			for _, k := range out.Kept {
				b, err := vfs.ReadFile(mem, k.File)
				if err != nil || int64(len(b)) != k.To-k.From || b[len(b)-1] == 0 || !strings.HasSuffix(k.File, fmt.Sprintf("/%020d", k.From)) {
					t.Errorf("%+v: %d bytes, %v", k, len(b), err)
				}
			}
			if infos, _ := mem.ReadDir("/cut/now/commitlog"); len(infos) != c.files {
				t.Errorf("files: %v", infos)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A log that goes on further behind has no bytes in between, keeps what it had,
// and is the same when it is opened again.
func TestSkipTo(t *testing.T) {
	for name, c := range map[string]struct{ records, off, want int64 }{
		"into the same file":     {2, 600, segmentBytes},
		"over a file":            {2, segmentBytes + 1, 2 * segmentBytes},
		"to the begin of a file": {2, 3 * segmentBytes, 3 * segmentBytes},
		"of an empty log":        {0, segmentBytes + 1, 2 * segmentBytes},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem(nil)
			l, _, _, err := recovered(t, disk, Recovery{})
			if err != nil {
				t.Fatal(err)
			}
			l.Start()
			for range c.records {
				mustAppend(t, l, request(nil, 1, 100))
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l, _, _, err = recovered(t, disk, Recovery{})
			if err != nil {
				t.Fatal(err)
			}
			was := l.Written()
			if end, err := l.SkipTo(c.off); err != nil || end != c.want || l.Written() != end || l.Flushed() != end {
				t.Fatalf("goes on at %d, %d, %v; want %d", end, l.Written(), err, c.want)
			}
			l.Start()
			r := mustAppend(t, l, request(nil, 1, 100))
			if r.PhysicalOffset != c.want {
				t.Errorf("appended at %d", r.PhysicalOffset)
			}
			var b [1]byte
			if err := l.ReadAt(b[:], c.want-1); c.want-1 >= segmentBytes && !errors.Is(err, ErrNotFound) {
				t.Errorf("a byte of a file that never was: %v", err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			records := int64(0)
			l, _ = unrecovered(t, disk)
			out, err := l.Recover(Recovery{Visit: func(off int64, _ *message.Fields, _ []byte) error {
				if records++; off >= was && off != c.want {
					t.Errorf("a record at %d", off)
				}
				return nil
			}})
			if err != nil || records != c.records+1 || out.End <= c.want || out.Cut {
				t.Errorf("opened again: %d records, %+v, %v", records, out, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	l, _, _, err := recovered(t, vfs.NewMem(nil), Recovery{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.SkipTo(1); err != nil {
		t.Error(err)
	}
	if _, err := l.SkipTo((maxHoles + 3) * segmentBytes); err == nil {
		t.Error("a place that is no end of a log is believed")
	}
	l.Close()
}

// unrecovered opens a log and returns what happens.
func unrecovered(t *testing.T, disk vfs.FS) (*Log, *events) {
	t.Helper()
	seen := &events{}
	l, err := Open(Config{Dir: "/log", SegmentBytes: segmentBytes, FlushInterval: time.Hour}, Deps{FS: disk, Now: time.Now, Events: seen.add, Advanced: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	return l, seen
}
