package auth

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/sluicemq/sluice/tenant"
)

// The algorithms of signing keys.
const (
	AlgorithmEdDSA = "EdDSA" // Ed25519
	AlgorithmRS256 = "RS256" // for libraries that know no Ed25519
)

const rsaBits = 2048

func (s *Service) newSigningKey(algorithm string, now time.Time) (SigningKey, error) {
	k := SigningKey{ID: tenant.NewID("kid_", now), State: KeyNext, Algorithm: algorithm, CreatedAt: now, ChangedAt: now}
	var plain []byte
	switch algorithm {
	case AlgorithmEdDSA:
		plain = make([]byte, ed25519.SeedSize)
		_, _ = rand.Read(plain)
		k.Public = ed25519.NewKeyFromSeed(plain).Public().(ed25519.PublicKey)
	case AlgorithmRS256:
		private, err := rsa.GenerateKey(rand.Reader, rsaBits)
		if err != nil {
			return k, fmt.Errorf("make RSA key: %w", err)
		}
		plain, k.Public = x509.MarshalPKCS1PrivateKey(private), x509.MarshalPKCS1PublicKey(&private.PublicKey)
	default:
		return k, fmt.Errorf("signing algorithm %q: use %s or %s", algorithm, AlgorithmEdDSA, AlgorithmRS256)
	}
	k.Sealed = s.d.Keyring.Seal("signing key "+k.ID, plain)
	return k, nil
}

func privateKey(algorithm string, plain []byte) (crypto.Signer, error) {
	switch {
	case algorithm == AlgorithmEdDSA && len(plain) == ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(plain), nil
	case algorithm == AlgorithmRS256:
		return x509.ParsePKCS1PrivateKey(plain)
	}
	return nil, errors.New("the key does not fit its algorithm")
}

// publicKey is nil for a key that does not fit its algorithm.
func publicKey(algorithm string, public []byte) crypto.PublicKey {
	switch algorithm {
	case AlgorithmEdDSA:
		if len(public) == ed25519.PublicKeySize {
			return ed25519.PublicKey(public)
		}
	case AlgorithmRS256:
		if k, err := x509.ParsePKCS1PublicKey(public); err == nil {
			return k
		}
	}
	return nil
}

// JWK is one public key of the set (RFC 7518, RFC 8037).
type JWK struct {
	KeyID     string `json:"kid"`
	Type      string `json:"kty"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
	Curve     string `json:"crv,omitempty"`
	X         string `json:"x,omitempty"`
	N         string `json:"n,omitempty"`
	E         string `json:"e,omitempty"`
}

// JWKs lists the public keys: current, next and retiring, of all algorithms.
func (s *Service) JWKs(ctx context.Context) ([]JWK, error) {
	keys, err := s.d.Store.SigningKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	out := make([]JWK, 0, len(keys))
	for _, k := range keys {
		j := JWK{KeyID: k.ID, Algorithm: k.Algorithm, Use: "sig"}
		switch public := publicKey(k.Algorithm, k.Public).(type) {
		case ed25519.PublicKey:
			j.Type, j.Curve, j.X = "OKP", "Ed25519", encode(public)
		case *rsa.PublicKey:
			j.Type, j.N, j.E = "RSA", encode(public.N.Bytes()), encode(big.NewInt(int64(public.E)).Bytes())
		default:
			return nil, fmt.Errorf("signing key %s does not fit its algorithm", k.ID)
		}
		out = append(out, j)
	}
	return out, nil
}

// JWKS is what brokers trust, as JSON: the key set, and under revoked the ids
// of tokens that were revoked, with the second at which they expire.
func (s *Service) JWKS(ctx context.Context) ([]byte, error) {
	keys, err := s.JWKs(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := s.d.Store.RevokedTokens(ctx, s.time())
	if err != nil {
		return nil, fmt.Errorf("read revoked tokens: %w", err)
	}
	revoked := make(map[string]int64, len(tokens))
	for id, expires := range tokens {
		revoked[id] = expires.Unix()
	}
	return json.Marshal(map[string]any{"keys": keys, "revoked": revoked})
}
