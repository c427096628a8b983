package node

import (
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/dataplane/store"
)

// storeMetrics shows the store's own counters; what they cost is paid when
// somebody asks.
type storeMetrics struct{ s *store.Store }

var (
	appendSeconds   = describe("sluice_broker_append_seconds", "Time from handing a message or a batch to the store until it has the durability asked for.")
	appendBytes     = describe("sluice_broker_append_bytes", "Records of a message or a batch.")
	writeSeconds    = describe("sluice_store_write_seconds", "Time of one write to the commit log.")
	writeBytes      = describe("sluice_store_write_bytes", "What one write to the commit log gathered.")
	syncSeconds     = describe("sluice_store_sync_seconds", "Time of one sync of the commit log.")
	syncBytes       = describe("sluice_store_sync_bytes", "What one sync of the commit log covered.")
	dispatchSeconds = describe("sluice_store_dispatch_seconds", "Time of one round of the dispatcher, which makes what was written readable.")
	dispatchBytes   = describe("sluice_store_dispatch_bytes", "What one round of the dispatcher went through.")
	readSeconds     = describe("sluice_store_read_seconds", "Time of one read of a queue.")
	readBytes       = describe("sluice_store_read_bytes", "Records that one read of a queue returned.")
	coldSeconds     = describe("sluice_store_cold_read_seconds", "Time of one read of a consumer group that is far behind the end of the commit log.")
	coldBytes       = describe("sluice_store_cold_read_bytes", "What one such read took from the disk, as far as the page cache did not hold it.")
	coldHeld        = describe("sluice_store_cold_reads_held_total", "Such reads that had to wait, since the budget of their group or of all groups was used up.")
	unsynced        = describe("sluice_store_unsynced_bytes", "Written to the commit log and not yet synced.")
	undispatched    = describe("sluice_store_undispatched_bytes", "Written to the commit log and not yet in queues.")
	flushLag        = describe("sluice_store_flush_lag_seconds", "For how long something may have been written to the commit log and not synced; 0 when all is.")
	unsyncedQueues  = describe("sluice_store_unsynced_queues", "Consume queues that have changed since they were last synced.")
	recoveryBytes   = describe("sluice_store_recovery_bytes", "What a start after a crash would read of the commit log.")
	damagedParts    = describe("sluice_store_damaged_parts", "Places of the commit log that are damaged and were passed over.")
	buildingQueues  = describe("sluice_store_building_queues", "Consume queues that are being built anew; their reads are refused.")
	clockDoubted    = describe("sluice_store_clock_doubted", "1 while nothing is deleted by age, since the clock jumped far ahead.")
	unplaced        = describe("sluice_store_unplaced_records_total", "Records that are in no queue since another one has their place. It is a defect when this is not 0.")
	events          = prometheus.NewDesc("sluice_store_events_total", "What happened in the store: a line of the log each, by kind.", []string{"event"}, nil)
	removedBytes    = prometheus.NewDesc("sluice_store_removed_bytes_total", "Bytes of commit log files that were deleted, by the reason: age, size (of the log), disk (that was nearly full), behind_end (left by a crash).", []string{"reason"}, nil)
	diskState       = describe("sluice_store_disk_state", "0 while the disk has enough space, 1 while the oldest messages go before their time, 2 while messages are refused.")
	waitingAppends  = describe("sluice_store_waiting_appends", "Messages and batches that wait to be written.")
	waitingBytes    = describe("sluice_store_waiting_bytes", "Their records.")
	diskReads       = describe("sluice_process_disk_read_bytes_total", "Bytes that the process had to fetch from a disk: what the page cache did not hold.")
)

func describe(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }

// Describe implements prometheus.Collector.
func (m storeMetrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m storeMetrics) Collect(ch chan<- prometheus.Metric) {
	all := m.s.Metrics()
	for _, w := range []struct {
		work           *store.Work
		seconds, bytes *prometheus.Desc
	}{
		{&all.Append, appendSeconds, appendBytes},
		{&all.Write, writeSeconds, writeBytes},
		{&all.Sync, syncSeconds, syncBytes},
		{&all.Dispatch, dispatchSeconds, dispatchBytes},
		{&all.Read, readSeconds, readBytes},
		{&all.Cold, coldSeconds, coldBytes},
	} {
		ch <- shown(w.seconds, &w.work.Nanos, 1e9, firstNanos, lastNanos)
		ch <- shown(w.bytes, &w.work.Bytes, 1, firstBytes, lastBytes)
	}
	for _, g := range []struct {
		desc  *prometheus.Desc
		value float64
	}{
		{unsynced, float64(all.UnsyncedBytes)},
		{undispatched, float64(all.UndispatchedBytes)},
		{flushLag, all.FlushLag.Seconds()},
		{unsyncedQueues, float64(all.UnsyncedQueues)},
		{recoveryBytes, float64(all.RecoveryBytes)},
		{damagedParts, float64(all.DamagedParts)},
		{buildingQueues, float64(all.BuildingQueues)},
		{clockDoubted, map[bool]float64{true: 1}[all.ClockDoubted]},
		{diskState, float64(all.Disk)},
		{waitingAppends, float64(all.WaitingAppends)},
		{waitingBytes, float64(all.WaitingBytes)},
	} {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value)
	}
	ch <- prometheus.MustNewConstMetric(coldHeld, prometheus.CounterValue, float64(all.ColdHeld))
	ch <- prometheus.MustNewConstMetric(unplaced, prometheus.CounterValue, float64(all.UnplacedRecords))
	for name, n := range all.Events {
		ch <- prometheus.MustNewConstMetric(events, prometheus.CounterValue, float64(n), name)
	}
	for reason, n := range all.RemovedBytes {
		ch <- prometheus.MustNewConstMetric(removedBytes, prometheus.CounterValue, float64(n), reason)
	}
	if n, ok := diskRead(); ok {
		ch <- prometheus.MustNewConstMetric(diskReads, prometheus.CounterValue, n)
	}
}

// Of the store's buckets, the powers of two that are shown: 1 µs to 8.6 s, 128
// bytes to 8 MiB. All others are in those beside them.
const (
	firstNanos, lastNanos = 10, 33
	firstBytes, lastBytes = 7, 23
)

// shown is a histogram with bounds 1<<first to 1<<last, divided by unit.
func shown(desc *prometheus.Desc, h *store.Histogram, unit float64, first, last int) prometheus.Metric {
	buckets := map[float64]uint64{}
	var below uint64
	for i, n := range h.Counts {
		below += n
		if i >= first && i <= last {
			buckets[math.Ldexp(1, i)/unit] = below
		}
	}
	return prometheus.MustNewConstHistogram(desc, below, float64(h.Sum)/unit, buckets)
}

// diskRead is the bytes that this process caused to be read from a disk; false
// where the system does not say.
func diskRead() (float64, bool) {
	raw, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	var n float64
	for line := range strings.Lines(string(raw)) {
		if _, err := fmt.Sscanf(line, "read_bytes: %g", &n); err == nil {
			return n, true
		}
	}
	return 0, false
}
