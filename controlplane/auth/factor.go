package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// FactorType is a kind of second factor.
type FactorType string

// The kinds of second factors.
const (
	FactorTOTP     FactorType = "totp"
	FactorWebAuthn FactorType = "webauthn" // a security key or passkey
)

// Factor is a second factor of a person. It counts once it is confirmed.
type Factor struct {
	ID       tenant.ID
	UserID   tenant.ID
	Type     FactorType
	Name     string
	Sealed   []byte // the secret, sealed by the keyring
	LastStep int64  // of TOTP: the newest that was used
	// CredentialHash is of a confirmed WebAuthn factor, and no two have the same.
	CredentialHash []byte
	ConfirmedAt    *time.Time
	LastUsedAt     *time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time
	Revision       int64
}

// FactorStore is the part of Store about second factors.
type FactorStore interface {
	AddFactor(ctx context.Context, f Factor) error
	Factor(ctx context.Context, userID, id tenant.ID) (Factor, error)
	// Factors lists those of a user, unconfirmed ones too, oldest first.
	Factors(ctx context.Context, userID tenant.ID) ([]Factor, error)
	UpdateFactor(ctx context.Context, f Factor) error
	// UseStep notes that a step of TOTP was used, and reports whether it is
	// newer than all before: a code works once.
	UseStep(ctx context.Context, id tenant.ID, step int64, at time.Time) (bool, error)
	// UseCredential notes that a security key was used; sealed is its new state.
	UseCredential(ctx context.Context, id tenant.ID, sealed []byte, at time.Time) error
	DeleteFactor(ctx context.Context, userID, id tenant.ID) error

	// SetRecoveryCodes replaces all of a user.
	SetRecoveryCodes(ctx context.Context, userID tenant.ID, hashes [][]byte, at time.Time) error
	RecoveryCodesLeft(ctx context.Context, userID tenant.ID) (int, error)
	// UseRecoveryCode reports whether this call used the code up.
	UseRecoveryCode(ctx context.Context, userID tenant.ID, hash []byte, at time.Time) (bool, error)

	AddChallenge(ctx context.Context, c Challenge) error
	Challenge(ctx context.Context, tokenHash []byte) (Challenge, error)
	// TryChallenge counts a try, unless there were limit of them already.
	TryChallenge(ctx context.Context, id tenant.ID, limit int) (bool, error)
	// ChallengeTries counts the tries of a user since a time.
	ChallengeTries(ctx context.Context, userID tenant.ID, since time.Time) (int, error)
	// DeleteChallenge reports whether this call removed it.
	DeleteChallenge(ctx context.Context, id tenant.ID) (bool, error)
}

const (
	prefixFactor  = "mfa_"
	maxFactors    = 10
	recoveryCodes = 10
	// confirmTime is how long an unconfirmed factor waits for its first code.
	confirmTime = time.Hour
)

func sealFor(f Factor) string { return "second factor " + f.ID }

// Enrolment is what a person needs to set their authenticator app up. It is
// shown once.
type Enrolment struct {
	Factor
	Secret string
	URL    string
}

// Factors lists the confirmed second factors of the person behind p, and how
// many recovery codes are left.
func (s *Service) Factors(ctx context.Context, p *Principal) ([]Factor, int, error) {
	if person(p) != nil {
		return nil, 0, nil
	}
	list, err := s.confirmed(ctx, p.ID)
	if err != nil {
		return nil, 0, err
	}
	left, err := s.d.Store.RecoveryCodesLeft(ctx, p.ID)
	return list, left, err
}

// OwnFactor returns a second factor of the person behind p.
func (s *Service) OwnFactor(ctx context.Context, p *Principal, id tenant.ID) (Factor, error) {
	return s.d.Store.Factor(ctx, p.ID, id)
}

func (s *Service) confirmed(ctx context.Context, userID tenant.ID) ([]Factor, error) {
	list, err := s.d.Store.Factors(ctx, userID)
	out := list[:0]
	for _, f := range list {
		if f.ConfirmedAt != nil {
			out = append(out, f)
		}
	}
	return out, err
}

