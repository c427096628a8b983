package httpapi

import (
	"context"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/federation"
	"github.com/sluicemq/sluice/tenant"
)

const (
	ssoPath      = "/v1/auth/sso"
	callbackPath = ssoPath + "/callback"
	logoutPath   = ssoPath + "/backchannel-logout"
)

func (s *server) providerOut(c *call, p federation.IdentityProvider) api.IdentityProvider {
	base := s.base(c.gin.Request)
	out := api.IdentityProvider{Id: p.ID, Name: p.Name, Issuer: p.Issuer, ClientId: p.ClientID, HasClientSecret: len(p.Sealed) > 0, Domains: []api.IdentityDomain{},
		AutoEnrolRole: enrolOut(p.AutoEnrolRole), Enabled: p.Enabled, OwnerApproved: p.OwnerApproved, RedirectUri: base + callbackPath, BackchannelLogoutUri: base + logoutPath,
		CreatedAt: at(p.CreatedAt), UpdatedAt: at(p.UpdatedAt), Revision: p.Revision}
	for _, d := range p.Domains {
		out.Domains = append(out.Domains, api.IdentityDomain{Domain: d.Name, VerifiedAt: atPtr(d.VerifiedAt), TxtName: d.TXTName(), TxtValue: d.Challenge})
	}
	return out
}

const enrolNone = "none"

func enrolOut(r tenant.Role) api.AutoEnrolRole {
	if r == "" {
		return enrolNone
	}
	return api.AutoEnrolRole(r)
}

func enrolIn(r api.AutoEnrolRole) tenant.Role {
	if r == enrolNone {
		return ""
	}
	return tenant.Role(r)
}

// ListIdentityProviders lists identity providers.
func (s *server) ListIdentityProviders(gc context.Context, r ListIdentityProvidersRequestObject) (ListIdentityProvidersResponseObject, error) {
	c, ctx := enter(gc)
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]federation.IdentityProvider, error) {
			return s.d.Federation.Providers(ctx, c.tenantID(), or(r.Params.Name, ""), p)
		},
		func(p federation.IdentityProvider) string { return p.ID }, func(p federation.IdentityProvider) api.IdentityProvider { return s.providerOut(c, p) })
	if err != nil {
		return nil, err
	}
	return ListIdentityProviders200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateIdentityProvider names an identity provider.
func (s *server) CreateIdentityProvider(gc context.Context, r CreateIdentityProviderRequestObject) (CreateIdentityProviderResponseObject, error) {
	c, ctx := enter(gc)
	in := federation.ProviderInput{Name: r.Body.Name, Issuer: r.Body.Issuer, ClientID: r.Body.ClientId, ClientSecret: or(r.Body.ClientSecret, ""),
		Domains: or(r.Body.Domains, nil), AutoEnrolRole: enrolIn(or(r.Body.AutoEnrolRole, enrolNone)), Enabled: or(r.Body.Enabled, true)}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.IdentityProvider, error) {
		p, err := s.d.Federation.CreateProvider(ctx, c.principal, in)
		c.touches("identity_provider", p.ID, "")
		return s.providerOut(c, p), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateIdentityProvider200JSONResponse(out), nil
	}
	return CreateIdentityProvider201JSONResponse{Body: out, Headers: CreateIdentityProvider201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/identity-providers/" + out.Id}}, nil
}

// GetIdentityProvider shows one identity provider.
func (s *server) GetIdentityProvider(gc context.Context, r GetIdentityProviderRequestObject) (GetIdentityProviderResponseObject, error) {
	c, ctx := enter(gc)
	p, err := s.d.Federation.Provider(ctx, c.tenantID(), r.Id)
	if err != nil {
		return nil, err
	}
	return GetIdentityProvider200JSONResponse{Body: s.providerOut(c, p), Headers: GetIdentityProvider200ResponseHeaders{ETag: etag(p.Revision)}}, nil
}

// UpdateIdentityProvider changes one identity provider.
func (s *server) UpdateIdentityProvider(gc context.Context, r UpdateIdentityProviderRequestObject) (UpdateIdentityProviderResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	u := federation.ProviderUpdate{Name: r.Body.Name, Issuer: r.Body.Issuer, ClientID: r.Body.ClientId, Domains: r.Body.Domains, Enabled: r.Body.Enabled}
	if r.Body.AutoEnrolRole != nil {
		u.AutoEnrolRole = new(enrolIn(*r.Body.AutoEnrolRole))
	}
	if r.Body.ClientSecret.IsSpecified() {
		secret, err := r.Body.ClientSecret.Get()
		if err != nil { // null
			secret = ""
		}
		u.ClientSecret = &secret
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.IdentityProvider, error) {
		c.touches("identity_provider", r.Id, "")
		p, err := s.d.Federation.UpdateProvider(ctx, c.principal, r.Id, u, want)
		return s.providerOut(c, p), err
	})
	if err != nil {
		return nil, err
	}
	return UpdateIdentityProvider200JSONResponse{Body: out, Headers: UpdateIdentityProvider200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// DeleteIdentityProvider forgets one identity provider.
func (s *server) DeleteIdentityProvider(gc context.Context, r DeleteIdentityProviderRequestObject) (DeleteIdentityProviderResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	_, err = write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		c.touches("identity_provider", r.Id, "")
		return struct{}{}, s.d.Federation.DeleteProvider(ctx, c.tenantID(), r.Id, want)
	})
	if err != nil {
		return nil, err
	}
	return DeleteIdentityProvider204Response{}, nil
}

// VerifyIdentityDomain looks for the TXT record of a domain. The look-up comes
// first: no transaction waits for DNS.
func (s *server) VerifyIdentityDomain(gc context.Context, r VerifyIdentityDomainRequestObject) (VerifyIdentityDomainResponseObject, error) {
	c, ctx := enter(gc)
	found, err := s.d.Federation.LookForDomain(ctx, c.tenantID(), r.Id, r.Body.Domain)
	if err != nil {
		return nil, err
	}
	out, err := write(ctx, s, c, nil, func(ctx context.Context) (api.IdentityProvider, error) {
		c.touches("identity_provider", r.Id, "")
		p, err := s.d.Federation.DomainVerified(ctx, c.tenantID(), r.Id, found)
		return s.providerOut(c, p), err
	})
	if err != nil {
		return nil, err
	}
	return VerifyIdentityDomain200JSONResponse{Body: out, Headers: VerifyIdentityDomain200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// UnlinkIdentity forgets which subject a member is.
func (s *server) UnlinkIdentity(gc context.Context, r UnlinkIdentityRequestObject) (UnlinkIdentityResponseObject, error) {
	c, ctx := enter(gc)
	_, err := write(ctx, s, c, nil, func(ctx context.Context) (struct{}, error) {
		c.touches("identity_provider", r.Id, "")
		return struct{}{}, s.d.Federation.Unlink(ctx, c.tenantID(), r.Id, r.Body.UserId)
	})
	if err != nil {
		return nil, err
	}
	return UnlinkIdentity204Response{}, nil
}
