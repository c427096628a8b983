package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/cache"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/tenant"
)

// each runs a test on a fresh system over each database.
func each(t *testing.T, test func(t *testing.T, s *system)) {
	t.Helper()
	for _, d := range dbtest.Drivers() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel() // the databases beside each other: one waits for its disk, the other for the processor
			test(t, newSystem(t, d))
		})
	}
}

func wantProblem(t *testing.T, err error, status int, code string) {
	t.Helper()
	if apiclient.Status(err) != status || !apiclient.Is(err, code) {
		t.Errorf("got %d %v, want %d %s", apiclient.Status(err), err, status, code)
	}
}

func TestSignUp_makesAllThatAFirstMessageNeeds(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		if !tenant.ValidSecret(p.ApiKey.Secret) {
			t.Errorf("secret %q has a wrong form", p.ApiKey.Secret)
		}
		if p.Topic != "hello" || p.Group != "hello-group" {
			t.Errorf("got topic %q and group %q", p.Topic, p.Group)
		}
		me, err := apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		if me.Role != "owner" || *me.Email != "ada@example.com" || len(me.Permissions) < 10 {
			t.Errorf("me: %+v", me)
		}
		topic, err := apiclient.OK(p.sdk.GetTopicWithResponse(t.Context(), p.NamespaceId, "hello"))
		check(t, err)
		key, err := apiclient.OK(p.sdk.GetApiKeyWithResponse(t.Context(), p.ApiKey.Id))
		check(t, err)
		if topic.Status.Phase != "ready" || key.OwnerId != me.Id || len(key.Scopes) != 1 || key.Hint != p.ApiKey.Secret[len(p.ApiKey.Secret)-4:] {
			t.Errorf("topic %+v key %+v", topic, key)
		}
		d, err := s.source.Desired(t.Context())
		check(t, err)
		if len(d.Tenants) != 1 || len(d.Namespaces) != 1 || len(d.Topics) != 1 || len(d.Groups) != 1 || len(d.Keys) != 1 || d.Keys[0].Secret != p.ApiKey.Secret || len(d.JWKS) == 0 {
			t.Errorf("desired: %+v", d)
		}
		if d.Topics[0].Physical != p.NamespaceId+"%hello" || d.Topics[0].Perm != 6 {
			t.Errorf("topic: %+v", d.Topics[0])
		}
	})
}

func TestSignUp_tellsNobodyWhoIsKnown(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		s.signUp("ada@example.com")
		body := `{"email":"%s","password":"another password","tenant_name":"X"}`
		known, _, _ := s.raw("POST", "/v1/auth/sign-up", "", strings.Replace(body, "%s", "Ada@Example.com", 1))
		unknown, _, _ := s.raw("POST", "/v1/auth/sign-up", "", strings.Replace(body, "%s", "bob@example.com", 1))
		if known != http.StatusAccepted || unknown != http.StatusAccepted {
			t.Errorf("known %d, unknown %d", known, unknown)
		}
		for _, email := range []string{"ada@example.com", "nobody@example.com"} {
			_, err := apiclient.OK(s.api.SignInWithResponse(t.Context(), nil, api.SignIn{Email: email, Password: "wrong"}))
			wantProblem(t, err, http.StatusUnauthorized, "credentials_invalid")
		}
		for _, email := range []string{"ada@example.com", "nobody@example.com"} {
			_, err := apiclient.Accepted(s.api.RequestPasswordResetWithResponse(t.Context(), nil, api.PasswordReset{Email: email}))
			check(t, err)
		}
	})
}

func TestVerify_codeWorksOnceForTenMinutesAndFiveTries(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		ask := func(email string) string {
			s.clock.add(time.Second)
			_, err := apiclient.Accepted(s.api.SignUpWithResponse(t.Context(), nil, api.SignUp{Email: email, Password: password, TenantName: "X"}))
			check(t, err)
			return s.code(email)
		}
		verify := func(email, code string) error {
			_, err := apiclient.OK(s.api.VerifySignUpWithResponse(t.Context(), nil, api.Verify{Email: email, Code: code}))
			return err
		}
		wrong := func(code string) string {
			if code[0] == '9' {
				return "0" + code[1:]
			}
			return "9" + code[1:]
		}
		code := ask("old@example.com")
		s.clock.add(10*time.Minute + time.Second)
		wantProblem(t, verify("old@example.com", code), http.StatusUnauthorized, "code_invalid")

		code = ask("tries@example.com")
		for range 5 {
			wantProblem(t, verify("tries@example.com", wrong(code)), http.StatusUnauthorized, "code_invalid")
		}
		wantProblem(t, verify("tries@example.com", code), http.StatusUnauthorized, "code_invalid")

		code = ask("once@example.com")
		wantProblem(t, verify("other@example.com", code), http.StatusUnauthorized, "code_invalid")
		check(t, verify("once@example.com", code))
		wantProblem(t, verify("once@example.com", code), http.StatusUnauthorized, "code_invalid")
	})
}

