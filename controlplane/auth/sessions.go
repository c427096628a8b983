package auth

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// person refuses whoever is not a person with a session: an API key acts for
// its owner on brokers and in the tenant, never on the owner's account.
func person(p *Principal) error {
	if p.SessionID == "" {
		return errs.E(errs.Forbidden, "only a person who is signed in can do this; an API key cannot").WithReason("session_required")
	}
	return nil
}

// Sessions lists the live sessions of the person behind p, in all tenants,
// newest first. An API key has none.
func (s *Service) Sessions(ctx context.Context, p *Principal, page tenant.Page) ([]Session, error) {
	if person(p) != nil {
		return nil, nil
	}
	if p.ProviderID != "" { // it knows of itself alone
		ses, err := s.d.Store.Session(ctx, p.SessionID)
		if err != nil || (page.After != "" && page.After <= ses.ID) {
			return nil, err
		}
		return []Session{ses}, nil
	}
	return s.d.Store.Sessions(ctx, p.ID, s.time(), page)
}

// OwnSession returns a live session of the person behind p; another person's is as
// absent as a made-up one.
func (s *Service) OwnSession(ctx context.Context, p *Principal, id tenant.ID) (Session, error) {
	ses, err := s.d.Store.Session(ctx, id)
	if err == nil && (p.ProviderID != "" && id != p.SessionID || ses.UserID != p.ID || ses.RevokedAt != nil || !s.time().Before(ses.ExpiresAt)) {
		err = errs.E(errs.NotFound, "session %q does not exist", id)
	}
	return ses, err
}

// EndSession ends one live session of the person behind p; another person's
// is as absent as a made-up one. want is its revision, which never changes.
func (s *Service) EndSession(ctx context.Context, p *Principal, id tenant.ID, want int64) error {
	if err := person(p); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if _, err := s.OwnSession(ctx, p, id); err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, 1); err != nil {
			return err
		}
		return s.endSession(ctx, id, "ended")
	})
}

// EndOtherSessions ends all sessions of the person behind p but the present
// one and returns how many these were.
func (s *Service) EndOtherSessions(ctx context.Context, p *Principal) (int, error) {
	if err := person(p); err != nil {
		return 0, err
	}
	var n int
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		var err error
		n, err = s.endSessions(ctx, p.ID, p.SessionID, "ended")
		return err
	})
	return n, err
}

func (s *Service) endSession(ctx context.Context, id tenant.ID, reason string) error {
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if err := s.d.Store.RevokeSession(ctx, id, reason, s.time()); err != nil {
			return fmt.Errorf("end session: %w", err)
		}
		s.d.Store.AfterCommit(ctx, func() { s.d.Revocations.SetRevoked(context.WithoutCancel(ctx), id) })
		return nil
	})
}

// endSessions ends the sessions of a user but one, which may be empty, in the
// transaction of ctx.
func (s *Service) endSessions(ctx context.Context, userID, but tenant.ID, reason string) (int, error) {
	ids, err := s.d.Store.RevokeSessionsOf(ctx, userID, but, reason, s.time())
	if err != nil {
		return 0, fmt.Errorf("end sessions: %w", err)
	}
	s.d.Store.AfterCommit(ctx, func() {
		for _, id := range ids {
			s.d.Revocations.SetRevoked(context.WithoutCancel(ctx), id)
		}
	})
	return len(ids), nil
}

var errWrongPassword = errs.Field("password", "the password is wrong").WithReason("password_wrong")

// BeginStepUp makes what a security key of the person behind p is asked for a
// step-up of their session. Conflict when they have no second factor.
func (s *Service) BeginStepUp(ctx context.Context, p *Principal, site Site) (*Awaited, error) {
	if err := person(p); err != nil {
		return nil, err
	}
	var out *Awaited
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		u, err := s.d.Store.User(ctx, p.ID)
		if err != nil {
			return err
		}
		out, err = s.challenge(ctx, u, site, challengeData{StepUp: p.SessionID})
		return err
	})
	if err == nil && out == nil {
		err = errs.E(errs.Conflict, "your account has no second factor: the password is enough").WithReason("mfa_not_enrolled")
	}
	return out, err
}

