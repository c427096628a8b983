package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"math/big"
)

// The algorithms that tokens of providers may be signed with. Each kind of
// key has one: a key never checks a signature of another algorithm.
const (
	algRS256 = "RS256"
	algES256 = "ES256"
	algEdDSA = "EdDSA"
)

// Algorithms lists them, for documentation and tests.
func Algorithms() []string { return []string{algRS256, algES256, algEdDSA} }

const (
	minRSABits, maxRSABits = 2048, 8192
	maxKeyID               = 255
)

// jwk is one entry of a key set (RFC 7517).
type jwk struct {
	ID    string `json:"kid"`
	Type  string `json:"kty"`
	Use   string `json:"use"`
	Alg   string `json:"alg"`
	Curve string `json:"crv"`
	N     string `json:"n"`
	E     string `json:"e"`
	X     string `json:"x"`
	Y     string `json:"y"`
}

type key struct {
	id, alg string
	public  crypto.PublicKey
}

// key reads a key that signs tokens; ok is false for any other, which the set
// may hold for other ends.
func (j jwk) key() (k key, ok bool) {
	if (j.Use != "" && j.Use != "sig") || len(j.ID) > maxKeyID {
		return key{}, false
	}
	k.id = j.ID
	switch {
	case j.Type == "RSA":
		k.alg = algRS256
		n, e := number(j.N), number(j.E)
		if n == nil || e == nil || n.BitLen() < minRSABits || n.BitLen() > maxRSABits || !e.IsInt64() || e.Int64() < 3 || e.Int64() >= 1<<31 || e.Bit(0) == 0 {
			return key{}, false
		}
		k.public = &rsa.PublicKey{N: n, E: int(e.Int64())}
	case j.Type == "EC" && j.Curve == "P-256":
		k.alg = algES256
		x, y := number(j.X), number(j.Y)
		if x == nil || y == nil || x.BitLen() > 256 || y.BitLen() > 256 {
			return key{}, false
		}
		point := make([]byte, 65)
		point[0] = 4
		x.FillBytes(point[1:33])
		y.FillBytes(point[33:])
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point) // refuses what is not on the curve
		if err != nil {
			return key{}, false
		}
		k.public = public
	case j.Type == "OKP" && j.Curve == "Ed25519":
		k.alg = algEdDSA
		x, err := base64.RawURLEncoding.DecodeString(j.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return key{}, false
		}
		k.public = ed25519.PublicKey(x)
	default:
		return key{}, false
	}
	// RFC 9864 calls EdDSA over this curve Ed25519.
	return k, j.Alg == "" || j.Alg == k.alg || (k.alg == algEdDSA && j.Alg == "Ed25519")
}

func number(text string) *big.Int {
	if len(text) > 2*maxRSABits/8 {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		return nil
	}
	return new(big.Int).SetBytes(b)
}
