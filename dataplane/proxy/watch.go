package proxy

import (
	"context"
	"errors"
	"sync"

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
	cancel context.CancelCauseFunc
}

func newWatches() *watches { return &watches{open: map[*watch]struct{}{}} }

// add returns a context that also ends, with errRevoked or errDraining as its
// cause, when p is refused from now on or the front closes. The caller calls
// done when the stream ended.
func (ws *watches) add(ctx context.Context, p *policy.Principal) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{p: p, cancel: cancel}
	ws.mu.Lock()
	ws.open[w] = struct{}{}
	draining := ws.draining
	ws.mu.Unlock()
	switch {
	case draining:
		cancel(errDraining)
	case !p.Live(): // the policy changed between admission and the entry above
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
	ws.end(errRevoked, func(w *watch) bool { return !w.p.Live() })
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
