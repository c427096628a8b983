package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// idp is a provider that a test can make misbehave.
type idp struct {
	*httptest.Server
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey

	mu       sync.Mutex
	metadata map[string]any // guarded by mu, as all below
	keys     []map[string]any
	handle   map[string]http.HandlerFunc
	asked    map[string]int
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{rsa: rsaKey(), handle: map[string]http.HandlerFunc{}, asked: map[string]int{}}
	p.ec, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, p.ed, _ = ed25519.GenerateKey(rand.Reader)
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	p.metadata = map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/jwks"}
	p.keys = []map[string]any{p.jwkRSA(), p.jwkEC(), p.jwkEd()}
	return p
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (p *idp) jwkRSA() map[string]any {
	return map[string]any{"kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "n": b64(p.rsa.N.Bytes()), "e": b64(big.NewInt(int64(p.rsa.E)).Bytes())}
}

func (p *idp) jwkEC() map[string]any {
	raw, _ := p.ec.PublicKey.Bytes()
	return map[string]any{"kty": "EC", "crv": "P-256", "kid": "ec", "x": b64(raw[1:33]), "y": b64(raw[33:])}
}

func (p *idp) jwkEd() map[string]any {
	return map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": b64(p.ed.Public().(ed25519.PublicKey))}
}

func (p *idp) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	h, metadata, keys := p.handle[r.URL.Path], maps.Clone(p.metadata), p.keys
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case h != nil:
		h(w, r)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(metadata)
	case r.URL.Path == "/jwks":
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
	default:
		http.NotFound(w, r)
	}
}

func (p *idp) on(path string, h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle[path] = h
}

