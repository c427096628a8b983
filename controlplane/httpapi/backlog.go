package httpapi

import (
	"sync"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/tenant"
)

// Bytes of messages that wait for the readers of tails. What has no room is
// dropped and counted.
const (
	tailBytesTotal = 256 << 20
	tailBytesEach  = 32 << 20 // of one tenant
	tailBytes      = 4 << 20  // of one tail, which may have one message whatever its size
)

// backlog holds the messages that the reader of one tail has not taken yet. One
// goroutine puts and never waits, another one takes.
type backlog struct {
	room     *share // bytes of all backlogs
	tenantID tenant.ID
	some     chan struct{} // has an element while messages wait

	mu      sync.Mutex
	waiting []catalog.StoredMessage // guarded by mu
	bytes   int64                   // guarded by mu; of waiting and of what is being written
	writing int64                   // guarded by mu; bytes of what next returned last
	dropped int64                   // guarded by mu; since next told it
}

func newBacklog(room *share, tenantID tenant.ID) *backlog {
	return &backlog{room: room, tenantID: tenantID, some: make(chan struct{}, 1)}
}

func (b *backlog) put(m catalog.StoredMessage) {
	n := int64(m.Bytes())
	b.mu.Lock()
	defer b.mu.Unlock()
	if (b.bytes > 0 && b.bytes+n > tailBytes) || b.room.take(b.tenantID, n) != nil {
		b.dropped++
		return
	}
	b.bytes += n
	b.waiting = append(b.waiting, m)
	b.signalLocked()
}

func (b *backlog) signalLocked() {
	select {
	case b.some <- struct{}{}:
	default:
	}
}

// next takes the oldest message, after an element of some; dropped is how many
// had no room since the last one.
func (b *backlog) next() (m catalog.StoredMessage, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, b.waiting[0] = b.waiting[0], catalog.StoredMessage{}
	b.waiting = b.waiting[1:]
	b.writing = int64(m.Bytes())
	dropped, b.dropped = b.dropped, 0
	if len(b.waiting) > 0 {
		b.signalLocked()
	}
	return m, dropped
}

// written frees the room of what next returned.
func (b *backlog) written() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(b.writing)
	b.writing = 0
}

// close frees all room; nothing may be put or taken any more.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(b.bytes)
	b.waiting = nil
}

func (b *backlog) free(n int64) {
	b.bytes -= n
	b.room.give(b.tenantID, n)
}
