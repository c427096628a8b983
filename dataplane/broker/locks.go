package broker

import (
	"sync"
	"time"
)

// QueueRef names one queue of this broker.
type QueueRef struct {
	Topic   string // physical
	QueueID int32
}

type lockKey struct {
	group string
	queue QueueRef
}

type queueLock struct {
	clientID string
	renewed  time.Time
}

// queueLocks are the locks by which ordered consumers own queues.
type queueLocks struct {
	expiry time.Duration
	now    func() time.Time

	mu    sync.Mutex
	table map[lockKey]queueLock
}

func newQueueLocks(expiry time.Duration, now func() time.Time) *queueLocks {
	return &queueLocks{expiry: expiry, now: now, table: map[lockKey]queueLock{}}
}

// LockQueues gives queues to a client for Config.LockExpiry, or renews them,
// and returns those that it owns now. A lock of another client that was not
// renewed in time is taken over.
func (b *Broker) LockQueues(group, clientID string, queues []QueueRef) ([]QueueRef, error) {
	if _, ok := b.store.Group(group); !ok {
		return nil, groupNotFound(group)
	}
	owned := make([]QueueRef, 0, len(queues))
	for _, q := range queues {
		t, ok := b.store.Topic(q.Topic)
		if ok && checkQueue(t, q.QueueID) == nil && b.locks.lock(group, clientID, q) {
			owned = append(owned, q)
		}
	}
	return owned, nil
}

// UnlockQueues gives back the queues that the client owns.
func (b *Broker) UnlockQueues(group, clientID string, queues []QueueRef) {
	b.locks.mu.Lock()
	defer b.locks.mu.Unlock()
	for _, q := range queues {
		key := lockKey{group, q}
		if b.locks.table[key].clientID == clientID {
			delete(b.locks.table, key)
		}
	}
}

func (l *queueLocks) lock(group, clientID string, q QueueRef) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, now := lockKey{group, q}, l.now()
	if held, ok := l.table[key]; ok && held.clientID != clientID && now.Sub(held.renewed) < l.expiry {
		return false
	}
	l.table[key] = queueLock{clientID, now}
	return true
}

func (l *queueLocks) dropGroup(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.table {
		if key.group == group {
			delete(l.table, key)
		}
	}
}

// held reports whether any member of the group owns a queue now.
func (l *queueLocks) held(group string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, q := range l.table {
		if key.group == group && l.now().Sub(q.renewed) < l.expiry {
			return true
		}
	}
	return false
}

// expire forgets locks that nobody renewed.
func (l *queueLocks) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, q := range l.table {
		if l.now().Sub(q.renewed) >= l.expiry {
			delete(l.table, key)
		}
	}
}
