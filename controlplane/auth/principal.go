package auth

import (
	"context"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Kind of a principal.
type Kind string

// The kinds of principals.
const (
	KindUser           Kind = "user"
	KindServiceAccount Kind = "service_account"
)

// KindOf tells the kind of the owner of a key by their id.
func KindOf(id tenant.ID) Kind {
	if strings.HasPrefix(id, tenant.PrefixServiceAccount) {
		return KindServiceAccount
	}
	return KindUser
}

// Principal is who calls. It is made once for a request and only read.
type Principal struct {
	Kind      Kind
	ID        tenant.ID // usr_… or sa_…
	TenantID  tenant.ID
	Role      tenant.Role
	KeyID     tenant.ID // when an API key was used
	SessionID tenant.ID // when a person signed in
	// ProviderID is where they did, if at an identity provider: what p may do
	// then ends at the tenant.
	ProviderID tenant.ID
	Name       string

	needsMFA bool // the tenant asks its people for a second factor

	rights []Right
	capped bool    // what rights give only counts where caps give it too
	caps   []Right // of the owner of a key
}

// ActorID is what is metered and noted: the key if one was used, else the
// person.
func (p *Principal) ActorID() tenant.ID {
	if p.KeyID != "" {
		return p.KeyID
	}
	return p.ID
}

// Permission is what an operation of the API needs, its x-permission.
type Permission string

// The two permissions that are no entries of the table.
const (
	PermissionPublic Permission = "public" // nothing
	PermissionSelf   Permission = "self"   // only to be known
)

// roles is the table of role and permission; it says what x-roles of
// openapi.yaml says, and a test compares the two.
var roles = map[tenant.Role][]Permission{
	tenant.RoleOwner: {"tenant:read", "tenant:write", "member:read", "member:write", "role:read", "role:write", "service_account:read", "service_account:write", "key:read", "key:write",
		"namespace:read", "namespace:write", "acl:read", "acl:write", "topic:read", "topic:write", "group:read", "group:write", "message:read", "message:write",
		"quota:read", "usage:read", "billing:read", "audit:read", "sso:read", "sso:write"},
	tenant.RoleAdmin: {"tenant:read", "tenant:write", "member:read", "member:write", "role:read", "role:write", "service_account:read", "service_account:write", "key:read", "key:write",
		"namespace:read", "namespace:write", "acl:read", "acl:write", "topic:read", "topic:write", "group:read", "group:write", "message:read", "message:write",
		"quota:read", "usage:read", "billing:read", "audit:read", "sso:read", "sso:write"},
	tenant.RoleDeveloper: {"tenant:read", "member:read", "role:read", "service_account:read", "key:read", "key:write", "namespace:read", "acl:read", "topic:read",
		"topic:write", "group:read", "group:write", "message:read", "message:write", "quota:read", "usage:read"},
	tenant.RoleViewer: {"tenant:read", "member:read", "role:read", "service_account:read", "key:read", "namespace:read", "acl:read", "topic:read", "group:read",
		"quota:read", "usage:read"},
	tenant.RoleBilling: {"tenant:read", "quota:read", "usage:read", "billing:read"},
	tenant.RoleNone:    {},
}

// MayGrant answers whether p may give role to a key of owner: nobody gives more
// than they have. Their own keys they cap themselves.
func MayGrant(p *Principal, owner tenant.ID, role tenant.Role) error {
	for _, perm := range roles[role] {
		if May(p, perm) != nil && (owner != p.ID || p.Kind != KindUser || !hasSomewhere(p, perm)) {
			e := errs.E(errs.Forbidden, "role %s cannot give the role %s: it grants %s", p.Role, role, perm).WithReason("permission_denied")
			e.Field = "control_role"
			return e
		}
	}
	return nil
}

func hasSomewhere(p *Principal, perm Permission) bool {
	in := func(grants []Right) bool {
		return slices.ContainsFunc(grants, func(g Right) bool { return slices.Contains(g.Permissions, perm) })
	}
	return in(p.rights) && (!p.capped || in(p.caps))
}

// Permissions lists what p may do in the whole tenant, sorted.
func Permissions(p *Principal) []string {
	out := []string{}
	for _, perm := range AllPermissions() {
		if May(p, perm) == nil {
			out = append(out, string(perm))
		}
	}
	return out
}

// AllPermissions lists what an owner may do, sorted: every permission there is.
func AllPermissions() []Permission {
	out := slices.Clone(roles[tenant.RoleOwner])
	slices.Sort(out)
	return out
}

// Rights lists what p has in parts of the tenant. Of a key these are its
// owner's; it has no more of them than its control_role.
func Rights(p *Principal) []Right {
	from := p.rights
	if p.capped {
		from = p.caps
	}
	var out []Right
	for _, g := range from {
		if g.Scope.Kind != tenant.ScopeTenant || tenant.Role(g.Role) != p.Role {
			out = append(out, g)
		}
	}
	return out
}

// Roles is the table, for tests that compare it with the API's.
func Roles() map[tenant.Role][]Permission { return roles }

// UserUpdate is what a person may change of themselves; nil means as it is.
type UserUpdate struct {
	Name   *string
	Locale *string
}

// User returns the person behind a principal.
func (s *Service) User(ctx context.Context, p *Principal) (User, error) {
	return s.d.Store.User(ctx, p.ID)
}

// UpdateUser changes the person behind a principal.
func (s *Service) UpdateUser(ctx context.Context, p *Principal, in UserUpdate, want int64) (User, error) {
	if p.Kind != KindUser {
		return User{}, errs.E(errs.Forbidden, "a service account has no profile; change it under /v1/service-accounts").WithReason("not_a_person")
	}
	var u User
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		var err error
		if u, err = s.d.Store.User(ctx, p.ID); err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, u.Revision); err != nil {
			return err
		}
		if in.Name != nil {
			if err := tenant.CheckName("name", *in.Name); err != nil {
				return err
			}
			u.Name = *in.Name
		}
		if in.Locale != nil {
			u.Locale = locale(*in.Locale)
		}
		u.UpdatedAt, u.Revision = s.time(), u.Revision+1
		return s.d.Store.UpdateUser(ctx, u)
	})
	return u, err
}
