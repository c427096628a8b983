package tenant

import (
	"fmt"
	"net/netip"
	"regexp"
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
// all; a pattern is a name or a prefix that ends with `*`.
type Scope struct {
	NamespaceID ID           `json:"namespace_id"`
	Permissions []Permission `json:"permissions"`
	Topics      []string     `json:"topics,omitempty"`
	Groups      []string     `json:"groups,omitempty"`
}

// APIKey is a credential of a member or a service account.
type APIKey struct {
	TenantID     ID
	ID           ID
	OwnerID      ID // usr_… or sa_…
	Name         string
	Description  string
	Scopes       []Scope
	ControlRole  Role // role on the control plane; empty means none
	AllowedCIDRs []netip.Prefix
	Disabled     bool
	ExpiresAt    *time.Time
	RevokedAt    *time.Time
	LastUsedAt   *time.Time
	Replaces     ID     // key that a rotation made this one from
	ReplacedBy   ID     // key that a rotation made from this one
	Hint         string // last 4 characters of the secret
	Sealed       []byte // the secret, sealed by the tenant's data key
	Status       Status
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Revision     int64
}

// State tells what the key is at now.
func (k *APIKey) State(now time.Time) KeyState {
	switch {
	case k.RevokedAt != nil || k.Status.Phase == PhaseDeleting:
		return KeyRevoked
	case k.ExpiresAt != nil && !now.Before(*k.ExpiresAt):
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
	seen := map[ID]bool{}
	for i, s := range scopes {
		at := fmt.Sprintf("scopes[%d]", i)
		if s.NamespaceID == "" {
			return errs.Field(at+".namespace_id", "a scope names one namespace")
		}
		if seen[s.NamespaceID] {
			return errs.Field(at+".namespace_id", "namespace %q has two scopes; merge them", s.NamespaceID)
		}
		seen[s.NamespaceID] = true
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

func validatePatterns(field string, patterns []string) error {
	if len(patterns) > maxPatterns {
		e := errs.Field(field, "at most %d patterns", maxPatterns)
		e.Limit = fmt.Sprint(maxPatterns)
		return e
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
		e := errs.Field(field, "at most %d networks", maxCIDRs)
		e.Limit = fmt.Sprint(maxCIDRs)
		return nil, e
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
