package policy

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" // the algorithm that RocketMQ's ACL defines; as a MAC it is not broken
	hashes "hash"
	"net/netip"
	"sync"
	"time"
)

// SystemKeyID is the access key of Sluice's own calls: the control plane's
// instructions and the broker's registration.
const SystemKeyID = "sluice-system"

// Principal is an authenticated caller: an API key (or a token made from one),
// or the system. It is immutable.
type Principal struct {
	engine   *Engine
	id       string
	secret   []byte
	tenant   string
	owner    string
	system   bool
	revoked  bool
	disabled bool
	expires  *time.Time
	cidrs    []netip.Prefix
	scopes   []scope
	use      *lastUse   // nil for the system
	macs     *sync.Pool // of *mac; nil keeps none
	rights   *rights    // nil for the system

	token   *Principal // set for a token: the key that it was made from
	tokenID string
}

// rights stand for all of a key but its end: a principal that took the place of
// another one with the same rights lets in whom that let in.
type rights struct{ _ byte } // of a size, so that each has an address of its own

// System reports whether the caller is Sluice itself. It sees physical names
// and may do everything.
func (p *Principal) System() bool { return p.system }

// KeyID returns the API key's id, also for a token made from it.
func (p *Principal) KeyID() string { return p.id }

// TenantID returns the tenant that pays; "" for the system.
func (p *Principal) TenantID() string { return p.tenant }

// Live reports whether the caller would still be let in: false once the key
// was revoked, disabled, or changed in another way than its end, or its time is
// over. A key that was rotated with a grace period goes on until that is over,
// on open connections, too. Long polls and open connections ask again when the
// policy changed.
func (p *Principal) Live() bool {
	if p.system {
		return true
	}
	current := p.engine.current.Load()
	if p.token != nil {
		if _, revoked := current.snapshot.Revoked[p.tokenID]; revoked || p.ended() {
			return false
		}
	}
	now := current.principals[p.id]
	return now != nil && now.rights == p.rights && !now.revoked && !now.disabled && !now.ended()
}

// ended reports whether the time of the key, or of the token, is over.
func (p *Principal) ended() bool {
	return p.expires != nil && !p.engine.cfg.Now().Before(*p.expires)
}

// admit checks what may be told only to a caller who proved the secret.
func (p *Principal) admit(remote netip.Addr) *Refusal {
	if p.system {
		return nil
	}
	var r *Refusal
	switch {
	case p.revoked:
		r = refuse(CodeKeyRevoked, "the API key %s was revoked: use another key", p.id)
	case p.disabled:
		r = refuse(CodeKeyDisabled, "the API key %s or its service account is disabled: enable it or use another key", p.id)
	case p.ended():
		r = refuse(CodeKeyExpired, "the API key %s expired at %s: rotate it or create another one", p.id, p.expires.UTC().Format(time.RFC3339))
	case !within(p.cidrs, remote):
		r = refuse(CodeAddressNotAllowed, "address %s is not in the allowed_cidrs of the API key %s", remote.Unmap(), p.id)
	default:
		return nil
	}
	return r.by(p, nil, DeniedConnect, kindKey, p.id)
}

// mac returns the HMAC-SHA1 of the parts under the key's secret.
func (p *Principal) mac(parts ...[]byte) []byte {
	m := p.takeMAC()
	defer p.giveMAC(m)
	return bytes.Clone(m.sum(parts...))
}

// mac is the reusable memory of one signature check: a keyed hash, which costs
// more to make than to use, and what is signed.
type mac struct {
	hash    hashes.Hash
	content []byte
	out     [sha1.Size]byte
}

// keepContent is the largest memory of signed content that is kept.
const keepContent = 4 << 10

func (p *Principal) takeMAC() *mac {
	if p.macs != nil {
		if m, ok := p.macs.Get().(*mac); ok {
			return m
		}
	}
	return &mac{hash: hmac.New(sha1.New, p.secret)}
}

func (p *Principal) giveMAC(m *mac) {
	if cap(m.content) > keepContent {
		m.content = nil
	}
	if p.macs != nil {
		p.macs.Put(m)
	}
}

// sum is valid until the next call.
func (m *mac) sum(parts ...[]byte) []byte {
	m.hash.Reset()
	for _, part := range parts {
		m.hash.Write(part)
	}
	return m.hash.Sum(m.out[:0])
}

// errUnauthenticated is one answer for "no credential", "unknown key" and
// "wrong signature", so that nobody learns which keys exist.
func errUnauthenticated() *Refusal {
	return refuse(CodeUnauthenticated, "the access key or its signature is wrong or missing: sign with the id and secret of an API key")
}

// find returns the principal for a key id. For an unknown key it returns one
// that no signature satisfies, so that the answer takes as long.
func (e *Engine) find(keyID string) *Principal {
	if keyID == SystemKeyID {
		return e.system
	}
	if p := e.current.Load().principals[keyID]; p != nil {
		return p
	}
	return e.nobody
}

// known reports whether find met a real key. One without a secret (its owner
// may no longer sign) cannot be used by signing with an empty one.
func (p *Principal) known() bool { return p.id != "" && len(p.secret) > 0 }
