package tenant

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// KeyState of an API key.
type KeyState string

// The states of a key. Only an active key is let in.
const (
	KeyActive   KeyState = "active"
	KeyDisabled KeyState = "disabled"
	KeyExpired  KeyState = "expired"
	KeyRevoked  KeyState = "revoked"
)

// KeyLeaked is why a key was revoked whose secret was found in public.
const KeyLeaked = "leaked"

// KeyUse is what a key was used for.
type KeyUse struct {
	At        time.Time
	Address   string
	Operation string // of the API: an operationId; on the message path: PUB, SUB, MANAGE or DESCRIBE
	Topic     string // bare; on the message path, where there was one
}

// Permission on the message path.
type Permission string

// The permissions of a scope.
const (
	PermissionPub      Permission = "PUB"
	PermissionSub      Permission = "SUB"
	PermissionManage   Permission = "MANAGE"
	PermissionDescribe Permission = "DESCRIBE"
)

// Valid reports whether p is one of the four permissions.
func (p Permission) Valid() bool {
	switch p {
	case PermissionPub, PermissionSub, PermissionManage, PermissionDescribe:
		return true
	}
	return false
}

// Scope says what a key may do in one namespace. Empty Topics or Groups mean
// all; a pattern is a name or a prefix that ends with `*`. It holds for callers
// at CIDRs (empty: all that the key allows) and is void from ExpiresAt on.
type Scope struct {
	NamespaceID ID             `json:"namespace_id"`
	Permissions []Permission   `json:"permissions"`
	Topics      []string       `json:"topics,omitempty"`
	Groups      []string       `json:"groups,omitempty"`
	CIDRs       []netip.Prefix `json:"cidrs,omitempty"`
	ExpiresAt   *time.Time     `json:"expires_at,omitempty"`
}

// APIKey is a credential of a member or a service account.
type APIKey struct {
	TenantID      ID
	ID            ID
	OwnerID       ID // usr_… or sa_…
	Name          string
	Description   string
	Scopes        []Scope
	ControlRole   Role // role on the control plane; empty means none
	AllowedCIDRs  []netip.Prefix
	Disabled      bool
	ExpiresAt     *time.Time    // as its owner set it; see Ends
	MaxAge        time.Duration // what the tenant demanded when the key was read; 0: no limit
	RevokedAt     *time.Time
	RevokedReason string // KeyLeaked, or empty
	LastUsedAt    *time.Time
	LastUse       KeyUse // what goes with LastUsedAt
	Replaces      ID     // key that a rotation made this one from
	ReplacedBy    ID     // key that a rotation made from this one
	Hint          string // last 4 characters of the secret
	Sealed        []byte // the secret, sealed by the tenant's data key
	Fingerprint   []byte // of the secret, by Keyring.Fingerprint
	WorkloadID    ID     // workload identity that manages the key, whose secret nobody knows; empty: none
	Status        Status
	CreatedAt     time.Time
	UpdatedAt     time.Time
	Revision      int64
}

// Ends is when the key stops working: what its owner set, or earlier the
// greatest age that its tenant allows; nil: never.
func (k *APIKey) Ends() *time.Time {
	if k.MaxAge <= 0 {
		return k.ExpiresAt
	}
	end := k.CreatedAt.Add(k.MaxAge)
	if k.ExpiresAt != nil && k.ExpiresAt.Before(end) {
		return k.ExpiresAt
	}
	return &end
}

// State tells what the key is at now.
func (k *APIKey) State(now time.Time) KeyState {
	end := k.Ends()
	switch {
	case k.RevokedAt != nil || k.Status.Phase == PhaseDeleting:
		return KeyRevoked
	case end != nil && !now.Before(*end):
		return KeyExpired
	case k.Disabled:
		return KeyDisabled
	}
	return KeyActive
}

// AllowsAddress reports whether addr is in the key's allow-list; an empty
// list allows all.
func (k *APIKey) AllowsAddress(addr netip.Addr) bool {
	if len(k.AllowedCIDRs) == 0 {
		return true
	}
	addr = addr.Unmap()
	for _, p := range k.AllowedCIDRs {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// MatchPattern reports whether name fits pattern (a name, or a prefix ending
// with `*`).
func MatchPattern(pattern, name string) bool {
	if n := len(pattern); n > 0 && pattern[n-1] == '*' {
		return len(name) >= n-1 && name[:n-1] == pattern[:n-1]
	}
	return pattern == name
}

var patternForm = regexp.MustCompile(`^(\*|[A-Za-z0-9_-]{1,100}\*?)$`)

const (
	maxScopes   = 50
	maxPatterns = 100
	maxCIDRs    = 50
)

func validateScopes(scopes []Scope) error {
	if len(scopes) > maxScopes {
		e := errs.Field("scopes", "a key takes at most %d scopes", maxScopes)
		e.Limit = fmt.Sprint(maxScopes)
		return e
	}
	for i, s := range scopes {
		at := fmt.Sprintf("scopes[%d]", i)
		if s.NamespaceID == "" {
			return errs.Field(at+".namespace_id", "a scope names one namespace")
		}
		if slices.ContainsFunc(scopes[:i], s.alike) {
			return errs.Field(at+".namespace_id", "namespace %q has two scopes for the same addresses and time; merge them", s.NamespaceID)
		}
		if len(s.CIDRs) > maxCIDRs {
			return limited(at+".cidrs", maxCIDRs, "networks")
		}
		if len(s.Permissions) == 0 {
			return errs.Field(at+".permissions", "a scope needs at least one of PUB, SUB, MANAGE, DESCRIBE")
		}
		for j, p := range s.Permissions {
			if !p.Valid() {
				return errs.Field(fmt.Sprintf("%s.permissions[%d]", at, j), "unknown permission %q; use PUB, SUB, MANAGE, DESCRIBE", p)
			}
		}
		if err := validatePatterns(at+".topics", s.Topics); err != nil {
			return err
		}
		if err := validatePatterns(at+".groups", s.Groups); err != nil {
			return err
		}
	}
	return nil
}

// alike reports whether two scopes could be one.
func (s Scope) alike(o Scope) bool {
	return s.NamespaceID == o.NamespaceID && slices.Equal(s.CIDRs, o.CIDRs) &&
		(s.ExpiresAt == nil) == (o.ExpiresAt == nil) && (s.ExpiresAt == nil || s.ExpiresAt.Equal(*o.ExpiresAt))
}

func limited(field string, most int, what string) error {
	e := errs.Field(field, "at most %d %s", most, what)
	e.Limit = fmt.Sprint(most)
	return e
}

func validatePatterns(field string, patterns []string) error {
	if len(patterns) > maxPatterns {
		return limited(field, maxPatterns, "patterns")
	}
	for i, p := range patterns {
		if !patternForm.MatchString(p) {
			return errs.Field(fmt.Sprintf("%s[%d]", field, i), "pattern %q: use a name, or a prefix that ends with *", p)
		}
	}
	return nil
}

// ParseCIDRs turns addresses and networks into prefixes; a bare address is a
// network of one.
func ParseCIDRs(field string, list []string) ([]netip.Prefix, error) {
	if len(list) > maxCIDRs {
		return nil, limited(field, maxCIDRs, "networks")
	}
	out := make([]netip.Prefix, 0, len(list))
	for i, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, aerr := netip.ParseAddr(s)
			if aerr != nil {
				return nil, errs.Field(fmt.Sprintf("%s[%d]", field, i), "%q is neither an address nor a network such as 10.0.0.0/8", s)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
