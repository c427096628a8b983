package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// closeAccount closes the account of a person.
func (s *system) closeAccount(p person) api.AccountClosing {
	s.t.Helper()
	out, err := apiclient.Accepted(p.sdk.DeleteMeWithResponse(s.t.Context(), nil))
	check(s.t, err)
	return out
}

func (s *system) reopen(p person) (person, error) {
	s.t.Helper()
	got, err := apiclient.OK(s.api.ReopenAccountWithResponse(s.t.Context(), nil, api.SignIn{Email: p.email, Password: password}))
	if err != nil {
		return p, err
	}
	p.AccessToken = got.AccessToken
	p.sdk, err = apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: p.AccessToken, MaxRetries: -1})
	return p, err
}

// count is the number of rows that a query finds.
func (s *system) count(sql string, args ...any) int64 {
	s.t.Helper()
	var n int64
	check(s.t, s.db.Conn(sqldb.AcrossTenants(s.t.Context())).Raw("SELECT COUNT(*) FROM "+sql, args...).Scan(&n).Error)
	return n
}

func (s *system) subjects(email string) string {
	var out []string
	for _, m := range s.mailsTo(email) {
		out = append(out, m.Subject)
	}
	return strings.Join(out, "\n")
}

// All of a person stops at once when they close their account, over HTTP and at
// brokers; reopened it is as it was.
func TestClosing_stopsAtOnceAndIsUndone(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		ctx := t.Context()
		p, boss := s.signUp("ada@example.com"), s.signUp("boss@example.com")
		me, err := apiclient.OK(p.sdk.GetMeWithResponse(ctx))
		check(t, err)
		s.exec("INSERT INTO members (tenant_id, user_id, role, created_at, updated_at, revision) VALUES (?, ?, 'admin', ?, 1, 1)", boss.TenantId, me.Id, s.clock.now().UnixMilli()+1)
		other := s.signIn(p)
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: ptr(api.ControlRole("viewer"))}))
		check(t, err)
		programs, err := apiclient.Created(p.sdk.CreateServiceAccountWithResponse(ctx, nil, api.ServiceAccountCreate{Name: "robot"}))
		check(t, err)
		robot, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "r", OwnerId: &programs.Id, ControlRole: ptr(api.ControlRole("developer"))}))
		check(t, err)
		token, err := s.auth.Exchange(ctx, key.Id, key.Secret, "control", addressOf(&http.Request{RemoteAddr: "127.0.0.1:1"}))
		check(t, err)
		topics := "/v1/namespaces/" + p.NamespaceId + "/topics"

		dry, err := apiclient.Accepted(p.sdk.DeleteMeWithResponse(ctx, &api.DeleteMeParams{DryRun: ptr(true)}))
		check(t, err)
		_, err = apiclient.OK(other.GetMeWithResponse(ctx))
		check(t, err)
		out := s.closeAccount(p)
		if !out.EraseAt.Equal(s.clock.now().Add(7*24*time.Hour)) || len(out.Tenants) != 1 || out.Tenants[0].Id != p.TenantId || len(dry.Tenants) != 1 {
			t.Errorf("closing: %+v, dry %+v", out, dry)
		}
		for name, auth := range map[string]string{"session": "Bearer " + p.AccessToken, "key": "Basic", "token of key": "Bearer " + token.AccessToken} {
			var err error
			if auth == "Basic" {
				_, err = apiclient.OK(s.api.GetMeWithResponse(ctx, apiclient.Basic(key.Id, key.Secret)))
			} else {
				_, err = apiclient.OK(s.api.GetMeWithResponse(ctx, apiclient.Bearer(strings.TrimPrefix(auth, "Bearer "))))
			}
			var pr *apiclient.Error
			if !errors.As(err, &pr) || pr.Status != http.StatusUnauthorized {
				t.Errorf("%s after closing: %v", name, err)
			}
		}
		_, err = apiclient.OK(other.GetMeWithResponse(ctx))
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		if k := s.keyAtBrokers(p.ApiKey.Id); k.State != tenant.KeyDisabled {
			t.Errorf("key at brokers: %+v", k)
		}
		_, err = apiclient.Created(s.api.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "a"}, apiclient.Basic(robot.Id, robot.Secret)))
		wantProblem(t, err, http.StatusForbidden, "tenant_suspended")
		_, err = apiclient.OK(s.api.SignInWithResponse(ctx, nil, api.SignIn{Email: p.email, Password: password}))
		wantProblem(t, err, http.StatusForbidden, "account_closing")
		_, err = apiclient.OK(boss.sdk.GetTenantWithResponse(ctx))
		check(t, err)

		s.clock.add(7*24*time.Hour - time.Minute)
		check(t, s.auth.EraseDue(ctx))
		_, err = apiclient.OK(s.api.ReopenAccountWithResponse(ctx, nil, api.SignIn{Email: p.email, Password: "not the password"}))
		wantProblem(t, err, http.StatusUnauthorized, "credentials_invalid")
		p, err = s.reopen(p)
		check(t, err)
		if k := s.keyAtBrokers(p.ApiKey.Id); k.State != tenant.KeyActive {
			t.Errorf("key at brokers, reopened: %+v", k)
		}
		if status, _, _ := s.raw("POST", topics, "Bearer "+p.AccessToken, `{"name":"a"}`); status != http.StatusCreated {
			t.Errorf("a write after reopening: %d", status)
		}
		_, err = apiclient.OK(s.api.GetMeWithResponse(ctx, apiclient.Basic(key.Id, key.Secret)))
		check(t, err)
		_, err = s.reopen(p)
		wantProblem(t, err, http.StatusConflict, "account_open")
		s.clock.add(time.Hour)
		check(t, s.auth.EraseDue(ctx))
		_, err = apiclient.OK(s.signIn(p).GetMeWithResponse(ctx))
		check(t, err)
		if list, err := apiclient.OK(s.again(p).sdk.ListTenantsWithResponse(ctx, nil)); err != nil || len(list.Items) != 2 {
			t.Errorf("tenants: %+v, %v", list, err)
		}
		if text := s.subjects(p.email); !strings.Contains(text, "account closes") || !strings.Contains(text, "open again") || strings.Contains(text, "erased") {
			t.Errorf("mails: %s", text)
		}
		for _, tenantID := range []string{p.TenantId, boss.TenantId} {
			if n := s.count("audit_events WHERE tenant_id = ? AND action IN ('deleteMe', 'reopenAccount')", tenantID); n != 2 {
				t.Errorf("tenant %s: %d audit events of closing and reopening", tenantID, n)
			}
		}
	})
}

