package tenant

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// KeyCreate is a new API key.
type KeyCreate struct {
	OwnerID      ID
	Name         string
	Description  string
	Scopes       []Scope
	ControlRole  Role
	ExpiresAt    *time.Time
	AllowedCIDRs []netip.Prefix
	Secret       string // brought by the owner; empty: one is made
}

// KeyRotate is how a key is replaced.
type KeyRotate struct {
	Grace     time.Duration // how long the old key goes on working
	ExpiresAt *time.Time    // of the new key; nil: none, or as late as the tenant allows
	Secret    string        // of the new key, brought by the owner; empty: one is made
}

// KeyUpdate is what to change of a key; nil means as it is.
type KeyUpdate struct {
	Name         *string
	Description  *string
	Scopes       *[]Scope
	AllowedCIDRs *[]netip.Prefix
	ExpiresAt    **time.Time // points to nil: never
	Disabled     *bool
}

// CreateKey makes an API key. The secret is returned here and never again, and
// not at all when the owner brought it.
func (s *Service) CreateKey(ctx context.Context, tenantID ID, in KeyCreate) (key APIKey, secret string, err error) {
	now := s.time()
	k := APIKey{TenantID: tenantID, ID: NewKeyID(), OwnerID: in.OwnerID, Name: in.Name, Description: in.Description,
		Scopes: in.Scopes, ControlRole: in.ControlRole, ExpiresAt: in.ExpiresAt, AllowedCIDRs: in.AllowedCIDRs,
		CreatedAt: now, UpdatedAt: now, Revision: 1, Status: Status{Phase: PhasePending}}
	err = s.store.InTx(ctx, func(ctx context.Context) error {
		for i, sc := range k.Scopes {
			if sc.ExpiresAt != nil && !sc.ExpiresAt.After(now) {
				return errs.Field(fmt.Sprintf("scopes[%d].expires_at", i), "expires_at lies in the past")
			}
		}
		k, secret, err = s.createKey(ctx, k, in.Secret)
		return err
	})
	return k, secret, err
}

// createKey makes k with a secret that its owner brought, or with a fresh one,
// which it returns.
func (s *Service) createKey(ctx context.Context, k APIKey, brought string) (APIKey, string, error) {
	t, err := s.store.Tenant(ctx, k.TenantID)
	if err != nil {
		return k, "", err
	}
	if err := active(t); err != nil {
		return k, "", err
	}
	if k.WorkloadID == "" { // else there is no secret that could grow old
		k.MaxAge = t.Security.MaxKeyAge
	}
	if err := s.checkKey(ctx, k); err != nil {
		return k, "", err
	}
	if err := checkAge(k); err != nil {
		return k, "", err
	}
	if len(k.Scopes) == 0 && k.ControlRole == "" {
		return k, "", errs.Field("scopes", "a key needs at least one scope or a control_role")
	}
	if err := s.reserve(ctx, t, "", QuotaAPIKeys); err != nil {
		return k, "", err
	}
	box, err := s.keyring.Box(t.ID, t.DataKey)
	if err != nil {
		return k, "", err
	}
	secret := brought
	if brought == "" {
		secret = NewSecret()
		if k.WorkloadID == "" {
			k.Hint = secret[len(secret)-4:]
		}
	} else if err := CheckSecret("secret", brought); err != nil {
		return k, "", err
	}
	k.Sealed, k.Fingerprint = box.Seal(k.ID, secret), s.keyring.Fingerprint(secret)
	if err := s.store.CreateKey(ctx, k); err != nil {
		return k, "", err
	}
	if brought != "" {
		secret = ""
	}
	return k, secret, s.changed(ctx, keyChange(k))
}

// checkAge holds a key to the greatest age that its tenant allows.
func checkAge(k APIKey) error {
	if k.MaxAge <= 0 || k.ExpiresAt != nil && !k.ExpiresAt.After(k.CreatedAt.Add(k.MaxAge)) {
		return nil
	}
	e := errs.Field("expires_at", "this tenant lets API keys live %s at most: set expires_at to %s or earlier",
		hours(k.MaxAge), k.CreatedAt.Add(k.MaxAge).Format(time.RFC3339)).WithReason("key_age")
	e.Limit = hours(k.MaxAge)
	return e
}

func keyChange(k APIKey) Change {
	return Change{TenantID: k.TenantID, Kind: kindKey, ID: k.ID, Revision: k.Revision}
}

// Key returns one key.
func (s *Service) Key(ctx context.Context, tenantID, id ID) (APIKey, error) {
	return s.store.Key(ctx, tenantID, id)
}

// Keys lists keys.
func (s *Service) Keys(ctx context.Context, tenantID ID, f KeyFilter, p Page) ([]APIKey, error) {
	f.Now = s.time()
	if f.State != "" { // whether a key has expired hangs on the tenant, too
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return nil, err
		}
		f.MaxAge = t.Security.MaxKeyAge
	}
	return s.store.Keys(ctx, tenantID, f, p)
}