func (p *idp) times(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time // guarded by mu
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newClient(t *testing.T) (*Client, *clock) {
	t.Helper()
	ck := &clock{at: now}
	return New(Config{Loopback: true, Now: ck.now}), ck
}

const (
	client = "client-1"
	nonce  = "nonce-1"
)

func (p *idp) claims(change map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{"iss": p.URL, "sub": "person-1", "aud": client, "nonce": nonce, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"email": "a@example.com", "email_verified": true}
	for k, v := range change {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

func sign(t *testing.T, m jwt.SigningMethod, key any, header map[string]any, c jwt.MapClaims) string {
	t.Helper()
	tok := jwt.NewWithClaims(m, c)
	for k, v := range header {
		if v == nil {
			delete(tok.Header, k)
		} else {
			tok.Header[k] = v
		}
	}
	s, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *idp) good(t *testing.T, change map[string]any) string {
	t.Helper()
	return sign(t, jwt.SigningMethodRS256, p.rsa, map[string]any{"kid": "rsa"}, p.claims(change))
}

func publicPEM(t *testing.T, k crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// A table of everything that an attacker may change of an ID token.
func TestIDToken_OWASP_API2_acceptsOnlyWhatAnswersThisSignIn(t *testing.T) {
	p := newIDP(t)
	c, _ := newClient(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	hs := func(secret []byte) func(*testing.T) string {
		return func(t *testing.T) string {
			return sign(t, jwt.SigningMethodHS256, secret, map[string]any{"kid": "rsa"}, p.claims(nil))
		}
	}
	claim := func(change map[string]any) func(*testing.T) string {
		return func(t *testing.T) string { return p.good(t, change) }
	}
	tests := []struct {
		name  string
		token func(t *testing.T) string
		want  string // part of the error; empty: accepted
	}{
		{"RS256", claim(nil), ""},
		{"ES256", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodES256, p.ec, map[string]any{"kid": "ec"}, p.claims(nil))
		}, ""},
		{"EdDSA", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodEdDSA, p.ed, map[string]any{"kid": "ed"}, p.claims(nil))
		}, ""},
		{"no kid, one key of the algorithm", func(t *testing.T) string { return sign(t, jwt.SigningMethodRS256, p.rsa, nil, p.claims(nil)) }, ""},
		{"several audiences with azp", claim(map[string]any{"aud": []string{client, "x"}, "azp": client}), ""},
		{"clocks half a minute apart", claim(map[string]any{"iat": now.Add(20 * time.Second).Unix()}), ""},
		{"email_verified as text", claim(map[string]any{"email_verified": "true"}), ""},

		{"none", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, map[string]any{"kid": "rsa"}, p.claims(nil))
		}, "not signed by a key"},
		{"HS256 with the public key as PEM", hs(publicPEM(t, &p.rsa.PublicKey)), "not signed by a key"},
		{"HS256 with the modulus", hs(p.rsa.N.Bytes()), "not signed by a key"},
		{"PS256", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodPS256, p.rsa, map[string]any{"kid": "rsa"}, p.claims(nil))
		}, "not signed by a key"},
		{"RS512", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodRS512, p.rsa, map[string]any{"kid": "rsa"}, p.claims(nil))
		}, "not signed by a key"},
		{"another's key under a known kid", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodRS256, other, map[string]any{"kid": "rsa"}, p.claims(nil))
		}, "not signed by a key"},
		{"own key in the header", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodRS256, other, map[string]any{"kid": "rsa", "jwk": map[string]any{"kty": "RSA", "n": b64(other.N.Bytes()), "e": "AQAB"}}, p.claims(nil))
		}, "not signed by a key"},
		{"own key by jku", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodRS256, other, map[string]any{"kid": "x", "jku": p.URL + "/own"}, p.claims(nil))
		}, "not signed by a key"},
		{"kid of a key of another kind", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodRS256, p.rsa, map[string]any{"kid": "ec"}, p.claims(nil))
		}, "not signed by a key"},
		{"unknown kid", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodRS256, p.rsa, map[string]any{"kid": "../../etc/passwd"}, p.claims(nil))
		}, "not signed by a key"},
		{"critical extension", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodRS256, p.rsa, map[string]any{"kid": "rsa", "crit": []string{"exp"}}, p.claims(nil))
		}, "not signed by a key"},
		{"signature cut off", func(t *testing.T) string { s := p.good(t, nil); return s[:strings.LastIndexByte(s, '.')+1] }, "not signed by a key"},
		{"payload exchanged", func(t *testing.T) string {
			a, b := strings.Split(p.good(t, nil), "."), strings.Split(p.good(t, map[string]any{"sub": "person-2"}), ".")
			return a[0] + "." + b[1] + "." + a[2]
		}, "not signed by a key"},
		{"no token", func(*testing.T) string { return "a.b" }, "malformed"},
		{"huge", func(t *testing.T) string { return p.good(t, map[string]any{"x": strings.Repeat("x", MaxToken)}) }, "more than"},

		{"wrong issuer", claim(map[string]any{"iss": "https://other.example"}), "iss"},
		{"issuer with a slash more", claim(map[string]any{"iss": p.URL + "/"}), "iss"},
		{"no issuer", claim(map[string]any{"iss": nil}), "iss"},
		{"wrong audience", claim(map[string]any{"aud": "client-2"}), "aud"},
		{"no audience", claim(map[string]any{"aud": nil}), "not signed by a key"},
		{"several audiences without azp", claim(map[string]any{"aud": []string{client, "x"}}), "azp"},
		{"azp of another", claim(map[string]any{"azp": "client-2"}), "azp"},
		{"expired", claim(map[string]any{"exp": now.Add(-time.Minute).Unix()}), "exp"},
		{"no expiry", claim(map[string]any{"exp": nil}), "not signed by a key"},
		{"not yet", claim(map[string]any{"nbf": now.Add(time.Minute).Unix()}), "nbf"},
		{"from the future", claim(map[string]any{"iat": now.Add(time.Hour).Unix(), "exp": now.Add(2 * time.Hour).Unix()}), "iat"},
		{"no iat", claim(map[string]any{"iat": nil}), "iat"},
		{"old, though not expired", claim(map[string]any{"iat": now.Add(-time.Hour).Unix()}), "old"},
		{"another nonce", claim(map[string]any{"nonce": "nonce-2"}), "nonce"},
		{"no nonce", claim(map[string]any{"nonce": nil}), "nonce"},
		{"nonce of another type", claim(map[string]any{"nonce": []string{nonce}}), "nonce"},
		{"subject of another type", claim(map[string]any{"sub": 7}), "malformed"},
		{"subject too long", claim(map[string]any{"sub": strings.Repeat("x", 256)}), "sub"},
		{"subject with a control character", claim(map[string]any{"sub": "a\x00b"}), "sub"},
		{"mail address of another type", claim(map[string]any{"email": []string{"a@example.com"}}), "email"},
		{"a logout token", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodRS256, p.rsa, map[string]any{"kid": "rsa", "typ": "logout+jwt"}, p.claims(nil))
		}, "typ"},
		{"an access token", func(t *testing.T) string {
			return sign(t, jwt.SigningMethodRS256, p.rsa, map[string]any{"kid": "rsa", "typ": "at+jwt"}, p.claims(nil))
		}, "typ"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cl, err := c.IDToken(t.Context(), p.URL, client, nonce, tt.token(t))
			switch {
			case tt.want == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case tt.want == "" && (cl.Subject != "person-1" || cl.Email != "a@example.com" || !cl.EmailVerified):
				t.Fatalf("claims %+v", cl)
			case tt.want != "" && err == nil:
				t.Fatal("accepted")
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Fatalf("got %q, want something about %q", err, tt.want)
			}
		})
	}
	if n := p.times("/own"); n != 0 {
		t.Errorf("the key set that a token named was asked for %d times", n)
	}
}

