package httpapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluicemq/sluice/tenant"
)

// Reads of the database at the same time: more would only wait for its
// connections, and those who wait longer than their clients do make everybody
// wait. Refused early, they come again; see fullPause. A network has no bound of
// its own beside the line: when several wait, each gets its share.
const (
	lookupsTotal    = 64
	lookupsLine     = 512
	lookupsPatience = 2 * time.Second
)

// turns bounds how many callers do a costly thing at the same time: total in
// the process, each of one tenant. The others wait, at most line of a tenant
// and at most patience long. Tenants get what is free one after the other, so
// that one that floods waits behind itself alone.
type turns struct {
	quota       string // its name in problems
	total, each int
	line        int
	patience    time.Duration

	mu      sync.Mutex
	running int                        // guarded by mu
	tenants map[tenant.ID]*tenantTurns // guarded by mu; those with a turn or a line
	lines   []tenant.ID                // guarded by mu; those with a line, the next one first
}

// tenantTurns is the part of one tenant, guarded by the mutex of turns.
type tenantTurns struct {
	running int
	waiting []chan struct{} // closed when the turn has come
}

func newTurns(quota string, total, each, line int, patience time.Duration) *turns {
	return &turns{quota: quota, total: total, each: each, line: line, patience: patience, tenants: map[tenant.ID]*tenantTurns{}}
}

// enter returns when it is the caller's turn; the caller must call leave, once.
// RateLimited when the tenant's own callers are too many, Unavailable when
// those of others are; the error of ctx when that ends first.
func (t *turns) enter(ctx context.Context, tenantID tenant.ID) (leave func(), err error) {
	leave = func() { t.leave(tenantID) }
	turn, err := t.queue(tenantID)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.tenants[tenantID]
	i := slices.Index(of.waiting, turn)
	if i < 0 { // leave of another gave the turn after ctx or timer fired and before the lock
		if err == nil {
			return leave, nil
		}
		t.leaveLocked(tenantID)
		return nil, err
	}
	if err == nil {
		err = t.refusal(tenantID, of)
	}
	of.waiting = slices.Delete(of.waiting, i, i+1)
	t.forgetLocked(tenantID, of)
	return nil, err
}

func (t *turns) leave(tenantID tenant.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaveLocked(tenantID)
}

// queue puts the caller at the end of its tenant's line.
func (t *turns) queue(tenantID tenant.ID) (chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.tenants[tenantID]
	if of == nil {
		of = &tenantTurns{}
	}
	if len(of.waiting) >= t.line {
		return nil, t.refusal(tenantID, of)
	}
	t.tenants[tenantID] = of
	turn := make(chan struct{})
	if of.waiting = append(of.waiting, turn); len(of.waiting) == 1 {
		t.lines = append(t.lines, tenantID)
	}
	t.grantLocked()
	return turn, nil
}

func (t *turns) leaveLocked(tenantID tenant.ID) {
	of := t.tenants[tenantID]
	t.running--
	of.running--
	t.forgetLocked(tenantID, of)
	t.grantLocked()
}

// grantLocked gives what is free: to the first tenant in lines that may have
// more, which then goes to their end.
func (t *turns) grantLocked() {
	for t.running < t.total {
		i := slices.IndexFunc(t.lines, func(id tenant.ID) bool { return t.tenants[id].running < t.each })
		if i < 0 {
			return
		}
		id := t.lines[i]
		of := t.tenants[id]
		close(of.waiting[0])
		of.waiting = of.waiting[1:]
		of.running++
		t.running++
		t.lines = slices.Delete(t.lines, i, i+1)
		if len(of.waiting) > 0 {
			t.lines = append(t.lines, id)
		}
	}
}

// forgetLocked drops what nobody needs any more of a tenant.
func (t *turns) forgetLocked(tenantID tenant.ID, of *tenantTurns) {
	if len(of.waiting) > 0 {
		return
	}
	if i := slices.Index(t.lines, tenantID); i >= 0 {
		t.lines = slices.Delete(t.lines, i, i+1)
	}
	if of.running == 0 {
		delete(t.tenants, tenantID)
	}
}

func (t *turns) refusal(tenantID tenant.ID, of *tenantTurns) error {
	if of.running < t.each {
		return processFull(t.quota)
	}
	return tenantFull(t.quota, tenantID, int64(t.each), int64(of.running))
}

// answerOutOfTurn ends a call's turn before its answer is written, which can
// take as long as its reader likes.
func answerOutOfTurn(f StrictHandlerFunc, _ string) StrictHandlerFunc {
	return func(gc *gin.Context, request any) (any, error) {
		c, _ := enter(gc)
		defer c.endTurn()
		return f(gc, request)
	}
}
