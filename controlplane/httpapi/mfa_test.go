package httpapi

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// app is somebody's authenticator app.
type app struct {
	s      *system
	id     string
	secret []byte
}

func (a *app) code() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(a.s.clock.now().Unix()/30))
	m := hmac.New(sha1.New, a.secret)
	m.Write(b[:])
	sum := m.Sum(nil)
	at := sum[19] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:at+4])&0x7fffffff%1e6)
}

// fresh is the code after the present one.
func (a *app) fresh() string {
	a.s.clock.add(30 * time.Second)
	return a.code()
}

// enrol adds an authenticator app and returns it with the recovery codes.
func (s *system) enrol(sdk *apiclient.SDK, name string) (*app, []string) {
	s.t.Helper()
	e, err := apiclient.Created(sdk.CreateMfaFactorWithResponse(s.t.Context(), nil, api.MfaFactorCreate{Type: "totp", Name: name}))
	check(s.t, err)
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(e.Secret)
	check(s.t, err)
	a := &app{s: s, id: e.Id, secret: secret}
	done, err := apiclient.OK(sdk.ConfirmMfaFactorWithResponse(s.t.Context(), e.Id, nil, api.MfaConfirm{Code: a.code()}))
	check(s.t, err)
	if !done.Factor.Confirmed {
		s.t.Errorf("factor: %+v", done.Factor)
	}
	return a, done.RecoveryCodes
}

// firstStep signs in by password and returns the token of the second step.
func (s *system) firstStep(p person) api.MfaAwaited {
	s.t.Helper()
	r, err := s.api.SignInWithResponse(s.t.Context(), nil, api.SignIn{Email: p.email, Password: password})
	check(s.t, err)
	if r.JSON202 == nil || r.JSON200 != nil || len(r.HTTPResponse.Cookies()) != 0 {
		s.t.Fatalf("sign-in answers %d %s", r.StatusCode(), r.Body)
	}
	return *r.JSON202
}

func (s *system) secondStep(in api.SignInMfa) (api.Session, error) {
	return apiclient.OK(s.api.SignInMfaWithResponse(s.t.Context(), nil, in))
}

func TestMFA_signInInTwoSteps(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		other := s.signIn(p)
		phone, recovery := s.enrol(p.sdk, "Phone")
		_, err := apiclient.OK(other.GetMeWithResponse(t.Context())) // begun without the factor
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		if len(recovery) != 10 || slices.Contains(recovery[1:], recovery[0]) {
			t.Errorf("recovery codes: %v", recovery)
		}
		await := s.firstStep(p)
		if !await.MfaRequired || !slices.Equal(await.Methods, []api.MfaMethod{"totp", "recovery_code"}) {
			t.Errorf("awaited: %+v", await)
		}
		// The token opens nothing else, and the code of the enrolment was used.
		if status, problem, _ := s.raw("GET", "/v1/me", "Bearer "+await.MfaToken, ""); status != http.StatusUnauthorized || problem.Code != "token_invalid" {
			t.Errorf("token as Bearer: %d %s", status, problem.Code)
		}
		_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.code())})
		wantProblem(t, err, http.StatusUnauthorized, "mfa_code_wrong")
		code := phone.fresh()
		ses, err := s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: &code})
		check(t, err)
		_, err = apiclient.OK(s.api.GetMeWithResponse(t.Context(), apiclient.Bearer(ses.AccessToken)))
		check(t, err)
		// Neither token nor code works again.
		_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.fresh())})
		wantProblem(t, err, http.StatusUnauthorized, "mfa_token_invalid")
		again := s.firstStep(p)
		_, err = s.secondStep(api.SignInMfa{MfaToken: again.MfaToken, Code: &code})
		wantProblem(t, err, http.StatusUnauthorized, "mfa_code_wrong")
		// A recovery code works once, in any spelling, and its use is mailed.
		spelled := strings.ToLower(strings.ReplaceAll(recovery[3], "-", " "))
		_, err = s.secondStep(api.SignInMfa{MfaToken: again.MfaToken, RecoveryCode: &spelled})
		check(t, err)
		third := s.firstStep(p)
		_, err = s.secondStep(api.SignInMfa{MfaToken: third.MfaToken, RecoveryCode: &recovery[3]})
		wantProblem(t, err, http.StatusUnauthorized, "mfa_code_wrong")
		var subjects []string
		for _, m := range s.mailsTo(p.email) {
			subjects = append(subjects, m.Subject)
		}
		if text := strings.Join(subjects, "\n"); !strings.Contains(text, "second factor was added") || strings.Count(text, "recovery code was used") != 1 {
			t.Errorf("mails: %v", subjects)
		}
		list, err := apiclient.OK(p.sdk.ListMfaFactorsWithResponse(t.Context(), nil))
		check(t, err)
		if len(list.Items) != 1 || list.RecoveryCodesLeft != 9 || list.Items[0].LastUsedAt == nil {
			t.Errorf("list: %+v", list)
		}
	})
}

