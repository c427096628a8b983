package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oapi-codegen/nullable"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/tenant"
)

func (p person) bind(t *testing.T, principal, role string, scope api.RoleScope, expires *api.Time) (api.RoleBinding, error) {
	t.Helper()
	return apiclient.Created(p.sdk.CreateRoleBindingWithResponse(t.Context(), nil, api.RoleBindingCreate{PrincipalId: principal, Role: role, Scope: scope, ExpiresAt: expires}))
}

func inNamespace(ns string) api.RoleScope { return api.RoleScope{Kind: "namespace", NamespaceId: &ns} }

func onTopics(ns, pattern string) api.RoleScope {
	return api.RoleScope{Kind: "topic", NamespaceId: &ns, Pattern: &pattern}
}

// second makes another namespace with the topics orders, orders-eu and billing.
func (p person) second(t *testing.T) string {
	t.Helper()
	ns, err := apiclient.Created(p.sdk.CreateNamespaceWithResponse(t.Context(), nil, api.NamespaceCreate{Name: "Second"}))
	check(t, err)
	for _, name := range []string{"orders", "orders-eu", "billing"} {
		_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(t.Context(), ns.Id, nil, api.TopicCreate{Name: name}))
		check(t, err)
	}
	return ns.Id
}

// status is what a request answers.
func (p person) status(s *system, method, path, body string) int {
	status, _, _ := s.raw(method, path, "Bearer "+p.AccessToken, body)
	return status
}

func TestRoles_custom(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		_, devID := s.colleague(owner, "dev@example.com", tenant.RoleNone)
		made, err := apiclient.Created(owner.sdk.CreateRoleWithResponse(ctx, nil, api.CustomRoleCreate{Name: "support", Permissions: []api.Permission{"topic:read", "message:read"}}))
		check(t, err)
		for name, in := range map[string]struct {
			body api.CustomRoleCreate
			code string
		}{
			"the same name":      {api.CustomRoleCreate{Name: "support", Permissions: []api.Permission{"topic:read"}}, "already_exists"},
			"a built-in name":    {api.CustomRoleCreate{Name: "admin", Permissions: []api.Permission{"topic:read"}}, "invalid"},
			"unknown permission": {api.CustomRoleCreate{Name: "x", Permissions: []api.Permission{"world:write"}}, "invalid"},
		} {
			_, err := apiclient.Created(owner.sdk.CreateRoleWithResponse(ctx, nil, in.body))
			if !apiclient.Is(err, in.code) {
				t.Errorf("%s: %v", name, err)
			}
		}
		var names []string
		for r, err := range apiclient.All(func(token *string) ([]api.CustomRole, *string, error) {
			l, err := apiclient.OK(owner.sdk.ListRolesWithResponse(ctx, &api.ListRolesParams{PageSize: ptr(int32(2)), PageToken: token}))
			return l.Items, l.NextPageToken, err
		}) {
			check(t, err)
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != "owner admin developer viewer billing none support" {
			t.Errorf("roles: %s", got)
		}
		_, err = apiclient.OK(owner.sdk.UpdateRoleWithResponse(ctx, "viewer", nil, api.CustomRoleUpdate{Name: ptr("x")}))
		wantCode(t, "a built-in role changed", err, 409, "role_built_in")
		binding, err := owner.bind(t, devID, made.Id, inNamespace(owner.NamespaceId), nil)
		check(t, err)
		var p *apiclient.Error
		if err = apiclient.Done(owner.sdk.DeleteRoleWithResponse(ctx, made.Id, nil)); !errors.As(err, &p) || p.Code != "role_in_use" || !strings.Contains(p.Detail, "1 binding") {
			t.Errorf("a role in use: %v", err)
		}
		check(t, apiclient.Done(owner.sdk.DeleteRoleBindingWithResponse(ctx, binding.Id, nil)))
		check(t, apiclient.Done(owner.sdk.DeleteRoleWithResponse(ctx, made.Id, nil)))
	})
}

