package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/oidctest"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// txtRecords is DNS.
type txtRecords struct {
	mu      sync.Mutex
	records map[string][]string // guarded by mu
}

func (d *txtRecords) LookupTXT(_ context.Context, name string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, ok := d.records[name]; ok {
		return r, nil
	}
	return nil, errors.New("no such host")
}

func (d *txtRecords) set(name, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.records == nil {
		d.records = map[string][]string{}
	}
	d.records[name] = []string{"v=spf1 -all", value}
}

// sso is a system with a real OpenID provider. The clock is right: tokens of
// the provider have real times.
type sso struct {
	*system
	op     *oidctest.Provider
	client oidctest.Client
	token  string // of the session that began last
}

func newSSO(t *testing.T, driver sqldb.Driver) *sso {
	t.Helper()
	s := &sso{system: newSystem(t, driver), op: oidctest.Start(t)}
	s.clock.mu.Lock()
	s.clock.t = time.Now().UTC().Truncate(time.Millisecond)
	s.clock.mu.Unlock()
	check(t, s.auth.RotateKeys(t.Context()))
	s.client = s.op.Register(t, map[string]any{
		"redirect_uris": []string{s.server.URL + callbackPath}, "backchannel_logout_uri": s.server.URL + logoutPath, "backchannel_logout_session_required": true,
	})
	return s
}

func eachSSO(t *testing.T, test func(t *testing.T, s *sso)) {
	t.Helper()
	for _, d := range []sqldb.Driver{sqldb.SQLite, sqldb.MySQL} {
		t.Run(string(d), func(t *testing.T) { test(t, newSSO(t, d)) })
	}
}

// provider names the OpenID provider as one of p's tenant.
func (s *sso) provider(sdk *apiclient.SDK, change ...func(*api.IdentityProviderCreate)) api.IdentityProvider {
	s.t.Helper()
	in := api.IdentityProviderCreate{Name: "staff", Issuer: s.op.Issuer, ClientId: s.client.ID, ClientSecret: &s.client.Secret, Domains: &[]api.DomainName{"acme.example"}, AutoEnrolRole: ptr(api.AutoEnrolRole("viewer"))}
	for _, f := range change {
		f(&in)
	}
	out, err := apiclient.Created(sdk.CreateIdentityProviderWithResponse(s.t.Context(), nil, in))
	check(s.t, err)
	return out
}

func (s *sso) verify(sdk *apiclient.SDK, p api.IdentityProvider) {
	s.t.Helper()
	s.dns.set(p.Domains[0].TxtName, p.Domains[0].TxtValue)
	_, err := apiclient.OK(sdk.VerifyIdentityDomainWithResponse(s.t.Context(), p.Id, nil, api.VerifyIdentityDomain{Domain: p.Domains[0].Domain}))
	check(s.t, err)
}

// browser is one at us.
func newWeb(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check(t, err)
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// start begins a sign-in in a browser and returns where to go.
func (s *sso) start(web *http.Client, body string) string {
	s.t.Helper()
	status, text, _ := send(s.t, web, "POST", s.server.URL+"/v1/auth/sso/start", body)
	var out api.SsoStarted
	if status != 200 || json.Unmarshal(text, &out) != nil {
		s.t.Fatalf("start: %d %s", status, text)
	}
	return out.AuthorizationUrl
}

func send(t *testing.T, web *http.Client, method, at, body string) (int, []byte, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	check(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := web.Do(req)
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, text, resp.Header
}

// signedIn is the page of the console that a sign-in ends at.
const signedIn = "/sign-in"

// back brings the browser back from the provider and returns where we send it.
func (s *sso) back(web *http.Client, to *url.URL) string {
	s.t.Helper()
	status, text, h := send(s.t, web, "GET", to.String(), "")
	if status != http.StatusSeeOther {
		s.t.Fatalf("callback: %d %s", status, text)
	}
	where, _, _ := strings.Cut(h.Get("Location"), "?")
	return where
}

// session signs a person in at the provider and returns the session, or the
// problem's page.
func (s *sso) session(tenantID, login string) (*apiclient.SDK, *http.Client, string) {
	s.t.Helper()
	web := newWeb(s.t)
	to := s.op.NewBrowser(s.t).SignIn(s.t, s.start(web, `{"tenant_id":"`+tenantID+`"}`), login)
	if where := s.back(web, to); where != signedIn {
		return nil, web, where
	}
	sdk, err := s.refreshed(web)
	check(s.t, err)
	return sdk, web, signedIn
}

func (s *sso) refreshed(web *http.Client) (*apiclient.SDK, error) {
	b, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, HTTP: web, MaxRetries: -1})
	check(s.t, err)
	ses, err := apiclient.OK(b.RefreshSessionWithResponse(s.t.Context(), nil))
	if err != nil {
		return nil, err
	}
	s.token = "Bearer " + ses.AccessToken
	return apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: ses.AccessToken, MaxRetries: -1})
}

