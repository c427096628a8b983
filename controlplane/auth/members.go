package auth

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// ChangeMember gives a member of p's tenant another role. Who loses a right by
// it is signed out of the tenant. Who becomes owner is signed out where they came
// in by an identity provider: it may be one that lets no owners in.
func (s *Service) ChangeMember(ctx context.Context, p *Principal, userID tenant.ID, role tenant.Role, want int64) (tenant.Member, error) {
	var out tenant.Member
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		was, now, err := s.d.Tenants.ChangeMember(ctx, p.TenantID, userID, role, want, func(m tenant.Member) error {
			if err := mayManage(p, m.Role); err != nil {
				return err
			}
			return mayGrantRole(p, "role", role)
		})
		if out = now; err != nil {
			return err
		}
		if now.Role == tenant.RoleOwner && was.Role != tenant.RoleOwner {
			ids, err := s.d.Store.RevokeFederatedOf(ctx, p.TenantID, userID, "became_owner", s.time())
			return s.ended(ctx, ids, err)
		}
		if !loses(was.Role, now.Role) {
			return nil
		}
		return s.endSessionsIn(ctx, p.TenantID, userID, "role_reduced")
	})
	return out, err
}

// RemoveMember takes a member out of p's tenant: their sessions there end and
// their keys are revoked.
func (s *Service) RemoveMember(ctx context.Context, p *Principal, userID tenant.ID, want int64) error {
	return s.removeMember(ctx, p, userID, want, func(m tenant.Member) error { return mayManage(p, m.Role) })
}

// Leave is RemoveMember of the caller, who needs no right for it.
func (s *Service) Leave(ctx context.Context, p *Principal) error {
	if err := person(p); err != nil {
		return err
	}
	return s.removeMember(ctx, p, p.ID, 0, func(tenant.Member) error { return nil })
}

func (s *Service) removeMember(ctx context.Context, p *Principal, userID tenant.ID, want int64, may tenant.MemberCheck) error {
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if err := s.d.Tenants.RemoveMember(ctx, p.TenantID, userID, want, may); err != nil {
			return err
		}
		return s.endSessionsIn(ctx, p.TenantID, userID, "member_removed")
	})
}

// loses reports whether was grants something that now does not.
func loses(was, now tenant.Role) bool {
	return slices.ContainsFunc(roles[was], func(p Permission) bool { return !slices.Contains(roles[now], p) })
}

// mayManage answers whether p may change or remove a member with this role:
// owners answer to owners alone, and nobody rules over somebody who may more.
func mayManage(p *Principal, role tenant.Role) error {
	return mayGrantRole(p, "", role)
}

// mayGrantRole answers whether p may give this role to a person. field names
// the input that asked for it.
func mayGrantRole(p *Principal, field string, role tenant.Role) error {
	var e *errs.Error
	if role == tenant.RoleOwner && p.Role != tenant.RoleOwner {
		e = errs.E(errs.Forbidden, "only an owner can make somebody owner, and change or remove an owner").WithReason("owner_only")
	}
	for _, perm := range roles[role] {
		if e == nil && May(p, perm) != nil {
			e = errs.E(errs.Forbidden, "role %s grants %s, which you do not have: you can neither give it nor take it", role, perm).WithReason("permission_denied")
		}
	}
	if e == nil {
		return nil
	}
	e.Field = field
	return e
}

// endSessionsIn ends the sessions of a user in one tenant.
func (s *Service) endSessionsIn(ctx context.Context, tenantID, userID tenant.ID, reason string) error {
	ids, err := s.d.Store.RevokeSessionsIn(ctx, tenantID, userID, reason, s.time())
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

// dataNeeds says what the owner of a key needs so that the key may do this on
// the message path.
var dataNeeds = map[tenant.Permission]Permission{
	tenant.PermissionPub:      "message:write",
	tenant.PermissionSub:      "message:read",
	tenant.PermissionManage:   "topic:write",
	tenant.PermissionDescribe: "topic:read",
}

// groupNeeds is dataNeeds for scopes of groups.
var groupNeeds = map[tenant.Permission]Permission{
	tenant.PermissionSub:      "message:read",
	tenant.PermissionManage:   "group:write",
	tenant.PermissionDescribe: "group:read",
}
