package policy

import (
	"fmt"
	"net/netip"
	"time"
)

// Question asks what a caller may do: a key as brokers see it, or a person that
// the control plane knows.
type Question struct {
	KeyID     string // "": a person asks
	Key       Key
	PersonID  string // usr_…, without a key
	Role      bool   // a role of the caller allows it unless a rule denies
	Resource  string // "topic" or "group"
	Name      string // bare
	Operation string // as in a Scope
	Remote    netip.Addr
	Now       time.Time
}

// What decides a Question.
const (
	DecidedByKey     = "key_state" // revoked, disabled or expired
	DecidedByAddress = "address"   // not one that the key allows
	DecidedByRule    = "rule"
	DecidedByScope   = "scope"
	DecidedByRole    = "role"
	DecidedByDefault = "default" // nothing allows it
)

// Decision is the answer to a Question.
type Decision struct {
	Allowed   bool
	DecidedBy string
	RuleID    string // with DecidedByRule
	Reason    string // a sentence
}

// Judge answers questions about one namespace, with the code that brokers use.
// It may be used by any number of goroutines.
type Judge struct {
	id   string
	list acl
}

// NewJudge makes a Judge from the rules of a namespace.
func NewJudge(namespaceID string, rules []Rule) (*Judge, error) {
	list, err := compileACL(rules)
	return &Judge{namespaceID, list}, err
}

// Decide answers as View.Topic and View.Group do, with the same code, and says
// why. The error is of a Question that makes no sense.
func (j *Judge) Decide(q Question) (Decision, error) {
	op, resource := operationNames[q.Operation], resourceKinds[q.Resource]
	if op == 0 || resource == 0 {
		return Decision{}, fmt.Errorf("operation %q on resource %q", q.Operation, q.Resource)
	}
	e := &Engine{cfg: Config{Now: func() time.Time { return q.Now }}}
	ns := &namespace{id: j.id}
	ns.policy.Store(&Namespace{TenantID: q.Key.TenantID})
	ns.acl.Store(&j.list)
	p := &Principal{engine: e, owner: q.PersonID}
	yes := DecidedByRole
	if q.KeyID != "" {
		var err error
		if p, err = newPrincipal(e, q.KeyID, q.Key, map[string]*namespace{j.id: ns}); err != nil {
			return Decision{}, err
		}
		if d, ok := j.admitted(p, q); !ok {
			return d, nil
		}
		if !q.Role {
			yes = DecidedByScope
		}
	}
	v := &View{p: p, ns: ns, remote: q.Remote}
	ok, r := v.decide(resource, q.Name, op)
	return decision(ok || q.Role, r, yes, fmt.Sprintf("%s on %s %s", op, resource, q.Name)), nil
}

// admitted asks what comes before rules and scopes.
func (j *Judge) admitted(p *Principal, q Question) (Decision, bool) {
	if r := p.admit(q.Remote); r != nil {
		by := DecidedByKey
		if r.Code == CodeAddressNotAllowed {
			by = DecidedByAddress
		}
		return Decision{DecidedBy: by, Reason: r.Text}, false
	}
	if len(p.scopes) == 0 && !q.Role {
		return Decision{DecidedBy: DecidedByDefault, Reason: "The API key " + p.id + " has no scope in the namespace " + j.id + "."}, false
	}
	return Decision{}, true
}

// decision puts into words what rule r, or without one what yes stands for, says.
func decision(ok bool, r *rule, yes, what string) Decision {
	switch {
	case r != nil && r.deny:
		return Decision{DecidedBy: DecidedByRule, RuleID: r.id, Reason: "The rule " + r.id + " denies " + what + "."}
	case r != nil:
		return Decision{Allowed: true, DecidedBy: DecidedByRule, RuleID: r.id, Reason: "The rule " + r.id + " allows " + what + "."}
	case ok && yes == DecidedByRole:
		return Decision{Allowed: true, DecidedBy: yes, Reason: "A role allows " + what + "."}
	case ok:
		return Decision{Allowed: true, DecidedBy: yes, Reason: "A scope of the API key allows " + what + "."}
	case yes == DecidedByRole:
		return Decision{DecidedBy: DecidedByDefault, Reason: "No rule and no role allows " + what + "."}
	}
	return Decision{DecidedBy: DecidedByDefault, Reason: "No rule and no scope of the API key allows " + what + "."}
}
