package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// A read of the commit log that fails once does not end the dispatcher.
func TestRun_goesOnAfterAFailedRead(t *testing.T) {
	disk := vfs.NewFaults(vfs.NewMem(nil))
	cfg := testConfig()
	cfg.QueueFlush = time.Millisecond
	h := start(t, cfg, Deps{FS: disk})
	h.append(msg("T", 0, "a"))
	h.await("T", 0, 1)
	var failed atomic.Bool
	disk.Set(func(op vfs.Op, name string) (int, error) {
		if op == vfs.OpRead && strings.Contains(name, "commitlog") && !failed.Swap(true) {
			return 0, errors.New("EIO")
		}
		return 0, nil
	})
	h.append(msg("T", 0, "b"))
	arrived := make(chan struct{})
	go func() {
		h.await("T", 0, 2)
		close(arrived)
	}()
	select {
	case <-arrived:
	case <-time.After(20 * time.Second):
		t.Fatal("the message does not become readable")
	}
	if !failed.Load() {
		t.Error("no read has failed")
	}
	if got := bodies(t, h.Store, "T", 0); fmt.Sprint(got) != "[a b]" {
		t.Error(got)
	}
}

// The compact layout goes on when a full disk has room again.
func TestSaveProgress_afterAFullDisk(t *testing.T) {
	mem := vfs.NewMem(nil)
	disk := vfs.NewFaults(mem)
	cfg := testConfig()
	cfg.QueueLayout = LayoutCompact
	s, err := Open(cfg, Deps{FS: disk})
	mustDo(t, err)
	mustDo(t, s.PutTopic(DefaultTopicConfig("T")))
	add := func(topic string) {
		_, err := s.Append(ctx, msg(topic, 0, "a"), DurabilitySync)
		mustDo(t, err)
		mustDo(t, s.dispatch(ctx, s.visible()))
	}
	add("T")
	mustDo(t, s.saveProgress(true))
	add("T")
	add("New")
	disk.Set(func(op vfs.Op, name string) (int, error) {
		if op == vfs.OpWrite && strings.Contains(name, "directory") {
			return 0, vfs.ErrNoSpace
		}
		return 0, nil
	})
	for range 2 {
		if err := s.saveProgress(true); !errors.Is(err, vfs.ErrNoSpace) {
			t.Errorf("full: %v", err)
		}
	}
	disk.Set(nil)
	add("T")
	mustDo(t, s.saveProgress(true))
	before := s.checkpoint.get().reached
	crashed, err := Open(cfg, Deps{FS: mem.CrashClone(1, 1)})
	mustDo(t, err)
	defer crashed.Close()
	if before == 0 || len(bodies(t, crashed, "T", 0)) != 3 || len(bodies(t, crashed, "New", 0)) != 1 {
		t.Errorf("after a crash: reached %d, %v, %v", before, bodies(t, crashed, "T", 0), bodies(t, crashed, "New", 0))
	}
	mustDo(t, s.DeleteTopic("T"))
	mustDo(t, s.Close())
	if ok, _ := vfs.Exists(mem, "/store/abort"); ok {
		t.Error("the stop was not clean")
	}
}

// A damaged entry points to a record of the same size in another topic: that
// is not handed out, and the queue is built anew.
func TestRead_entryOfAnotherTopic(t *testing.T) {
	disk := vfs.NewMem(nil)
	cfg := testConfig()
	s, err := Open(cfg, Deps{FS: disk})
	mustDo(t, err)
	var other Appended
	for i := range 10 {
		_, err := s.Append(ctx, msg("aaaaaaaa%T", 0, fmt.Sprint("mine", i)), DurabilitySync)
		mustDo(t, err)
		other, err = s.Append(ctx, msg("bbbbbbbb%T", 0, fmt.Sprint("not ", i)), DurabilitySync)
		mustDo(t, err)
	}
	mustDo(t, s.dispatch(ctx, s.visible()))
	mustDo(t, s.Close())
	f, err := disk.Open("/store/consumequeue/aaaaaaaa%T/0/00000000000000000000")
	mustDo(t, err)
	_, err = f.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(other.PhysicalOffset)), 3*20)
	mustDo(t, err)
	mustDo(t, f.Close())
	s, err = Open(cfg, Deps{FS: disk})
	mustDo(t, err)
	defer s.Close()
	b, err := s.Read("aaaaaaaa%T", 0, 3, ReadOptions{MaxMessages: 1})
	mustDo(t, err)
	if b.Status == ReadFound {
		m, _ := message.Decode(b.Records[0])
		t.Fatalf("%q of %s was handed out", m.Body, m.Topic)
	}
	run, stop := context.WithCancel(ctx)
	built := make(chan struct{})
	s.OnArrival(func(Arrival) { close(built) })
	ran := make(chan error, 1)
	go func() { ran <- s.Run(run) }()
	select {
	case <-built:
	case <-time.After(20 * time.Second):
		t.Error("the queue is not built anew")
	}
	stop()
	mustDo(t, <-ran)
	if got := bodies(t, s, "aaaaaaaa%T", 0); len(got) != 10 || got[3] != "mine3" {
		t.Errorf("built anew: %v", got)
	}
}

// What is wrong and goes on is shown.
func TestMetrics_whatIsWrong(t *testing.T) {
	disk := vfs.NewMem(nil)
	now := newClock()
	s, err := Open(testConfig(), Deps{FS: disk, Now: now.Now})
	mustDo(t, err)
	defer s.Close()
	var all []Appended
	for i := range 3 {
		a, err := s.Append(ctx, msg("T", 0, fmt.Sprint("m", i)), DurabilitySync)
		mustDo(t, err)
		all = append(all, a)
	}
	mustDo(t, s.retain())
	if m := s.Metrics(); m.DamagedParts != 0 || m.ClockDoubted {
		t.Errorf("nothing is wrong yet: %+v", m)
	}
	f, err := disk.Open("/store/commitlog/00000000000000000000")
	mustDo(t, err)
	_, err = f.WriteAt([]byte("?"), all[1].PhysicalOffset+4) // its magic
	mustDo(t, err)
	mustDo(t, f.Close())
	mustDo(t, s.dispatch(ctx, s.visible()))
	mustDo(t, s.indexTo(ctx, s.visible())) // comes by the same place
	now.Add(2 * maxClockStep)
	mustDo(t, s.retain())
	if m := s.Metrics(); m.DamagedParts != 1 || !m.ClockDoubted {
		t.Errorf("%d damaged parts, want 1; the clock is doubted: %v", m.DamagedParts, m.ClockDoubted)
	}
	now.Add(-2 * maxClockStep)
	mustDo(t, s.retain())
	if s.Metrics().ClockDoubted {
		t.Error("the clock is doubted when it was set right")
	}
}
