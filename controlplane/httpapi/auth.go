package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
)

// Requests under /v1/auth take an Idempotency-Key and need none: a sign-up
// twice sends two codes of which either works, a code or a refresh token
// works once, and answers that hold tokens are not kept.

const refreshCookie = "sluice_refresh"

// setRefresh sets the cookie, or removes it when token is empty.
func (s *server) setRefresh(c *call, token string, expires time.Time) {
	cookie := &http.Cookie{Name: refreshCookie, Value: token, Path: "/v1/auth", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: s.secure(c)}
	if token == "" {
		cookie.MaxAge = -1
	} else {
		cookie.MaxAge = max(1, int(expires.Sub(s.d.Now())/time.Second)) // relative: the clock of the browser may be wrong
	}
	http.SetCookie(c.gin.Writer, cookie)
}

func (s *server) codeSent() api.CodeSent {
	return api.CodeSent{ExpiresIn: int32(s.d.Auth.CodeTTL() / time.Second)} //nolint:gosec // minutes
}

// SignUp asks for a new account.
func (s *server) SignUp(gc context.Context, r SignUpRequestObject) (SignUpResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.mayTry(ctx, c, "sign_up", r.Body.Email); err != nil {
		return nil, err
	}
	if err := s.mayCauseMail(ctx, c); err != nil {
		return nil, err
	}
	err := s.d.Auth.SignUp(ctx, auth.SignUp{Email: r.Body.Email, Password: r.Body.Password, TenantName: r.Body.TenantName, Locale: string(or(r.Body.Locale, "en"))})
	if err != nil {
		return nil, err
	}
	return SignUp202JSONResponse(s.codeSent()), nil
}

// VerifySignUp ends a sign-up.
func (s *server) VerifySignUp(gc context.Context, r VerifySignUpRequestObject) (VerifySignUpResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.mayTry(ctx, c, "verify", r.Body.Email); err != nil {
		return nil, err
	}
	v, err := s.d.Auth.Verify(ctx, r.Body.Email, r.Body.Code, c.device())
	if err != nil {
		return nil, err
	}
	s.awaitBeginning(ctx, v)
	s.setRefresh(c, v.Grant.RefreshToken, v.Grant.RefreshExpiry)
	return VerifySignUp200JSONResponse{AccessToken: v.Grant.AccessToken, TokenType: "Bearer", ExpiresIn: lifetime(v.Grant.ExpiresIn), TenantId: v.TenantID,
		NamespaceId: v.NamespaceID, Topic: v.Topic, Group: v.Group, ApiKey: api.IssuedKey{Id: v.KeyID, Secret: v.Secret}}, nil
}

// beginningWait bounds how long a sign-up waits for brokers.
const beginningWait = 3 * time.Second

// awaitBeginning waits until brokers serve what a new tenant starts with: some
// SDKs give up for good when the first question about a topic finds nothing.
// Brokers that are away do not fail the sign-up.
func (s *server) awaitBeginning(ctx context.Context, v auth.Verified) {
	ctx, cancel := context.WithTimeout(ctx, beginningWait)
	defer cancel()
	topic, err := s.d.Catalog.Topic(ctx, v.TenantID, v.NamespaceID, v.Topic)
	if err == nil {
		err = s.d.Catalog.Wait(ctx, catalog.KindTopic, topic.ID, topic.Revision, beginningWait)
	}
	group, groupErr := s.d.Catalog.Group(ctx, v.TenantID, v.NamespaceID, v.Group)
	if groupErr == nil {
		groupErr = s.d.Catalog.Wait(ctx, catalog.KindGroup, group.ID, group.Revision, beginningWait)
	}
	if err := errors.Join(err, groupErr, s.d.Catalog.Wait(ctx, catalog.KindKey, v.KeyID, 1, beginningWait)); err != nil {
		s.d.Logger.WarnContext(ctx, "a new tenant is not on its brokers yet", "tenant", v.TenantID, "err", err)
	}
}

func lifetime(d time.Duration) int32 { return int32(d / time.Second) } //nolint:gosec // minutes

func session(g auth.Grant) api.Session {
	return api.Session{AccessToken: g.AccessToken, TokenType: "Bearer", ExpiresIn: lifetime(g.ExpiresIn), UserId: g.UserID, TenantId: g.TenantID}
}

