package httpapi

import (
	"context"
	"net/url"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
)

// siteOf is the site of this server's URL. Credentials are bound to it, and a
// browser says itself at which one it is: a request with another Host header
// gets nowhere.
func siteOf(base string) auth.Site {
	u, err := url.Parse(base)
	if err != nil {
		return auth.Site{}
	}
	return auth.Site{ID: u.Hostname(), Origin: u.Scheme + "://" + u.Host}
}

// BeginWebauthn begins the registration of a security key.
func (s *server) BeginWebauthn(gc context.Context, r BeginWebauthnRequestObject) (BeginWebauthnResponseObject, error) {
	c, ctx := enter(gc)
	c.touches("mfa_factor", "", "")
	out, err := writeOutside(ctx, s, c, func(ctx context.Context) (api.WebauthnEnrolment, error) {
		e, err := s.d.Auth.BeginWebAuthn(ctx, c.principal, r.Body.Name, c.site, s.note(c))
		if err != nil {
			return api.WebauthnEnrolment{}, err
		}
		f := factorOut(e.Factor)
		return api.WebauthnEnrolment{Id: f.Id, Type: f.Type, Name: f.Name, Options: string(e.Options), CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt, Revision: f.Revision}, nil
	})
	if err != nil {
		return nil, err
	}
	return BeginWebauthn201JSONResponse(out), nil
}

// ConfirmWebauthn ends the registration of a security key.
func (s *server) ConfirmWebauthn(gc context.Context, r ConfirmWebauthnRequestObject) (ConfirmWebauthnResponseObject, error) {
	c, ctx := enter(gc)
	c.touches("mfa_factor", r.Id, "")
	out, err := writeOutside(ctx, s, c, func(ctx context.Context) (api.MfaConfirmed, error) {
		f, codes, err := s.d.Auth.ConfirmWebAuthn(ctx, c.principal, r.Id, r.Body.Credential, c.site, s.note(c))
		return api.MfaConfirmed{Factor: factorOut(f), RecoveryCodes: append([]string{}, codes...)}, err
	})
	if err != nil {
		return nil, err
	}
	return ConfirmWebauthn200JSONResponse(out), nil
}