func TestRoles_nobodyGivesMoreThanTheyHave(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		made, err := apiclient.Created(owner.sdk.CreateRoleWithResponse(ctx, nil, api.CustomRoleCreate{Name: "roles", Permissions: []api.Permission{"role:read", "role:write", "topic:read", "key:read", "key:write"}}))
		check(t, err)
		deputy, deputyID := s.colleague(owner, "deputy@example.com", tenant.RoleNone)
		_, err = owner.bind(t, deputyID, made.Id, api.RoleScope{Kind: "tenant"}, nil)
		check(t, err)
		_, err = deputy.bind(t, deputyID, "viewer", api.RoleScope{Kind: "tenant"}, nil)
		wantCode(t, "a role with more", err, 403, "permission_denied")
		_, err = deputy.bind(t, deputyID, "admin", inNamespace(owner.NamespaceId), nil)
		wantCode(t, "admin of a namespace", err, 403, "permission_denied")
		_, err = apiclient.Created(deputy.sdk.CreateRoleWithResponse(ctx, nil, api.CustomRoleCreate{Name: "mine", Permissions: []api.Permission{"message:read"}}))
		wantCode(t, "a permission they lack", err, 403, "permission_denied")
		_, err = apiclient.OK(deputy.sdk.UpdateRoleWithResponse(ctx, made.Id, nil, api.CustomRoleUpdate{Permissions: &[]api.Permission{"topic:write"}}))
		wantCode(t, "their own role widened", err, 403, "permission_denied")
		account, err := apiclient.Created(owner.sdk.CreateServiceAccountWithResponse(ctx, nil, api.ServiceAccountCreate{Name: "robot"}))
		check(t, err)
		scopes := []api.ApiKeyScope{{NamespaceId: owner.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}
		_, err = apiclient.Created(deputy.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", OwnerId: &account.Id, Scopes: &scopes}))
		wantCode(t, "a scope they lack for a robot", err, 403, "permission_denied")
		_, err = owner.bind(t, deputyID, "owner", api.RoleScope{Kind: "tenant"}, nil)
		wantCode(t, "owner bound", err, 400, "invalid")
		_, err = deputy.bind(t, deputyID, made.Id, inNamespace(owner.NamespaceId), nil)
		check(t, err)
	})
}

// Who has rights in a part of a tenant sees that part: another namespace is as
// absent as one of another tenant.
func TestBindings_namespaceAndTopics_CrossTenant(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		first, second := owner.NamespaceId, owner.second(t)
		inside, insideID := s.colleague(owner, "inside@example.com", tenant.RoleNone)
		topical, topicalID := s.colleague(owner, "topical@example.com", tenant.RoleNone)
		if got := inside.status(s, "GET", "/v1/namespaces", ""); got != http.StatusForbidden {
			t.Errorf("without any right: %d", got)
		}
		_, err := owner.bind(t, insideID, "developer", inNamespace(second), nil)
		check(t, err)
		binding, err := owner.bind(t, topicalID, "developer", onTopics(second, "orders*"), nil)
		check(t, err)
		for _, c := range []struct {
			who          person
			method, path string
			body         string
			want         int
		}{
			{inside, "GET", second, "", 200},
			{inside, "GET", first, "", 404},
			{inside, "GET", first + "/topics", "", 404},
			{inside, "GET", first + "/topics/hello", "", 404},
			{inside, "POST", first + "/topics", `{"name":"x"}`, 404},
			{inside, "GET", first + "/acls", "", 404},
			{inside, "GET", second + "/acls", "", 200},
			{inside, "POST", second + "/acls", `{"effect":"allow","principal":"*","resource":"topic","pattern":"*","operations":["PUB"]}`, 403},
			{inside, "POST", second + "/topics", `{"name":"new"}`, 201},
			{inside, "POST", second + "/topics/orders/messages", `{"body":"x"}`, 201},
			{inside, "GET", second + "/quotas", "", 200},
			{inside, "DELETE", second, "", 403},
			{topical, "GET", second, "", 200},
			{topical, "GET", first, "", 404},
			{topical, "GET", second + "/acls", "", 403},
			{topical, "GET", second + "/quotas", "", 403},
			{topical, "GET", second + "/topics/orders-eu", "", 200},
			{topical, "GET", second + "/topics/billing", "", 403},
			{topical, "GET", second + "/topics/absent", "", 403},
			{topical, "GET", second + "/topics/billing/messages", "", 403},
			{topical, "POST", second + "/topics/orders/messages", `{"body":"x"}`, 201},
			{topical, "POST", second + "/topics", `{"name":"orders-us"}`, 201},
			{topical, "POST", second + "/topics", `{"name":"ordera"}`, 403},
			{topical, "GET", second + "/groups", "", 403},
		} {
			if got := c.who.status(s, c.method, "/v1/namespaces/"+c.path, c.body); got != c.want {
				t.Errorf("%s %s %s: %d, want %d", c.who.email, c.method, c.path, got, c.want)
			}
		}
		for _, path := range []string{"/v1/members", "/v1/usage", "/v1/tenant", "/v1/role-bindings", "/v1/audit-events", "/v1/service-accounts"} {
			if got := inside.status(s, "GET", path, ""); got != http.StatusForbidden {
				t.Errorf("%s: %d", path, got)
			}
		}
		namespaces, err := apiclient.OK(topical.sdk.ListNamespacesWithResponse(t.Context(), nil))
		check(t, err)
		topics, err := apiclient.OK(topical.sdk.ListTopicsWithResponse(t.Context(), second, &api.ListTopicsParams{PageSize: ptr(int32(2))}))
		check(t, err)
		batch, err := apiclient.OK(topical.sdk.BatchGetTopicsWithResponse(t.Context(), second, nil, api.TopicBatchGet{Names: []string{"orders", "billing"}}))
		check(t, err)
		if len(namespaces.Items) != 1 || namespaces.Items[0].Id != second || len(topics.Items) != 2 || topics.NextPageToken == nil || len(batch.Items) != 1 || !slices.Equal(batch.Missing, []string{"billing"}) {
			t.Errorf("lists: %d namespaces, topics %+v, batch %+v", len(namespaces.Items), topics, batch)
		}
		me, err := apiclient.OK(topical.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		if me.Role != "none" || len(me.Permissions) != 0 || len(me.Bindings) != 1 || me.Bindings[0].Role != "developer" || *me.Bindings[0].Scope.Pattern != "orders*" {
			t.Errorf("me: %+v", me)
		}
		check(t, apiclient.Done(owner.sdk.DeleteRoleBindingWithResponse(t.Context(), binding.Id, nil)))
		if got := topical.status(s, "GET", "/v1/namespaces/"+second, ""); got != http.StatusNotFound {
			t.Errorf("after the binding is gone: %d", got)
		}
	})
}