func TestIDToken_emptyNonceFitsNothing(t *testing.T) {
	p := newIDP(t)
	c, _ := newClient(t)
	if _, err := c.IDToken(t.Context(), p.URL, client, "", p.good(t, map[string]any{"nonce": ""})); err == nil {
		t.Error("a sign-in without a nonce was accepted")
	}
}

func TestLogoutToken(t *testing.T) {
	p := newIDP(t)
	c, _ := newClient(t)
	event := map[string]any{logoutEventURI: map[string]any{}}
	for _, tt := range []struct {
		name   string
		header map[string]any
		change map[string]any
		want   string
	}{
		{"by subject", map[string]any{"typ": "logout+jwt"}, nil, ""},
		{"by session, without typ", map[string]any{"typ": nil}, map[string]any{"sub": nil, "sid": "s1"}, ""},
		{"an ID token", nil, map[string]any{"events": nil}, "events"},
		{"event of another kind", nil, map[string]any{"events": map[string]any{"x": map[string]any{}}}, "events"},
		{"event that is no object", nil, map[string]any{"events": map[string]any{logoutEventURI: true}}, "events"},
		{"with a nonce", nil, map[string]any{"nonce": nonce}, "nonce"},
		{"about nobody", nil, map[string]any{"sub": nil}, "neither"},
		{"without jti", nil, map[string]any{"jti": nil}, "jti"},
		{"old", nil, map[string]any{"iat": now.Add(-time.Hour).Unix()}, "old"},
		{"for another client", nil, map[string]any{"aud": "client-2"}, "aud"},
		{"of another type", map[string]any{"typ": "at+jwt"}, nil, "typ"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			change := map[string]any{"nonce": nil, "jti": "j1", "events": event}
			maps.Copy(change, tt.change)
			header := map[string]any{"kid": "rsa"}
			maps.Copy(header, tt.header)
			_, err := c.LogoutToken(t.Context(), p.URL, client, sign(t, jwt.SigningMethodRS256, p.rsa, header, p.claims(change)))
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWorkloadToken_boundsItsLife(t *testing.T) {
	p := newIDP(t)
	c, _ := newClient(t)
	if _, err := c.WorkloadToken(t.Context(), p.URL, client, p.good(t, nil)); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]map[string]any{"long life": {"exp": now.Add(48 * time.Hour).Unix()}, "no subject": {"sub": nil}, "other audience": {"aud": "x"}} {
		if _, err := c.WorkloadToken(t.Context(), p.URL, client, p.good(t, change)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The digest names what was signed: a signature of ECDSA can be written in two
// ways, and a token must not count as another by that.
func TestDigest_isThatOfWhatWasSigned(t *testing.T) {
	p := newIDP(t)
	c, _ := newClient(t)
	a := sign(t, jwt.SigningMethodES256, p.ec, map[string]any{"kid": "ec"}, p.claims(nil))
	parts := strings.Split(a, ".")
	sig, _ := base64.RawURLEncoding.DecodeString(parts[2])
	s := new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(sig[32:]))
	b := parts[0] + "." + parts[1] + "." + b64(append(sig[:32:32], s.FillBytes(make([]byte, 32))...))
	if a == b {
		t.Fatal("the signatures are the same")
	}
	ca, err := c.WorkloadToken(t.Context(), p.URL, client, a)
	if err != nil {
		t.Fatal(err)
	}
	cb, err := c.WorkloadToken(t.Context(), p.URL, client, b)
	if err != nil {
		t.Fatal(err)
	}
	if ca.Digest != cb.Digest {
		t.Error("one token has two digests")
	}
}

func TestKeys_rotationAndUnknownKidAreBounded(t *testing.T) {
	p := newIDP(t)
	c, ck := newClient(t)
	ctx := t.Context()
	if _, err := c.IDToken(ctx, p.URL, client, nonce, p.good(t, nil)); err != nil {
		t.Fatal(err)
	}
	fresh, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 { // somebody makes up kids
		tok := sign(t, jwt.SigningMethodRS256, fresh, map[string]any{"kid": fmt.Sprint("made-up-", i)}, p.claims(nil))
		if _, err := c.IDToken(ctx, p.URL, client, nonce, tok); err == nil {
			t.Fatal("accepted")
		}
	}
	if got := p.times("/jwks"); got != 1 {
		t.Errorf("50 unknown kids: the key set was read %d times, want 1", got)
	}
	// The provider rotates: the new key is found after the pause at the latest.
	p.mu.Lock()
	p.keys = append(p.keys, map[string]any{"kty": "RSA", "kid": "rsa-2", "n": b64(fresh.N.Bytes()), "e": "AQAB"})
	p.mu.Unlock()
	ck.add(retryAfter)
	tok := sign(t, jwt.SigningMethodRS256, fresh, map[string]any{"kid": "rsa-2"}, p.claims(nil))
	if _, err := c.IDToken(ctx, p.URL, client, nonce, tok); err != nil {
		t.Error(err)
	}
	// A key that was taken away is not accepted for longer than the set is kept.
	p.mu.Lock()
	p.keys = p.keys[len(p.keys)-1:]
	p.mu.Unlock()
	ck.add(keysTTL)
	old := sign(t, jwt.SigningMethodRS256, p.rsa, map[string]any{"kid": "rsa"}, p.claims(map[string]any{"iat": ck.now().Unix(), "exp": ck.now().Add(time.Minute).Unix()}))
	if _, err := c.IDToken(ctx, p.URL, client, nonce, old); err == nil {
		t.Error("a key that the provider took away was accepted")
	}
}

// OWASP API10: what a provider answers is believed only as far as it was checked.
func TestProvider_OWASP_API10_answersAreBoundedAndChecked(t *testing.T) {
	big := strings.Repeat(" ", MaxAnswer)
	for _, tt := range []struct {
		name  string
		spoil func(p *idp)
		want  string
	}{
		{"another issuer", func(p *idp) { p.metadata["issuer"] = "https://accounts.example.com" }, "another issuer"},
		{"token endpoint without https", func(p *idp) { p.metadata["token_endpoint"] = "http://example.com/token" }, "token_endpoint"},
		{"key set of a file", func(p *idp) { p.metadata["jwks_uri"] = "file:///etc/passwd" }, "jwks_uri"},
		{"key set with a user", func(p *idp) { p.metadata["jwks_uri"] = "https://u:p@example.com/" }, "jwks_uri"},
		{"script as authorization endpoint", func(p *idp) { p.metadata["authorization_endpoint"] = "javascript:alert(1)" }, "authorization_endpoint"},
		{"no endpoints", func(p *idp) { p.metadata = map[string]any{"issuer": p.URL} }, "no usable"},
		{"metadata too large", func(p *idp) {
			p.handle["/.well-known/openid-configuration"] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}"+big) }
		}, "more than"},
		{"metadata is a page", func(p *idp) {
			p.handle["/.well-known/openid-configuration"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "{}")
			}
		}, "no JSON"},
		{"metadata broken", func(p *idp) {
			p.handle["/.well-known/openid-configuration"] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[1") }
		}, "not the JSON"},
		{"status 500", func(p *idp) {
			p.handle["/.well-known/openid-configuration"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }
		}, "status 500"},
		{"redirect", func(p *idp) {
			p.handle["/.well-known/openid-configuration"] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
			}
		}, "redirect"},
		{"key set too large", func(p *idp) {
			p.handle["/jwks"] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[]}`+big) }
		}, "more than"},
		{"too many keys", func(p *idp) { p.keys = make([]map[string]any, maxKeys+1) }, "keys; at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newIDP(t)
			tt.spoil(p)
			c, _ := newClient(t)
			_, err := c.IDToken(t.Context(), p.URL, client, nonce, p.good(t, nil))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "169.254") {
				t.Errorf("the error repeats what the provider said: %v", err)
			}
			before := p.times("/jwks") + p.times("/.well-known/openid-configuration")
			for range 20 {
				_, _ = c.IDToken(t.Context(), p.URL, client, nonce, p.good(t, nil))
			}
			if after := p.times("/jwks") + p.times("/.well-known/openid-configuration"); after > before+1 {
				t.Errorf("a provider that fails was asked %d times more", after-before)
			}
		})
	}
}

func TestProvider_slowAnswerIsGivenUp(t *testing.T) {
	p := newIDP(t)
	stop := make(chan struct{})
	defer close(stop)
	p.on("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_, _ = w.Write([]byte("{"))
		w.(http.Flusher).Flush()
		select { // the rest never comes
		case <-stop:
		case <-r.Context().Done():
		}
	})
	c := New(Config{Loopback: true, Timeout: 50 * time.Millisecond, Now: func() time.Time { return now }})
	if _, err := c.Discover(t.Context(), p.URL); err == nil || !strings.Contains(err.Error(), "took longer") {
		t.Errorf("got %v", err)
	}
}

func TestKey_weakOrForeignKeysAreNone(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p := newIDP(t)
	with := func(m map[string]any, k string, v any) map[string]any { m[k] = v; return m }
	for name, m := range map[string]map[string]any{
		"1024 bits":       {"kty": "RSA", "n": b64(small.N.Bytes()), "e": "AQAB"},
		"exponent 1":      with(p.jwkRSA(), "e", "AQ"),
		"for encryption":  with(p.jwkRSA(), "use", "enc"),
		"alg PS256":       with(p.jwkRSA(), "alg", "PS256"),
		"alg HS256":       with(p.jwkRSA(), "alg", "HS256"),
		"symmetric":       {"kty": "oct", "k": "c2VjcmV0"},
		"off the curve":   with(p.jwkEC(), "x", b64(make([]byte, 32))),
		"another curve":   with(p.jwkEC(), "crv", "P-384"),
		"short Ed25519":   with(p.jwkEd(), "x", b64(make([]byte, 31))),
		"absurd modulus":  with(p.jwkRSA(), "n", strings.Repeat("A", 100000)),
		"absurd key id":   with(p.jwkRSA(), "kid", strings.Repeat("k", 300)),
		"nothing":         {},
		"modulus no text": with(p.jwkRSA(), "n", "!!"),
	} {
		text, _ := json.Marshal(m)
		var j jwk
		if err := json.Unmarshal(text, &j); err != nil {
			t.Fatal(err)
		}
		if _, ok := j.key(); ok {
			t.Errorf("%s: taken as a key", name)
		}
	}
}
