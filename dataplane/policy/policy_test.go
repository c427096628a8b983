package policy

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"github.com/golang-jwt/jwt/v5"
)

var (
	testNow    = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	testRemote = netip.MustParseAddr("10.0.0.9")
	testSecret = []byte("0123456789abcdef0123456789abcdef")
)

// fixture is an Engine with a clock and the control plane's signing keys.
type fixture struct {
	*Engine
	t        *testing.T
	dir      string
	signing  ed25519.PrivateKey
	tokens   ed25519.PrivateKey
	now      time.Time
	snapshot *Snapshot
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), now: testNow}
	_, f.signing, _ = ed25519.GenerateKey(nil)
	public, tokens, _ := ed25519.GenerateKey(nil)
	f.tokens = tokens
	f.snapshot = &Snapshot{
		Issuer: "sluice",
		Tokens: []TokenKey{{KID: "k1", Public: public}},
		Namespaces: map[string]Namespace{
			"aaaaaaaa": {TenantID: "ten_a"}, "aaaaaaab": {TenantID: "ten_a"}, "bbbbbbbb": {TenantID: "ten_b"},
		},
		Keys: map[string]Key{
			"slk_a":     {Secret: "secret-a", TenantID: "ten_a", Scopes: []Scope{all("aaaaaaaa")}},
			"slk_two":   {Secret: "secret-two", TenantID: "ten_a", Scopes: []Scope{all("aaaaaaaa"), all("aaaaaaab")}},
			"slk_b":     {Secret: "secret-b", TenantID: "ten_b", Scopes: []Scope{all("bbbbbbbb")}},
			"slk_steal": {Secret: "secret-steal", TenantID: "ten_a", Scopes: []Scope{all("bbbbbbbb")}},
			"slk_narrow": {Secret: "secret-narrow", TenantID: "ten_a", Scopes: []Scope{
				{NamespaceID: "aaaaaaaa", Permissions: []string{"PUB"}, Topics: []string{"orders*"}},
				{NamespaceID: "aaaaaaaa", Permissions: []string{"SUB"}, Topics: []string{"orders"}, Groups: []string{"g1"}},
			}},
			"slk_dead":  {Secret: "secret-dead", TenantID: "ten_a", Revoked: true, Scopes: []Scope{all("aaaaaaaa")}},
			"slk_local": {Secret: "secret-local", TenantID: "ten_a", AllowedCIDRs: []string{"127.0.0.0/8", "::1"}, Scopes: []Scope{all("aaaaaaaa")}},
		},
	}
	f.reopen()
	f.apply(1)
	return f
}

func all(ns string) Scope {
	return Scope{NamespaceID: ns, Permissions: []string{"PUB", "SUB"}, Topics: []string{"*"}, Groups: []string{"*"}}
}

