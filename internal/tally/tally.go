// Package tally counts things that repeat, such as refusals, so that they can be
// told later in few entries, however many there were and whoever caused them:
// the same thing is one entry with a count, each owner has a bounded number of
// entries at a time, and what is beyond goes into one more.
//
// It does no I/O. A Tally may be used by any number of goroutines.
package tally

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Config of a Tally of things of type K; all of it is needed.
type Config[K comparable] struct {
	Owner    func(K) string // whom a thing is told to
	Others   func(K) K      // the one entry of that owner for what is beyond PerOwner
	PerOwner int            // different things of one owner that are told in a while
	Total    int            // of all owners; what is beyond that is dropped
	Now      func() time.Time
}

// Counted is a thing with how often it happened.
type Counted[K comparable] struct {
	Key         K
	Count       int64
	First, Last time.Time
	Detail      string // of the last one
}

// A thing is told with the next Take. When it goes on, it is told again after
// pauses that double, so that what repeats for days makes few entries; when it
// stopped for a while, it is as new.
const (
	firstPause = 5 * time.Second
	lastPause  = 5 * time.Minute
	forgotten  = time.Minute
)

// entry is what is known of one thing since it was told last.
type entry struct {
	count       int64
	first, last time.Time
	detail      string
	told        time.Time // zero: never
	pause       time.Duration
}

// Tally counts.
type Tally[K comparable] struct {
	cfg Config[K]

	mu      sync.Mutex
	entries map[K]*entry
	owned   map[string]int // entries of each owner, Others left out
	dropped int64
}

// New makes an empty Tally.
func New[K comparable](cfg Config[K]) *Tally[K] {
	return &Tally[K]{cfg: cfg, entries: map[K]*entry{}, owned: map[string]int{}}
}

// Add counts one thing. detail is kept of the last one only.
func (t *Tally[K]) Add(k K, detail string) {
	now := t.cfg.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entry(k)
	if e == nil {
		t.dropped++
		return
	}
	if e.count == 0 {
		e.first = now
	}
	e.count++
	e.last, e.detail = now, detail
}

// entry finds or makes the entry that a thing counts in; with t.mu. nil: there
// is no room.
func (t *Tally[K]) entry(k K) *entry {
	if e := t.entries[k]; e != nil {
		return e
	}
	others := t.cfg.Others(k)
	if k != others && t.owned[t.cfg.Owner(k)] >= t.cfg.PerOwner {
		return t.entry(others)
	}
	if len(t.entries) >= t.cfg.Total {
		return nil
	}
	if k != others {
		t.owned[t.cfg.Owner(k)]++
	}
	e := &entry{pause: firstPause}
	t.entries[k] = e
	return e
}

// Take returns what is to be told now, oldest first, and counts on from there.
func (t *Tally[K]) Take() []Counted[K] { return t.take(false) }

// TakeAll is Take without pauses, for an end after which nothing is told.
func (t *Tally[K]) TakeAll() []Counted[K] { return t.take(true) }

func (t *Tally[K]) take(all bool) []Counted[K] {
	now := t.cfg.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Counted[K]
	for k, e := range t.entries {
		quiet := now.Sub(e.told)
		switch {
		case e.count == 0 && quiet >= max(e.pause, forgotten):
			delete(t.entries, k)
			if owner := t.cfg.Owner(k); k != t.cfg.Others(k) {
				if t.owned[owner]--; t.owned[owner] == 0 {
					delete(t.owned, owner)
				}
			}
		case e.count > 0 && (all || e.told.IsZero() || quiet >= e.pause):
			if !e.told.IsZero() {
				e.pause = min(2*e.pause, lastPause)
			}
			out = append(out, Counted[K]{k, e.count, e.first, e.last, e.detail})
			e.count, e.told = 0, now
		}
	}
	slices.SortFunc(out, func(a, b Counted[K]) int { return cmp.Or(a.First.Compare(b.First), a.Last.Compare(b.Last)) })
	return out
}

// Dropped returns how many things were not counted for want of room since it was
// called last.
func (t *Tally[K]) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.dropped
	t.dropped = 0
	return n
}
