package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/tenant"
)

// foreignMark is in everything that the other tenant has, but for the names that
// stand in paths: refusals may repeat those.
const foreignMark = "foreign-mark"

// visitor is a caller of the matrix: how it signs, and what is to be expected.
type visitor struct {
	name    string
	sign    func(*http.Request)
	role    tenant.Role // "": none that the API knows
	person  bool
	status  int  // of everything that is not public; 0: as the role says
	stopped bool // its tenant is suspended
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func withKey(id, secret string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(id, secret) }
}

// things are the ids that a path may name.
type things map[string]string

// things of a tenant: one of each kind, made by its owner.
func (s *system) things(p person, mark string) things {
	s.t.Helper()
	ctx := s.t.Context()
	account, err := apiclient.Created(p.sdk.CreateServiceAccountWithResponse(ctx, nil, api.ServiceAccountCreate{Name: mark + " account"}))
	check(s.t, err)
	rule, err := apiclient.Created(p.sdk.CreateAclWithResponse(ctx, p.NamespaceId, nil, api.AclCreate{Effect: "allow", Principal: "*", Resource: "topic", Pattern: "none",
		Operations: []api.KeyPermission{"DESCRIBE"}, Description: ptr(mark)}))
	check(s.t, err)
	_, err = apiclient.Created(p.sdk.CreateTopicWithResponse(ctx, p.NamespaceId, nil, api.TopicCreate{Name: "things", Description: &mark}))
	check(s.t, err)
	_, err = apiclient.Created(p.sdk.CreateGroupWithResponse(ctx, p.NamespaceId, nil, api.GroupCreate{Name: "things", Description: &mark}))
	check(s.t, err)
	key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: mark + " key", ControlRole: ptr(api.ControlRole("viewer")),
		Scopes: &[]api.ApiKeyScope{{NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}}))
	check(s.t, err)
	invitation, err := s.invite(p, mark+"-invited@example.com", "viewer")
	check(s.t, err)
	sessions, err := apiclient.OK(p.sdk.ListSessionsWithResponse(ctx, nil))
	check(s.t, err)
	_, err = apiclient.Created(p.sdk.SendMessageWithResponse(ctx, p.NamespaceId, "things", nil, api.MessageSend{Body: mark}))
	check(s.t, err)
	return things{"/v1/service-accounts/": account.Id, "/v1/namespaces/{ns}/acls/": rule.Id, "/v1/api-keys/": key.Id, "/v1/invitations/": invitation.Id,
		"/v1/members/": p.userID(s), "/v1/sessions/": sessions.Items[0].Id, "{ns}": p.NamespaceId, "{topic}": "things", "{group}": "things"}
}

// path fills a path of the contract; an id of a kind that nobody made is one
// that cannot be.
func (th things) path(path string) string {
	id := "x"
	for prefix, known := range th {
		if strings.HasPrefix(prefix, "/") && strings.HasPrefix(path, prefix) && !strings.HasPrefix(path, "/v1/namespaces/{ns}/acls/actions") {
			id = known
		}
	}
	return strings.NewReplacer("{ns}", th["{ns}"], "{topic}", th["{topic}"], "{group}", th["{group}"], "{id}", id, "{code}", "not_found").Replace(path)
}

