package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// A key that was just let in is refused at once after a change through this
// server, and within recently after one through another.
func TestRecent_isForgottenInTime(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		newKey := func() api.ApiKeyWithSecret {
			k, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "reader", ControlRole: ptr(api.ControlRole("viewer"))}))
			check(t, err)
			return k
		}
		read := func(k api.ApiKeyWithSecret) error {
			_, err := apiclient.OK(s.basic(k).GetTopicWithResponse(ctx, p.NamespaceId, "hello"))
			return err
		}
		here, elsewhere := newKey(), newKey()
		check(t, read(here))
		_, err := apiclient.OK(p.sdk.RevokeApiKeyWithResponse(ctx, here.Id, nil))
		check(t, err)
		wantProblem(t, read(here), http.StatusUnauthorized, "key_revoked")

		check(t, read(elsewhere))
		_, err = s.tenants.RevokeKey(ctx, p.TenantId, elsewhere.Id, 0) // as another process does
		check(t, err)
		s.clock.add(recently + time.Millisecond)
		wantProblem(t, read(elsewhere), http.StatusUnauthorized, "key_revoked")

		narrowed := newKey()
		check(t, read(narrowed))
		_, err = apiclient.Created(p.sdk.CreateAclWithResponse(ctx, p.NamespaceId, nil, api.AclCreate{Effect: "deny", Principal: narrowed.Id, Resource: "topic", Pattern: "hello", Operations: []api.KeyPermission{"DESCRIBE"}}))
		check(t, err)
		wantProblem(t, read(narrowed), http.StatusForbidden, "permission_denied")

		// Another secret, or another address, is another caller.
		check(t, read(newKey()))
		wrong := newKey()
		check(t, read(wrong))
		wrong.Secret = p.ApiKey.Secret
		wantProblem(t, read(wrong), http.StatusUnauthorized, "key_invalid")
	})
}

// What was found out while something changed is for those who asked before.
func TestRecent_forgetWhileFinding(t *testing.T) {
	r, clock := newRecent()
	answers := make(chan int)
	find := func(context.Context) (int, error) { return <-answers, nil }
	f := fact("a", "b")
	before := asking(t, r, f, find)
	r.forget()
	after := asking(t, r, f, find)
	answers <- 1
	answers <- 2
	if a, b := <-before, <-after; a == b {
		t.Errorf("both got %d: the second took an answer from before the change", a)
	}
	clock.add(recently)
	if v, err := know(t.Context(), r, f, func(context.Context) (int, error) { return 3, nil }); err != nil || v == 3 {
		t.Errorf("got %d %v: nothing is remembered", v, err)
	}
}

// However many ask at the same time, one of them finds out; a steady reader
// has answers that are never older than recently and never waits.
func TestRecent_oneFindsOut(t *testing.T) {
	r, clock := newRecent()
	f := fact("a")
	var found atomic.Int64
	gate := make(chan struct{})
	find := func(context.Context) (int64, error) { <-gate; return found.Add(1), nil }
	const askers = 50
	var all []<-chan int64
	for range askers {
		all = append(all, asking(t, r, f, find))
	}
	close(gate)
	for _, c := range all {
		if v := <-c; v != 1 {
			t.Fatalf("got %d, want the first answer", v)
		}
	}
	if n := found.Load(); n != 1 {
		t.Errorf("%d of %d found out", n, askers)
	}

	clock.add(renewAfter + 1)
	gate = make(chan struct{})
	if v, err := know(t.Context(), r, f, find); v != 1 || err != nil {
		t.Errorf("got %d %v, want what is remembered while it is renewed", v, err)
	}
	clock.add(recently)
	late := asking(t, r, f, find)
	close(gate)
	if v := <-late; v != 2 {
		t.Errorf("got %d, want what was being found out", v)
	}
}

// A refusal is not remembered, and ends what was.
func TestRecent_refusal(t *testing.T) {
	r, clock := newRecent()
	f := fact("a")
	yes := func(context.Context) (bool, error) { return true, nil }
	no := func(context.Context) (bool, error) { return false, errors.New("refused") }
	if _, err := know(t.Context(), r, f, no); err == nil {
		t.Error("a refusal is no error")
	}
	if v, err := know(t.Context(), r, f, yes); !v || err != nil {
		t.Errorf("got %v %v after a refusal", v, err)
	}
	clock.add(renewAfter + 1)
	refused := make(chan struct{})
	if v, err := know(t.Context(), r, f, func(context.Context) (bool, error) { defer close(refused); return false, errors.New("refused") }); !v || err != nil {
		t.Errorf("got %v %v, want what is remembered", v, err)
	}
	<-refused
	r.mu.Lock() // until the finding has put its answer down
	a := r.known[f]
	r.mu.Unlock()
	if a != nil && a.finding != nil {
		<-a.finding.done
	}
	if _, err := know(t.Context(), r, f, no); err == nil {
		t.Error("what was remembered outlived a refusal")
	}
}

// One who goes away does not take the answer from those who wait.
func TestRecent_askerGoesAway(t *testing.T) {
	r, _ := newRecent()
	f := fact("a")
	ctx, cancel := context.WithCancel(t.Context())
	begun, gate := make(chan struct{}), make(chan struct{})
	gone := make(chan error)
	go func() {
		_, err := know(ctx, r, f, func(ctx context.Context) (int, error) { close(begun); <-gate; return 1, ctx.Err() })
		gone <- err
	}()
	<-begun
	stays := asking(t, r, f, func(context.Context) (int, error) { return 2, nil })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(gate)
	if v := <-stays; v != 1 {
		t.Errorf("got %d, want the answer that was on its way", v)
	}
}

func TestRecent_isBounded(t *testing.T) {
	if fact("ab", "c") == fact("a", "bc") {
		t.Error("two facts share a name")
	}
	r, _ := newRecent()
	for i := range maxRecent + 10 {
		_, err := know(t.Context(), r, fact(strconv.Itoa(i)), func(context.Context) (int, error) { return i, nil })
		check(t, err)
	}
	if len(r.known) > maxRecent {
		t.Errorf("%d are remembered", len(r.known))
	}
}

func newRecent() (*recent, *clock) {
	clock := &clock{t: time.Unix(1, 0)}
	return &recent{now: clock.now}, clock
}

// asking asks in a goroutine and returns once the question has been put.
func asking[T any](t *testing.T, r *recent, f [sha256.Size]byte, find func(context.Context) (T, error)) <-chan T {
	t.Helper()
	put, got := make(chan struct{}), make(chan T, 1)
	go func() {
		_, fl := r.get(f, func() (any, error) { return find(t.Context()) })
		close(put)
		if fl == nil {
			t.Error("it was known")
			return
		}
		<-fl.done
		got <- fl.value.(T)
	}()
	<-put
	return got
}