func (s *system) refresh(p person) (api.Session, error) {
	browser, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, HTTP: p.web, MaxRetries: -1})
	check(s.t, err)
	return apiclient.OK(browser.RefreshSessionWithResponse(s.t.Context(), nil))
}

func (s *system) cookie(p person) *http.Cookie {
	req, err := http.NewRequestWithContext(s.t.Context(), "POST", s.server.URL+"/v1/auth/refresh", nil)
	check(s.t, err)
	for _, c := range p.web.Jar.Cookies(req.URL) {
		if c.Name == refreshCookie {
			return c
		}
	}
	s.t.Fatal("no refresh cookie")
	return nil
}

func TestRefresh_replayEndsTheSession(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		stolen := s.cookie(p)
		ses, err := s.refresh(p)
		check(t, err)
		if s.cookie(p).Value == stolen.Value {
			t.Error("the refresh token was not replaced")
		}
		status, problem, _ := s.raw("POST", "/v1/auth/refresh", "", "", "Cookie", stolen.String())
		if status != http.StatusUnauthorized || problem.Code != "refresh_reused" {
			t.Errorf("replay: %d %s", status, problem.Code)
		}
		_, err = s.refresh(p)
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		_, err = apiclient.OK(s.api.GetMeWithResponse(t.Context(), apiclient.Bearer(ses.AccessToken)))
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
	})
}

func TestSignOut_endsTheSession(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		_, err := apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		cookie := s.cookie(p)
		browser, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, HTTP: p.web, MaxRetries: -1})
		check(t, err)
		check(t, apiclient.Done(browser.SignOutWithResponse(t.Context(), nil)))
		check(t, apiclient.Done(browser.SignOutWithResponse(t.Context(), nil)))
		_, err = apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		status, problem, _ := s.raw("POST", "/v1/auth/refresh", "", "", "Cookie", cookie.String())
		if status != http.StatusUnauthorized || problem.Code != "session_invalid" {
			t.Errorf("refresh after sign-out: %d %s", status, problem.Code)
		}
	})
}

func TestPasswordReset_setsPasswordAndEndsSessions(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		s.clock.add(time.Second)
		_, err := apiclient.Accepted(s.api.RequestPasswordResetWithResponse(t.Context(), nil, api.PasswordReset{Email: p.email}))
		check(t, err)
		fresh := api.PasswordResetConfirm{Email: p.email, Code: s.code(p.email), Password: "a new long password"}
		check(t, apiclient.Done(s.api.ConfirmPasswordResetWithResponse(t.Context(), nil, fresh)))
		wantProblem(t, apiclient.Done(s.api.ConfirmPasswordResetWithResponse(t.Context(), nil, fresh)), http.StatusUnauthorized, "code_invalid")
		_, err = apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		_, err = apiclient.OK(s.api.SignInWithResponse(t.Context(), nil, api.SignIn{Email: p.email, Password: password}))
		wantProblem(t, err, http.StatusUnauthorized, "credentials_invalid")
		ses, err := apiclient.OK(s.api.SignInWithResponse(t.Context(), nil, api.SignIn{Email: p.email, Password: fresh.Password}))
		check(t, err)
		if ses.TenantId != p.TenantId {
			t.Errorf("signed in to %s", ses.TenantId)
		}
	})
}

