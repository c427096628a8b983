package httpapi

import (
	"crypto/ecdsa"
	"crypto/x509"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/sqldb"
)

const siteURL = "https://console.example.com:8443"

var site = virtualwebauthn.RelyingParty{Name: "Sluice", ID: "console.example.com", Origin: siteURL}

func atSite(d *Deps) { d.Config.PublicURL = siteURL }

// securityKey is somebody's key, in a browser that is at a site.
type securityKey struct {
	s  *system
	id string // of the factor
	at virtualwebauthn.RelyingParty
	virtualwebauthn.Authenticator
	virtualwebauthn.Credential
}

func (s *system) newKey() *securityKey {
	k := &securityKey{s: s, at: site, Authenticator: virtualwebauthn.NewAuthenticator()}
	for {
		k.Credential = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		der, err := x509.ParsePKCS8PrivateKey(k.Key.Data)
		check(s.t, err)
		public, err := der.(*ecdsa.PrivateKey).PublicKey.Bytes()
		check(s.t, err)
		// The library leaves zeros in front of a coordinate out, which no real key
		// does: one in 128 would be refused.
		if public[1] != 0 && public[33] != 0 {
			return k
		}
	}
}

// register begins a registration and returns what the browser makes of it.
func (k *securityKey) register(sdk *apiclient.SDK) string {
	k.s.t.Helper()
	e, err := apiclient.Created(sdk.BeginWebauthnWithResponse(k.s.t.Context(), nil, api.WebauthnBegin{Name: "Blue key"}))
	check(k.s.t, err)
	options, err := virtualwebauthn.ParseAttestationOptions(e.Options)
	check(k.s.t, err)
	if options.RelyingPartyID != site.ID || len(options.Challenge) < 16 || e.Type != "webauthn" {
		k.s.t.Errorf("options: %s", e.Options)
	}
	k.id = e.Id
	return virtualwebauthn.CreateAttestationResponse(k.at, k.Authenticator, k.Credential, *options)
}

func (k *securityKey) confirm(sdk *apiclient.SDK, answer string) (api.MfaConfirmed, error) {
	return apiclient.OK(sdk.ConfirmWebauthnWithResponse(k.s.t.Context(), k.id, nil, api.WebauthnConfirm{Credential: answer}))
}

// enrolKey adds a key and returns it with the recovery codes.
func (s *system) enrolKey(p person) (*securityKey, []string) {
	s.t.Helper()
	k := s.newKey()
	done, err := k.confirm(p.sdk, k.register(p.sdk))
	check(s.t, err)
	return k, done.RecoveryCodes
}

// touch is what the browser answers when the key is touched.
func (k *securityKey) touch(await api.MfaAwaited) string {
	k.s.t.Helper()
	if await.WebauthnOptions == nil {
		k.s.t.Fatalf("no options: %+v", await)
	}
	options, err := virtualwebauthn.ParseAssertionOptions(*await.WebauthnOptions)
	check(k.s.t, err)
	k.Counter++
	return virtualwebauthn.CreateAssertionResponse(k.at, k.Authenticator, k.Credential, *options)
}

func (k *securityKey) signIn(await api.MfaAwaited, answer string) error {
	_, err := k.s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Credential: &answer})
	return err
}

