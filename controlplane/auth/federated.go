package auth

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Federated says at which identity provider a session began, and as what.
type Federated struct {
	ProviderID tenant.ID
	Subject    string
	SessionID  string // the provider's sid; may be empty
	ProvedAt   time.Time
}

// BeginFederated begins a session of a member who signed in at an identity
// provider of the tenant. It is one of that tenant only, see package
// federation, and ends sooner than others.
func (s *Service) BeginFederated(ctx context.Context, tenantID, userID tenant.ID, f Federated, dev Device) (Grant, error) {
	var g Grant
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		u, err := s.d.Store.User(ctx, userID)
		if err != nil {
			return err
		}
		if err := s.open(u); err != nil {
			return err
		}
		if err := s.d.Store.SignedIn(ctx, u.ID, s.time()); err != nil {
			return err
		}
		ses := s.newSession(u, tenantID, dev)
		ses.Federated, ses.AuthenticatedAt = f, f.ProvedAt
		if end := ses.CreatedAt.Add(s.cfg.FederatedTTL); end.Before(ses.ExpiresAt) {
			ses.ExpiresAt = end
		}
		if err := s.d.Store.CreateSession(ctx, ses); err != nil {
			return err
		}
		if g, err = s.grant(ctx, ses); err != nil {
			return err
		}
		return s.acted(ctx, Act{UserID: u.ID, TenantID: tenantID, TargetType: "session", TargetID: ses.ID})
	})
	return g, err
}

// UserByEmail finds a person by their mail address.
func (s *Service) UserByEmail(ctx context.Context, email string) (User, error) {
	return s.d.Store.UserByEmail(ctx, CleanEmail(email))
}

// EnrolUser makes a person without a password, whose mail address somebody
// else has verified. A name that is none is left out.
func (s *Service) EnrolUser(ctx context.Context, email, name string) (User, error) {
	now := s.time()
	if tenant.CheckName("name", name) != nil {
		name = ""
	}
	u := User{ID: tenant.NewID(tenant.PrefixUser, now), Email: CleanEmail(email), Name: name, Locale: locale(""), CreatedAt: now, UpdatedAt: now, Revision: 1}
	return u, s.d.Store.CreateUser(ctx, u)
}

// EndFederated ends live sessions that began at these providers, narrowed to a
// subject and a session of the provider unless they are empty. It returns the ids
// of these.
func (s *Service) EndFederated(ctx context.Context, providerIDs []tenant.ID, subject, sessionID, reason string) ([]tenant.ID, error) {
	var ids []tenant.ID
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		var err error
		ids, err = s.d.Store.RevokeFederated(ctx, providerIDs, subject, sessionID, reason, s.time())
		return s.ended(ctx, ids, err)
	})
	return ids, err
}

// NoteEnded keeps that a provider ended these sessions, in the transaction of ctx.
func (s *Service) NoteEnded(ctx context.Context, ids []tenant.ID) error {
	for _, id := range ids {
		ses, err := s.d.Store.Session(ctx, id)
		if err == nil {
			err = s.acted(ctx, Act{UserID: ses.UserID, TenantID: ses.TenantID, TargetType: "session", TargetID: id})
		}
		if err != nil {
			return fmt.Errorf("note the end of session %s: %w", id, err)
		}
	}
	return nil
}

// EndPasswordSessions ends the sessions in a tenant that began with a password,
// but those of owners, who may still use one.
func (s *Service) EndPasswordSessions(ctx context.Context, tenantID tenant.ID) error {
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		ids, err := s.d.Store.RevokePasswordSessions(ctx, tenantID, tenant.RoleOwner, "sso_required", s.time())
		return s.ended(ctx, ids, err)
	})
}

func (s *Service) ended(ctx context.Context, ids []tenant.ID, err error) error {
	if err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	s.d.Store.AfterCommit(ctx, func() {
		for _, id := range ids {
			s.d.Revocations.SetRevoked(context.WithoutCancel(ctx), id)
		}
	})
	return nil
}

var errSSORequired = errs.E(errs.Forbidden, "this tenant demands single sign-on: sign in at its identity provider").WithReason("sso_required")

// passwordOpens answers whether a session that began with a password may be
// one of a tenant: where single sign-on is demanded only an owner's may.
func (s *Service) passwordOpens(ctx context.Context, tenantID, userID tenant.ID) error {
	t, err := s.d.Tenants.Tenant(ctx, tenantID)
	if err != nil || !t.Security.SSORequired {
		return err
	}
	m, err := s.d.Tenants.Member(ctx, tenantID, userID)
	if err == nil && m.Role != tenant.RoleOwner {
		err = errSSORequired
	}
	return err
}

// opened leaves of a person's tenants those that a password opens. When there
// are some and it opens none, the error says why.
func (s *Service) opened(ctx context.Context, userID tenant.ID, tenants []tenant.ID) ([]tenant.ID, error) {
	var out []tenant.ID
	for _, id := range tenants {
		err := s.passwordOpens(ctx, id, userID)
		if err == nil {
			out = append(out, id)
		} else if !errs.Is(err, errs.Forbidden) {
			return nil, err
		}
	}
	if len(out) == 0 && len(tenants) > 0 {
		return nil, errSSORequired
	}
	return out, nil
}

// federatedMay are the operations on what is a person's own that a federated
// session may do; all others could reach beyond the provider's tenant.
var federatedMay = map[string]bool{"getMe": true, "updateMe": true, "listSessions": true, "endSession": true, "createKeyToken": true}

// MaySelf answers whether p may do an operation that needs no permission but
// concerns the person: one whose session began at an identity provider may do
// few of them, whatever is added later.
func MaySelf(p *Principal, operationID string) error {
	if p == nil || p.ProviderID == "" || federatedMay[operationID] {
		return nil
	}
	return errs.E(errs.Forbidden, "you signed in through your tenant's identity provider, and this concerns your account as a whole: sign in with your password, or reset it by mail").WithReason("federated_session")
}
