package policy

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// compiled is a snapshot made ready for look-ups. It is never changed after
// compile returns; what it points to is safe to read at any time.
type compiled struct {
	revision   uint64
	snapshot   *Snapshot
	principals map[string]*Principal
	namespaces map[string]*namespace
	tokens     map[string]tokenKey
	hash       func() string // of the snapshot, made when it is asked for
}

// namespace is a Namespace with its live rate limits. It is one object for as
// long as the namespace lives: a new policy is stored into it, so that neither
// the limits are refilled nor the principals renewed by a change.
type namespace struct {
	id     string
	policy atomic.Pointer[Namespace] // nil once the namespace is gone
	acl    atomic.Pointer[acl]
	rates  rates
}

// scope is a Scope with its permissions as bits.
type scope struct {
	ns      *namespace
	ops     Operation
	topics  []string
	groups  []string
	cidrs   []netip.Prefix
	expires *time.Time
}

// compile builds the look-up form. Principals that did not change are carried
// over from old, and of those whose end alone moved their rights, so that
// Principal.Live is a pointer comparison.
func compile(e *Engine, revision uint64, s *Snapshot, old *compiled) *compiled {
	c := &compiled{
		revision:   revision,
		snapshot:   s,
		principals: make(map[string]*Principal, len(s.Keys)),
		namespaces: make(map[string]*namespace, len(s.Namespaces)),
		tokens:     make(map[string]tokenKey, len(s.Tokens)),
	}
	c.hash = sync.OnceValue(s.Hash)
	for _, t := range s.Tokens {
		key, err := t.ready()
		if err != nil {
			e.cfg.Logger.Error("token key left out of the policy", "kid", t.KID, "err", err)
			continue
		}
		c.tokens[t.KID] = key
	}
	for id, policy := range s.Namespaces {
		ns := old.namespace(id)
		if ns == nil {
			ns = &namespace{id: id}
		}
		ns.rates.set(policy)
		ns.setACL(e, policy.ACL)
		ns.policy.Store(&policy)
		c.namespaces[id] = ns
	}
	if old != nil {
		for id, ns := range old.namespaces {
			if c.namespaces[id] == nil {
				ns.policy.Store(nil)
			}
		}
	}
	for id, key := range s.Keys {
		var sameRights bool
		if old != nil {
			var same bool
			if same, sameRights = compare(old, c, id, key); same {
				c.principals[id] = old.principals[id]
				continue
			}
		}
		p, err := newPrincipal(e, id, key, c.namespaces)
		if err != nil {
			e.cfg.Logger.Error("key left out of the policy", "key", id, "err", err)
			continue
		}
		p.use, p.rights = &lastUse{}, &rights{}
		if sameRights {
			p.rights = old.principals[id].rights
		}
		if old != nil && old.principals[id] != nil {
			p.use = old.principals[id].use
		}
		c.principals[id] = p
	}
	return c
}

// setACL compiles the rules, unless they are those in force.
func (ns *namespace) setACL(e *Engine, rules []Rule) {
	if old := ns.policy.Load(); old != nil && len(old.ACL) == len(rules) && (len(rules) == 0 || &old.ACL[0] == &rules[0]) {
		return
	}
	list, err := compileACL(rules)
	if err != nil {
		e.cfg.Logger.Error("rules left out of the access control list", "namespace", ns.id, "err", err)
	}
	ns.acl.Store(&list)
}

func (c *compiled) namespace(id string) *namespace {
	if c == nil {
		return nil
	}
	return c.namespaces[id]
}

// compare tells whether the principal of the old policy can serve in the new
// one, since the key is unchanged and reaches the same namespaces, or all of it
// but its end.
func compare(old, c *compiled, id string, key Key) (same, sameRights bool) {
	was := old.snapshot.Keys[id]
	if old.principals[id] == nil {
		return false, false
	}
	for _, s := range key.Scopes {
		if c.namespaces[s.NamespaceID] != old.namespaces[s.NamespaceID] {
			return false, false
		}
	}
	if reflect.DeepEqual(was, key) {
		return true, true
	}
	was.ExpiresAt = key.ExpiresAt
	return false, reflect.DeepEqual(was, key)
}

func newPrincipal(e *Engine, id string, key Key, namespaces map[string]*namespace) (*Principal, error) {
	p := &Principal{engine: e, id: id, secret: []byte(key.Secret), macs: &sync.Pool{}, tenant: key.TenantID, owner: key.OwnerID, revoked: key.Revoked, disabled: key.Disabled, expires: key.ExpiresAt}
	var err error
	if p.cidrs, err = parseCIDRs(key.AllowedCIDRs); err != nil {
		return nil, fmt.Errorf("allowed addresses: %w", err)
	}
	for _, s := range key.Scopes {
		ns := namespaces[s.NamespaceID]
		if ns == nil || ns.policy.Load().TenantID != key.TenantID {
			continue // a namespace of another tenant is never reachable, whatever the scope says
		}
		var ops Operation
		for _, name := range s.Permissions {
			ops |= operationNames[name]
		}
		cidrs, err := parseCIDRs(s.CIDRs)
		if err != nil {
			return nil, fmt.Errorf("scope of %s: %w", s.NamespaceID, err)
		}
		p.scopes = append(p.scopes, scope{ns: ns, ops: ops, topics: s.Topics, groups: s.Groups, cidrs: cidrs, expires: s.ExpiresAt})
	}
	return p, nil
}

// matches reports whether name fits one of patterns.
func matches(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		} else if pattern == name {
			return true
		}
	}
	return false
}
