package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// OWASP API1: objects of a person are absent for a colleague, the owner of the
// tenant among them. What belongs to a tenant, TestCrossTenant_everyOperation
// walks.
func TestOWASP_API1_objectsOfColleagues(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		ctx := t.Context()
		owner := s.signUp("ada@example.com")
		colleague, _ := s.colleague(owner, "bob@example.com", tenant.RoleDeveloper)
		factor, err := apiclient.Created(colleague.sdk.CreateMfaFactorWithResponse(ctx, nil, api.MfaFactorCreate{Name: "phone", Type: "totp"}))
		check(t, err)
		sessions, err := apiclient.OK(colleague.sdk.ListSessionsWithResponse(ctx, nil))
		check(t, err)
		ids := map[string]string{"/v1/sessions/": sessions.Items[0].Id, "/v1/me/mfa": factor.Id}
		tried := 0
		for _, op := range s.inOrder() {
			if op.permission != auth.PermissionSelf || !strings.Contains(op.path, "{id}") {
				continue
			}
			for prefix, id := range ids {
				if !strings.HasPrefix(op.path, prefix) {
					continue
				}
				tried++
				_, example := bodyOf(op)
				var body any
				if example != nil {
					body = example
				}
				if status, text := s.answerOf(owner, op.route.Method, strings.ReplaceAll(op.path, "{id}", id), body); status != http.StatusNotFound {
					t.Errorf("%s: got %d, want 404; %.300s", op.id, status, text)
				}
			}
		}
		if tried < 3 {
			t.Errorf("only %d operations tried", tried)
		}
		left, err := apiclient.OK(colleague.sdk.ListSessionsWithResponse(ctx, nil))
		check(t, err)
		if len(left.Items) != len(sessions.Items) {
			t.Errorf("%d sessions are left of %d", len(left.Items), len(sessions.Items))
		}
	})
}

// OWASP API4: what a request may cost is bounded: its body, query, page and
// depth. How often it may come, and what mails it may cause, TestLimits shows.
func TestOWASP_API4_requestsAreBounded(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	own, n := s.things(p, "own-things"), 0
	expect := func(op *operation, what string, status, want int, text, wantField string) {
		t.Helper()
		n++
		if _, field := problemIn(text); status != want || field != wantField && !op.oauth {
			t.Errorf("%s, %s: got %d %q, want %d %q; %.300s", op.id, what, status, field, want, wantField, text)
		}
	}
	send := func(op *operation, body string) (int, string) {
		kind := "application/json"
		if op.oauth {
			kind = "application/x-www-form-urlencoded"
		}
		status, problem, _ := s.raw(op.route.Method, own.called(op, nil), "Bearer "+p.AccessToken, body, "Content-Type", kind)
		field := ""
		if problem.Field != nil {
			field = *problem.Field
		}
		return status, `{"field":"` + field + `"}`
	}
	for _, op := range s.inOrder() {
		if op.tag == "billing" {
			continue
		}
		if op.route.Operation.RequestBody != nil {
			limit := maxBodySmall
			if op.id == "sendMessage" {
				limit = maxBody
			}
			status, text := send(op, `{"x":"`+strings.Repeat("x", limit)+`"}`)
			expect(op, "a body over the limit", status, http.StatusRequestEntityTooLarge, text, "body")
			if !op.oauth {
				status, text = send(op, strings.Repeat("[", 200_000))
				expect(op, "brackets without end", status, http.StatusBadRequest, text, "body")
			}
		}
		status, text := s.answerOf(p, op.route.Method, own.called(op, nil)+"?q="+strings.Repeat("x", maxQuery), nil)
		if op.id != "getClientConfig" && op.id != "listAccess" { // whose path has a query already
			expect(op, "a query over the limit", status, http.StatusBadRequest, text, "query")
		}
		if op.query["page_size"] {
			status, text := s.answerOf(p, op.route.Method, own.called(op, url.Values{"page_size": {"1001"}}), nil)
			expect(op, "a page over the limit", status, http.StatusBadRequest, text, "query.page_size")
		}
	}
	t.Logf("%d requests", n)
	if n < 150 {
		t.Errorf("only %d requests", n)
	}
}