func (f *fixture) reopen() {
	f.t.Helper()
	e, err := Open(Config{
		Dir: f.dir, Cluster: "c1", SystemSecret: testSecret, Trusted: []ed25519.PublicKey{f.signing.Public().(ed25519.PublicKey)},
		Now: func() time.Time { return f.now }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.Engine = e
}

func (f *fixture) apply(revision uint64) {
	f.t.Helper()
	raw, err := SealSnapshot(f.signing, "c1", revision, f.snapshot)
	if err != nil {
		f.t.Fatal(err)
	}
	if got, err := f.Apply(raw); err != nil || got != revision {
		f.t.Fatalf("Apply = %d, %v; want %d", got, err, revision)
	}
}

// call signs a remoting request as the key and authenticates it.
func (f *fixture) call(key, secret string) (*Principal, error) {
	ext := map[string]string{"topic": "orders"}
	SignRemoting(ext, []byte("body"), key, []byte(secret))
	return f.AuthenticateRemoting(RemotingRequest{Fields: FieldsOf(ext), Body: []byte("body"), Remote: testRemote})
}

func (f *fixture) principal(key string) *Principal {
	f.t.Helper()
	p, err := f.call(key, f.snapshot.Keys[key].Secret)
	if err != nil {
		f.t.Fatalf("call as %s: %v", key, err)
	}
	return p
}

func (f *fixture) view(key, namespace string) *View {
	f.t.Helper()
	v, err := f.principal(key).In(namespace, testRemote)
	if err != nil {
		f.t.Fatalf("%s in %q: %v", key, namespace, err)
	}
	return v
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Code != code {
		t.Errorf("got %v, want refusal %s", err, code)
	}
}

func TestAuthenticateRemoting_refusals(t *testing.T) {
	f := newFixture(t)
	f.snapshot.Keys["slk_old"] = Key{Secret: "secret-old", TenantID: "ten_a", ExpiresAt: &testNow, Scopes: []Scope{all("aaaaaaaa")}}
	f.snapshot.Keys["slk_off"] = Key{Secret: "secret-off", TenantID: "ten_a", Disabled: true, Scopes: []Scope{all("aaaaaaaa")}}
	f.snapshot.Keys["slk_empty"] = Key{TenantID: "ten_a", Scopes: []Scope{all("aaaaaaaa")}}
	f.apply(2)
	for _, c := range []struct{ name, key, secret, code string }{
		{"unknown key", "slk_nobody", "x", CodeUnauthenticated},
		{"wrong secret", "slk_a", "secret-b", CodeUnauthenticated},
		{"no key", "", "x", CodeUnauthenticated},
		{"system with a guess", SystemKeyID, "secret-a", CodeUnauthenticated},
		{"key without a secret", "slk_empty", "", CodeUnauthenticated},
		{"revoked", "slk_dead", "secret-dead", CodeKeyRevoked},
		{"revoked with the wrong secret tells nothing", "slk_dead", "x", CodeUnauthenticated},
		{"disabled", "slk_off", "secret-off", CodeKeyDisabled},
		{"disabled with the wrong secret tells nothing", "slk_off", "x", CodeUnauthenticated},
		{"expired at this very moment", "slk_old", "secret-old", CodeKeyExpired},
		{"address outside", "slk_local", "secret-local", CodeAddressNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := f.call(c.key, c.secret)
			wantCode(t, err, c.code)
		})
	}
	if _, err := f.AuthenticateRemoting(RemotingRequest{Fields: FieldsOf(map[string]string{"AccessKey": "slk_a"}), Remote: testRemote}); err == nil {
		t.Error("a request without a signature passed")
	}
}

// A scope counts only at its addresses and before its end; the rest of the key
// goes on.
func TestScope_addressesAndEnd(t *testing.T) {
	f := newFixture(t)
	end := testNow.Add(time.Hour)
	f.snapshot.Keys["slk_a"] = Key{Secret: "secret-a", TenantID: "ten_a", Scopes: []Scope{
		{NamespaceID: "aaaaaaaa", Permissions: []string{"PUB"}, Topics: []string{"*"}},
		{NamespaceID: "aaaaaaaa", Permissions: []string{"SUB"}, Topics: []string{"*"}, CIDRs: []string{"10.0.0.0/8"}, ExpiresAt: &end},
	}}
	f.apply(2)
	p := f.find("slk_a")
	for _, c := range []struct {
		address string
		now     time.Time
		op      Operation
		code    string
	}{
		{"10.1.1.1", testNow, OperationSub, ""},
		{"::ffff:10.1.1.1", testNow, OperationSub, ""},
		{"11.1.1.1", testNow, OperationSub, CodePermissionDenied},
		{"10.1.1.1", end.Add(-time.Nanosecond), OperationSub, ""},
		{"10.1.1.1", end, OperationSub, CodePermissionDenied},
		{"11.1.1.1", end, OperationPub, ""},
	} {
		f.now = c.now
		v, err := p.In("", netip.MustParseAddr(c.address))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = v.Topic("orders", c.op); c.code == "" && err != nil {
			t.Errorf("%+v: %v", c, err)
		} else if c.code != "" {
			wantCode(t, err, c.code)
		}
	}
}

// Case B149: a listed address narrows, it never replaces the signature.
func TestAuthenticateRemoting_allowedAddressStillSigns(t *testing.T) {
	f := newFixture(t)
	local := netip.MustParseAddr("::ffff:127.0.0.1")
	ext := map[string]string{"AccessKey": "slk_local", "Signature": "AAAA"}
	if _, err := f.AuthenticateRemoting(RemotingRequest{Fields: FieldsOf(ext), Remote: local}); err == nil {
		t.Error("wrong signature from an allowed address passed")
	}
	ext = map[string]string{"topic": "t"}
	SignRemoting(ext, nil, "slk_local", []byte("secret-local"))
	if _, err := f.AuthenticateRemoting(RemotingRequest{Fields: FieldsOf(ext), Remote: local}); err != nil {
		t.Errorf("right signature from an allowed address: %v", err)
	}
}

func TestAuthenticateRemoting_everyBytePlaysIn(t *testing.T) {
	f := newFixture(t)
	for _, change := range []func(ext map[string]string, body []byte){
		func(ext map[string]string, _ []byte) { ext["topic"] = "orderz" },
		func(ext map[string]string, _ []byte) { ext["extra"] = "1" },
		func(ext map[string]string, _ []byte) { delete(ext, "topic") },
		func(_ map[string]string, body []byte) { body[0] ^= 1 },
	} {
		ext, body := map[string]string{"topic": "orders"}, []byte("body")
		SignRemoting(ext, body, "slk_a", []byte("secret-a"))
		change(ext, body)
		if _, err := f.AuthenticateRemoting(RemotingRequest{Fields: FieldsOf(ext), Body: body, Remote: testRemote}); err == nil {
			t.Errorf("a changed request passed: %v %q", ext, body)
		}
	}
}

func TestAuthenticateGRPC(t *testing.T) {
	f := newFixture(t)
	mac := hmac.New(sha1.New, []byte("secret-a"))
	mac.Write([]byte("20261129T120000Z"))
	sign := hex.EncodeToString(mac.Sum(nil))
	for _, c := range []struct{ name, authorization, date, code string }{
		{"Java", "MQv2-HMAC-SHA1 Credential=slk_a, SignedHeaders=x-mq-date-time, Signature=" + strings.ToUpper(sign), "20261129T120000Z", ""},
		{"Go appends a region", "MQv2-HMAC-SHA1 Credential=slk_a//Rocketmq, SignedHeaders=x-mq-date-time, Signature=" + sign, "20261129T120000Z", ""},
		{"another date", "MQv2-HMAC-SHA1 Credential=slk_a, Signature=" + sign, "20261129T120001Z", CodeUnauthenticated},
		{"no date", "MQv2-HMAC-SHA1 Credential=slk_a, Signature=" + sign, "", CodeUnauthenticated},
		{"Python unconfigured", "MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=" + sign, "20261129T120000Z", CodeUnauthenticated},
		{"none", "", "20261129T120000Z", CodeUnauthenticated},
		{"not hex", "MQv2-HMAC-SHA1 Credential=slk_a, Signature=zz", "20261129T120000Z", CodeUnauthenticated},
		{"Bearer nonsense", "Bearer x.y.z", "", CodeTokenInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := f.AuthenticateGRPC(GRPCRequest{Authorization: c.authorization, DateTime: c.date, Remote: testRemote})
			if c.code != "" {
				wantCode(t, err, c.code)
			} else if err != nil || p.KeyID() != "slk_a" || p.TenantID() != "ten_a" {
				t.Errorf("got %v, %v; want slk_a", p, err)
			}
		})
	}
}

