package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testConfig has small files, so that everything rolls.
func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Dir, cfg.SegmentBytes, cfg.QueueSegmentBytes = "/store", 16<<10, 1200
	cfg.IndexSlots, cfg.IndexEntries = 8, 30
	cfg.MaxMessageBytes = 8 << 10
	cfg.StoreHost = netip.MustParseAddrPort("10.1.2.4:10911")
	cfg.FlushInterval, cfg.QueueFlush, cfg.Checkpoint, cfg.RetentionCheck = time.Hour, time.Hour, time.Hour, time.Hour
	cfg.Preallocate = false
	return cfg
}

// clock is a time that a test moves while a store reads it.
type clock struct{ milli atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.milli.Store(1_700_000_000_000)
	return c
}

func (c *clock) Now() time.Time      { return time.UnixMilli(c.milli.Load()) }
func (c *clock) Add(d time.Duration) { c.milli.Add(d.Milliseconds()) }

// harness runs a store and knows when its dispatcher has arrived somewhere.
type harness struct {
	*Store
	t    *testing.T
	mu   sync.Mutex
	cond *sync.Cond
	seen map[string]int64 // topic@queue -> NextOffset of the last arrival
	stop func()
}

func start(t *testing.T, cfg Config, deps Deps) *harness {
	t.Helper()
	if deps.FS == nil {
		deps.FS = vfs.NewMem(nil)
	}
	s, err := Open(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{Store: s, t: t, seen: map[string]int64{}}
	h.cond = sync.NewCond(&h.mu)
	s.OnArrival(func(a Arrival) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen[fmt.Sprintf("%s@%d", a.Topic, a.QueueID)] = a.NextOffset
		h.cond.Broadcast()
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	var once sync.Once
	h.stop = func() { once.Do(func() { cancel(); <-done }) }
	t.Cleanup(func() { h.stop(); s.Close() })
	return h
}

// await blocks until the queue has next messages.
func (h *harness) await(topic string, queueID int32, next int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.seen[fmt.Sprintf("%s@%d", topic, queueID)] < next {
		h.cond.Wait()
	}
}

func msg(topic string, queueID int32, body string) *message.Message {
	return &message.Message{
		Topic: topic, QueueID: queueID, Body: []byte(body), BornTimestamp: 1, BornHost: netip.MustParseAddrPort("10.1.2.3:40000"),
		Properties: message.AppendProperty(nil, message.KeyTags, "Tag"+body[:min(1, len(body))]),
	}
}

func (h *harness) append(m *message.Message) Appended {
	h.t.Helper()
	a, err := h.Append(h.t.Context(), m, DurabilityDefault)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// bodies reads a whole queue.
func bodies(t testing.TB, s *Store, topic string, queueID int32) []string {
	t.Helper()
	var out []string
	next, _ := s.QueueOffsets(topic, queueID)
	for {
		b, err := s.Read(topic, queueID, next, ReadOptions{MaxMessages: 7})
		if err != nil {
			t.Fatal(err)
		}
		if b.Status == ReadNotFound || b.Status == ReadNoQueue {
			return out
		}
		if b.Next == next {
			t.Fatalf("read of %s@%d at %d: %v and no progress", topic, queueID, next, b.Status)
		}
		for _, rec := range b.Records {
			m, err := message.Decode(rec)
			if err != nil || m.Topic != topic || m.QueueID != queueID {
				t.Fatalf("record %+v: %v", m, err)
			}
			out = append(out, string(m.Body))
		}
		next = b.Next
		b.Release()
	}
}

func TestAppend_isReadable(t *testing.T) {
	h := start(t, testConfig(), Deps{})
	var want []string
	for i := range 100 {
		body := fmt.Sprintf("%d-%s", i, strings.Repeat("x", i*7))
		a := h.append(msg("T", 1, body))
		if a.QueueOffset != int64(i) {
			t.Fatalf("queue offset %d, want %d", a.QueueOffset, i)
		}
		rec, err := h.ReadAt(a.PhysicalOffset)
		if err != nil || int32(len(rec)) != a.Size {
			t.Fatalf("ReadAt: %d bytes of %d, %v", len(rec), a.Size, err)
		}
		m, err := message.Decode(rec)
		if err != nil || m.StoreHost != testConfig().StoreHost || m.StoreTimestamp != a.StoreTimestamp || m.QueueOffset != a.QueueOffset {
			t.Fatalf("decoded %+v, %v", m, err)
		}
		want = append(want, body)
	}
	h.await("T", 1, 100)
	if got := bodies(t, h.Store, "T", 1); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("read %d bodies of %d", len(got), len(want))
	}
	if lo, hi := h.QueueOffsets("T", 1); lo != 0 || hi != 100 {
		t.Fatalf("offsets %d %d", lo, hi)
	}
	if _, err := h.ReadAt(1); !errors.Is(err, ErrNotFound) {
		t.Fatalf("inside of a record: %v", err)
	}
	if _, err := h.ReadAt(1 << 40); !errors.Is(err, ErrNotFound) {
		t.Fatalf("behind the log: %v", err)
	}
}

func TestRead_statuses(t *testing.T) {
	h := start(t, testConfig(), Deps{})
	for _, body := range []string{"a", "b", "a", strings.Repeat("a", 3000), "c"} {
		h.append(msg("T", 0, body))
	}
	h.await("T", 0, 5)
	tagA := message.TagsCode("Taga")
	for _, tt := range []struct {
		name   string
		topic  string
		offset int64
		o      ReadOptions
		status ReadStatus
		next   int64
		count  int
	}{
		{"all", "T", 0, ReadOptions{}, ReadFound, 5, 5},
		{"two", "T", 1, ReadOptions{MaxMessages: 2}, ReadFound, 3, 2},
		{"bytes", "T", 0, ReadOptions{MaxBytes: 300}, ReadFound, 2, 2},
		{"first is larger than the limit", "T", 3, ReadOptions{MaxBytes: 10}, ReadFound, 4, 1},
		{"match", "T", 0, ReadOptions{Match: func(c int64) bool { return c == tagA }}, ReadFound, 5, 3},
		{"no match", "T", 0, ReadOptions{Match: func(int64) bool { return false }}, ReadNoMatch, 5, 0},
		{"at max", "T", 5, ReadOptions{}, ReadNotFound, 5, 0},
		{"above max", "T", 6, ReadOptions{}, ReadOffsetTooBig, 5, 0},
		{"negative", "T", -1, ReadOptions{}, ReadOffsetTooSmall, 0, 0},
		{"no queue", "U", 3, ReadOptions{}, ReadNoQueue, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := h.Read(tt.topic, 0, tt.offset, tt.o)
			if err != nil || b.Status != tt.status || b.Next != tt.next || len(b.Records) != tt.count {
				t.Fatalf("got %v next %d, %d records, %v", b.Status, b.Next, len(b.Records), err)
			}
			b.Release()
			b.Release()
		})
	}
}

// B011: an empty body is a message like others, also for a recovery.
func TestAppend_emptyBody(t *testing.T) {
	mem := vfs.NewMem(nil)
	h := start(t, testConfig(), Deps{FS: mem})
	h.append(msg("T", 0, "before"))
	h.append(msg("T", 0, ""))
	m := msg("T", 0, "")
	m.Properties = nil
	h.append(m)
	h.append(msg("T", 0, "behind"))
	h.await("T", 0, 4)
	crashed := start(t, testConfig(), Deps{FS: mem.CrashClone(1, 1)})
	if got := bodies(t, crashed.Store, "T", 0); fmt.Sprintf("%q", got) != `["before" "" "" "behind"]` {
		t.Fatalf("%q", got)
	}
}

func TestAppendBatch_allOrNone(t *testing.T) {
	h := start(t, testConfig(), Deps{})
	h.append(msg("T", 0, "first"))
	got, err := h.AppendBatch(t.Context(), []*message.Message{msg("T", 0, "a"), msg("T", 0, "b"), msg("T", 0, "")}, DurabilitySync)
	if err != nil || len(got) != 3 || got[2].QueueOffset != 3 || got[1].PhysicalOffset != got[0].PhysicalOffset+int64(got[0].Size) {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, ms := range map[string][]*message.Message{
		"empty": {}, "two topics": {msg("T", 0, "a"), msg("U", 0, "a")}, "two queues": {msg("T", 0, "a"), msg("T", 1, "a")},
	} {
		if _, err := h.AppendBatch(t.Context(), ms, DurabilityDefault); !errors.Is(err, ErrBatch) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	big := strings.Repeat("x", 5000)
	if _, err := h.AppendBatch(t.Context(), []*message.Message{msg("T", 0, big), msg("T", 0, big)}, DurabilityDefault); !errors.Is(err, ErrMessageTooLarge) {
		t.Fatal(err)
	}
	if a := h.append(msg("T", 0, "last")); a.QueueOffset != 4 {
		t.Fatalf("offset %d", a.QueueOffset)
	}
	h.await("T", 0, 5)
	if got := bodies(t, h.Store, "T", 0); fmt.Sprintf("%q", got) != `["first" "a" "b" "" "last"]` {
		t.Fatalf("%q", got)
	}
}

// B015: refused messages between good ones, from many goroutines, leave no
// hole in the queue.
func TestAppend_refusedMessagesLeaveNoHole(t *testing.T) {
	h := start(t, testConfig(), Deps{})
	const workers, rounds = 8, 10
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				for _, bad := range []struct {
					edit func(*message.Message)
					want error
				}{
					{func(*message.Message) {}, nil},
					{func(m *message.Message) { m.Properties = bytes.Repeat([]byte("p"), 32768) }, ErrPropertiesTooLarge},
					{func(*message.Message) {}, nil},
					{func(m *message.Message) { m.Body = make([]byte, testConfig().MaxMessageBytes+1) }, ErrMessageTooLarge},
					{func(m *message.Message) { m.Properties = []byte("a\x01\x00\x02") }, ErrProperties},
					{func(*message.Message) {}, nil},
				} {
					m := msg("T", 0, "good")
					bad.edit(m)
					if _, err := h.Append(t.Context(), m, DurabilityDefault); !errors.Is(err, bad.want) {
						t.Errorf("got %v, want %v", err, bad.want)
					}
				}
			}
		})
	}
	wg.Wait()
	h.await("T", 0, 3*workers*rounds)
	if got := bodies(t, h.Store, "T", 0); len(got) != 3*workers*rounds {
		t.Fatalf("%d messages", len(got))
	}
}

