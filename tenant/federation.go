package tenant

import (
	"context"

	"github.com/sluicemq/sluice/internal/errs"
)

// AddMember makes a person a member of a tenant; the quota of members holds.
func (s *Service) AddMember(ctx context.Context, tenantID, userID ID, role Role) error {
	if !role.Valid() || role == RoleOwner {
		return errs.Field("role", "nobody is made %q this way", role)
	}
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		if err := active(t); err != nil {
			return err
		}
		if err := s.reserve(ctx, t, "", QuotaMembers); err != nil {
			return err
		}
		now := s.time()
		return taken(s.store.CreateMember(ctx, Member{TenantID: tenantID, UserID: userID, Role: role, CreatedAt: now, UpdatedAt: now, Revision: 1}),
			"user_id", "%s is a member already", userID)
	})
}

// SealSecret seals a secret of another system that a tenant gave us, such as
// that of an OpenID client, by the tenant's data key. id names its object.
func (s *Service) SealSecret(ctx context.Context, tenantID, id ID, secret string) ([]byte, error) {
	box, err := s.box(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	return box.Seal(id, secret), nil
}

// OpenSecret opens what SealSecret sealed for the same object.
func (s *Service) OpenSecret(ctx context.Context, tenantID, id ID, sealed []byte) (string, error) {
	box, err := s.box(ctx, tenantID)
	if err != nil {
		return "", err
	}
	return box.Open(id, sealed)
}

func (s *Service) box(ctx context.Context, tenantID ID) (*Box, error) {
	t, err := s.store.Tenant(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	return s.keyring.Box(t.ID, t.DataKey)
}
