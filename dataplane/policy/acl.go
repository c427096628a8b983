package policy

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"net/netip"
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
	place   place
}

// place is whom and what a rule is for.
type place struct {
	principal string
	text      string // a name, or what names begin with
	kind      kind
	prefix    bool
}

// acl is the access control list of one namespace: an open hash table of places,
// so that a decision touches few lines of memory, which are cold when thousands of
// tenants take turns. It is never changed.
type acl struct {
	rules []rule // those of one place side by side
	slots []slot // a power of two, never full
	// lengths are those of the prefixes, by kind: only they are looked up.
	lengths [2]lengthSet
}

// slot points to the rules of a place; the number 0 marks a free one.
type slot struct {
	hash     uint64
	from, to uint32 // in rules
}

// lengthSet is a set of lengths of names.
type lengthSet [2]uint64

func (s *lengthSet) add(n int)      { s[n/64] |= 1 << (n % 64) }
func (s *lengthSet) has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

// longestName bounds what is looked up; names are shorter.
const longestName = 127

// hashSeed keeps tenants from choosing names that meet in the table.
var hashSeed = maphash.MakeSeed()

// hash is made of the hashes of the two texts of a place.
func hash(principal, text uint64, k kind, prefix bool) uint64 {
	h := principal ^ bits.RotateLeft64(text, 29) ^ uint64(k)<<1
	if prefix {
		h ^= 1
	}
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>32
}

func (p *place) hash() uint64 {
	return hash(maphash.String(hashSeed, p.principal), maphash.String(hashSeed, p.text), p.kind, p.prefix)
}

// compileACL builds the look-up form; rules that make no sense are reported
// and left out, which for one that denies means more than was meant: the
// control plane lets none of them through.
func compileACL(list []Rule) (acl, error) {
	var a acl
	var firstErr error
	places := map[place][]rule{}
	n := 0
	for i := range list {
		r, err := compileRule(&list[i])
		if err != nil {
			if firstErr == nil {
				firstErr = err
			}
			continue
		}
		text, prefix := strings.CutSuffix(list[i].Pattern, everything)
		if len(text) > longestName {
			continue // no name is that long
		}
		for _, k := range kindsOf(list[i].Resource) {
			r.place = place{list[i].Principal, text, k, prefix}
			places[r.place] = append(places[r.place], r)
			n++
		}
	}
	if n == 0 {
		return a, firstErr
	}
	a.rules = make([]rule, 0, n)
	a.slots = make([]slot, 1<<bits.Len(uint(len(places)*4/3)))
	for p, rules := range places {
		from := len(a.rules)
		a.rules = append(a.rules, rules...)
		a.put(slot{p.hash(), uint32(from), uint32(len(a.rules))}) //nolint:gosec // a namespace has thousands of rules
		if p.prefix {
			a.lengths[p.kind-1].add(len(p.text))
		}
	}
	return a, firstErr
}

func (a *acl) put(s slot) {
	mask := uint64(len(a.slots) - 1)
	at := s.hash & mask
	for a.slots[at].to != 0 {
		at = (at + 1) & mask
	}
	a.slots[at] = s
}

// at returns the rules of a place.
func (a *acl) at(h uint64, p place) []rule {
	mask := uint64(len(a.slots) - 1)
	for at := h & mask; a.slots[at].to != 0; at = (at + 1) & mask {
		if s := &a.slots[at]; s.hash == h && a.rules[s.from].place == p {
			return a.rules[s.from:s.to]
		}
	}
	return nil
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
// rule speaks about the question. Of several it is that of the first principal,
// and there of the name itself before those of prefixes, the longest first.
func (a *acl) decide(q *question) *rule {
	if len(a.rules) == 0 || len(q.name) > longestName {
		return nil
	}
	var whole uint64
	var byLength [longestName + 1]uint64 // of the prefixes of the name
	lengths := &a.lengths[q.kind-1]
	whole = maphash.String(hashSeed, q.name)
	for n := range len(q.name) + 1 {
		if lengths.has(n) {
			byLength[n] = maphash.String(hashSeed, q.name[:n])
		}
	}
	var allow *rule
	for _, principal := range q.principals {
		if principal == "" {
			continue
		}
		who := maphash.String(hashSeed, principal)
		if r := q.pick(a.at(hash(who, whole, q.kind, false), place{principal, q.name, q.kind, false}), allow); r != allow {
			if allow = r; r.deny {
				return r
			}
		}
		for n := len(q.name); n >= 0; n-- {
			if !lengths.has(n) {
				continue
			}
			if r := q.pick(a.at(hash(who, byLength[n], q.kind, true), place{principal, q.name[:n], q.kind, true}), allow); r != allow {
				if allow = r; r.deny {
					return r
				}
			}
		}
	}
	return allow
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
