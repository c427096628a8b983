package proxy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sluicemq/sluice/dataplane/policy"
)

// Why an open stream ends although its client did not end it.
var (
	errRevoked  = errors.New("the caller may no longer call")
	errDraining = errors.New("the server is shutting down")
)

// watches are the open streams, with who opened them.
type watches struct {
	mu       sync.Mutex
	open     map[*watch]struct{}
	draining bool
}

type watch struct {
	p      *policy.Principal
	view   atomic.Pointer[policy.View] // set when the stream begins to wait
	cancel context.CancelCauseFunc
}

// refused reports whether the stream's caller may not wait any longer.
func (w *watch) refused() bool {
	v := w.view.Load()
	return !w.p.Live() || v != nil && v.Still() != nil
}

// taken is why a stream of a caller ended that lost what it needs.
func (c *call) taken() error {
	if err := c.v.Still(); err != nil {
		return err
	}
	return errRevoked
}

// waits says that the call has asked for all it needs and begins to wait: it
// also ends when a part of that is taken away.
func (c *call) waits() {
	if c.watch != nil {
		c.watch.view.Store(c.v)
		if c.watch.refused() { // the policy changed in between
			c.watch.cancel(errRevoked)
		}
	}
}

func newWatches() *watches { return &watches{open: map[*watch]struct{}{}} }

// add returns a context that also ends, with errRevoked or errDraining as its
// cause, when the caller is refused from now on or the front closes. The caller calls
// done when the stream ended.
func (ws *watches) add(ctx context.Context, c *call) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{p: c.p, cancel: cancel}
	c.watch = w
	ws.mu.Lock()
	ws.open[w] = struct{}{}
	draining := ws.draining
	ws.mu.Unlock()
	switch {
	case draining:
		cancel(errDraining)
	case w.refused(): // the policy changed between admission and the entry above
		cancel(errRevoked)
	}
	return ctx, func() {
		ws.mu.Lock()
		delete(ws.open, w)
		ws.mu.Unlock()
		cancel(nil)
	}
}

// check ends the streams of callers that are no longer let in.
func (ws *watches) check() {
	ws.end(errRevoked, (*watch).refused)
}

// drain ends all streams, also those that are still to come.
func (ws *watches) drain() {
	ws.mu.Lock()
	ws.draining = true
	ws.mu.Unlock()
	ws.end(errDraining, func(*watch) bool { return true })
}

func (ws *watches) end(cause error, which func(*watch) bool) {
	ws.mu.Lock()
	var ending []*watch
	for w := range ws.open {
		if which(w) {
			ending = append(ending, w)
		}
	}
	ws.mu.Unlock()
	for _, w := range ending {
		w.cancel(cause)
	}
}
