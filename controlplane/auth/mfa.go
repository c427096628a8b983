package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Challenge is a sign-in whose password was right and whose second factor is
// awaited.
type Challenge struct {
	ID        tenant.ID
	TokenHash []byte
	UserID    tenant.ID
	Tries     int
	Data      []byte
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Awaited is what the caller of a sign-in gets in place of a Grant.
type Awaited struct {
	Token     string
	ExpiresIn time.Duration
	Methods   []string // totp, webauthn, recovery_code
	// WebAuthn is what a security key is asked, PublicKeyCredentialRequestOptionsJSON;
	// nil without that method.
	WebAuthn json.RawMessage
}

const (
	prefixChallenge  = "mfc_"
	mfaTokenPrefix   = "slm_"
	challengeTTL     = 5 * time.Minute
	challengeTries   = 5  // with one token
	accountTries     = 20 // of one account in an hour, over all tokens
	methodRecovery   = "recovery_code"
	accountTriesTime = time.Hour
)

// challenge makes the second step of a sign-in; nil when the user has no
// second factor.
func (s *Service) challenge(ctx context.Context, u User, site Site, d challengeData) (*Awaited, error) {
	factors, err := s.confirmed(ctx, u.ID)
	if err != nil || len(factors) == 0 {
		return nil, err
	}
	d.Password = passwordMark(u)
	options, err := s.askForKey(ctx, u.ID, site, &d)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode challenge: %w", err)
	}
	now, token := s.time(), mfaTokenPrefix+newRefresh()[len(refreshPrefix):]
	c := Challenge{ID: tenant.NewID(prefixChallenge, now), TokenHash: hashRefresh(token), UserID: u.ID, Data: data, CreatedAt: now, ExpiresAt: now.Add(challengeTTL)}
	if err := s.d.Store.AddChallenge(ctx, c); err != nil {
		return nil, err
	}
	out := &Awaited{Token: token, ExpiresIn: challengeTTL, WebAuthn: options}
	seen := map[FactorType]bool{}
	for _, f := range factors {
		if !seen[f.Type] && (f.Type != FactorWebAuthn || options != nil) {
			out.Methods, seen[f.Type] = append(out.Methods, string(f.Type)), true
		}
	}
	left, err := s.d.Store.RecoveryCodesLeft(ctx, u.ID)
	if left > 0 {
		out.Methods = append(out.Methods, methodRecovery)
	}
	return out, err
}

// passwordMark tells whether a user has another password than before.
func passwordMark(u User) []byte {
	sum := sha256.Sum256([]byte(u.PasswordHash))
	return sum[:]
}

// Proof is what somebody shows for a second factor; one field is set.
type Proof struct {
	Code         string // six digits of an authenticator app
	RecoveryCode string
	Assertion    string // of a security key to a challenge: PublicKeyCredential as JSON
}

var (
	errBadChallenge = unauthenticated("mfa_token_invalid", "the second step of this sign-in has expired, was finished or had too many tries; sign in again")
	errBadProof     = unauthenticated("mfa_code_wrong", "the code is wrong, too old, or was used before; wait for the next one")
)

// SignInMFA ends a sign-in with the second factor.
func (s *Service) SignInMFA(ctx context.Context, token string, proof Proof, dev Device) (Grant, error) {
	c, d, err := s.tryChallenge(ctx, token, "")
	if err != nil {
		return Grant{}, refusedPerson(c.UserID, err)
	}
	var g Grant
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		u, err := s.meet(ctx, c, d, proof, dev.Site)
		if err != nil {
			return err
		}
		if d.Reopens {
			g, err = s.reopen(ctx, u.ID, dev)
			return err
		}
		g, err = s.enter(ctx, u, dev)
		return err
	})
	return g, refusedPerson(c.UserID, err)
}

