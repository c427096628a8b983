package tenant

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// Effect of a rule.
type Effect string

// The effects. A rule that denies decides over all that allow.
const (
	EffectAllow Effect = "allow"
	EffectDeny  Effect = "deny"
)

// ResourceKind is what a rule is about.
type ResourceKind string

// The kinds of resources.
const (
	ResourceTopic     ResourceKind = "topic"
	ResourceGroup     ResourceKind = "group"
	ResourceNamespace ResourceKind = "namespace" // all topics and groups
)

// Everyone is the principal of rules for all callers of a tenant; Everything is
// the pattern of all names.
const (
	Everyone   = "*"
	Everything = "*"
)

// Rule is one entry of a namespace's access control list. Brokers decide, for a
// key that is live and whose address it allows: a rule that denies, else one
// that allows, else a scope of the key, else no. The HTTP API decides with the
// same function; for a person, a role stands in for the scopes.
type Rule struct {
	TenantID    ID
	ID          ID
	NamespaceID ID
	Effect      Effect
	Principal   ID // an API key, a member or service account for all of its keys, or Everyone
	Resource    ResourceKind
	Pattern     string // a name, a prefix followed by `*`, or `*`
	Operations  []Permission
	CIDRs       []netip.Prefix // addresses that it is for; none: all
	ExpiresAt   *time.Time     // void from then on
	Description string
	Status      Status
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Revision    int64
}

// RuleUpdate is what to change of a rule; nil means as it is.
type RuleUpdate struct {
	Effect      *Effect
	Pattern     *string
	Operations  []Permission
	CIDRs       *[]netip.Prefix
	ExpiresAt   **time.Time // points to nil: never
	Description *string
}

// RuleFilter narrows a list of rules; empty fields do not.
type RuleFilter struct {
	Principal ID
	Resource  ResourceKind
	// Principals, Resources and Patterns are alternatives; nil means any.
	Principals []ID
	Resources  []ResourceKind
	Patterns   []string
}

// RulesAbout asks for the rules that can speak about what principals do with
// one topic or group, and for no others.
func RulesAbout(principals []ID, kind ResourceKind, name string) RuleFilter {
	f := RuleFilter{Principals: append([]ID{Everyone}, principals...), Resources: []ResourceKind{kind, ResourceNamespace}, Patterns: []string{name}}
	for i := range len(name) + 1 {
		f.Patterns = append(f.Patterns, name[:i]+"*")
	}
	return f
}

// CreateRule adds a rule to a namespace; the fields of in that users set count.
func (s *Service) CreateRule(ctx context.Context, tenantID, namespaceID ID, in Rule) (Rule, error) {
	now := s.time()
	r := in
	r.TenantID, r.NamespaceID, r.ID = tenantID, namespaceID, NewID(PrefixRule, now)
	r.Status = Status{Phase: PhasePending}
	r.CreatedAt, r.UpdatedAt, r.Revision = now, now, 1
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		if err := active(t); err != nil {
			return err
		}
		if _, err := s.store.Namespace(ctx, tenantID, namespaceID); err != nil {
			return err
		}
		if err := s.checkRule(ctx, r); err != nil {
			return err
		}
		if err := s.reserve(ctx, t, namespaceID, QuotaRules); err != nil {
			return err
		}
		if err := s.store.CreateRule(ctx, r); err != nil {
			return err
		}
		return s.changed(ctx, ruleChange(r))
	})
	return r, err
}

func ruleChange(r Rule) Change {
	return Change{TenantID: r.TenantID, NamespaceID: r.NamespaceID, Kind: kindRule, ID: r.ID, Revision: r.Revision}
}

// Rule returns one rule.
func (s *Service) Rule(ctx context.Context, tenantID, namespaceID, id ID) (Rule, error) {
	return s.store.Rule(ctx, tenantID, namespaceID, id)
}

// Rules lists the rules of a namespace.
func (s *Service) Rules(ctx context.Context, tenantID, namespaceID ID, f RuleFilter, p Page) ([]Rule, error) {
	if _, err := s.store.Namespace(ctx, tenantID, namespaceID); err != nil {
		return nil, err
	}
	return s.store.Rules(ctx, tenantID, namespaceID, f, p)
}

// UpdateRule changes a rule. Whom and what kind of resource it is about stays:
// that would be another rule.
func (s *Service) UpdateRule(ctx context.Context, tenantID, namespaceID, id ID, u RuleUpdate, want int64) (Rule, error) {
	var out Rule
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		r, err := s.store.Rule(ctx, tenantID, namespaceID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, r.Revision); err != nil {
			return err
		}
		set(&r.Effect, u.Effect)
		set(&r.Pattern, u.Pattern)
		set(&r.CIDRs, u.CIDRs)
		set(&r.ExpiresAt, u.ExpiresAt)
		set(&r.Description, u.Description)
		if u.Operations != nil {
			r.Operations = u.Operations
		}
		if err := s.checkRule(ctx, r); err != nil {
			return err
		}
		r.Status.Phase, r.Status.Reason = PhasePending, ""
		out, err = s.writeRule(ctx, r)
		return err
	})
	return out, err
}

