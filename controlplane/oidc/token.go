package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Claims are what a checked token says.
type Claims struct {
	Issuer    string
	Subject   string
	Audience  []string
	ExpiresAt time.Time
	IssuedAt  time.Time
	ID        string // jti; may be empty
	SessionID string // sid; may be empty

	Email         string
	EmailVerified bool
	Name          string
	AuthTime      time.Time // zero when not said

	// All holds every claim as decoded from JSON; numbers are json.Number.
	All map[string]any
	// Digest names the token: that of what was signed, so that another
	// encoding of the signature is no other token.
	Digest [sha256.Size]byte
}

const (
	leeway     = 30 * time.Second // between our clock and the provider's
	maxSubject = 255
	maxClaims  = 200
	// An ID token answers a sign-in that is going on; a logout token tells of a moment.
	maxIDTokenAge  = 10 * time.Minute
	maxLogoutAge   = 5 * time.Minute
	maxTokenLife   = 25 * time.Hour // of a workload's token: a longer one is a password
	typeLogout     = "logout+jwt"
	logoutEventURI = "http://schemas.openid.net/event/backchannel-logout"
)

// IDToken checks the ID token that answers a sign-in: signature, issuer,
// audience, authorized party, times, nonce (OpenID Connect Core 1.0, 3.1.3.7).
func (c *Client) IDToken(ctx context.Context, issuer, clientID, nonce, raw string) (Claims, error) {
	cl, typ, err := c.check(ctx, issuer, clientID, raw)
	if err != nil {
		return Claims{}, err
	}
	if typ != "" && typ != "JWT" {
		return Claims{}, rejected("the token is no ID token: its typ is another")
	}
	if azp, has := cl.All["azp"]; (has || len(cl.Audience) > 1) && azp != clientID {
		return Claims{}, rejected("the ID token was issued to another client (azp)")
	}
	got, _ := cl.All["nonce"].(string)
	if nonce == "" || subtle.ConstantTimeCompare([]byte(got), []byte(nonce)) != 1 {
		return Claims{}, rejected("the ID token does not answer this sign-in (nonce)")
	}
	if c.now().Sub(cl.IssuedAt) > maxIDTokenAge {
		return Claims{}, rejected("the ID token is old (iat)")
	}
	return cl, nil
}

// LogoutToken checks a token by which a provider ends sessions (OpenID Connect
// Back-Channel Logout 1.0, 2.6). Subject or SessionID is set. That it is used
// once is the caller's to see to, by ID.
func (c *Client) LogoutToken(ctx context.Context, issuer, clientID, raw string) (Claims, error) {
	cl, typ, err := c.check(ctx, issuer, clientID, raw)
	if err != nil {
		return Claims{}, err
	}
	events, _ := cl.All["events"].(map[string]any)
	_, isLogout := events[logoutEventURI].(map[string]any)
	_, hasNonce := cl.All["nonce"]
	switch {
	case typ != "" && typ != "JWT" && typ != typeLogout:
		return Claims{}, rejected("the token is no logout token: its typ is another")
	case !isLogout:
		return Claims{}, rejected("the token is no logout token (events)")
	case hasNonce:
		return Claims{}, rejected("a logout token has no nonce")
	case cl.Subject == "" && cl.SessionID == "":
		return Claims{}, rejected("the logout token names neither sub nor sid")
	case cl.ID == "":
		return Claims{}, rejected("the logout token has no jti")
	case c.now().Sub(cl.IssuedAt) > maxLogoutAge:
		return Claims{}, rejected("the logout token is old (iat)")
	}
	return cl, nil
}

// WorkloadToken checks the token by which a program says who it is: a JWT of
// an issuer that its owner trusts, made for audience.
func (c *Client) WorkloadToken(ctx context.Context, issuer, audience, raw string) (Claims, error) {
	cl, typ, err := c.check(ctx, issuer, audience, raw)
	switch {
	case err != nil:
		return Claims{}, err
	case typ != "" && typ != "JWT" && typ != "at+jwt" && typ != "application/at+jwt":
		return Claims{}, rejected("the token's typ is none of an ID token or access token")
	case cl.Subject == "":
		return Claims{}, rejected("the token names no subject (sub)")
	case cl.ExpiresAt.Sub(cl.IssuedAt) > maxTokenLife:
		return Claims{}, rejected("the token lives longer than %d hours", int(maxTokenLife.Hours()))
	}
	return cl, nil
}

