package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// convertible makes a store that was stopped cleanly: queues of one and of
// many messages, with a gap, with all messages or some expired.
func convertible(t *testing.T, layout QueueLayout) *vfs.Mem {
	t.Helper()
	now := time.UnixMilli(1_700_000_000_000)
	disk := vfs.NewMem(func() time.Time { return now })
	cfg := testConfig()
	cfg.QueueLayout, cfg.Retention = layout, time.Hour
	s, err := Open(cfg, Deps{FS: disk, Now: func() time.Time { return now }})
	mustDo(t, err)
	send := func(topic string, queue int32, n int) {
		for i := range n {
			_, err := s.Append(t.Context(), msg(topic, queue, fmt.Sprintf("%s-%d-%d-%s", topic, queue, i, strings.Repeat("x", 200))), DurabilitySync)
			mustDo(t, err)
		}
	}
	send("old", 0, 50) // exactly a page
	send("old", 1, 7)
	send("busy", 0, 80)
	mustDo(t, s.dispatch(t.Context(), s.visible()))
	mustDo(t, s.saveProgress(true))
	now = now.Add(2 * time.Hour)
	send("busy", 0, 80)
	send("one", 3, 1)
	mustDo(t, s.dispatch(t.Context(), s.visible()))
	mustDo(t, s.retain())
	if lo, hi := s.QueueOffsets("old", 0); lo != 50 || hi != 50 {
		t.Fatalf("old messages are there: %d to %d", lo, hi)
	}
	// A queue that begins late, behind a gap.
	q, err := s.makeQueue("late", 0)
	mustDo(t, err)
	u, _, err := s.findQueue("one", 3).log.At(0)
	mustDo(t, err)
	q.log.Append(70, u)
	u.Offset++
	u.Size += 1
	q.log.Append(75, u)
	s.touched.touch(q)
	mustDo(t, s.Close())
	return disk
}

// layoutOf opens the store with a layout and describes what is in its queues.
func layoutOf(t *testing.T, disk *vfs.Mem, layout QueueLayout) string {
	t.Helper()
	cfg := testConfig()
	cfg.QueueLayout = layout
	s, err := Open(cfg, Deps{FS: disk})
	mustDo(t, err)
	defer func() { mustDo(t, s.Close()) }()
	return queueUnits(s)
}

func other(l QueueLayout) QueueLayout { return LayoutCompact - l }

func TestConvertQueues_thereAndBack(t *testing.T) {
	for _, first := range []QueueLayout{LayoutCompatible, LayoutCompact} {
		t.Run(first.String(), func(t *testing.T) {
			disk := convertible(t, first)
			want := layoutOf(t, disk.CrashClone(1, 1), first)
			files := queueFiles(disk)
			for _, to := range []QueueLayout{other(first), first} {
				last := 0
				mustDo(t, ConvertQueues(testConfig(), Deps{FS: disk}, to, func(done, total int) {
					if done <= last || total != 5 {
						t.Errorf("%d of %d queues are done, %d were", done, total, last)
					}
					last = done
				}))
				if last != 5 {
					t.Errorf("%d queues are done at the end", last)
				}
				if got := layoutOf(t, disk.CrashClone(0, 1), to); got != want {
					t.Fatalf("%s: got\n%s\nwant\n%s", to, got, want)
				}
			}
			if got := queueFiles(disk); first == LayoutCompatible && strings.Count(got, "\n") != strings.Count(files, "\n") {
				t.Errorf("files differ:\n%s\n%s", got, files)
			}
			mustDo(t, ConvertQueues(testConfig(), Deps{FS: disk}, first, func(int, int) { t.Error("something was converted") }))
		})
	}
}

// A conversion that a power cut interrupts at any step leaves the old layout or
// the new one, whole, and can be begun again.
func TestConvertQueues_crashAtEveryStep(t *testing.T) {
	for _, first := range []QueueLayout{LayoutCompatible, LayoutCompact} {
		disk := convertible(t, first)
		want := layoutOf(t, disk.CrashClone(1, 1), first)
		ff := vfs.NewFaults(disk)
		steps, failed, switched := 0, false, 0
		var mu sync.Mutex // queues are written at the same time
		ff.Set(func(op vfs.Op, name string) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if op == vfs.OpRead || op == vfs.OpOpen || op == vfs.OpLock || failed {
				return 0, nil
			}
			steps++
			failed = true // until all is compared
			for i, keep := range []float64{0, 0.6, 1} {
				c := disk.CrashClone(keep, uint64(steps*10+i))
				s := newStore(testConfig(), Deps{FS: c})
				mustDo(t, c.MkdirAll("/store/"+filesFolder))
				s.cfg.QueueLayout = first
				found, err := s.foundLayout()
				mustDo(t, err)
				if found != first {
					switched++
				}
				if got := layoutOf(t, c, found); got != want {
					t.Fatalf("%s, step %d (%s %s) keep %v, found %s: got\n%s\nwant\n%s", first, steps, op, name, keep, found, got, want)
				}
				mustDo(t, ConvertQueues(testConfig(), Deps{FS: c}, other(first), nil))
				if got := layoutOf(t, c, other(first)); got != want {
					t.Fatalf("%s, step %d (%s %s) keep %v, begun again: got\n%s\nwant\n%s", first, steps, op, name, keep, got, want)
				}
			}
			failed = false
			return 0, nil
		})
		mustDo(t, ConvertQueues(testConfig(), Deps{FS: ff}, other(first), nil))
		if steps < 30 || switched == 0 {
			t.Errorf("%s: %d steps, %d of them behind the switch", first, steps, switched)
		}
	}
}

func TestConvertQueues_refusals(t *testing.T) {
	disk := convertible(t, LayoutCompatible)
	cfg := testConfig()
	cfg.QueueLayout = LayoutCompact
	_, err := Open(cfg, Deps{FS: disk})
	if !errors.Is(err, ErrQueueLayout) || !strings.Contains(err.Error(), "sluice store convert --to compact /store") {
		t.Errorf("open with the other layout: %v", err)
	}
	if found, _ := vfs.Exists(disk, "/store/abort"); found {
		t.Error("a refused start makes the stop unclean")
	}
	s, err := Open(testConfig(), Deps{FS: disk})
	mustDo(t, err)
	if err := ConvertQueues(cfg, Deps{FS: disk}, LayoutCompact, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("an open store: %v", err)
	}
	if err := ConvertQueues(cfg, Deps{FS: disk.CrashClone(1, 1)}, LayoutCompact, nil); !errors.Is(err, ErrUnclean) {
		t.Errorf("a store that was killed: %v", err)
	}
	mustDo(t, s.Close())
	mustDo(t, disk.Remove("/store/consumequeue/busy/0/00000000000000001200"))
	if err := ConvertQueues(cfg, Deps{FS: disk}, LayoutCompact, nil); !errors.Is(err, ErrQueuesDamaged) {
		t.Errorf("a missing file: %v", err)
	}
	if err := ConvertQueues(cfg, Deps{FS: vfs.NewMem(nil)}, LayoutCompact, nil); err == nil {
		t.Error("no store at all is converted")
	}
}
