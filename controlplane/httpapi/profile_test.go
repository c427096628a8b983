package httpapi

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/controlplane/mail"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// mailsTo are the mails to an address, newest first.
func (s *system) mailsTo(email string) []mail.Message {
	s.t.Helper()
	list, err := s.mailer.Messages()
	check(s.t, err)
	var out []mail.Message
	for _, m := range list {
		if m.To == email {
			out = append(out, m)
		}
	}
	return out
}

func TestPassword_commonAndGuessableOnesAreRefused(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("lovelace@example.com")
	for pw, code := range map[string]string{
		"qwertyuiop": "password_common", "Password2026!": "password_common", "aaaaaaaaaaaa": "password_common", "password123": "password_common",
		"my sluice password": "password_guessable", "Lovelace and Babbage": "password_guessable",
		"short one": "invalid", strings.Repeat("a b", 43): "invalid",
	} {
		for path, body := range map[string]string{
			"/v1/auth/sign-up":                `{"email":"lovelace@example.com","tenant_name":"T","password":"` + pw + `"}`,
			"/v1/auth/password-reset/confirm": `{"email":"lovelace@example.com","code":"000000","password":"` + pw + `"}`,
			"/v1/me/actions/change-password":  `{"current_password":"` + password + `","password":"` + pw + `"}`,
		} {
			status, problem, _ := s.raw("POST", path, "Bearer "+p.AccessToken, body)
			if status != http.StatusBadRequest || problem.Code != code || problem.Field == nil || *problem.Field != "password" || strings.Contains(problem.Detail, pw) {
				t.Errorf("%s %q: %d %s %s, want %s", path, pw, status, problem.Code, problem.Detail, code)
			}
		}
	}
}

func TestChangePassword_endsAllOtherSessions(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		second := s.signIn(p)
		fresh := api.PasswordChange{CurrentPassword: "wrong", Password: "vermilion tide under glass"}
		err := apiclient.Done(p.sdk.ChangePasswordWithResponse(t.Context(), nil, fresh))
		wantProblem(t, err, http.StatusBadRequest, "password_wrong")
		_, err = apiclient.OK(second.GetMeWithResponse(t.Context()))
		check(t, err)
		fresh.CurrentPassword = password
		key := &api.ChangePasswordParams{IdempotencyKey: ptr("once")}
		check(t, apiclient.Done(p.sdk.ChangePasswordWithResponse(t.Context(), key, fresh)))
		check(t, apiclient.Done(p.sdk.ChangePasswordWithResponse(t.Context(), key, fresh))) // the answer to the first
		_, err = apiclient.OK(second.GetMeWithResponse(t.Context()))
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		_, err = apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		for pw, ok := range map[string]bool{password: false, fresh.Password: true} {
			_, err := apiclient.OK(s.api.SignInWithResponse(t.Context(), nil, api.SignIn{Email: p.email, Password: pw}))
			if (err == nil) != ok {
				t.Errorf("sign-in with %q: %v", pw, err)
			}
		}
		mails := 0
		for _, m := range s.mailsTo(p.email) {
			if strings.Contains(m.Subject, "password was changed") {
				mails++
			}
		}
		if mails != 1 {
			t.Errorf("%d mails about it", mails)
		}
		s.wantAudited(p, "changePassword", 1)
	})
}

// wantAudited counts events of an action.
func (s *system) wantAudited(p person, action string, want int) {
	s.t.Helper()
	list, err := s.srv.d.Audit.List(s.t.Context(), p.TenantId, controldb.AuditFilter{Action: action}, tenant.Page{Size: 1000})
	check(s.t, err)
	n := 0
	for _, e := range list {
		if !e.Denied {
			n++
		}
	}
	if n != want {
		s.t.Errorf("%d events of %s, want %d", n, action, want)
	}
}