// SignIn begins a session.
func (s *server) SignIn(gc context.Context, r SignInRequestObject) (SignInResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.mayTry(ctx, c, "sign_in", r.Body.Email); err != nil {
		return nil, err
	}
	in, err := s.d.Auth.SignIn(ctx, r.Body.Email, r.Body.Password, c.device())
	if err != nil {
		return nil, err
	}
	if a := in.Awaited; a != nil {
		return SignIn202JSONResponse(awaited(a)), nil
	}
	s.setRefresh(c, in.Grant.RefreshToken, in.Grant.RefreshExpiry)
	return SignIn200JSONResponse(session(in.Grant)), nil
}

func awaited(a *auth.Awaited) api.MfaAwaited {
	out := api.MfaAwaited{MfaRequired: true, MfaToken: a.Token, ExpiresIn: lifetime(a.ExpiresIn)}
	if a.WebAuthn != nil {
		out.WebauthnOptions = some(string(a.WebAuthn))
	}
	for _, m := range a.Methods {
		out.Methods = append(out.Methods, api.MfaMethod(m))
	}
	return out
}

// RefreshSession exchanges the refresh cookie.
func (s *server) RefreshSession(gc context.Context, _ RefreshSessionRequestObject) (RefreshSessionResponseObject, error) {
	c, ctx := enter(gc)
	cookie, err := c.gin.Request.Cookie(refreshCookie)
	if err != nil {
		return nil, errs.E(errs.Unauthenticated, "there is no refresh cookie; sign in").WithReason("session_invalid")
	}
	g, err := s.d.Auth.Refresh(ctx, cookie.Value)
	if err != nil {
		if errs.Is(err, errs.Unauthenticated) {
			s.setRefresh(c, "", time.Time{})
		}
		return nil, err
	}
	s.setRefresh(c, g.RefreshToken, g.RefreshExpiry)
	return RefreshSession200JSONResponse(session(g)), nil
}

// SignOut ends the session of the refresh cookie.
func (s *server) SignOut(gc context.Context, _ SignOutRequestObject) (SignOutResponseObject, error) {
	c, ctx := enter(gc)
	if cookie, err := c.gin.Request.Cookie(refreshCookie); err == nil {
		if err := s.d.Auth.SignOut(ctx, cookie.Value); err != nil {
			return nil, err
		}
	}
	s.setRefresh(c, "", time.Time{})
	return SignOut204Response{}, nil
}

// RequestPasswordReset sends a code.
func (s *server) RequestPasswordReset(gc context.Context, r RequestPasswordResetRequestObject) (RequestPasswordResetResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.mayTry(ctx, c, "reset", r.Body.Email); err != nil {
		return nil, err
	}
	if err := s.mayCauseMail(ctx, c); err != nil {
		return nil, err
	}
	if err := s.d.Auth.RequestReset(ctx, r.Body.Email); err != nil {
		return nil, err
	}
	return RequestPasswordReset202JSONResponse(s.codeSent()), nil
}

// ConfirmPasswordReset sets a new password.
func (s *server) ConfirmPasswordReset(gc context.Context, r ConfirmPasswordResetRequestObject) (ConfirmPasswordResetResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.mayTry(ctx, c, "reset_confirm", r.Body.Email); err != nil {
		return nil, err
	}
	if err := s.d.Auth.ConfirmReset(ctx, r.Body.Email, r.Body.Code, r.Body.Password); err != nil {
		return nil, err
	}
	s.setRefresh(c, "", time.Time{})
	return ConfirmPasswordReset204Response{}, nil
}

