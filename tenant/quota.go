package tenant

import "github.com/sluicemq/sluice/internal/errs"

// The catalogue of counted quotas.
const (
	QuotaNamespaces      = "namespaces"
	QuotaTopics          = "topics"
	QuotaGroups          = "groups"
	QuotaAPIKeys         = "api_keys"
	QuotaServiceAccounts = "service_accounts"
	QuotaMembers         = "members"
)

// CountQuotas lists the counted quotas in the order in which they are shown.
func CountQuotas() []string {
	return []string{QuotaNamespaces, QuotaTopics, QuotaGroups, QuotaAPIKeys, QuotaServiceAccounts, QuotaMembers}
}

// Rates are limits per second on the message path; 0 means no limit.
type Rates struct {
	SendMessages    int64
	SendBytes       int64
	ReceiveMessages int64
	Requests        int64
}

// Plan is what a tenant bought: how many of each and how fast.
type Plan struct {
	Name   string
	Counts map[string]int64
	Rates  Rates
}

// PlanFree is the plan of a new tenant.
const PlanFree = "free"

// Plans is the catalogue of plans by name.
func Plans() map[string]Plan {
	return map[string]Plan{
		PlanFree: {
			Name: PlanFree,
			Counts: map[string]int64{
				QuotaNamespaces: 5, QuotaTopics: 100, QuotaGroups: 200,
				QuotaAPIKeys: 50, QuotaServiceAccounts: 20, QuotaMembers: 20,
			},
			Rates: Rates{SendMessages: 5000, SendBytes: 20 << 20, ReceiveMessages: 10000, Requests: 20000},
		},
	}
}

// PlanOf returns the named plan, the free one for a name that is unknown.
func PlanOf(name string) Plan {
	plans := Plans()
	if p, ok := plans[name]; ok {
		return p
	}
	return plans[PlanFree]
}

// Quota is a limit with its use and the source of the limit.
type Quota struct {
	Name   string
	Scope  ID
	Limit  int64
	Used   int64
	Source string // "plan" or "override"
}

// Exceeded makes the error of a reservation that did not fit.
func (q Quota) Exceeded() error {
	e := errs.E(errs.QuotaExceeded, "quota %q of %s is used up: %d of %d; delete some or ask for a higher limit", q.Name, q.Scope, q.Used, q.Limit)
	e.Quota = &errs.Quota{Name: q.Name, Scope: q.Scope, Limit: q.Limit, Used: q.Used}
	return e
}
