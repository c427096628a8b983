package auth

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/sluicemq/sluice/internal/errs"
)

// A flood from one network does not delay another: whoever comes while eight
// of a flood wait has the next turn but one.
func TestQueue_floodFromOneNetworkWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		flood, honest := FromNetwork(t.Context(), "203.0.113.0/24"), FromNetwork(t.Context(), "198.51.100.0/24")
		if err := q.enter(flood); err != nil {
			t.Fatal(err)
		}
		var order []string
		turn := make(chan string)
		wait := func(ctx context.Context, name string) {
			go func() {
				if err := q.enter(ctx); err == nil {
					turn <- name
				}
			}()
			synctest.Wait()
		}
		for range waitingEach {
			wait(flood, "flood")
		}
		for range 10_000 {
			err := q.enter(flood)
			if e := (*errs.Error)(nil); !errors.As(err, &e) || e.Reason != "sign_in_busy" || e.RetryAfter == 0 {
				t.Fatalf("one too many: %v", err)
			}
		}
		wait(honest, "honest")
		wait(honest, "honest")
		for range waitingEach + 2 {
			q.leave()
			order = append(order, <-turn)
		}
		if want := []string{"flood", "honest", "flood", "honest", "flood"}; !slices.Equal(order[:5], want) {
			t.Errorf("got %v, want %v first", order, want)
		}
		q.leave()
		if q.free != 1 || q.total != 0 || len(q.turns) != 0 || len(q.waiting) != 0 {
			t.Errorf("left behind: %+v", q)
		}
	})
}

func TestQueue_whoGivesUpLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		if err := q.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(FromNetwork(t.Context(), "a"))
		got := make(chan error, 3)
		for range 3 {
			go func() { got <- q.enter(ctx) }()
		}
		synctest.Wait()
		cancel()
		for range 3 {
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		q.leave()
		if q.free != 1 || q.total != 0 || len(q.turns) != 0 || len(q.waiting) != 0 {
			t.Errorf("left behind: %+v", q)
		}
	})
}

func TestQueue_isBoundedInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		refused := make(chan error, 2*waitingTotal)
		_ = q.enter(ctx)
		for i := range 2 * waitingTotal {
			go func() { refused <- q.enter(FromNetwork(ctx, string(rune('a'+i)))) }()
		}
		synctest.Wait()
		if n := len(refused); n != waitingTotal || q.total != waitingTotal {
			t.Errorf("%d refused, %d wait", n, q.total)
		}
	})
}
