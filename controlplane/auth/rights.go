package auth

import (
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// What a caller may do
//
// A caller has grants: a set of permissions in a part of a tenant each.
//
//   - A person who signed in has their member role in the whole tenant and, for
//     their time, their role bindings.
//   - An API key has its control_role in the whole tenant, capped by what its
//     owner has: by the role and the bindings of a member, and by the bindings of
//     a service account once it is bound, which its first binding makes it for
//     ever: to take its last binding away must not give its keys more. Bindings
//     alone give a key nothing: one without control_role cannot use the API.
//   - Brokers are told of a key's scopes what its owner may by the same grants;
//     dataNeeds says what each permission of a scope needs.
//
// What belongs to a tenant as a whole needs a grant of the whole tenant. A grant
// of topics or groups also shows the namespace that they are in.

// Right is a set of permissions in a part of a tenant.
type Right struct {
	Role        string // the name of a built-in role, or the id of a custom one
	Permissions []Permission
	Scope       tenant.BindingScope
	ExpiresAt   *time.Time
}

// RightsOf are what a member role and the bindings that live at now give.
func RightsOf(role tenant.Role, bindings []tenant.Binding, now time.Time) []Right {
	var out []Right
	if role != "" {
		out = append(out, Right{Role: string(role), Permissions: roles[role], Scope: tenant.BindingScope{Kind: tenant.ScopeTenant}})
	}
	for _, b := range bindings {
		if b.Live(now) {
			out = append(out, Right{Role: b.Role, Permissions: permissionsOf(b), Scope: b.Scope, ExpiresAt: b.ExpiresAt})
		}
	}
	return out
}

func permissionsOf(b tenant.Binding) []Permission {
	if !strings.HasPrefix(b.Role, tenant.PrefixRole) {
		return roles[tenant.Role(b.Role)]
	}
	out := make([]Permission, len(b.Permissions))
	for i, p := range b.Permissions {
		out[i] = Permission(p)
	}
	return out
}

// Resource is what an operation is about; the zero Resource is the tenant.
type Resource struct {
	NamespaceID tenant.ID
	Topic       string
	Group       string
	Any         bool // something in the namespace, or in any if none is named, is enough
}

// kindsOf tells by the first word of a permission in which scopes it means
// something besides the whole tenant.
var kindsOf = map[string][]tenant.ScopeKind{
	"namespace": {tenant.ScopeNamespace},
	"acl":       {tenant.ScopeNamespace},
	"quota":     {tenant.ScopeNamespace},
	"key":       {tenant.ScopeNamespace, tenant.ScopeTopic, tenant.ScopeGroup},
	"topic":     {tenant.ScopeNamespace, tenant.ScopeTopic},
	"group":     {tenant.ScopeNamespace, tenant.ScopeGroup},
	"message":   {tenant.ScopeNamespace, tenant.ScopeTopic, tenant.ScopeGroup},
}

// covers answers whether g has a permission for a resource.
func (g *Right) covers(perm Permission, r Resource) bool {
	if !slices.Contains(g.Permissions, perm) {
		return false
	}
	if g.Scope.Kind == tenant.ScopeTenant {
		return true
	}
	if r.NamespaceID != g.Scope.NamespaceID && (r.NamespaceID != "" || !r.Any) {
		return false
	}
	if perm == "namespace:read" {
		return r.Topic == "" && r.Group == "" // the frame of what they may see
	}
	family, _, _ := strings.Cut(string(perm), ":")
	if !slices.Contains(kindsOf[family], g.Scope.Kind) {
		return false
	}
	switch {
	case g.Scope.Kind == tenant.ScopeNamespace:
		return true
	case r.Topic == "" && r.Group == "":
		return r.Any
	case g.Scope.Kind == tenant.ScopeTopic:
		return r.Topic != "" && tenant.MatchPattern(g.Scope.Pattern, r.Topic)
	}
	return r.Group != "" && tenant.MatchPattern(g.Scope.Pattern, r.Group)
}

func cover(grants []Right, perm Permission, r Resource) bool {
	return slices.ContainsFunc(grants, func(g Right) bool { return g.covers(perm, r) })
}

// sees answers whether any grant gives anything in a namespace.
func sees(grants []Right, namespaceID tenant.ID) bool {
	return slices.ContainsFunc(grants, func(g Right) bool {
		return len(g.Permissions) > 0 && (g.Scope.Kind == tenant.ScopeTenant || g.Scope.NamespaceID == namespaceID)
	})
}

// SeesNamespace answers whether p has any right in a namespace. If not, it is as
// absent for them as one of another tenant.
func SeesNamespace(p *Principal, namespaceID tenant.ID) bool {
	return sees(p.rights, namespaceID) && (!p.capped || sees(p.caps, namespaceID))
}

// MayOn answers whether p may do to r what action needs.
func MayOn(p *Principal, action Permission, r Resource) error {
	if action == PermissionPublic {
		return nil
	}
	if p == nil {
		return unauthenticated("credentials_missing", "sign in first, or send an API key")
	}
	if action == PermissionSelf || cover(p.rights, action, r) && (!p.capped || cover(p.caps, action, r)) {
		return nil
	}
	if r.NamespaceID != "" && !SeesNamespace(p, r.NamespaceID) {
		return errs.E(errs.NotFound, "namespace %q does not exist", r.NamespaceID)
	}
	return errs.E(errs.Forbidden, "role %s does not grant %s here", p.Role, action).WithReason("permission_denied")
}

// May is MayOn for the tenant as a whole.
func May(p *Principal, action Permission) error { return MayOn(p, action, Resource{}) }

// mayIn answers whether p has a permission in all of a scope.
func mayIn(p *Principal, perm Permission, scope tenant.BindingScope) bool {
	in := func(grants []Right) bool {
		return slices.ContainsFunc(grants, func(g Right) bool { return slices.Contains(g.Permissions, perm) && g.Scope.Contains(scope) })
	}
	return in(p.rights) && (!p.capped || in(p.caps))
}

// noName is a pattern that no topic and no group can fit.
const noName = "%"

// Capped leaves of scopes what an owner with these grants may have: brokers get
// that and no more, until the grants end. Scopes without a permission are left
// out.
func Capped(grants []Right, scopes []tenant.Scope) []tenant.Scope {
	out := make([]tenant.Scope, 0, len(scopes))
	for _, sc := range scopes {
		full := sc
		full.Permissions = nil
		var narrow []tenant.Scope
		for _, perm := range sc.Permissions {
			if slices.ContainsFunc(grants, func(g Right) bool { return g.ExpiresAt == nil && wide(g, sc, perm) }) {
				full.Permissions = append(full.Permissions, perm)
				continue
			}
			for _, g := range grants {
				if n, ok := narrowed(sc, perm, g); ok {
					narrow = append(narrow, n)
				}
			}
		}
		if len(full.Permissions) > 0 {
			out = append(out, full)
		}
		out = append(out, narrow...)
	}
	return out
}

// wide reports whether a grant gives a permission of a scope for all its topics
// and groups.
func wide(g Right, sc tenant.Scope, perm tenant.Permission) bool {
	return slices.Contains(g.Permissions, dataNeeds[perm]) &&
		(g.Scope.Kind == tenant.ScopeTenant || g.Scope.Kind == tenant.ScopeNamespace && g.Scope.NamespaceID == sc.NamespaceID)
}

// narrowed is what a grant leaves of one permission of a scope.
func narrowed(sc tenant.Scope, perm tenant.Permission, g Right) (tenant.Scope, bool) {
	if g.ExpiresAt != nil && (sc.ExpiresAt == nil || g.ExpiresAt.Before(*sc.ExpiresAt)) {
		sc.ExpiresAt = g.ExpiresAt
	}
	whole := wide(g, sc, perm)
	sc.Permissions = []tenant.Permission{perm}
	if whole {
		return sc, true
	}
	if g.Scope.NamespaceID != sc.NamespaceID {
		return sc, false
	}
	switch g.Scope.Kind {
	case tenant.ScopeTopic:
		sc.Topics, sc.Groups = within(sc.Topics, g.Scope.Pattern), []string{noName}
		return sc, len(sc.Topics) > 0 && slices.Contains(g.Permissions, dataNeeds[perm])
	case tenant.ScopeGroup:
		sc.Topics, sc.Groups = []string{noName}, within(sc.Groups, g.Scope.Pattern)
		return sc, len(sc.Groups) > 0 && slices.Contains(g.Permissions, groupNeeds[perm])
	}
	return sc, false
}

// within lists the patterns for the names that fit one of patterns, all names if
// there is none, and pattern too.
func within(patterns []string, pattern string) []string {
	if len(patterns) == 0 {
		return []string{pattern}
	}
	var out []string
	for _, p := range patterns {
		switch {
		case tenant.PatternContains(pattern, p):
			out = append(out, p)
		case tenant.PatternContains(p, pattern):
			out = append(out, pattern)
		}
	}
	return out
}

// MayGive answers whether p may give a permission on the message path in a
// namespace to a key of somebody else; nil is yes.
func MayGive(p *Principal, namespaceID tenant.ID, perm tenant.Permission) *errs.Error {
	need := dataNeeds[perm]
	if mayIn(p, need, tenant.BindingScope{Kind: tenant.ScopeNamespace, NamespaceID: namespaceID}) {
		return nil
	}
	return errs.E(errs.Forbidden, "you do not have %s in all of namespace %s: you cannot give %s there", need, namespaceID, perm).WithReason("permission_denied")
}
