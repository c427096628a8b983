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

// maxWaking is how many parked pulls of one namespace are answered at the same
// time: each reads what it waited for, and a message that thousands wait for is
// there once for each. The others wait in line, in which they keep their places.
const maxWaking = 64

// holds is the table of parked pulls. It is bounded, in all and for each
// namespace; when full a pull is answered at once.
type holds struct {
	limit   int
	nsLimit int

	mu      sync.Mutex
	parked  map[queueKey]map[*hold]struct{}
	count   int            // places taken
	byNS    map[string]int // places taken, by namespace
	waking  map[string]int // pulls that are being answered, by namespace
	line    map[string][]*hold
	closed  bool
	waiting sync.WaitGroup // wake goroutines; waited for by close
}

func newHolds(limit, nsLimit int) *holds {
	return &holds{limit: limit, nsLimit: nsLimit, parked: map[queueKey]map[*hold]struct{}{}, byNS: map[string]int{}, waking: map[string]int{}, line: map[string][]*hold{}}
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

// takeLocked removes h from those that wait for a message and has it answered.
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
	t.waiting.Add(1)
	if t.waking[h.ns] >= maxWaking && !t.closed {
		t.line[h.ns] = append(t.line[h.ns], h)
		return
	}
	t.answerLocked(h)
}

// answerLocked gives the places of h back and starts its wake goroutine, which
// then goes on with the line of its namespace.
func (t *holds) answerLocked(h *hold) {
	t.leaveLocked(h)
	t.waking[h.ns]++
	go func() { // ends when the line is empty; awaited by close
		for h := h; h != nil; h = t.next(h.ns) {
			h.wake()
			t.waiting.Done()
		}
	}()
}

func (t *holds) leaveLocked(h *hold) {
	t.count -= h.places
	if t.byNS[h.ns] -= h.places; t.byNS[h.ns] <= 0 {
		delete(t.byNS, h.ns)
	}
}

// next takes the first of a namespace's line, nil when there is none: the
// goroutine that asks then ends.
func (t *holds) next(ns string) *hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.line[ns]
	if len(line) == 0 {
		delete(t.line, ns)
		if t.waking[ns]--; t.waking[ns] <= 0 {
			delete(t.waking, ns)
		}
		return nil
	}
	h := line[0]
	line[0] = nil
	t.line[ns] = line[1:]
	t.leaveLocked(h)
	return h
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

// wake wakes all pulls of a queue.
func (t *holds) wake(q queueKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range t.parked[q] {
		t.takeLocked(h)
	}
}

// close wakes everything and waits until all answers are given.
func (t *holds) close() {
	t.mu.Lock()
	t.closed = true
	for ns, line := range t.line { // a client that does not read keeps nobody waiting at the end
		delete(t.line, ns)
		for _, h := range line {
			t.answerLocked(h)
		}
	}
	for _, set := range t.parked {
		for h := range set {
			t.takeLocked(h)
		}
	}
	t.mu.Unlock()
	t.waiting.Wait()
}
