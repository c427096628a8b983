package fleet

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/tenant"
)

// snapshot says what name servers and brokers must know of m.
func (m *model) snapshot(issuer string) *policy.Snapshot {
	s := &policy.Snapshot{
		Issuer:     issuer,
		Tokens:     tokenKeys(m.jwks),
		Revoked:    revokedTokens(m.jwks),
		Keys:       make(map[string]policy.Key, len(m.keys)),
		Namespaces: make(map[string]policy.Namespace, len(m.namespaces)),
	}
	for id, ns := range m.namespaces {
		if ns.Deleted {
			continue
		}
		t := m.tenants[ns.TenantID]
		s.Namespaces[id] = policy.Namespace{
			TenantID:  ns.TenantID,
			Suspended: t.Suspended,
			Limits: policy.Limits{
				SendMessagesPerSecond:    t.Rates.SendMessages,
				SendBytesPerSecond:       t.Rates.SendBytes,
				ReceiveMessagesPerSecond: t.Rates.ReceiveMessages,
				RequestsPerSecond:        t.Rates.Requests,
			},
			ACL: m.acl(id),
		}
	}
	for _, t := range m.topics {
		ns, ok := s.Namespaces[t.NamespaceID]
		if !ok || t.Deleted {
			continue
		}
		if ns.Topics == nil {
			ns.Topics = map[string]policy.Topic{}
			s.Namespaces[t.NamespaceID] = ns
		}
		ns.Topics[t.Name] = policy.Topic{SendMessagesPerSecond: t.MaxSendTPS, MaxMessageBytes: int64(t.MaxMessageBytes)}
	}
	for id, k := range m.keys {
		s.Keys[id] = policyKey(k)
	}
	return s
}

// acl lists the rules of a namespace in a stable order.
func (m *model) acl(namespaceID tenant.ID) []policy.Rule {
	var out []policy.Rule
	for _, id := range slices.Sorted(maps.Keys(m.rules[namespaceID])) {
		if r := m.rules[namespaceID][id]; !r.Deleted {
			out = append(out, policyRule(r.Rule))
		}
	}
	return out
}

func policyRule(r tenant.Rule) policy.Rule {
	out := policy.Rule{ID: r.ID, Deny: r.Effect == tenant.EffectDeny, Principal: r.Principal, Resource: string(r.Resource), Pattern: r.Pattern, ExpiresAt: r.ExpiresAt}
	for _, op := range r.Operations {
		out.Operations = append(out.Operations, string(op))
	}
	for _, c := range r.CIDRs {
		out.CIDRs = append(out.CIDRs, c.String())
	}
	return out
}

func policyKey(k catalog.DesiredKey) policy.Key {
	p := policy.Key{Secret: k.Secret, TenantID: k.TenantID, OwnerID: k.OwnerID, Revoked: k.State == tenant.KeyRevoked, Disabled: k.State == tenant.KeyDisabled, ExpiresAt: k.ExpiresAt}
	for _, c := range k.AllowedCIDRs {
		p.AllowedCIDRs = append(p.AllowedCIDRs, c.String())
	}
	for _, s := range k.Scopes {
		scope := policy.Scope{NamespaceID: s.NamespaceID, Topics: orAll(s.Topics), Groups: orAll(s.Groups), ExpiresAt: s.ExpiresAt}
		for _, c := range s.CIDRs {
			scope.CIDRs = append(scope.CIDRs, c.String())
		}
		for _, permission := range s.Permissions {
			scope.Permissions = append(scope.Permissions, string(permission))
		}
		p.Scopes = append(p.Scopes, scope)
	}
	return p
}

// orAll spells out what an empty list of patterns means in a scope.
func orAll(patterns []string) []string {
	if len(patterns) == 0 {
		return []string{"*"}
	}
	return patterns
}

// tokenKeys reads the keys of a JSON Web Key Set that brokers accept: Ed25519
// (RFC 8037) and RSA for RS256.
func tokenKeys(jwks []byte) []policy.TokenKey {
	var set struct {
		Keys []struct {
			KID   string `json:"kid"`
			Type  string `json:"kty"`
			Curve string `json:"crv"`
			X     string `json:"x"`
			N     string `json:"n"`
			E     string `json:"e"`
		} `json:"keys"`
	}
	if json.Unmarshal(jwks, &set) != nil {
		return nil
	}
	decode := func(text string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			return nil
		}
		return b
	}
	var out []policy.TokenKey
	for _, k := range set.Keys {
		switch {
		case k.Type == "OKP" && k.Curve == "Ed25519" && len(decode(k.X)) == ed25519.PublicKeySize:
			out = append(out, policy.TokenKey{KID: k.KID, Public: decode(k.X)})
		case k.Type == "RSA" && len(decode(k.N)) > 0 && len(decode(k.E)) > 0 && len(decode(k.E)) <= 4:
			public := rsa.PublicKey{N: new(big.Int).SetBytes(decode(k.N)), E: int(new(big.Int).SetBytes(decode(k.E)).Int64())}
			out = append(out, policy.TokenKey{KID: k.KID, Algorithm: policy.AlgorithmRS256, Public: x509.MarshalPKCS1PublicKey(&public)})
		}
	}
	slices.SortFunc(out, func(a, b policy.TokenKey) int { return strings.Compare(a.KID, b.KID) })
	return out
}

// revokedTokens reads the tokens that were revoked from what goes with the key
// set.
func revokedTokens(jwks []byte) map[string]int64 {
	var set struct {
		Revoked map[string]int64 `json:"revoked"`
	}
	if json.Unmarshal(jwks, &set) != nil || len(set.Revoked) == 0 {
		return nil
	}
	return set.Revoked
}

// diff returns the step from old to new, nil when there is none.
func diff(old, new *policy.Snapshot) *policy.Delta {
	d := &policy.Delta{}
	changed := false
	if old.Issuer != new.Issuer {
		d.Issuer, changed = &new.Issuer, true
	}
	if !reflect.DeepEqual(old.Tokens, new.Tokens) {
		d.Tokens, changed = &new.Tokens, true
	}
	d.Keys, d.DropKeys = diffMap(old.Keys, new.Keys)
	d.Namespaces, d.DropNamespaces = diffMap(old.Namespaces, new.Namespaces)
	d.Revoked, d.DropRevoked = diffMap(old.Revoked, new.Revoked)
	if !changed && len(d.Revoked)+len(d.DropRevoked)+len(d.Keys)+len(d.DropKeys)+len(d.Namespaces)+len(d.DropNamespaces) == 0 {
		return nil
	}
	return d
}

func diffMap[V any](old, new map[string]V) (put map[string]V, drop []string) {
	put = map[string]V{}
	for id, v := range new {
		if o, ok := old[id]; !ok || !reflect.DeepEqual(o, v) {
			put[id] = v
		}
	}
	for id := range old {
		if _, ok := new[id]; !ok {
			drop = append(drop, id)
		}
	}
	slices.Sort(drop)
	return put, drop
}
