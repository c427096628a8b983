package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// watchFS tells of what is read of the commit log, and what may be forgotten.
type watchFS struct {
	vfs.FS
	mu     sync.Mutex
	read   func(off, n int64)
	forget func(off, n int64)
}

type watchFile struct {
	vfs.File
	fs   *watchFS
	base int64
}

func (w *watchFS) file(name string, f vfs.File, err error) (vfs.File, error) {
	if base, perr := strconv.ParseInt(filepath.Base(name), 10, 64); err == nil && perr == nil && strings.Contains(name, "/commitlog/") {
		return watchFile{f, w, base}, nil
	}
	return f, err
}

func (w *watchFS) Open(name string) (vfs.File, error) {
	f, err := w.FS.Open(name)
	return w.file(name, f, err)
}

func (w *watchFS) Create(name string) (vfs.File, error) {
	f, err := w.FS.Create(name)
	return w.file(name, f, err)
}

func (f watchFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	if f.fs.read != nil {
		f.fs.read(f.base+off, int64(len(b)))
	}
	f.fs.mu.Unlock()
	return f.File.ReadAt(b, off)
}

func (f watchFile) Forget(off, n int64) {
	f.fs.mu.Lock()
	if f.fs.forget != nil {
		f.fs.forget(f.base+off, n)
	}
	f.fs.mu.Unlock()
}