func TestWebAuthn_secondFactor(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.SQLite, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			s := newSystem(t, driver, atSite)
			p := s.signUp("ada@example.com")
			other := s.signIn(p)
			k, recovery := s.enrolKey(p)
			if len(recovery) != 10 {
				t.Errorf("recovery codes: %v", recovery)
			}
			_, err := apiclient.OK(other.GetMeWithResponse(t.Context())) // begun without the factor
			wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
			await := s.firstStep(p)
			if !slices.Equal(await.Methods, []api.MfaMethod{"webauthn", "recovery_code"}) {
				t.Errorf("methods: %v", await.Methods)
			}
			answer := k.touch(await)
			check(t, k.signIn(await, answer))
			// Neither token nor answer works again, with another token neither.
			wantProblem(t, k.signIn(await, answer), http.StatusUnauthorized, "mfa_token_invalid")
			wantProblem(t, k.signIn(s.firstStep(p), answer), http.StatusUnauthorized, "webauthn_invalid")
			list, err := apiclient.OK(p.sdk.ListMfaFactorsWithResponse(t.Context(), nil))
			check(t, err)
			if len(list.Items) != 1 || list.Items[0].Type != "webauthn" || list.Items[0].LastUsedAt == nil {
				t.Errorf("list: %+v", list)
			}
			// Beside an app either does.
			phone, _ := s.enrol(p.sdk, "Phone")
			await = s.firstStep(p)
			if len(await.Methods) != 3 {
				t.Errorf("methods: %v", await.Methods)
			}
			_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.fresh()), Credential: ptr(k.touch(await))})
			wantProblem(t, err, http.StatusBadRequest, "mfa_code_required")
			check(t, k.signIn(await, k.touch(await)))
			check(t, apiclient.Done(p.sdk.DeleteMfaFactorWithResponse(t.Context(), k.id, nil)))
			if await = s.firstStep(p); await.WebauthnOptions != nil {
				t.Errorf("a removed key is asked: %+v", await)
			}
		})
	}
}

