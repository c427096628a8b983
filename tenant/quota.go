package tenant

import (
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// The catalogue of counted quotas.
const (
	QuotaNamespaces      = "namespaces"
	QuotaTopics          = "topics"
	QuotaGroups          = "groups"
	QuotaAPIKeys         = "api_keys"
	QuotaServiceAccounts = "service_accounts"
	QuotaRules           = "acls"
	QuotaMembers         = "members"
	QuotaInvitations     = "invitations" // that are pending
	QuotaRoles           = "roles"       // of the tenant's own
	QuotaBindings        = "role_bindings"
)

// Rates are limits per second on the message path; 0 means no limit.
type Rates struct {
	SendMessages    int64
	SendBytes       int64
	ReceiveMessages int64
	Requests        int64
}

// Limit is one counted quota of a plan.
type Limit struct {
	Name      string
	Tenant    int64 // in the whole tenant; 0: not counted there
	Namespace int64 // in each namespace; 0: not counted there
}

// Plan is what a tenant bought: how many of each and how fast.
type Plan struct {
	ID     string
	Limits []Limit
	Rates  Rates
}

// PlanFree is the plan of a new tenant.
const PlanFree = "pln_free"

func plans() []Plan {
	return []Plan{{
		ID: PlanFree,
		Limits: []Limit{
			{Name: QuotaNamespaces, Tenant: 5},
			{Name: QuotaTopics, Tenant: 200, Namespace: 100},
			{Name: QuotaGroups, Tenant: 400, Namespace: 200},
			{Name: QuotaAPIKeys, Tenant: 50},
			{Name: QuotaServiceAccounts, Tenant: 20},
			{Name: QuotaRules, Tenant: 2000, Namespace: 1000},
			{Name: QuotaMembers, Tenant: 20},
			{Name: QuotaInvitations, Tenant: 20},
			{Name: QuotaRoles, Tenant: 50},
			{Name: QuotaBindings, Tenant: 500},
		},
		Rates: Rates{SendMessages: 50_000, SendBytes: 100 << 20, ReceiveMessages: 100_000, Requests: 200_000},
	}}
}

// PlanOf returns the plan with this id, the free one for an id that is
// unknown.
func PlanOf(id string) Plan {
	list := plans()
	for _, p := range list {
		if p.ID == id {
			return p
		}
	}
	return list[0]
}

// Limit returns the plan's limit of this name; the zero Limit if it has none.
func (p Plan) Limit(name string) Limit {
	for _, l := range p.Limits {
		if l.Name == name {
			return l
		}
	}
	return Limit{}
}

// QuotaKind says how a quota counts.
type QuotaKind string

// The kinds of quotas.
const (
	QuotaCount QuotaKind = "count" // how many there may be
	QuotaRate  QuotaKind = "rate"  // how many a second
)

// Quota is a limit with its use and the source of the limit.
type Quota struct {
	Name     string
	Scope    ID
	Kind     QuotaKind
	Unit     string
	Limit    int64
	Used     int64
	Source   string // plan or override
	Since    time.Time
	Revision int64
}

// Exceeded makes the error of a reservation that did not fit.
func (q Quota) Exceeded() error {
	e := errs.E(errs.QuotaExceeded, "quota %q of %s is used up: %d of %d; delete some or ask for a higher limit", q.Name, q.Scope, q.Used, q.Limit)
	e.Quota = &errs.Quota{Name: q.Name, Scope: q.Scope, Limit: q.Limit, Used: q.Used}
	return e
}