// B016: a full disk refuses appends, not reads, and appends work again as
// soon as there is space, without a restart.
func TestAppend_diskFullAndBack(t *testing.T) {
	ff := vfs.NewFaults(vfs.NewMem(nil))
	h := start(t, testConfig(), Deps{FS: ff})
	h.append(msg("T", 0, "before"))
	h.await("T", 0, 1)
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		if op == vfs.OpWrite || op == vfs.OpCreate || op == vfs.OpTruncate || op == vfs.OpMkdir {
			return 13, fmt.Errorf("injected: %w", vfs.ErrNoSpace)
		}
		return 0, nil
	})
	for range 5 {
		if _, err := h.Append(t.Context(), msg("T", 0, "refused"), DurabilitySync); !errors.Is(err, ErrDiskFull) {
			t.Fatal(err)
		}
	}
	if err := h.PutTopic(DefaultTopicConfig("T")); !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatal(err)
	}
	if _, ok := h.Topic("T"); ok {
		t.Fatal("a topic that is not on the disk")
	}
	if got := bodies(t, h.Store, "T", 0); len(got) != 1 {
		t.Fatalf("read %q", got)
	}
	ff.Set(nil)
	if a := h.append(msg("T", 0, "after")); a.QueueOffset != 1 {
		t.Fatalf("offset %d", a.QueueOffset)
	}
	h.await("T", 0, 2)
	if err := h.PutTopic(DefaultTopicConfig("T")); err != nil {
		t.Fatal(err)
	}
}

