package node

import (
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
)

// A broker whose store no longer makes messages readable ends, with an error.
func TestBroker_endsWithItsStore(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	cfg := store.DefaultConfig()
	cfg.SegmentBytes, cfg.IndexSlots, cfg.IndexEntries = 1<<20, 8, 30
	b, err := NewBroker(Common{
		Dir: t.TempDir(), Cluster: "c1", Secret: []byte("0123456789abcdef0123456789abcdef"), Trusted: []ed25519.PublicKey{public},
		TLSMode: TLSDisabled, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	}, BrokerConfig{Name: "b1", Store: cfg}, listen(), listen())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.Run(t.Context()) }()
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, errBackground) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on without its store")
	}
}