// visitors are all kinds of callers of p's tenant, and some of none.
func (s *system) visitors(p person) []visitor {
	s.t.Helper()
	ctx := s.t.Context()
	out := []visitor{{name: "owner", sign: bearer(p.AccessToken), role: tenant.RoleOwner, person: true}}
	for _, role := range []tenant.Role{tenant.RoleAdmin, tenant.RoleDeveloper, tenant.RoleViewer, tenant.RoleBilling} {
		colleague, _ := s.colleague(p, string(role)+"@example.com", role)
		out = append(out, visitor{name: string(role), sign: bearer(colleague.AccessToken), role: role, person: true})
		account, err := apiclient.Created(p.sdk.CreateServiceAccountWithResponse(ctx, nil, api.ServiceAccountCreate{Name: string(role)}))
		check(s.t, err)
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: string(role), OwnerId: &account.Id, ControlRole: ptr(api.ControlRole(role))}))
		check(s.t, err)
		out = append(out, visitor{name: "key of " + string(role), sign: withKey(key.Id, key.Secret), role: role})
		token, err := s.auth.Exchange(ctx, key.Id, key.Secret, "control", addressOf(&http.Request{RemoteAddr: "127.0.0.1:1"}))
		check(s.t, err)
		out = append(out, visitor{name: "token of a key of " + string(role), sign: bearer(token.AccessToken), role: role})
	}
	scope := []api.ApiKeyScope{{NamespaceId: p.NamespaceId, Permissions: []api.KeyPermission{"PUB", "SUB"}}}
	bare, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "bare", Scopes: &scope}))
	check(s.t, err)
	data, err := s.auth.Exchange(ctx, bare.Id, bare.Secret, "data", addressOf(&http.Request{RemoteAddr: "127.0.0.1:1"}))
	check(s.t, err)
	dead := func(name string, change func(api.ApiKeyWithSecret) error) visitor {
		k, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: name, ControlRole: ptr(api.ControlRole("admin"))}))
		check(s.t, err)
		check(s.t, change(k))
		return visitor{name: name, sign: withKey(k.Id, k.Secret), status: http.StatusUnauthorized}
	}
	removed, removedID := s.colleague(p, "removed@example.com", tenant.RoleAdmin)
	_, err = p.sdk.RemoveMemberWithResponse(ctx, removedID, nil)
	check(s.t, err)
	ended := s.signIn(p)
	live, err := apiclient.OK(ended.ListSessionsWithResponse(ctx, nil))
	check(s.t, err)
	_, err = ended.EndSessionWithResponse(ctx, live.Items[0].Id, nil)
	check(s.t, err)
	return append(out,
		visitor{name: "key without a role", sign: withKey(bare.Id, bare.Secret), status: http.StatusForbidden},
		visitor{name: "token for messages", sign: bearer(data.AccessToken), status: http.StatusUnauthorized},
		visitor{name: "nobody", sign: func(*http.Request) {}, status: http.StatusUnauthorized},
		visitor{name: "made-up token", sign: bearer("eyJhbGciOiJub25lIn0.e30."), status: http.StatusUnauthorized},
		visitor{name: "wrong secret", sign: withKey(bare.Id, "sls_wrong"), status: http.StatusUnauthorized},
		visitor{name: "removed member", sign: bearer(removed.AccessToken), status: http.StatusUnauthorized},
		dead("disabled", func(k api.ApiKeyWithSecret) error {
			_, err := apiclient.OK(p.sdk.UpdateApiKeyWithResponse(ctx, k.Id, nil, api.ApiKeyUpdate{Disabled: ptr(true)}))
			return err
		}),
		dead("revoked", func(k api.ApiKeyWithSecret) error {
			_, err := apiclient.OK(p.sdk.RevokeApiKeyWithResponse(ctx, k.Id, nil))
			return err
		}),
		dead("deleted", func(k api.ApiKeyWithSecret) error {
			_, err := p.sdk.DeleteApiKeyWithResponse(ctx, k.Id, nil)
			return err
		}),
	)
}

// ends are operations that would end the caller's own session or account, and
// those that last.
var ends = []string{"signOut", "deleteMe", "closeAccount", "tailMessages", "leaveTenant", "leaveMember", "endOtherSessions", "endSession"}

// CrossTenant: every operation of the contract, by every kind of caller, about
// things of its own tenant, of another one, and about what nobody has.
func TestCrossTenant_everyOperation(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		a, b, stopped := s.signUp("a@example.com"), s.signUp(foreignMark+"@example.com"), s.signUp("c@example.com")
		own, foreign, third := s.things(a, "own-things"), s.things(b, foreignMark), s.things(stopped, "third")
		before := s.everything(b, foreign)
		callers := s.visitors(a)
		check(t, s.tenants.Suspend(t.Context(), stopped.TenantId))
		n := 0
		for _, v := range callers {
			for _, op := range s.srv.ops {
				for where, th := range map[string]things{"own": own, "foreign": foreign, "nowhere": {"{ns}": "nsxxxxxxxxxx", "{topic}": "x", "{group}": "x"}} {
					if where != "own" && !strings.Contains(op.path, "{") || slices.Contains(ends, op.id) {
						continue
					}
					n++
					s.visit(v, op, where, th)
				}
			}
		}
		halted := visitor{name: "owner of a suspended tenant", sign: bearer(stopped.AccessToken), role: tenant.RoleOwner, person: true, stopped: true}
		for _, op := range s.srv.ops {
			if !slices.Contains(ends, op.id) {
				n++
				s.visit(halted, op, "own", third)
			}
		}
		after := s.everything(b, foreign)
		for path, text := range before {
			if after[path] != text {
				t.Errorf("%s of the other tenant was\n%s\nand is\n%s", path, text, after[path])
			}
		}
		if len(before) < 15 {
			t.Errorf("only %d things of the other tenant looked at", len(before))
		}
		t.Logf("%d cases over HTTP", n)
		if n < 3000 {
			t.Errorf("only %d cases", n)
		}
	})
}

