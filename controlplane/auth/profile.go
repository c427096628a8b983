package auth

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Note keeps that a change was made, in the transaction that makes it. Before is
// called when nothing is changed, and may be called again; After when all is, with
// the id of what was made, empty if nothing was. Their errors undo the change.
type Note interface {
	Before(ctx context.Context) error
	After(ctx context.Context, made tenant.ID) error
}

// ChangePassword sets a new password for the person behind p; all their other
// sessions end. The old password is asked for even right after a sign-in: a
// screen left open must not be enough.
func (s *Service) ChangePassword(ctx context.Context, p *Principal, current, password string, note Note) error {
	wrong := errs.Field("current_password", "the password is wrong").WithReason("password_wrong")
	checked, err := s.checkOwnPassword(ctx, p, current)
	if errs.CodeOf(err) == errs.Invalid {
		return refusedPerson(p.ID, wrong)
	}
	if err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	var u User
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if u, err = s.unchanged(ctx, checked, wrong); err != nil {
			return err
		}
		if err := note.Before(ctx); err != nil {
			return err
		}
		if err := checkPassword(password, u.Email); err != nil {
			return err
		}
		u.PasswordHash, u.UpdatedAt, u.Revision = hash, s.time(), u.Revision+1
		if err := s.d.Store.UpdateUser(ctx, u); err != nil {
			return err
		}
		if err := s.d.Store.DeleteCodes(ctx, u.Email, purposeReset); err != nil {
			return err
		}
		if _, err := s.endSessions(ctx, u.ID, p.SessionID, "password_changed"); err != nil {
			return err
		}
		s.d.Store.AfterCommit(ctx, func() { s.tellPasswordChanged(context.WithoutCancel(ctx), u) })
		return note.After(ctx, "")
	})
	return err
}

func (s *Service) tellPasswordChanged(ctx context.Context, u User) {
	if err := s.d.Mailer.PasswordChanged(ctx, u.Email, u.Locale); err != nil {
		s.d.Logger.Warn("mail about a changed password not sent", "user", u.ID, "err", err)
	}
}

// pendingEmail waits in the row of a code that changes a mail address.
type pendingEmail struct {
	UserID tenant.ID `json:"user_id"`
}

// ChangeEmail sends a mail to the new address: a code, or a word that it has
// an account. The answer and the work are the same for both.
func (s *Service) ChangeEmail(ctx context.Context, p *Principal, email string) error {
	if err := person(p); err != nil {
		return err
	}
	me, err := s.d.Store.User(ctx, p.ID)
	if err != nil {
		return err
	}
	if email = CleanEmail(email); email == me.Email {
		return errs.Field("email", "this is your mail address already").WithReason("email_unchanged")
	}
	payload, err := json.Marshal(pendingEmail{UserID: p.ID})
	if err != nil {
		return fmt.Errorf("encode change of address: %w", err)
	}
	code, ok, err := s.issueCode(ctx, email, purposeEmail, payload)
	if err != nil || !ok {
		return err
	}
	u, err := s.d.Store.UserByEmail(ctx, email)
	switch {
	case errs.Is(err, errs.NotFound):
		return s.d.Mailer.EmailCode(ctx, email, me.Locale, code)
	case err != nil:
		return err
	}
	return s.d.Mailer.AccountExists(ctx, email, u.Locale)
}

// ConfirmEmail changes the mail address of the person behind p to the one
// that the code was sent to, and mails to the old one how to undo it.
func (s *Service) ConfirmEmail(ctx context.Context, p *Principal, email, code string, note Note) (User, error) {
	if err := person(p); err != nil {
		return User{}, err
	}
	email = CleanEmail(email)
	c, err := s.takeCode(ctx, email, purposeEmail, code)
	if err != nil {
		return User{}, err
	}
	var pending pendingEmail
	if err := json.Unmarshal([]byte(c.Payload), &pending); err != nil {
		return User{}, fmt.Errorf("decode change of address: %w", err)
	}
	if pending.UserID != p.ID {
		return User{}, errBadCode
	}
	var u User
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if err := s.spend(ctx, c); err != nil {
			return err
		}
		var err error
		if u, err = s.d.Store.User(ctx, p.ID); err != nil {
			return err
		}
		if err := note.Before(ctx); err != nil {
			return err
		}
		old := u.Email
		if u, err = s.moveTo(ctx, u, email); err != nil {
			return err
		}
		payload, err := json.Marshal(pendingEmail{UserID: u.ID})
		if err != nil {
			return fmt.Errorf("encode undo of address: %w", err)
		}
		undo, ok, err := s.issueCode(ctx, old, purposeEmailUndo, payload)
		if err != nil {
			return err
		}
		if !ok {
			return errs.E(errs.RateLimited, "the mail address was changed too often within an hour; try again later")
		}
		s.d.Store.AfterCommit(ctx, func() {
			if err := s.d.Mailer.EmailChanged(context.WithoutCancel(ctx), old, u.Locale, email, undo); err != nil {
				s.d.Logger.Warn("mail about a changed address not sent", "user", u.ID, "err", err)
			}
		})
		return note.After(ctx, "")
	})
	return u, err
}

// moveTo gives a user another address. That somebody took it meanwhile looks
// like a code that is used up.
func (s *Service) moveTo(ctx context.Context, u User, email string) (User, error) {
	if err := s.d.Store.DeleteCodes(ctx, u.Email, purposeReset); err != nil {
		return u, err
	}
	u.Email, u.UpdatedAt, u.Revision = email, s.time(), u.Revision+1
	err := s.d.Store.UpdateUser(ctx, u)
	if errs.Is(err, errs.Conflict) {
		err = errBadCode
	}
	return u, err
}

// UndoEmail gives an account its old mail address back and ends all sessions.
func (s *Service) UndoEmail(ctx context.Context, email, code string) error {
	email = CleanEmail(email)
	c, err := s.takeCode(ctx, email, purposeEmailUndo, code)
	if err != nil {
		return err
	}
	var pending pendingEmail
	if err := json.Unmarshal([]byte(c.Payload), &pending); err != nil {
		return fmt.Errorf("decode undo of address: %w", err)
	}
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if err := s.spend(ctx, c); err != nil {
			return err
		}
		u, err := s.d.Store.User(ctx, pending.UserID)
		if errs.Is(err, errs.NotFound) {
			return errBadCode
		}
		if err != nil {
			return err
		}
		if _, err := s.moveTo(ctx, u, email); err != nil {
			return err
		}
		if _, err = s.endSessions(ctx, u.ID, "", "email_undone"); err != nil {
			return err
		}
		return s.acted(ctx, Act{UserID: u.ID, TargetType: "user", TargetID: u.ID})
	})
}
