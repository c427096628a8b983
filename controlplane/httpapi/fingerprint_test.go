package httpapi

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/tenant"
)

// Every operation that changes an object which its path names has a reader for
// it, so that no audit event lacks the fingerprints.
func TestFingerprint_everyObjectHasAReader(t *testing.T) {
	ops, err := readOperations()
	check(t, err)
	n := 0
	for _, op := range ops {
		item := actionOf.ReplaceAllString(op.path, "")
		get := ops["GET "+ginPath(item)]
		if op.route.Method == "GET" || get == nil || strings.HasPrefix(get.id, "list") {
			continue // it makes something, or changes what is only shown in a list
		}
		n++
		if readers[item] == nil {
			t.Errorf("%s: readers has no %s", op.id, item)
		}
	}
	if n < 15 {
		t.Errorf("%d operations looked at", n)
	}
	for path := range readers {
		if ops["GET "+ginPath(path)] == nil {
			t.Errorf("readers has %s, which the contract cannot GET", path)
		}
	}
}

// What was before the next change is what was after the last one, and both are
// what a customer computes from what GET shows.
func TestFingerprint_chainsChangesOfAnObject(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		_, err := apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "orders"}))
		check(t, err)
		for _, text := range []string{"one", "two"} {
			_, err = apiclient.OK(p.sdk.UpdateTopicWithResponse(ctx, p.NamespaceId, "orders", nil, api.TopicUpdate{Description: &text}))
			check(t, err)
		}
		resp, err := p.sdk.GetTopicWithResponse(ctx, p.NamespaceId, "orders")
		check(t, err)
		var shown any
		check(t, json.Unmarshal(resp.Body, &shown))
		_, err = p.sdk.DeleteTopicWithResponse(ctx, p.NamespaceId, "orders", nil)
		check(t, err)
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: ptr(api.ControlRole("viewer"))}))
		check(t, err)
		_, err = apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, key.Id, nil, api.ApiKeyUpdate{Name: ptr("l")}))
		check(t, err)
		page, err := apiclient.OK(p.sdk.ListAuditEventsWithResponse(ctx, nil))
		check(t, err)
		slices.SortFunc(page.Items, func(a, b api.AuditEvent) int { return cmp.Compare(*b.Sequence, *a.Sequence) }) // made within one millisecond
		if len(page.Items) < 6 {
			t.Fatalf("%d events", len(page.Items))
		}
		fresh, made, gone, second, first, created := page.Items[0], page.Items[1], page.Items[2], page.Items[3], page.Items[4], page.Items[5]
		text := func(p *string) string { return or(p, "") }
		if created.BeforeHash != nil || created.AfterHash == nil || text(first.BeforeHash) != text(created.AfterHash) || text(second.BeforeHash) != text(first.AfterHash) ||
			text(gone.BeforeHash) != text(second.AfterHash) || gone.AfterHash != nil || text(first.BeforeHash) == text(first.AfterHash) {
			t.Errorf("created %v, first %v, second %v, gone %v", created, first, second, gone)
		}
		if want, err := fingerprint(shown); err != nil || want != text(second.AfterHash) {
			t.Errorf("GET gives %s, the event says %s", want, text(second.AfterHash))
		}
		if text(made.AfterHash) != text(fresh.BeforeHash) || made.AfterHash == nil {
			t.Errorf("a key with its secret %v, without %v", made, fresh)
		}
		v, err := apiclient.OK(p.sdk.VerifyAuditEventsWithResponse(ctx, api.AuditVerify{}))
		check(t, err)
		if !v.Intact {
			t.Errorf("the chain: %+v", v)
		}
	})
}

// What people do to their own account, second factors and sessions has the
// fingerprints of these, as they read them, before and after.
func TestFingerprint_ownActs(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		shown := func(v any, err error) string {
			t.Helper()
			check(t, err)
			print, err := fingerprint(v)
			check(t, err)
			return print
		}
		me := func() string { v, err := apiclient.OK(p.sdk.GetMeWithResponse(ctx)); return shown(v, err) }
		asSignedUp := me()
		check(t, apiclient.Done(p.sdk.ChangePasswordWithResponse(ctx, nil, api.PasswordChange{CurrentPassword: password, Password: "another long password"})))
		withPassword := me()
		_, err := apiclient.Accepted(p.sdk.ChangeEmailWithResponse(ctx, nil, api.EmailChange{Email: "ada@example.org"}))
		check(t, err)
		_, err = apiclient.OK(p.sdk.ConfirmEmailWithResponse(ctx, nil, api.Verify{Email: "ada@example.org", Code: s.code("ada@example.org")}))
		check(t, err)
		withAddress := me()
		app, _ := s.enrol(p.sdk, "phone")
		factors, err := apiclient.OK(p.sdk.ListMfaFactorsWithResponse(ctx, nil))
		check(t, err)
		factor := shown(factors.Items[0], nil)
		check(t, apiclient.Done(p.sdk.DeleteMfaFactorWithResponse(ctx, app.id, nil)))
		_, err = apiclient.OK(s.api.SignInWithResponse(ctx, nil, api.SignIn{Email: "ada@example.org", Password: "another long password"}))
		check(t, err)
		var session api.LiveSession
		for _, l := range s.sessions(p.sdk) {
			if !l.Current {
				session = l
			}
		}
		check(t, apiclient.Done(p.sdk.EndSessionWithResponse(ctx, session.Id, nil)))

		list, err := s.srv.d.Audit.List(ctx, p.TenantId, controldb.AuditFilter{}, tenant.Page{Size: 100})
		check(t, err)
		got := map[string]controldb.AuditEvent{}
		for _, e := range list {
			got[e.Action] = e
		}
		id, made := p.userID(s), got["createMfaFactor"].AfterHash
		for action, want := range map[string]controldb.AuditEvent{
			"changePassword":   {TargetType: "user", TargetID: id, BeforeHash: asSignedUp, AfterHash: withPassword},
			"changeEmail":      {TargetType: "user", TargetID: id},
			"confirmEmail":     {TargetType: "user", TargetID: id, BeforeHash: withPassword, AfterHash: withAddress},
			"createMfaFactor":  {TargetType: "mfa_factor", TargetID: app.id, AfterHash: made},
			"confirmMfaFactor": {TargetType: "mfa_factor", TargetID: app.id, BeforeHash: made, AfterHash: factor},
			"deleteMfaFactor":  {TargetType: "mfa_factor", TargetID: app.id, BeforeHash: factor},
			"endSession":       {TargetType: "session", TargetID: session.Id, BeforeHash: shown(session, nil)},
		} {
			e := got[action]
			if e.TargetType != want.TargetType || e.TargetID != want.TargetID || e.BeforeHash != want.BeforeHash || e.AfterHash != want.AfterHash {
				t.Errorf("%s: %+v\nwant %+v", action, e, want)
			}
		}
		if made == "" || made == factor || asSignedUp == withPassword || withPassword == withAddress {
			t.Error("fingerprints do not tell apart")
		}
	})
}
