package httpapi

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/tenant"
)

// signer opens the key that signs now.
func (s *system) signer() (kid string, private ed25519.PrivateKey) {
	s.t.Helper()
	keys, err := controldb.NewAuthStore(s.db, controldb.NewOutbox(s.db, s.clock.now)).SigningKeys(s.t.Context())
	check(s.t, err)
	for _, k := range keys {
		if k.State == auth.KeyCurrent {
			seed, err := s.srv.d.Sealer.Open("signing key "+k.ID, k.Sealed)
			check(s.t, err)
			return k.ID, ed25519.NewKeyFromSeed(seed)
		}
	}
	s.t.Fatal("no current key")
	return "", nil
}

// OWASP API2, cases B142 and B149: nothing but a fresh access token for this
// API, signed by the key that it names with the algorithm of that key, lets
// anybody in.
func TestOWASP_API2_tokenConfusion(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		kid, private := s.signer()
		var claims jwt.MapClaims
		part, err := base64.RawURLEncoding.DecodeString(strings.Split(p.AccessToken, ".")[1])
		check(t, err)
		check(t, json.Unmarshal(part, &claims))
		_, stranger, err := ed25519.GenerateKey(nil)
		check(t, err)
		rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
		check(t, err)
		now := s.clock.now()
		make := func(method jwt.SigningMethod, key any, header map[string]any, change map[string]any) string {
			c := jwt.MapClaims{}
			for k, v := range claims {
				c[k] = v
			}
			for k, v := range change {
				if v == nil {
					delete(c, k)
					continue
				}
				c[k] = v
			}
			tok := jwt.NewWithClaims(method, c)
			tok.Header["kid"], tok.Header["typ"] = kid, "at+jwt"
			for k, v := range header {
				tok.Header[k] = v
			}
			text, err := tok.SignedString(key)
			check(t, err)
			return text
		}
		own := func(header, change map[string]any) string {
			return make(jwt.SigningMethodEdDSA, private, header, change)
		}
		jwk := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(stranger.Public().(ed25519.PublicKey))}
		type h = map[string]any
		for name, c := range map[string]struct{ token, code string }{
			"good":                      {own(nil, nil), ""},
			"data audience":             {own(nil, h{"aud": "data"}), "token_invalid"},
			"no audience":               {own(nil, h{"aud": nil}), "token_invalid"},
			"other issuer":              {own(nil, h{"iss": "https://evil.example"}), "token_invalid"},
			"no issuer":                 {own(nil, h{"iss": nil}), "token_invalid"},
			"expired":                   {own(nil, h{"exp": now.Add(-time.Minute).Unix()}), "token_expired"},
			"no expiry":                 {own(nil, h{"exp": nil}), "token_invalid"},
			"not yet valid":             {own(nil, h{"nbf": now.Add(time.Minute).Unix()}), "token_invalid"},
			"issued in the future":      {own(nil, h{"iat": now.Add(time.Minute).Unix()}), "token_invalid"},
			"type JWT":                  {own(h{"typ": "JWT"}, nil), "token_invalid"},
			"type of an id token":       {own(h{"typ": "id_token+jwt"}, nil), "token_invalid"},
			"critical header":           {own(h{"crit": []string{"exp"}}, nil), "token_invalid"},
			"unknown kid":               {own(h{"kid": "kid_none"}, nil), "token_invalid"},
			"kid is a path":             {own(h{"kid": "../../../../dev/null"}, nil), "token_invalid"},
			"kid is SQL":                {own(h{"kid": "x' OR '1'='1"}, nil), "token_invalid"},
			"kid is no text":            {own(h{"kid": []string{kid}}, nil), "token_invalid"},
			"none":                      {make(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, nil), "token_invalid"},
			"public key as HMAC secret": {make(jwt.SigningMethodHS256, []byte(private.Public().(ed25519.PublicKey)), nil, nil), "token_invalid"},
			"RS256 by the kid of EdDSA": {make(jwt.SigningMethodRS256, rsaKey, nil, nil), "token_invalid"},
			"PS256":                     {make(jwt.SigningMethodPS256, rsaKey, nil, nil), "token_invalid"},
			"key of a stranger":         {make(jwt.SigningMethodEdDSA, stranger, nil, nil), "token_invalid"},
			"embedded jwk":              {make(jwt.SigningMethodEdDSA, stranger, h{"jwk": jwk}, nil), "token_invalid"},
			"embedded jwk, no kid":      {make(jwt.SigningMethodEdDSA, stranger, h{"jwk": jwk, "kid": ""}, nil), "token_invalid"},
			"jku and x5u":               {make(jwt.SigningMethodEdDSA, stranger, h{"jku": s.server.URL + "/.well-known/jwks.json", "x5u": "http://127.0.0.1/x"}, nil), "token_invalid"},
			"cut signature":             {strings.Join(strings.Split(own(nil, nil), ".")[:2], ".") + ".", "token_invalid"},
			"nothing":                   {"..", "token_invalid"},
		} {
			status, problem, _ := s.raw(http.MethodGet, "/v1/me", "Bearer "+c.token, "")
			if c.code == "" && status != http.StatusOK || c.code != "" && (status != http.StatusUnauthorized || problem.Code != c.code) {
				t.Errorf("%s: %d %s, want %s", name, status, problem.Code, c.code)
			}
		}
	})
}

