package httpapi

import (
	"testing"

	"github.com/sluicemq/sluice/controlplane/catalog"
)

// What waits for a reader is bounded by its bytes, in a tail and for all tails
// of a tenant; what has no room is counted.
func TestBacklog_isBoundedByBytes(t *testing.T) {
	room := newShare("tail_bytes", 1<<30, 2*tailBytes)
	b := newBacklog(room, "ten_a")
	half := catalog.StoredMessage{Body: make([]byte, tailBytes/2-1000)}
	for range 10 {
		b.put(half)
	}
	if len(b.waiting) != 2 || b.bytes > tailBytes || room.of["ten_a"] != b.bytes {
		t.Errorf("%d messages of %d bytes wait, of the tenant %d bytes", len(b.waiting), b.bytes, room.of["ten_a"])
	}
	<-b.some
	if _, dropped := b.next(); dropped != 8 {
		t.Errorf("%d dropped, want 8", dropped)
	}
	b.put(half) // the one that is being written still counts
	b.written()
	b.put(half)
	<-b.some
	if _, dropped := b.next(); dropped != 1 || len(b.waiting) != 1 {
		t.Errorf("%d dropped, want 1; %d wait", dropped, len(b.waiting))
	}
	b.written()
	<-b.some
	if b.next(); len(b.some) != 0 {
		t.Error("nothing waits, and a reader is woken")
	}
	b.written()

	large := catalog.StoredMessage{Body: make([]byte, tailBytes)} // with what is around it more than the bound
	b.put(large)
	b.put(large)
	if len(b.waiting) != 1 || b.dropped != 1 {
		t.Errorf("%d large messages wait, %d dropped: want one each", len(b.waiting), b.dropped)
	}
	c, other := newBacklog(room, "ten_a"), newBacklog(room, "ten_b")
	c.put(large)
	other.put(large)
	if len(c.waiting) != 0 || c.dropped != 1 || len(other.waiting) != 1 {
		t.Errorf("beyond the tenant's bytes: %d wait; of another tenant %d", len(c.waiting), len(other.waiting))
	}
	for _, x := range []*backlog{b, c, other} {
		x.close()
	}
	if room.used != 0 || len(room.of) != 0 {
		t.Errorf("left behind: %d bytes, %v", room.used, room.of)
	}
}