func (f *fixture) token(kid string, key any, method jwt.SigningMethod, claims jwt.MapClaims) string {
	tok := jwt.NewWithClaims(method, claims)
	tok.Header["kid"], tok.Header["typ"] = kid, "at+jwt"
	text, err := tok.SignedString(key)
	if err != nil {
		f.t.Fatal(err)
	}
	return text
}

func TestToken(t *testing.T) {
	f := newFixture(t)
	good := func() jwt.MapClaims {
		return jwt.MapClaims{"iss": "sluice", "aud": "data", "key_id": "slk_a", "exp": testNow.Add(time.Minute).Unix()}
	}
	with := func(k string, v any) jwt.MapClaims { c := good(); c[k] = v; return c }
	public := f.tokens.Public().(ed25519.PublicKey)
	_, stranger, _ := ed25519.GenerateKey(nil)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	f.snapshot.Tokens = append(f.snapshot.Tokens, TokenKey{KID: "r1", Algorithm: AlgorithmRS256, Public: x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey)},
		TokenKey{KID: "bad", Algorithm: AlgorithmRS256, Public: []byte("x")})
	f.apply(2)
	headed := func(kid string, key any, method jwt.SigningMethod, header map[string]any) string {
		tok := jwt.NewWithClaims(method, good())
		tok.Header["kid"], tok.Header["typ"] = kid, "at+jwt"
		for k, v := range header {
			tok.Header[k] = v
		}
		text, err := tok.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	jwk := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(stranger.Public().(ed25519.PublicKey))}
	for _, c := range []struct{ name, text, code string }{
		{"good", f.token("k1", f.tokens, jwt.SigningMethodEdDSA, good()), ""},
		{"good RS256", f.token("r1", rsaKey, jwt.SigningMethodRS256, good()), ""},
		{"RS256 by the kid of EdDSA", f.token("k1", rsaKey, jwt.SigningMethodRS256, good()), CodeTokenInvalid},
		{"EdDSA by the kid of RS256", f.token("r1", f.tokens, jwt.SigningMethodEdDSA, good()), CodeTokenInvalid},
		{"PS256", f.token("r1", rsaKey, jwt.SigningMethodPS256, good()), CodeTokenInvalid},
		{"RSA public key as HMAC secret", f.token("r1", x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey), jwt.SigningMethodHS256, good()), CodeTokenInvalid},
		{"key that fits no algorithm", f.token("bad", rsaKey, jwt.SigningMethodRS256, good()), CodeTokenInvalid},
		{"type JWT", headed("k1", f.tokens, jwt.SigningMethodEdDSA, map[string]any{"typ": "JWT"}), CodeTokenInvalid},
		{"critical header", headed("k1", f.tokens, jwt.SigningMethodEdDSA, map[string]any{"crit": []string{"exp"}}), CodeTokenInvalid},
		{"embedded jwk", headed("", stranger, jwt.SigningMethodEdDSA, map[string]any{"jwk": jwk, "jku": "http://127.0.0.1/x", "x5u": "http://127.0.0.1/x"}), CodeTokenInvalid},
		{"kid is a path", headed("../k1", f.tokens, jwt.SigningMethodEdDSA, nil), CodeTokenInvalid},
		{"not yet valid", f.token("k1", f.tokens, jwt.SigningMethodEdDSA, with("nbf", testNow.Add(time.Minute).Unix())), CodeTokenInvalid},
		{"issued in the future", f.token("k1", f.tokens, jwt.SigningMethodEdDSA, with("iat", testNow.Add(time.Minute).Unix())), CodeTokenInvalid},
		{"control audience", f.token("k1", f.tokens, jwt.SigningMethodEdDSA, with("aud", "control")), CodeTokenInvalid},
		{"other issuer", f.token("k1", f.tokens, jwt.SigningMethodEdDSA, with("iss", "other")), CodeTokenInvalid},
		{"expired", f.token("k1", f.tokens, jwt.SigningMethodEdDSA, with("exp", testNow.Add(-time.Minute).Unix())), CodeTokenInvalid},
		{"no expiry", f.token("k1", f.tokens, jwt.SigningMethodEdDSA, jwt.MapClaims{"iss": "sluice", "aud": "data", "key_id": "slk_a"}), CodeTokenInvalid},
		{"unknown kid", f.token("k2", f.tokens, jwt.SigningMethodEdDSA, good()), CodeTokenInvalid},
		{"stranger's key", f.token("k1", stranger, jwt.SigningMethodEdDSA, good()), CodeTokenInvalid},
		{"public key as HMAC secret", f.token("k1", []byte(public), jwt.SigningMethodHS256, good()), CodeTokenInvalid},
		{"alg none", f.token("k1", jwt.UnsafeAllowNoneSignatureType, jwt.SigningMethodNone, good()), CodeTokenInvalid},
		{"key that is gone", f.token("k1", f.tokens, jwt.SigningMethodEdDSA, with("key_id", "slk_x")), CodeTokenInvalid},
		{"revoked key", f.token("k1", f.tokens, jwt.SigningMethodEdDSA, with("key_id", "slk_dead")), CodeKeyRevoked},
		{"none", "", CodeUnauthenticated},
	} {
		t.Run(c.name, func(t *testing.T) {
			ext := map[string]string{"AccessKey": "jwt", "SecurityToken": c.text}
			p, err := f.AuthenticateRemoting(RemotingRequest{Fields: FieldsOf(ext), Remote: testRemote})
			_, grpcErr := f.AuthenticateGRPC(GRPCRequest{Authorization: "Bearer " + c.text, Remote: testRemote})
			if _, err := f.AuthenticateGRPC(GRPCRequest{Authorization: "MQv2-HMAC-SHA1 Credential=" + c.text + "//Rocketmq, Signature=00", DateTime: "x", Remote: testRemote}); (err == nil) != (grpcErr == nil) {
				t.Errorf("as an access key: %v, as a bearer: %v", err, grpcErr)
			}
			if c.code != "" {
				wantCode(t, err, c.code)
				wantCode(t, grpcErr, c.code)
				return
			}
			if err != nil || grpcErr != nil || p.KeyID() != "slk_a" {
				t.Fatalf("got %v, %v, %v", p, err, grpcErr)
			}
			if !p.Live() {
				t.Error("fresh token is not live")
			}
			f.now = f.now.Add(2 * time.Minute)
			if p.Live() {
				t.Error("token outlived its expiry")
			}
			f.now = testNow
		})
	}
}