// Every text, list and map that a request may hold has a limit in the contract.
func TestOWASP_API4_everyFieldHasALimit(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	n := 0
	var walk func(op *operation, at string, schema *openapi3.Schema)
	walk = func(op *operation, at string, schema *openapi3.Schema) {
		n++
		bounded := schema.MaxLength != nil || len(schema.Enum) > 0 || schema.Format == "date-time" || schema.Format == "date" ||
			schema.Pattern != "" && !strings.ContainsAny(strings.ReplaceAll(schema.Pattern, `\*`, ""), "*+")
		switch {
		case schema.Type.Is("string") && !bounded:
			t.Errorf("%s: %s is a text of any length", op.id, at)
		case schema.Type.Is("array"):
			if schema.MaxItems == nil {
				t.Errorf("%s: %s is a list of any length", op.id, at)
			}
			walk(op, at+"[]", schema.Items.Value)
		case (schema.Type.Is("integer") || schema.Type.Is("number")) && (schema.Max == nil || schema.Min == nil):
			t.Errorf("%s: %s is a number of any size", op.id, at)
		case schema.AdditionalProperties.Schema != nil && schema.MaxProps == nil:
			t.Errorf("%s: %s is a map of any size", op.id, at)
		}
		for name, p := range schema.Properties {
			walk(op, at+"."+name, p.Value)
		}
	}
	for _, op := range s.inOrder() {
		if b := op.route.Operation.RequestBody; b != nil {
			for _, media := range b.Value.Content {
				walk(op, "body", media.Schema.Value)
			}
		}
		for _, p := range op.route.Operation.Parameters {
			walk(op, p.Value.In+"."+p.Value.Name, p.Value.Schema.Value)
		}
	}
	t.Logf("%d fields and parameters", n)
}

// OWASP API6: keys and accounts cannot be minted in a loop: the plan ends it, by
// rotation too, and what is deleted makes room for as much again.
func TestOWASP_API6_keysAreNotMintedInALoop(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		ctx := t.Context()
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		role := api.ControlRole("viewer")
		mint := func(p person) (api.ApiKeyWithSecret, error) {
			return apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: &role}))
		}
		var last api.ApiKeyWithSecret
		n := 0
		for ; n < 2000; n++ {
			k, err := mint(p)
			if err != nil {
				wantProblem(t, err, http.StatusForbidden, "quota_exceeded")
				break
			}
			last = k
		}
		if n == 2000 {
			t.Fatal("keys without end")
		}
		_, err := apiclient.Created(p.sdk.RotateApiKeyWithResponse(ctx, last.Id, nil, api.ApiKeyRotate{GracePeriod: ptr("1h")}))
		wantProblem(t, err, http.StatusForbidden, "quota_exceeded")
		_, err = p.sdk.DeleteApiKeyWithResponse(ctx, last.Id, nil)
		check(t, err)
		_, err = mint(p)
		check(t, err)
		_, err = mint(p)
		wantProblem(t, err, http.StatusForbidden, "quota_exceeded")
		_, err = mint(other) // another tenant has a plan of its own
		check(t, err)
		t.Logf("%d keys, then no more", n)
	})
}

// OWASP API8: every answer has the headers that keep browsers from harm, other
// origins are let in nowhere, and what is for operators is not here.
func TestOWASP_API8_publicListener(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	for _, c := range []struct {
		method, path, token string
	}{
		{"GET", "/v1/me", "Bearer " + p.AccessToken}, {"GET", "/v1/me", ""}, {"GET", "/v1/nothing", ""}, {"PUT", "/v1/me", ""}, {"OPTIONS", "/v1/me", ""}, {"TRACE", "/v1/me", ""},
		{"HEAD", "/v1/me", ""}, {"GET", "/", ""}, {"GET", "/assets/app-1.js", ""}, {"GET", "/errors/not_found", ""}, {"GET", "/.well-known/jwks.json", ""},
		{"GET", "/debug/pprof/", ""}, {"GET", "/debug/vars", ""}, {"GET", "/metrics", ""}, {"GET", "/openapi.yaml", ""}, {"GET", "/.git/config", ""}, {"GET", "/.env", ""}, {"GET", "/assets/../../etc/passwd", ""},
		{"POST", "/v1/operator/tenants/" + p.TenantId + "/actions/suspend", "Bearer " + p.AccessToken},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.server.URL+c.path, nil)
		check(t, err)
		req.Header.Set("Origin", "https://evil.example")
		req.Header.Set("Access-Control-Request-Method", "DELETE")
		if c.token != "" {
			req.Header.Set("Authorization", c.token)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		check(t, err)
		text := make([]byte, 1<<16)
		size, _ := resp.Body.Read(text)
		check(t, resp.Body.Close())
		what := c.method + " " + c.path
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", what, name, got, want)
			}
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: Content-Security-Policy is %q", what, csp)
		}
		for name := range resp.Header {
			if strings.HasPrefix(name, "Access-Control-") || name == "Server" || name == "X-Powered-By" {
				t.Errorf("%s: header %s: %s", what, name, resp.Header.Get(name))
			}
		}
		if strings.HasPrefix(c.path, "/v1/") && resp.Header.Get("Cache-Control") != "no-store" && resp.StatusCode < 400 {
			t.Errorf("%s may be cached", what)
		}
		for _, sign := range []string{"goroutine profile", "go_gc_duration", "cmdline", "root:x:", "[core]", "runtime."} {
			if strings.Contains(string(text[:size]), sign) {
				t.Errorf("%s shows %q", what, sign)
			}
		}
		if (c.method == "OPTIONS" || c.method == "TRACE" || strings.HasPrefix(c.path, "/v1/operator")) && resp.StatusCode < 400 {
			t.Errorf("%s answers %d", what, resp.StatusCode)
		}
	}
}
