package httpapi

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// exec changes rows by hand.
func (s *system) exec(sql string, args ...any) {
	s.t.Helper()
	check(s.t, s.db.InTx(sqldb.AcrossTenants(s.t.Context()), func(ctx context.Context) error { return s.db.Conn(ctx).Exec(sql, args...).Error }))
}

// again signs in once more.
func (s *system) again(p person) person {
	s.t.Helper()
	got, err := apiclient.OK(s.api.SignInWithResponse(s.t.Context(), nil, api.SignIn{Email: p.email, Password: password}))
	check(s.t, err)
	p.AccessToken = got.AccessToken
	p.sdk, err = apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: p.AccessToken, MaxRetries: -1})
	check(s.t, err)
	return p
}

// colleague is a person of the same tenant as owner and of no other.
func (s *system) colleague(owner person, email string, role tenant.Role) (person, string) {
	s.t.Helper()
	p := s.signUp(email)
	me, err := apiclient.OK(p.sdk.GetMeWithResponse(s.t.Context()))
	check(s.t, err)
	s.exec("UPDATE members SET tenant_id = ?, role = ? WHERE user_id = ?", owner.TenantId, role, me.Id)
	s.exec("UPDATE quotas SET used = used + 1 WHERE tenant_id = ? AND name = 'members'", owner.TenantId)
	return s.again(p), me.Id
}

// keyAtBrokers is what brokers are told of a key.
func (s *system) keyAtBrokers(id string) catalog.DesiredKey {
	s.t.Helper()
	d, err := s.source.DesiredFor(s.t.Context(), []catalog.Change{{Kind: catalog.KindKey, ID: id}})
	check(s.t, err)
	all, err := s.source.Desired(s.t.Context())
	check(s.t, err)
	i := slices.IndexFunc(all.Keys, func(k catalog.DesiredKey) bool { return k.ID == id })
	if len(d.Keys) != 1 || i < 0 || d.Keys[0].State != all.Keys[i].State || len(d.Keys[0].Scopes) != len(all.Keys[i].Scopes) {
		s.t.Fatalf("key %s alone: %+v, among all: %+v", id, d.Keys, all.Keys)
	}
	return d.Keys[0]
}

func (p person) setRole(t *testing.T, id, role string) error {
	t.Helper()
	_, err := apiclient.OK(p.sdk.UpdateMemberWithResponse(t.Context(), id, nil, api.MemberUpdate{Role: api.Role(role)}))
	return err
}

func (p person) remove(t *testing.T, id string) error {
	t.Helper()
	return apiclient.Done(p.sdk.RemoveMemberWithResponse(t.Context(), id, nil))
}

func TestMembers_lastOwnerStays(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		me, err := apiclient.OK(owner.sdk.GetMeWithResponse(ctx))
		check(t, err)
		_, adminID := s.colleague(owner, "admin@example.com", tenant.RoleAdmin)
		leave := func(p person) error { return apiclient.Done(p.sdk.LeaveTenantWithResponse(ctx, nil)) }
		for name, err := range map[string]error{
			"leaves": leave(owner), "is removed": owner.remove(t, me.Id), "is demoted": owner.setRole(t, me.Id, "admin"), "is none": owner.setRole(t, me.Id, "none"),
		} {
			var p *apiclient.Error
			if !errors.As(err, &p) || p.Status != http.StatusConflict || p.Code != "last_owner" {
				t.Errorf("the last owner %s: %v", name, err)
			}
		}
		check(t, owner.setRole(t, adminID, "owner"))
		check(t, apiclient.Done(owner.sdk.LeaveTenantWithResponse(ctx, &api.LeaveTenantParams{DryRun: ptr(true)})))
		got, err := apiclient.OK(owner.sdk.GetMemberWithResponse(ctx, adminID))
		check(t, err)
		if got.Role != "owner" || got.Revision != 2 {
			t.Errorf("got %+v", got)
		}
		check(t, leave(owner))
		if status, p, _ := s.raw("GET", "/v1/me", "Bearer "+owner.AccessToken, ""); status != http.StatusUnauthorized || p.Code != "session_invalid" {
			t.Errorf("after leaving: %d %s", status, p.Code)
		}
		if k := s.keyAtBrokers(owner.ApiKey.Id); k.State != tenant.KeyRevoked {
			t.Errorf("the key of who left: %+v", k)
		}
		if status, _, _ := s.raw("POST", "/v1/auth/sign-in", "", `{"email":"owner@example.com","password":"`+password+`"}`); status != http.StatusForbidden {
			t.Errorf("sign-in without a tenant: %d", status)
		}
	})
}

