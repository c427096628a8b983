package fleet

import (
	"net/netip"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// Explain answers what brokers would, with their own function; see
// catalog.Explainer.
func Explain(q catalog.AccessQuestion, now time.Time) (catalog.AccessDecision, error) {
	rules := make([]policy.Rule, len(q.Rules))
	for i, r := range q.Rules {
		rules[i] = policyRule(r)
	}
	key := policyKey(catalog.DesiredKey{TenantID: q.Key.TenantID, OwnerID: q.Key.OwnerID, State: q.State, ExpiresAt: q.Key.ExpiresAt,
		Scopes: q.Key.Scopes, AllowedCIDRs: q.Key.AllowedCIDRs})
	remote := q.Remote
	if !remote.IsValid() {
		remote = netip.IPv6Unspecified() // in no network that anybody writes
	}
	d, err := policy.Explain(policy.Question{
		NamespaceID: q.NamespaceID, KeyID: q.Key.ID, Key: key, Rules: rules, Resource: string(q.Resource), Name: q.Name,
		Operation: string(q.Operation), Remote: remote, Now: now,
	})
	return catalog.AccessDecision{Allowed: d.Allowed, DecidedBy: d.DecidedBy, RuleID: d.RuleID, Reason: d.Reason}, err
}

var _ catalog.Explainer = Explain
