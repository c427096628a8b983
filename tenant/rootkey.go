package tenant

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// RootKey is the stored form of a root key.
type RootKey struct {
	ID        string // RootDerive, RootOld, or 16 hexadecimal digits
	MasterID  string // KMS.KeyID of what wrapped it
	Wrapped   []byte
	CreatedAt time.Time
}

// The root keys with a name.
const (
	RootDerive = "derive" // source of derived keys; for ever the same
	RootOld    = "old"    // the master key of an installation from before there were root keys
)

// RootStore keeps root keys.
type RootStore interface {
	InTx(ctx context.Context, fn func(ctx context.Context) error) error
	// LockChanges makes transactions of all replicas that call it take turns.
	LockChanges(ctx context.Context) error
	RootKeys(ctx context.Context) ([]RootKey, error) // by CreatedAt, then ID
	AddRootKey(ctx context.Context, k RootKey) error
	// RewrapRootKey replaces the wrapped form of one.
	RewrapRootKey(ctx context.Context, k RootKey) error
	// OldSealed returns a value that the master key itself sealed, and its
	// purpose; NotFound in a database that has none.
	OldSealed(ctx context.Context) (purpose string, sealed []byte, err error)
}

// ErrWrongMasterKey is returned when none of the master keys opens what the
// database holds.
var ErrWrongMasterKey = errors.New("no master key opens what the database holds")

// OpenKeyring reads the root keys, or makes the first ones. The first master is
// the one in force, the rest only open. What another one wrapped is wrapped
// anew by the first, and a new root key then seals from here on; once that is
// done nothing needs the others. changed tells so.
func OpenKeyring(ctx context.Context, store RootStore, masters []KMS, now func() time.Time) (k *Keyring, changed bool, err error) {
	if len(masters) == 0 {
		return nil, false, errors.New("master key: none is configured")
	}
	o := &rootOpener{store: store, masters: masters, now: now}
	err = store.InTx(ctx, func(ctx context.Context) error {
		changed = false
		if err := store.LockChanges(ctx); err != nil {
			return err
		}
		list, err := store.RootKeys(ctx)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			if err := o.begin(ctx); err != nil {
				return err
			}
		} else if changed, err = o.rewrap(ctx, list); err != nil {
			return err
		}
		if list, err = store.RootKeys(ctx); err != nil {
			return err
		}
		k, err = o.keyring(ctx, list)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("open root keys: %w", err)
	}
	k.reload = func() error { return o.reload(context.WithoutCancel(ctx), k) }
	return k, changed, nil
}

type rootOpener struct {
	store   RootStore
	masters []KMS
	now     func() time.Time
}

func randomKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key)
	return key
}

// begin makes the first root keys. Where the master key itself sealed before,
// it stays as the root key of the old values and as source of derived keys.
func (o *rootOpener) begin(ctx context.Context) error {
	derive := randomKey()
	purpose, sealed, err := o.store.OldSealed(ctx)
	switch {
	case err == nil:
		if derive = o.opens(purpose, sealed); derive == nil {
			return ErrWrongMasterKey
		}
		if err := o.add(ctx, RootOld, derive); err != nil {
			return err
		}
	case !errs.Is(err, errs.NotFound):
		return err
	}
	if err := o.add(ctx, RootDerive, derive); err != nil {
		return err
	}
	return o.addFresh(ctx)
}

// opens finds the master key that sealed a value of an old installation.
func (o *rootOpener) opens(purpose string, sealed []byte) []byte {
	for _, m := range o.masters {
		if l, ok := m.(*LocalKey); ok {
			if _, err := open(l.aead, purpose, sealed); err == nil {
				return l.key
			}
		}
	}
	return nil
}

func (o *rootOpener) addFresh(ctx context.Context) error {
	id := make([]byte, rootIDSize)
	_, _ = rand.Read(id)
	return o.add(ctx, hex.EncodeToString(id), randomKey())
}

func (o *rootOpener) add(ctx context.Context, id string, key []byte) error {
	m := o.masters[0]
	wrapped, err := m.Wrap(ctx, rootPlain(id, key))
	if err != nil {
		return err
	}
	return o.store.AddRootKey(ctx, RootKey{ID: id, MasterID: m.KeyID(), Wrapped: wrapped, CreatedAt: o.now().UTC()})
}

// rootPlain is what is wrapped: the id goes along, so that rows cannot be
// swapped.
func rootPlain(id string, key []byte) []byte { return append(key[:keySize:keySize], id...) }

func (o *rootOpener) unwrap(ctx context.Context, r RootKey) ([]byte, error) {
	at := slices.IndexFunc(o.masters, func(m KMS) bool { return m.KeyID() == r.MasterID })
	if at < 0 {
		return nil, fmt.Errorf("%w: root key %s was wrapped by the master key %s, which is not configured", ErrWrongMasterKey, r.ID, r.MasterID)
	}
	plain, err := o.masters[at].Unwrap(ctx, r.Wrapped)
	if err != nil {
		return nil, fmt.Errorf("unwrap root key %s: %w", r.ID, err)
	}
	if len(plain) < keySize || string(plain[keySize:]) != r.ID {
		return nil, fmt.Errorf("root key %s: %w", r.ID, errSealedForm)
	}
	return plain[:keySize], nil
}

// rewrap wraps by the first master what another one wrapped.
func (o *rootOpener) rewrap(ctx context.Context, list []RootKey) (changed bool, err error) {
	m := o.masters[0]
	for _, r := range list {
		if r.MasterID == m.KeyID() {
			continue
		}
		key, err := o.unwrap(ctx, r)
		if err != nil {
			return false, err
		}
		if r.Wrapped, err = m.Wrap(ctx, rootPlain(r.ID, key)); err != nil {
			return false, err
		}
		r.MasterID, changed = m.KeyID(), true
		if err := o.store.RewrapRootKey(ctx, r); err != nil {
			return false, err
		}
	}
	if changed {
		return true, o.addFresh(ctx)
	}
	return false, nil
}

func (o *rootOpener) keyring(ctx context.Context, list []RootKey) (*Keyring, error) {
	k := &Keyring{roots: map[string]cipher.AEAD{}}
	for _, r := range list {
		key, err := o.unwrap(ctx, r)
		if err != nil {
			return nil, err
		}
		aead, err := newAEAD(key)
		if err != nil {
			return nil, err
		}
		switch r.ID {
		case RootDerive:
			k.derive = bytes.Clone(key)
		case RootOld:
			k.old = aead
		default:
			id, err := hex.DecodeString(r.ID)
			if err != nil || len(id) != rootIDSize {
				return nil, fmt.Errorf("root key %q: %w", r.ID, errSealedForm)
			}
			k.roots[string(id)], k.newest = aead, string(id)
		}
	}
	if k.derive == nil || k.newest == "" {
		return nil, errors.New("root keys are missing from the database")
	}
	return k, nil
}

func (o *rootOpener) reload(ctx context.Context, k *Keyring) error {
	list, err := o.store.RootKeys(ctx)
	if err != nil {
		return err
	}
	fresh, err := o.keyring(ctx, list)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.roots, k.newest = fresh.roots, fresh.newest
	return nil
}

// MasterKeys names the master keys that the stored root keys need.
func MasterKeys(list []RootKey) string {
	var ids []string
	for _, r := range list {
		if !slices.Contains(ids, r.MasterID) {
			ids = append(ids, r.MasterID)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}
