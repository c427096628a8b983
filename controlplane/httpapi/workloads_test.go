package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/oidctest"
	"github.com/sluicemq/sluice/tenant"
)

const workAudience = "https://sluice.example.com/work"

// exchange asks for a token and returns the answer.
func (s *system) exchange(form url.Values) (int, map[string]any) {
	s.t.Helper()
	resp, err := http.PostForm(s.server.URL+"/v1/auth/token", form) //nolint:noctx // a test
	check(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check(s.t, err)
	var out map[string]any
	check(s.t, json.Unmarshal(text, &out))
	return resp.StatusCode, out
}

func exchangeForm(id, token, audience string) url.Values {
	return url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "client_id": {id}, "subject_token": {token},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"}, "audience": {audience}}
}

type worker struct {
	*sso
	owner   person
	client  oidctest.Client
	account api.ServiceAccount
	id      api.WorkloadIdentity
}

func newWorker(t *testing.T, s *sso) *worker {
	t.Helper()
	w := &worker{sso: s, owner: s.signUp("ada@acme.example")}
	w.client = s.op.Register(t, map[string]any{"redirect_uris": []string{}, "response_types": []string{}, "grant_types": []string{"client_credentials"}})
	var err error
	w.account, err = apiclient.Created(w.owner.sdk.CreateServiceAccountWithResponse(t.Context(), nil, api.ServiceAccountCreate{Name: "ci"}))
	check(t, err)
	w.id, err = apiclient.Created(w.owner.sdk.CreateWorkloadIdentityWithResponse(t.Context(), nil, api.WorkloadIdentityCreate{
		Name: "deploy", Issuer: s.op.Issuer, Audience: workAudience, Subject: w.client.ID, Conditions: &api.ClaimConditions{"scope": "work"}, ServiceAccountId: w.account.Id,
		ControlRole: ptr(api.ControlRole("viewer")), MaxTtl: ptr("5m"),
		Scopes: &[]api.ApiKeyScope{{NamespaceId: w.owner.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}},
	}))
	check(t, err)
	return w
}

func (w *worker) token() string { return w.op.WorkloadToken(w.t, w.client, workAudience) }

func TestWorkload_exchangesATokenOfARealIssuer(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		w := newWorker(t, s)
		token := w.token()
		status, out := s.exchange(exchangeForm(w.id.Id, token, "control"))
		if status != 200 || out["expires_in"] != 300.0 || out["issued_token_type"] != issuedToken || out["audience"] != "control" {
			t.Fatalf("%d %v", status, out)
		}
		sdk, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: out["access_token"].(string), MaxRetries: -1})
		check(t, err)
		me, err := apiclient.OK(sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		if me.Id != w.account.Id || me.Role != "viewer" || me.TenantId != w.owner.TenantId || *me.ApiKeyId != w.id.KeyId {
			t.Errorf("the program is %+v", me)
		}
		// Once for each audience.
		if status, out := s.exchange(exchangeForm(w.id.Id, token, "data")); status != 200 || out["audience"] != "data" {
			t.Errorf("audience data: %d %v", status, out)
		}
		for _, audience := range []string{"control", "data"} {
			if status, out := s.exchange(exchangeForm(w.id.Id, token, audience)); status != 400 || out["error"] != "invalid_grant" {
				t.Errorf("a replay for %s: %d %v", audience, status, out)
			}
		}
		// Switched off: our tokens end at once, the key of brokers is disabled.
		_, err = apiclient.OK(w.owner.sdk.UpdateWorkloadIdentityWithResponse(t.Context(), w.id.Id, nil, api.WorkloadIdentityUpdate{Enabled: ptr(false)}))
		check(t, err)
		_, err = apiclient.OK(sdk.GetMeWithResponse(t.Context()))
		wantProblem(t, err, 401, "key_disabled")
		if status, out := s.exchange(exchangeForm(w.id.Id, w.token(), "control")); status != 400 || out["error"] != "invalid_grant" {
			t.Errorf("while off: %d %v", status, out)
		}
		if got := w.brokers(); got != "disabled" {
			t.Errorf("brokers have the key as %s", got)
		}
		_, err = apiclient.OK(w.owner.sdk.UpdateWorkloadIdentityWithResponse(t.Context(), w.id.Id, nil, api.WorkloadIdentityUpdate{Enabled: ptr(true)}))
		check(t, err)
		_, err = apiclient.OK(sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		check(t, apiclient.Done(w.owner.sdk.DeleteWorkloadIdentityWithResponse(t.Context(), w.id.Id, nil)))
		_, err = apiclient.OK(sdk.GetMeWithResponse(t.Context()))
		wantProblem(t, err, 401, "key_revoked")
		if got := w.brokers(); got != "revoked" {
			t.Errorf("brokers have the key as %s", got)
		}
	})
}