// UnverifiedIssuer reads iss and aud of a token without believing them, to
// find out whose keys to ask.
func UnverifiedIssuer(raw string) (issuer string, audience []string) {
	if len(raw) > MaxToken {
		return "", nil
	}
	var m jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(raw, &m); err != nil {
		return "", nil
	}
	return m.Issuer, m.Audience
}

// check is what all kinds of tokens have in common. typ is the header's.
func (c *Client) check(ctx context.Context, issuer, audience, raw string) (cl Claims, typ string, err error) {
	if len(raw) > MaxToken {
		return Claims{}, "", rejected("the token has more than %d bytes", MaxToken)
	}
	// Before any call goes out: a token of another issuer costs nobody anything.
	if iss, _ := UnverifiedIssuer(raw); iss != issuer {
		return Claims{}, "", rejected("the token is malformed or of another issuer (iss)")
	}
	var asking error
	all := jwt.MapClaims{}
	t, err := jwt.NewParser(jwt.WithJSONNumber(), jwt.WithValidMethods(Algorithms()), jwt.WithIssuer(issuer), jwt.WithAudience(audience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(c.cfg.Now)).
		ParseWithClaims(raw, all, func(t *jwt.Token) (any, error) {
			if _, has := t.Header["crit"]; has { // we know no extension that must be understood
				return nil, jwt.ErrTokenUnverifiable
			}
			kid, _ := t.Header["kid"].(string)
			var keys []key
			if keys, asking = c.keysFor(ctx, issuer, kid, t.Method.Alg()); asking != nil {
				return nil, asking
			}
			if len(keys) == 0 || (kid == "" && len(keys) > 1) {
				return nil, jwt.ErrTokenUnverifiable
			}
			set := jwt.VerificationKeySet{}
			for _, k := range keys {
				set.Keys = append(set.Keys, k.public)
			}
			return set, nil
		})
	switch {
	case asking != nil:
		return Claims{}, "", asking
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return Claims{}, "", rejected("the token was made for somebody else (aud): it must be for %q", audience)
	case errors.Is(err, jwt.ErrTokenExpired):
		return Claims{}, "", rejected("the token has expired (exp)")
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return Claims{}, "", rejected("the token is not valid yet (nbf, iat): compare the clocks")
	case err != nil:
		return Claims{}, "", rejected("the token is malformed, or not signed by a key of its issuer with %s", strings.Join(Algorithms(), ", "))
	}
	if typ, err = header(t, "typ"); err != nil {
		return Claims{}, "", err
	}
	cl, err = claimsOf(all)
	cl.Digest = sha256.Sum256([]byte(raw[:strings.LastIndexByte(raw, '.')]))
	return cl, typ, err
}

func header(t *jwt.Token, name string) (string, error) {
	v, has := t.Header[name]
	text, ok := v.(string)
	if has && !ok {
		return "", rejected("the token's header %s is no text", name)
	}
	return text, nil
}

// claimsOf reads claims and refuses those of a wrong kind: a claim that is not
// understood must not count as absent.
func claimsOf(all jwt.MapClaims) (Claims, error) {
	cl, err := texts(all)
	if err != nil {
		return Claims{}, err
	}
	cl.Audience, _ = all.GetAudience()
	exp, err := all.GetExpirationTime()
	iat, ierr := all.GetIssuedAt()
	if err != nil || ierr != nil || exp == nil || iat == nil {
		return Claims{}, rejected("the token does not say when it was made and when it ends (iat, exp)")
	}
	cl.ExpiresAt, cl.IssuedAt = exp.Time, iat.Time
	if n, ok := all["auth_time"].(json.Number); ok {
		if s, err := n.Int64(); err == nil {
			cl.AuthTime = time.Unix(s, 0)
		}
	}
	return cl, nil
}

// texts reads the claims that are texts, and email_verified.
func texts(all map[string]any) (Claims, error) {
	if len(all) > maxClaims {
		return Claims{}, rejected("the token has more than %d claims", maxClaims)
	}
	cl := Claims{All: all}
	for name, to := range map[string]*string{"iss": &cl.Issuer, "sub": &cl.Subject, "jti": &cl.ID, "sid": &cl.SessionID, "email": &cl.Email, "name": &cl.Name} {
		v, has := all[name]
		if !has || v == nil {
			continue
		}
		text, ok := v.(string)
		if !ok || len(text) > maxSubject || strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			return Claims{}, rejected("the token's claim %s is no text of at most %d bytes without control characters", name, maxSubject)
		}
		*to = text
	}
	switch v := all["email_verified"].(type) {
	case bool:
		cl.EmailVerified = v
	case string: // as some providers spell it
		cl.EmailVerified = v == "true"
	}
	return cl, nil
}
