package store

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// However many senders of large messages there are, a few records of theirs are
// encoded and wait to be written at a time; the others wait in front of that and
// are all stored in the end, and small messages go past them.
func TestAppend_largeOnesWaitBeforeTheyAreEncoded(t *testing.T) {
	const senders, body = 12, 4 << 20
	ff := vfs.NewFaults(vfs.NewMem(nil))
	cfg := testConfig()
	cfg.SegmentBytes, cfg.MaxMessageBytes = 128<<20, body
	s, err := Open(cfg, Deps{FS: ff})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Append(ctx, msg("T", 0, "first"), DurabilityAsync); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		if op == vfs.OpWrite {
			<-release
		}
		return 0, nil
	})
	large := strings.Repeat("x", body)
	done := make(chan error)
	for range senders {
		go func() {
			_, err := s.Append(ctx, msg("T", 0, large), DurabilityAsync)
			done <- err
		}()
	}
	for s.Metrics().WaitingAppends < largeRoom/body-2 { // one is being written, one more does not fit beside what a record has around its body
		runtime.Gosched()
	}
	var o outcome
	if err := s.Submit(msg("T", 0, large), DurabilityAsync, &o); !errors.Is(err, ErrBusy) {
		t.Errorf("one more large message: %v", err)
	}
	if err := s.Submit(msg("T", 0, "small"), DurabilityAsync, &o); err != nil {
		t.Errorf("a small message: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Append(ended, msg("T", 0, large), DurabilityAsync); !errors.Is(err, context.Canceled) {
		t.Errorf("a sender that is gone: %v", err)
	}
	if m := s.Metrics(); m.WaitingBytes > largeRoom {
		t.Errorf("%d bytes wait to be written, at most %d are allowed", m.WaitingBytes, largeRoom)
	}
	close(release)
	for range senders {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if o.err != nil || o.appended.QueueOffset == 0 || o.appended.QueueOffset > largeRoom/body {
		t.Errorf("the small message: %+v, %v", o.appended, o.err)
	}
	if !s.largeRoom.TryAcquire(largeRoom) {
		t.Error("not all room came back")
	}
	s.largeRoom.Release(largeRoom)
}
