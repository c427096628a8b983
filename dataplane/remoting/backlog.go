package remoting

import (
	"sync"
	"sync/atomic"
)

// backlog bounds what waits to be written to all connections together. Over
// the limit those are cut off that hold more than an equal share of it: there
// is always one, so the limit holds, and it is never a peer that reads what it
// is sent, unless in passing.
type backlog struct {
	limit int64
	bytes atomic.Int64 // queued, or being written

	shedding sync.Mutex // one sweep at a time; taken before mu and before Conn.mu
	mu       sync.Mutex
	conns    map[*Conn]struct{} // guarded by mu; open ones
}

func newBacklog(limit int) *backlog {
	return &backlog{limit: int64(limit), conns: map[*Conn]struct{}{}}
}

func (b *backlog) enter(c *Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = struct{}{}
}

func (b *backlog) leave(c *Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

// shed brings the backlog under its limit and returns how many connections it
// cut off for that, and over which share. No lock of a connection may be held.
func (b *backlog) shed() (n int, share int64) {
	b.shedding.Lock()
	defer b.shedding.Unlock()
	if b.bytes.Load() <= b.limit { // another sweep has just been here
		return 0, 0
	}
	b.mu.Lock()
	conns := make([]*Conn, 0, len(b.conns))
	for c := range b.conns {
		conns = append(conns, c)
	}
	b.mu.Unlock()
	share = b.limit / int64(max(1, len(conns)))
	for _, c := range conns {
		if c.cutOff(share) {
			n++
		}
	}
	return n, share
}