func TestMembers_nobodyGivesOrTakesMoreThanTheyHave(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		me, err := apiclient.OK(owner.sdk.GetMeWithResponse(ctx))
		check(t, err)
		admin, adminID := s.colleague(owner, "admin@example.com", tenant.RoleAdmin)
		developer, devID := s.colleague(owner, "dev@example.com", tenant.RoleDeveloper)
		stranger := s.signUp("stranger@example.com")
		strange, err := apiclient.OK(stranger.sdk.GetMeWithResponse(ctx))
		check(t, err)
		for name, c := range map[string]struct {
			err    error
			status int32
			code   string
		}{
			"admin makes an owner":       {admin.setRole(t, devID, "owner"), 403, "owner_only"},
			"admin makes itself owner":   {admin.setRole(t, adminID, "owner"), 403, "owner_only"},
			"admin changes an owner":     {admin.setRole(t, me.Id, "viewer"), 403, "owner_only"},
			"admin removes an owner":     {admin.remove(t, me.Id), 403, "owner_only"},
			"developer changes a role":   {developer.setRole(t, devID, "admin"), 403, "permission_denied"},
			"developer removes":          {developer.remove(t, adminID), 403, "permission_denied"},
			"another tenant's member":    {owner.setRole(t, strange.Id, "viewer"), 404, "not_found"},
			"another tenant's is remove": {owner.remove(t, strange.Id), 404, "not_found"},
			"no such role":               {owner.setRole(t, devID, "root"), 400, "invalid"},
		} {
			var p *apiclient.Error
			if !errors.As(c.err, &p) || p.Status != c.status || p.Code != c.code {
				t.Errorf("%s: %v", name, c.err)
			}
		}
		// An owner's own key acts as admin at most.
		key, err := apiclient.Created(owner.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: ptr(api.ControlRole("admin"))}))
		check(t, err)
		_, err = apiclient.OK(s.api.UpdateMemberWithResponse(ctx, devID, nil, api.MemberUpdate{Role: "owner"}, apiclient.Basic(key.Id, key.Secret)))
		wantProblem(t, err, http.StatusForbidden, "owner_only")
		wantProblem(t, apiclient.Done(s.api.LeaveTenantWithResponse(ctx, nil, apiclient.Basic(key.Id, key.Secret))), http.StatusForbidden, "session_required")
		check(t, admin.setRole(t, devID, "admin"))
		check(t, admin.remove(t, devID))
		check(t, owner.setRole(t, adminID, "owner"))
	})
}

