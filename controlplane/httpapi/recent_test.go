package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// A key that was just let in is refused at once after a change through this
// server, and within half a second after one through another.
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

// What was found out while something changed is not remembered.
func TestRecent_putAfterForget(t *testing.T) {
	var r recent
	now := time.Unix(0, 0)
	f := fact("a", "b")
	_, epoch, _ := r.get(f, now)
	r.forget()
	r.put(f, epoch, 1, now)
	if _, _, ok := r.get(f, now); ok {
		t.Error("an answer from before the change is remembered")
	}
	_, epoch, _ = r.get(f, now)
	r.put(f, epoch, 2, now)
	if v, _, ok := r.get(f, now.Add(recently)); !ok || v != 2 {
		t.Errorf("got %v %v", v, ok)
	}
	if _, _, ok := r.get(f, now.Add(recently+1)); ok {
		t.Error("it is remembered for too long")
	}
	if fact("ab", "c") == fact("a", "bc") {
		t.Error("two facts share a name")
	}
	for i := range maxRecent + 10 {
		r.put(fact(string(rune(i))), epoch, i, now)
	}
	if len(r.known) > maxRecent {
		t.Errorf("%d are remembered", len(r.known))
	}
}