func TestSSO_signsInAtARealProvider(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		owner := s.signUp("ada@acme.example")
		p := s.provider(owner.sdk)
		if p.HasClientSecret != true || !p.OwnerApproved || p.Domains[0].VerifiedAt != nil || p.RedirectUri != s.server.URL+callbackPath {
			t.Errorf("provider %+v", p)
		}
		text, _ := json.Marshal(p)
		if bytes.Contains(text, []byte(s.client.Secret)) {
			t.Error("the client's secret is shown")
		}
		// Not verified: nobody is enrolled, and the address of somebody leads nowhere.
		if _, _, where := s.session(owner.TenantId, "bob@acme.example"); where != "/errors/sso_not_member" {
			t.Errorf("bob was sent to %s", where)
		}
		if status, problem, _ := s.raw("POST", "/v1/auth/sso/start", "", `{"email":"ada@acme.example"}`); status != 404 || problem.Code != "sso_not_available" {
			t.Errorf("start by an unverified domain: %d %s", status, problem.Code)
		}
		_, err := apiclient.OK(owner.sdk.VerifyIdentityDomainWithResponse(t.Context(), p.Id, nil, api.VerifyIdentityDomain{Domain: "acme.example"}))
		wantProblem(t, err, 409, "domain_not_verified")
		s.dns.set(p.Domains[0].TxtName, "sluice-domain-verification=of-another")
		_, err = apiclient.OK(owner.sdk.VerifyIdentityDomainWithResponse(t.Context(), p.Id, nil, api.VerifyIdentityDomain{Domain: "acme.example"}))
		wantProblem(t, err, 409, "domain_not_verified")
		s.verify(owner.sdk, p)

		// Somebody new is enrolled; the tenant is found by the address.
		web := newWeb(t)
		to := s.op.NewBrowser(t).SignIn(t, s.start(web, `{"email":"anybody@ACME.example"}`), "bob@acme.example")
		if where := s.back(web, to); where != signedIn {
			t.Fatalf("bob was sent to %s", where)
		}
		bob, err := s.refreshed(web)
		check(t, err)
		me, err := apiclient.OK(bob.GetMeWithResponse(t.Context()))
		check(t, err)
		if me.Role != "viewer" || me.TenantId != owner.TenantId || *me.Email != "bob@acme.example" || me.Name != "Name of bob@acme.example" {
			t.Errorf("bob is %+v", me)
		}
		// The owner is linked by the verified address, and stays who she is.
		ada, _, where := s.session(owner.TenantId, "ada@acme.example")
		if where != signedIn {
			t.Fatalf("ada was sent to %s", where)
		}
		me, err = apiclient.OK(ada.GetMeWithResponse(t.Context()))
		check(t, err)
		if me.Role != "owner" {
			t.Errorf("ada is %+v", me)
		}
		// Addresses of other domains are not enrolled, unverified ones nobody.
		for login, want := range map[string]string{"eve@evil.example": "/errors/sso_not_member", "unverified.carl@acme.example": "/errors/sso_email_unverified"} {
			if _, _, where := s.session(owner.TenantId, login); where != want {
				t.Errorf("%s was sent to %s, want %s", login, where, want)
			}
		}
		// The session ends after 12 hours, however often it is used.
		for range 12 {
			if _, err := s.refreshed(web); err != nil {
				t.Fatal(err)
			}
			s.clock.add(time.Hour)
		}
		if _, err := s.refreshed(web); err == nil {
			t.Error("a session lives for more than 12 hours")
		}
	})
}

