package httpapi

import (
	"context"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
)

// ListTenants lists the tenants of the caller.
func (s *server) ListTenants(gc context.Context, r ListTenantsRequestObject) (ListTenantsResponseObject, error) {
	c, ctx := enter(gc)
	list, err := s.d.Auth.Memberships(ctx, c.principal)
	if err != nil {
		return nil, err
	}
	items := make([]api.OwnTenant, len(list))
	for i, m := range list {
		items[i] = api.OwnTenant{Id: m.TenantID, Name: m.Name, Status: api.TenantStatus(m.State), Role: api.Role(m.Role), Current: m.TenantID == c.tenantID(),
			CreatedAt: at(m.CreatedAt), UpdatedAt: at(m.UpdatedAt), Revision: m.Revision}
	}
	items, next, err := whole(s, c, r.Params.PageSize, r.Params.PageToken, items, func(t api.OwnTenant) string { return t.Id })
	if err != nil {
		return nil, err
	}
	return ListTenants200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateTenant makes a further tenant.
func (s *server) CreateTenant(gc context.Context, r CreateTenantRequestObject) (CreateTenantResponseObject, error) {
	c, ctx := enter(gc)
	out, err := writeOwn(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Founded, error) {
		b, err := s.d.Auth.Found(ctx, c.principal, r.Body.Name)
		c.touches("tenant", b.TenantID, "")
		return api.Founded{TenantId: b.TenantID, NamespaceId: b.NamespaceID, Topic: b.Topic, Group: b.Group, ApiKey: api.IssuedKey{Id: b.KeyID, Secret: b.Secret}}, err
	})
	if err != nil {
		return nil, err
	}
	return CreateTenant201JSONResponse(out), nil
}

// SwitchTenant goes on in another tenant of the caller.
func (s *server) SwitchTenant(gc context.Context, r SwitchTenantRequestObject) (SwitchTenantResponseObject, error) {
	c, ctx := enter(gc)
	c.touches("session", c.principal.SessionID, "")
	var g auth.Grant
	g, err := s.d.Auth.Switch(ctx, c.principal, r.Body.TenantId, c.device(), s.note(c))
	if err != nil {
		return nil, err
	}
	s.setRefresh(c, g.RefreshToken, g.RefreshExpiry)
	return SwitchTenant200JSONResponse(session(g)), nil
}