func TestChangeEmail_byCodeAndUndone(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		const fresh = "ada@example.org"
		s.clock.add(time.Second)
		_, err := apiclient.Accepted(p.sdk.ChangeEmailWithResponse(t.Context(), nil, api.EmailChange{Email: "Ada@Example.org"}))
		check(t, err)
		code := s.code(fresh)
		me, err := apiclient.OK(p.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		if *me.Email != p.email {
			t.Errorf("changed before the code: %s", *me.Email)
		}
		// The code is of one person and one address.
		other := s.signUp("bob@example.com")
		_, err = apiclient.OK(other.sdk.ConfirmEmailWithResponse(t.Context(), nil, api.Verify{Email: fresh, Code: code}))
		wantProblem(t, err, http.StatusUnauthorized, "code_invalid")
		_, err = apiclient.OK(p.sdk.ConfirmEmailWithResponse(t.Context(), nil, api.Verify{Email: "eve@example.org", Code: code}))
		wantProblem(t, err, http.StatusUnauthorized, "code_invalid")
		s.clock.add(time.Second)
		me, err = apiclient.OK(p.sdk.ConfirmEmailWithResponse(t.Context(), nil, api.Verify{Email: fresh, Code: code}))
		check(t, err)
		if *me.Email != fresh {
			t.Errorf("address: %s", *me.Email)
		}
		s.wantAudited(p, "confirmEmail", 1)
		signIn := func(email string) error {
			_, err := apiclient.OK(s.api.SignInWithResponse(t.Context(), nil, api.SignIn{Email: email, Password: password}))
			return err
		}
		check(t, signIn(fresh))
		wantProblem(t, signIn(p.email), http.StatusUnauthorized, "credentials_invalid")

		notice := s.mailsTo(p.email)[0]
		undo := regexp.MustCompile(`\b[A-Z2-7]{26}\b`).FindString(notice.Body)
		if undo == "" || !strings.Contains(notice.Body, fresh) {
			t.Fatalf("notice: %+v", notice)
		}
		s.clock.add(6 * 24 * time.Hour)
		for range 6 { // wrong tries do not use up the owner's
			wantProblem(t, apiclient.Done(s.api.UndoEmailWithResponse(t.Context(), nil, api.EmailUndo{Email: p.email, Code: "A" + undo[1:25] + "A7"})), http.StatusUnauthorized, "code_invalid")
		}
		check(t, apiclient.Done(s.api.UndoEmailWithResponse(t.Context(), nil, api.EmailUndo{Email: p.email, Code: undo})))
		wantProblem(t, apiclient.Done(s.api.UndoEmailWithResponse(t.Context(), nil, api.EmailUndo{Email: p.email, Code: undo})), http.StatusUnauthorized, "code_invalid")
		_, err = s.refresh(p)
		wantProblem(t, err, http.StatusUnauthorized, "session_invalid")
		check(t, signIn(p.email))
		wantProblem(t, signIn(fresh), http.StatusUnauthorized, "credentials_invalid")
	})
}

func TestChangeEmail_undoEndsAfterSevenDays(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	p := s.signUp("ada@example.com")
	_, err := apiclient.Accepted(p.sdk.ChangeEmailWithResponse(t.Context(), nil, api.EmailChange{Email: "ada@example.org"}))
	check(t, err)
	s.clock.add(time.Second)
	_, err = apiclient.OK(p.sdk.ConfirmEmailWithResponse(t.Context(), nil, api.Verify{Email: "ada@example.org", Code: s.code("ada@example.org")}))
	check(t, err)
	undo := regexp.MustCompile(`\b[A-Z2-7]{26}\b`).FindString(s.mailsTo(p.email)[0].Body)
	s.clock.add(7*24*time.Hour + time.Second)
	wantProblem(t, apiclient.Done(s.api.UndoEmailWithResponse(t.Context(), nil, api.EmailUndo{Email: p.email, Code: undo})), http.StatusUnauthorized, "code_invalid")
}

// TestChangeEmail_wrongCodesAreCounted: the change and the count of wrong
// codes are different transactions; after five tries the right one is void.
func TestChangeEmail_wrongCodesAreCounted(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		_, err := apiclient.Accepted(p.sdk.ChangeEmailWithResponse(t.Context(), nil, api.EmailChange{Email: "ada@example.org"}))
		check(t, err)
		code := s.code("ada@example.org")
		wrong := "0" + code[1:]
		if wrong == code {
			wrong = "1" + code[1:]
		}
		for range 5 {
			_, err := apiclient.OK(p.sdk.ConfirmEmailWithResponse(t.Context(), nil, api.Verify{Email: "ada@example.org", Code: wrong}))
			wantProblem(t, err, http.StatusUnauthorized, "code_invalid")
		}
		_, err = apiclient.OK(p.sdk.ConfirmEmailWithResponse(t.Context(), nil, api.Verify{Email: "ada@example.org", Code: code}))
		wantProblem(t, err, http.StatusUnauthorized, "code_invalid")
	})
}

// The answer does not tell whether the new address has an account; its owner
// is told, and the code in no mail works.
func TestChangeEmail_toATakenAddress(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p, other := s.signUp("ada@example.com"), s.signUp("bob@example.com")
		s.clock.add(time.Second)
		sent, err := apiclient.Accepted(p.sdk.ChangeEmailWithResponse(t.Context(), nil, api.EmailChange{Email: other.email}))
		check(t, err)
		free, err := apiclient.Accepted(p.sdk.ChangeEmailWithResponse(t.Context(), nil, api.EmailChange{Email: "free@example.com"}))
		check(t, err)
		if sent != free {
			t.Errorf("answers differ: %+v, %+v", sent, free)
		}
		if m := s.mailsTo(other.email)[0]; !strings.Contains(m.Subject, "already") {
			t.Errorf("mail: %s", m.Subject)
		}
		_, err = apiclient.Accepted(p.sdk.ChangeEmailWithResponse(t.Context(), nil, api.EmailChange{Email: p.email}))
		wantProblem(t, err, http.StatusBadRequest, "email_unchanged")
	})
}