func TestAppend_refusesAboveTheDiskRatio(t *testing.T) {
	mem := vfs.NewMem(nil)
	cfg := testConfig()
	cfg.DiskFreeBytes = 100
	h := start(t, cfg, Deps{FS: mem})
	h.append(msg("T", 0, "a"))
	for _, tt := range []struct {
		free int64
		full bool
	}{{90, true}, {120, false}, {95, true}, {140, false}, {101, false}} {
		mem.SetSpace(vfs.Space{Total: 1000, Free: tt.free})
		if err := h.retain(); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Append(t.Context(), msg("T", 0, "b"), DurabilityDefault); errors.Is(err, ErrDiskFull) != tt.full {
			t.Fatalf("free %d: %v", tt.free, err)
		}
	}
}

// B143: names that are paths never become folders.
func TestNames_pathsAreRefused(t *testing.T) {
	mem := vfs.NewMem(nil)
	h := start(t, testConfig(), Deps{FS: mem})
	for _, name := range []string{"../../../x", "a/b", "..", ".", "", "a\x00b", `a\b`, strings.Repeat("n", 10<<10), "/etc"} {
		if _, err := h.Append(t.Context(), msg(name, 0, "x"), DurabilityDefault); !errors.Is(err, ErrName) {
			t.Errorf("append to %.20q: %v", name, err)
		}
		if err := h.PutTopic(DefaultTopicConfig(name)); !errors.Is(err, ErrName) {
			t.Errorf("topic %.20q: %v", name, err)
		}
		if err := h.PutGroup(DefaultGroupConfig(name)); !errors.Is(err, ErrName) {
			t.Errorf("group %.20q: %v", name, err)
		}
		if err := h.SaveConfig(name, []byte("{}")); !errors.Is(err, ErrName) {
			t.Errorf("configuration %.20q: %v", name, err)
		}
		if err := h.DeleteTopic(name); !errors.Is(err, ErrName) {
			t.Errorf("delete %.20q: %v", name, err)
		}
		if b, err := h.Read(name, 0, 0, ReadOptions{}); b.Status != ReadNoQueue || err != nil {
			t.Errorf("read %.20q: %v, %v", name, b.Status, err)
		}
	}
	if _, err := h.Append(t.Context(), msg("T", -1, "x"), DurabilityDefault); !errors.Is(err, ErrQueueID) {
		t.Error(err)
	}
	if infos, _ := mem.ReadDir("/store/consumequeue"); len(infos) != 0 {
		t.Errorf("folders %+v", infos)
	}
}