func TestMFA_triesAreBoundedPerTokenAndAccount(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		phone, _ := s.enrol(p.sdk, "Phone")
		s.clock.add(2 * time.Hour)
		wrong := func() *string {
			if c := phone.code(); c[0] != '9' {
				return ptr("9" + c[1:])
			}
			return ptr("000000")
		}
		for range 4 { // 4 tokens of 5 tries are all that an account has
			await := s.firstStep(p)
			for range 5 {
				_, err := s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: wrong()})
				wantProblem(t, err, http.StatusUnauthorized, "mfa_code_wrong")
			}
		}
		await := s.firstStep(p)
		_, err := s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.code())})
		wantProblem(t, err, http.StatusTooManyRequests, "rate_limited")
		s.clock.add(time.Hour + time.Minute)
		await = s.firstStep(p)
		for range 5 {
			_, err := s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: wrong()})
			wantProblem(t, err, http.StatusUnauthorized, "mfa_code_wrong")
		}
		_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.code())})
		wantProblem(t, err, http.StatusUnauthorized, "mfa_token_invalid")
		await = s.firstStep(p)
		s.clock.add(5 * time.Minute)
		_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.code())})
		wantProblem(t, err, http.StatusUnauthorized, "mfa_token_invalid")
	})
}

func TestMFA_stepUpAsksForIt(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	phone, recovery := s.enrol(p.sdk, "Phone")
	_, err := apiclient.OK(p.sdk.StepUpWithResponse(t.Context(), nil, api.StepUp{Password: password}))
	wantProblem(t, err, http.StatusBadRequest, "mfa_code_required")
	_, err = apiclient.OK(p.sdk.StepUpWithResponse(t.Context(), nil, api.StepUp{Password: password, Code: ptr(phone.code())}))
	wantProblem(t, err, http.StatusBadRequest, "mfa_code_wrong") // it was used for the enrolment
	_, err = apiclient.OK(p.sdk.StepUpWithResponse(t.Context(), nil, api.StepUp{Password: password, Code: ptr(phone.fresh())}))
	check(t, err)
	_, err = apiclient.OK(p.sdk.StepUpWithResponse(t.Context(), nil, api.StepUp{Password: password, RecoveryCode: &recovery[0]}))
	check(t, err)
}

