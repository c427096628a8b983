package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

func workloadOut(w tenant.WorkloadIdentity) api.WorkloadIdentity {
	out := api.WorkloadIdentity{Id: w.ID, Name: w.Name, Issuer: w.Issuer, Audience: w.Audience, Subject: w.Subject, Conditions: w.Conditions,
		ServiceAccountId: w.ServiceAccountID, KeyId: w.KeyID, ControlRole: some(api.ControlRole(w.ControlRole)), Scopes: scopesOut(w.Scopes),
		MaxTtl: ttlOut(w.MaxTTL), Enabled: !w.Disabled, CreatedAt: at(w.CreatedAt), UpdatedAt: at(w.UpdatedAt), Revision: w.Revision}
	if out.Conditions == nil {
		out.Conditions = api.ClaimConditions{}
	}
	return out
}

func ttlOut(d time.Duration) api.WorkloadTTL {
	if d%time.Minute == 0 {
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

func ttlIn(text *string) (*time.Duration, error) {
	if text == nil {
		return nil, nil
	}
	d, err := time.ParseDuration(*text)
	if err != nil {
		return nil, errs.Field("max_ttl", "%q is no length of time; write it like 15m", *text)
	}
	return &d, nil
}

// ListWorkloadIdentities lists workload identities.
func (s *server) ListWorkloadIdentities(gc context.Context, r ListWorkloadIdentitiesRequestObject) (ListWorkloadIdentitiesResponseObject, error) {
	c, ctx := enter(gc)
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]tenant.WorkloadIdentity, error) {
			return s.d.Tenants.Workloads(ctx, c.tenantID(), or(r.Params.Name, ""), p)
		},
		func(w tenant.WorkloadIdentity) string { return w.ID }, workloadOut)
	if err != nil {
		return nil, err
	}
	return ListWorkloadIdentities200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateWorkloadIdentity makes a workload identity.
func (s *server) CreateWorkloadIdentity(gc context.Context, r CreateWorkloadIdentityRequestObject) (CreateWorkloadIdentityResponseObject, error) {
	c, ctx := enter(gc)
	ttl, err := ttlIn(r.Body.MaxTtl)
	if err != nil {
		return nil, err
	}
	scopes, err := scopesIn(r.Body.Scopes)
	if err != nil {
		return nil, err
	}
	if err := s.d.Federation.CheckIssuer(r.Body.Issuer); err != nil {
		return nil, err
	}
	role := tenant.Role(or(r.Body.ControlRole, ""))
	if err := auth.MayGrant(c.principal, r.Body.ServiceAccountId, role); err != nil {
		return nil, err
	}
	if err := c.mayScopes(r.Body.ServiceAccountId, scopes); err != nil {
		return nil, err
	}
	in := tenant.WorkloadIdentity{Name: r.Body.Name, Issuer: r.Body.Issuer, Audience: r.Body.Audience, Subject: r.Body.Subject, Conditions: or(r.Body.Conditions, nil),
		ServiceAccountID: r.Body.ServiceAccountId, ControlRole: role, Scopes: scopes, MaxTTL: or(ttl, tenant.MaxWorkloadTTL), Disabled: !or(r.Body.Enabled, true)}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.WorkloadIdentity, error) {
		w, err := s.d.Tenants.CreateWorkload(ctx, c.tenantID(), in)
		c.touches("workload_identity", w.ID, "")
		return workloadOut(w), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateWorkloadIdentity200JSONResponse(out), nil
	}
	return CreateWorkloadIdentity201JSONResponse{Body: out, Headers: CreateWorkloadIdentity201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/workload-identities/" + out.Id}}, nil
}

// GetWorkloadIdentity shows one workload identity.
func (s *server) GetWorkloadIdentity(gc context.Context, r GetWorkloadIdentityRequestObject) (GetWorkloadIdentityResponseObject, error) {
	c, ctx := enter(gc)
	w, err := s.d.Tenants.Workload(ctx, c.tenantID(), r.Id)
	if err != nil {
		return nil, err
	}
	return GetWorkloadIdentity200JSONResponse{Body: workloadOut(w), Headers: GetWorkloadIdentity200ResponseHeaders{ETag: etag(w.Revision)}}, nil
}

// UpdateWorkloadIdentity changes one workload identity.
func (s *server) UpdateWorkloadIdentity(gc context.Context, r UpdateWorkloadIdentityRequestObject) (UpdateWorkloadIdentityResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	ttl, err := ttlIn(r.Body.MaxTtl)
	if err != nil {
		return nil, err
	}
	u := tenant.WorkloadUpdate{Name: r.Body.Name, Issuer: r.Body.Issuer, Audience: r.Body.Audience, Subject: r.Body.Subject, Conditions: or(r.Body.Conditions, nil), MaxTTL: ttl}
	if r.Body.Issuer != nil {
		if err := s.d.Federation.CheckIssuer(*r.Body.Issuer); err != nil {
			return nil, err
		}
	}
	if r.Body.Enabled != nil {
		u.Disabled = new(!*r.Body.Enabled)
	}
	if r.Body.Scopes != nil {
		scopes, err := scopesIn(r.Body.Scopes)
		if err != nil {
			return nil, err
		}
		u.Scopes = &scopes
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.WorkloadIdentity, error) {
		c.touches("workload_identity", r.Id, "")
		if err := s.mayTrust(ctx, c, r.Id, u); err != nil {
			return api.WorkloadIdentity{}, err
		}
		w, err := s.d.Tenants.UpdateWorkload(ctx, c.tenantID(), r.Id, u, want)
		return workloadOut(w), err
	})
	if err != nil {
		return nil, err
	}
	return UpdateWorkloadIdentity200JSONResponse{Body: out, Headers: UpdateWorkloadIdentity200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// mayTrust keeps callers from changing who gets the tokens of a workload identity
// that may more than they, and what it may. To name it anew or to switch it off
// they need not have its rights.
func (s *server) mayTrust(ctx context.Context, c *call, id string, u tenant.WorkloadUpdate) error {
	if u.Issuer == nil && u.Audience == nil && u.Subject == nil && u.Conditions == nil && u.MaxTTL == nil && u.Scopes == nil && (u.Disabled == nil || *u.Disabled) {
		return nil
	}
	w, err := s.d.Tenants.Workload(ctx, c.tenantID(), id)
	if err != nil {
		return err
	}
	if err := c.mayCopy(w.ServiceAccountID, w.ControlRole, w.Scopes); err != nil || u.Scopes == nil {
		return err
	}
	return c.mayScopes(w.ServiceAccountID, *u.Scopes)
}

// DeleteWorkloadIdentity forgets one workload identity.
func (s *server) DeleteWorkloadIdentity(gc context.Context, r DeleteWorkloadIdentityRequestObject) (DeleteWorkloadIdentityResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	_, err = write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		c.touches("workload_identity", r.Id, "")
		return struct{}{}, s.d.Tenants.DeleteWorkload(ctx, c.tenantID(), r.Id, want)
	})
	if err != nil {
		return nil, err
	}
	return DeleteWorkloadIdentity204Response{}, nil
}
