package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// OWASP API9: what is served is in the contract, and the other way round.
func TestOWASP_API9_routesAreThoseOfTheContract(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	_, engine, err := build(s.srv.d)
	check(t, err)
	var served []string
	for _, r := range engine.Routes() {
		served = append(served, r.Method+" "+r.Path)
	}
	var wanted []string
	for key := range s.srv.ops {
		wanted = append(wanted, key)
	}
	sort.Strings(served)
	sort.Strings(wanted)
	if !slices.Equal(served, wanted) {
		t.Errorf("served %v\nwanted %v", served, wanted)
	}
}

func TestRoles_areThoseOfTheContract(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(api.SpecYAML)
	check(t, err)
	table, ok := doc.Extensions["x-roles"].(map[string]any)
	if !ok || len(table) != len(auth.Roles()) {
		t.Fatalf("x-roles: %v", doc.Extensions["x-roles"])
	}
	for role, list := range table {
		var want, got []string
		for _, p := range list.([]any) {
			want = append(want, p.(string))
		}
		for _, p := range auth.Roles()[tenant.Role(role)] {
			got = append(got, string(p))
		}
		sort.Strings(want)
		sort.Strings(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", role, got, want)
		}
	}
}

// TestErrorPages_everyCodeResolves reads the codes out of the sources, since a
// reason is a word at the place where the error is made.
func TestErrorPages_everyCodeResolves(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	codes := map[string]bool{}
	for code := range statuses {
		codes[string(code)] = true
	}
	reason := regexp.MustCompile(`(?:WithReason\(|conflict\(|forbidden\(|unauthenticated\(|idemProblem\([^,]+, )"([a-z_]+)"`)
	for _, dir := range []string{".", "../auth", "../catalog", "../controldb", "../federation", "../oidc", "../mail", "../messages", "../../tenant", "../../tenant/tenantdb"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		check(t, err)
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			check(t, err)
			for _, m := range reason.FindAllStringSubmatch(string(text), -1) {
				codes[m[1]] = true
			}
		}
	}
	if len(codes) < 40 {
		t.Errorf("only %d codes found", len(codes))
	}
	for code := range codes {
		status, _, h := s.raw("GET", "/errors/"+code, "", "")
		if status != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			t.Errorf("/errors/%s answers %d %s", code, status, h.Get("Content-Type"))
		}
	}
	for code, m := range meanings {
		if m.EN.Title == "" || m.ZH.Fix == "" || (!codes[code] && code != string(errs.Internal)) {
			t.Errorf("page of %s is empty or nobody uses it", code)
		}
	}
	if status, _, _ := s.raw("GET", "/errors/no_such_code", "", ""); status != http.StatusNotFound {
		t.Errorf("unknown code answers %d", status)
	}
}