// visit makes one request that changes nothing, whatever it is let in to: its
// body is no JSON, and it is meant for a revision that there is not.
func (s *system) visit(v visitor, op *operation, where string, th things) {
	t := s.t
	var body io.Reader
	kind := "application/json"
	if of := op.route.Operation.RequestBody; of != nil {
		body = strings.NewReader("{")
		if of.Value.Content.Get(kind) == nil {
			kind = "application/x-www-form-urlencoded"
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), op.route.Method, s.server.URL+th.path(op.path), body)
	check(t, err)
	req.Header.Set("Content-Type", kind)
	req.Header.Set("If-Match", `"999999"`)
	q := req.URL.Query()
	if op.query["dry_run"] {
		q.Set("dry_run", "true")
	}
	for name, value := range map[string]string{"language": "go", "resource": "topic", "name": "x"} {
		if op.query[name] && op.route.Method == http.MethodGet && (op.id == "getClientConfig" || op.id == "listAccess") {
			q.Set(name, value)
		}
	}
	req.URL.RawQuery = q.Encode()
	v.sign(req)
	resp, err := http.DefaultTransport.RoundTrip(req) // redirects are answers
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check(t, err)
	what := fmt.Sprintf("%s by %s, %s", op.id, v.name, where)
	refused := resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusUnauthorized
	switch {
	case strings.Contains(string(text), foreignMark):
		t.Errorf("%s shows something of the other tenant: %.300s", what, text)
	case resp.StatusCode >= 500 && op.tag != "billing": // which this server does not have
		t.Errorf("%s breaks: %d %.300s", what, resp.StatusCode, text)
	case op.permission == auth.PermissionPublic:
	case v.status != 0 && resp.StatusCode != v.status:
		t.Errorf("%s: status %d, want %d", what, resp.StatusCode, v.status)
	case v.status != 0:
	case v.stopped && op.route.Method != http.MethodGet && resp.StatusCode < 300 && op.permission != auth.PermissionSelf && !looks(op):
		t.Errorf("%s: status %d although the tenant is suspended", what, resp.StatusCode)
	case v.stopped:
	case op.permission == auth.PermissionSelf:
		if refused && v.person {
			t.Errorf("%s: status %d %.200s", what, resp.StatusCode, text)
		}
	case !slices.Contains(auth.Roles()[v.role], op.permission):
		if !refused && (resp.StatusCode != http.StatusNotFound || where == "own") {
			t.Errorf("%s: status %d, the role does not grant %s", what, resp.StatusCode, op.permission)
		}
	case refused && !strings.Contains(string(text), `"owner_only"`) && !messagesOfAKey(v, op):
		t.Errorf("%s: status %d %.200s, the role grants %s", what, resp.StatusCode, text, op.permission)
	case where != "own" && resp.StatusCode < 300:
		t.Errorf("%s: status %d about what the caller does not have", what, resp.StatusCode)
	}
}

// looks are requests that only read, though by POST.
func looks(op *operation) bool {
	return op.id == "testAcl" || op.id == "batchGetTopics" || op.id == "verifyAuditEvents"
}

// messagesOfAKey need a scope besides the role.
func messagesOfAKey(v visitor, op *operation) bool {
	return !v.person && (op.permission == "message:read" || op.permission == "message:write")
}

// everything is what a tenant's owner sees, by path.
func (s *system) everything(p person, th things) map[string]string {
	out := map[string]string{}
	for _, op := range s.srv.ops {
		if op.route.Method != http.MethodGet || op.permission == auth.PermissionPublic || slices.Contains(ends, op.id) || op.tag == "billing" || op.id == "getGroupLag" { // as of now
			continue
		}
		path := th.path(op.path) + map[string]string{"getClientConfig": "?language=go", "listAccess": "?resource=topic&name=things"}[op.id]
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.server.URL+path, nil)
		check(s.t, err)
		bearer(p.AccessToken)(req)
		resp, err := http.DefaultClient.Do(req)
		check(s.t, err)
		text, err := io.ReadAll(resp.Body)
		check(s.t, err)
		check(s.t, resp.Body.Close())
		if resp.StatusCode == http.StatusOK && !strings.HasPrefix(path, "/v1/sessions") { // which say when they were used
			out[path] = string(text)
		}
	}
	return out
}