// CreateToken exchanges an API key for a short JWT.
func (s *server) CreateToken(gc context.Context, r CreateTokenRequestObject) (CreateTokenResponseObject, error) {
	c, ctx := enter(gc)
	if r.Body.GrantType == api.GrantTokenExchange {
		return s.exchangeWorkload(ctx, c, r.Body)
	}
	if r.Body.SubjectToken != nil || r.Body.SubjectTokenType != nil || r.Body.RequestedTokenType != nil {
		return oauthInvalid("subject_token and its kin belong to token exchange"), nil
	}
	id, secret := or(r.Body.ClientId, ""), or(r.Body.ClientSecret, "")
	if c.basicID != "" {
		if secret != "" || (id != "" && id != c.basicID) {
			return oauthInvalid("the key comes by HTTP Basic or in the body, not by both"), nil
		}
		id, secret = c.basicID, c.basicKey
	}
	if id == "" || secret == "" {
		return oauthInvalid("client_id and client_secret are missing"), nil
	}
	t, err := s.d.Auth.Exchange(ctx, id, secret, string(or(r.Body.Audience, "")), c.addr)
	s.noteRefused(c.gin, err)
	var e *errs.Error
	switch {
	case err == nil:
		return CreateToken200JSONResponse(tokenOut(t)), nil
	case errs.Is(err, errs.Unauthenticated), reasonOf(err) == "address_not_allowed":
		_ = errors.As(err, &e)
		c.gin.Header("WWW-Authenticate", `Basic realm="sluice"`)
		return CreateToken401JSONResponse{Error: "invalid_client", ErrorDescription: &e.Message}, nil
	case errs.Is(err, errs.Forbidden):
		_ = errors.As(err, &e)
		return CreateToken400JSONResponse{Error: "unauthorized_client", ErrorDescription: &e.Message}, nil
	}
	return nil, err
}

// issuedToken is what token exchange gives, by its name in RFC 8693.
const issuedToken = "urn:ietf:params:oauth:token-type:access_token"

func (s *server) exchangeWorkload(ctx context.Context, c *call, in *api.TokenRequest) (CreateTokenResponseObject, error) {
	id := or(in.ClientId, "")
	if c.basicID != "" || in.ClientSecret != nil {
		return oauthInvalid("a workload identity has no secret: send client_id in the body"), nil
	}
	if id == "" || in.SubjectToken == nil || in.SubjectTokenType == nil {
		return oauthInvalid("client_id, subject_token and subject_token_type are needed"), nil
	}
	t, err := s.d.Federation.Exchange(ctx, id, *in.SubjectToken, string(or(in.Audience, "")), c.addr)
	s.noteRefused(c.gin, err)
	var e *errs.Error
	switch {
	case err == nil:
		return CreateToken200JSONResponse{AccessToken: t.AccessToken, TokenType: "Bearer", ExpiresIn: lifetime(t.ExpiresIn), Audience: api.TokenAudience(t.Audience),
			IssuedTokenType: some(issuedToken)}, nil
	case errs.Is(err, errs.Unauthenticated):
		_ = errors.As(err, &e)
		return CreateToken400JSONResponse{Error: "invalid_grant", ErrorDescription: &e.Message}, nil
	case errs.Is(err, errs.Forbidden):
		_ = errors.As(err, &e)
		return CreateToken400JSONResponse{Error: "unauthorized_client", ErrorDescription: &e.Message}, nil
	}
	return nil, err
}

func oauthInvalid(text string) CreateToken400JSONResponse {
	return CreateToken400JSONResponse{Error: "invalid_request", ErrorDescription: &text}
}

// RevokeToken ends a token; the answer is the same for one that is none.
func (s *server) RevokeToken(gc context.Context, r RevokeTokenRequestObject) (RevokeTokenResponseObject, error) {
	_, ctx := enter(gc)
	if err := s.d.Auth.RevokeToken(ctx, r.Body.Token); err != nil {
		return nil, err
	}
	return RevokeToken200Response{}, nil
}

// GetJwks shows the public keys.
func (s *server) GetJwks(gc context.Context, _ GetJwksRequestObject) (GetJwksResponseObject, error) {
	c, ctx := enter(gc)
	keys, err := s.d.Auth.JWKs(ctx)
	if err != nil {
		return nil, err
	}
	out := GetJwks200JSONResponse{Keys: []api.Jwk{}}
	for _, k := range keys {
		out.Keys = append(out.Keys, api.Jwk{Kid: k.KeyID, Kty: k.Type, Alg: k.Algorithm, Use: k.Use, Crv: some(k.Curve), X: some(k.X), N: some(k.N), E: some(k.E)})
	}
	c.gin.Header("Cache-Control", "public, max-age=300")
	return out, nil
}