// A time-boxed right stops by itself, on the API and at brokers.
func TestBindings_endAtTheirTime(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		second := owner.second(t)
		temp, tempID := s.colleague(owner, "temp@example.com", tenant.RoleNone)
		end := api.NewTimestamp(s.clock.now().Add(10 * time.Minute))
		_, err := owner.bind(t, tempID, "developer", inNamespace(second), ptr(api.NewTimestamp(s.clock.now())))
		wantCode(t, "an end in the past", err, 400, "invalid")
		binding, err := owner.bind(t, tempID, "developer", onTopics(second, "orders*"), &end)
		check(t, err)
		scopes := []api.ApiKeyScope{{NamespaceId: second, Permissions: []api.KeyPermission{"PUB", "SUB"}}}
		key, err := apiclient.Created(temp.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "own", Scopes: &scopes, ControlRole: ptr(api.ControlRole("developer"))}))
		check(t, err)
		k := s.keyAtBrokers(key.Id)
		for _, sc := range k.Scopes {
			if !slices.Equal(sc.Topics, []string{"orders*"}) || sc.ExpiresAt == nil || !sc.ExpiresAt.Equal(end.Time) {
				t.Errorf("scope at brokers: %+v", sc)
			}
		}
		if len(k.Scopes) != 2 || k.State != tenant.KeyActive {
			t.Errorf("at brokers: %+v", k)
		}
		other := []api.ApiKeyScope{{NamespaceId: owner.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}
		_, err = apiclient.Created(temp.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "x", Scopes: &other}))
		wantCode(t, "a scope in a namespace they do not see", err, 400, "invalid")
		_, err = apiclient.OK(temp.sdk.GetApiKeyWithResponse(ctx, owner.ApiKey.Id))
		wantCode(t, "the key of somebody else", err, 404, "not_found")
		keys, err := apiclient.OK(temp.sdk.ListApiKeysWithResponse(ctx, nil))
		check(t, err)
		if len(keys.Items) != 1 {
			t.Errorf("%d keys", len(keys.Items))
		}
		s.clock.add(10*time.Minute - time.Millisecond)
		topic := "/v1/namespaces/" + second + "/topics/orders"
		if got := temp.status(s, "GET", topic, ""); got != http.StatusOK {
			t.Errorf("before the end: %d", got)
		}
		s.clock.add(time.Millisecond)
		if got := temp.status(s, "GET", topic, ""); got != http.StatusNotFound {
			t.Errorf("at the end: %d", got)
		}
		if k := s.keyAtBrokers(key.Id); k.State != tenant.KeyDisabled {
			t.Errorf("key at brokers after the end: %+v", k)
		}
		_, err = apiclient.OK(owner.sdk.UpdateRoleBindingWithResponse(ctx, binding.Id, nil, api.RoleBindingUpdate{ExpiresAt: nullable.NewNullNullable[api.Timestamp]()}))
		check(t, err)
		if got := temp.status(s, "GET", topic, ""); got != http.StatusOK {
			t.Errorf("without an end: %d", got)
		}
		check(t, owner.remove(t, tempID))
		left, err := apiclient.OK(owner.sdk.ListRoleBindingsWithResponse(ctx, nil))
		check(t, err)
		if len(left.Items) != 0 {
			t.Errorf("%d bindings of who was removed", len(left.Items))
		}
	})
}

