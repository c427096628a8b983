package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// SignUp is a wish for an account.
type SignUp struct {
	Email      string
	Password   string
	TenantName string
	Locale     string
}

// pendingSignUp waits in the code's row. The password belongs to the code, not
// to the address: whoever asks for another code for the same address cannot
// slip a password of their own under this one.
type pendingSignUp struct {
	PasswordHash string `json:"password_hash"`
	TenantName   string `json:"tenant_name"`
	Locale       string `json:"locale"`
}

// SignUp sends a mail: a code, or a word that the address has an account. The
// answer and the work are the same for both.
func (s *Service) SignUp(ctx context.Context, in SignUp) error {
	email := CleanEmail(in.Email)
	if err := checkPassword(in.Password, email); err != nil {
		return err
	}
	if err := tenant.CheckName("tenant_name", in.TenantName); err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, in.Password)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(pendingSignUp{PasswordHash: hash, TenantName: in.TenantName, Locale: locale(in.Locale)})
	if err != nil {
		return fmt.Errorf("encode sign-up: %w", err)
	}
	code, ok, err := s.issueCode(ctx, email, purposeSignUp, payload)
	if err != nil || !ok {
		return err
	}
	u, err := s.d.Store.UserByEmail(ctx, email)
	switch {
	case errs.Is(err, errs.NotFound):
		return s.d.Mailer.SignUpCode(ctx, email, locale(in.Locale), in.TenantName, code)
	case err != nil:
		return err
	}
	return s.d.Mailer.AccountExists(ctx, email, u.Locale)
}

func locale(l string) string {
	if l == "zh" {
		return l
	}
	return "en"
}

// Device is where a session was begun.
type Device struct {
	UserAgent string
	Address   string
	Site      Site // that the browser is at
}

// Verified is the outcome of a sign-up.
type Verified struct {
	catalog.Beginning
	Grant Grant
}

// Verify ends a sign-up: it makes the user and everything a tenant starts
// with, all or nothing, and signs the user in.
func (s *Service) Verify(ctx context.Context, email, code string, dev Device) (Verified, error) {
	email = CleanEmail(email)
	c, err := s.takeCode(ctx, email, purposeSignUp, code)
	if err != nil {
		return Verified{}, err
	}
	var p pendingSignUp
	if err := json.Unmarshal([]byte(c.Payload), &p); err != nil {
		return Verified{}, fmt.Errorf("decode sign-up: %w", err)
	}
	var out Verified
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if err := s.spend(ctx, c); err != nil {
			return err
		}
		now := s.time()
		u := User{ID: tenant.NewID(tenant.PrefixUser, now), Email: email, Name: nameOf(email), PasswordHash: p.PasswordHash,
			Locale: p.Locale, LastSignInAt: &now, CreatedAt: now, UpdatedAt: now, Revision: 1}
		if err := s.d.Store.CreateUser(ctx, u); err != nil {
			if errs.Is(err, errs.Conflict) {
				return errBadCode // the address got an account meanwhile
			}
			return err
		}
		if out.Beginning, err = s.d.Founder.Begin(ctx, p.TenantName, u.ID); err != nil {
			return fmt.Errorf("found tenant: %w", err)
		}
		if _, out.Grant, err = s.begin(ctx, u, out.TenantID, dev); err != nil {
			return err
		}
		return s.acted(ctx, Act{UserID: u.ID, TargetType: "user", TargetID: u.ID})
	})
	return out, err
}

// nameOf is a first name for people until they give one.
func nameOf(email string) string {
	name, _, _ := strings.Cut(email, "@")
	if tenant.CheckName("name", name) != nil {
		return "user"
	}
	return name
}

// RequestReset sends a code to set a new password, if the address has an
// account; the caller cannot tell.
func (s *Service) RequestReset(ctx context.Context, email string) error {
	email = CleanEmail(email)
	code, ok, err := s.issueCode(ctx, email, purposeReset, []byte("{}"))
	if err != nil || !ok {
		return err
	}
	u, err := s.d.Store.UserByEmail(ctx, email)
	if errs.Is(err, errs.NotFound) {
		return s.d.Mailer.NoMail(ctx)
	}
	if err != nil {
		return err
	}
	return s.d.Mailer.ResetCode(ctx, email, u.Locale, code)
}

// ConfirmReset sets a new password and ends all sessions of the user.
func (s *Service) ConfirmReset(ctx context.Context, email, code, password string) error {
	email = CleanEmail(email)
	if err := checkPassword(password, email); err != nil {
		return err
	}
	c, err := s.takeCode(ctx, email, purposeReset, code)
	if err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	var u User
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if err := s.spend(ctx, c); err != nil {
			return err
		}
		if u, err = s.d.Store.UserByEmail(ctx, email); err != nil {
			if errs.Is(err, errs.NotFound) {
				return errBadCode
			}
			return err
		}
		u.PasswordHash, u.UpdatedAt, u.Revision = hash, s.time(), u.Revision+1
		if err := s.d.Store.UpdateUser(ctx, u); err != nil {
			return err
		}
		if _, err = s.endSessions(ctx, u.ID, "", "password_reset"); err != nil {
			return err
		}
		return s.acted(ctx, Act{UserID: u.ID, TargetType: "user", TargetID: u.ID})
	})
	if err != nil {
		return err
	}
	s.tellPasswordChanged(ctx, u)
	return nil
}
