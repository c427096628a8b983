package catalog

import (
	"net/netip"
	"time"

	"github.com/sluicemq/sluice/tenant"
)

// AccessQuestion asks what a caller may do with a topic or a group: an API key
// as brokers see it, or a person.
type AccessQuestion struct {
	Key       tenant.APIKey   // its id is empty when a person asks
	State     tenant.KeyState // of the key and its owner together
	UserID    tenant.ID       // the person
	Role      bool            // a role of the caller allows it, unless a rule denies
	Resource  tenant.ResourceKind
	Name      string // bare
	Operation tenant.Permission
	Remote    netip.Addr // not valid: from nowhere in particular
	Now       time.Time
}

// AccessDecision is the answer: RuleID is set when a rule made it.
type AccessDecision struct {
	Allowed   bool
	DecidedBy string
	RuleID    tenant.ID
	Reason    string
}

// Judge decides for one namespace as brokers do.
type Judge func(q AccessQuestion) (AccessDecision, error)

// Judges makes a Judge from rules of a namespace: those that speak about what
// will be asked.
type Judges func(namespaceID tenant.ID, rules []tenant.Rule) (Judge, error)
