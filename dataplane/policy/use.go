package policy

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

// KeyUse says when and for what an API key was let in last.
type KeyUse struct {
	KeyID     string
	TenantID  string
	At        time.Time
	Remote    netip.Addr
	Operation Operation
	Topic     string // bare; empty when it was about a group alone
}

// How often a use is noted anew: often enough to be told within a minute. A
// group alone says less than a topic, and waits for one.
const (
	noteTopicEvery = 20 * time.Second
	noteGroupEvery = 40 * time.Second
)

// lastUse belongs to a key for as long as the key is known, whatever becomes of
// its Principal.
type lastUse struct {
	noted  atomic.Int64 // milliseconds
	queued atomic.Bool  // in Engine.used
	use    atomic.Pointer[KeyUse]
}

// note remembers a use; most of the time it is one comparison.
func (p *Principal) note(v *View, kind kind, bare string, op Operation) {
	u := p.use
	if u == nil {
		return
	}
	now := p.engine.cfg.Now()
	before, every := u.noted.Load(), noteTopicEvery
	if kind == kindGroup {
		every = noteGroupEvery
	}
	if now.UnixMilli()-before < every.Milliseconds() || !u.noted.CompareAndSwap(before, now.UnixMilli()) {
		return
	}
	use := &KeyUse{KeyID: p.id, TenantID: p.tenant, At: now, Remote: v.remote, Operation: op}
	if kind == kindTopic {
		use.Topic = strings.Clone(bare)
	}
	u.use.Store(use)
	if u.queued.CompareAndSwap(false, true) {
		e := p.engine
		e.useMu.Lock()
		e.used = append(e.used, u)
		e.useMu.Unlock()
	}
}

// Uses returns the keys that were used since it was called last, each once
// with its last use that was noted.
func (e *Engine) Uses() []KeyUse {
	e.useMu.Lock()
	list := e.used
	e.used = nil
	e.useMu.Unlock()
	out := make([]KeyUse, len(list))
	for i, u := range list {
		u.queued.Store(false) // before the load: a later use comes with the next call
		out[i] = *u.use.Load()
	}
	return out
}
