package node

import (
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

func TestStoreMetrics_areTheStoresOwn(t *testing.T) {
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.StoreHost, cfg.SegmentBytes, cfg.IndexSlots, cfg.IndexEntries = "/store", netip.MustParseAddrPort("127.0.0.1:10911"), 1<<20, 8, 30
	s, err := store.Open(cfg, store.Deps{FS: vfs.NewMem(nil)}) // does not run: nothing is dispatched
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var size int32
	for range 3 {
		a, err := s.Append(t.Context(), &message.Message{Topic: "T", Body: make([]byte, 1000), BornHost: cfg.StoreHost}, store.DurabilitySync)
		if err != nil {
			t.Fatal(err)
		}
		size = a.Size
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(storeMetrics{s}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		count uint64
		sum   float64 // of bytes; a gauge's value
	}{
		"sluice_broker_append_bytes": {3, 3 * float64(size)}, "sluice_store_write_bytes": {3, 3 * float64(size)}, "sluice_store_sync_bytes": {3, 3 * float64(size)},
		"sluice_store_dispatch_bytes": {}, "sluice_store_read_bytes": {},
		"sluice_store_unsynced_bytes": {0, 0}, "sluice_store_undispatched_bytes": {0, 3 * float64(size)}, "sluice_store_waiting_appends": {}, "sluice_store_waiting_bytes": {},
		"sluice_store_damaged_parts": {}, "sluice_store_building_queues": {}, "sluice_store_clock_doubted": {}, "sluice_store_unplaced_records_total": {},
	}
	for _, f := range families {
		w, ok := want[f.GetName()]
		if !ok {
			continue
		}
		delete(want, f.GetName())
		m := f.GetMetric()[0]
		if h := m.GetHistogram(); h != nil {
			if h.GetSampleCount() != w.count || h.GetSampleSum() != w.sum {
				t.Errorf("%s: %d values of %v in all, want %d of %v", f.GetName(), h.GetSampleCount(), h.GetSampleSum(), w.count, w.sum)
			}
			for _, b := range h.GetBucket() {
				within := b.GetUpperBound() >= float64(size)
				if got := b.GetCumulativeCount(); within && got != w.count || !within && got != 0 {
					t.Errorf("%s: %d values up to %v, of %d records of %d bytes", f.GetName(), got, b.GetUpperBound(), w.count, size)
				}
			}
			continue
		}
		if got := m.GetGauge().GetValue(); got != w.sum {
			t.Errorf("%s is %v, want %v", f.GetName(), got, w.sum)
		}
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}