func TestAccessToken_expiredForgedAndForeign(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	data, err := apiclient.OK(s.api.CreateTokenWithFormdataBodyWithResponse(t.Context(), nil,
		api.TokenRequest{GrantType: "client_credentials", ClientId: &p.ApiKey.Id, ClientSecret: &p.ApiKey.Secret, Audience: ptr(api.TokenAudience("data"))}))
	check(t, err)
	parts := strings.Split(p.AccessToken, ".")
	for name, token := range map[string]string{
		"garbage":       "x",
		"for data":      data.AccessToken,
		"alg none":      "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + parts[1] + ".",
		"cut signature": parts[0] + "." + parts[1] + "." + parts[2][:20],
		"other claims":  parts[0] + "." + strings.Split(data.AccessToken, ".")[1] + "." + parts[2],
	} {
		status, problem, h := s.raw("GET", "/v1/me", "Bearer "+token, "")
		if status != http.StatusUnauthorized || problem.Code != "token_invalid" || h.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %s", name, status, problem.Code)
		}
	}
	s.clock.add(16 * time.Minute)
	status, problem, _ := s.raw("GET", "/v1/me", "Bearer "+p.AccessToken, "")
	if status != http.StatusUnauthorized || problem.Code != "token_expired" {
		t.Errorf("expired: %d %s", status, problem.Code)
	}
	status, problem, _ = s.raw("GET", "/v1/me", "", "")
	if status != http.StatusUnauthorized || problem.Code != "credentials_missing" {
		t.Errorf("nobody: %d %s", status, problem.Code)
	}
}

func TestSigningKeys_rotateWithoutBreakingTokens(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		first, err := s.auth.JWKs(t.Context())
		check(t, err)
		if len(first) != 2 {
			t.Fatalf("%d keys at first, want current and next", len(first))
		}
		check(t, s.auth.RotateKeys(t.Context()))
		s.clock.add(31 * 24 * time.Hour)
		check(t, s.auth.RotateKeys(t.Context()))
		second, err := s.auth.JWKs(t.Context())
		check(t, err)
		if len(second) != 3 || second[1] != first[1] {
			t.Errorf("after rotation: %v, before %v", second, first)
		}
		ses, err := apiclient.OK(s.api.SignInWithResponse(t.Context(), nil, api.SignIn{Email: p.email, Password: password}))
		check(t, err)
		s.clock.add(5 * time.Minute)
		_, err = apiclient.OK(s.api.GetMeWithResponse(t.Context(), apiclient.Bearer(ses.AccessToken)))
		check(t, err)
		s.clock.add(time.Hour)
		check(t, s.auth.RotateKeys(t.Context()))
		if third, err := s.auth.JWKs(t.Context()); err != nil || len(third) != 2 {
			t.Errorf("retired key still there: %v %v", third, err)
		}
	})
}

func TestToken_clientCredentials(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	form := func(id, secret, audience string) (api.AccessToken, int) {
		r, err := s.api.CreateTokenWithFormdataBodyWithResponse(t.Context(), nil,
			api.TokenRequest{GrantType: "client_credentials", ClientId: &id, ClientSecret: &secret, Audience: ptr(api.TokenAudience(audience))})
		check(t, err)
		if r.JSON200 == nil {
			return api.AccessToken{}, r.StatusCode()
		}
		return *r.JSON200, 200
	}
	if tok, status := form(p.ApiKey.Id, p.ApiKey.Secret, "data"); status != 200 || tok.Audience != "data" || tok.ExpiresIn > 900 {
		t.Errorf("data: %d %+v", status, tok)
	}
	if _, status := form(p.ApiKey.Id, p.ApiKey.Secret, "control"); status != http.StatusBadRequest {
		t.Errorf("control without a role: %d", status)
	}
	if _, status := form(p.ApiKey.Id, "sls_wrong", "data"); status != http.StatusUnauthorized {
		t.Errorf("wrong secret: %d", status)
	}
	if _, status := form("slk_0000000000000000000x", p.ApiKey.Secret, "data"); status != http.StatusUnauthorized {
		t.Errorf("unknown key: %d", status)
	}
	role := api.ControlRole("viewer")
	key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: "robot", ControlRole: &role}))
	check(t, err)
	tok, status := form(key.Id, key.Secret, "control")
	if status != 200 {
		t.Fatalf("control: %d", status)
	}
	me, err := apiclient.OK(s.api.GetMeWithResponse(t.Context(), apiclient.Bearer(tok.AccessToken)))
	check(t, err)
	if me.Role != "viewer" || *me.ApiKeyId != key.Id {
		t.Errorf("me: %+v", me)
	}
	me, err = apiclient.OK(s.api.GetMeWithResponse(t.Context(), apiclient.Basic(key.Id, key.Secret)))
	check(t, err)
	if me.Role != "viewer" {
		t.Errorf("me by Basic: %+v", me)
	}
	_, err = apiclient.Created(s.api.CreateTopicWithResponse(t.Context(), p.NamespaceId, nil, api.TopicCreate{Name: "x"}, apiclient.Basic(key.Id, key.Secret)))
	wantProblem(t, err, http.StatusForbidden, "permission_denied")
	_, err = apiclient.OK(p.sdk.RevokeApiKeyWithResponse(t.Context(), key.Id, nil))
	check(t, err)
	for name, editor := range map[string]apiclient.RequestEditorFn{"token": apiclient.Bearer(tok.AccessToken), "basic": apiclient.Basic(key.Id, key.Secret)} {
		if _, err := apiclient.OK(s.api.GetMeWithResponse(t.Context(), editor)); !apiclient.Is(err, "key_revoked") {
			t.Errorf("%s after revoke: %v", name, err)
		}
	}
}

