package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/federation"
	"github.com/sluicemq/sluice/internal/errs"
)

// ssoCookie binds a sign-in at an identity provider to the browser that began
// it. Lax: the provider's answer is a navigation from another site.
const ssoCookie = "sluice_sso"

func (s *server) setSSO(c *call, value string) {
	cookie := &http.Cookie{Name: ssoCookie, Value: value, Path: ssoPath, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.secure(c),
		MaxAge: int(federation.AttemptTTL / time.Second)}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(c.gin.Writer, cookie)
}

func (s *server) secure(c *call) bool {
	return c.gin.Request.TLS != nil || strings.HasPrefix(s.d.Config.PublicURL, "https://")
}

// StartSso begins a sign-in at an identity provider.
func (s *server) StartSso(gc context.Context, r StartSsoRequestObject) (StartSsoResponseObject, error) {
	c, ctx := enter(gc)
	in := federation.Start{Email: string(or(r.Body.Email, "")), TenantID: or(r.Body.TenantId, ""), Fresh: isTrue(r.Body.Fresh), Redirect: s.base(c.gin.Request) + callbackPath}
	if (in.Email == "") == (in.TenantID == "") {
		return nil, errs.Field("email", "give the mail address or the tenant_id, and not both")
	}
	if err := s.mayTry(ctx, c, "sso", in.Email); err != nil { // it can make us call the provider
		return nil, err
	}
	st, err := s.d.Federation.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	s.setSSO(c, st.Browser)
	return StartSso200JSONResponse{AuthorizationUrl: st.URL, ExpiresIn: lifetime(federation.AttemptTTL)}, nil
}

// FinishSso is where the provider sends the browser. People see what comes of
// it, so failures are pages; both ways lead to fixed paths.
func (s *server) FinishSso(gc context.Context, r FinishSsoRequestObject) (FinishSsoResponseObject, error) {
	c, ctx := enter(gc)
	in := federation.Callback{State: r.Params.State, Code: or(r.Params.Code, ""), Error: or(r.Params.Error, ""), Issuer: or(r.Params.Iss, "")}
	if cookie, err := c.gin.Request.Cookie(ssoCookie); err == nil {
		in.Browser = cookie.Value
	}
	g, err := s.d.Federation.Finish(ctx, in, c.device())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		if errs.CodeOf(err) == errs.Internal {
			s.d.Logger.Error("sign-in at an identity provider failed", "request_id", c.requestID, "err", err)
		}
		return FinishSso303Response{Headers: FinishSso303ResponseHeaders{Location: "/errors/" + reasonOf(err) + "?request_id=" + c.requestID}}, nil
	}
	s.setSSO(c, "")
	s.setRefresh(c, g.RefreshToken, g.RefreshExpiry)
	return FinishSso303Response{Headers: FinishSso303ResponseHeaders{Location: "/sign-in?sso=done"}}, nil
}

// BackchannelLogout ends the sessions that a logout token names.
func (s *server) BackchannelLogout(gc context.Context, r BackchannelLogoutRequestObject) (BackchannelLogoutResponseObject, error) {
	_, ctx := enter(gc)
	err := s.d.Federation.Logout(ctx, r.Body.LogoutToken)
	var e *errs.Error
	if errs.Is(err, errs.Unauthenticated) && errors.As(err, &e) {
		return BackchannelLogout400JSONResponse(api.OAuthError{Error: "invalid_request", ErrorDescription: &e.Message}), nil
	}
	if err != nil {
		return nil, err
	}
	return BackchannelLogout204Response{}, nil
}
