package tenant

import (
	"context"

	"github.com/sluicemq/sluice/internal/errs"
)

// Members lists the people of a tenant.
func (s *Service) Members(ctx context.Context, tenantID ID, p Page) ([]Member, error) {
	return s.store.Members(ctx, tenantID, p)
}

// Member returns one of the people of a tenant.
func (s *Service) Member(ctx context.Context, tenantID, userID ID) (Member, error) {
	return s.store.Member(ctx, tenantID, userID)
}

// MemberCheck is asked about a member as they are before a change, in the
// transaction of the change; its error stops it. Whether the caller may do
// this to that member is known to the caller of Service alone.
type MemberCheck func(Member) error

// ChangeMember gives a member another role. Their API keys are told to brokers
// anew, since they never may more than their owner. Both states are returned.
func (s *Service) ChangeMember(ctx context.Context, tenantID, userID ID, role Role, want int64, may MemberCheck) (was, now Member, err error) {
	if !role.Valid() {
		return was, now, errs.Field("role", "there is no role %q", role)
	}
	err = s.store.InTx(ctx, func(ctx context.Context) error {
		var t Tenant
		if t, was, err = s.member(ctx, tenantID, userID, want, may); err != nil {
			return err
		}
		if now = was; was.Role == role {
			return nil
		}
		if err := s.keepOwner(ctx, was, role); err != nil {
			return err
		}
		now.Role, now.UpdatedAt, now.Revision = role, s.time(), was.Revision+1
		if err := s.store.UpdateMember(ctx, now); err != nil {
			return err
		}
		if role != RoleOwner {
			if err := s.dropInvitationsOf(ctx, t, userID); err != nil {
				return err
			}
		}
		return s.eachKey(ctx, KeyFilter{OwnerID: userID}, tenantID, func(k APIKey) error { return s.touchKey(ctx, k) })
	})
	return was, now, err
}

// RemoveMember takes a member out of a tenant and revokes their API keys in
// it. The keys stay in lists, as revoked, so that others see what stopped.
func (s *Service) RemoveMember(ctx context.Context, tenantID, userID ID, want int64, may MemberCheck) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, m, err := s.member(ctx, tenantID, userID, want, may)
		if err != nil {
			return err
		}
		if err := s.keepOwner(ctx, m, RoleNone); err != nil {
			return err
		}
		return s.removeMember(ctx, t, userID)
	})
}

func (s *Service) removeMember(ctx context.Context, t Tenant, userID ID) error {
	now, tenantID := s.time(), t.ID
	err := s.eachKey(ctx, KeyFilter{OwnerID: userID}, tenantID, func(k APIKey) error {
		if k.RevokedAt != nil {
			return nil
		}
		k.RevokedAt = &now
		return s.touchKey(ctx, k)
	})
	if err != nil {
		return err
	}
	if err := s.dropInvitationsOf(ctx, t, userID); err != nil {
		return err
	}
	if err := s.dropBindings(ctx, t, BindingFilter{PrincipalID: userID}); err != nil {
		return err
	}
	if err := s.store.DeleteMember(ctx, tenantID, userID); err != nil {
		return err
	}
	return Release(ctx, s.store, t, "", QuotaMembers)
}

// member reads a member for a change. The row of the tenant is read first and
// so locked: two changes of members of one tenant take turns, on any number of
// control planes, or each of two owners could remove the other.
func (s *Service) member(ctx context.Context, tenantID, userID ID, want int64, may MemberCheck) (Tenant, Member, error) {
	t, err := s.store.Tenant(ctx, tenantID)
	if err != nil {
		return t, Member{}, err
	}
	m, err := s.store.Member(ctx, tenantID, userID)
	if err != nil {
		return t, m, err
	}
	if err := may(m); err != nil {
		return t, m, err
	}
	return t, m, CheckRevision(want, m.Revision)
}

// keepOwner refuses to take the role of the last owner: nobody could give it
// back. It runs under the lock of member.
func (s *Service) keepOwner(ctx context.Context, m Member, role Role) error {
	if m.Role != RoleOwner || role == RoleOwner {
		return nil
	}
	n, err := s.store.OwnersBesides(ctx, m.TenantID, m.UserID)
	if err != nil {
		return err
	}
	if n == 0 {
		return errs.E(errs.Conflict, "%s is the last owner of the tenant; make somebody else owner first", m.UserID).WithReason("last_owner")
	}
	return nil
}
