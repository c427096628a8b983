package httpapi

import (
	"context"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/tenant"
)

func serviceAccountOut(a tenant.ServiceAccount) api.ServiceAccount {
	return api.ServiceAccount{Id: a.ID, Name: a.Name, Description: a.Description, Disabled: a.Disabled, Bound: a.Bound, Labels: labels(a.Labels),
		CreatedAt: at(a.CreatedAt), UpdatedAt: at(a.UpdatedAt), Revision: a.Revision}
}

// ListServiceAccounts lists service accounts.
func (s *server) ListServiceAccounts(gc context.Context, r ListServiceAccountsRequestObject) (ListServiceAccountsResponseObject, error) {
	c, ctx := enter(gc)
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]tenant.ServiceAccount, error) {
			return s.d.Tenants.ServiceAccounts(ctx, c.tenantID(), or(r.Params.Name, ""), p)
		},
		func(a tenant.ServiceAccount) string { return a.ID }, serviceAccountOut)
	if err != nil {
		return nil, err
	}
	return ListServiceAccounts200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateServiceAccount makes a service account.
func (s *server) CreateServiceAccount(gc context.Context, r CreateServiceAccountRequestObject) (CreateServiceAccountResponseObject, error) {
	c, ctx := enter(gc)
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.ServiceAccount, error) {
		a, err := s.d.Tenants.CreateServiceAccount(ctx, c.tenantID(), tenant.ServiceAccount{Name: r.Body.Name, Description: or(r.Body.Description, ""),
			Disabled: isTrue(r.Body.Disabled), Labels: or(r.Body.Labels, nil)})
		c.touches("service_account", a.ID, "")
		return serviceAccountOut(a), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateServiceAccount200JSONResponse(out), nil
	}
	return CreateServiceAccount201JSONResponse{Body: out, Headers: CreateServiceAccount201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/service-accounts/" + out.Id}}, nil
}

// GetServiceAccount shows one service account.
func (s *server) GetServiceAccount(gc context.Context, r GetServiceAccountRequestObject) (GetServiceAccountResponseObject, error) {
	c, ctx := enter(gc)
	a, err := s.d.Tenants.ServiceAccount(ctx, c.tenantID(), r.Id)
	if err != nil {
		return nil, err
	}
	return GetServiceAccount200JSONResponse{Body: serviceAccountOut(a), Headers: GetServiceAccount200ResponseHeaders{ETag: etag(a.Revision)}}, nil
}

// UpdateServiceAccount changes one service account.
func (s *server) UpdateServiceAccount(gc context.Context, r UpdateServiceAccountRequestObject) (UpdateServiceAccountResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.ServiceAccount, error) {
		c.touches("service_account", r.Id, "")
		a, err := s.d.Tenants.UpdateServiceAccount(ctx, c.tenantID(), r.Id, tenant.ServiceAccountUpdate{Name: r.Body.Name, Description: r.Body.Description,
			Disabled: r.Body.Disabled, Labels: or(r.Body.Labels, nil)}, want)
		return serviceAccountOut(a), err
	})
	if err != nil {
		return nil, err
	}
	return UpdateServiceAccount200JSONResponse{Body: out, Headers: UpdateServiceAccount200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// DeleteServiceAccount removes one service account with its keys.
func (s *server) DeleteServiceAccount(gc context.Context, r DeleteServiceAccountRequestObject) (DeleteServiceAccountResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	_, err = write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		c.touches("service_account", r.Id, "")
		return struct{}{}, s.d.Tenants.DeleteServiceAccount(ctx, c.tenantID(), r.Id, want)
	})
	if err != nil {
		return nil, err
	}
	return DeleteServiceAccount204Response{}, nil
}