func TestRate_refusesWithTimeAndHeaders(t *testing.T) {
	s := newSystem(t, sqldb.SQLite, func(d *Deps) {
		d.Config.Limits = Limits{Address: cache.Rate{PerSecond: 1e4, Burst: 1e4}, Principal: cache.Rate{PerSecond: 0.001, Burst: 3}, SignIn: cache.Rate{PerSecond: 0.001, Burst: 2}}
	})
	p := s.signUp("ada@example.com")
	for range 3 {
		_, err := apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
	}
	status, problem, h := s.raw("GET", "/v1/me", "Bearer "+p.AccessToken, "")
	if status != http.StatusTooManyRequests || problem.RetryAfter == nil || h.Get("Retry-After") == "" || problem.Quota == nil || h.Get("RateLimit-Policy") == "" {
		t.Errorf("got %d %+v %v", status, problem, h)
	}
	for i := range 3 {
		_, err := apiclient.OK(s.api.SignInWithResponse(t.Context(), nil, api.SignIn{Email: p.email, Password: "wrong"}))
		if want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusTooManyRequests}[i < 2]; apiclient.Status(err) != want {
			t.Errorf("sign-in %d: %v, want %d", i, err, want)
		}
	}
}

// An address list only narrows: the secret is needed all the same, and what a
// proxy header says about the address is not believed.
func TestAllowedAddresses_B149(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	role := api.ControlRole("viewer")
	newKey := func(cidr string) api.ApiKeyWithSecret {
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(t.Context(), nil, api.ApiKeyCreate{Name: "k", ControlRole: &role, AllowedCidrs: &[]string{cidr}}))
		check(t, err)
		return key
	}
	far, near := newKey("10.0.0.0/8"), newKey("127.0.0.0/8")
	call := func(id, secret string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.server.URL+"/v1/me", nil)
		check(t, err)
		if id != "" {
			req.SetBasicAuth(id, secret)
		}
		for _, h := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "CF-Connecting-IP"} {
			req.Header.Set(h, "10.1.1.1")
		}
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		defer func() { _ = resp.Body.Close() }()
		var problem api.Problem
		check(t, json.NewDecoder(resp.Body).Decode(&problem))
		return resp.StatusCode, problem.Code
	}
	for name, c := range map[string]struct {
		id, secret string
		status     int
		code       string
	}{
		"not in the list":         {far.Id, far.Secret, http.StatusForbidden, "address_not_allowed"},
		"in the list":             {near.Id, near.Secret, http.StatusOK, ""},
		"in the list, no secret":  {near.Id, "", http.StatusUnauthorized, "key_invalid"},
		"in the list, wrong one":  {near.Id, far.Secret, http.StatusUnauthorized, "key_invalid"},
		"in the list, no key":     {"", "", http.StatusUnauthorized, "credentials_missing"},
		"secret without its list": {far.Id, near.Secret, http.StatusUnauthorized, "key_invalid"},
	} {
		if status, code := call(c.id, c.secret); status != c.status || code != c.code {
			t.Errorf("%s: got %d %s, want %d %s", name, status, code, c.status, c.code)
		}
	}
}
