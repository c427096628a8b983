package policy

import (
	"fmt"
	"net/netip"
	"time"
)

// Question asks what a key may do, for people who want to know before they try.
type Question struct {
	NamespaceID string
	KeyID       string
	Key         Key
	Rules       []Rule // of the namespace
	Resource    string // as in a Rule
	Name        string // bare
	Operation   string // as in a Scope
	Remote      netip.Addr
	Now         time.Time
}

// What decides a Question.
const (
	DecidedByKey     = "key_state" // revoked, disabled or expired
	DecidedByAddress = "address"   // not one that the key allows
	DecidedByRule    = "rule"
	DecidedByScope   = "scope"
	DecidedByDefault = "default" // nothing allows it
)

// Decision is the answer to a Question.
type Decision struct {
	Allowed   bool
	DecidedBy string
	RuleID    string // with DecidedByRule
	Reason    string // a sentence
}

// Explain answers as View.Topic and View.Group do, with the same code, and
// says why. The error is of a Question that makes no sense.
func Explain(q Question) (Decision, error) {
	op, resource := operationNames[q.Operation], resourceKinds[q.Resource]
	if op == 0 || resource == 0 {
		return Decision{}, fmt.Errorf("operation %q on resource %q", q.Operation, q.Resource)
	}
	list, err := compileACL(q.Rules)
	if err != nil {
		return Decision{}, err
	}
	e := &Engine{cfg: Config{Now: func() time.Time { return q.Now }}}
	ns := &namespace{id: q.NamespaceID}
	ns.policy.Store(&Namespace{TenantID: q.Key.TenantID})
	ns.acl.Store(&list)
	p, err := newPrincipal(e, q.KeyID, q.Key, map[string]*namespace{q.NamespaceID: ns})
	if err != nil {
		return Decision{}, err
	}
	if r := p.admit(q.Remote); r != nil {
		by := DecidedByKey
		if r.Code == CodeAddressNotAllowed {
			by = DecidedByAddress
		}
		return Decision{DecidedBy: by, Reason: r.Text}, nil
	}
	v := &View{p: p, ns: ns, remote: q.Remote}
	ok, r := v.decide(resource, q.Name, op)
	what := fmt.Sprintf("%s on %s %s", op, resource, q.Name)
	switch {
	case r != nil && r.deny:
		return Decision{DecidedBy: DecidedByRule, RuleID: r.id, Reason: "The rule " + r.id + " denies " + what + "."}, nil
	case r != nil:
		return Decision{Allowed: true, DecidedBy: DecidedByRule, RuleID: r.id, Reason: "The rule " + r.id + " allows " + what + "."}, nil
	case ok:
		return Decision{Allowed: true, DecidedBy: DecidedByScope, Reason: "A scope of the API key allows " + what + "."}, nil
	}
	return Decision{DecidedBy: DecidedByDefault, Reason: "No rule and no scope of the API key allows " + what + "."}, nil
}
