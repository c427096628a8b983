package catalog

import (
	"net/netip"
	"time"

	"github.com/sluicemq/sluice/tenant"
)

// AccessQuestion asks what brokers would answer a key.
type AccessQuestion struct {
	NamespaceID tenant.ID
	Key         tenant.APIKey
	State       tenant.KeyState // of the key and its owner together
	Rules       []tenant.Rule   // of the namespace
	Resource    tenant.ResourceKind
	Name        string // bare
	Operation   tenant.Permission
	Remote      netip.Addr // not valid: from nowhere in particular
}

// AccessDecision is the answer: RuleID is set when a rule made it.
type AccessDecision struct {
	Allowed   bool
	DecidedBy string
	RuleID    tenant.ID
	Reason    string
}

// Explainer decides as brokers do.
type Explainer func(q AccessQuestion, now time.Time) (AccessDecision, error)
