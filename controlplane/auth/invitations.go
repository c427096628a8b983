package auth

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Invite asks the owner of a mail address to become a member of p's tenant.
// The mail leaves once the invitation is committed; that the address has an
// account shows neither in the answer nor in the work.
func (s *Service) Invite(ctx context.Context, p *Principal, email string, role tenant.Role, language string) (tenant.Invitation, error) {
	if err := mayGrantRole(p, "role", role); err != nil {
		return tenant.Invitation{}, err
	}
	i, token, err := s.d.Tenants.Invite(ctx, p.TenantID, tenant.Invitation{Email: CleanEmail(email), Role: role, Locale: locale(language), InvitedBy: p.ID})
	if err != nil {
		return i, err
	}
	return i, s.mailInvitation(ctx, i, token)
}

// ResendInvitation mails another link; the one before works no more.
func (s *Service) ResendInvitation(ctx context.Context, p *Principal, id tenant.ID, want int64) (tenant.Invitation, error) {
	i, token, err := s.d.Tenants.RenewInvitation(ctx, p.TenantID, id, want, func(i tenant.Invitation) error { return mayGrantRole(p, "", i.Role) })
	if err != nil {
		return i, err
	}
	return i, s.mailInvitation(ctx, i, token)
}

func (s *Service) mailInvitation(ctx context.Context, i tenant.Invitation, token string) error {
	t, err := s.d.Tenants.Tenant(ctx, i.TenantID)
	if err != nil {
		return err
	}
	s.d.Store.AfterCommit(ctx, func() {
		if err := s.d.Mailer.Invitation(context.WithoutCancel(ctx), i.Email, i.Locale, t.Name, token); err != nil {
			s.d.Logger.Warn("mail of an invitation not sent; it can be sent again", "invitation", i.ID, "err", err)
		}
	})
	return nil
}

// Invited is what the holder of a token is told before they accept.
type Invited struct {
	TenantID   tenant.ID
	TenantName string
	Email      string
	Role       tenant.Role
	HasAccount bool // the address belongs to an account
	ExpiresAt  time.Time
}

// LookUpInvitation shows the invitation of a token.
func (s *Service) LookUpInvitation(ctx context.Context, token string) (Invited, error) {
	i, t, err := s.d.Tenants.InvitationByToken(ctx, token)
	if err != nil {
		return Invited{}, err
	}
	_, err = s.d.Store.UserByEmail(ctx, i.Email)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return Invited{}, err
	}
	return Invited{TenantID: t.ID, TenantName: t.Name, Email: i.Email, Role: i.Role, HasAccount: err == nil, ExpiresAt: i.ExpiresAt}, nil
}

// Acceptance is what somebody sends to accept an invitation.
type Acceptance struct {
	Token    string
	Password string     // of the account that the address has, or of the new one
	Name     string     // of a new person
	Locale   string     // of a new person
	By       *Principal // who is signed in; nil: nobody
}

// Accepting is an acceptance that was checked and is not carried out yet.
type Accepting struct {
	invitation tenant.Invitation
	user       User
	fresh      bool      // user is not made yet
	proved     time.Time // when the person proved who they are
}

// TenantID is the tenant that the person will be in.
func (a *Accepting) TenantID() tenant.ID { return a.invitation.TenantID }

// UserID is the person.
func (a *Accepting) UserID() tenant.ID { return a.user.ID }

// InvitationID is what is accepted.
func (a *Accepting) InvitationID() tenant.ID { return a.invitation.ID }

// CheckAcceptance finds out who accepts: the token shows that they read the
// address's mails; an account needs its session or its password besides. The
// costly part is here, outside of any transaction.
func (s *Service) CheckAcceptance(ctx context.Context, in Acceptance) (*Accepting, error) {
	i, _, err := s.d.Tenants.InvitationByToken(ctx, in.Token)
	if err != nil {
		return nil, err
	}
	u, err := s.d.Store.UserByEmail(ctx, i.Email)
	if errs.Is(err, errs.NotFound) {
		return s.newcomer(ctx, i, in)
	}
	if err != nil {
		return nil, err
	}
	a := &Accepting{invitation: i, user: u, proved: s.time()}
	// A sign-in at a tenant's identity provider proves nothing to other tenants.
	if in.By != nil && in.By.SessionID != "" && in.By.ProviderID == "" {
		if in.By.ID != u.ID {
			return nil, errs.E(errs.Forbidden, "the invitation is for another address than yours; sign out and accept it as that person").WithReason("invitation_of_another")
		}
		ses, err := s.d.Store.Session(ctx, in.By.SessionID)
		a.proved = ses.AuthenticatedAt
		return a, err
	}
	if in.Password == "" {
		return nil, unauthenticated("sign_in_first", "the invited address has an account: sign in, or send its password")
	}
	if err := s.checkPasswordOf(ctx, u, in.Password); err != nil {
		return nil, err
	}
	if err := s.open(u); err != nil {
		return nil, err
	}
	factors, err := s.confirmed(ctx, u.ID)
	if err == nil && len(factors) > 0 {
		err = unauthenticated("sign_in_first", "your account has a second factor: sign in with it, then accept the invitation")
	}
	return a, err
}

func (s *Service) checkPasswordOf(ctx context.Context, u User, password string) error {
	ok, err := s.hasher.verify(ctx, u.PasswordHash, password)
	if err != nil || ok {
		return err
	}
	return errWrongPassword
}

func (s *Service) newcomer(ctx context.Context, i tenant.Invitation, in Acceptance) (*Accepting, error) {
	if err := checkPassword(in.Password, i.Email); err != nil {
		return nil, err
	}
	if err := tenant.CheckName("name", in.Name); err != nil {
		return nil, err
	}
	hash, err := s.hasher.hash(ctx, in.Password)
	if err != nil {
		return nil, err
	}
	language := in.Locale
	if language == "" {
		language = i.Locale
	}
	now := s.time()
	return &Accepting{invitation: i, fresh: true, proved: now, user: User{ID: tenant.NewID(tenant.PrefixUser, now), Email: i.Email, Name: in.Name, PasswordHash: hash,
		Locale: locale(language), LastSignInAt: &now, CreatedAt: now, UpdatedAt: now, Revision: 1}}, nil
}

// Accept makes the person a member, and an account if they have none, and
// signs them in to the tenant.
func (s *Service) Accept(ctx context.Context, a *Accepting, dev Device) (Grant, error) {
	var g Grant
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if a.fresh {
			if err := s.d.Store.CreateUser(ctx, a.user); err != nil {
				if errs.Is(err, errs.Conflict) {
					return unauthenticated("sign_in_first", "the invited address got an account meanwhile: sign in, or send its password")
				}
				return err
			}
		}
		u, err := s.unchanged(ctx, a.user, unauthenticated("sign_in_first", "your password was changed meanwhile: sign in, then accept the invitation"))
		if err != nil {
			return err
		}
		if err := s.open(u); err != nil {
			return err
		}
		if _, err := s.d.Tenants.AcceptInvitation(ctx, a.invitation, a.user.ID); err != nil {
			return err
		}
		if err := s.d.Store.SignedIn(ctx, a.user.ID, s.time()); err != nil {
			return err
		}
		_, g, err = s.beginAs(ctx, u, a.invitation.TenantID, dev, a.proved)
		return err
	})
	return g, err
}