// After the window the person is erased, once, on any number of replicas, and
// what they were alone in is closed.
func TestClosing_erasedWhenDue(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		ctx := t.Context()
		p, boss := s.signUp("ada@example.com"), s.signUp("boss@example.com")
		me, err := apiclient.OK(p.sdk.GetMeWithResponse(ctx))
		check(t, err)
		s.exec("INSERT INTO members (tenant_id, user_id, role, created_at, updated_at, revision) VALUES (?, ?, 'developer', ?, 1, 1)", boss.TenantId, me.Id, s.clock.now().UnixMilli()+1)
		s.exec("UPDATE quotas SET used = used + 1 WHERE tenant_id = ? AND name = 'members'", boss.TenantId)
		s.enrol(p.sdk, "Phone")
		programs, err := apiclient.Created(p.sdk.CreateServiceAccountWithResponse(ctx, nil, api.ServiceAccountCreate{Name: "robot"}))
		check(t, err)
		robot, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "r", OwnerId: &programs.Id, ControlRole: ptr(api.ControlRole("viewer"))}))
		check(t, err)
		_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "kept", DeletionProtection: ptr(true)}))
		check(t, err)
		_, err = apiclient.OK(p.sdk.UpdateNamespaceWithResponse(ctx, p.NamespaceId, nil, api.NamespaceUpdate{DeletionProtection: ptr(true)}))
		check(t, err)
		s.closeAccount(p)
		s.clock.add(7 * 24 * time.Hour)
		_, err = s.reopen(p)
		if err == nil {
			t.Error("reopened when it was due")
		}
		replicas := []*auth.Service{s.auth, s.authAgain(t, nil)}
		var wg sync.WaitGroup
		for _, r := range replicas {
			wg.Go(func() {
				if err := r.EraseDue(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()

		for table, where := range map[string]string{"users": "id", "sessions": "user_id", "mfa_factors": "user_id", "recovery_codes": "user_id", "members": "user_id"} {
			if n := s.count(table+" WHERE "+where+" = ?", me.Id); n != 0 {
				t.Errorf("%d rows of %s left", n, table)
			}
		}
		if n := s.count("mail_codes WHERE email = ?", p.email); n != 0 {
			t.Errorf("%d codes left", n)
		}
		if n := s.count("audit_events WHERE actor_id = ?", me.Id); n == 0 {
			t.Error("the audit trail lost who did what")
		}
		closed, err := s.tenants.Tenant(ctx, p.TenantId)
		check(t, err)
		if closed.State != tenant.StateClosed {
			t.Errorf("tenant: %s", closed.State)
		}
		var pr *apiclient.Error
		if _, err := apiclient.OK(s.api.GetMeWithResponse(ctx, apiclient.Basic(robot.Id, robot.Secret))); !errors.As(err, &pr) || pr.Status != http.StatusUnauthorized {
			t.Errorf("a program of a closed tenant: %v", err)
		}
		if err := s.tenants.Resume(ctx, p.TenantId); err == nil {
			t.Error("a closed tenant was resumed")
		}
		d, err := s.source.Desired(ctx)
		check(t, err)
		for _, v := range d.Topics {
			if v.TenantID == p.TenantId && !v.Deleted {
				t.Errorf("topic %s stays", v.Name)
			}
		}
		for _, v := range d.Groups {
			if v.TenantID == p.TenantId && !v.Deleted {
				t.Errorf("group %s stays", v.Name)
			}
		}
		for _, v := range d.Namespaces {
			if v.TenantID == p.TenantId && !v.Deleted {
				t.Errorf("namespace %s stays", v.ID)
			}
		}
		for _, v := range d.Keys {
			if v.TenantID == p.TenantId && !v.Deleted {
				t.Errorf("key %s stays", v.ID)
			}
		}
		members, err := apiclient.OK(s.again(boss).sdk.ListMembersWithResponse(ctx, nil))
		check(t, err)
		if len(members.Items) != 1 {
			t.Errorf("%d members", len(members.Items))
		}
		for _, id := range []string{p.TenantId, boss.TenantId} {
			if n := s.count("audit_events WHERE tenant_id = ? AND action = 'eraseAccount'", id); n != 1 {
				t.Errorf("tenant %s: %d audit events of erasing", id, n)
			}
		}
		if n := strings.Count(s.subjects(p.email), "was erased"); n != 1 {
			t.Errorf("%d mails about erasing", n)
		}
		_, err = apiclient.OK(s.api.SignInWithResponse(ctx, nil, api.SignIn{Email: p.email, Password: password}))
		wantProblem(t, err, http.StatusUnauthorized, "credentials_invalid")
		if again := s.signUp(p.email); again.TenantId == p.TenantId {
			t.Error("the tenant came back")
		}
	})
}

func TestClosing_othersKeepAnOwner(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		ctx := t.Context()
		owner := s.signUp("owner@example.com")
		me, err := apiclient.OK(owner.sdk.GetMeWithResponse(ctx))
		check(t, err)
		second, secondID := s.colleague(owner, "second@example.com", tenant.RoleAdmin)
		_, err = apiclient.Accepted(owner.sdk.DeleteMeWithResponse(ctx, nil))
		wantProblem(t, err, http.StatusConflict, "last_owner")
		if !strings.Contains(err.Error(), owner.TenantId) || !strings.Contains(err.Error(), "Tenant of owner@example.com") {
			t.Errorf("the refusal names no tenant: %v", err)
		}
		_, err = apiclient.OK(owner.sdk.GetMeWithResponse(ctx)) // nothing changed
		check(t, err)
		check(t, owner.setRole(t, secondID, "owner"))
		if out := s.closeAccount(owner); len(out.Tenants) != 0 {
			t.Errorf("tenants that stop: %+v", out.Tenants)
		}
		// Who closes their account counts as owner no more.
		second = s.again(second)
		wantProblem(t, apiclient.Done(second.sdk.LeaveTenantWithResponse(ctx, nil)), http.StatusConflict, "last_owner")
		_, err = apiclient.Accepted(second.sdk.DeleteMeWithResponse(ctx, nil))
		wantProblem(t, err, http.StatusConflict, "last_owner")
		s.clock.add(8 * 24 * time.Hour)
		check(t, s.auth.EraseDue(ctx))
		second = s.again(second)
		members, err := apiclient.OK(second.sdk.ListMembersWithResponse(ctx, nil))
		check(t, err)
		if len(members.Items) != 1 || members.Items[0].Id == me.Id {
			t.Errorf("members: %+v", members.Items)
		}
	})
}

