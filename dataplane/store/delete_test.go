package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

func inLayouts(t *testing.T, f func(t *testing.T, cfg Config)) {
	for _, layout := range []QueueLayout{LayoutCompatible, LayoutCompact} {
		t.Run(layout.String(), func(t *testing.T) {
			cfg := testConfig()
			cfg.QueueLayout = layout
			f(t, cfg)
		})
	}
}

// A message is being written when its topic is deleted: the deletion waits for
// it, others are refused meanwhile, and nothing of it is in the topic made again.
func TestDeleteTopic_waitsForAppends(t *testing.T) {
	inLayouts(t, func(t *testing.T, cfg Config) {
		disk := vfs.NewFaults(vfs.NewMem(nil))
		s, err := Open(cfg, Deps{FS: disk})
		mustDo(t, err)
		defer s.Close()
		mustDo(t, s.PutTopic(DefaultTopicConfig("T")))
		for i := range 5 {
			_, err := s.Append(ctx, msg("T", 0, fmt.Sprint("old", i)), DurabilityAsync)
			mustDo(t, err)
		}
		writing, goOn := make(chan struct{}), make(chan struct{})
		disk.Set(func(op vfs.Op, name string) (int, error) {
			if op == vfs.OpWrite && strings.Contains(name, "commitlog") {
				close(writing)
				<-goOn
			}
			return 0, nil
		})
		sent, deleted := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := s.Append(ctx, msg("T", 0, "late"), DurabilityAsync)
			sent <- err
		}()
		<-writing
		go func() { deleted <- s.DeleteTopic("T") }()
		for {
			q, err := s.admit(msg("T", 0, "x"))
			if err != nil {
				if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "topic T is being deleted") {
					t.Errorf("append to a topic that is deleted: %v", err)
				}
				break
			}
			q.gate.leave()
			runtime.Gosched()
		}
		if _, err := s.admit(msg("T", 7, "x")); !errors.Is(err, ErrBusy) {
			t.Errorf("append to a new queue of a topic that is deleted: %v", err)
		}
		select {
		case err := <-deleted:
			t.Fatalf("the deletion did not wait: %v", err)
		default:
		}
		disk.Set(nil)
		close(goOn)
		mustDo(t, <-sent)
		mustDo(t, <-deleted)
		mustDo(t, s.PutTopic(DefaultTopicConfig("T")))
		a, err := s.Append(ctx, msg("T", 0, "new"), DurabilityAsync)
		mustDo(t, err)
		if a.QueueOffset != 0 {
			t.Errorf("the first message of the new topic has offset %d", a.QueueOffset)
		}
		mustDo(t, s.dispatch(ctx, s.visible()))
		if got := bodies(t, s, "T", 0); fmt.Sprint(got) != "[new]" {
			t.Errorf("the new topic has %v", got)
		}
	})
}

// A message that was submitted and not written yet is written by the deletion
// itself when nobody else does.
func TestDeleteTopic_leadsWhatWasSubmitted(t *testing.T) {
	s, err := Open(testConfig(), Deps{FS: vfs.NewMem(nil)})
	mustDo(t, err)
	defer s.Close()
	told := make(waitFor, 1)
	mustDo(t, s.Submit(msg("T", 0, "old"), DurabilityAsync, told))
	mustDo(t, s.DeleteTopic("T"))
	mustDo(t, <-told)
	mustDo(t, s.dispatch(ctx, s.visible()))
	if _, hi := s.QueueOffsets("T", 0); hi != 0 {
		t.Errorf("the queue has %d messages", hi)
	}
}

type waitFor chan error

func (w waitFor) Appended(_ Appended, err error) Waker {
	w <- err
	return nil
}

// While senders send without a break a topic is deleted and made again: what
// is acknowledged after that can be read at the offset that was told.
func TestDeleteTopic_whileSendersSend(t *testing.T) {
	inLayouts(t, func(t *testing.T, cfg Config) {
		cfg.SegmentBytes = 1 << 20
		s, err := Open(cfg, Deps{FS: vfs.NewMem(nil)})
		mustDo(t, err)
		defer s.Close()
		run, stop := context.WithCancel(ctx)
		defer stop()
		ran := make(chan error, 1)
		go func() { ran <- s.Run(run) }()
		for round := range 12 {
			mustDo(t, s.PutTopic(DefaultTopicConfig("T")))
			var senders sync.WaitGroup
			var quit atomic.Bool
			var sent atomic.Int64
			for range 4 {
				senders.Go(func() {
					for !quit.Load() {
						if _, err := s.Append(ctx, msg("T", 0, "old"), DurabilityAsync); err == nil {
							sent.Add(1)
						} else if !errors.Is(err, ErrBusy) {
							t.Error(err)
						}
					}
				})
			}
			for sent.Load() < 200 {
				runtime.Gosched()
			}
			mustDo(t, s.DeleteTopic("T"))
			mustDo(t, s.PutTopic(DefaultTopicConfig("T")))
			quit.Store(true)
			senders.Wait()
			var last Appended
			told := map[int64]string{}
			for i := range 10 {
				body := fmt.Sprintf("new%d-%d", round, i)
				last, err = s.Append(ctx, msg("T", 0, body), DurabilityAsync)
				mustDo(t, err)
				told[last.QueueOffset] = body
			}
			for s.Dispatched() < last.PhysicalOffset+int64(last.Size) {
				runtime.Gosched()
			}
			got := bodies(t, s, "T", 0)
			if int64(len(got)) != last.QueueOffset+1 {
				t.Fatalf("round %d: %d messages, the last one was told to be at %d", round, len(got), last.QueueOffset)
			}
			for at, body := range told {
				if got[at] != body {
					t.Fatalf("round %d: %q at %d, want %q", round, got[at], at, body)
				}
			}
			mustDo(t, s.DeleteTopic("T"))
		}
		stop()
		mustDo(t, <-ran)
	})
}

