package broker

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// openStore opens and runs a real store on an in-memory disk until the test
// ends.
func openStore(t testing.TB) Store {
	t.Helper()
	return openStoreOn(t, vfs.NewMem(time.Now))
}

// openStoreOn opens the store on a disk that may hold one already.
func openStoreOn(t testing.TB, disk vfs.FS) Store {
	t.Helper()
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.SegmentBytes, cfg.QueueSegmentBytes, cfg.Preallocate = "/store", 1<<20, 20_000, false
	cfg.IndexSlots, cfg.IndexEntries = 100, 1000
	// Simulated time passes quickly: no ticks that no test needs.
	cfg.FlushInterval, cfg.QueueFlush, cfg.Checkpoint, cfg.RetentionCheck = time.Hour, time.Hour, time.Hour, time.Hour
	cfg.StoreHost = netip.MustParseAddrPort("127.0.0.1:10911")
	s, err := store.Open(cfg, store.Deps{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("store: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}