// The keys of a service account are bound from its first binding on; to take the
// last one away gives them nothing back.
func TestBindings_ofServiceAccounts(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		second := owner.second(t)
		account, err := apiclient.Created(owner.sdk.CreateServiceAccountWithResponse(ctx, nil, api.ServiceAccountCreate{Name: "robot"}))
		check(t, err)
		scopes := []api.ApiKeyScope{{NamespaceId: second, Permissions: []api.KeyPermission{"PUB"}}}
		key, err := apiclient.Created(owner.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", OwnerId: &account.Id, Scopes: &scopes, ControlRole: ptr(api.ControlRole("viewer"))}))
		check(t, err)
		get := func(path string) int {
			req, err := http.NewRequestWithContext(ctx, "GET", s.server.URL+path, nil)
			check(t, err)
			req.SetBasicAuth(key.Id, key.Secret)
			resp, err := http.DefaultClient.Do(req)
			check(t, err)
			check(t, resp.Body.Close())
			return resp.StatusCode
		}
		first := "/v1/namespaces/" + owner.NamespaceId
		if got := get(first); got != http.StatusOK {
			t.Errorf("unbound: %d", got)
		}
		binding, err := owner.bind(t, account.Id, "developer", inNamespace(second), nil)
		check(t, err)
		for path, want := range map[string]int{first: 404, "/v1/namespaces/" + second: 200, "/v1/members": 403} {
			if got := get(path); got != want {
				t.Errorf("bound: %s: %d, want %d", path, got, want)
			}
		}
		if k := s.keyAtBrokers(key.Id); k.State != tenant.KeyActive || len(k.Scopes) != 1 {
			t.Errorf("bound, at brokers: %+v", k)
		}
		check(t, apiclient.Done(owner.sdk.DeleteRoleBindingWithResponse(ctx, binding.Id, nil)))
		if got := get(first); got != http.StatusNotFound {
			t.Errorf("after the last binding: %d", got)
		}
		if k := s.keyAtBrokers(key.Id); k.State != tenant.KeyDisabled {
			t.Errorf("after the last binding, at brokers: %+v", k)
		}
		got, err := apiclient.OK(owner.sdk.GetServiceAccountWithResponse(ctx, account.Id))
		check(t, err)
		if !got.Bound {
			t.Error("the account does not show that it is bound")
		}
	})
}

// Whoever may write rules gives by them no more than they have: neither by one
// that allows nor by taking one that denies away.
func TestRules_nobodyGivesMoreThanTheyHave(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx, ns := t.Context(), owner.NamespaceId
		warden, wardenID := s.colleague(owner, "warden@example.com", tenant.RoleNone)
		role, err := apiclient.Created(owner.sdk.CreateRoleWithResponse(ctx, nil, api.CustomRoleCreate{Name: "warden", Permissions: []api.Permission{"acl:read", "acl:write", "topic:read"}}))
		check(t, err)
		_, err = owner.bind(t, wardenID, role.Id, inNamespace(ns), nil)
		check(t, err)
		rule := func(effect string, op api.KeyPermission) api.AclCreate {
			return api.AclCreate{Effect: api.AclEffect(effect), Principal: "*", Resource: "topic", Pattern: "hello", Operations: []api.KeyPermission{op}}
		}
		denyPub, err := apiclient.Created(owner.sdk.CreateAclWithResponse(ctx, ns, nil, rule("deny", "PUB")))
		check(t, err)

		_, err = apiclient.Created(warden.sdk.CreateAclWithResponse(ctx, ns, nil, rule("allow", "PUB")))
		wantCode(t, "an allow rule for what they lack", err, 403, "permission_denied")
		err = apiclient.Done(warden.sdk.DeleteAclWithResponse(ctx, ns, denyPub.Id, nil))
		wantCode(t, "a deny rule for what they lack taken away", err, 403, "permission_denied")
		_, err = apiclient.OK(warden.sdk.UpdateAclWithResponse(ctx, ns, denyPub.Id, nil, api.AclUpdate{Operations: &[]api.KeyPermission{"DESCRIBE"}}))
		wantCode(t, "a deny rule for what they lack made another", err, 403, "permission_denied")

		_, err = apiclient.Created(warden.sdk.CreateAclWithResponse(ctx, ns, nil, rule("allow", "DESCRIBE")))
		check(t, err)
		denySub, err := apiclient.Created(warden.sdk.CreateAclWithResponse(ctx, ns, nil, rule("deny", "SUB")))
		check(t, err)
		_, err = apiclient.OK(warden.sdk.UpdateAclWithResponse(ctx, ns, denySub.Id, nil, api.AclUpdate{Effect: ptr(api.AclEffect("allow"))}))
		wantCode(t, "a deny rule turned round", err, 403, "permission_denied")
		still, err := apiclient.OK(owner.sdk.GetAclWithResponse(ctx, ns, denyPub.Id))
		check(t, err)
		if still.Revision != denyPub.Revision || still.Operations[0] != "PUB" {
			t.Errorf("a refused change changed the rule: %+v", still)
		}
	})
}

