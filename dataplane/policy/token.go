package policy

import (
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// AudienceData is the "aud" of tokens for the message path; tokens for the
// control plane carry another one and are refused here.
const AudienceData = "data"

// The algorithms of token keys.
const (
	AlgorithmEdDSA = "EdDSA"
	AlgorithmRS256 = "RS256"
)

// tokenType is the typ header of access tokens (RFC 9068).
const tokenType = "at+jwt"

const minRSABits = 2048

// tokenKey is a TokenKey ready for use.
type tokenKey struct {
	algorithm string
	public    crypto.PublicKey
}

func (t TokenKey) ready() (tokenKey, error) {
	switch t.Algorithm {
	case "", AlgorithmEdDSA:
		if len(t.Public) == ed25519.PublicKeySize {
			return tokenKey{AlgorithmEdDSA, ed25519.PublicKey(t.Public)}, nil
		}
	case AlgorithmRS256:
		public, err := x509.ParsePKCS1PublicKey(t.Public)
		if err == nil && public.N.BitLen() >= minRSABits {
			return tokenKey{AlgorithmRS256, public}, nil
		}
	}
	return tokenKey{}, fmt.Errorf("a key of %d bytes does not fit algorithm %q", len(t.Public), t.Algorithm)
}

// tokenClaims are those of a message-path token: the API key that it was made
// from is the subject of every right it has.
type tokenClaims struct {
	KeyID string `json:"key_id"`
	jwt.RegisteredClaims
}

// authenticateToken accepts a JWT that the control plane signed. The key it was
// made from must still be live: revoking the key ends its tokens too.
func (e *Engine) authenticateToken(text string, remote netip.Addr) (*Principal, error) {
	if text == "" {
		return nil, errUnauthenticated()
	}
	c := e.current.Load()
	var claims tokenClaims
	options := []jwt.ParserOption{
		jwt.WithValidMethods([]string{AlgorithmEdDSA, AlgorithmRS256}),
		jwt.WithIssuedAt(),
		jwt.WithAudience(AudienceData),
		jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(e.cfg.Now),
		jwt.WithLeeway(5 * time.Second),
	}
	if c.snapshot.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.snapshot.Issuer))
	}
	_, err := jwt.ParseWithClaims(text, &claims, func(t *jwt.Token) (any, error) {
		// The kid alone picks the key, and the key its algorithm: what else a
		// header brings along (jwk, jku, x5u) is never looked at.
		typ, _ := t.Header["typ"].(string)
		kid, _ := t.Header["kid"].(string)
		_, critical := t.Header["crit"]
		if key, ok := c.tokens[kid]; ok && typ == tokenType && !critical && key.algorithm == t.Method.Alg() {
			return key.public, nil
		}
		return nil, jwt.ErrTokenUnverifiable
	}, options...)
	key := c.principals[claims.KeyID]
	if err != nil {
		r := refuse(CodeTokenInvalid, "the token is malformed, expired, signed by an unknown key, or not for the message path: ask /v1/auth/token for one with audience=data")
		if errors.Is(err, jwt.ErrTokenInvalidClaims) && key != nil { // the signature is right
			r = r.by(key, nil, DeniedConnect, kindKey, key.id)
		}
		return nil, r
	}
	if _, revoked := c.snapshot.Revoked[claims.ID]; revoked {
		r := refuse(CodeTokenInvalid, "the token was revoked: ask /v1/auth/token for another one")
		if key != nil {
			r = r.by(key, nil, DeniedConnect, kindKey, key.id)
		}
		return nil, r
	}
	if key == nil {
		return nil, refuse(CodeTokenInvalid, "the API key that the token was made from is gone")
	}
	if r := key.admit(remote); r != nil {
		return nil, r
	}
	p := *key
	p.token, p.tokenID = key, claims.ID
	if exp := claims.ExpiresAt.Time; p.expires == nil || exp.Before(*p.expires) {
		p.expires = &exp
	}
	return &p, nil
}
