package oidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Attempt is one sign-in that goes on at a provider. All but the URL stays on
// the server.
type Attempt struct {
	State    string // names the attempt in the provider's answer
	Nonce    string // names it in the ID token
	Verifier string // proves that who began it ends it (RFC 7636)
}

// NewAttempt makes an Attempt; each part holds 256 bits from the random source.
func NewAttempt() Attempt { return Attempt{State: random(), Nonce: random(), Verifier: random()} }

func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: it stops the process instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// AuthorizationURL is where the browser goes to sign in. hint is a mail
// address or empty; fresh makes the provider ask the person again.
func (m Metadata) AuthorizationURL(a Attempt, clientID, redirect, hint string, fresh bool) (string, error) {
	u, err := url.Parse(m.Authorization)
	if err != nil {
		return "", failed("the authorization endpoint is no URL: %w", err)
	}
	challenge := sha256.Sum256([]byte(a.Verifier))
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "scope": "openid email profile", "client_id": clientID, "redirect_uri": redirect, "state": a.State, "nonce": a.Nonce,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if hint != "" {
		q.Set("login_hint", hint)
	}
	if fresh {
		q.Set("max_age", "0")
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Exchange is what an authorization code is exchanged with.
type Exchange struct {
	ClientID, Secret         string // an empty secret: a public client
	Code, Verifier, Redirect string
}

// Tokens are what a code was exchanged for, unchecked.
type Tokens struct {
	ID     string `json:"id_token"`
	Access string `json:"access_token"`
}

// Code exchanges an authorization code.
func (c *Client) Code(ctx context.Context, m Metadata, e Exchange) (Tokens, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {e.Code}, "redirect_uri": {e.Redirect}, "code_verifier": {e.Verifier}}
	basic := e.Secret != "" && (len(m.Methods) == 0 || slices.Contains(m.Methods, "client_secret_basic"))
	if !basic {
		form.Set("client_id", e.ClientID)
		if e.Secret != "" {
			form.Set("client_secret", e.Secret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return Tokens{}, failed("the token endpoint is no URL: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic { // both parts are form-encoded first (RFC 6749, 2.3.1)
		r.SetBasicAuth(url.QueryEscape(e.ClientID), url.QueryEscape(e.Secret))
	}
	var answer Tokens
	var status *statusError
	switch err := c.call(ctx, r, "the token endpoint", &answer); {
	case errors.As(err, &status) && (status.status == http.StatusBadRequest || status.status == http.StatusUnauthorized):
		return Tokens{}, rejected("the identity provider refused the sign-in (status %d): the code was used, or client_id and client_secret are not its", status.status)
	case err != nil:
		return Tokens{}, err
	case answer.ID == "":
		return Tokens{}, failed("the token endpoint answered without an ID token")
	}
	return answer, nil
}

// UserInfo adds the mail address and the name of a person whose ID token does
// not hold them: not all providers put them there. The answer must be about
// the same subject.
func (c *Client) UserInfo(ctx context.Context, m Metadata, access string, cl Claims) (Claims, error) {
	if cl.Email != "" || m.UserInfo == "" || access == "" {
		return cl, nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.UserInfo, nil)
	if err != nil {
		return cl, failed("the userinfo endpoint is no URL: %w", err)
	}
	if strings.ContainsFunc(access, func(r rune) bool { return r <= 0x20 || r >= 0x7f }) || len(access) > MaxToken {
		return cl, failed("the token endpoint answered with an access token that cannot be sent")
	}
	r.Header.Set("Authorization", "Bearer "+access)
	var all map[string]any
	if err := c.call(ctx, r, "the userinfo endpoint", &all); err != nil {
		return cl, err
	}
	more, err := texts(all)
	if err != nil {
		return cl, err
	}
	if more.Subject == "" || more.Subject != cl.Subject {
		return cl, rejected("the userinfo endpoint answers about another subject")
	}
	cl.Email, cl.EmailVerified = more.Email, more.EmailVerified
	if cl.Name == "" {
		cl.Name = more.Name
	}
	return cl, nil
}