// A state belongs to one browser, works once, and runs out; the answer of
// another provider is none.
func TestSSO_OWASP_API2_answersAreBoundToTheBrowser(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		owner := s.signUp("ada@acme.example")
		s.verify(owner.sdk, s.provider(owner.sdk))
		begin := func(web *http.Client) *url.URL {
			return s.op.NewBrowser(t).SignIn(t, s.start(web, `{"tenant_id":"`+owner.TenantId+`"}`), "bob@acme.example")
		}
		const bad = "/errors/sso_state_invalid"
		mine, other := newWeb(t), newWeb(t)
		to := begin(mine)
		if where := s.back(other, to); where != bad {
			t.Errorf("another browser was sent to %s", where)
		}
		if where := s.back(mine, to); where != bad {
			t.Errorf("a state that another browser used up worked: %s", where)
		}
		// Another browser with a sign-in of its own.
		to = begin(mine)
		s.start(other, `{"tenant_id":"`+owner.TenantId+`"}`)
		if where := s.back(other, to); where != bad {
			t.Errorf("another browser with a cookie was sent to %s", where)
		}
		to = begin(mine)
		if where := s.back(mine, to); where != signedIn {
			t.Fatalf("sent to %s", where)
		}
		if where := s.back(mine, to); where != bad {
			t.Errorf("a replay was sent to %s", where)
		}
		// The code of another sign-in (code injection): nonce and PKCE do not fit.
		a, b := begin(newWeb(t)), begin(mine)
		q := b.Query()
		q.Set("code", a.Query().Get("code"))
		b.RawQuery = q.Encode()
		if where := s.back(mine, b); where != "/errors/identity_token_invalid" {
			t.Errorf("a foreign code was sent to %s", where)
		}
		// Mix-up: the answer says that it is another provider's.
		b = begin(mine)
		q = b.Query()
		q.Set("iss", "https://other.example")
		b.RawQuery = q.Encode()
		if where := s.back(mine, b); where != "/errors/identity_token_invalid" {
			t.Errorf("another issuer was sent to %s", where)
		}
		b = begin(mine)
		s.clock.add(11 * time.Minute)
		if where := s.back(mine, b); where != bad {
			t.Errorf("after 11 minutes: sent to %s", where)
		}
		// What the provider adds does not matter, what it refuses does.
		to, _ = url.Parse(s.start(mine, `{"tenant_id":"`+owner.TenantId+`"}`))
		back, _ := url.Parse(s.server.URL + callbackPath + "?error=access_denied&session_state=x&state=" + to.Query().Get("state"))
		if where := s.back(mine, back); where != "/errors/sso_denied" {
			t.Errorf("a refusal was sent to %s", where)
		}
	})
}

// Nobody leaves the tenant with a session of its provider: whoever runs a
// provider can be any of its members, and must not become them elsewhere.
func TestSSO_CrossTenant_sessionIsOneOfItsTenantAlone(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		ada, mallory := s.signUp("ada@acme.example"), s.signUp("mallory@evil.example")
		p := s.provider(mallory.sdk)
		// A stranger's address, though the provider says that it is verified.
		if _, _, where := s.session(mallory.TenantId, "ada@acme.example"); where != "/errors/sso_not_member" {
			t.Fatalf("a stranger was sent to %s", where)
		}
		// The domain is another's: mallory cannot prove it, ada can, then mallory not even with the record.
		own := s.provider(ada.sdk)
		s.verify(ada.sdk, own)
		s.dns.set(p.Domains[0].TxtName, p.Domains[0].TxtValue)
		_, err := apiclient.OK(mallory.sdk.VerifyIdentityDomainWithResponse(t.Context(), p.Id, nil, api.VerifyIdentityDomain{Domain: "acme.example"}))
		wantProblem(t, err, 409, "domain_taken")

		me, err := apiclient.OK(ada.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		check(t, s.tenants.AddMember(t.Context(), mallory.TenantId, me.Id, tenant.RoleViewer))
		there, _, where := s.session(mallory.TenantId, "ada@acme.example")
		if where != signedIn {
			t.Fatalf("a member was sent to %s", where)
		}
		got, err := apiclient.OK(there.GetMeWithResponse(t.Context()))
		check(t, err)
		if got.Id != me.Id || got.TenantId != mallory.TenantId || got.Role != "viewer" {
			t.Errorf("she is %+v", got)
		}
		if list := s.sessions(there); len(list) != 1 || !list[0].Current {
			t.Errorf("the session knows of %d sessions", len(list))
		}
		for _, ses := range s.sessions(ada.sdk) {
			if ses.TenantId == ada.TenantId {
				if status, problem, _ := s.raw("DELETE", "/v1/sessions/"+ses.Id, s.token, ""); status != 404 {
					t.Errorf("ending a session of another tenant: %d %s", status, problem.Code)
				}
			}
		}
		if status, problem, _ := s.raw("POST", "/v1/api-keys/"+ada.ApiKey.Id+"/actions/create-token", s.token, ""); status != 404 {
			t.Errorf("a token for a key in another tenant: %d %s", status, problem.Code)
		}
		// Whatever concerns the account is closed, also what is added later.
		may := map[string]bool{"getMe": true, "updateMe": true, "listSessions": true, "endSession": true, "createKeyToken": true}
		walked := 0
		for _, op := range s.srv.ops {
			if op.permission != "self" || may[op.id] {
				continue
			}
			walked++
			path := strings.NewReplacer("{id}", "x").Replace(op.path)
			if status, problem, _ := s.raw(op.route.Method, path, s.token, ""); status != 403 || problem.Code != "federated_session" {
				t.Errorf("%s: %d %s", op.id, status, problem.Code)
			}
		}
		if walked < 4 {
			t.Errorf("only %d operations walked", walked)
		}
	})
}

