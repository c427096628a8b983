package store

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Work is how often something was done since the store was opened, how long it
// took and how many bytes it moved.
type Work struct{ Nanos, Bytes Histogram }

// Histogram counts values by powers of two: Counts[i] is the number of values up
// to 1<<i that are in no bucket before.
type Histogram struct {
	Counts [HistogramBuckets]uint64
	Sum    uint64
}

// HistogramBuckets is enough for nanoseconds up to 39 days, and for as many bytes.
const HistogramBuckets = 52

// Count is the number of values.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Metrics is what a store has done since it was opened, and what it still has to do.
type Metrics struct {
	Append   Work // one request, one message or a batch, from being handed over until it has its durability
	Write    Work // one write to the commit log, of all that was waiting
	Sync     Work // one sync of the commit log
	Dispatch Work // one round of the dispatcher, over all that had been written
	Read     Work // one read of a queue that found something to fetch

	Cold     Work   // one cold read of a consumer group, and what it reads of the disk if nothing is cached
	ColdHeld uint64 // reads that were told to come later

	WaitingAppends    int   // requests that wait to be written
	WaitingBytes      int   // their records
	UnsyncedBytes     int64 // written and not yet synced
	UndispatchedBytes int64 // written and not yet in queues

	FlushLag       time.Duration // since when something may be written and not synced; 0 when all is
	UnsyncedQueues int           // consume queues with entries, or a first offset, that are not synced
	RecoveryBytes  int64         // of the commit log, that a start after a crash reads

	DamagedParts   int  // places of the commit log that were passed over, as far as they are still in it
	BuildingQueues int  // consume queues that are being built anew; their reads are refused
	ClockDoubted   bool // nothing is deleted by age, since the clock jumped far ahead

	Disk DiskState

	Events       map[string]uint64 // that happened, by the name of their type
	RemovedBytes map[string]uint64 // of commit log files, by commitlog.RemoveReason

	UnplacedRecords uint64 // stored, but in no queue since another record had their place: a defect
}

// Metrics returns the store's counters. Each is exact; together they are not of
// one moment.
func (s *Store) Metrics() Metrics {
	m := Metrics{
		Append: s.metrics.append.snapshot(), Write: s.metrics.write.snapshot(), Sync: s.metrics.sync.snapshot(),
		Dispatch: s.metrics.dispatch.snapshot(), Read: s.metrics.read.snapshot(),
		Cold: s.cold.work.snapshot(), ColdHeld: s.cold.held.Load(),
	}
	// Ends that follow are read before those that lead, so no lag is negative.
	flushed, dispatched := s.clog.Flushed(), s.dispatched.Load()
	written := s.clog.Written()
	m.UnsyncedBytes, m.UndispatchedBytes = written-flushed, written-dispatched
	first, _ := s.clog.Range()
	m.FlushLag = s.clog.FlushLag(s.now())
	m.UnsyncedQueues = s.touched.len()
	m.RecoveryBytes = written - max(s.checkpoint.get().reached, first)
	m.DamagedParts = s.metrics.holes.count(first)
	if r := s.rebuilding.Load(); r != nil {
		m.BuildingQueues = r.building
	}
	m.ClockDoubted = s.metrics.doubted.Load()
	m.Disk = DiskState(s.disk.Load())
	m.Events, m.RemovedBytes = s.metrics.events.snapshot()
	m.UnplacedRecords = m.Events[eventName(PlaceTaken{})]
	m.WaitingAppends, m.WaitingBytes = s.clog.Waiting()
	return m
}

// metrics are the counters that work adds to; it is the commit log's observer.
type metrics struct {
	append, write, sync, dispatch, read work
	events                              eventCounts
	doubted                             atomic.Bool
	holes                               holes
}

// holes are the damaged places of the commit log by the offset where they
// begin. Several readers come by the same ones.
type holes struct {
	mu sync.Mutex
	at map[int64]bool
}

// add reports whether the place is a new one.
func (h *holes) add(off int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = map[int64]bool{}
	}
	known := h.at[off]
	h.at[off] = true
	return !known
}

// count forgets those that went with their file.
func (h *holes) count(logMin int64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.at, func(off int64, _ bool) bool { return off < logMin })
	return len(h.at)
}

// Appended implements commitlog.Observer.
func (m *metrics) Appended(took time.Duration, bytes int) { m.append.observe(took, int64(bytes)) }

// Wrote implements commitlog.Observer.
func (m *metrics) Wrote(took time.Duration, bytes int64) { m.write.observe(took, bytes) }

// Synced implements commitlog.Observer.
func (m *metrics) Synced(took time.Duration, bytes int64) { m.sync.observe(took, bytes) }

// work is a Work that may be added to by many goroutines at a time. It lies on
// the way of each message, so it takes no lock and no memory.
type work struct{ nanos, bytes histogram }

func (w *work) observe(took time.Duration, bytes int64) {
	w.nanos.observe(int64(took))
	w.bytes.observe(bytes)
}

func (w *work) snapshot() Work { return Work{Nanos: w.nanos.snapshot(), Bytes: w.bytes.snapshot()} }

type histogram struct {
	counts [HistogramBuckets]atomic.Uint64
	sum    atomic.Uint64
}

// observe adds a value; one below 0, of a clock that was set back, counts as 0.
func (h *histogram) observe(v int64) {
	v = max(v, 0)
	h.counts[min(bits.Len64(uint64(max(v, 1)-1)), HistogramBuckets-1)].Add(1)
	h.sum.Add(uint64(v))
}

func (h *histogram) snapshot() (out Histogram) {
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	out.Sum = h.sum.Load()
	return out
}
