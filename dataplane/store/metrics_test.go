package store

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// ticking is a clock that moves by a step each time that somebody looks.
func ticking(step time.Duration) func() time.Time {
	now := time.UnixMilli(1_700_000_000_000)
	return func() time.Time {
		now = now.Add(step)
		return now
	}
}

func TestMetrics_countWhatWasDoneAndWhatIsLeft(t *testing.T) {
	s, err := Open(testConfig(), Deps{FS: vfs.NewMem(nil)}) // does not run: nothing is dispatched by itself
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var stored int64
	for range 3 {
		a, err := s.Append(t.Context(), msg("T", 0, strings.Repeat("x", 100)), DurabilityAsync)
		if err != nil {
			t.Fatal(err)
		}
		stored += int64(a.Size)
	}
	as, err := s.AppendBatch(t.Context(), []*message.Message{msg("T", 0, "a"), msg("T", 0, "b")}, DurabilityAsync)
	if err != nil {
		t.Fatal(err)
	}
	stored += int64(as[0].Size + as[1].Size)

	m := s.Metrics()
	if m.UnsyncedBytes != stored || m.UndispatchedBytes != stored || m.WaitingAppends != 0 || m.WaitingBytes != 0 {
		t.Errorf("before sync and dispatch: %d unsynced, %d not dispatched, %d waiting of %d bytes; want %[5]d, %[5]d, 0, 0",
			m.UnsyncedBytes, m.UndispatchedBytes, m.WaitingAppends, m.WaitingBytes, stored)
	}
	if m.Append.Nanos.Count() != 4 || m.Append.Bytes.Sum != uint64(stored) || m.Write.Bytes.Sum != uint64(stored) || m.Sync.Nanos.Count() != 0 {
		t.Errorf("%d appends of %d bytes, %d bytes written, %d syncs; want 4, %d, %[5]d, 0", m.Append.Nanos.Count(), m.Append.Bytes.Sum, m.Write.Bytes.Sum, m.Sync.Nanos.Count(), stored)
	}

	a, err := s.Append(t.Context(), msg("T", 0, "synced"), DurabilitySync)
	if err != nil {
		t.Fatal(err)
	}
	stored += int64(a.Size)
	if m := s.Metrics(); m.UnsyncedBytes != 0 || m.UndispatchedBytes != stored {
		t.Errorf("after the sync: %d bytes unsynced, %d not dispatched; want 0, %d", m.UnsyncedBytes, m.UndispatchedBytes, stored)
	}
	if err := s.dispatch(t.Context(), s.clog.Written()); err != nil {
		t.Fatal(err)
	}
	if got := bodies(t, s, "T", 0); len(got) != 6 {
		t.Fatalf("%d messages", len(got))
	}
	m = s.Metrics()
	if m.UnsyncedBytes != 0 || m.UndispatchedBytes != 0 {
		t.Errorf("after sync and dispatch %d bytes are unsynced, %d not dispatched", m.UnsyncedBytes, m.UndispatchedBytes)
	}
	if m.Append.Nanos.Count() != 5 || m.Sync.Bytes.Sum != uint64(stored) || m.Dispatch.Bytes.Sum != uint64(stored) || m.Read.Bytes.Sum != uint64(stored) || m.Read.Nanos.Count() != 1 {
		t.Errorf("%d appends, %d bytes synced, %d dispatched, %d read by %d reads; want 5, %d, %[6]d, %[6]d, 1",
			m.Append.Nanos.Count(), m.Sync.Bytes.Sum, m.Dispatch.Bytes.Sum, m.Read.Bytes.Sum, m.Read.Nanos.Count(), stored)
	}
}

// outcome is a Waiter that keeps what it is told.
type outcome struct {
	appended Appended
	err      error
}

func (o *outcome) Appended(a Appended, err error) Waker {
	o.appended, o.err = a, err
	return nil
}

func TestMetrics_showWhatWaitsToBeWritten(t *testing.T) {
	s, err := Open(testConfig(), Deps{FS: vfs.NewMem(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var first, second outcome
	for _, w := range []*outcome{&first, &second} {
		if err := s.Submit(msg("T", 0, "x"), DurabilityAsync, w); err != nil {
			t.Fatal(err)
		}
	}
	waiting := s.Metrics()
	s.Lead()
	if first.err != nil || second.err != nil {
		t.Fatal(first.err, second.err)
	}
	if want := int(first.appended.Size + second.appended.Size); waiting.WaitingAppends != 2 || waiting.WaitingBytes != want {
		t.Errorf("%d appends of %d bytes wait, want 2 of %d", waiting.WaitingAppends, waiting.WaitingBytes, want)
	}
	if m := s.Metrics(); m.WaitingAppends != 0 || m.WaitingBytes != 0 {
		t.Errorf("%d appends of %d bytes still wait", m.WaitingAppends, m.WaitingBytes)
	}
}

func TestMetrics_timeByTheClockGiven(t *testing.T) {
	const step = 3 * time.Millisecond
	s, err := Open(testConfig(), Deps{FS: vfs.NewMem(nil), Now: ticking(step)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), msg("T", 0, "x"), DurabilityAsync); err != nil {
		t.Fatal(err)
	}
	m := s.Metrics()
	// Handed over, begun, done.
	if got := time.Duration(m.Append.Nanos.Sum); got != 2*step {
		t.Errorf("the append took %v, want %v", got, 2*step)
	}
	if got := time.Duration(m.Write.Nanos.Sum); got != step {
		t.Errorf("the write took %v, want %v", got, step)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if m := s.Metrics(); time.Duration(m.Sync.Nanos.Sum) != step || m.Sync.Nanos.Count() != 1 {
		t.Errorf("%d syncs took %v, want 1 of %v", m.Sync.Nanos.Count(), time.Duration(m.Sync.Nanos.Sum), step)
	}
}

func TestMetrics_refusedAppendsDoNotCount(t *testing.T) {
	s, err := Open(testConfig(), Deps{FS: vfs.NewMem(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Append(t.Context(), msg("T", -1, "x"), DurabilityAsync); err == nil {
		t.Fatal("appended")
	}
	if m := s.Metrics(); m.Append.Nanos.Count() != 0 || m.Write.Nanos.Count() != 0 {
		t.Errorf("%d appends, %d writes", m.Append.Nanos.Count(), m.Write.Nanos.Count())
	}
}

func TestHistogram_bucketsArePowersOfTwo(t *testing.T) {
	for _, tc := range []struct {
		v      int64
		bucket int
		sum    uint64
	}{{-5, 0, 0}, {0, 0, 0}, {1, 0, 1}, {2, 1, 2}, {3, 2, 3}, {4, 2, 4}, {1024, 10, 1024}, {1025, 11, 1025}, {1 << 62, HistogramBuckets - 1, 1 << 62}} {
		var h histogram
		h.observe(tc.v)
		if got := h.snapshot(); got.Counts[tc.bucket] != 1 || got.Count() != 1 || got.Sum != tc.sum {
			t.Errorf("%d: %v, sum %d; want bucket %d, sum %d", tc.v, got.Counts, got.Sum, tc.bucket, tc.sum)
		}
	}
}

// What the hooks of one message cost: its append, and its share of a clock.
func BenchmarkMetrics_observe(b *testing.B) {
	var m metrics
	b.ReportAllocs()
	for b.Loop() {
		m.Appended(123*time.Microsecond, 1200)
	}
}

func BenchmarkMetrics_clock(b *testing.B) {
	now := time.Now
	for b.Loop() {
		_ = now()
	}
}
