package remoting

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

func TestServer_limitsConnectionsPerAddress(t *testing.T) {
	log := &logLines{}
	s := startServer(t, Config{MaxConns: 100, MaxConnsPerIP: 2}, echo, slog.New(slog.NewTextHandler(log, nil)))
	var clients []*Client
	for range 2 {
		c := newClient(t, ClientOptions{})
		if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	for range 20 {
		waitClosed(t, dialRaw(t, s))
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "remote=127.0.0.1") {
		t.Errorf("log %q, want one line naming the address", got)
	}
	for _, c := range clients {
		if _, err := c.Invoke(t.Context(), s.Addr().String(), wire.Request(1, nil)); err != nil {
			t.Errorf("a connection within the limit: %v", err)
		}
		_ = c.Close()
	}
	_ = s.Close()
	if n := len(s.perIP); n != 0 {
		t.Errorf("%d addresses are still counted", n)
	}
}

// What was said about an address is not said again for ten seconds, and not
// remembered for longer.
func TestServer_saysRefusedSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewServer(Config{}, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		for i, want := range []bool{true, false} {
			if got := s.sayRefusedLocked(a); got != want {
				t.Errorf("line %d about one address: said %t", i, got)
			}
		}
		if !s.sayRefusedLocked(b) {
			t.Error("another address was not named")
		}
		time.Sleep(refusedPause)
		if !s.sayRefusedLocked(b) || len(s.refused) != 1 {
			t.Errorf("after the pause %d addresses are remembered, want the one just named", len(s.refused))
		}
	})
}