// An admin who names a provider of their own does not become owner by it.
func TestSSO_ownersNeedAProviderThatAnOwnerSaved(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		owner := s.signUp("ada@acme.example")
		account, err := apiclient.Created(owner.sdk.CreateServiceAccountWithResponse(t.Context(), nil, api.ServiceAccountCreate{Name: "admin"}))
		check(t, err)
		key, err := apiclient.Created(owner.sdk.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: "admin", OwnerId: &account.Id, ControlRole: ptr(api.ControlRole("admin"))}))
		check(t, err)
		admin, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, KeyID: key.Id, KeySecret: key.Secret, MaxRetries: -1})
		check(t, err)
		p := s.provider(admin)
		s.verify(admin, p)
		if _, _, where := s.session(owner.TenantId, "ada@acme.example"); where != "/errors/sso_owner_approval" {
			t.Fatalf("the owner was sent to %s", where)
		}
		p, err = apiclient.OK(owner.sdk.UpdateIdentityProviderWithResponse(t.Context(), p.Id, nil, api.IdentityProviderUpdate{Enabled: ptr(true)}))
		check(t, err)
		if _, _, where := s.session(owner.TenantId, "ada@acme.example"); where != signedIn || !p.OwnerApproved {
			t.Errorf("the owner was sent to %s, provider %+v", where, p)
		}
		p, err = apiclient.OK(admin.UpdateIdentityProviderWithResponse(t.Context(), p.Id, nil, api.IdentityProviderUpdate{ClientId: ptr("mine")}))
		check(t, err)
		if p.OwnerApproved {
			t.Error("an owner's approval outlives an admin's change")
		}
	})
}

// Nor does one who was let in by it before they became owner: a link that an
// admin's provider made is no key to what comes later.
func TestSSO_whoBecomesOwnerNeedsOneToo(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		owner := s.signUp("ada@acme.example")
		admin, _ := s.colleague(owner, "admin@example.com", tenant.RoleAdmin)
		_, id := s.colleague(owner, "grace@acme.example", tenant.RoleDeveloper)
		p := s.provider(admin.sdk)
		s.verify(admin.sdk, p)
		grace, _, where := s.session(owner.TenantId, "grace@acme.example")
		if where != signedIn {
			t.Fatalf("a developer was sent to %s", where)
		}
		_, err := apiclient.OK(owner.sdk.UpdateMemberWithResponse(t.Context(), id, nil, api.MemberUpdate{Role: "owner"}))
		check(t, err)
		_, err = apiclient.OK(grace.GetMeWithResponse(t.Context()))
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		if _, _, where := s.session(owner.TenantId, "grace@acme.example"); where != "/errors/sso_owner_approval" {
			t.Errorf("the new owner was sent to %s", where)
		}
		_, err = apiclient.OK(owner.sdk.UpdateIdentityProviderWithResponse(t.Context(), p.Id, nil, api.IdentityProviderUpdate{Enabled: ptr(true)}))
		check(t, err)
		if _, _, where := s.session(owner.TenantId, "grace@acme.example"); where != signedIn {
			t.Errorf("after an owner approved they were sent to %s", where)
		}
	})
}