// A deletion that fails on a full disk changes nothing, at whichever file, also
// for a start after a crash.
func TestDeleteTopic_onAFullDisk(t *testing.T) {
	for _, full := range []string{"config", topicsFile, deletedFile} {
		inLayouts(t, func(t *testing.T, cfg Config) {
			mem := vfs.NewMem(nil)
			disk := vfs.NewFaults(mem)
			s, err := Open(cfg, Deps{FS: disk})
			mustDo(t, err)
			defer s.Close()
			mustDo(t, s.PutTopic(DefaultTopicConfig("T")))
			add := func(body string) int64 {
				a, err := s.Append(ctx, msg("T", 0, body), DurabilitySync)
				mustDo(t, err)
				return a.QueueOffset
			}
			for i := range 5 {
				add(fmt.Sprint("m", i))
			}
			mustDo(t, s.dispatch(ctx, s.visible()))
			add("m5") // in no queue yet
			disk.Set(func(op vfs.Op, name string) (int, error) {
				if op == vfs.OpWrite && strings.Contains(name, full) {
					return 0, vfs.ErrNoSpace
				}
				return 0, nil
			})
			if err := s.DeleteTopic("T"); !errors.Is(err, vfs.ErrNoSpace) {
				t.Fatalf("full for %s: %v", full, err)
			}
			disk.Set(nil)
			mustDo(t, s.deleted.freshen())
			crashed, err := Open(cfg, Deps{FS: mem.CrashClone(1, 1)})
			mustDo(t, err)
			defer crashed.Close()
			mustDo(t, s.dispatch(ctx, s.visible()))
			want := "[m0 m1 m2 m3 m4 m5]"
			for name, s := range map[string]*Store{"open": s, "crashed": crashed} {
				if _, ok := s.Topic("T"); !ok {
					t.Errorf("full for %s, %s: the topic is gone", full, name)
				}
				if got := bodies(t, s, "T", 0); fmt.Sprint(got) != want {
					t.Errorf("full for %s, %s: %v, want %s", full, name, got, want)
				}
			}
			if at := add("later"); at != 6 {
				t.Errorf("full for %s: the next message got offset %d", full, at)
			}
		})
	}
}

// When the mark cannot be taken back at once the maintenance does it: a start
// must not find it.
func TestFreshen_takesMarksBack(t *testing.T) {
	mem := vfs.NewMem(nil)
	disk := vfs.NewFaults(mem)
	s, err := Open(testConfig(), Deps{FS: disk})
	mustDo(t, err)
	defer s.Close()
	_, err = s.Append(ctx, msg("T", 0, "m"), DurabilitySync)
	mustDo(t, err)
	disk.Set(func(op vfs.Op, name string) (int, error) {
		if op == vfs.OpWrite && strings.Contains(name, topicsFile) {
			// From here on the other file cannot be written either.
			disk.Set(func(op vfs.Op, name string) (int, error) { return 0, vfs.ErrNoSpace })
			return 0, vfs.ErrNoSpace
		}
		return 0, nil
	})
	if err := s.DeleteTopic("T"); !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatal(err)
	}
	if err := s.deleted.freshen(); !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("nothing to do: %v", err)
	}
	disk.Set(nil)
	mustDo(t, s.deleted.freshen())
	crashed, err := Open(testConfig(), Deps{FS: mem.CrashClone(1, 1)})
	mustDo(t, err)
	defer crashed.Close()
	if got := bodies(t, crashed, "T", 0); fmt.Sprint(got) != "[m]" {
		t.Errorf("after a crash: %v", got)
	}
}