// A revoked token is over, on open connections and for requests that wait, too;
// the key and its other tokens go on. Case B150.
func TestOWASP_API2_revokedToken(t *testing.T) {
	f := newFixture(t)
	token := func(id string) string {
		return f.token("k1", f.tokens, jwt.SigningMethodEdDSA, jwt.MapClaims{"iss": "sluice", "aud": "data", "key_id": "slk_a", "jti": id, "exp": testNow.Add(time.Minute).Unix()})
	}
	enter := func(id string) (*Principal, error) {
		return f.AuthenticateGRPC(GRPCRequest{Authorization: "Bearer " + token(id), Remote: testRemote})
	}
	one, err := enter("jti_1")
	if err != nil {
		t.Fatal(err)
	}
	parked, err := one.In("", testRemote)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parked.Topic("orders", OperationSub); err != nil || parked.Still() != nil {
		t.Fatal("a fresh token is refused", err)
	}
	called := 0
	f.OnChange(func() { called++ })
	f.delta(1, 2, &Delta{Revoked: map[string]int64{"jti_1": testNow.Add(time.Minute).Unix()}})
	if one.Live() || parked.Still() == nil || called != 1 {
		t.Errorf("live %v, still %v, told %d times", one.Live(), parked.Still(), called)
	}
	_, err = enter("jti_1")
	wantCode(t, err, CodeTokenInvalid)
	if _, err := enter("jti_2"); err != nil || !f.principal("slk_a").Live() {
		t.Errorf("another token or the key itself: %v", err)
	}
	f.reopen() // from disk
	_, err = enter("jti_1")
	wantCode(t, err, CodeTokenInvalid)
	f.delta(2, 3, &Delta{DropRevoked: []string{"jti_1"}})
	if n := len(f.current.Load().snapshot.Revoked); n != 0 {
		t.Errorf("%d revoked tokens are kept after their time", n)
	}
}

