package proxy

import (
	"context"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"golang.org/x/sync/semaphore"

	"github.com/sluicemq/sluice/dataplane/message"
)

// unpacking bounds the memory of bodies that are unpacked for clients, from
// before they are until gRPC has taken them. What finds no room waits, as long
// as its call does; plain bodies never ask. A namespace has a quarter: clients
// that do not read keep from others of their namespace only.
//
// The encoded form that gRPC makes of a message is not counted. Nor is the one
// message of a stream that it holds after Send returned, plain or unpacked.
type unpacking struct {
	all   *semaphore.Weighted
	share int64

	mu sync.Mutex // guards of and the users in it
	of map[string]*share
}

// share is what one namespace may take; it exists as long as it is used.
type share struct {
	*semaphore.Weighted
	users int
}

const unpackingShares = 4

// newUnpacking bounds it to so many bytes, or to more where a quarter of them
// would not have room for one body.
func newUnpacking(bytes, body int64) *unpacking {
	n := max(bytes/unpackingShares, body)
	return &unpacking{all: semaphore.NewWeighted(n * unpackingShares), share: n, of: map[string]*share{}}
}

// lent is room for one body.
type lent struct {
	u  *unpacking
	ns string
	s  *share
	n  int64
}

// take waits for room for n bytes until ctx ends: first in the namespace's
// share, then, holding that, in all. Whoever has both waits for no more.
func (u *unpacking) take(ctx context.Context, ns string, n int64) (*lent, error) {
	u.mu.Lock()
	s := u.of[ns]
	if s == nil {
		s = &share{Weighted: semaphore.NewWeighted(u.share)}
		u.of[ns] = s
	}
	s.users++
	u.mu.Unlock()
	if err := s.Acquire(ctx, n); err != nil {
		u.leave(ns, s)
		return nil, err
	}
	if err := u.all.Acquire(ctx, n); err != nil {
		s.Release(n)
		u.leave(ns, s)
		return nil, err
	}
	return &lent{u: u, ns: ns, s: s, n: n}, nil
}

func (u *unpacking) leave(ns string, s *share) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(u.of, ns)
	}
}

// keep gives back all but n bytes.
func (l *lent) keep(n int64) {
	l.u.all.Release(l.n - n)
	l.s.Release(l.n - n)
	l.n = n
}

// giveBack gives back everything. It is called once.
func (l *lent) giveBack() {
	l.keep(0)
	l.u.leave(l.ns, l.s)
}

// plainBody unpacks what a 4.x producer compressed: not every gRPC SDK can. A
// body that cannot be unpacked here, or to more than clients may send, leaves
// as it is, with its label. The caller calls done when the body was sent; a
// client that does not read on before is cut off.
func (c *call) plainBody(m *message.Message) (body []byte, encoding v2.Encoding, done func(), err error) {
	if m.SysFlag&message.SysFlagCompressed == 0 {
		return m.Body, v2.Encoding_IDENTITY, func() {}, nil
	}
	limit := int64(c.f.cfg.MaxBodyBytes)
	room, err := c.f.unpacking.take(c.ctx, c.v.NamespaceID(), limit)
	if err != nil {
		return nil, 0, nil, err
	}
	body, ok := m.PlainBody(limit)
	if !ok {
		room.giveBack()
		return m.Body, v2.Encoding_GZIP, func() {}, nil
	}
	room.keep(int64(len(body)))
	unread := time.AfterFunc(c.f.cfg.UnreadTime, c.cut)
	return body, v2.Encoding_IDENTITY, func() {
		unread.Stop()
		room.giveBack()
	}, nil
}

// cut closes the connection of a client that does not take its message.
func (c *call) cut() {
	c.f.ln.say("unread", "connection closed: a client does not read its messages", c.conn.RemoteAddr())
	_ = c.conn.Close()
}
