package auth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// CreateRole makes a custom role of permissions that p has.
func (s *Service) CreateRole(ctx context.Context, p *Principal, in tenant.CustomRole) (tenant.CustomRole, error) {
	if err := mayPack(p, in.Permissions); err != nil {
		return in, err
	}
	return s.d.Tenants.CreateRole(ctx, p.TenantID, in)
}

// UpdateRole changes a custom role. p needs what it permits before and after.
func (s *Service) UpdateRole(ctx context.Context, p *Principal, id tenant.ID, u tenant.RoleUpdate, want int64) (tenant.CustomRole, error) {
	if err := mayPack(p, u.Permissions); err != nil {
		return tenant.CustomRole{}, err
	}
	return s.d.Tenants.UpdateRole(ctx, p.TenantID, id, u, want, func(was tenant.CustomRole) error { return mayPack(p, was.Permissions) })
}

// mayPack answers whether p may put permissions into a role.
func mayPack(p *Principal, permissions []string) error {
	for i, name := range permissions {
		perm, field := Permission(name), fmt.Sprintf("permissions[%d]", i)
		if !slices.Contains(roles[tenant.RoleOwner], perm) {
			return errs.Field(field, "there is no permission %q", name)
		}
		if May(p, perm) != nil {
			e := errs.E(errs.Forbidden, "you do not have %s in the whole tenant: a role cannot have more than who makes it", perm).WithReason("permission_denied")
			e.Field = field
			return e
		}
	}
	return nil
}

// Bind gives a principal of p's tenant a role in a part of it.
func (s *Service) Bind(ctx context.Context, p *Principal, in tenant.Binding) (tenant.Binding, error) {
	in.CreatedBy = p.ID
	return s.d.Tenants.Bind(ctx, p.TenantID, in, mayBind(p))
}

// UpdateBinding moves the end of a binding.
func (s *Service) UpdateBinding(ctx context.Context, p *Principal, id tenant.ID, end *time.Time, want int64) (tenant.Binding, error) {
	return s.d.Tenants.UpdateBinding(ctx, p.TenantID, id, end, want, mayBind(p))
}

// Unbind takes a binding away.
func (s *Service) Unbind(ctx context.Context, p *Principal, id tenant.ID, want int64) error {
	return s.d.Tenants.Unbind(ctx, p.TenantID, id, want, mayBind(p))
}

// mayBind answers whether p has all that a binding gives, in all of its scope.
func mayBind(p *Principal) tenant.BindingCheck {
	return func(b tenant.Binding) error {
		for _, perm := range permissionsOf(b) {
			if !mayIn(p, perm, b.Scope) {
				e := errs.E(errs.Forbidden, "role %s grants %s, which you do not have there: you can neither give it nor take it", b.Role, perm).WithReason("permission_denied")
				e.Field = "role"
				return e
			}
		}
		return nil
	}
}
