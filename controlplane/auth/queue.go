package auth

import (
	"context"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// Bounds of a queue: whoever comes when it is full is refused at once and told
// to come back, which costs nothing.
const (
	waitingEach  = 8   // from one network
	waitingTotal = 256 // from all
)

type networkKey struct{}

// FromNetwork marks what a context's request costs as owed to a network.
func FromNetwork(ctx context.Context, network string) context.Context {
	return context.WithValue(ctx, networkKey{}, network)
}

// queue lets a few at a time hash a password. Those who wait get in by turns,
// one of each network: a flood from one waits for itself and for nobody else.
// Memory is bounded by the slots and the number that may wait.
type queue struct {
	mu      sync.Mutex
	free    int                        // guarded by mu, like all below
	waiting map[string][]chan struct{} // by network, oldest first
	turns   []string                   // networks that wait, the next one first
	total   int
}

func newQueue(slots int) *queue {
	return &queue{free: slots, waiting: map[string][]chan struct{}{}}
}

// enter waits for a slot; leave gives it back.
func (q *queue) enter(ctx context.Context) error {
	network, _ := ctx.Value(networkKey{}).(string)
	q.mu.Lock()
	if q.free > 0 && q.total == 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	if len(q.waiting[network]) >= waitingEach || q.total >= waitingTotal {
		q.mu.Unlock()
		e := errs.E(errs.Unavailable, "too many sign-ins wait right now; try again in a second").WithReason("sign_in_busy")
		e.RetryAfter = time.Second
		return e
	}
	turn := make(chan struct{})
	if len(q.waiting[network]) == 0 {
		q.turns = append(q.turns, network)
	}
	q.waiting[network] = append(q.waiting[network], turn)
	q.total++
	q.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.removeLocked(network, turn) {
		return ctx.Err()
	}
	// The slot was handed over between ctx's end and the lock: pass it on.
	q.leaveLocked()
	return ctx.Err()
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaveLocked()
}

// leaveLocked hands the slot to the first of the network whose turn it is,
// and puts the network behind the others.
func (q *queue) leaveLocked() {
	if len(q.turns) == 0 {
		q.free++
		return
	}
	network := q.turns[0]
	q.turns = q.turns[1:]
	list := q.waiting[network]
	close(list[0])
	q.total--
	if list = list[1:]; len(list) == 0 {
		delete(q.waiting, network)
		return
	}
	q.waiting[network] = list
	q.turns = append(q.turns, network)
}

func (q *queue) removeLocked(network string, turn chan struct{}) bool {
	list := q.waiting[network]
	for i, t := range list {
		if t != turn {
			continue
		}
		q.total--
		if len(list) > 1 {
			q.waiting[network] = append(list[:i:i], list[i+1:]...)
			return true
		}
		delete(q.waiting, network)
		for j, n := range q.turns {
			if n == network {
				q.turns = append(q.turns[:j:j], q.turns[j+1:]...)
				break
			}
		}
		return true
	}
	return false
}