func TestMFA_removedAndRenewed(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		_, err := apiclient.OK(p.sdk.RenewRecoveryCodesWithResponse(t.Context(), nil))
		wantProblem(t, err, http.StatusConflict, "mfa_not_enabled")
		phone, recovery := s.enrol(p.sdk, "Phone")
		s.clock.add(time.Minute)
		tablet, more := s.enrol(p.sdk, "Tablet")
		if len(more) != 0 {
			t.Error("the second factor came with recovery codes")
		}
		fresh, err := apiclient.OK(p.sdk.RenewRecoveryCodesWithResponse(t.Context(), nil))
		check(t, err)
		await := s.firstStep(p)
		_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, RecoveryCode: &recovery[0]})
		wantProblem(t, err, http.StatusUnauthorized, "mfa_code_wrong")
		_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, RecoveryCode: &fresh.RecoveryCodes[0]})
		check(t, err)
		wantProblem(t, apiclient.Done(other.sdk.DeleteMfaFactorWithResponse(t.Context(), phone.id, nil)), http.StatusNotFound, "not_found")
		_, err = apiclient.OK(other.sdk.ConfirmMfaFactorWithResponse(t.Context(), phone.id, nil, api.MfaConfirm{Code: phone.code()}))
		wantProblem(t, err, http.StatusNotFound, "not_found")
		check(t, apiclient.Done(p.sdk.DeleteMfaFactorWithResponse(t.Context(), phone.id, nil)))
		await = s.firstStep(p)
		_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.fresh())})
		wantProblem(t, err, http.StatusUnauthorized, "mfa_code_wrong")
		_, err = s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(tablet.fresh())})
		check(t, err)
		check(t, apiclient.Done(p.sdk.DeleteMfaFactorWithResponse(t.Context(), tablet.id, nil)))
		_, err = apiclient.OK(s.signIn(p).GetMeWithResponse(t.Context())) // one step again
		check(t, err)
	})
}

// An enrolment that is not confirmed changes nothing, and is not shown.
func TestMFA_unconfirmedDoesNotCount(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	e, err := apiclient.Created(p.sdk.CreateMfaFactorWithResponse(t.Context(), nil, api.MfaFactorCreate{Type: "totp", Name: "Phone"}))
	check(t, err)
	_, err = apiclient.OK(p.sdk.ConfirmMfaFactorWithResponse(t.Context(), e.Id, nil, api.MfaConfirm{Code: "000000"}))
	wantProblem(t, err, http.StatusBadRequest, "mfa_code_wrong")
	s.signIn(p)
	list, err := apiclient.OK(p.sdk.ListMfaFactorsWithResponse(t.Context(), nil))
	if err != nil || len(list.Items) != 0 {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// Secrets of factors are sealed in the database, recovery codes hashed.
func TestMFA_secretsAreSealedAtRest(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	phone, recovery := s.enrol(p.sdk, "Phone")
	var row struct{ Sealed, CodeHash []byte }
	check(t, s.db.Conn(t.Context()).Raw("SELECT sealed, code_hash FROM mfa_factors JOIN recovery_codes ON recovery_codes.user_id = mfa_factors.user_id LIMIT 1").Scan(&row).Error)
	sealed, hash := row.Sealed, row.CodeHash
	if len(sealed) == 0 || strings.Contains(string(sealed), string(phone.secret)) || len(hash) != 32 || strings.Contains(string(hash), strings.ReplaceAll(recovery[0], "-", "")) {
		t.Errorf("sealed %x, hash %x", sealed, hash)
	}
}

// TestMFA_demandedByTheTenant: without a factor a member may only do what is
// marked x-without-mfa; the enrolment ends that at once.
func TestMFA_demandedByTheTenant(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		_, err := s.tenants.UpdateTenant(t.Context(), p.TenantId, tenant.TenantUpdate{Security: tenant.SecurityUpdate{MFARequired: ptr(true)}}, 0)
		check(t, err)
		n := 0
		for _, op := range s.srv.ops {
			if op.permission == "public" {
				continue
			}
			path := parameter.ReplaceAllString(op.path, "x")
			status, problem, _ := s.raw(op.route.Method, path, "Bearer "+p.AccessToken, `{`)
			refused := status == http.StatusForbidden && problem.Code == "mfa_enrolment_required"
			if refused == op.withoutMFA {
				t.Errorf("%s: %d %s, marked %v", op.id, status, problem.Code, op.withoutMFA)
			}
			if op.withoutMFA {
				n++
			}
		}
		if n < 8 {
			t.Errorf("%d operations are marked", n)
		}
		s.enrol(p.sdk, "Phone")
		_, err = apiclient.OK(p.sdk.GetTenantWithResponse(t.Context()))
		check(t, err)
		// Keys are no people.
		if _, err := apiclient.OK(s.api.GetMeWithResponse(t.Context(), apiclient.Basic(p.ApiKey.Id, p.ApiKey.Secret))); apiclient.Is(err, "mfa_enrolment_required") {
			t.Errorf("key: %v", err)
		}
	})
}