// Two owners who close their accounts at the same time on two control planes
// do not leave the others without one.
func TestClosing_twoOwnersAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		ctx := t.Context()
		owner := s.signUp("owner@example.com")
		me, err := apiclient.OK(owner.sdk.GetMeWithResponse(ctx))
		check(t, err)
		_, secondID := s.colleague(owner, "second@example.com", tenant.RoleOwner)
		s.colleague(owner, "third@example.com", tenant.RoleViewer)
		var got [2]error
		var wg sync.WaitGroup
		for i, id := range []string{me.Id, secondID} {
			wg.Go(func() {
				p := &auth.Principal{Kind: auth.KindUser, ID: id, TenantID: owner.TenantId, SessionID: "ses_x"}
				_, got[i] = s.auth.CloseAccount(ctx, p, 0)
			})
		}
		wg.Wait()
		if (got[0] == nil) == (got[1] == nil) {
			t.Errorf("both or none closed: %v; %v", got[0], got[1])
		}
	})
}

func TestClosing_secondFactorReopens(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	phone, _ := s.enrol(p.sdk, "Phone")
	s.closeAccount(p)
	r, err := s.api.ReopenAccountWithResponse(t.Context(), nil, api.SignIn{Email: p.email, Password: password})
	check(t, err)
	if r.JSON202 == nil {
		t.Fatalf("reopen answers %d %s", r.StatusCode(), r.Body)
	}
	// The second step of a sign-in opens no closed account.
	await := s.firstStep(p)
	_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.fresh())})
	wantProblem(t, err, http.StatusForbidden, "account_closing")
	_, err = s.secondStep(api.SignInMfa{MfaToken: r.JSON202.MfaToken, Code: ptr(phone.fresh())})
	check(t, err)
	await = s.firstStep(p)
	_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.fresh())})
	check(t, err)
}

// An operator's suspension is not undone by closing and reopening.
func TestClosing_suspendedStaysSuspended(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	for name, suspend := range map[string]func(p person, act func()){
		"before":    func(p person, act func()) { act(); s.closeAccount(p) },
		"meanwhile": func(p person, act func()) { s.closeAccount(p); act() },
	} {
		p := s.signUp(name + "@example.com")
		suspend(p, func() { check(t, s.tenants.Suspend(t.Context(), p.TenantId)) })
		_, err := s.reopen(p)
		check(t, err)
		if got, err := s.tenants.Tenant(t.Context(), p.TenantId); err != nil || got.State != tenant.StateSuspended {
			t.Errorf("suspended %s: %s, %v", name, got.State, err)
		}
	}
}