func TestLive_endsOnlyWithTheKeysOwnChange(t *testing.T) {
	f := newFixture(t)
	a, narrow := f.principal("slk_a"), f.principal("slk_narrow")
	token := f.token("k1", f.tokens, jwt.SigningMethodEdDSA, jwt.MapClaims{"iss": "sluice", "aud": "data", "key_id": "slk_a", "exp": testNow.Add(time.Minute).Unix()})
	byToken, err := f.AuthenticateGRPC(GRPCRequest{Authorization: "Bearer " + token, Remote: testRemote})
	if err != nil {
		t.Fatal(err)
	}
	called := 0
	f.OnChange(func() { called++ })

	d := &Delta{Namespaces: map[string]Namespace{"aaaaaaaa": {TenantID: "ten_a", Limits: Limits{SendMessagesPerSecond: 5}}}}
	f.delta(1, 2, d)
	if !a.Live() || !narrow.Live() || !byToken.Live() {
		t.Error("a changed limit ended principals")
	}
	revoked := f.snapshot.Keys["slk_a"]
	revoked.Revoked = true
	f.delta(2, 3, &Delta{Keys: map[string]Key{"slk_a": revoked}})
	if a.Live() || byToken.Live() {
		t.Error("revoked key or its token is live")
	}
	if !narrow.Live() {
		t.Error("another key's revocation ended this one")
	}
	f.delta(3, 4, &Delta{DropKeys: []string{"slk_narrow"}})
	if narrow.Live() {
		t.Error("dropped key is live")
	}
	if called != 3 {
		t.Errorf("OnChange called %d times, want 3", called)
	}
}

