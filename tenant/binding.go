package tenant

import (
	"context"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// ScopeKind says what part of a tenant a role binding is for.
type ScopeKind string

// The kinds of scopes.
const (
	ScopeTenant    ScopeKind = "tenant"
	ScopeNamespace ScopeKind = "namespace"
	ScopeTopic     ScopeKind = "topic"
	ScopeGroup     ScopeKind = "group"
)

// BindingScope is a part of a tenant: all of it, one namespace, or the topics
// or groups of a namespace that fit a pattern.
type BindingScope struct {
	Kind        ScopeKind
	NamespaceID ID     // of all kinds but tenant
	Pattern     string // of topic and group: a name, a prefix followed by `*`, or `*`
}

// Contains reports whether all of other lies in s.
func (s BindingScope) Contains(other BindingScope) bool {
	switch s.Kind {
	case ScopeTenant:
		return true
	case ScopeNamespace:
		return other.Kind != ScopeTenant && other.NamespaceID == s.NamespaceID
	case ScopeTopic, ScopeGroup:
		return other.Kind == s.Kind && other.NamespaceID == s.NamespaceID && PatternContains(s.Pattern, other.Pattern)
	}
	return false
}

// PatternContains reports whether every name that fits inner fits outer.
func PatternContains(outer, inner string) bool {
	prefix, wild := strings.CutSuffix(outer, "*")
	if !wild {
		return outer == inner
	}
	return strings.HasPrefix(strings.TrimSuffix(inner, "*"), prefix)
}

// Binding gives a principal a role in a part of a tenant, until a time.
type Binding struct {
	TenantID    ID
	ID          ID
	PrincipalID ID     // usr_… or sa_…
	Role        string // the name of a built-in role, or rol_…
	Scope       BindingScope
	ExpiresAt   *time.Time // void from then on
	CreatedBy   ID
	Permissions []string // of a custom role, as it is now; only read
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Revision    int64
}

// Live reports whether the binding gives anything at now.
func (b *Binding) Live(now time.Time) bool { return b.ExpiresAt == nil || now.Before(*b.ExpiresAt) }

// BindingFilter narrows a list of bindings; empty fields do not.
type BindingFilter struct {
	PrincipalID ID
	Role        string
	NamespaceID ID
}

// BindingCheck is asked about a binding, in the transaction of the change; its
// error stops it.
type BindingCheck func(Binding) error

// Bind makes a binding; PrincipalID, Role, Scope, ExpiresAt and CreatedBy of in
// count. may is asked with the permissions of a custom role filled in. The first
// binding of a service account is the end of keys that no binding bounds.
func (s *Service) Bind(ctx context.Context, tenantID ID, in Binding, may BindingCheck) (Binding, error) {
	now := s.time()
	b := in
	b.TenantID, b.ID, b.CreatedAt, b.UpdatedAt, b.Revision = tenantID, NewID(PrefixBinding, now), now, now, 1
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		if err := active(t); err != nil {
			return err
		}
		if err := s.checkBinding(ctx, &b); err != nil {
			return err
		}
		if err := may(b); err != nil {
			return err
		}
		if err := s.reserve(ctx, t, "", QuotaBindings); err != nil {
			return err
		}
		if err := s.store.CreateBinding(ctx, b); err != nil {
			return err
		}
		return s.rebound(ctx, tenantID, b.PrincipalID)
	})
	return b, err
}

func (s *Service) checkBinding(ctx context.Context, b *Binding) error {
	if b.ExpiresAt != nil && !b.ExpiresAt.After(s.time()) {
		return errs.Field("expires_at", "expires_at lies in the past")
	}
	switch b.Scope.Kind {
	case ScopeTenant:
		if b.Scope.NamespaceID != "" || b.Scope.Pattern != "" {
			return errs.Field("scope.namespace_id", "a binding for the whole tenant has neither namespace_id nor pattern")
		}
	case ScopeNamespace:
		if b.Scope.Pattern != "" {
			return errs.Field("scope.pattern", "a binding for a namespace has no pattern; use the kind topic or group")
		}
	case ScopeTopic, ScopeGroup:
		if !patternForm.MatchString(b.Scope.Pattern) {
			return errs.Field("scope.pattern", "pattern %q: use a name, or a prefix that ends with *", b.Scope.Pattern)
		}
	default:
		return errs.Field("scope.kind", "scope %q: use tenant, namespace, topic or group", b.Scope.Kind)
	}
	if b.Scope.Kind != ScopeTenant {
		if _, err := s.store.Namespace(ctx, b.TenantID, b.Scope.NamespaceID); err != nil {
			return missing(err, "scope.namespace_id", "namespace %q does not exist", b.Scope.NamespaceID)
		}
	}
	if err := s.checkOwner(ctx, "principal_id", b.TenantID, b.PrincipalID); err != nil {
		return err
	}
	if strings.HasPrefix(b.Role, PrefixRole) {
		r, err := s.store.Role(ctx, b.TenantID, b.Role) // locked: it cannot be deleted meanwhile
		b.Permissions = r.Permissions
		return missing(err, "role", "role %q does not exist", b.Role)
	}
	if r := Role(b.Role); !r.Valid() || r == RoleOwner || r == RoleNone {
		return errs.Field("role", "role %q cannot be bound; use admin, developer, viewer, billing, or the id of a custom role", b.Role)
	}
	return nil
}

