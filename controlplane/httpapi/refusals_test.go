package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// logged is what these tests look at of an event.
type logged struct{ actor, key, action, kind, target, reason string }

// log flushes and returns the events of a tenant with how often each happened; the
// chain is intact.
func (s *system) log(tenantID tenant.ID) map[logged]int64 {
	s.t.Helper()
	ctx := s.t.Context()
	check(s.t, s.recorder.Flush(ctx))
	list, err := s.srv.d.Audit.List(ctx, tenantID, controldb.AuditFilter{}, tenant.Page{Size: 1000})
	check(s.t, err)
	_, err = s.srv.d.Audit.Verify(ctx, tenantID)
	check(s.t, err)
	out := map[logged]int64{}
	for _, e := range list {
		if e.SourceIP == "" && e.ActorType != "system" || e.RequestID == "" && e.ActorType != "system" {
			s.t.Errorf("without an address or a request: %+v", e)
		}
		out[logged{e.ActorID, e.KeyID, e.Action, e.TargetType, e.TargetID, e.Reason}] += max(e.Count, 1)
	}
	return out
}

// wantLogged expects an event as often as told.
func wantLogged(t *testing.T, log map[logged]int64, e logged, want int64) {
	t.Helper()
	if log[e] != want {
		t.Errorf("%+v is there %d times, want %d; the log: %+v", e, log[e], want, log)
	}
}

// Whoever tries with a tenant's key and is not let in is in that tenant's log, and
// in no other; a key that nobody has is in none.
func TestRefused_keysAreInTheirTenantsLog(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		ctx := t.Context()
		key := func(in api.ApiKeyCreate) api.ApiKeyWithSecret {
			k, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, in))
			check(t, err)
			return k
		}
		role := ptr(api.ControlRole("viewer"))
		end := api.NewTimestamp(s.clock.now().Add(time.Hour))
		revoked, expired := key(api.ApiKeyCreate{Name: "revoked", ControlRole: role}), key(api.ApiKeyCreate{Name: "expired", ControlRole: role, ExpiresAt: &end})
		elsewhere := key(api.ApiKeyCreate{Name: "elsewhere", ControlRole: role, AllowedCidrs: &[]string{"192.0.2.0/24"}})
		roleless := key(api.ApiKeyCreate{Name: "roleless", Scopes: &[]api.ApiKeyScope{{NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}})
		_, err := apiclient.OK(p.sdk.RevokeApiKeyWithResponse(ctx, revoked.Id, nil))
		check(t, err)
		me := p.userID(s)
		before, otherBefore := s.log(p.TenantId), s.log(other.TenantId)
		s.clock.add(2 * time.Hour)
		try := func(id, secret string, status int) {
			t.Helper()
			_, err := apiclient.OK(s.api.ListNamespacesWithResponse(ctx, nil, apiclient.Basic(id, secret)))
			if got := statusOf(err); got != status {
				t.Errorf("%s: %d, want %d", id, got, status)
			}
		}
		for range 3 {
			try(roleless.Id, "sls_wrong", http.StatusUnauthorized)
		}
		try(revoked.Id, revoked.Secret, http.StatusUnauthorized)
		try(expired.Id, expired.Secret, http.StatusUnauthorized)
		try(elsewhere.Id, elsewhere.Secret, http.StatusForbidden)
		try(roleless.Id, roleless.Secret, http.StatusForbidden)
		try("slk_thereIsNoSuchKey0000", "sls_wrong", http.StatusUnauthorized)
		form := func(id, secret string) {
			status, _ := s.exchange(map[string][]string{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}})
			if status != http.StatusUnauthorized {
				t.Errorf("token for %s: %d", id, status)
			}
		}
		form(roleless.Id, "sls_wrong")
		form("slk_thereIsNoSuchKey0000", "sls_wrong")

		log := s.log(p.TenantId)
		of := func(k api.ApiKeyWithSecret, action, reason string) logged {
			return logged{me, k.Id, action, "api_key", k.Id, reason}
		}
		wantLogged(t, log, of(roleless, "listNamespaces", "key_invalid"), 3)
		wantLogged(t, log, of(roleless, "createToken", "key_invalid"), 1)
		wantLogged(t, log, of(revoked, "listNamespaces", "key_revoked"), 1)
		wantLogged(t, log, of(expired, "listNamespaces", "key_expired"), 1)
		wantLogged(t, log, of(elsewhere, "listNamespaces", "address_not_allowed"), 1)
		wantLogged(t, log, of(roleless, "listNamespaces", "key_without_role"), 1)
		if len(log) != len(before)+6 {
			t.Errorf("more than that: %+v", log)
		}
		if got := s.log(other.TenantId); len(got) != len(otherBefore) {
			t.Errorf("the other tenant reads %+v", got)
		}
	})
}

