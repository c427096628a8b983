package httpapi

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/tenant"
)

// proof bounds how often a signed-in person may try to prove who they are:
// whoever has their access token must not find the password by trying.
func (s *server) proof(ctx context.Context, c *call) error {
	if d := s.d.Limiter.Take(ctx, "stepup:"+c.principal.ID, s.d.Config.Limits.SignIn); !d.Allowed {
		return limited("step_up", c.principal.ID, s.d.Config.Limits.SignIn, d)
	}
	return nil
}

// note keeps in the audit trail what a call does, in the transaction that does
// it. Hashing a password and counting wrong codes must not happen in that one:
// the first takes long, the second must last.
type note struct {
	s      *server
	c      *call
	before string
}

func (s *server) note(c *call) auth.Note { return &note{s: s, c: c} }

// Before implements auth.Note.
func (n *note) Before(ctx context.Context) (err error) {
	n.before, err = n.s.fingerprintNow(ctx, n.c)
	return err
}

// After implements auth.Note.
func (n *note) After(ctx context.Context, made tenant.ID) error {
	if made != "" {
		n.c.target.id = made
	}
	e := n.s.event(n.c)
	e.BeforeHash = n.before
	var err error
	if e.AfterHash, err = n.s.fingerprintNow(ctx, n.c); err != nil {
		return err
	}
	return n.s.d.Audit.Append(ctx, e)
}

// ChangePassword sets a new password.
func (s *server) ChangePassword(gc context.Context, r ChangePasswordRequestObject) (ChangePasswordResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.proof(ctx, c); err != nil {
		return nil, err
	}
	c.touches("user", c.principal.ID, "")
	_, err := writeOutside(ctx, s, c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.d.Auth.ChangePassword(ctx, c.principal, r.Body.CurrentPassword, r.Body.Password, s.note(c))
	})
	if err != nil {
		return nil, err
	}
	return ChangePassword204Response{}, nil
}

// ChangeEmail sends a code to a new address.
func (s *server) ChangeEmail(gc context.Context, r ChangeEmailRequestObject) (ChangeEmailResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.proof(ctx, c); err != nil {
		return nil, err
	}
	c.touches("user", c.principal.ID, "")
	sent, err := writeOutside(ctx, s, c, func(ctx context.Context) (api.CodeSent, error) {
		if err := s.mayCauseMail(ctx, c); err != nil {
			return api.CodeSent{}, err
		}
		if err := s.d.Auth.ChangeEmail(ctx, c.principal, r.Body.Email); err != nil {
			return api.CodeSent{}, err
		}
		return s.codeSent(), s.d.Audit.Append(ctx, s.event(c))
	})
	if err != nil {
		return nil, err
	}
	return ChangeEmail202JSONResponse(sent), nil
}

// ConfirmEmail changes the address.
func (s *server) ConfirmEmail(gc context.Context, r ConfirmEmailRequestObject) (ConfirmEmailResponseObject, error) {
	c, ctx := enter(gc)
	c.touches("user", c.principal.ID, "")
	me, err := writeOutside(ctx, s, c, func(ctx context.Context) (api.Me, error) {
		u, err := s.d.Auth.ConfirmEmail(ctx, c.principal, r.Body.Email, r.Body.Code, s.note(c))
		if err != nil {
			return api.Me{}, err
		}
		me, err := s.me(ctx, c)
		return withUser(me, u), err
	})
	if err != nil {
		return nil, err
	}
	return ConfirmEmail200JSONResponse{Body: me, Headers: ConfirmEmail200ResponseHeaders{ETag: etag(me.Revision)}}, nil
}

// UndoEmail gives an account its old address back.
func (s *server) UndoEmail(gc context.Context, r UndoEmailRequestObject) (UndoEmailResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.mayTry(ctx, c, "email_undo", r.Body.Email); err != nil {
		return nil, err
	}
	if err := s.d.Auth.UndoEmail(ctx, r.Body.Email, r.Body.Code); err != nil {
		return nil, err
	}
	s.setRefresh(c, "", time.Time{})
	return UndoEmail204Response{}, nil
}
