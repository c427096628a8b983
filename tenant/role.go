package tenant

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// CustomRole is a set of permissions of the API that a tenant put together.
// Role bindings give it to people and service accounts.
type CustomRole struct {
	TenantID    ID
	ID          ID
	Name        string
	Description string
	Permissions []string // sorted, each once
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Revision    int64
}

// RoleUpdate is what to change of a custom role; nil means as it is.
type RoleUpdate struct {
	Name        *string
	Description *string
	Permissions []string
}

// CreateRole makes a custom role. Which permissions there are, and which the
// caller may give, the caller of Service has checked.
func (s *Service) CreateRole(ctx context.Context, tenantID ID, in CustomRole) (CustomRole, error) {
	now := s.time()
	r := CustomRole{TenantID: tenantID, ID: NewID(PrefixRole, now), Name: in.Name, Description: in.Description, Permissions: unique(in.Permissions),
		CreatedAt: now, UpdatedAt: now, Revision: 1}
	if err := checkRole(r); err != nil {
		return r, err
	}
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		if err := active(t); err != nil {
			return err
		}
		if err := s.reserve(ctx, t, "", QuotaRoles); err != nil {
			return err
		}
		return taken(s.store.CreateRole(ctx, r), "name", "role %q exists already", r.Name)
	})
	return r, err
}

func unique(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

func checkRole(r CustomRole) error {
	if err := CheckName("name", r.Name); err != nil {
		return err
	}
	if Role(r.Name).Valid() {
		return errs.Field("name", "%q is the name of a built-in role", r.Name)
	}
	return CheckDescription(r.Description)
}

// CustomRole returns one custom role.
func (s *Service) CustomRole(ctx context.Context, tenantID, id ID) (CustomRole, error) {
	return s.store.Role(ctx, tenantID, id)
}

// CustomRoles lists custom roles.
func (s *Service) CustomRoles(ctx context.Context, tenantID ID, p Page) ([]CustomRole, error) {
	return s.store.Roles(ctx, tenantID, p)
}

// UpdateRole changes a custom role, and at once what all who have it may.
func (s *Service) UpdateRole(ctx context.Context, tenantID, id ID, u RoleUpdate, want int64, may func(CustomRole) error) (CustomRole, error) {
	var out CustomRole
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		r, err := s.store.Role(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := may(r); err != nil {
			return err
		}
		if err := CheckRevision(want, r.Revision); err != nil {
			return err
		}
		set(&r.Name, u.Name)
		set(&r.Description, u.Description)
		if u.Permissions != nil {
			r.Permissions = unique(u.Permissions)
		}
		if err := checkRole(r); err != nil {
			return err
		}
		r.UpdatedAt, r.Revision = s.time(), r.Revision+1
		out = r
		if err := taken(s.store.UpdateRole(ctx, r), "name", "role %q exists already", r.Name); err != nil || u.Permissions == nil {
			return err
		}
		return s.eachBound(ctx, tenantID, id, func(principal ID) error { return s.rebound(ctx, tenantID, principal) })
	})
	return out, err
}

// eachBound runs do once for each principal that has the role.
func (s *Service) eachBound(ctx context.Context, tenantID, roleID ID, do func(ID) error) error {
	seen := map[ID]bool{}
	return each(func(p Page) ([]Binding, error) {
		return s.store.Bindings(ctx, tenantID, BindingFilter{Role: roleID}, p)
	},
		func(b Binding) ID { return b.ID }, func(b Binding) error {
			if seen[b.PrincipalID] {
				return nil
			}
			seen[b.PrincipalID] = true
			return do(b.PrincipalID)
		})
}

// DeleteRole forgets a custom role that nobody has.
func (s *Service) DeleteRole(ctx context.Context, tenantID, id ID, want int64) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		r, err := s.store.Role(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, r.Revision); err != nil {
			return err
		}
		n, err := s.store.CountBindings(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if n > 0 {
			e := errs.E(errs.Conflict, "role %q has %d bindings; delete them first", r.Name, n).WithReason("role_in_use")
			e.Limit = fmt.Sprint(n)
			return e
		}
		if err := s.store.DeleteRole(ctx, tenantID, id); err != nil {
			return err
		}
		return Release(ctx, s.store, t, "", QuotaRoles)
	})
}