// statusOf is the HTTP status of an error of the client; 0 for none.
func statusOf(err error) int {
	var e *apiclient.Error
	if errors.As(err, &e) {
		return int(e.Status)
	}
	return 0
}

// What people do before and after they are signed in is in the logs of all tenants
// that they belong to, once, however often it is filed and by how many.
func TestActs_ofPeopleAreInTheirTenantsLogs(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		id := p.userID(s)
		wantLogged(t, s.log(p.TenantId), logged{id, "", "verifySignUp", "user", id, ""}, 1)
		both := []tenant.ID{p.TenantId, s.another(p)}
		stranger := s.signUp("eve@example.com")
		strangers := len(s.log(stranger.TenantId))

		s.again(p)
		cookie := s.cookie(p)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { check(t, s.recorder.Flush(t.Context())) })
		}
		wg.Wait()
		status, _, _ := s.raw("POST", "/v1/auth/sign-out", "", "", "Cookie", cookie.String())
		if status != http.StatusNoContent {
			t.Errorf("sign-out: %d", status)
		}
		s.raw("POST", "/v1/auth/sign-out", "", "", "Cookie", cookie.String()) // ends nothing
		check(t, s.auth.RequestReset(t.Context(), p.email))
		status, _, _ = s.raw("POST", "/v1/auth/password-reset/confirm", "", fmt.Sprintf(`{"email":%q,"code":%q,"password":"another long password"}`, p.email, s.code(p.email)))
		if status != http.StatusNoContent {
			t.Errorf("reset: %d", status)
		}
		for _, tenantID := range both {
			var in, out int64
			log := s.log(tenantID)
			for e, n := range log {
				if e.actor == id && e.action == "signIn" && e.kind == "session" && e.reason == "" {
					in += n
				}
				if e.actor == id && e.action == "signOut" && e.kind == "session" {
					out += n
				}
			}
			if in != 1 || out != 1 {
				t.Errorf("%d sign-ins, %d sign-outs in the log of %s: %+v", in, out, tenantID, log)
			}
			wantLogged(t, log, logged{id, "", "confirmPasswordReset", "user", id, ""}, 1)
		}
		if n := len(s.log(stranger.TenantId)); n != strangers {
			t.Error("a stranger reads of it")
		}
	})
}

// another is another tenant of a person.
func (s *system) another(p person) tenant.ID {
	s.t.Helper()
	made, err := apiclient.Created(p.sdk.CreateTenantWithResponse(s.t.Context(), &api.CreateTenantParams{}, api.TenantCreate{Name: "Another"}))
	check(s.t, err)
	return made.TenantId
}

// A flood of wrong passwords is a few rows a minute for each person, in the logs
// of their tenants, with how many there were.
func TestRefused_stuffingIsFewRows(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		id, second := p.userID(s), s.another(p)
		limits := &s.srv.d.Config.Limits
		limits.SignIn = limits.SignInAccount
		rows := func(tenantID tenant.ID) (n int, tries int64) {
			list, err := s.srv.d.Audit.List(t.Context(), tenantID, controldb.AuditFilter{ActorID: id, Action: "signIn"}, tenant.Page{Size: 1000})
			check(t, err)
			for _, e := range list {
				if e.Denied && e.Reason == "credentials_invalid" {
					n++
					tries += e.Count
				}
			}
			return n, tries
		}
		const minute, each = 60, 5
		for range minute {
			for range each {
				if status := s.from("198.51.100.7", "/v1/auth/sign-in", fmt.Sprintf(`{"email":%q,"password":"not the password"}`, p.email)); status != http.StatusUnauthorized {
					t.Fatal(status)
				}
			}
			s.clock.add(time.Second)
			check(t, s.recorder.Flush(t.Context()))
		}
		s.clock.add(5 * time.Minute)
		check(t, s.recorder.Flush(t.Context()))
		for _, tenantID := range []tenant.ID{p.TenantId, second} {
			if n, tries := rows(tenantID); n < 1 || n > 6 || tries != minute*each {
				t.Errorf("%d rows of %d tries", n, tries)
			}
		}
	})
}

// While the database is away nothing is lost, and nothing is written twice when it
// failed between two tenants.
func TestRefused_databaseAway(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		s.from("198.51.100.7", "/v1/auth/sign-in", fmt.Sprintf(`{"email":%q,"password":"not the password"}`, p.email))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.recorder.Flush(gone); errs.CodeOf(err) == "" {
			t.Error("it was written")
		}
		me := p.userID(s)
		wantLogged(t, s.log(p.TenantId), logged{me, "", "signIn", "user", me, "credentials_invalid"}, 1)
	})
}
