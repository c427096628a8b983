package tenant

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
)

// Keyring seals secrets, in four steps: a master key, which may lie in a key
// management service, wraps the root keys; a root key seals each tenant's data
// key, the signing keys and whatever else is no tenant's; a data key seals the
// tenant's API-key secrets. What is sealed says for whom and what it is (as
// additional data), so that it cannot be moved to another row.
//
// New values are sealed by the newest root key, older ones stay readable. Only
// root keys are wrapped by a master key: to change that is to wrap a few rows
// anew, and no other value needs it.
type Keyring struct {
	mu     sync.RWMutex
	roots  map[string]cipher.AEAD // by id, rootIDSize bytes
	newest string
	old    cipher.AEAD // of values from before there were root keys; may be nil
	derive []byte
	reload func() error // reads root keys that another process made; may be nil
}

const rootIDSize = 8

// NewKeyring makes a keyring of one key of 32 bytes, which is root key and
// source of derived keys at once.
func NewKeyring(key []byte) (*Keyring, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	id := "\x00\x00\x00\x00\x00\x00\x00\x00"
	return &Keyring{roots: map[string]cipher.AEAD{id: aead}, newest: id, old: aead, derive: bytes.Clone(key)}, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("key has %d bytes, want %d", len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// The first byte of everything sealed.
const (
	sealedVersion     = 1 // by a key that the reader knows
	sealedRootVersion = 2 // by the root key that is named
)

// sealed = 1 | nonce(12) | ciphertext with tag
func seal(aead cipher.AEAD, purpose string, plain []byte) []byte {
	return sealWith(aead, []byte{sealedVersion}, purpose, plain)
}

// sealWith puts head in front and authenticates purpose; what head says of the
// key is proved by the key itself.
func sealWith(aead cipher.AEAD, head []byte, purpose string, plain []byte) []byte {
	n := len(head) + aead.NonceSize()
	out := make([]byte, n, n+len(plain)+aead.Overhead())
	copy(out, head)
	_, _ = rand.Read(out[len(head):])
	return aead.Seal(out, out[len(head):], plain, []byte(purpose))
}

func open(aead cipher.AEAD, purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealedVersion {
		return nil, errSealedForm
	}
	return openWith(aead, 1, purpose, sealed)
}

func openWith(aead cipher.AEAD, head int, purpose string, sealed []byte) ([]byte, error) {
	n := head + aead.NonceSize()
	if len(sealed) < n {
		return nil, errSealedForm
	}
	return aead.Open(nil, sealed[head:n], sealed[n:], []byte(purpose))
}

var errSealedForm = errors.New("unknown form of sealed value")

// Seal seals plain under the newest root key for a purpose:
// 2 | id of the root key(8) | nonce(12) | ciphertext with tag.
func (k *Keyring) Seal(purpose string, plain []byte) []byte {
	k.mu.RLock()
	id, aead := k.newest, k.roots[k.newest]
	k.mu.RUnlock()
	return sealWith(aead, append([]byte{sealedRootVersion}, id...), purpose, plain)
}

// Open opens what Seal sealed for the same purpose.
func (k *Keyring) Open(purpose string, sealed []byte) ([]byte, error) {
	plain, err := k.open(purpose, sealed)
	if err != nil {
		return nil, fmt.Errorf("open sealed %s: %w", purpose, err)
	}
	return plain, nil
}

func (k *Keyring) open(purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealedRootVersion {
		if k.old == nil {
			return nil, errSealedForm
		}
		return open(k.old, purpose, sealed)
	}
	if len(sealed) < 1+rootIDSize {
		return nil, errSealedForm
	}
	aead, err := k.root(string(sealed[1 : 1+rootIDSize]))
	if err != nil {
		return nil, err
	}
	return openWith(aead, 1+rootIDSize, purpose, sealed)
}

// root finds a root key; one that another process made since is read.
func (k *Keyring) root(id string) (cipher.AEAD, error) {
	k.mu.RLock()
	aead := k.roots[id]
	k.mu.RUnlock()
	if aead == nil && k.reload != nil {
		if err := k.reload(); err != nil {
			return nil, fmt.Errorf("read root keys: %w", err)
		}
		k.mu.RLock()
		aead = k.roots[id]
		k.mu.RUnlock()
	}
	if aead == nil {
		return nil, fmt.Errorf("root key %x is not there", id)
	}
	return aead, nil
}

// Newest is what values begin with that the newest root key sealed.
func (k *Keyring) Newest() []byte {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return append([]byte{sealedRootVersion}, k.newest...)
}

// Derive makes a key of 32 bytes for a purpose, such as signing page tokens;
// it stays the same whatever becomes of master keys and root keys.
func (k *Keyring) Derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, k.derive, nil, "sluice "+purpose, keySize)
	if err != nil {
		panic("tenant: derive key: " + err.Error()) // only for absurd lengths
	}
	return key
}

// Fingerprint is by what a secret is found again: nobody without the master key
// can tell secrets by it, or try guesses.
func (k *Keyring) Fingerprint(secret string) []byte {
	h := hmac.New(sha256.New, k.Derive("fingerprints of secrets"))
	h.Write([]byte(secret))
	return h.Sum(nil)
}

func dataKeyOf(tenantID ID) string { return "data key of " + tenantID }

// NewDataKey makes a sealed data key for a tenant.
func (k *Keyring) NewDataKey(tenantID ID) []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key)
	return k.Seal(dataKeyOf(tenantID), key)
}

// Box opens a tenant's data key.
func (k *Keyring) Box(tenantID ID, dataKey []byte) (*Box, error) {
	key, err := k.Open(dataKeyOf(tenantID), dataKey)
	if err != nil {
		return nil, err
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	return &Box{aead: aead}, nil
}

// Box seals and opens the secrets of one tenant.
type Box struct{ aead cipher.AEAD }

// Seal seals the secret of an API key.
func (b *Box) Seal(keyID ID, secret string) []byte {
	return seal(b.aead, "secret of "+keyID, []byte(secret))
}

// Open opens the secret of an API key.
func (b *Box) Open(keyID ID, sealed []byte) (string, error) {
	plain, err := open(b.aead, "secret of "+keyID, sealed)
	if err != nil {
		return "", fmt.Errorf("open secret of %s: %w", keyID, err)
	}
	return string(plain), nil
}
