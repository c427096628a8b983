package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/controldb"
)

// What operators do to a tenant takes effect, and the tenant reads in its own
// audit log what, why, and what changed.
func TestOperator_actsAreInTheTenantsAuditLog(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		other := s.signUp("bob@example.com")
		ctx := t.Context()
		operator := httptest.NewServer(NewOperator(OperatorDeps{Tenants: s.tenants, Tx: s.db, Audit: controldb.NewAudit(s.db), Now: s.clock.now}))
		t.Cleanup(operator.Close)
		act := func(path, body string) (int, string) {
			t.Helper()
			resp, err := http.Post(operator.URL+"/operator/v1/tenants/"+path, "application/json", strings.NewReader(body))
			check(t, err)
			defer func() { _ = resp.Body.Close() }()
			var out struct{ Status, Code, Field any }
			check(t, json.NewDecoder(resp.Body).Decode(&out))
			if out.Code != nil {
				return resp.StatusCode, out.Code.(string)
			}
			return resp.StatusCode, out.Status.(string)
		}
		for _, c := range []struct {
			path, body string
			status     int
			answer     string
		}{
			{p.TenantId + "/actions/suspend", `{"reason":"invoice 7 is overdue"}`, 200, "suspended"},
			{p.TenantId + "/actions/suspend", `{}`, 400, "invalid"},
			{p.TenantId + "/actions/suspend", `{"reason":"` + strings.Repeat("x", 65) + `"}`, 400, "invalid"},
			{p.TenantId + "/actions/suspend", `{"reason":"a\nb"}`, 400, "invalid"},
			{p.TenantId + "/actions/suspend", `{"reason":"x","plan":"gold"}`, 400, "invalid"},
			{p.TenantId + "/actions/suspend", strings.Repeat(" ", 1<<20), 400, "invalid"},
			{"ten_none/actions/suspend", `{"reason":"x"}`, 404, "not_found"},
			{p.TenantId + "/actions/explode", `{"reason":"x"}`, 404, "route_not_found"},
		} {
			if status, answer := act(c.path, c.body); status != c.status || answer != c.answer {
				t.Errorf("%s %.60s: %d %s, want %d %s", c.path, c.body, status, answer, c.status, c.answer)
			}
		}
		_, err := apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "x"}))
		wantProblem(t, err, http.StatusForbidden, "tenant_suspended")
		if status, answer := act(p.TenantId+"/actions/resume", `{"reason":"paid"}`); status != 200 || answer != "active" {
			t.Errorf("resume: %d %s", status, answer)
		}
		page, err := apiclient.OK(p.sdk.ListAuditEventsWithResponse(ctx, &api.ListAuditEventsParams{ActorId: ptr("operator")}))
		check(t, err)
		if len(page.Items) != 2 {
			t.Fatalf("%d acts of operators in the log, want 2", len(page.Items))
		}
		for _, e := range page.Items {
			if e.ActorType != "operator" || e.TargetId == nil || *e.TargetId != p.TenantId || e.Sequence == nil || e.BeforeHash == nil || e.AfterHash == nil || *e.BeforeHash == *e.AfterHash {
				t.Errorf("event %+v", e)
			}
			if want := map[string]string{"suspendTenant": "invoice 7 is overdue", "resumeTenant": "paid"}[e.Action]; *e.Reason != want {
				t.Errorf("%s for %q, want %q", e.Action, *e.Reason, want)
			}
		}
		page, err = apiclient.OK(other.sdk.ListAuditEventsWithResponse(ctx, &api.ListAuditEventsParams{ActorId: ptr("operator")}))
		check(t, err)
		if len(page.Items) != 0 {
			t.Errorf("another tenant sees %d of them", len(page.Items))
		}
	})
}