// BeginTOTP makes an unconfirmed factor for an authenticator app. Those that
// wait from before are forgotten.
func (s *Service) BeginTOTP(ctx context.Context, p *Principal, name string, note Note) (Enrolment, error) {
	if err := person(p); err != nil {
		return Enrolment{}, err
	}
	if err := tenant.CheckName("name", name); err != nil {
		return Enrolment{}, err
	}
	secret := newTOTPSecret()
	var out Enrolment
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		u, err := s.d.Store.User(ctx, p.ID)
		if err != nil {
			return err
		}
		now := s.time()
		f := Factor{ID: tenant.NewID(prefixFactor, now), UserID: u.ID, Type: FactorTOTP, Name: name, CreatedAt: now, UpdatedAt: now, Revision: 1}
		f.Sealed = s.d.Keyring.Seal(sealFor(f), secret)
		if err := s.makeRoom(ctx, u.ID); err != nil {
			return err
		}
		if err := s.d.Store.AddFactor(ctx, f); err != nil {
			return err
		}
		out = Enrolment{Factor: f, Secret: totpText(secret), URL: totpURL("Sluice", u.Email, secret)}
		return note.After(ctx, f.ID)
	})
	return out, err
}

// makeRoom bounds the factors of a user and drops unconfirmed ones.
func (s *Service) makeRoom(ctx context.Context, userID tenant.ID) error {
	list, err := s.d.Store.Factors(ctx, userID)
	if err != nil {
		return err
	}
	n := 0
	for _, f := range list {
		if f.ConfirmedAt != nil {
			n++
			continue
		}
		if err := s.d.Store.DeleteFactor(ctx, userID, f.ID); err != nil {
			return err
		}
	}
	if n >= maxFactors {
		return errs.E(errs.Conflict, "you have %d second factors, the most there can be; remove one first", n).WithReason("mfa_factors_full")
	}
	return nil
}

var errWrongFactorCode = errs.Field("code", "the code is wrong, too old, or was used before; wait for the next one").WithReason("mfa_code_wrong")

// ConfirmTOTP makes an authenticator app count, with the first code that it
// shows; see confirm.
func (s *Service) ConfirmTOTP(ctx context.Context, p *Principal, id tenant.ID, code string, note Note) (Factor, []string, error) {
	return s.confirm(ctx, p, id, FactorTOTP, func(_ context.Context, f *Factor, now time.Time) error {
		secret, err := s.d.Keyring.Open(sealFor(*f), f.Sealed)
		if err != nil {
			return err
		}
		step, ok := totpMatch(secret, code, now)
		if !ok {
			return errWrongFactorCode
		}
		f.LastStep = step
		return nil
	}, note)
}

// confirm makes a factor count once prove has found nothing wrong and filled
// in what it proved by. With a person's first factor come recovery codes, and
// their other sessions end: those were begun without it.
func (s *Service) confirm(ctx context.Context, p *Principal, id tenant.ID, kind FactorType, prove func(ctx context.Context, f *Factor, now time.Time) error, note Note) (Factor, []string, error) {
	if err := person(p); err != nil {
		return Factor{}, nil, err
	}
	var out Factor
	var recovery []string
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		recovery = nil
		f, err := s.d.Store.Factor(ctx, p.ID, id)
		if err != nil {
			return err
		}
		now := s.time()
		if f.ConfirmedAt != nil {
			return errs.E(errs.Conflict, "this second factor is confirmed already").WithReason("mfa_confirmed")
		}
		if f.Type != kind || now.Sub(f.CreatedAt) > confirmTime {
			return errs.E(errs.NotFound, "second factor %q does not exist", id)
		}
		if err := note.Before(ctx); err != nil {
			return err
		}
		if err := prove(ctx, &f, now); err != nil {
			return err
		}
		before, err := s.confirmed(ctx, p.ID)
		if err != nil {
			return err
		}
		f.ConfirmedAt, f.LastUsedAt, f.UpdatedAt, f.Revision = &now, &now, now, f.Revision+1
		if err := s.d.Store.UpdateFactor(ctx, f); err != nil {
			if errs.Is(err, errs.Conflict) {
				return errs.E(errs.Conflict, "this security key is registered already").WithReason("webauthn_known")
			}
			return err
		}
		if len(before) == 0 {
			if recovery, err = s.newRecoveryCodes(ctx, p.ID); err != nil {
				return err
			}
			if _, err := s.endSessions(ctx, p.ID, p.SessionID, "mfa_enabled"); err != nil {
				return err
			}
		}
		out = f
		if err := s.tellFactor(ctx, p.ID, FactorAdded, f.Name); err != nil {
			return err
		}
		return note.After(ctx, "")
	})
	return out, recovery, err
}