// Complaint 36: who is signed out or removed at the provider is out here, at once.
func TestSSO_backchannelLogoutEndsSessionsAtOnce(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		owner := s.signUp("ada@acme.example")
		s.verify(owner.sdk, s.provider(owner.sdk))
		web, atOP := newWeb(t), s.op.NewBrowser(t)
		if where := s.back(web, atOP.SignIn(t, s.start(web, `{"tenant_id":"`+owner.TenantId+`"}`), "bob@acme.example")); where != signedIn {
			t.Fatal(where)
		}
		bob, err := s.refreshed(web)
		check(t, err)
		second, _, where := s.session(owner.TenantId, "bob@acme.example") // another browser, another session of the provider
		if where != signedIn {
			t.Fatal(where)
		}
		_, err = apiclient.OK(bob.GetMeWithResponse(t.Context()))
		check(t, err)
		atOP.SignOut(t, s.op)
		_, err = apiclient.OK(bob.GetMeWithResponse(t.Context()))
		wantProblem(t, err, 401, "session_invalid")
		if _, err := s.refreshed(web); err == nil {
			t.Error("the refresh token works on")
		}
		if _, err := apiclient.OK(second.GetMeWithResponse(t.Context())); err != nil {
			t.Errorf("the session of another browser ended, too: %v", err)
		}
		for _, token := range []string{"x", "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4IiwiYXVkIjoieSJ9.", "eyJhbGciOiJub25lIn0.eyJpc3MiOiI" + "x.y"} {
			resp, err := http.PostForm(s.server.URL+logoutPath, url.Values{"logout_token": {token}}) //nolint:noctx // a test
			check(t, err)
			check(t, resp.Body.Close())
			if resp.StatusCode != 400 {
				t.Errorf("%s: status %d", token, resp.StatusCode)
			}
		}
		// Switching the provider off ends what is left.
		list, err := apiclient.OK(owner.sdk.ListIdentityProvidersWithResponse(t.Context(), nil))
		check(t, err)
		_, err = apiclient.OK(owner.sdk.UpdateIdentityProviderWithResponse(t.Context(), list.Items[0].Id, nil, api.IdentityProviderUpdate{Enabled: ptr(false)}))
		check(t, err)
		_, err = apiclient.OK(second.GetMeWithResponse(t.Context()))
		wantProblem(t, err, 401, "session_invalid")
	})
}

// Demanded single sign-on: no password opens the tenant but an owner's; other
// tenants of the person, and API keys, are not touched.
func TestSSO_demanded(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		owner, bob := s.signUp("ada@acme.example"), s.signUp("bob@acme.example")
		demand := api.TenantUpdate{Security: &api.TenantSecurityUpdate{SsoRequired: ptr(true)}}
		_, err := apiclient.OK(owner.sdk.UpdateTenantWithResponse(t.Context(), nil, demand))
		wantProblem(t, err, 400, "sso_not_ready")
		p := s.provider(owner.sdk)
		_, err = apiclient.OK(owner.sdk.UpdateTenantWithResponse(t.Context(), nil, demand))
		wantProblem(t, err, 400, "sso_not_ready")
		s.verify(owner.sdk, p)
		me, err := apiclient.OK(bob.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		check(t, s.tenants.AddMember(t.Context(), owner.TenantId, me.Id, tenant.RoleDeveloper))
		// A password opens the tenant that somebody joined first: let that be ada's.
		exec := func(text string, args ...any) {
			check(t, s.db.InTx(sqldb.AcrossTenants(t.Context()), func(ctx context.Context) error { return s.db.Conn(ctx).Exec(text, args...).Error }))
		}
		exec("UPDATE members SET created_at = created_at + 1000000 WHERE tenant_id = ?", bob.TenantId)
		inside := s.signIn(bob)
		was, err := apiclient.OK(inside.GetMeWithResponse(t.Context()))
		check(t, err)
		if was.TenantId != owner.TenantId {
			t.Fatalf("bob is in %s", was.TenantId)
		}
		_, err = apiclient.OK(owner.sdk.UpdateTenantWithResponse(t.Context(), nil, demand))
		check(t, err)
		_, err = apiclient.OK(inside.GetMeWithResponse(t.Context()))
		wantProblem(t, err, 401, "session_invalid")
		ses := s.signIn(bob)
		got, err := apiclient.OK(ses.GetMeWithResponse(t.Context()))
		check(t, err)
		if got.TenantId != bob.TenantId {
			t.Errorf("a password opened tenant %s", got.TenantId)
		}
		if _, _, where := s.session(owner.TenantId, "bob@acme.example"); where != signedIn {
			t.Errorf("bob was sent to %s", where)
		}
		_, err = apiclient.OK(s.signIn(owner).GetMeWithResponse(t.Context())) // break-glass
		check(t, err)
		keyed, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, KeyID: owner.ApiKey.Id, KeySecret: owner.ApiKey.Secret, MaxRetries: -1})
		check(t, err)
		if _, err := apiclient.OK(keyed.GetMeWithResponse(t.Context())); apiclient.Is(err, "sso_required") {
			t.Errorf("an API key is refused: %v", err)
		}
		_, err = apiclient.OK(owner.sdk.UpdateIdentityProviderWithResponse(t.Context(), p.Id, nil, api.IdentityProviderUpdate{Enabled: ptr(false)}))
		wantProblem(t, err, 409, "sso_in_force")
		if status, problem, _ := s.raw("DELETE", "/v1/identity-providers/"+p.Id, "Bearer "+owner.AccessToken, ""); status != 409 || problem.Code != "sso_in_force" {
			t.Errorf("delete: %d %s", status, problem.Code)
		}
		// Somebody whose only tenant demands it learns so once the password is right, not before.
		exec("DELETE FROM members WHERE tenant_id = ?", bob.TenantId)
		status, problem, _ := s.raw("POST", "/v1/auth/sign-in", "", `{"email":"bob@acme.example","password":"`+password+`"}`)
		if status != 403 || problem.Code != "sso_required" {
			t.Errorf("right password: %d %s", status, problem.Code)
		}
		status, problem, _ = s.raw("POST", "/v1/auth/sign-in", "", `{"email":"bob@acme.example","password":"wrong password"}`)
		if status != 401 || problem.Code != "credentials_invalid" {
			t.Errorf("wrong password: %d %s", status, problem.Code)
		}
	})
}