func TestWebAuthn_whatDoesNotFitIsRefused(t *testing.T) {
	s := newSystem(t, sqldb.SQLite, atSite)
	p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
	k, _ := s.enrolKey(p)
	stranger, _ := s.enrolKey(other)
	for name, tamper := range map[string]func(k *securityKey) *securityKey{
		"wrong origin":            func(k *securityKey) *securityKey { k.at.Origin = "https://console.example.com.evil.test"; return k },
		"origin of another port":  func(k *securityKey) *securityKey { k.at.Origin = "https://console.example.com"; return k },
		"wrong site":              func(k *securityKey) *securityKey { k.at.ID = "evil.test"; return k },
		"other user's credential": func(*securityKey) *securityKey { c := *stranger; return &c },
		"unknown credential":      func(*securityKey) *securityKey { return s.newKey() },
		"other key of that id":    func(k *securityKey) *securityKey { k.Key = s.newKey().Key; return k },
		"nobody touched it":       func(k *securityKey) *securityKey { k.Options.UserNotPresent = true; return k },
	} {
		c := *k
		await := s.firstStep(p)
		wrong := tamper(&c)
		wantProblem(t, wrong.signIn(await, wrong.touch(await)), http.StatusUnauthorized, "webauthn_invalid")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	await := s.firstStep(p)
	wantProblem(t, k.signIn(await, `{"id":"x"}`), http.StatusUnauthorized, "webauthn_invalid")
	wantProblem(t, k.signIn(await, `none`), http.StatusBadRequest, "invalid")
	check(t, k.signIn(await, k.touch(await)))

	// A counter that does not go up is that of a copy.
	s.clock.add(2 * time.Hour)
	k.Counter++
	await = s.firstStep(p)
	check(t, k.signIn(await, k.touch(await)))
	k.Counter--
	await = s.firstStep(p)
	wantProblem(t, k.signIn(await, k.touch(await)), http.StatusUnauthorized, "webauthn_cloned")
	check(t, k.signIn(await, k.touch(await)))
}

func TestWebAuthn_registrationIsBound(t *testing.T) {
	s := newSystem(t, sqldb.SQLite, atSite)
	p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
	k := s.newKey()
	k.at.Origin = "https://evil.test"
	_, err := k.confirm(p.sdk, k.register(p.sdk))
	wantProblem(t, err, http.StatusBadRequest, "webauthn_invalid")
	k.at = site
	stale := k.register(p.sdk)
	fresh := k.register(p.sdk)
	_, err = k.confirm(p.sdk, stale) // an answer to the challenge before
	wantProblem(t, err, http.StatusBadRequest, "webauthn_invalid")
	_, err = k.confirm(other.sdk, fresh)
	wantProblem(t, err, http.StatusNotFound, "not_found")
	_, err = apiclient.OK(p.sdk.ConfirmMfaFactorWithResponse(t.Context(), k.id, nil, api.MfaConfirm{Code: "123456"}))
	wantProblem(t, err, http.StatusNotFound, "not_found")
	_, err = k.confirm(p.sdk, fresh)
	check(t, err)
	_, err = k.confirm(p.sdk, fresh)
	wantProblem(t, err, http.StatusConflict, "mfa_confirmed")
	// The same credential for somebody else.
	_, err = k.confirm(other.sdk, k.register(other.sdk))
	wantProblem(t, err, http.StatusConflict, "webauthn_known")
	s.signIn(other) // not confirmed: one step
	late := s.newKey()
	answer := late.register(other.sdk)
	s.clock.add(6 * time.Minute)
	_, err = late.confirm(other.sdk, answer)
	wantProblem(t, err, http.StatusBadRequest, "webauthn_invalid")
	// By an IP address browsers offer none.
	bare := newSystem(t, sqldb.SQLite)
	q := bare.signUp("ada@example.com")
	_, err = apiclient.Created(q.sdk.BeginWebauthnWithResponse(t.Context(), nil, api.WebauthnBegin{Name: "Key"}))
	wantProblem(t, err, http.StatusConflict, "webauthn_unavailable")
}

func TestWebAuthn_reopensAnAccount(t *testing.T) {
	s := newSystem(t, sqldb.SQLite, atSite)
	p := s.signUp("ada@example.com")
	k, _ := s.enrolKey(p)
	s.closeAccount(p)
	r, err := s.api.ReopenAccountWithResponse(t.Context(), nil, api.SignIn{Email: p.email, Password: password})
	check(t, err)
	if r.JSON202 == nil {
		t.Fatalf("reopen answers %d %s", r.StatusCode(), r.Body)
	}
	check(t, k.signIn(*r.JSON202, k.touch(*r.JSON202)))
	await := s.firstStep(p)
	check(t, k.signIn(await, k.touch(await)))
}

// A security key proves in a step-up, for the session that asked and nothing
// else.
func TestWebAuthn_stepUp(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.SQLite, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			s := newSystem(t, driver, atSite)
			p := s.signUp("ada@example.com")
			ctx := t.Context()
			_, err := apiclient.OK(p.sdk.BeginStepUpWithResponse(ctx, nil))
			wantProblem(t, err, http.StatusConflict, "mfa_not_enrolled")
			k, _ := s.enrolKey(p)
			begin := func(sdk *apiclient.SDK) api.MfaAwaited {
				a, err := apiclient.OK(sdk.BeginStepUpWithResponse(ctx, nil))
				check(t, err)
				return a
			}
			stepUp := func(sdk *apiclient.SDK, password string, a api.MfaAwaited, answer string) error {
				_, err := apiclient.OK(sdk.StepUpWithResponse(ctx, nil, api.StepUp{Password: password, MfaToken: &a.MfaToken, Credential: &answer}))
				return err
			}
			risky := func(sdk *apiclient.SDK) error {
				_, err := apiclient.OK(sdk.RenewRecoveryCodesWithResponse(ctx, nil))
				return err
			}
			s.clock.add(16 * time.Minute)
			renewed, err := s.refresh(p)
			check(t, err)
			p.sdk, err = apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: renewed.AccessToken, MaxRetries: -1})
			check(t, err)
			wantProblem(t, risky(p.sdk), http.StatusForbidden, "step_up_required")

			a := begin(p.sdk)
			wantProblem(t, stepUp(p.sdk, "wrong password!", a, k.touch(a)), http.StatusBadRequest, "password_wrong")
			check(t, stepUp(p.sdk, password, a, k.touch(a)))
			check(t, risky(p.sdk))
			wantProblem(t, stepUp(p.sdk, password, a, k.touch(a)), http.StatusBadRequest, "mfa_token_invalid")

			a = begin(p.sdk)
			wantProblem(t, k.signIn(a, k.touch(a)), http.StatusUnauthorized, "mfa_token_invalid")
			await := s.firstStep(p)
			wantProblem(t, stepUp(p.sdk, password, await, k.touch(await)), http.StatusBadRequest, "mfa_token_invalid")
		})
	}
}