// UpdateKey changes a key.
func (s *Service) UpdateKey(ctx context.Context, tenantID, id ID, u KeyUpdate, want int64) (APIKey, error) {
	return s.changeKey(ctx, tenantID, id, want, func(ctx context.Context, k *APIKey) error {
		if err := managed(*k); err != nil {
			return err
		}
		if k.RevokedAt != nil {
			return errs.E(errs.Conflict, "key %s is revoked for ever; make another", id).WithReason("key_revoked")
		}
		set(&k.Name, u.Name)
		set(&k.Description, u.Description)
		set(&k.Scopes, u.Scopes)
		set(&k.AllowedCIDRs, u.AllowedCIDRs)
		set(&k.ExpiresAt, u.ExpiresAt)
		set(&k.Disabled, u.Disabled)
		return s.checkKeyChange(ctx, *k, u)
	})
}

func (s *Service) checkKeyChange(ctx context.Context, k APIKey, u KeyUpdate) error {
	if u.ExpiresAt == nil {
		k.ExpiresAt = nil // not changed: it may lie in the past by now
	} else if err := checkAge(k); err != nil {
		return err
	}
	return s.checkKey(ctx, k)
}

// RevokeKey ends a key for ever. Doing it again changes nothing.
func (s *Service) RevokeKey(ctx context.Context, tenantID, id ID, want int64) (APIKey, error) {
	k, err := s.store.Key(ctx, tenantID, id)
	if err != nil {
		return k, err
	}
	if k.RevokedAt != nil {
		return k, CheckRevision(want, k.Revision)
	}
	if err := managed(k); err != nil {
		return k, err
	}
	return s.changeKey(ctx, tenantID, id, want, func(_ context.Context, k *APIKey) error {
		if k.RevokedAt == nil {
			now := s.time()
			k.RevokedAt = &now
		}
		return nil
	})
}

// RotateKey makes a new key with the same owner, scopes and limits; the old
// one works for in.Grace longer. The secret is returned as by CreateKey.
func (s *Service) RotateKey(ctx context.Context, tenantID, id ID, in KeyRotate, want int64) (key APIKey, secret string, err error) {
	err = s.store.InTx(ctx, func(ctx context.Context) error {
		now := s.time()
		old, err := s.store.Key(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, old.Revision); err != nil {
			return err
		}
		if err := managed(old); err != nil {
			return err
		}
		if state := old.State(now); state == KeyRevoked || state == KeyExpired || old.ReplacedBy != "" {
			return errs.E(errs.Conflict, "key %s was revoked, has expired or was rotated before", id).WithReason("key_not_active")
		}
		fresh := old
		fresh.ID, fresh.Replaces, fresh.ReplacedBy, fresh.LastUsedAt = NewKeyID(), old.ID, "", nil
		fresh.LastUse = KeyUse{}
		fresh.ExpiresAt, fresh.Status, fresh.Hint = in.ExpiresAt, Status{Phase: PhasePending}, ""
		fresh.CreatedAt, fresh.UpdatedAt, fresh.Revision = now, now, 1
		if in.ExpiresAt == nil && old.ExpiresAt != nil {
			end := now.Add(old.ExpiresAt.Sub(old.CreatedAt))
			fresh.ExpiresAt = &end
		}
		if in.ExpiresAt == nil {
			fresh.ExpiresAt = fresh.Ends()
		}
		if in.Secret != "" {
			if have, err := s.KeySecret(ctx, old); err != nil {
				return err
			} else if subtle.ConstantTimeCompare([]byte(have), []byte(in.Secret)) == 1 {
				return errs.Field("secret", "this is the secret of the key that is to be replaced; bring another")
			}
		}
		if key, secret, err = s.createKey(ctx, fresh, in.Secret); err != nil {
			return err
		}
		end := now.Add(in.Grace)
		if old.ExpiresAt == nil || end.Before(*old.ExpiresAt) {
			old.ExpiresAt = &end
		}
		if in.Grace == 0 {
			old.RevokedAt = &now
		}
		old.ReplacedBy = key.ID
		return s.touchKey(ctx, old)
	})
	return key, secret, err
}

// DeleteKey revokes a key and forgets it.
func (s *Service) DeleteKey(ctx context.Context, tenantID, id ID, want int64) (APIKey, error) {
	var out APIKey
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		k, err := s.store.Key(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, k.Revision); err != nil {
			return err
		}
		if err := managed(k); err != nil {
			return err
		}
		out = k
		out.Revision++
		return s.deleteKey(ctx, t, k)
	})
	return out, err
}

func (s *Service) deleteKey(ctx context.Context, t Tenant, k APIKey) error {
	if k.RevokedAt == nil {
		now := s.time()
		k.RevokedAt = &now
	}
	k.Status.Phase = PhaseDeleting
	if err := s.writeKey(ctx, k); err != nil {
		return err
	}
	return Release(ctx, s.store, t, "", QuotaAPIKeys)
}