// A rotation with a grace period moves the end of the old key: what is open
// goes on until then, and no longer, whether that end comes later or sooner.
func TestLive_lastsUntilTheEndOfTheKey(t *testing.T) {
	f := newFixture(t)
	key := f.principal("slk_a")
	token := f.token("k1", f.tokens, jwt.SigningMethodEdDSA, jwt.MapClaims{"iss": "sluice", "aud": "data", "key_id": "slk_a", "exp": testNow.Add(time.Hour).Unix()})
	byToken, err := f.AuthenticateGRPC(GRPCRequest{Authorization: "Bearer " + token, Remote: testRemote})
	if err != nil {
		t.Fatal(err)
	}
	parked, err := key.In("", testRemote)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parked.Topic("orders", OperationSub); err != nil {
		t.Fatal(err)
	}
	revision := uint64(1)
	end := func(at time.Duration, change func(*Key)) {
		t.Helper()
		k := f.snapshot.Keys["slk_a"]
		moved := testNow.Add(at)
		k.ExpiresAt = &moved
		if change != nil {
			change(&k)
		}
		f.delta(revision, revision+1, &Delta{Keys: map[string]Key{"slk_a": k}})
		revision++
	}
	live := func(want bool, when string) {
		t.Helper()
		if key.Live() != want || byToken.Live() != want || (parked.Still() == nil) != want {
			t.Errorf("%s: key %v, token %v, parked %v", when, key.Live(), byToken.Live(), parked.Still())
		}
	}
	end(10*time.Minute, nil)
	live(true, "with an end ahead")
	end(20*time.Minute, nil)
	f.now = testNow.Add(15 * time.Minute)
	live(true, "after the end moved on")
	end(14*time.Minute, nil)
	live(false, "after an end that came sooner")
	end(20*time.Minute, nil)
	live(true, "with an end ahead again")
	f.now = testNow.Add(20 * time.Minute)
	live(false, "at the end")
	f.now = testNow
	end(30*time.Minute, func(k *Key) { k.AllowedCIDRs = []string{"192.0.2.0/24"} })
	live(false, "with other addresses")
}