// brokers tells in which state brokers get the key of the workload identity.
func (w *worker) brokers() tenant.KeyState {
	w.t.Helper()
	d, err := w.source.Desired(w.t.Context())
	check(w.t, err)
	for _, k := range d.Keys {
		if k.ID == w.id.KeyId {
			return k.State
		}
	}
	return "absent"
}

func TestWorkload_OWASP_API2_tokensMustFit(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		w := newWorker(t, s)
		other := s.op.Register(t, map[string]any{"redirect_uris": []string{}, "response_types": []string{}, "grant_types": []string{"client_credentials"}})
		set := func(name string, values ...string) func(url.Values) {
			return func(f url.Values) {
				if f.Del(name); len(values) > 0 {
					f[name] = values
				}
			}
		}
		cut := func(token string) string { return token[:strings.LastIndexByte(token, '.')+1] }
		for name, c := range map[string]struct {
			change func(url.Values)
			status int
			code   string
		}{
			"another subject": {func(f url.Values) { f.Set("subject_token", s.op.WorkloadToken(t, other, workAudience)) }, 400, "invalid_grant"},
			"another audience": {func(f url.Values) {
				f.Set("subject_token", s.op.WorkloadToken(t, w.client, "https://other.example.com"))
			}, 400, "invalid_grant"},
			"no signature":     {func(f url.Values) { f.Set("subject_token", cut(w.token())) }, 400, "invalid_grant"},
			"a token of ours":  {func(f url.Values) { f.Set("subject_token", w.owner.AccessToken) }, 400, "invalid_grant"},
			"no token":         {func(f url.Values) { f.Set("subject_token", "x") }, 400, "invalid_grant"},
			"unknown identity": {set("client_id", "wid_01JAB3CD4EF5GH6JK7MN8PQ9RS"), 400, "invalid_grant"},
			"a key id":         {set("client_id", w.owner.ApiKey.Id), 400, "invalid_grant"},
			"the hidden key":   {set("client_id", w.id.KeyId), 400, "invalid_grant"},
			"a secret":         {set("client_secret", "x"), 400, "invalid_request"},
			"no type":          {set("subject_token_type"), 400, "invalid_request"},
			"no client":        {set("client_id"), 400, "invalid_request"},
			"the other grant":  {set("grant_type", "client_credentials"), 400, "invalid_request"},
		} {
			form := exchangeForm(w.id.Id, w.token(), "control")
			c.change(form)
			if status, out := s.exchange(form); status != c.status || out["error"] != c.code {
				t.Errorf("%s: %d %v", name, status, out)
			}
		}
		// A claim that does not fit, and a scope that is not there.
		_, err := apiclient.OK(w.owner.sdk.UpdateWorkloadIdentityWithResponse(t.Context(), w.id.Id, nil, api.WorkloadIdentityUpdate{Conditions: &api.ClaimConditions{"ref": "refs/heads/main"}}))
		check(t, err)
		if status, out := s.exchange(exchangeForm(w.id.Id, w.token(), "control")); status != 400 || !strings.Contains(out["error_description"].(string), "claim ref") {
			t.Errorf("a claim that is missing: %d %v", status, out)
		}
		_, err = apiclient.OK(w.owner.sdk.UpdateWorkloadIdentityWithResponse(t.Context(), w.id.Id, nil, api.WorkloadIdentityUpdate{Conditions: &api.ClaimConditions{}, Scopes: &[]api.ApiKeyScope{}}))
		check(t, err)
		if status, out := s.exchange(exchangeForm(w.id.Id, w.token(), "data")); status != 400 || out["error"] != "unauthorized_client" {
			t.Errorf("audience data without a scope: %d %v", status, out)
		}
		// All that named the identity is in its tenant's audit log, as its key.
		log, key := s.log(w.owner.TenantId), w.id.KeyId
		wantLogged(t, log, logged{w.account.Id, key, "createToken", "api_key", key, "identity_token_invalid"}, 6)
		wantLogged(t, log, logged{w.account.Id, key, "createToken", "api_key", key, "key_without_scope"}, 1)
	})
}