// Cases B150 and complaints 22 and 36: who is demoted or removed is out at
// once: sessions, live tails, keys, tokens of keys, and what brokers know.
func TestMembers_removalAndDemotionEndAllAtOnce_B150(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		dev, devID := s.colleague(owner, "dev@example.com", tenant.RoleDeveloper)
		scopes := []api.ApiKeyScope{{NamespaceId: owner.NamespaceId, Permissions: []api.KeyPermission{"PUB", "SUB"}}}
		key, err := apiclient.Created(dev.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: ptr(api.ControlRole("developer")), Scopes: &scopes}))
		check(t, err)
		exchange := func(audience string) (int, string) {
			resp, err := http.PostForm(s.server.URL+"/v1/auth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {key.Id}, "client_secret": {key.Secret}, "audience": {audience}})
			check(t, err)
			defer func() { _ = resp.Body.Close() }()
			return resp.StatusCode, ""
		}
		token, err := s.auth.Exchange(ctx, key.Id, key.Secret, "control", addressOf(&http.Request{RemoteAddr: "127.0.0.1:1"}))
		check(t, err)
		topics := "/v1/namespaces/" + owner.NamespaceId + "/topics"

		check(t, owner.setRole(t, devID, "viewer"))
		if status, p, _ := s.raw("GET", "/v1/me", "Bearer "+dev.AccessToken, ""); status != http.StatusUnauthorized || p.Code != "session_invalid" {
			t.Errorf("session after a demotion: %d %s", status, p.Code)
		}
		for name, auth := range map[string]string{"token": "Bearer " + token.AccessToken} {
			if status, _, _ := s.raw("POST", topics, auth, `{"name":"a"}`); status != http.StatusForbidden {
				t.Errorf("%s after a demotion writes: %d", name, status)
			}
			if status, _, _ := s.raw("GET", topics, auth, ""); status != http.StatusOK {
				t.Errorf("%s after a demotion reads: %d", name, status)
			}
		}
		if k := s.keyAtBrokers(key.Id); k.State != tenant.KeyDisabled || len(k.Scopes) != 0 {
			t.Errorf("key of a viewer at brokers: %+v", k)
		}
		check(t, owner.setRole(t, devID, "admin"))
		if k := s.keyAtBrokers(key.Id); k.State != tenant.KeyActive || len(k.Scopes) != 1 || len(k.Scopes[0].Permissions) != 2 {
			t.Errorf("key of an admin at brokers: %+v", k)
		}
		dev = s.again(dev)
		check(t, owner.setRole(t, devID, "admin")) // no change: nobody is signed out
		if status, _, _ := s.raw("GET", "/v1/me", "Bearer "+dev.AccessToken, ""); status != http.StatusOK {
			t.Errorf("session after no change: %d", status)
		}

		req, err := http.NewRequestWithContext(ctx, "GET", s.server.URL+topics+"/hello/tail", nil)
		check(t, err)
		req.SetBasicAuth(key.Id, key.Secret)
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		defer func() { _ = resp.Body.Close() }()
		ended := ""
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if lines.Text() == "event: ready" {
				check(t, owner.remove(t, devID))
			}
			if strings.HasPrefix(lines.Text(), "data: ") {
				ended = lines.Text()
			}
		}
		if !strings.Contains(ended, `"code":"key_revoked"`) {
			t.Errorf("the tail ended with %s", ended)
		}
		for name, auth := range map[string]string{"session": "Bearer " + dev.AccessToken, "token": "Bearer " + token.AccessToken} {
			if status, _, _ := s.raw("GET", "/v1/me", auth, ""); status != http.StatusUnauthorized {
				t.Errorf("%s after removal: %d", name, status)
			}
		}
		for _, audience := range []string{"control", "data"} {
			if status, _ := exchange(audience); status != http.StatusUnauthorized {
				t.Errorf("token for %s after removal: %d", audience, status)
			}
		}
		if k := s.keyAtBrokers(key.Id); k.State != tenant.KeyRevoked {
			t.Errorf("key at brokers after removal: %+v", k)
		}
		seen, err := apiclient.OK(owner.sdk.GetApiKeyWithResponse(ctx, key.Id))
		check(t, err)
		if seen.State != "revoked" {
			t.Errorf("the tenant sees the key as %s", seen.State)
		}
		members, err := apiclient.OK(owner.sdk.ListMembersWithResponse(ctx, nil))
		check(t, err)
		if len(members.Items) != 1 {
			t.Errorf("%d members", len(members.Items))
		}
	})
}

// Complaint 38: whoever only pays bills needs no right but to read them.
func TestMembers_billingReadsBillsAlone(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	owner := s.signUp("owner@example.com")
	payer, _ := s.colleague(owner, "payer@example.com", tenant.RoleBilling)
	for path, want := range map[string]int{
		"/v1/price-books": 503, "/v1/quotas": 200, "/v1/namespaces": 403, "/v1/api-keys": 403, "/v1/members": 403, "/v1/audit-events": 403,
	} {
		if status, _, _ := s.raw("GET", path, "Bearer "+payer.AccessToken, ""); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}