func TestOpen_secondStoreIsRefused(t *testing.T) {
	cfg := testConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "store")
	start(t, cfg, Deps{FS: vfs.OS()})
	_, err := Open(cfg, Deps{FS: vfs.OS()})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), cfg.Dir) || !strings.Contains(err.Error(), "is used by another process") {
		t.Fatalf("%v", err)
	}
}

func TestOffsetByTime(t *testing.T) {
	now := time.UnixMilli(10_000)
	h := start(t, testConfig(), Deps{Now: func() time.Time { return now }})
	for _, ms := range []int64{10_000, 20_000, 20_000, 30_000} {
		now = time.UnixMilli(ms)
		h.append(msg("T", 0, "x"))
	}
	h.await("T", 0, 4)
	for _, tt := range []struct{ ms, lower, upper int64 }{
		{0, 0, 0}, {10_000, 0, 0}, {15_000, 1, 0}, {20_000, 1, 2}, {25_000, 3, 2}, {30_000, 3, 3}, {99_000, 4, 3},
	} {
		lower, err1 := h.OffsetByTime("T", 0, tt.ms, BoundaryLower)
		upper, err2 := h.OffsetByTime("T", 0, tt.ms, BoundaryUpper)
		if lower != tt.lower || upper != tt.upper || err1 != nil || err2 != nil {
			t.Errorf("%d: lower %d, want %d; upper %d, want %d; %v %v", tt.ms, lower, tt.lower, upper, tt.upper, err1, err2)
		}
	}
	if ms, ok := h.StoreTimeAt("T", 0, 3); ms != 30_000 || !ok {
		t.Errorf("time %d %v", ms, ok)
	}
	if _, ok := h.StoreTimeAt("T", 0, 4); ok {
		t.Error("a time behind the end")
	}
}