// The key behind a workload identity is seen, and changed by nobody else; no
// secret opens it.
func TestWorkload_keyIsManaged(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		w := newWorker(t, s)
		bearer := "Bearer " + w.owner.AccessToken
		key := "/v1/api-keys/" + w.id.KeyId
		got, err := apiclient.OK(w.owner.sdk.GetApiKeyWithResponse(t.Context(), w.id.KeyId))
		check(t, err)
		if got.WorkloadIdentityId == nil || *got.WorkloadIdentityId != w.id.Id || got.Hint != "" || got.OwnerId != w.account.Id {
			t.Errorf("the key is %+v", got)
		}
		for _, c := range [][3]string{{"PATCH", key, `{"disabled":false}`}, {"DELETE", key, ""}, {"POST", key + "/actions/rotate", `{}`}, {"POST", key + "/actions/revoke", ""}} {
			if status, problem, _ := s.raw(c[0], c[1], bearer, c[2]); status != 409 || problem.Code != "key_managed" {
				t.Errorf("%s %s: %d %s", c[0], c[1], status, problem.Code)
			}
		}
		for _, secret := range []string{"", "x", tenant.NewSecret()} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", s.server.URL+"/v1/me", nil)
			check(t, err)
			req.SetBasicAuth(w.id.KeyId, secret)
			resp, err := http.DefaultClient.Do(req)
			check(t, err)
			check(t, resp.Body.Close())
			if resp.StatusCode != 401 {
				t.Errorf("secret %q: %d", secret, resp.StatusCode)
			}
		}
		// Bad input names its field.
		for body, field := range map[string]string{
			`{"subject":"*"}`: "subject", `{"subject":"a*b*"}`: "subject", `{"subject":""}`: "subject", `{"max_ttl":"16m"}`: "max_ttl", `{"max_ttl":"30s"}`: "max_ttl",
			`{"max_ttl":"1h"}`: "max_ttl", `{"issuer":"http://example.com"}`: "issuer", `{"conditions":{"a b":"x"}}`: "conditions", `{"conditions":{"a":"*"}}`: "conditions.a",
			`{"scopes":[{"namespace_id":"nsxxxxxxxxxx","permissions":["PUB"]}]}`: "scopes[0].namespace_id", `{"control_role":"admin"}`: "control_role", `{"tenant_id":"x"}`: "tenant_id",
		} {
			status, problem, _ := s.raw("PATCH", "/v1/workload-identities/"+w.id.Id, bearer, body)
			if status != 400 || problem.Field == nil || *problem.Field != field {
				t.Errorf("%s: %d %+v", body, status, problem)
			}
		}
		// With the account goes all of it.
		check(t, apiclient.Done(w.owner.sdk.DeleteServiceAccountWithResponse(t.Context(), w.account.Id, nil)))
		list, err := apiclient.OK(w.owner.sdk.ListWorkloadIdentitiesWithResponse(t.Context(), nil))
		check(t, err)
		if len(list.Items) != 0 || w.brokers() != "revoked" {
			t.Errorf("%d identities are left, the key is %s", len(list.Items), w.brokers())
		}
	})
}