// A key that is rotated is copied, and who says what a workload identity trusts
// decides who gets its tokens: both need what the key may.
func TestRoles_nobodyCopiesMoreThanTheyHave(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		made, err := apiclient.Created(owner.sdk.CreateRoleWithResponse(ctx, nil, api.CustomRoleCreate{Name: "keys", Permissions: []api.Permission{"key:read", "key:write", "service_account:read", "service_account:write"}}))
		check(t, err)
		deputy, deputyID := s.colleague(owner, "deputy@example.com", tenant.RoleNone)
		_, err = owner.bind(t, deputyID, made.Id, api.RoleScope{Kind: "tenant"}, nil)
		check(t, err)
		account, err := apiclient.Created(owner.sdk.CreateServiceAccountWithResponse(ctx, nil, api.ServiceAccountCreate{Name: "robot"}))
		check(t, err)
		scopes := []api.ApiKeyScope{{NamespaceId: owner.NamespaceId, Permissions: []api.KeyPermission{"PUB", "SUB"}}}
		for name, ownerID := range map[string]string{"a robot's key": account.Id, "the owner's key": ""} {
			key, err := apiclient.Created(owner.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", OwnerId: some(ownerID), Scopes: &scopes}))
			check(t, err)
			_, err = apiclient.Created(deputy.sdk.RotateApiKeyWithResponse(ctx, key.Id, nil, api.ApiKeyRotate{}))
			wantCode(t, name+" rotated", err, 403, "permission_denied")
			_, err = apiclient.Created(owner.sdk.RotateApiKeyWithResponse(ctx, key.Id, nil, api.ApiKeyRotate{}))
			check(t, err)
		}
		identity := func(role string, scopes *[]api.ApiKeyScope) api.WorkloadIdentityCreate {
			return api.WorkloadIdentityCreate{Name: "ci-" + role, Issuer: "https://issuer.example.com", Audience: "sluice", Subject: "repo", ServiceAccountId: account.Id,
				ControlRole: some(api.ControlRole(role)), Scopes: scopes}
		}
		_, err = apiclient.Created(deputy.sdk.CreateWorkloadIdentityWithResponse(ctx, nil, identity("", &scopes)))
		wantCode(t, "a workload identity with a scope they lack", err, 403, "permission_denied")
		for _, w := range []api.WorkloadIdentityCreate{identity("admin", nil), identity("", &scopes)} {
			id, err := apiclient.Created(owner.sdk.CreateWorkloadIdentityWithResponse(ctx, nil, w))
			check(t, err)
			for name, u := range map[string]api.WorkloadIdentityUpdate{
				"issuer": {Issuer: ptr("https://mine.example.com")}, "audience": {Audience: ptr("mine")}, "subject": {Subject: ptr("mine")},
				"conditions": {Conditions: &api.ClaimConditions{}}, "max_ttl": {MaxTtl: ptr("1m")}, "enabled": {Enabled: ptr(true)}, "scopes": {Scopes: &scopes},
			} {
				_, err = apiclient.OK(deputy.sdk.UpdateWorkloadIdentityWithResponse(ctx, id.Id, nil, u))
				wantCode(t, w.Name+": another "+name, err, 403, "permission_denied")
				_, err = apiclient.OK(owner.sdk.UpdateWorkloadIdentityWithResponse(ctx, id.Id, nil, u))
				check(t, err)
			}
			_, err = apiclient.OK(deputy.sdk.UpdateWorkloadIdentityWithResponse(ctx, id.Id, nil, api.WorkloadIdentityUpdate{Name: ptr("off " + w.Name), Enabled: ptr(false)}))
			check(t, err)
		}
	})
}