func (f *fixture) delta(base, revision uint64, d *Delta) {
	f.t.Helper()
	raw, err := SealDelta(f.signing, "c1", base, revision, d)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.Apply(raw); err != nil {
		f.t.Fatal(err)
	}
}

func TestApply_refusesWhatDoesNotFit(t *testing.T) {
	f := newFixture(t)
	_, stranger, _ := ed25519.GenerateKey(nil)
	seal := func(key ed25519.PrivateKey, cluster string, revision uint64) []byte {
		raw, err := SealSnapshot(key, cluster, revision, f.snapshot)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if _, err := f.Apply(seal(stranger, "c1", 2)); !errors.Is(err, ErrUntrusted) {
		t.Errorf("stranger's policy: %v", err)
	}
	if _, err := f.Apply(seal(f.signing, "c2", 2)); err == nil {
		t.Error("another cluster's policy was taken")
	}
	good := seal(f.signing, "c1", 2)
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x04
		var was, is envelope
		if json.Unmarshal(good, &was) == nil && json.Unmarshal(bad, &is) == nil && reflect.DeepEqual(was, is) {
			continue // the same envelope in another spelling: base64 has bits that say nothing
		}
		if rev, err := f.Apply(bad); err == nil && rev != 1 {
			t.Fatalf("byte %d flipped was taken as revision %d", i, rev)
		}
		if f.Revision() != 1 {
			t.Fatalf("byte %d flipped changed the revision", i)
		}
	}
	raw, _ := SealDelta(f.signing, "c1", 7, 8, &Delta{})
	if _, err := f.Apply(raw); !errors.Is(err, ErrStale) {
		t.Errorf("delta on another base: %v", err)
	}
	f.apply(2)
	if rev, err := f.Apply(seal(f.signing, "c1", 1)); err != nil || rev != 2 {
		t.Errorf("older policy: %d, %v; want the newer one kept", rev, err)
	}
}

func TestEngine_keepsPolicyOnDisk(t *testing.T) {
	f := newFixture(t)
	hash := f.Hash()
	f.reopen()
	if f.Revision() != 1 || f.Hash() != hash {
		t.Fatalf("after reopen: revision %d", f.Revision())
	}
	f.principal("slk_a")

	f.apply(2)
	f.delta(2, 3, &Delta{DropKeys: []string{"slk_a"}})
	path := filepath.Join(f.dir, fileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(whole), "secret-b") {
		t.Error("secrets lie open on disk")
	}
	damage := map[string][]byte{
		"empty": {}, "zeros": make([]byte, len(whole)), "cut": whole[:len(whole)/2],
		"magic": append([]byte{'X'}, whole[1:]...), "version": append(append([]byte(fileMagic), 9), whole[headerBytes:]...),
		"body": append(append([]byte{}, whole[:len(whole)-1]...), whole[len(whole)-1]^1),
	}
	for name, raw := range damage {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		f.reopen()
		if f.Revision() != 0 {
			t.Errorf("%s: revision %d, which may let in who was revoked since", name, f.Revision())
		}
	}
	if _, err := f.file.open(damage["magic"]); !errors.Is(err, errNotPolicyFile) {
		t.Errorf("magic: %v", err)
	}
	if _, err := f.file.open(damage["version"]); !errors.Is(err, errPolicyVersion) {
		t.Errorf("version: %v", err)
	}
	if _, err := f.file.open(damage["body"]); !errors.Is(err, errPolicyTampered) {
		t.Errorf("body: %v", err)
	}
}

func TestRefusal_text(t *testing.T) {
	r := &Refusal{Code: CodeRateLimited, Text: "too fast", Limit: "10 messages/s", Used: "11", RetryAfter: 1500 * time.Microsecond}
	want := "[SLUICE:rate_limited] too fast; limit=10 messages/s; used=11; retry_after_ms=2; request_id=r1"
	if got := r.WithRequestID("r1").Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := refuse(CodeNameInvalid, "bad").Error(); got != "[SLUICE:name_invalid] bad" {
		t.Errorf("got %s", got)
	}
}
