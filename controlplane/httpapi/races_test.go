package httpapi

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// reset sets a new password by mail, as the owner of an account does who fears
// that somebody knows the old one.
func (s *system) reset(p person, password string) {
	s.t.Helper()
	s.clock.add(time.Second)
	_, err := apiclient.Accepted(s.api.RequestPasswordResetWithResponse(s.t.Context(), nil, api.PasswordReset{Email: p.email}))
	check(s.t, err)
	check(s.t, apiclient.Done(s.api.ConfirmPasswordResetWithResponse(s.t.Context(), nil, api.PasswordResetConfirm{Email: p.email, Code: s.code(p.email), Password: password})))
}

// A reset ends everything that the old password opens, also what is on its way:
// checking a password takes long, and a reset goes through meanwhile.
func TestOWASP_API2_resetWinsOverTheOldPassword(t *testing.T) {
	const fresh = "vermilion tide under glass"
	for name, do := range map[string]func(s *system, p person, owner person) error{
		"sign-in": func(s *system, p, _ person) error {
			_, err := apiclient.OK(s.api.SignInWithResponse(s.t.Context(), nil, api.SignIn{Email: p.email, Password: password}))
			return err
		},
		"change of the password": func(s *system, p, _ person) error {
			return apiclient.Done(p.sdk.ChangePasswordWithResponse(s.t.Context(), nil, api.PasswordChange{CurrentPassword: password, Password: "the thief's own words"}))
		},
		"step-up": func(s *system, p, _ person) error {
			_, err := apiclient.OK(p.sdk.StepUpWithResponse(s.t.Context(), nil, api.StepUp{Password: password}))
			return err
		},
		"invitation": func(s *system, p, owner person) error {
			_, err := s.invite(owner, p.email, "viewer")
			check(s.t, err)
			_, err = apiclient.OK(s.api.AcceptInvitationWithResponse(s.t.Context(), nil, api.InvitationAccept{Token: s.invited(p.email), Password: ptr(password)}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s *system) {
				p, owner := s.signUp("ada@example.com"), s.signUp("owner@example.com")
				reset := func() { s.reset(p, fresh) }
				s.work.during.Store(&reset)
				if err := do(s, p, owner); err == nil {
					t.Error("it went through after the reset")
				}
				if s.work.during.Load() != nil {
					t.Error("no password was checked")
				}
				ses, err := apiclient.OK(s.api.SignInWithResponse(t.Context(), nil, api.SignIn{Email: p.email, Password: fresh}))
				check(t, err)
				sdk, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: ses.AccessToken, MaxRetries: -1})
				check(t, err)
				if live := s.sessions(sdk); len(live) != 1 {
					t.Errorf("%d sessions live", len(live))
				}
			})
		})
	}
}

func TestMFA_resetEndsTheFirstStep(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		phone, _ := s.enrol(p.sdk, "Phone")
		await := s.firstStep(p)
		s.reset(p, "vermilion tide under glass")
		_, err := s.secondStep(api.SignInMfa{MfaToken: await.MfaToken, Code: ptr(phone.fresh())})
		wantProblem(t, err, http.StatusUnauthorized, "mfa_token_invalid")
	})
}

// Guesses that come at once are as many as guesses that come one by one.
func TestOWASP_API6_parallelGuessesAreCounted(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		s.enrol(p.sdk, "Phone")
		s.clock.add(2 * time.Hour)
		var tokens []string
		for range 8 {
			tokens = append(tokens, s.firstStep(p).MfaToken)
		}
		var wg sync.WaitGroup
		for _, token := range tokens {
			for range 5 {
				wg.Go(func() {
					_, _ = s.api.SignInMfaWithResponse(t.Context(), nil, api.SignInMfa{MfaToken: token, Code: ptr("000000")})
				})
			}
		}
		_, err := apiclient.Accepted(s.api.RequestPasswordResetWithResponse(t.Context(), nil, api.PasswordReset{Email: p.email}))
		check(t, err)
		for range 10 { // what the limit of tries lets through at once
			wg.Go(func() {
				_, _ = s.api.ConfirmPasswordResetWithResponse(t.Context(), nil, api.PasswordResetConfirm{Email: p.email, Code: "000000", Password: "vermilion tide under glass"})
			})
		}
		wg.Wait()
		for sql, most := range map[string]int64{"SELECT SUM(tries) FROM mfa_challenges": 20, "SELECT MAX(tries) FROM mail_codes": 5} {
			var n int64
			check(t, s.db.Conn(t.Context()).Raw(sql).Scan(&n).Error)
			if n > most || n == 0 {
				t.Errorf("%s: %d, at most %d", sql, n, most)
			}
		}
	})
}