// Cases B150 and complaint 22: a revoked token is over at once, here and at
// brokers, also when Redis forgets.
func TestRevokeToken(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		revoke := func(token string) {
			t.Helper()
			resp, err := http.PostForm(s.server.URL+"/v1/auth/revoke", url.Values{"token": {token}, "token_type_hint": {"access_token"}})
			check(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("revoke answers %d", resp.StatusCode)
			}
		}
		role := api.ControlRole("viewer")
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: &role}))
		check(t, err)
		here := netip.MustParseAddr("127.0.0.1")
		one, err := s.auth.Exchange(ctx, key.Id, key.Secret, auth.AudienceControl, here)
		check(t, err)
		two, err := s.auth.Exchange(ctx, key.Id, key.Secret, auth.AudienceControl, here)
		check(t, err)
		data, err := s.auth.Exchange(ctx, p.ApiKey.Id, p.ApiKey.Secret, auth.AudienceData, here)
		check(t, err)
		get := func(token string) string {
			_, problem, _ := s.raw(http.MethodGet, "/v1/tenant", "Bearer "+token, "")
			return problem.Code
		}
		if get(one.AccessToken) != "" || get(two.AccessToken) != "" {
			t.Fatal("fresh tokens are refused")
		}
		before, err := s.source.Sequence(ctx)
		check(t, err)
		revoke(one.AccessToken)
		revoke(one.AccessToken)
		revoke(data.AccessToken)
		for _, none := range []string{"x", "a.b.c", "slr_none", one.AccessToken[:len(one.AccessToken)-4] + "AAAA"} {
			revoke(none)
		}
		if got := get(one.AccessToken); got != "token_revoked" {
			t.Errorf("a revoked token: %q", got)
		}
		if got := get(two.AccessToken); got != "" {
			t.Errorf("another token of the same key: %q", got)
		}
		changes, _, err := s.source.Changes(ctx, before, 100)
		check(t, err)
		d, err := s.source.DesiredFor(ctx, changes)
		check(t, err)
		var trust struct {
			Revoked map[string]int64 `json:"revoked"`
		}
		check(t, json.Unmarshal(d.JWKS, &trust))
		if len(trust.Revoked) != 2 {
			t.Errorf("brokers are told of %v", trust.Revoked)
		}
		forgetful := s.authAgain(t, nil) // a control plane whose Redis is gone
		if _, err := forgetful.Authenticate(ctx, one.AccessToken, here); err == nil {
			t.Error("without Redis the token lives")
		}
		if _, err := forgetful.Authenticate(ctx, two.AccessToken, here); err != nil {
			t.Error(err)
		}
		revoke(p.AccessToken)
		if got := get(p.AccessToken); got != "token_revoked" {
			t.Errorf("a person's token: %q", got)
		}
		s.clock.add(16 * time.Minute)
		check(t, s.auth.ForgetTokens(ctx))
		d, err = s.source.Desired(ctx)
		check(t, err)
		trust.Revoked = nil
		check(t, json.Unmarshal(d.JWKS, &trust))
		if len(trust.Revoked) != 0 {
			t.Errorf("expired tokens are kept: %v", trust.Revoked)
		}
	})
}

