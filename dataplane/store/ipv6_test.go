package store

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Records of hosts of both families are read by queue, by place and by time, and
// say where they came from, also after a start that rebuilds the queues.
func TestStore_hostsOfBothFamilies_B028(t *testing.T) {
	c, mem := newClock(), vfs.NewMem(nil)
	hosts := []netip.AddrPort{
		netip.MustParseAddrPort("127.0.0.1:4000"), netip.MustParseAddrPort("[::1]:4001"), netip.MustParseAddrPort("[2001:db8::7]:4002"),
	}
	h := start(t, testConfig(), Deps{FS: mem, Now: c.Now})
	const n = 100
	var places []Appended
	for i := range n {
		m := msg("T", 0, fmt.Sprint("b", i))
		m.BornHost, m.StoreHost = hosts[i%3], hosts[i/3%3]
		places = append(places, h.append(m))
		c.Add(time.Second)
	}
	h.await("T", 0, n)
	check := func(s *Store) {
		for i, a := range places {
			rec, err := s.ReadAt(a.PhysicalOffset)
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			m, err := message.Decode(rec)
			if err != nil || string(m.Body) != fmt.Sprint("b", i) || m.BornHost != hosts[i%3] || m.StoreHost != hosts[i/3%3] || m.StoreTimestamp != a.StoreTimestamp {
				t.Fatalf("message %d is %q from %v on %v, %v", i, m.Body, m.BornHost, m.StoreHost, err)
			}
			if at, err := s.OffsetByTime("T", 0, a.StoreTimestamp, BoundaryLower); err != nil || at != int64(i) {
				t.Errorf("the time of message %d is at offset %d, %v", i, at, err)
			}
		}
	}
	check(h.Store)
	h.stop()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := mem.RemoveAll("/store/consumequeue"); err != nil {
		t.Fatal(err)
	}
	again := start(t, testConfig(), Deps{FS: mem, Now: c.Now})
	check(again.Store)
	if got := bodies(t, again.Store, "T", 0); len(got) != n {
		t.Errorf("%d messages after the queues were built anew", len(got))
	}
}
