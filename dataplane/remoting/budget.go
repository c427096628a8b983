package remoting

import (
	"errors"
	"sync"
	"time"
)

// errNoRoom ends a connection whose large frame found no room in time.
var errNoRoom = errors.New("too many large frames at once on this server")

// budget bounds the memory of large bodies of all connections together: those
// that arrive and those that are being handled. What it refuses waits, and its
// sender with it; small frames never ask.
type budget struct {
	mu    sync.Mutex
	left  int
	freed chan struct{} // closed and replaced when something was given back and somebody waits
	waits int
}

func newBudget(bytes int) *budget { return &budget{left: bytes, freed: make(chan struct{})} }

// take waits for n bytes, at most until the deadline or done.
func (b *budget) take(n int, deadline time.Time, done <-chan struct{}) error {
	var t *time.Timer
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left < n {
		if t == nil {
			t = time.NewTimer(time.Until(deadline))
			defer t.Stop()
		}
		freed := b.freed
		b.waits++
		b.mu.Unlock()
		var err error
		select {
		case <-freed:
		case <-t.C:
			err = errNoRoom
		case <-done:
			err = ErrClosed
		}
		b.mu.Lock()
		b.waits--
		if err != nil {
			return err
		}
	}
	b.left -= n
	return nil
}

// tryTake takes n bytes if they are there.
func (b *budget) tryTake(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < n {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if b.waits > 0 {
		close(b.freed)
		b.freed = make(chan struct{})
	}
}
