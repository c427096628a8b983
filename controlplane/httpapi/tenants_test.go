package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/sqldb"
)

func TestTenants_onePersonInSeveral(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		second, err := apiclient.Created(p.sdk.CreateTenantWithResponse(t.Context(), &api.CreateTenantParams{IdempotencyKey: ptr("k")}, api.TenantCreate{Name: "Labs"}))
		check(t, err)
		again, err := apiclient.Created(p.sdk.CreateTenantWithResponse(t.Context(), &api.CreateTenantParams{IdempotencyKey: ptr("k")}, api.TenantCreate{Name: "Labs"}))
		check(t, err)
		if again.TenantId != second.TenantId || second.TenantId == p.TenantId {
			t.Errorf("founded %s, again %s", second.TenantId, again.TenantId)
		}
		list, err := apiclient.OK(p.sdk.ListTenantsWithResponse(t.Context(), nil))
		check(t, err)
		if len(list.Items) != 2 || !list.Items[0].Current || list.Items[1].Id != second.TenantId || list.Items[1].Role != "owner" || list.Items[1].Name != "Labs" {
			t.Errorf("tenants: %+v", list.Items)
		}
		s.clock.add(time.Minute)
		_, err = apiclient.OK(other.sdk.SwitchTenantWithResponse(t.Context(), nil, api.SwitchTenant{TenantId: second.TenantId}))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		before := s.sessions(p.sdk)[0]
		ses, err := apiclient.OK(p.sdk.SwitchTenantWithResponse(t.Context(), nil, api.SwitchTenant{TenantId: second.TenantId}))
		check(t, err)
		there, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: ses.AccessToken, MaxRetries: -1})
		check(t, err)
		topic, err := apiclient.OK(there.GetTopicWithResponse(t.Context(), second.NamespaceId, second.Topic))
		check(t, err)
		if topic.Name != "hello" {
			t.Errorf("topic: %+v", topic)
		}
		// The session of the first tenant is over, and its objects are out of reach.
		_, err = apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		_, err = apiclient.OK(there.GetTopicWithResponse(t.Context(), p.NamespaceId, "hello"))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		// A switch is no proof of identity.
		if after := s.sessions(there); len(after) != 1 || !after[0].AuthenticatedAt.Equal(before.AuthenticatedAt.Time) || after[0].TenantId != second.TenantId {
			t.Errorf("sessions: %+v, before %+v", after, before)
		}
	})
}

func TestTenants_onePersonOwnsTen(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	for range 9 {
		_, err := apiclient.Created(p.sdk.CreateTenantWithResponse(t.Context(), nil, api.TenantCreate{Name: "More"}))
		check(t, err)
	}
	_, err := apiclient.Created(p.sdk.CreateTenantWithResponse(t.Context(), nil, api.TenantCreate{Name: "More"}))
	wantProblem(t, err, http.StatusForbidden, "quota_exceeded")
	role := api.ControlRole("admin")
	key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: "robot", ControlRole: &role}))
	check(t, err)
	by := apiclient.Basic(key.Id, key.Secret)
	list, err := apiclient.OK(s.api.ListTenantsWithResponse(t.Context(), nil, by))
	if err != nil || len(list.Items) != 1 || list.Items[0].Id != p.TenantId {
		t.Errorf("a key sees %+v, %v", list, err)
	}
	_, err = apiclient.Created(s.api.CreateTenantWithResponse(t.Context(), nil, api.TenantCreate{Name: "More"}, by))
	wantProblem(t, err, http.StatusForbidden, "session_required")
	_, err = apiclient.OK(s.api.SwitchTenantWithResponse(t.Context(), nil, api.SwitchTenant{TenantId: p.TenantId}, by))
	wantProblem(t, err, http.StatusForbidden, "session_required")
}
