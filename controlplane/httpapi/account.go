package httpapi

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// me describes the caller.
func (s *server) me(ctx context.Context, c *call) (api.Me, error) {
	p := c.principal
	out := api.Me{Id: p.ID, Type: api.PrincipalType(p.Kind), Name: p.Name, TenantId: p.TenantID, Role: api.Role(p.Role),
		Permissions: auth.Permissions(p), ApiKeyId: some(p.KeyID)}
	out.Bindings = []api.MeRight{}
	for _, r := range auth.Rights(p) {
		out.Bindings = append(out.Bindings, api.MeRight{Role: r.Role, Scope: scopeOut(r.Scope), Permissions: strs[auth.Permission, string](r.Permissions), ExpiresAt: atPtr(r.ExpiresAt)})
	}
	if p.Kind == auth.KindServiceAccount {
		a, err := s.d.Tenants.ServiceAccount(ctx, p.TenantID, p.ID)
		if err != nil {
			return out, err
		}
		out.Name, out.CreatedAt, out.UpdatedAt, out.Revision = a.Name, at(a.CreatedAt), at(a.UpdatedAt), a.Revision
		return out, nil
	}
	u, err := s.d.Auth.User(ctx, p)
	return withUser(out, u), err
}

func withUser(out api.Me, u auth.User) api.Me {
	locale := api.Locale(u.Locale)
	out.Name, out.Email, out.Locale = u.Name, &u.Email, &locale
	out.CreatedAt, out.UpdatedAt, out.Revision = at(u.CreatedAt), at(u.UpdatedAt), u.Revision
	return out
}

// GetMe tells who the caller is.
func (s *server) GetMe(gc context.Context, _ GetMeRequestObject) (GetMeResponseObject, error) {
	c, ctx := enter(gc)
	me, err := s.me(ctx, c)
	if err != nil {
		return nil, err
	}
	return GetMe200JSONResponse{Body: me, Headers: GetMe200ResponseHeaders{ETag: etag(me.Revision)}}, nil
}

// UpdateMe changes name or language of the caller.
func (s *server) UpdateMe(gc context.Context, r UpdateMeRequestObject) (UpdateMeResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	me, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Me, error) {
		u, err := s.d.Auth.UpdateUser(ctx, c.principal, auth.UserUpdate{Name: r.Body.Name, Locale: (*string)(r.Body.Locale)}, want)
		if err != nil {
			return api.Me{}, err
		}
		c.touches("user", u.ID, "")
		me, err := s.me(ctx, c)
		return withUser(me, u), err
	})
	if err != nil {
		return nil, err
	}
	return UpdateMe200JSONResponse{Body: me, Headers: UpdateMe200ResponseHeaders{ETag: etag(me.Revision)}}, nil
}

func tenantOut(t tenant.Tenant) api.Tenant {
	return api.Tenant{Id: t.ID, Name: t.Name, Status: api.TenantStatus(t.State), PlanId: t.Plan, Labels: labels(t.Labels),
		Security:  securityOut(t.Security),
		CreatedAt: at(t.CreatedAt), UpdatedAt: at(t.UpdatedAt), Revision: t.Revision}
}

func securityOut(s tenant.Security) api.TenantSecurity {
	out := api.TenantSecurity{MfaRequired: s.MFARequired, SsoRequired: s.SSORequired}
	if s.MaxKeyAge > 0 {
		out.MaxKeyAge = some(string(catalog.DurationOf(s.MaxKeyAge)))
	}
	return out
}

func securityIn(in *api.TenantSecurityUpdate) (tenant.SecurityUpdate, error) {
	if in == nil {
		return tenant.SecurityUpdate{}, nil
	}
	out := tenant.SecurityUpdate{MFARequired: in.MfaRequired, SSORequired: in.SsoRequired}
	if !in.MaxKeyAge.IsSpecified() {
		return out, nil
	}
	var age time.Duration // null: no limit
	if text, err := in.MaxKeyAge.Get(); err == nil {
		var ok bool
		if age, ok = catalog.Duration(text).Parse(); !ok || age == 0 {
			return out, errs.Field("security.max_key_age", "%q is no length of time above zero; write it like 2160h, or null for no limit", text)
		}
	}
	out.MaxKeyAge = &age
	return out, nil
}

// GetTenant shows the tenant of the caller.
func (s *server) GetTenant(gc context.Context, _ GetTenantRequestObject) (GetTenantResponseObject, error) {
	c, ctx := enter(gc)
	t, err := s.d.Tenants.Tenant(ctx, c.tenantID())
	if err != nil {
		return nil, err
	}
	return GetTenant200JSONResponse{Body: tenantOut(t), Headers: GetTenant200ResponseHeaders{ETag: etag(t.Revision)}}, nil
}

// UpdateTenant changes the tenant of the caller.
func (s *server) UpdateTenant(gc context.Context, r UpdateTenantRequestObject) (UpdateTenantResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	security, err := securityIn(r.Body.Security)
	if err != nil {
		return nil, err
	}
	if r.Body.Security != nil {
		if err := s.d.Auth.Fresh(ctx, c.principal); err != nil {
			return nil, err
		}
	}
	t, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Tenant, error) {
		c.touches("tenant", c.tenantID(), "")
		if isTrue(security.SSORequired) {
			if err := s.d.Federation.Enforce(ctx, c.tenantID()); err != nil {
				return api.Tenant{}, err
			}
		}
		t, err := s.d.Tenants.UpdateTenant(ctx, c.tenantID(), tenant.TenantUpdate{Name: r.Body.Name, Labels: or(r.Body.Labels, nil), Security: security}, want)
		return tenantOut(t), err
	})
	if err != nil {
		return nil, err
	}
	return UpdateTenant200JSONResponse{Body: t, Headers: UpdateTenant200ResponseHeaders{ETag: etag(t.Revision)}}, nil
}
