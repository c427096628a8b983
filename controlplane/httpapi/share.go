package httpapi

import (
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// share counts something that callers hold: at most total in the process, each
// of one tenant. Nobody waits for it.
type share struct {
	quota       string // its name in problems
	total, each int64

	mu   sync.Mutex
	used int64               // guarded by mu
	of   map[tenant.ID]int64 // guarded by mu; no zeros
}

func newShare(quota string, total, each int64) *share {
	return &share{quota: quota, total: total, each: each, of: map[tenant.ID]int64{}}
}

// take adds n to what the tenant holds; the caller gives it back. RateLimited
// when the tenant would have more than each, Unavailable when all tenants
// together would have more than total.
func (s *share) take(tenantID tenant.ID, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch has := s.of[tenantID]; {
	case has+n > s.each:
		return tenantFull(s.quota, tenantID, s.each, has)
	case s.used+n > s.total:
		return processFull(s.quota)
	}
	s.used += n
	s.of[tenantID] += n
	return nil
}

func (s *share) give(tenantID tenant.ID, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.of[tenantID] -= n; s.of[tenantID] == 0 {
		delete(s.of, tenantID)
	}
}

// fullPause is when a caller should try again whose share is used up.
const fullPause = time.Second

// tenantFull says that a tenant has all of a thing that it may have at once.
func tenantFull(quota string, tenantID tenant.ID, limit, used int64) error {
	e := errs.E(errs.RateLimited, "%s: the tenant has %d of the %d that it may have at the same time; end one, or try again later", quota, used, limit)
	e.RetryAfter = fullPause
	e.Quota = &errs.Quota{Name: quota, Scope: tenantID, Limit: limit, Used: used}
	return e
}

// processFull says that all tenants together have all of a thing.
func processFull(quota string) error {
	e := errs.E(errs.Unavailable, "%s: the server has all that it can have at the same time; try again later", quota)
	e.RetryAfter = fullPause
	return e
}
