package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// A tenant that floods waits behind itself: another one's call has its turn as
// soon as one of those that run ends.
func TestTurns_floodDoesNotKeepOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns("reads", 3, 2, 100, time.Hour)
		var wg sync.WaitGroup
		work := func(id tenant.ID) {
			wg.Go(func() {
				leave, err := turns.enter(t.Context(), id)
				if err != nil {
					t.Error(err)
					return
				}
				defer leave()
				time.Sleep(time.Second)
			})
		}
		for range 50 {
			work("ten_flood")
			work("ten_second_flood")
		}
		synctest.Wait()
		begun := time.Now()
		leave, err := turns.enter(t.Context(), "ten_victim")
		check(t, err)
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("waited %s behind others", waited)
		}
		leave()
		wg.Wait()
		if turns.running != 0 || len(turns.tenants) != 0 || len(turns.lines) != 0 {
			t.Errorf("left behind: %+v", turns)
		}
	})
}

func TestTurns_refusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns("reads", 3, 2, 1, 10*time.Second)
		hold := func(id tenant.ID) func() {
			leave, err := turns.enter(t.Context(), id)
			check(t, err)
			return leave
		}
		first, second := hold("ten_a"), hold("ten_a")
		begun := time.Now()
		var waited error
		var wg sync.WaitGroup
		wg.Go(func() { _, waited = turns.enter(t.Context(), "ten_a") })
		synctest.Wait()
		_, err := turns.enter(t.Context(), "ten_a")
		var e *errs.Error
		if !errors.As(err, &e) || e.Code != errs.RateLimited || e.RetryAfter <= 0 || *e.Quota != (errs.Quota{Name: "reads", Scope: "ten_a", Limit: 2, Used: 2}) {
			t.Errorf("behind a full line: %v", err)
		}
		wg.Wait()
		if !errs.Is(waited, errs.RateLimited) || time.Since(begun) != 10*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), waited)
		}
		third := hold("ten_b")
		if _, err := turns.enter(t.Context(), "ten_c"); !errs.Is(err, errs.Unavailable) {
			t.Errorf("all turns are others': %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := turns.enter(ctx, "ten_c"); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that went away: %v", err)
		}
		for _, leave := range []func(){first, second, third} {
			leave()
		}
		if turns.running != 0 || len(turns.tenants) != 0 || len(turns.lines) != 0 {
			t.Errorf("left behind: %+v", turns)
		}
	})
}

// Whatever callers do, the limits hold and nothing is left: those that give up
// race with those that hand over their turn.
func TestTurns_random(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 1))
		turns := newTurns("reads", 5, 2, 10, 3*time.Millisecond)
		var mu sync.Mutex
		running, all := map[tenant.ID]int{}, 0
		var wg sync.WaitGroup
		for range 5000 {
			id := tenant.ID(fmt.Sprint("ten_", r.IntN(8)))
			begin, patience, work := time.Duration(r.IntN(1000))*time.Millisecond, time.Duration(r.IntN(5))*time.Millisecond, time.Duration(r.IntN(4))*time.Millisecond
			wg.Go(func() {
				time.Sleep(begin)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				leave, err := turns.enter(ctx, id)
				if err != nil {
					return
				}
				mu.Lock()
				running[id]++
				if all++; all > 5 || running[id] > 2 {
					t.Errorf("%d run, %d of them of %s", all, running[id], id)
				}
				mu.Unlock()
				time.Sleep(work)
				mu.Lock()
				running[id]--
				all--
				mu.Unlock()
				leave()
			})
		}
		wg.Wait()
		if turns.running != 0 || len(turns.tenants) != 0 || len(turns.lines) != 0 {
			t.Errorf("left behind: %+v", turns)
		}
	})
}

func TestShare(t *testing.T) {
	s := newShare("tails", 3, 2)
	check(t, s.take("ten_a", 1))
	check(t, s.take("ten_a", 1))
	err := s.take("ten_a", 1)
	var e *errs.Error
	if !errors.As(err, &e) || e.Code != errs.RateLimited || e.RetryAfter <= 0 || *e.Quota != (errs.Quota{Name: "tails", Scope: "ten_a", Limit: 2, Used: 2}) {
		t.Errorf("more than a tenant may have: %v", err)
	}
	check(t, s.take("ten_b", 1))
	if err := s.take("ten_b", 1); !errs.Is(err, errs.Unavailable) {
		t.Errorf("more than all may have: %v", err)
	}
	s.give("ten_a", 2)
	check(t, s.take("ten_b", 1))
	s.give("ten_b", 2)
	if s.used != 0 || len(s.of) != 0 {
		t.Errorf("left behind: %d %v", s.used, s.of)
	}
}
