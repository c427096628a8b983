package policy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// bucket is a token bucket in its virtual-time form (GCRA): one number, no
// lock. A request passes while the bucket is not in debt and may then put it
// into debt, so a batch larger than a second's worth passes once and is paid
// for afterwards. 0 as the rate lets everything pass.
type bucket struct {
	rate atomic.Int64 // units per second
	due  atomic.Int64 // ns on the engine's clock at which everything taken is paid
}

// slack is how far the bucket may run ahead before it refuses: it lets short
// bursts pass without letting a second exceed its rate by more than this part.
const slack = 50 * time.Millisecond

// take pays for n units, or returns how long to wait before asking again.
func (b *bucket) take(now time.Time, n int64) time.Duration {
	rate := b.rate.Load()
	if rate <= 0 || n <= 0 {
		return 0
	}
	t := now.UnixNano()
	cost := int64(float64(n) / float64(rate) * float64(time.Second))
	for {
		due := b.due.Load()
		if due > t+int64(time.Hour) { // the clock was stepped back: forget the debt
			b.due.CompareAndSwap(due, t)
			continue
		}
		if wait := due - t - int64(slack); wait > 0 {
			return time.Duration(wait)
		}
		if b.due.CompareAndSwap(due, max(due, t)+cost) {
			return 0
		}
	}
}

// refund gives back what take took, when a later limit refused the request.
func (b *bucket) refund(n int64) {
	if rate := b.rate.Load(); rate > 0 {
		b.due.Add(-int64(float64(n) / float64(rate) * float64(time.Second)))
	}
}

// rates are the live limits of one namespace.
type rates struct {
	send, sendBytes, receive, request bucket

	mu     sync.RWMutex // guards topics, the map only
	topics map[string]*bucket
}

func (r *rates) set(ns Namespace) {
	r.send.rate.Store(ns.Limits.SendMessagesPerSecond)
	r.sendBytes.rate.Store(ns.Limits.SendBytesPerSecond)
	r.receive.rate.Store(ns.Limits.ReceiveMessagesPerSecond)
	r.request.rate.Store(ns.Limits.RequestsPerSecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.topics {
		if ns.Topics[name].SendMessagesPerSecond == 0 {
			delete(r.topics, name)
		}
	}
	for name, t := range ns.Topics {
		if t.SendMessagesPerSecond == 0 {
			continue
		}
		if r.topics == nil {
			r.topics = map[string]*bucket{}
		}
		if r.topics[name] == nil {
			r.topics[name] = &bucket{}
		}
		r.topics[name].rate.Store(t.SendMessagesPerSecond)
	}
}

func (r *rates) topic(name string) *bucket {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.topics[name]
}

// charge is one bucket's part of a request.
type charge struct {
	b    *bucket
	n    int64
	unit string
	what string
}

// takeAll takes every charge or none.
func (v *View) takeAll(charges ...charge) error {
	now := v.p.engine.cfg.Now()
	for i, c := range charges {
		wait := c.b.take(now, c.n)
		if wait == 0 {
			continue
		}
		for _, paid := range charges[:i] {
			paid.b.refund(paid.n)
		}
		return &Refusal{
			Code:       CodeRateLimited,
			Text:       fmt.Sprintf("%s rate is used up: slow down or raise the quota", c.what),
			Limit:      fmt.Sprintf("%d %s/s", c.b.rate.Load(), c.unit),
			Used:       fmt.Sprintf("%d %s over it", c.n, c.unit),
			RetryAfter: wait,
		}
	}
	return nil
}

// TakeSend charges a send to the topic that the last Topic call with
// OperationPub named. The error is a *Refusal with CodeRateLimited.
func (v *View) TakeSend(messages, bytes int) error {
	if v.ns == nil {
		return nil
	}
	r := &v.ns.rates
	charges := [3]charge{
		{&r.send, int64(messages), "messages", "the namespace's send"},
		{&r.sendBytes, int64(bytes), "bytes", "the namespace's send byte"},
	}
	n := 2
	if b := r.topic(v.sending); b != nil {
		charges[n] = charge{b, int64(messages), "messages", "the topic's send"}
		n++
	}
	return v.takeAll(charges[:n]...)
}

// TakeReceive charges delivered messages. Because a reply's size is known only
// afterwards, callers charge what they deliver and refuse the next request.
func (v *View) TakeReceive(messages int) error {
	if v.ns == nil {
		return nil
	}
	return v.takeAll(charge{&v.ns.rates.receive, int64(messages), "messages", "the namespace's receive"})
}

// TakeRequest charges one request of any kind.
func (v *View) TakeRequest() error {
	if v.ns == nil {
		return nil
	}
	return v.takeAll(charge{&v.ns.rates.request, 1, "requests", "the namespace's request"})
}

// ReturnRequest gives back what TakeRequest took, for a request that will be
// charged again.
func (v *View) ReturnRequest() {
	if v.ns != nil {
		v.ns.rates.request.refund(1)
	}
}

// ReturnSend gives back what the last TakeSend took; see ReturnRequest.
func (v *View) ReturnSend(messages, bytes int) {
	if v.ns == nil {
		return
	}
	r := &v.ns.rates
	r.send.refund(int64(messages))
	r.sendBytes.refund(int64(bytes))
	if b := r.topic(v.sending); b != nil {
		b.refund(int64(messages))
	}
}
