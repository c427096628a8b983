package store

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// steps counts what a store asks of the file system.
type steps struct{ all, opened, read, written, synced atomic.Int64 }

func (s *steps) count(op vfs.Op, _ string) (int, error) {
	s.all.Add(1)
	switch op {
	case vfs.OpOpen, vfs.OpCreate:
		s.opened.Add(1)
	case vfs.OpRead:
		s.read.Add(1)
	case vfs.OpWrite:
		s.written.Add(1)
	case vfs.OpSync, vfs.OpSyncDir:
		s.synced.Add(1)
	}
	return 0, nil
}

func (s *steps) reset() {
	for _, n := range []*atomic.Int64{&s.all, &s.opened, &s.read, &s.written, &s.synced} {
		n.Store(0)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	infos, err := os.ReadDir("/proc/self/fd")
	mustDo(t, err)
	return len(infos)
}

// 80,000 queues cost a start a handful of steps whether it comes after a clean
// stop or not, hold no files open, and cost nothing while they are idle.
func TestStore_manyTopicsStartFast_B194(t *testing.T) {
	const topics, queues = 20_000, 4
	fsys, did := vfs.NewFaults(vfs.OS()), &steps{}
	fsys.Set(did.count)
	cfg := testConfig()
	cfg.Dir = t.TempDir() + "/store"
	cfg.QueueLayout, cfg.SegmentBytes, cfg.QueueSegmentBytes = LayoutCompact, 1<<24, 6_000_000
	cfg.IndexSlots, cfg.IndexEntries = 1<<12, 1<<20
	before := openFiles(t)
	s, err := Open(cfg, Deps{FS: fsys})
	mustDo(t, err)
	name := func(topic int) string { return fmt.Sprintf("aaaaaaaa%%topic-%05d", topic) }
	send := func(topic, queue int) {
		t.Helper()
		m := msg(name(topic), int32(queue), "x")
		m.Properties = nil
		if _, err := s.Append(t.Context(), m, DurabilityAsync); err != nil {
			t.Fatal(err)
		}
	}
	d := &dispatcher{s: s, scan: s.clog.Scan(0, 0)}
	dispatch := func() {
		t.Helper()
		mustDo(t, d.dispatch(t.Context(), s.visible()))
		if d.units >= s.flushUnits() {
			mustDo(t, d.flush())
		}
	}
	for topic := range topics {
		for queue := range queues {
			send(topic, queue)
		}
	}
	dispatch()
	mustDo(t, s.saveProgress(true))
	mustDo(t, s.saveProgress(true)) // gives memory back

	// One queue is used, the others are idle.
	did.reset()
	for range 10 {
		send(17, 1)
		dispatch()
		mustDo(t, s.saveProgress(true))
	}
	if n := did.all.Load(); n > 200 {
		t.Errorf("%d steps for 10 messages of one queue and 10 syncs", n)
	}
	did.reset()
	for range 10 {
		mustDo(t, s.saveProgress(true))
		mustDo(t, s.retain())
	}
	if n := did.all.Load(); n > 20 {
		t.Errorf("%d steps for 10 syncs without a message", n)
	}

	mustDo(t, s.Close())
	for _, clean := range []bool{true, false} {
		what := fmt.Sprintf("clean %v", clean)
		if !clean {
			mustDo(t, os.WriteFile(cfg.Dir+"/abort", []byte("1"), 0o600))
		}
		did.reset()
		s, err = Open(cfg, Deps{FS: fsys})
		mustDo(t, err)
		if n := len(s.allQueues()); n != topics*queues {
			t.Fatalf("%s: %d queues", what, n)
		}
		if n := openFiles(t) - before; n > 30 {
			t.Errorf("%s: %d open files", what, n)
		}
		if n := did.opened.Load(); n > 60 {
			t.Errorf("%s: %d files were opened", what, n)
		}
		if n := did.synced.Load() + did.written.Load(); n > 200 {
			t.Errorf("%s: %d writes and syncs", what, n)
		}
		if n := did.read.Load(); clean && n > 400 {
			t.Errorf("%s: %d reads", what, n)
		}
		for topic := 0; topic < topics; topic += 997 {
			for queue := range int32(queues) {
				b, err := s.Read(name(topic), queue, 0, ReadOptions{})
				if err != nil || b.Status != ReadFound {
					t.Fatalf("%s: %s queue %d: %v %v", what, name(topic), queue, b.Status, err)
				}
				b.Release()
			}
		}
		if lo, hi := s.QueueOffsets(name(17), 1); lo != 0 || hi != 11 {
			t.Errorf("%s: the busy queue has %d to %d", what, lo, hi)
		}
		mustDo(t, s.Close())
	}
	if _, err := os.Stat(cfg.Dir + "/consumequeue/" + name(0)); err == nil {
		t.Error("a topic has a folder")
	}
}
