package auth

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Membership is a tenant as one of its people sees it.
type Membership struct {
	TenantID  tenant.ID
	Name      string
	State     tenant.State
	Role      tenant.Role
	CreatedAt time.Time
	UpdatedAt time.Time
	Revision  int64
}

// maxOwned is how many tenants a person may own at a time: each gets the free
// allowance of its plan.
const maxOwned = 10

// Memberships lists the tenants of the person behind p; for an API key that is
// the one it belongs to.
func (s *Service) Memberships(ctx context.Context, p *Principal) ([]Membership, error) {
	if person(p) == nil {
		return s.d.Store.Memberships(ctx, p.ID)
	}
	t, err := s.d.Tenants.Tenant(ctx, p.TenantID)
	return []Membership{{TenantID: t.ID, Name: t.Name, State: t.State, Role: p.Role, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, Revision: t.Revision}}, err
}

// Found makes a further tenant that the person behind p owns, with all that a
// sign-up makes.
func (s *Service) Found(ctx context.Context, p *Principal, name string) (catalog.Beginning, error) {
	if err := person(p); err != nil {
		return catalog.Beginning{}, err
	}
	var out catalog.Beginning
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		// Reading the user locks the row: two requests of one person take turns.
		u, err := s.d.Store.User(ctx, p.ID)
		if err != nil {
			return err
		}
		list, err := s.d.Store.Memberships(ctx, u.ID)
		if err != nil {
			return err
		}
		owned := int64(0)
		for _, m := range list {
			if m.Role == tenant.RoleOwner {
				owned++
			}
		}
		if owned >= maxOwned {
			e := errs.E(errs.QuotaExceeded, "you own %d tenants, the most that one person can own", owned)
			e.Quota = &errs.Quota{Name: "owned_tenants", Scope: u.ID, Limit: maxOwned, Used: owned}
			return e
		}
		out, err = s.d.Founder.Begin(ctx, name, u.ID)
		return err
	})
	return out, err
}

// Switch ends the session of the person behind p and begins one in another of
// their tenants; a tenant that they do not belong to does not exist for them.
func (s *Service) Switch(ctx context.Context, p *Principal, tenantID tenant.ID, dev Device, note Note) (Grant, error) {
	if err := person(p); err != nil {
		return Grant{}, err
	}
	var g Grant
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		u, err := s.d.Store.User(ctx, p.ID)
		if err != nil {
			return err
		}
		if _, err := s.d.Tenants.Member(ctx, tenantID, u.ID); err != nil {
			if errs.Is(err, errs.NotFound) {
				return errs.E(errs.NotFound, "tenant %q does not exist", tenantID)
			}
			return err
		}
		if err := s.passwordOpens(ctx, tenantID, u.ID); err != nil {
			return err
		}
		ses, err := s.d.Store.Session(ctx, p.SessionID)
		if err != nil {
			return err
		}
		if ses.RevokedAt != nil {
			return errBadRefresh
		}
		if err := note.Before(ctx); err != nil {
			return err
		}
		if err := s.endSession(ctx, ses.ID, "switched"); err != nil {
			return err
		}
		next, grant, err := s.beginAs(ctx, u, tenantID, dev, ses.AuthenticatedAt)
		if err != nil {
			return err
		}
		g = grant
		if err := s.acted(ctx, Act{UserID: u.ID, TenantID: tenantID, TargetType: "session", TargetID: next.ID}); err != nil {
			return err
		}
		return note.After(ctx, "")
	})
	return g, err
}