func TestFolds_seeEachRecordOnce(t *testing.T) {
	mem := vfs.NewMem(nil)
	var offs []int64
	var from int64
	deps := Deps{FS: mem, Folds: []Fold{{
		From:  func() int64 { return from },
		Apply: func(off int64, rec []byte) { offs = append(offs, off); from = off + int64(len(rec)) },
	}}}
	h := start(t, testConfig(), deps)
	for i := range 40 {
		h.append(msg("T", int32(i%3), strings.Repeat("x", 900)))
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if len(offs) != 40 {
		t.Fatalf("%d records", len(offs))
	}
	from = offs[25] // the fold had saved less than it saw
	want := len(offs) + 15 + 1
	h = start(t, testConfig(), deps)
	h.append(msg("T", 0, "new"))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if len(offs) != want {
		t.Fatalf("%d calls, want %d", len(offs), want)
	}
}

func TestRetain_deletesOldFilesAndMovesQueues(t *testing.T) {
	clock := newClock()
	mem := vfs.NewMem(clock.Now)
	cfg := testConfig()
	cfg.Retention = 90 * time.Minute
	h := start(t, cfg, Deps{FS: mem, Now: clock.Now, Logger: slog.New(slog.DiscardHandler)})
	h.append(msg("Old", 0, "only in the first file"))
	for i := range 8 {
		for range 10 {
			h.append(msg("T", 0, strings.Repeat("x", 1500)))
		}
		h.await("T", 0, int64(10*(i+1)))
		clock.Add(time.Hour)
	}
	if err := h.saveProgress(true); err != nil {
		t.Fatal(err)
	}
	if err := h.retain(); err != nil {
		t.Fatal(err)
	}
	logMin, _ := h.CommitLogRange()
	lo, hi := h.QueueOffsets("T", 0)
	if logMin == 0 || lo == 0 || hi != 80 {
		t.Fatalf("log from %d, queue %d to %d", logMin, lo, hi)
	}
	b, err := h.Read("T", 0, lo, ReadOptions{})
	if err != nil || b.Status != ReadFound {
		t.Fatalf("first message: %v, %v", b.Status, err)
	}
	if f, err := message.Parse(b.Records[0]); err != nil || f.PhysicalOffset < logMin || f.QueueOffset != lo {
		t.Fatalf("%+v, %v", f, err)
	}
	b.Release()
	if b, _ := h.Read("T", 0, 0, ReadOptions{}); b.Status != ReadOffsetTooSmall || b.Next != lo {
		t.Fatalf("old offset: %v, next %d", b.Status, b.Next)
	}
	if lo, hi := h.QueueOffsets("Old", 0); lo != 1 || hi != 1 {
		t.Fatalf("queue without messages: %d to %d", lo, hi)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = start(t, cfg, Deps{FS: mem, Now: clock.Now})
	if lo2, hi2 := h.QueueOffsets("T", 0); lo2 != lo || hi2 != hi {
		t.Fatalf("after restart %d to %d", lo2, hi2)
	}
	if a := h.append(msg("Old", 0, "x")); a.QueueOffset != 1 {
		t.Fatalf("an old offset was given again: %d", a.QueueOffset)
	}
}

func TestDeleteTopic_itsMessagesNeverComeBack(t *testing.T) {
	mem := vfs.NewMem(nil)
	h := start(t, testConfig(), Deps{FS: mem})
	if err := h.PutTopic(DefaultTopicConfig("T")); err != nil {
		t.Fatal(err)
	}
	h.append(msg("T", 0, "old"))
	h.append(msg("T", 0, "old"))
	h.await("T", 0, 2)
	if err := h.DeleteTopic("T"); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.Topic("T"); ok {
		t.Fatal("topic is there")
	}
	if b, _ := h.Read("T", 0, 0, ReadOptions{}); b.Status != ReadNoQueue {
		t.Fatalf("queue is there: %v", b.Status)
	}
	h.append(msg("Other", 0, "x"))
	if a := h.append(msg("T", 0, "new")); a.QueueOffset != 0 {
		t.Fatalf("offset %d", a.QueueOffset)
	}
	h.await("T", 0, 1)
	for range 2 { // after a crash, and after a rebuild of everything
		c := mem.CrashClone(1, 1)
		crashed := start(t, testConfig(), Deps{FS: c})
		if got := bodies(t, crashed.Store, "T", 0); fmt.Sprint(got) != "[new]" {
			t.Fatalf("%v", got)
		}
		if err := mem.RemoveAll("/store/consumequeue"); err != nil {
			t.Fatal(err)
		}
	}
}