func TestProblem_namesTheInput(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	topics := "/v1/namespaces/" + p.NamespaceId + "/topics"
	cases := []struct {
		method, path, body string
		headers            []string
		status             int
		code, field        string
	}{
		{"POST", topics, `{"name":"a","colour":"red"}`, nil, 400, "invalid", "colour"},
		{"POST", topics, `{"name":"a","queues":"4"}`, nil, 400, "invalid", "queues"},
		{"POST", topics, `{"name":"a","queues":65}`, nil, 400, "invalid", "queues"},
		{"POST", topics, `{"name":"a","queues":1.5}`, nil, 400, "invalid", "queues"},
		{"POST", topics, `{"name":null}`, nil, 400, "invalid", "name"},
		{"POST", topics, `{}`, nil, 400, "invalid", "name"},
		{"POST", topics, `[]`, nil, 400, "invalid", "body"},
		{"POST", topics, `{"name":"a"`, nil, 400, "body_not_json", "body"},
		{"POST", topics, `{"name":"a"} {"name":"b"}`, nil, 400, "body_not_json", "body"},
		{"POST", topics, ``, nil, 400, "invalid", "body"},
		{"POST", topics, `{"name":"a"}`, []string{"Content-Type", "text/plain"}, 400, "invalid", "body"},
		{"POST", topics, `{"name":"a/b"}`, nil, 400, "invalid", "name"},
		{"POST", topics, `{"name":"` + strings.Repeat("x", 101) + `"}`, nil, 400, "invalid", "name"},
		{"POST", topics, `{"name":"TBW102"}`, nil, 400, "name_reserved", "name"},
		{"POST", topics, `{"name":"rmq_sys_x"}`, nil, 400, "name_reserved", "name"},
		{"POST", topics, `{"name":"a","retention":"3 days"}`, nil, 400, "invalid", "retention"},
		{"POST", topics, `{"name":"a","retention":"9999h"}`, nil, 400, "invalid", "retention"},
		{"POST", topics, `{"name":"a","labels":{"X":"y"}}`, nil, 400, "invalid", "labels.X"},
		{"POST", topics, `{"name":"a","type":"LITE"}`, nil, 400, "invalid", "type"},
		{"POST", topics + "?wait=99s", `{"name":"a"}`, nil, 400, "invalid", "query.wait"},
		{"POST", topics + "?dry_run=maybe", `{"name":"a"}`, nil, 400, "invalid", "query.dry_run"},
		{"GET", topics + "?page_size=0", ``, nil, 400, "invalid", "query.page_size"},
		{"GET", topics + "?page_size=1001", ``, nil, 400, "invalid", "query.page_size"},
		{"GET", topics + "?colour=red", ``, nil, 400, "invalid", "query.colour"},
		{"GET", topics + "?page_token=abc.def", ``, nil, 400, "page_token_invalid", "query.page_token"},
		{"PATCH", topics + "/hello", `{"queues":8}`, []string{"If-Match", "3"}, 400, "invalid", "header.If-Match"},
		{"PATCH", topics + "/hello", `{"queues":8}`, []string{"If-Match", `"99"`}, 412, "precondition_failed", "header.If-Match"},
		{"PATCH", topics + "/hello", `{"queues":2}`, nil, 400, "queues_shrink", "queues"},
		{"PATCH", topics + "/hello", `{}`, nil, 400, "invalid", "body"},
		{"GET", topics + "/no-such", ``, nil, 404, "not_found", ""},
		{"GET", topics + "/a%2Fb", ``, nil, 404, "not_found", ""},
		{"GET", "/v1/namespaces/UPPER/topics", ``, nil, 404, "not_found", ""},
		{"GET", "/v1/nothing", ``, nil, 404, "route_not_found", ""},
		{"PUT", topics, `{}`, nil, 405, "method_not_allowed", ""},
		{"POST", "/v1/auth/sign-up", `{"email":"x","password":"short","tenant_name":"T"}`, nil, 400, "invalid", "email"},
		{"POST", topics, `{"name":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "body_too_large", "body"},
		{"GET", topics + "/hello/messages?offset=5", ``, nil, 400, "invalid", "query.queue"},
		{"GET", topics + "/hello/messages?key=%FF", ``, nil, 400, "invalid", "query.key"},
		{"GET", topics + "/hello/messages?key=a&key=%C3", ``, nil, 400, "invalid", "query.key"},
		{"GET", topics + "/hello/tail?tag=%ED%A0%80", ``, nil, 400, "invalid", "query.tag"},
		{"GET", topics + "/hello/messages?%FF=a", ``, nil, 400, "invalid", "query.\uFFFD"},
		{"GET", topics + "/%FF/messages", ``, nil, 400, "invalid", "path.topic"},
		{"GET", "/v1/usage?topic=x", ``, nil, 503, "unavailable", ""},
	}
	for _, c := range cases {
		status, problem, h := s.raw(c.method, c.path, "Bearer "+p.AccessToken, c.body, c.headers...)
		field := ""
		if problem.Field != nil {
			field = *problem.Field
		}
		name := fmt.Sprintf("%s %s %.60s", c.method, c.path, c.body)
		if status != c.status || problem.Code != c.code || field != c.field {
			t.Errorf("%s: got %d %s %q (%s), want %d %s %q", name, status, problem.Code, field, problem.Detail, c.status, c.code, c.field)
		}
		if problem.RequestId == "" || problem.RequestId != h.Get("X-Request-Id") || !strings.HasPrefix(problem.Type, s.server.URL+"/errors/") {
			t.Errorf("%s: request id %q, type %q", name, problem.RequestId, problem.Type)
		}
	}
}

// Bytes that are no UTF-8 are refused in every parameter of every operation.
func TestProblem_parametersAreUTF8(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	for _, op := range s.srv.ops {
		path := parameter.ReplaceAllString(op.path, "x")
		for name := range op.query {
			status, problem, _ := s.raw(op.route.Method, path+"?"+name+"=%FF", "Bearer "+p.AccessToken, "")
			if status != http.StatusBadRequest || problem.Field == nil || *problem.Field != "query."+name {
				t.Errorf("%s, %s: %d %+v", op.id, name, status, problem)
			}
		}
		for _, name := range parameter.FindAllString(op.path, -1) {
			path := parameter.ReplaceAllString(strings.Replace(op.path, name, "%FF", 1), "x")
			status, problem, _ := s.raw(op.route.Method, path, "Bearer "+p.AccessToken, "")
			if field := "path." + strings.Trim(name, "{}"); status != http.StatusBadRequest || problem.Field == nil || *problem.Field != field {
				t.Errorf("%s, %s: %d %+v", op.id, name, status, problem)
			}
		}
	}
}

func TestProblem_listsAllFaultsAndNoSecrets(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	_, problem, _ := s.raw("POST", "/v1/auth/sign-up", "", `{"email":"x","password":"geheim","tenant_name":"","colour":1}`)
	var fields []string
	for _, e := range *problem.Errors {
		fields = append(fields, e.Field)
		if strings.Contains(e.Detail, "geheim") {
			t.Errorf("the password is in %q", e.Detail)
		}
	}
	for _, want := range []string{"colour", "email", "password", "tenant_name"} {
		if !slices.Contains(fields, want) {
			t.Errorf("fields %v, want %s in them", fields, want)
		}
	}
}

// TestTenants_areSealedOff walks all operations: with the ids of another
// tenant each answers 404, and nothing of the other tenant changes.
func TestTenants_areSealedOff(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		a, b := s.signUp("a@example.com"), s.signUp("b@example.com")
		account, err := apiclient.Created(b.sdk.CreateServiceAccountWithResponse(t.Context(), nil, api.ServiceAccountCreate{Name: "robot"}))
		check(t, err)
		rule, err := apiclient.Created(b.sdk.CreateAclWithResponse(t.Context(), b.NamespaceId, nil, api.AclCreate{
			Effect: "deny", Principal: "*", Resource: "topic", Pattern: "*", Operations: []api.KeyPermission{"PUB"},
		}))
		check(t, err)
		workload, err := apiclient.Created(b.sdk.CreateWorkloadIdentityWithResponse(t.Context(), nil, api.WorkloadIdentityCreate{
			Name: "deploy", Issuer: "https://ci.example.com", Audience: "sluice", Subject: "repo:*", ServiceAccountId: account.Id, ControlRole: ptr(api.ControlRole("viewer")),
		}))
		check(t, err)
		provider, err := apiclient.Created(b.sdk.CreateIdentityProviderWithResponse(t.Context(), nil, api.IdentityProviderCreate{
			Name: "staff", Issuer: "https://login.example.com", ClientId: "c", Domains: &[]api.DomainName{"b.example"},
		}))
		check(t, err)
		mine, err := apiclient.OK(a.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		other, err := apiclient.OK(b.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		invitation, err := s.invite(b, "c@example.com", "viewer")
		check(t, err)
		custom, err := apiclient.Created(b.sdk.CreateRoleWithResponse(t.Context(), nil, api.CustomRoleCreate{Name: "r", Permissions: []api.Permission{"topic:read"}}))
		check(t, err)
		binding, err := apiclient.Created(b.sdk.CreateRoleBindingWithResponse(t.Context(), nil, api.RoleBindingCreate{PrincipalId: account.Id, Role: custom.Id, Scope: api.RoleScope{Kind: "tenant"}}))
		check(t, err)
		before, err := s.source.Desired(t.Context())
		check(t, err)

		bodies := map[string]string{
			"confirmMfaFactor": `{"code":"000000"}`, "confirmWebauthn": `{"credential":"{}"}`, "updateServiceAccount": `{"disabled":true}`, "updateApiKey": `{"disabled":true}`, "rotateApiKey": `{}`, "updateNamespace": `{"name":"mine"}`,
			"createTopic": `{"name":"mine"}`, "updateTopic": `{"queues":9}`, "batchGetTopics": `{"names":["hello"]}`, "sendMessage": `{"body":"x"}`,
			"createGroup": `{"name":"mine"}`, "updateGroup": `{"consume_enabled":false}`, "resetGroupOffset": `{"topic":"hello","to":"latest"}`, "updateAcl": `{"effect":"allow"}`,
			"createAcl":    `{"effect":"allow","principal":"*","resource":"topic","pattern":"*","operations":["PUB"]}`,
			"updateMember": `{"role":"viewer"}`, "updateIdentityProvider": `{"enabled":false}`, "updateWorkloadIdentity": `{"enabled":false}`, "verifyIdentityDomain": `{"domain":"b.example"}`,
			"updateRole": `{"name":"mine"}`, "updateRoleBinding": `{"expires_at":null}`,
			"unlinkIdentity": `{"user_id":"` + other.Id + `"}`,
			"testAcl":        `{"principal":"` + a.ApiKey.Id + `","operation":"PUB","resource":"topic","name":"hello"}`,
		}
		tried := 0
		for _, op := range s.srv.ops {
			if !strings.Contains(op.path, "{") || op.path == "/errors/{code}" {
				continue
			}
			id := b.ApiKey.Id
			if strings.Contains(op.path, "service-accounts") {
				id = account.Id
			} else if strings.Contains(op.path, "/workload-identities/") {
				id = workload.Id
			} else if strings.Contains(op.path, "/identity-providers/") {
				id = provider.Id
			} else if strings.Contains(op.path, "/acls/") {
				id = rule.Id
			} else if strings.Contains(op.path, "/members/") {
				id = other.Id
			} else if strings.Contains(op.path, "/invitations/{id}") {
				id = invitation.Id
			} else if strings.Contains(op.path, "/roles/{id}") {
				id = custom.Id
			} else if strings.Contains(op.path, "/role-bindings/{id}") {
				id = binding.Id
			}
			path := strings.NewReplacer("{ns}", b.NamespaceId, "{topic}", "hello", "{group}", "hello-group", "{id}", id).Replace(op.path)
			path += map[string]string{"getClientConfig": "?language=go", "listAccess": "?resource=topic&name=hello"}[op.id]
			status, problem, _ := s.raw(op.route.Method, path, "Bearer "+a.AccessToken, bodies[op.id])
			if status != http.StatusNotFound || problem.Code != "not_found" {
				t.Errorf("%s: got %d %s (%s), want 404", op.id, status, problem.Code, problem.Detail)
			}
			if strings.Contains(problem.Detail, "b@example.com") {
				t.Errorf("%s tells of the other tenant: %s", op.id, problem.Detail)
			}
			tried++
		}
		if tried < 24 {
			t.Errorf("only %d operations tried", tried)
		}
		// Ids of another tenant inside a body are as absent as made-up ones.
		for field, in := range map[string]api.RoleBindingCreate{
			"principal_id":       {PrincipalId: account.Id, Role: "viewer", Scope: api.RoleScope{Kind: "tenant"}},
			"role":               {PrincipalId: mine.Id, Role: custom.Id, Scope: api.RoleScope{Kind: "tenant"}},
			"scope.namespace_id": {PrincipalId: mine.Id, Role: "viewer", Scope: api.RoleScope{Kind: "namespace", NamespaceId: &b.NamespaceId}},
		} {
			_, err = apiclient.Created(a.sdk.CreateRoleBindingWithResponse(t.Context(), nil, in))
			var p *apiclient.Error
			if !errors.As(err, &p) || p.Status != 400 || *p.Field != field {
				t.Errorf("%s of another tenant: %v", field, err)
			}
		}
		scope := []api.ApiKeyScope{{NamespaceId: b.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}
		_, err = apiclient.Created(a.sdk.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: "x", Scopes: &scope}))
		wantProblem(t, err, http.StatusBadRequest, "invalid")
		role := api.ControlRole("viewer")
		_, err = apiclient.Created(a.sdk.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: "x", OwnerId: &account.Id, ControlRole: &role}))
		wantProblem(t, err, http.StatusBadRequest, "invalid")

		after, err := s.source.Desired(t.Context())
		check(t, err)
		if before.Sequence != after.Sequence {
			t.Errorf("%d changes went through", after.Sequence-before.Sequence)
		}
		// Lists hold own objects alone.
		namespaces, err := apiclient.OK(a.sdk.ListNamespacesWithResponse(t.Context(), nil))
		check(t, err)
		keys, err := apiclient.OK(a.sdk.ListApiKeysWithResponse(t.Context(), nil))
		check(t, err)
		members, err := apiclient.OK(a.sdk.ListMembersWithResponse(t.Context(), nil))
		check(t, err)
		accounts, err := apiclient.OK(a.sdk.ListServiceAccountsWithResponse(t.Context(), nil))
		check(t, err)
		if len(namespaces.Items) != 1 || len(keys.Items) != 1 || len(members.Items) != 1 || len(accounts.Items) != 0 {
			t.Errorf("lists: %d namespaces, %d keys, %d members, %d accounts", len(namespaces.Items), len(keys.Items), len(members.Items), len(accounts.Items))
		}
	})
}

// OWASP API5: TestOWASP_API5_operationsByRole walks all operations with each role: what the table does
// not grant is 403, what it grants is anything else.
func TestOWASP_API5_operationsByRole(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	for _, role := range []string{"admin", "developer", "viewer", "billing"} {
		r := api.ControlRole(role)
		account, err := apiclient.Created(p.sdk.CreateServiceAccountWithResponse(t.Context(), nil, api.ServiceAccountCreate{Name: role}))
		check(t, err)
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: role, OwnerId: &account.Id, ControlRole: &r}))
		check(t, err)
		for _, op := range s.srv.ops {
			if op.permission == auth.PermissionPublic || op.id == "tailMessages" {
				continue
			}
			granted := op.permission == auth.PermissionSelf || slices.Contains(auth.Roles()[tenant.Role(role)], op.permission)
			path := strings.NewReplacer("{ns}", "nsxxxxxxxxxx", "{topic}", "x", "{group}", "x", "{id}", "x").Replace(op.path)
			req, err := http.NewRequestWithContext(t.Context(), op.route.Method, s.server.URL+path, strings.NewReader(`{`))
			check(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.SetBasicAuth(key.Id, key.Secret)
			resp, err := http.DefaultClient.Do(req)
			check(t, err)
			check(t, resp.Body.Close())
			if refused := resp.StatusCode == http.StatusForbidden; refused == granted {
				t.Errorf("%s %s: status %d, granted %v", role, op.id, resp.StatusCode, granted)
			}
		}
	}
}

// A dry run of whatever offers one changes nothing that its owner can see.
func TestDryRun_changesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		own := s.things(p, "own-things")
		before, n := s.state(p, own), 0
		for _, op := range s.inOrder() {
			if !op.query["dry_run"] {
				continue
			}
			var body any
			if _, example := bodyOf(op); example != nil {
				body = example
			}
			status, text := s.answerOf(p, op.route.Method, own.called(op, url.Values{"dry_run": {"true"}}), body)
			if status >= 300 {
				continue
			}
			n++
			s.unchanged(before, s.state(p, own))
			if t.Failed() {
				t.Fatalf("by a dry run of %s: %d %s", op.id, status, text)
			}
		}
		t.Logf("%d dry runs went through", n)
		if n < 20 {
			t.Errorf("only %d dry runs went through", n)
		}
	})
}