// rebound tells brokers anew what the keys of a principal may, whose bindings
// have changed.
func (s *Service) rebound(ctx context.Context, tenantID, principalID ID) error {
	if strings.HasPrefix(principalID, PrefixServiceAccount) {
		a, err := s.store.ServiceAccount(ctx, tenantID, principalID)
		if err != nil {
			return err
		}
		if !a.Bound {
			a.Bound, a.UpdatedAt, a.Revision = true, s.time(), a.Revision+1
			if err := s.store.UpdateServiceAccount(ctx, a); err != nil {
				return err
			}
		}
	}
	return s.eachKey(ctx, KeyFilter{OwnerID: principalID}, tenantID, func(k APIKey) error { return s.touchKey(ctx, k) })
}

// Binding returns one binding.
func (s *Service) Binding(ctx context.Context, tenantID, id ID) (Binding, error) {
	return s.store.Binding(ctx, tenantID, id)
}

// Bindings lists bindings.
func (s *Service) Bindings(ctx context.Context, tenantID ID, f BindingFilter, p Page) ([]Binding, error) {
	return s.store.Bindings(ctx, tenantID, f, p)
}

// BindingsOf returns all bindings of a principal, expired ones too, with the
// permissions of custom roles: one query.
func (s *Service) BindingsOf(ctx context.Context, tenantID, principalID ID) ([]Binding, error) {
	return s.store.BindingsOf(ctx, tenantID, principalID)
}

// UpdateBinding moves the end of a binding; all else about it would be another
// binding. nil means never.
func (s *Service) UpdateBinding(ctx context.Context, tenantID, id ID, end *time.Time, want int64, may BindingCheck) (Binding, error) {
	var out Binding
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		b, err := s.store.Binding(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := may(b); err != nil {
			return err
		}
		if err := CheckRevision(want, b.Revision); err != nil {
			return err
		}
		b.ExpiresAt = end
		if err := s.checkBinding(ctx, &b); err != nil {
			return err
		}
		b.UpdatedAt, b.Revision = s.time(), b.Revision+1
		out = b
		if err := s.store.UpdateBinding(ctx, b); err != nil {
			return err
		}
		return s.rebound(ctx, tenantID, b.PrincipalID)
	})
	return out, err
}

// Unbind takes a binding away.
func (s *Service) Unbind(ctx context.Context, tenantID, id ID, want int64, may BindingCheck) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		b, err := s.store.Binding(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := may(b); err != nil {
			return err
		}
		if err := CheckRevision(want, b.Revision); err != nil {
			return err
		}
		if err := s.unbind(ctx, t, b); err != nil {
			return err
		}
		return s.rebound(ctx, tenantID, b.PrincipalID)
	})
}

func (s *Service) unbind(ctx context.Context, t Tenant, b Binding) error {
	if err := s.store.DeleteBinding(ctx, b.TenantID, b.ID); err != nil {
		return err
	}
	return Release(ctx, s.store, t, "", QuotaBindings)
}

// dropBindings takes away all bindings that the filter finds: their principal or
// their namespace goes.
func (s *Service) dropBindings(ctx context.Context, t Tenant, f BindingFilter) error {
	return each(func(p Page) ([]Binding, error) { return s.store.Bindings(ctx, t.ID, f, p) }, func(b Binding) ID { return b.ID },
		func(b Binding) error { return s.unbind(ctx, t, b) })
}
