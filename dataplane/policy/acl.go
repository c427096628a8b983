package policy

import (
	"fmt"
	"net/netip"
	"sort"
	"strings"
	"time"
)

// Rule is one entry of a namespace's access control list.
//
// Order of evaluation, for a caller whose key is live and whose address the key
// allows: a rule that denies decides; else a rule that allows; else a scope of
// the key, or for a person on the HTTP API a role; else the request is refused.
// Neither the order of rules nor how narrow their patterns are matters. The same
// function decides for both protocols and for HTTP.
type Rule struct {
	ID         string     `json:"id"`
	Deny       bool       `json:"deny,omitempty"`
	Principal  string     `json:"principal"`            // an API key's id, its owner's id, or "*" for every caller of the tenant
	Resource   string     `json:"resource"`             // "topic", "group", or "namespace" for all topics and groups
	Pattern    string     `json:"pattern"`              // a name, a prefix followed by "*", or "*"
	Operations []string   `json:"operations"`           // as in a Scope
	CIDRs      []string   `json:"cidrs,omitempty"`      // addresses that the rule is for; empty: all
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // the rule is void from then on
}

const (
	everyone   = "*" // principal of rules for all callers of a tenant
	everything = "*" // pattern of all names
)

// kind of a resource.
type kind uint8

const (
	kindTopic kind = 1
	kindGroup kind = 2
)

var resourceKinds = map[string]kind{"topic": kindTopic, "group": kindGroup}

// resourceNamespace is what a rule names that is about every topic and group.
const resourceNamespace = "namespace"

// kindsOf lists what a rule about a resource speaks of, nil for an unknown one.
func kindsOf(resource string) []kind {
	if resource == resourceNamespace {
		return []kind{kindTopic, kindGroup}
	}
	if k := resourceKinds[resource]; k != 0 {
		return []kind{k}
	}
	return nil
}

// String returns the resource's name in a Rule.
func (k kind) String() string {
	if k == kindGroup {
		return "group"
	}
	return "topic"
}

// rule is a Rule ready for use.
type rule struct {
	id      string
	deny    bool
	ops     Operation
	cidrs   []netip.Prefix
	expires *time.Time
}

// acl is the access control list of one namespace, by whom and what it is for.
// It is never changed.
type acl map[aclKey]*aclNode

type aclKey struct {
	principal string
	kind      kind
}

// aclNode holds the rules of one principal for one kind. The prefixes are
// sorted; all of them that a name begins with are on one chain: from the last
// prefix that is not behind the name through its parents.
type aclNode struct {
	names    map[string][]rule
	prefixes []prefixRules
}

type prefixRules struct {
	prefix string
	parent int // longest prefix in front that it begins with, -1 for none
	rules  []rule
}

// compileACL builds the look-up form; rules that make no sense are reported
// and left out, which for one that denies means more than was meant: the
// control plane lets none of them through.
func compileACL(rules []Rule) (acl, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	a := acl{}
	prefixes := map[aclKey]map[string][]rule{}
	var firstErr error
	for i := range rules {
		r, err := compileRule(&rules[i])
		if err != nil {
			if firstErr == nil {
				firstErr = err
			}
			continue
		}
		for _, k := range kindsOf(rules[i].Resource) {
			a.add(prefixes, aclKey{rules[i].Principal, k}, rules[i].Pattern, r)
		}
	}
	for key, byPrefix := range prefixes {
		a[key].prefixes = sortPrefixes(byPrefix)
	}
	return a, firstErr
}

// add puts a rule where its pattern belongs; those for prefixes are collected.
func (a acl) add(prefixes map[aclKey]map[string][]rule, key aclKey, pattern string, r rule) {
	node := a[key]
	if node == nil {
		node = &aclNode{}
		a[key] = node
	}
	if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
		if prefixes[key] == nil {
			prefixes[key] = map[string][]rule{}
		}
		prefixes[key][prefix] = append(prefixes[key][prefix], r)
		return
	}
	if node.names == nil {
		node.names = map[string][]rule{}
	}
	node.names[pattern] = append(node.names[pattern], r)
}

func compileRule(r *Rule) (rule, error) {
	out := rule{id: r.ID, deny: r.Deny, expires: r.ExpiresAt}
	kinds := kindsOf(r.Resource)
	if len(kinds) == 0 || r.Principal == "" || r.Pattern == "" || (len(kinds) > 1 && r.Pattern != everything) {
		return out, fmt.Errorf("rule %s: resource %q, principal %q, pattern %q", r.ID, r.Resource, r.Principal, r.Pattern)
	}
	for _, name := range r.Operations {
		op, ok := operationNames[name]
		if !ok {
			return out, fmt.Errorf("rule %s: unknown operation %q", r.ID, name)
		}
		out.ops |= op
	}
	var err error
	out.cidrs, err = parseCIDRs(r.CIDRs)
	if err != nil {
		err = fmt.Errorf("rule %s: %w", r.ID, err)
	}
	return out, err
}

func parseCIDRs(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, addrErr := netip.ParseAddr(text)
			if addrErr != nil {
				return nil, fmt.Errorf("cidrs %q: %w", text, err)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		out = append(out, prefix)
	}
	return out, nil
}

func sortPrefixes(byPrefix map[string][]rule) []prefixRules {
	out := make([]prefixRules, 0, len(byPrefix))
	for prefix, rules := range byPrefix {
		out = append(out, prefixRules{prefix: prefix, rules: rules})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].prefix < out[j].prefix })
	for i := range out {
		p := i - 1
		for p >= 0 && !strings.HasPrefix(out[i].prefix, out[p].prefix) {
			p = out[p].parent
		}
		out[i].parent = p
	}
	return out
}

// question is what a caller wants.
type question struct {
	principals [3]string // key, its owner, everyone; "" is skipped
	kind       kind
	name       string
	op         Operation
	remote     netip.Addr
	now        func() time.Time
}

// decide returns a rule that denies, or else one that allows, or nil when no
// rule speaks about the question.
func (a acl) decide(q *question) *rule {
	if len(a) == 0 {
		return nil
	}
	var allow *rule
	for _, principal := range q.principals {
		if principal == "" {
			continue
		}
		node := a[aclKey{principal, q.kind}]
		if node == nil {
			continue
		}
		if r := q.pick(node.names[q.name], allow); r != allow {
			if allow = r; r.deny {
				return r
			}
		}
		for i := node.last(q.name); i >= 0; i = node.prefixes[i].parent {
			p := &node.prefixes[i]
			if !strings.HasPrefix(q.name, p.prefix) {
				continue
			}
			if r := q.pick(p.rules, allow); r != allow {
				if allow = r; r.deny {
					return r
				}
			}
		}
	}
	return allow
}

// last is the last prefix that is not behind name, -1 for none.
func (n *aclNode) last(name string) int {
	low, high := 0, len(n.prefixes)
	for low < high {
		mid := (low + high) / 2
		if n.prefixes[mid].prefix <= name {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

// pick returns the first rule that denies, or allow, or if that is nil the
// first that allows.
func (q *question) pick(rules []rule, allow *rule) *rule {
	for i := range rules {
		r := &rules[i]
		if r.ops&q.op == 0 || !r.deny && allow != nil || !within(r.cidrs, q.remote) {
			continue
		}
		if r.expires != nil && !q.now().Before(*r.expires) {
			continue
		}
		if r.deny {
			return r
		}
		allow = r
	}
	return allow
}

// within reports whether an address lies in one of the networks; no networks
// mean every address.
func within(networks []netip.Prefix, addr netip.Addr) bool {
	if len(networks) == 0 {
		return true
	}
	addr = addr.Unmap()
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}
