package processor

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// openStore opens and runs a real store on an in-memory disk until the test
// ends.
func openStore(t testing.TB) broker.Store {
	t.Helper()
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.SegmentBytes, cfg.QueueSegmentBytes, cfg.Preallocate = "/store", 64<<20, 20_000, false
	cfg.IndexSlots, cfg.IndexEntries = 100, 1000
	cfg.StoreHost = netip.MustParseAddrPort("127.0.0.1:10911")
	s, err := store.Open(cfg, store.Deps{FS: vfs.NewMem(time.Now)})
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