// Groups that read far behind the end read no more of the disk than their
// budgets say, get every message once and in order, and never an error; who
// reads at the end, and Sluice itself, never wait.
func TestRead_coldGroupsHaveBudgets(t *testing.T) {
	const messages, body = 600, 4000
	clock, disk := newClock(), &watchFS{FS: vfs.NewMem(nil)}
	cfg := testConfig()
	cfg.HotBytes = 40_000
	cfg.ColdGroupRate, cfg.ColdRate = 1_000_000, 2_500_000
	cfg.ColdGroupInFlight, cfg.ColdInFlight = 1<<20, 1<<20
	s, err := Open(cfg, Deps{FS: disk, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var size int64
	for range messages {
		a, err := s.Append(ctx, msg("T", 0, strings.Repeat("x", body)), DurabilityAsync)
		if err != nil {
			t.Fatal(err)
		}
		size = int64(a.Size)
	}
	if err := s.dispatch(ctx, s.visible()); err != nil {
		t.Fatal(err)
	}
	_, end := s.CommitLogRange()
	var cold int64
	disk.read = func(off, n int64) {
		if off < end-cfg.HotBytes {
			cold += n
		}
	}
	reader := map[string]int64{"a": 0, "b": 0, "c": 0, "d": 0}
	groups := []string{"a", "b", "c", "d"}
	got := map[string]int64{}
	start, held, hotFrom := clock.Now(), 0, (end-cfg.HotBytes)/size+1
	for slices.ContainsFunc(groups, func(g string) bool { return reader[g] < messages }) {
		progress := false
		for _, g := range groups {
			if reader[g] >= messages {
				continue
			}
			b, err := s.Read("T", 0, reader[g], ReadOptions{Group: g, MaxMessages: 32, MaxBytes: 256 << 10})
			if err != nil {
				t.Fatal(err)
			}
			switch b.Status {
			case ReadFound:
				for i, rec := range b.Records {
					if m, err := message.Decode(rec); err != nil || m.QueueOffset != reader[g]+int64(i) {
						t.Fatalf("group %s gets offset %d at place %d: %v", g, m.QueueOffset, reader[g]+int64(i), err)
					}
					if reader[g]+int64(i) < hotFrom {
						got[g] += size
					}
				}
				if b.Next != reader[g]+int64(len(b.Records)) {
					t.Fatalf("group %s: next is %d behind %d records from %d", g, b.Next, len(b.Records), reader[g])
				}
				reader[g], progress = b.Next, true
			case ReadLater:
				if b.Next != reader[g] || b.Wait <= 0 || len(b.Records) > 0 {
					t.Fatalf("group %s: %+v", g, b)
				}
				held++
			default:
				t.Fatalf("group %s: %v", g, b.Status)
			}
			b.Release()
		}
		for _, o := range []struct {
			group string
			from  int64
		}{{"tail", messages - 3}, {"", 0}} {
			if b, err := s.Read("T", 0, o.from, ReadOptions{Group: o.group, MaxMessages: 1}); err != nil || b.Status != ReadFound {
				t.Fatalf("group %q: %v, %v", o.group, b.Status, err)
			}
		}
		cold -= size // of the last one
		took := clock.Now().Sub(start).Seconds()
		var all int64
		for g, n := range got {
			if most := took*float64(cfg.ColdGroupRate)*1.01 + float64(coldLeast); float64(n) > most {
				t.Fatalf("group %s has read %d bytes cold in %.3f s, at most %.0f are allowed", g, n, took, most)
			}
			all += n
		}
		if most := took*float64(cfg.ColdRate)*1.01 + float64(coldLeast); float64(all) > most || float64(cold) > most {
			t.Fatalf("%d bytes were read cold, %d of the disk, in %.3f s, at most %.0f are allowed", all, cold, took, most)
		}
		if !progress {
			clock.Add(time.Millisecond)
		}
	}
	if took, least := clock.Now().Sub(start), 0.9*float64(4*hotFrom*size)/float64(cfg.ColdRate)-0.1; took.Seconds() < least || took.Seconds() > 1.3*least+0.2 {
		t.Errorf("four groups took %v, by the rate it is %.2f s", took, least)
	}
	if m := s.Metrics(); m.ColdHeld != uint64(held) || held == 0 || m.Cold.Bytes.Sum == 0 {
		t.Errorf("%d reads were held, %d are counted, and %d bytes", held, m.ColdHeld, m.Cold.Bytes.Sum)
	}
}

// A record that is larger than the budget is read, and paid for afterwards; what
// is being read at a time is bounded; idle groups cost nothing.
func TestColdReads_budget(t *testing.T) {
	clock := newClock()
	cfg := testConfig()
	cfg.ColdGroupRate, cfg.ColdRate = 16<<20, 1<<30
	cfg.ColdGroupInFlight, cfg.ColdInFlight = 128<<10, 320<<10
	var c coldReads
	c.init(&cfg, clock.Now)
	take := func(group string, n, want int64, wait time.Duration) {
		t.Helper()
		if got, d := c.take(group, n); got != want || d != wait {
			t.Fatalf("group %s asks for %d: %d and %v, want %d and %v", group, n, got, d, want, wait)
		}
	}
	burst := int64(16<<20) / 100
	take("a", 4<<20, burst, 0)
	c.give("a", burst, 4<<20)
	clock.Add(200 * time.Millisecond)
	if got, d := c.take("a", 1); got != 0 || d < 35*time.Millisecond || d > 45*time.Millisecond {
		t.Fatalf("behind a large record: %d, %v", got, d)
	}
	clock.Add(45 * time.Millisecond)
	take("a", 1, 1, 0)

	take("b", 100<<10, 100<<10, 0)
	take("b", 100<<10, 0, c.groups["b"].wait(t, 100<<10))
	clock.Add(time.Second)
	take("b", 64<<10, 0, coldPause)
	take("c", 100<<10, 100<<10, 0)
	take("d", 100<<10, 100<<10, 0)
	take("e", 100<<10, 0, coldPause) // of all groups
	for _, g := range []string{"b", "c", "d"} {
		c.give(g, 100<<10, 100<<10)
	}
	c.give("a", 1, 1)
	take("e", 100<<10, 100<<10, 0)
	c.give("e", 100<<10, 100<<10)

	clock.Add(time.Minute)
	for i := range 10 * coldGroups {
		g := fmt.Sprint(i)
		take(g, 1, 1, 0)
		c.give(g, 1, 1)
		clock.Add(time.Millisecond)
	}
	if n := len(c.groups); n > coldGroups {
		t.Errorf("%d groups are kept", n)
	}
}

// wait is how long the budget says to wait for n bytes.
func (b *coldBudget) wait(t *testing.T, n int64) time.Duration {
	t.Helper()
	got, d := b.room(n)
	if got != 0 {
		t.Fatalf("%d bytes are left", got)
	}
	return d
}

// A cold scan leaves nothing behind in the page cache but the window it is in,
// also when the queue has a few records of each window only; what is hot stays.
func TestRead_coldScanIsForgotten(t *testing.T) {
	disk := &watchFS{FS: vfs.NewMem(nil)}
	cfg := testConfig()
	cfg.SegmentBytes, cfg.MaxMessageBytes, cfg.HotBytes = 64<<20, 1<<20, 12<<20
	clock := newClock()
	s, err := Open(cfg, Deps{FS: disk, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var at [2][]int64
	for i := range 240 {
		queue := 0
		if i%20 == 0 {
			queue = 1
		}
		a, err := s.Append(ctx, msg("T", int32(queue), strings.Repeat("x", 300<<10)), DurabilityAsync)
		if err != nil {
			t.Fatal(err)
		}
		at[queue] = append(at[queue], a.PhysicalOffset)
	}
	if err := s.dispatch(ctx, s.visible()); err != nil {
		t.Fatal(err)
	}
	_, end := s.CommitLogRange()
	hot := end - cfg.HotBytes
	for queue := range at {
		cached, forgotten := map[int64]bool{}, 0
		disk.read = func(off, n int64) {
			for w := off / coldWindow; w <= (off+n-1)/coldWindow && off < hot; w++ {
				cached[w] = true
			}
		}
		disk.forget = func(off, n int64) {
			if off+n > hot+coldWindow {
				t.Errorf("[%d, %d) is forgotten, hot begins at %d", off, off+n, hot)
			}
			forgotten++
			delete(cached, off/coldWindow)
		}
		for next := int64(0); next < int64(len(at[queue])); clock.Add(time.Second) {
			b, err := s.Read("T", int32(queue), next, ReadOptions{Group: "g", MaxBytes: 700 << 10})
			if err != nil || b.Status != ReadFound {
				t.Fatal(b.Status, err)
			}
			next = b.Next
			b.Release()
			if len(cached) > 2 {
				t.Fatalf("queue %d: at %d windows %v are cached", queue, next, cached)
			}
		}
		if forgotten == 0 {
			t.Errorf("queue %d: nothing is forgotten", queue)
		}
	}
}