// StepUp notes that the person behind p has proved again who they are: by the
// password and, where they have one, a second factor; token is that of
// BeginStepUp when proof is the answer of a security key.
func (s *Service) StepUp(ctx context.Context, p *Principal, password, token string, proof Proof, site Site, note Note) (Session, error) {
	checked, err := s.checkOwnPassword(ctx, p, password)
	if err != nil {
		return Session{}, err
	}
	var c Challenge
	var d challengeData
	if proof.Assertion != "" {
		if c, d, err = s.tryChallenge(ctx, token, p.SessionID); err != nil {
			return Session{}, refusedPerson(p.ID, inStepUp(err))
		}
	}
	var ses Session
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if _, err := s.unchanged(ctx, checked, errWrongPassword); err != nil {
			return err
		}
		err := note.Before(ctx)
		if err != nil {
			return err
		}
		if proof.Assertion != "" {
			_, err = s.meet(ctx, c, d, proof, site)
			err = refusedPerson(p.ID, inStepUp(err))
		} else {
			err = s.proveOwn(ctx, p, proof)
		}
		if err != nil {
			return err
		}
		if err = s.d.Store.SessionAuthenticated(ctx, p.SessionID, s.time()); err != nil {
			return err
		}
		if ses, err = s.d.Store.Session(ctx, p.SessionID); err != nil {
			return err
		}
		return note.After(ctx, "")
	})
	return ses, err
}

// inStepUp tells what is wrong with a field: the session itself is good, and a
// client that hears of a bad sign-in would end it.
func inStepUp(err error) error {
	switch {
	case errors.Is(err, errBadChallenge):
		return errs.Field("mfa_token", "the challenge is over, was used, had too many tries, or is of another session; begin again").WithReason("mfa_token_invalid")
	case errors.Is(err, errBadAssertion):
		return errs.Field("credential", "the security key is not one of this account, or its answer is for another site or challenge; begin again").WithReason("webauthn_invalid")
	case errors.Is(err, errCloned):
		return errs.Field("credential", "the counter of this security key did not go up: it may have been copied. Use another factor and remove it").WithReason("webauthn_cloned")
	}
	return err
}

// checkOwnPassword returns the person whose password it is; see unchanged.
func (s *Service) checkOwnPassword(ctx context.Context, p *Principal, password string) (User, error) {
	if err := person(p); err != nil {
		return User{}, err
	}
	u, err := s.d.Store.User(ctx, p.ID)
	if err != nil {
		return u, err
	}
	ok, err := s.hasher.verify(ctx, u.PasswordHash, password)
	if err == nil && !ok {
		err = refusedPerson(p.ID, errWrongPassword)
	}
	return u, err
}

// Fresh refuses a person's session whose last proof of identity is too old for
// a risky act. API keys have no such proof and pass: what they may do is in
// their role.
func (s *Service) Fresh(ctx context.Context, p *Principal) error {
	if p.SessionID == "" {
		return nil
	}
	ses, err := s.d.Store.Session(ctx, p.SessionID)
	if err != nil {
		return err
	}
	how := "send your password, and the code of your second factor if you have one, to POST /v1/auth/step-up"
	if p.ProviderID != "" {
		how = "sign in at your identity provider again, with fresh: true in POST /v1/auth/sso/start"
	}
	if s.time().Sub(ses.AuthenticatedAt) > s.cfg.StepUp {
		return errs.E(errs.Forbidden, "this changes who can get in, and you signed in more than %d minutes ago: %s, then try again",
			int(s.cfg.StepUp.Minutes()), how).WithReason("step_up_required")
	}
	return nil
}