// Complaint 4: two control planes sign and check while keys rotate, many times
// and with both algorithms; nobody is refused.
func TestSigningKeys_rotateUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		ctx := t.Context()
		role := api.ControlRole("viewer")
		key, err := apiclient.Created(p.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "k", ControlRole: &role}))
		check(t, err)
		services := []*auth.Service{
			s.authAgain(t, s.revocations, auth.AlgorithmEdDSA, auth.AlgorithmRS256),
			s.authAgain(t, s.revocations, auth.AlgorithmRS256, auth.AlgorithmEdDSA),
		}
		for _, a := range services {
			check(t, a.RotateKeys(ctx))
		}
		here := netip.MustParseAddr("127.0.0.1")
		var wg sync.WaitGroup
		var passed [4]chan struct{}
		stop, refused := make(chan struct{}), make(chan error, len(passed))
		for i := range passed {
			passed[i] = make(chan struct{})
			wg.Go(func() {
				for {
					token, err := services[i%2].Exchange(ctx, key.Id, key.Secret, auth.AudienceControl, here)
					for _, a := range services {
						if err == nil {
							_, err = a.Authenticate(ctx, token.AccessToken, here)
						}
					}
					if err != nil {
						refused <- err
						return
					}
					select {
					case passed[i] <- struct{}{}:
					case <-stop:
						return
					}
				}
			})
		}
		before, err := s.auth.JWKs(ctx)
		check(t, err)
		const rotations = 8
		for i := range rotations {
			// Each some times between any two rotations, so that no token lives over
			// two jumps of the clock, and some during each.
			for n := range 3 * len(passed) {
				select {
				case <-passed[n%len(passed)]:
				case err := <-refused:
					t.Fatal(err)
				}
			}
			s.clock.add(rotation)
			check(t, services[i%2].RotateKeys(ctx))
			check(t, services[(i+1)%2].RotateKeys(ctx))
		}
		close(stop)
		wg.Wait()
		select {
		case err := <-refused:
			t.Error(err)
		default:
		}
		after, err := s.auth.JWKs(ctx)
		check(t, err)
		algorithms := map[string]int{}
		for _, k := range after {
			algorithms[k.Algorithm]++
			for _, b := range before {
				if b.KeyID == k.KeyID && rotations*rotation > 30*time.Minute {
					t.Errorf("key %s is still there", k.KeyID)
				}
			}
		}
		if algorithms["EdDSA"] < 2 || algorithms["RS256"] < 2 {
			t.Errorf("published: %v", algorithms)
		}
	})
}

const rotation = 10 * time.Minute

// A person gets a token for the message path for their own key without its
// secret, and for nobody else's.
func TestKeyToken_ofOnesOwnKey(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		ctx := t.Context()
		owner := s.signUp("owner@example.com")
		dev, _ := s.colleague(owner, "dev@example.com", tenant.RoleDeveloper)
		own, err := apiclient.Created(dev.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "own",
			Scopes: &[]api.ApiKeyScope{{NamespaceId: owner.NamespaceId, Permissions: []api.KeyPermission{"PUB"}}}}))
		check(t, err)
		bare, err := apiclient.Created(dev.sdk.CreateApiKeyWithResponse(ctx, nil, api.ApiKeyCreate{Name: "bare", ControlRole: ptr(api.ControlRole("viewer"))}))
		check(t, err)

		token, err := apiclient.OK(dev.sdk.CreateKeyTokenWithResponse(ctx, own.Id, nil))
		check(t, err)
		var claims struct {
			Audience []string `json:"aud"`
			KeyID    string   `json:"key_id"`
		}
		part, err := base64.RawURLEncoding.DecodeString(strings.Split(token.AccessToken, ".")[1])
		check(t, err)
		check(t, json.Unmarshal(part, &claims))
		if !slices.Equal(claims.Audience, []string{"data"}) || claims.KeyID != own.Id || token.ExpiresIn < 1 || token.ExpiresIn > 900 || token.Audience != "data" {
			t.Errorf("claims %+v, %d s, audience %s", claims, token.ExpiresIn, token.Audience)
		}
		status, problem, _ := s.raw(http.MethodGet, "/v1/me", "Bearer "+token.AccessToken, "")
		if status != http.StatusUnauthorized || problem.Code != "token_invalid" {
			t.Errorf("the API took it: %d %s", status, problem.Code)
		}

		_, err = apiclient.OK(owner.sdk.CreateKeyTokenWithResponse(ctx, own.Id, nil))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		_, err = apiclient.OK(dev.sdk.CreateKeyTokenWithResponse(ctx, owner.ApiKey.Id, nil))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		_, err = apiclient.OK(dev.sdk.CreateKeyTokenWithResponse(ctx, bare.Id, nil))
		wantProblem(t, err, http.StatusForbidden, "key_without_scope")
		_, err = apiclient.OK(s.basic(bare).CreateKeyTokenWithResponse(ctx, bare.Id, nil))
		wantProblem(t, err, http.StatusForbidden, "session_required")
		_, err = apiclient.OK(dev.sdk.RevokeApiKeyWithResponse(ctx, own.Id, nil))
		check(t, err)
		_, err = apiclient.OK(dev.sdk.CreateKeyTokenWithResponse(ctx, own.Id, nil))
		wantProblem(t, err, http.StatusUnauthorized, "key_revoked")
	})
}