// Where a sign-in leads depends on the domain alone: for somebody with an
// account and for nobody, answer and work are the same.
func TestSSO_Enumeration_startLooksNobodyUp(t *testing.T) {
	eachSSO(t, func(t *testing.T, s *sso) {
		owner := s.signUp("ada@acme.example")
		s.verify(owner.sdk, s.provider(owner.sdk))
		for _, email := range []string{"ada@acme.example", "nobody@acme.example"} {
			u, err := url.Parse(s.start(newWeb(t), `{"email":"`+email+`"}`))
			check(t, err)
			q := u.Query()
			if q.Get("login_hint") != email || q.Get("client_id") != s.client.ID || q.Get("code_challenge_method") != "S256" || len(q) != 9 {
				t.Errorf("%s: %v", email, q)
			}
		}
		var first api.Problem
		for i, body := range []string{`{"email":"ada@none.example"}`, `{"tenant_id":"ten_01JAB3CD4EF5GH6JK7MN8PQ9RS"}`, `{"tenant_id":"` + s.signUp("x@none.example").TenantId + `"}`} {
			status, problem, _ := s.raw("POST", "/v1/auth/sso/start", "", body)
			problem.RequestId = ""
			if i == 0 {
				first = problem
			}
			if status != 404 || problem.Detail != first.Detail || problem.Code != "sso_not_available" {
				t.Errorf("%s: %d %+v", body, status, problem)
			}
		}
	})
}

// OWASP API7: what a tenant names as its issuer is refused, or not called.
func TestSSO_OWASP_API7_innerIssuersAreNotCalled(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	owner := s.signUp("ada@acme.example")
	for issuer, want := range map[string]int{
		"http://example.com": 400, "https://user@example.com": 400, "https://example.com/?x": 400, "ftp://example.com": 400, "https://169.254.169.254/latest": 201,
	} {
		_, err := apiclient.Created(owner.sdk.CreateIdentityProviderWithResponse(t.Context(), nil, api.IdentityProviderCreate{Name: "n", Issuer: issuer, ClientId: "c"}))
		if got := apiclient.Status(err); got != want && (want != 201 || err != nil) {
			t.Errorf("%s: %d %v", issuer, got, err)
		}
	}
	status, problem, _ := s.raw("POST", "/v1/auth/sso/start", "", `{"tenant_id":"`+owner.TenantId+`"}`)
	if status != 503 || problem.Code != "identity_provider_failed" || !strings.Contains(problem.Detail, "must be public") {
		t.Errorf("start: %d %s %s", status, problem.Code, problem.Detail)
	}
}