// tryChallenge finds the challenge of a token, which must serve the step-up of a
// session, or with "" a sign-in. A try is counted before it is looked at, so that
// parallel tries do not get more than their number.
func (s *Service) tryChallenge(ctx context.Context, token string, stepUp tenant.ID) (Challenge, challengeData, error) {
	c, err := s.d.Store.Challenge(ctx, hashRefresh(token))
	if errs.Is(err, errs.NotFound) {
		return Challenge{}, challengeData{}, errBadChallenge
	}
	if err != nil {
		return Challenge{}, challengeData{}, err
	}
	d, err := decodeChallenge(c.Data)
	if err != nil {
		return Challenge{}, d, err
	}
	now := s.time()
	if !now.Before(c.ExpiresAt) || d.StepUp != stepUp {
		return Challenge{}, d, errBadChallenge
	}
	return c, d, s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if _, err := s.d.Store.User(ctx, c.UserID); err != nil { // locks: tries with several tokens take turns
			return err
		}
		n, err := s.d.Store.ChallengeTries(ctx, c.UserID, now.Add(-accountTriesTime))
		if err != nil {
			return err
		}
		if n >= accountTries {
			e := errs.E(errs.RateLimited, "%d tries for the second factor of this account within an hour; wait, or set a new password if they were not yours", n)
			e.RetryAfter = accountTriesTime
			e.Quota = &errs.Quota{Name: "mfa_tries", Scope: "account", Limit: accountTries, Used: int64(n)}
			return e
		}
		ok, err := s.d.Store.TryChallenge(ctx, c.ID, challengeTries)
		if err == nil && !ok {
			err = errBadChallenge
		}
		return err
	})
}

// meet checks a proof against a challenge, uses that up, and returns whose it
// was, in the transaction of ctx.
func (s *Service) meet(ctx context.Context, c Challenge, d challengeData, proof Proof, site Site) (User, error) {
	u, err := s.d.Store.User(ctx, c.UserID)
	switch {
	case err != nil:
		return u, err
	case !bytes.Equal(d.Password, passwordMark(u)): // it began with another one
		return u, errBadChallenge
	case proof.Assertion != "":
		err = s.proveByKey(ctx, c.UserID, d, proof.Assertion, site)
	default:
		err = s.prove(ctx, c.UserID, proof, errBadProof)
	}
	if err != nil {
		return u, err
	}
	done, err := s.d.Store.DeleteChallenge(ctx, c.ID)
	if err == nil && !done {
		err = errBadChallenge
	}
	return u, err
}

// prove checks a second factor of a user in the transaction of ctx; wrong is
// the error for one that does not fit.
func (s *Service) prove(ctx context.Context, userID tenant.ID, proof Proof, wrong error) error {
	now := s.time()
	if proof.RecoveryCode != "" {
		ok, err := s.d.Store.UseRecoveryCode(ctx, userID, s.hashRecovery(userID, proof.RecoveryCode), now)
		if err != nil {
			return err
		}
		if !ok {
			return wrong
		}
		return s.tellFactor(ctx, userID, RecoveryUsed, "")
	}
	factors, err := s.confirmed(ctx, userID)
	if err != nil {
		return err
	}
	for _, f := range factors {
		if f.Type != FactorTOTP {
			continue
		}
		secret, err := s.d.Keyring.Open(sealFor(f), f.Sealed)
		if err != nil {
			return err
		}
		step, ok := totpMatch(secret, proof.Code, now)
		if !ok {
			continue
		}
		fresh, err := s.d.Store.UseStep(ctx, f.ID, step, now)
		if err != nil {
			return err
		}
		if fresh {
			return nil
		}
	}
	return wrong
}

// proveOwn asks for a second factor where the person behind p has one.
func (s *Service) proveOwn(ctx context.Context, p *Principal, proof Proof) error {
	factors, err := s.confirmed(ctx, p.ID)
	if err != nil || len(factors) == 0 {
		return err
	}
	if proof == (Proof{}) {
		return errs.Field("code", "your account has a second factor: send its code too, a recovery code, or the answer of a security key").WithReason("mfa_code_required")
	}
	return refusedPerson(p.ID, s.prove(ctx, p.ID, proof, errWrongFactorCode))
}

// Enrolled refuses a person without a second factor where their tenant asks
// for one.
func (s *Service) Enrolled(ctx context.Context, p *Principal) error {
	if p == nil || p.SessionID == "" || !p.needsMFA {
		return nil
	}
	factors, err := s.confirmed(ctx, p.ID)
	if err != nil || len(factors) > 0 {
		return err
	}
	return errs.E(errs.Forbidden, "the tenant asks its people for a second factor, and you have none: add one with POST /v1/me/mfa-factors").WithReason("mfa_enrolment_required")
}
