package broker

import (
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
)

type queueKey struct {
	topic string
	queue int32
}

// hold is one parked pull. It is in the table until it is woken, exactly once.
type hold struct {
	queue   queueKey
	ns      string // whose it is
	places  int    // how many places it takes
	offset  int64
	filter  *Filter
	wake    func()       // runs on a goroutine of holds
	refused func() error // may be nil
	timer   *time.Timer
	gone    bool // under holds.mu: left the table
}

// placeBytes is what a parked pull may keep for the one place that it takes.
const placeBytes = 2 << 10

// places is how many places a request of this size takes while it is parked.
func places(retained int) int { return 1 + retained/placeBytes }

// holds is the table of parked pulls. It is bounded, in all and for each
// namespace; when full a pull is answered at once.
type holds struct {
	limit   int
	nsLimit int

	mu      sync.Mutex
	parked  map[queueKey]map[*hold]struct{}
	count   int            // places taken
	byNS    map[string]int // places taken, by namespace
	closed  bool
	waiting sync.WaitGroup // wake goroutines; waited for by close
}

func newHolds(limit, nsLimit int) *holds {
	return &holds{limit: limit, nsLimit: nsLimit, parked: map[queueKey]map[*hold]struct{}{}, byNS: map[string]int{}}
}

// add parks h for at most d; false when there is no room or closing.
func (t *holds) add(h *hold, d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.count+h.places > t.limit || t.byNS[h.ns]+h.places > t.nsLimit {
		return false
	}
	set := t.parked[h.queue]
	if set == nil {
		set = map[*hold]struct{}{}
		t.parked[h.queue] = set
	}
	set[h] = struct{}{}
	t.count += h.places
	t.byNS[h.ns] += h.places
	h.timer = time.AfterFunc(d, func() { t.recheck(h) })
	return true
}

// takeLocked removes h and starts its wake goroutine.
func (t *holds) takeLocked(h *hold) {
	if h.gone {
		return
	}
	h.gone = true
	h.timer.Stop()
	set := t.parked[h.queue]
	delete(set, h)
	if len(set) == 0 {
		delete(t.parked, h.queue)
	}
	t.count -= h.places
	if t.byNS[h.ns] -= h.places; t.byNS[h.ns] <= 0 {
		delete(t.byNS, h.ns)
	}
	t.waiting.Add(1)
	go func() { // ends when the answer is given; awaited by close
		defer t.waiting.Done()
		h.wake()
	}()
}

// recheck wakes h unless that already happened.
func (t *holds) recheck(h *hold) {
	t.mu.Lock()
	t.takeLocked(h)
	t.mu.Unlock()
}

// check wakes the pulls whose callers are refused now.
func (t *holds) check() {
	t.mu.Lock()
	var asked []*hold
	for _, set := range t.parked {
		for h := range set {
			if h.refused != nil {
				asked = append(asked, h)
			}
		}
	}
	t.mu.Unlock()
	for _, h := range asked {
		if h.refused() != nil {
			t.recheck(h)
		}
	}
}

// arrived wakes the pulls that want the message.
func (t *holds) arrived(a store.Arrival) {
	t.mu.Lock()
	for h := range t.parked[queueKey{a.Topic, a.QueueID}] {
		if a.NextOffset > h.offset && h.filter.MatchCode(a.TagsCode) {
			t.takeLocked(h)
		}
	}
	t.mu.Unlock()
}

// close wakes everything and waits until all answers are given.
func (t *holds) close() {
	t.mu.Lock()
	t.closed = true
	for _, set := range t.parked {
		for h := range set {
			t.takeLocked(h)
		}
	}
	t.mu.Unlock()
	t.waiting.Wait()
}
