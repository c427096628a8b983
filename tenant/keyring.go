package tenant

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/sluicemq/sluice/internal/keyfile"
)

// masterMagic begins the file of the master key; the digit is its version.
const masterMagic = "sluice-master-key-1 "

const keySize = 32

// ErrMasterKey is returned for a master key file that cannot be used.
var ErrMasterKey = errors.New("master key file is damaged or of another version")

// OpenMasterKey reads the master key from a file, or makes the file if there is
// none. Losing it means losing every API key secret.
func OpenMasterKey(path string) ([]byte, error) {
	text, err := keyfile.ReadOrCreate(path, func() []byte {
		key := make([]byte, keySize)
		_, _ = rand.Read(key)
		return []byte(masterMagic + base64.StdEncoding.EncodeToString(key) + "\n")
	})
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	rest, ok := strings.CutPrefix(strings.TrimSpace(string(text)), masterMagic)
	key, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s: %w", path, ErrMasterKey)
	}
	return key, nil
}

// Keyring seals secrets: the master key seals each tenant's data key, a data
// key seals the tenant's API-key secrets. What is sealed says for whom and
// what it is (as additional data), so that it cannot be moved to another row.
type Keyring struct {
	master []byte
	aead   cipher.AEAD
}

// NewKeyring makes a keyring from a master key of 32 bytes.
func NewKeyring(master []byte) (*Keyring, error) {
	aead, err := newAEAD(master)
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	return &Keyring{master: bytes.Clone(master), aead: aead}, nil
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

// sealedVersion is the first byte of everything sealed.
const sealedVersion = 1

// sealed = version(1) | nonce(12) | ciphertext with tag
func seal(aead cipher.AEAD, purpose string, plain []byte) []byte {
	out := make([]byte, 1+aead.NonceSize(), 1+aead.NonceSize()+len(plain)+aead.Overhead())
	out[0] = sealedVersion
	_, _ = rand.Read(out[1:])
	return aead.Seal(out, out[1:], plain, []byte(purpose))
}

func open(aead cipher.AEAD, purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < 1+aead.NonceSize() || sealed[0] != sealedVersion {
		return nil, errors.New("unknown form of sealed value")
	}
	nonce := sealed[1 : 1+aead.NonceSize()]
	return aead.Open(nil, nonce, sealed[1+aead.NonceSize():], []byte(purpose))
}

// Seal seals plain under the master key for a purpose.
func (k *Keyring) Seal(purpose string, plain []byte) []byte { return seal(k.aead, purpose, plain) }

// Open opens what Seal sealed for the same purpose.
func (k *Keyring) Open(purpose string, sealed []byte) ([]byte, error) {
	plain, err := open(k.aead, purpose, sealed)
	if err != nil {
		return nil, fmt.Errorf("open sealed %s: %w", purpose, err)
	}
	return plain, nil
}

// Derive makes a key of 32 bytes for a purpose, such as signing page tokens;
// it is the same as long as the master key is.
func (k *Keyring) Derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, k.master, nil, "sluice "+purpose, keySize)
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

// NewDataKey makes a sealed data key for a tenant.
func (k *Keyring) NewDataKey(tenantID ID) []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key)
	return k.Seal("data key of "+tenantID, key)
}

// Box opens a tenant's data key.
func (k *Keyring) Box(tenantID ID, dataKey []byte) (*Box, error) {
	key, err := k.Open("data key of "+tenantID, dataKey)
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
