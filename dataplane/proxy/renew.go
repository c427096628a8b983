package proxy

import (
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
)

// Push consumers do not prolong the invisible time of what they work on: the
// server does it for them, as long as they live. A renewed message keeps its
// handle and its attempt.

// lease is one message that is renewed for a client.
type lease struct {
	group, topic, messageID string // names physical
	since, until            time.Time

	// mu is held over a renewal in the core, so that a client's own change of
	// the same message comes after it and is what counts.
	mu   sync.Mutex
	over bool
}

const (
	// maxLeases bounds the messages that are renewed for one client; further
	// ones come again when their time is over.
	maxLeases = 10_000
	// lastLease is the time after which messages of a client that is gone
	// become visible.
	lastLease = time.Second
)

// hold begins to renew a message.
func (s *session) hold(f *Front, handle, group, topic, messageID string) {
	now := f.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.leases) >= maxLeases {
		return
	}
	s.leases[handle] = &lease{group: group, topic: topic, messageID: messageID, since: now, until: now.Add(f.cfg.RenewLease)}
}

// release ends the renewal of a message, before the client's own word about it
// reaches the core. A nil session holds nothing.
func (s *session) release(handle string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	l := s.leases[handle]
	delete(s.leases, handle)
	s.mu.Unlock()
	if l != nil {
		l.mu.Lock()
		l.over = true
		l.mu.Unlock()
	}
}

// find returns the handle of a held message, "" if the client holds none with
// this id.
func (s *session) find(group, topic, messageID string) string {
	if s == nil || messageID == "" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for handle, l := range s.leases {
		if l.messageID == messageID && l.group == group && l.topic == topic {
			return handle
		}
	}
	return ""
}

// renew prolongs what is about to become visible.
func (ss *sessions) renew() {
	for _, s := range ss.all() {
		now := ss.f.now()
		due := map[string]*lease{}
		s.mu.Lock()
		for handle, l := range s.leases {
			if l.until.Sub(now) <= ss.f.cfg.RenewAhead {
				due[handle] = l
			}
		}
		s.mu.Unlock()
		for handle, l := range due {
			if !l.renew(ss.f, handle, now) {
				s.release(handle)
			}
		}
	}
}

// renew prolongs one message. false: it is not renewed any more.
func (l *lease) renew(f *Front, handle string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || now.Sub(l.since) > f.cfg.RenewLimit || !now.Before(l.until) {
		return false
	}
	if _, err := f.core.ChangeInvisible(l.group, l.topic, handle, f.cfg.RenewLease); err != nil {
		if broker.CodeOf(err) != broker.CodeBadReceipt {
			f.log.Warn("held message was not renewed; it comes again", "topic", l.topic, "group", l.group, "err", err)
		}
		return false
	}
	l.until = now.Add(f.cfg.RenewLease)
	return true
}

// giveUp makes a message of a client that is gone visible soon.
func (l *lease) giveUp(f *Front, handle string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	if _, err := f.core.ChangeInvisible(l.group, l.topic, handle, lastLease); err != nil && broker.CodeOf(err) != broker.CodeBadReceipt {
		f.log.Warn("message of a client that is gone was not freed; it comes again later", "topic", l.topic, "group", l.group, "err", err)
	}
}