// Files that cannot be deleted with their topic do not show in one made again.
func TestDeleteTopic_filesThatStay(t *testing.T) {
	disk := vfs.NewFaults(vfs.NewMem(nil))
	s, err := Open(testConfig(), Deps{FS: disk})
	mustDo(t, err)
	defer s.Close()
	mustDo(t, s.PutTopic(DefaultTopicConfig("T")))
	_, err = s.Append(ctx, msg("T", 0, "old"), DurabilityAsync)
	mustDo(t, err)
	mustDo(t, s.dispatch(ctx, s.visible()))
	disk.Set(func(op vfs.Op, name string) (int, error) {
		if op == vfs.OpRemove && strings.Contains(name, filesFolder) {
			return 0, errors.New("EIO")
		}
		return 0, nil
	})
	if err := s.DeleteTopic("T"); err == nil {
		t.Error("nothing is told of files that stay")
	}
	disk.Set(nil)
	if _, ok := s.Topic("T"); ok {
		t.Error("the topic is there")
	}
	a, err := s.Append(ctx, msg("T", 0, "new"), DurabilityAsync)
	mustDo(t, err)
	mustDo(t, s.dispatch(ctx, s.visible()))
	if got := bodies(t, s, "T", 0); fmt.Sprint(got) != "[new]" || a.QueueOffset != 0 {
		t.Errorf("%v, the new message was told to be at %d", got, a.QueueOffset)
	}
}

// Asking again for a deletion that failed finishes it, in both layouts and for
// whatever file could not go; one of a topic that never was writes nothing.
func TestDeleteTopic_again(t *testing.T) {
	for _, layout := range []QueueLayout{LayoutCompatible, LayoutCompact} {
		for _, broken := range []string{"consumequeue/T/0", "consumequeue/T/1", "consumequeue/T", "batchconsumequeue", "sluice.queues/directory"} {
			mem := vfs.NewMem(nil)
			disk := vfs.NewFaults(mem)
			cfg := testConfig()
			cfg.QueueLayout = layout
			s, err := Open(cfg, Deps{FS: disk})
			mustDo(t, err)
			defer s.Close()
			mustDo(t, s.PutTopic(DefaultTopicConfig("T")))
			for queue := range int32(2) {
				_, err = s.Append(ctx, msg("T", queue, "old"), DurabilitySync)
				mustDo(t, err)
			}
			mustDo(t, s.dispatch(ctx, s.visible()))
			mustDo(t, s.saveProgress(true))
			mustDo(t, disk.MkdirAll("/store/batchconsumequeue/T/0"))
			disk.Set(func(op vfs.Op, name string) (int, error) {
				if (op == vfs.OpRemove || op == vfs.OpWrite) && strings.Contains(name, broken) {
					return 0, vfs.ErrNoSpace
				}
				return 0, nil
			})
			failed := s.DeleteTopic("T") != nil
			if !failed && (layout == LayoutCompatible) != strings.HasPrefix(broken, "sluice") {
				t.Errorf("%v: nothing is told of %s, which stays", layout, broken)
			}
			disk.Set(nil)
			mustDo(t, s.DeleteTopic("T"))
			for _, dir := range []string{"/store/consumequeue/T", "/store/batchconsumequeue/T"} {
				if there, err := vfs.Exists(mem, dir); there || err != nil {
					t.Errorf("%v, %s could not be written: %s stays: %v", layout, broken, dir, err)
				}
			}
			// A start finds nothing of it either.
			again, err := Open(cfg, Deps{FS: mem.CrashClone(1, 1)})
			mustDo(t, err)
			if q := again.findQueue("T", 0); q != nil {
				t.Errorf("%v, %s could not be written: the queue is back", layout, broken)
			}
			mustDo(t, again.Close())

			wrote := false
			disk.Set(func(op vfs.Op, name string) (int, error) {
				wrote = wrote || op == vfs.OpWrite || op == vfs.OpRemove
				return 0, nil
			})
			if mustDo(t, s.DeleteTopic("never")); wrote {
				t.Errorf("%v: deleting what is not there writes", layout)
			}
			disk.Set(nil)
		}
	}
}

// A message whose place in the queue is another's is counted, and those behind
// it get places of their own.
func TestDispatch_placeTaken(t *testing.T) {
	s, err := Open(testConfig(), Deps{FS: vfs.NewMem(nil)})
	mustDo(t, err)
	defer s.Close()
	add := func() int64 {
		t.Helper()
		a, err := s.Append(ctx, msg("T", 0, "m"), DurabilityAsync)
		mustDo(t, err)
		mustDo(t, s.dispatch(ctx, s.visible()))
		return a.QueueOffset
	}
	for range 5 {
		add()
	}
	s.findQueue("T", 0).seq.Set(2)
	add()
	if n := s.Metrics().UnplacedRecords; n != 1 {
		t.Errorf("%d records are counted, want 1", n)
	}
	if at := add(); at != 5 {
		t.Errorf("the next message got offset %d, want 5", at)
	}
	if n := s.Metrics().UnplacedRecords; n != 1 {
		t.Errorf("%d records are counted after that, want 1", n)
	}
}