// changeKey reads, changes and writes a key in one transaction.
func (s *Service) changeKey(ctx context.Context, tenantID, id ID, want int64, change func(context.Context, *APIKey) error) (APIKey, error) {
	var out APIKey
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		k, err := s.store.Key(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, k.Revision); err != nil {
			return err
		}
		if err := change(ctx, &k); err != nil {
			return err
		}
		if err := s.touchKey(ctx, k); err != nil {
			return err
		}
		out, err = s.store.Key(ctx, tenantID, id)
		return err
	})
	return out, err
}

// touchKey writes a key with the next revision and tells brokers.
func (s *Service) touchKey(ctx context.Context, k APIKey) error {
	k.Status.Phase, k.Status.Reason = PhasePending, ""
	return s.writeKey(ctx, k)
}

func (s *Service) writeKey(ctx context.Context, k APIKey) error {
	k.UpdatedAt, k.Revision = s.time(), k.Revision+1
	if err := s.store.UpdateKey(ctx, k); err != nil {
		return err
	}
	return s.changed(ctx, keyChange(k))
}

func (s *Service) checkKey(ctx context.Context, k APIKey) error {
	if err := CheckName("name", k.Name); err != nil {
		return err
	}
	if err := CheckDescription(k.Description); err != nil {
		return err
	}
	if k.ControlRole != "" && (!k.ControlRole.Valid() || k.ControlRole == RoleOwner || k.ControlRole == RoleNone) {
		return errs.Field("control_role", "a key cannot have the role %q; use admin, developer, viewer or billing", k.ControlRole)
	}
	if k.ExpiresAt != nil && !k.ExpiresAt.After(s.time()) {
		return errs.Field("expires_at", "expires_at lies in the past")
	}
	if err := validateScopes(k.Scopes); err != nil {
		return err
	}
	if err := s.checkOwner(ctx, "owner_id", k.TenantID, k.OwnerID); err != nil {
		return err
	}
	for i, sc := range k.Scopes {
		if _, err := s.store.Namespace(ctx, k.TenantID, sc.NamespaceID); err != nil {
			return missing(err, fmt.Sprintf("scopes[%d].namespace_id", i), "namespace %q does not exist", sc.NamespaceID)
		}
	}
	return nil
}

func (s *Service) checkOwner(ctx context.Context, field string, tenantID, ownerID ID) error {
	var err error
	if strings.HasPrefix(ownerID, PrefixServiceAccount) {
		_, err = s.store.ServiceAccount(ctx, tenantID, ownerID)
	} else {
		_, err = s.store.Member(ctx, tenantID, ownerID)
	}
	return missing(err, field, "%q is no member and no service account of this tenant", ownerID)
}

// KeySecret opens the secret of a key for checking it.
func (s *Service) KeySecret(ctx context.Context, k APIKey) (string, error) {
	t, err := s.store.Tenant(ctx, k.TenantID)
	if err != nil {
		return "", err
	}
	box, err := s.keyring.Box(t.ID, t.DataKey)
	if err != nil {
		return "", err
	}
	return box.Open(k.ID, k.Sealed)
}

// KeyByID finds a key of any tenant: for authentication only.
func (s *Service) KeyByID(ctx context.Context, id ID) (APIKey, error) {
	return s.store.KeyByID(ctx, id)
}

// KeyAndState returns a key with what brokers make of it and its owner together.
func (s *Service) KeyAndState(ctx context.Context, tenantID, id ID) (APIKey, KeyState, error) {
	k, err := s.store.Key(ctx, tenantID, id)
	if err != nil {
		return k, "", missing(err, "principal", "API key %q does not exist", id)
	}
	state := k.State(s.time())
	if state == KeyActive && strings.HasPrefix(k.OwnerID, PrefixServiceAccount) {
		a, err := s.store.ServiceAccount(ctx, tenantID, k.OwnerID)
		if err != nil {
			return k, "", err
		}
		if a.Disabled {
			state = KeyDisabled
		}
	}
	return k, state, nil
}

// usedEvery bounds how often the last use of a key is written.
const usedEvery = time.Minute

// KeyUsed notes that a key was used on the API; at most once a minute it is
// written.
func (s *Service) KeyUsed(ctx context.Context, k APIKey, use KeyUse) error {
	use.At = s.time()
	if k.LastUsedAt != nil && use.At.Sub(*k.LastUsedAt) < usedEvery {
		return nil
	}
	return s.store.TouchKey(ctx, k.TenantID, k.ID, use)
}

// missing turns NotFound of something that an input names into Invalid.
func missing(err error, field, format string, args ...any) error {
	if !errs.Is(err, errs.NotFound) {
		return err
	}
	return errs.Field(field, format, args...)
}