// RemoveFactor forgets a factor; with the last one go the recovery codes.
func (s *Service) RemoveFactor(ctx context.Context, p *Principal, id tenant.ID, want int64) error {
	if err := person(p); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		f, err := s.d.Store.Factor(ctx, p.ID, id)
		if err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, f.Revision); err != nil {
			return err
		}
		if err := s.d.Store.DeleteFactor(ctx, p.ID, id); err != nil {
			return err
		}
		if f.ConfirmedAt == nil {
			return nil
		}
		left, err := s.confirmed(ctx, p.ID)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			if err := s.d.Store.SetRecoveryCodes(ctx, p.ID, nil, s.time()); err != nil {
				return err
			}
		}
		return s.tellFactor(ctx, p.ID, FactorRemoved, f.Name)
	})
}

// RenewRecoveryCodes makes ten new recovery codes; the old ones are void.
func (s *Service) RenewRecoveryCodes(ctx context.Context, p *Principal) ([]string, error) {
	if err := person(p); err != nil {
		return nil, err
	}
	var out []string
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		list, err := s.confirmed(ctx, p.ID)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return errs.E(errs.Conflict, "there is no second factor that recovery codes could stand in for; add one first").WithReason("mfa_not_enabled")
		}
		if out, err = s.newRecoveryCodes(ctx, p.ID); err != nil {
			return err
		}
		return s.tellFactor(ctx, p.ID, RecoveryRenewed, "")
	})
	return out, err
}

func (s *Service) newRecoveryCodes(ctx context.Context, userID tenant.ID) ([]string, error) {
	codes, hashes := make([]string, recoveryCodes), make([][]byte, recoveryCodes)
	for i := range codes {
		text := rand.Text()[:16] // 80 bits
		codes[i] = strings.Join([]string{text[:4], text[4:8], text[8:12], text[12:]}, "-")
		hashes[i] = s.hashRecovery(userID, codes[i])
	}
	if err := s.d.Store.SetRecoveryCodes(ctx, userID, hashes, s.time()); err != nil {
		return nil, err
	}
	return codes, nil
}

func (s *Service) hashRecovery(userID tenant.ID, code string) []byte {
	code = strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code))
	m := hmac.New(sha256.New, s.pepper)
	m.Write([]byte("recovery:" + userID + ":" + code))
	return m.Sum(nil)
}

// FactorEvent is what a mail about second factors tells of.
type FactorEvent string

// What people are told about their second factors.
const (
	FactorAdded     FactorEvent = "added"
	FactorRemoved   FactorEvent = "removed"
	RecoveryRenewed FactorEvent = "recovery_renewed"
	RecoveryUsed    FactorEvent = "recovery_used"
)

// tellFactor mails a person after the commit.
func (s *Service) tellFactor(ctx context.Context, userID tenant.ID, event FactorEvent, name string) error {
	u, err := s.d.Store.User(ctx, userID)
	if err != nil {
		return fmt.Errorf("read user: %w", err)
	}
	s.d.Store.AfterCommit(ctx, func() {
		if err := s.d.Mailer.FactorChanged(context.WithoutCancel(ctx), u.Email, u.Locale, string(event), name); err != nil {
			s.d.Logger.Warn("mail about a second factor not sent", "user", userID, "event", event, "err", err)
		}
	})
	return nil
}
