package fleet

import (
	"net/netip"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/tenant"
)

var _ catalog.Judges = Judge

// Judge decides with the function that brokers use; see catalog.Judges.
func Judge(namespaceID tenant.ID, list []tenant.Rule) (catalog.Judge, error) {
	rules := make([]policy.Rule, len(list))
	for i, r := range list {
		rules[i] = policyRule(r)
	}
	j, err := policy.NewJudge(namespaceID, rules)
	if err != nil {
		return nil, err
	}
	return func(q catalog.AccessQuestion) (catalog.AccessDecision, error) {
		ask := policy.Question{
			KeyID: q.Key.ID, PersonID: q.UserID, Role: q.Role, Resource: string(q.Resource), Name: q.Name, Operation: string(q.Operation),
			Remote: q.Remote, Now: q.Now,
		}
		if q.Key.ID != "" {
			ask.Key = policyKey(catalog.DesiredKey{TenantID: q.Key.TenantID, OwnerID: q.Key.OwnerID, State: q.State, ExpiresAt: q.Key.Ends(),
				Scopes: q.Key.Scopes, AllowedCIDRs: q.Key.AllowedCIDRs})
		}
		if !ask.Remote.IsValid() {
			ask.Remote = netip.IPv6Unspecified() // in no network that anybody writes
		}
		d, err := j.Decide(ask)
		return catalog.AccessDecision{Allowed: d.Allowed, DecidedBy: d.DecidedBy, RuleID: d.RuleID, Reason: d.Reason}, err
	}, nil
}
