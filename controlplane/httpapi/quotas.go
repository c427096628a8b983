package httpapi

import (
	"context"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/tenant"
)

func quotasOut(in []tenant.Quota) []api.Quota {
	out := make([]api.Quota, len(in))
	for i, q := range in {
		out[i] = api.Quota{Id: q.Scope + "/" + q.Name, Name: q.Name, Scope: q.Scope, Kind: api.QuotaKind(q.Kind), Unit: q.Unit, Limit: q.Limit, Used: q.Used,
			Source: api.QuotaSource(q.Source), CreatedAt: at(q.Since), UpdatedAt: at(q.Since), Revision: q.Revision}
	}
	return out
}

func quotaID(q api.Quota) string { return q.Id }

// ListTenantQuotas shows the limits of the tenant.
func (s *server) ListTenantQuotas(gc context.Context, r ListTenantQuotasRequestObject) (ListTenantQuotasResponseObject, error) {
	c, ctx := enter(gc)
	quotas, err := s.d.Tenants.Quotas(ctx, c.tenantID(), "")
	if err != nil {
		return nil, err
	}
	items, next, err := whole(s, c, r.Params.PageSize, r.Params.PageToken, quotasOut(quotas), quotaID)
	if err != nil {
		return nil, err
	}
	return ListTenantQuotas200JSONResponse{Items: items, NextPageToken: next}, nil
}

// ListNamespaceQuotas shows the limits of a namespace.
func (s *server) ListNamespaceQuotas(gc context.Context, r ListNamespaceQuotasRequestObject) (ListNamespaceQuotasResponseObject, error) {
	c, ctx := enter(gc)
	quotas, err := s.d.Tenants.Quotas(ctx, c.tenantID(), r.Ns)
	if err != nil {
		return nil, err
	}
	items, next, err := whole(s, c, r.Params.PageSize, r.Params.PageToken, quotasOut(quotas), quotaID)
	if err != nil {
		return nil, err
	}
	return ListNamespaceQuotas200JSONResponse{Items: items, NextPageToken: next}, nil
}