// DeleteRule takes a rule away.
func (s *Service) DeleteRule(ctx context.Context, tenantID, namespaceID, id ID, want int64) (Rule, error) {
	var out Rule
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		r, err := s.store.Rule(ctx, tenantID, namespaceID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, r.Revision); err != nil {
			return err
		}
		out, err = s.deleteRule(ctx, t, r)
		return err
	})
	return out, err
}

func (s *Service) deleteRule(ctx context.Context, t Tenant, r Rule) (Rule, error) {
	r.Status.Phase = PhaseDeleting
	out, err := s.writeRule(ctx, r)
	if err != nil {
		return out, err
	}
	return out, Release(ctx, s.store, t, r.NamespaceID, QuotaRules)
}

// writeRule writes a rule with the next revision and tells brokers.
func (s *Service) writeRule(ctx context.Context, r Rule) (Rule, error) {
	r.UpdatedAt, r.Revision = s.time(), r.Revision+1
	if err := s.store.UpdateRule(ctx, r); err != nil {
		return r, err
	}
	return r, s.changed(ctx, ruleChange(r))
}

// dropRules takes away all rules of a namespace that is deleted.
func (s *Service) dropRules(ctx context.Context, t Tenant, namespaceID ID) error {
	return s.eachRule(ctx, t.ID, namespaceID, RuleFilter{}, func(r Rule) error {
		_, err := s.deleteRule(ctx, t, r)
		return err
	})
}

// AllRules returns every rule of a namespace that the filter leaves; its quota
// bounds how many.
func (s *Service) AllRules(ctx context.Context, tenantID, namespaceID ID, f RuleFilter) ([]Rule, error) {
	if _, err := s.store.Namespace(ctx, tenantID, namespaceID); err != nil {
		return nil, err
	}
	var out []Rule
	err := s.eachRule(ctx, tenantID, namespaceID, f, func(r Rule) error {
		out = append(out, r)
		return nil
	})
	return out, err
}

func (s *Service) eachRule(ctx context.Context, tenantID, namespaceID ID, f RuleFilter, do func(Rule) error) error {
	return each(func(p Page) ([]Rule, error) { return s.store.Rules(ctx, tenantID, namespaceID, f, p) },
		func(r Rule) ID { return r.ID }, do)
}

func (s *Service) checkRule(ctx context.Context, r Rule) error {
	if r.Effect != EffectAllow && r.Effect != EffectDeny {
		return errs.Field("effect", "effect %q: use allow or deny", r.Effect)
	}
	if r.Resource != ResourceTopic && r.Resource != ResourceGroup && r.Resource != ResourceNamespace {
		return errs.Field("resource", "resource %q: use topic, group or namespace", r.Resource)
	}
	if !patternForm.MatchString(r.Pattern) {
		return errs.Field("pattern", "pattern %q: use a name, or a prefix that ends with *", r.Pattern)
	}
	if r.Resource == ResourceNamespace && r.Pattern != Everything {
		return errs.Field("pattern", "pattern %q: a rule about the namespace is about everything in it; use *", r.Pattern)
	}
	if len(r.Operations) == 0 {
		return errs.Field("operations", "a rule needs at least one of PUB, SUB, MANAGE, DESCRIBE")
	}
	seen := map[Permission]bool{}
	for i, op := range r.Operations {
		if !op.Valid() || seen[op] {
			return errs.Field(fmt.Sprintf("operations[%d]", i), "operation %q is unknown or there twice; use PUB, SUB, MANAGE, DESCRIBE", op)
		}
		seen[op] = true
	}
	if r.ExpiresAt != nil && !r.ExpiresAt.After(s.time()) {
		return errs.Field("expires_at", "expires_at lies in the past")
	}
	if err := CheckDescription(r.Description); err != nil {
		return err
	}
	return s.checkPrincipal(ctx, r.TenantID, r.Principal)
}

func (s *Service) checkPrincipal(ctx context.Context, tenantID, id ID) error {
	if id == Everyone {
		return nil
	}
	if strings.HasPrefix(id, PrefixKey) {
		_, err := s.store.Key(ctx, tenantID, id)
		return missing(err, "principal", "API key %q does not exist", id)
	}
	return s.checkOwner(ctx, "principal", tenantID, id)
}
