package policy

import (
	"net/netip"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// AudienceData is the "aud" of tokens for the message path; tokens for the
// control plane carry another one and are refused here.
const AudienceData = "data"

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
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithAudience(AudienceData),
		jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(e.cfg.Now),
		jwt.WithLeeway(5 * time.Second),
	}
	if c.snapshot.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.snapshot.Issuer))
	}
	_, err := jwt.ParseWithClaims(text, &claims, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		if key, ok := c.tokens[kid]; ok {
			return key.Public, nil
		}
		return nil, jwt.ErrTokenUnverifiable
	}, options...)
	if err != nil {
		return nil, refuse(CodeTokenInvalid, "the token is malformed, expired, signed by an unknown key, or not for the message path: ask /v1/auth/token for one with audience=data")
	}
	key := c.principals[claims.KeyID]
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
