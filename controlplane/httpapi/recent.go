package httpapi

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// recently bounds how long an answer about a caller is taken for true that this
// process has not heard to have changed: well within the second in which a key
// that was revoked or narrowed has to be refused everywhere.
const recently = 500 * time.Millisecond

// maxRecent bounds the memory of recent; then all of it is forgotten.
const maxRecent = 20_000

// recent remembers for a moment who sent an API key and what rules say, so that
// a program that reads a hundred times a second does not ask the database a
// thousand. Only reads use it, only what was allowed is remembered, and every
// write through this process forgets all.
type recent struct {
	mu    sync.Mutex
	epoch uint64
	known map[[sha256.Size]byte]remembered
}

type remembered struct {
	value any
	until time.Time
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

// get returns what is remembered, and an epoch for put: what is found out now
// counts only if nothing was forgotten meanwhile.
func (r *recent) get(f [sha256.Size]byte, now time.Time) (value any, epoch uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.known[f]
	if !ok || now.After(k.until) {
		return nil, r.epoch, false
	}
	return k.value, r.epoch, true
}

func (r *recent) put(f [sha256.Size]byte, epoch uint64, value any, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch != r.epoch {
		return
	}
	if r.known == nil || len(r.known) >= maxRecent {
		r.known = map[[sha256.Size]byte]remembered{}
	}
	r.known[f] = remembered{value, now.Add(recently)}
}

// forget is called after everything that may have changed an answer.
func (r *recent) forget() {
	r.mu.Lock()
	r.epoch++
	r.known = nil
	r.mu.Unlock()
}
