package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// recently bounds how long an answer about a caller is taken for true that
	// this process has not heard to have changed: well within the second in which
	// a key that was revoked or narrowed has to be refused everywhere.
	recently = 750 * time.Millisecond

	// renewAfter is the age from which an answer is found out anew beside those
	// who still use it, so that a steady reader never waits; for each answer it is
	// up to a quarter less, at random, so that not all are found out at once.
	renewAfter = recently * 4 / 5

	// maxRecent bounds the memory of recent; then all of it is forgotten.
	maxRecent = 20_000

	// findingTakes bounds how long an answer is looked for, whoever waits for it.
	findingTakes = 10 * time.Second
)

// recent remembers for a moment who sent an API key and what rules say, so that
// a program that reads a hundred times a second does not ask the database a
// thousand; and however many ask at the same time, one of them finds out. Only
// reads use it, only what was allowed is remembered, and every write through
// this process forgets all.
type recent struct {
	now func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]*answer // guarded by mu
}

// answer is what is known of a fact, guarded by the mutex of recent.
type answer struct {
	value   any
	asked   time.Time // zero: there is no value yet
	renew   time.Time // from when it is found out anew
	finding *finding  // nil: nobody is finding out
}

// finding is an answer on its way.
type finding struct {
	asked time.Time
	done  chan struct{} // closed when value and err are there
	value any
	err   error
}

// fact names what is remembered.
func fact(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// know returns what is remembered of f, else what find says. An error of find is
// told to those who wait for it and not remembered. find has the values of ctx
// but ends later, since others may wait for it; it runs in a goroutine that
// lives findingTakes at most.
func know[T any](ctx context.Context, r *recent, f [sha256.Size]byte, find func(ctx context.Context) (T, error)) (T, error) {
	v, fl := r.get(f, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), findingTakes)
		defer cancel()
		return find(ctx)
	})
	if fl != nil {
		select {
		case <-fl.done:
			v = fl.value
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
		if fl.err != nil {
			var none T
			return none, fl.err
		}
	}
	return v.(T), nil
}

// get returns what is remembered, or the finding to wait for.
func (r *recent) get(f [sha256.Size]byte, find func() (any, error)) (any, *finding) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.known[f]
	if a == nil {
		if r.known == nil || len(r.known) >= maxRecent {
			r.known = map[[sha256.Size]byte]*answer{}
		}
		a = &answer{}
		r.known[f] = a
	}
	if a.finding == nil && now.After(a.renew) {
		a.finding = &finding{asked: now, done: make(chan struct{})}
		go r.find(f, a, a.finding, find)
	}
	if now.Sub(a.asked) <= recently {
		return a.value, nil
	}
	return nil, a.finding
}

func (r *recent) find(f [sha256.Size]byte, a *answer, fl *finding, find func() (any, error)) {
	fl.value, fl.err = find()
	r.mu.Lock()
	defer r.mu.Unlock()
	close(fl.done)
	a.value, a.asked, a.finding = fl.value, fl.asked, nil
	a.renew = fl.asked.Add(renewAfter - rand.N(renewAfter/4))
	if fl.err != nil && r.known[f] == a {
		delete(r.known, f)
	}
}

// forget is called after everything that may have changed an answer: what is
// being found out now is for those who wait for it alone.
func (r *recent) forget() {
	r.mu.Lock()
	r.known = nil
	r.mu.Unlock()
}
