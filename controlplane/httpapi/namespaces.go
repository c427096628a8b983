package httpapi

import (
	"context"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/tenant"
)

// endpoints knows where clients of each cluster connect.
type endpoints map[string]catalog.Cluster

func (s *server) endpoints(ctx context.Context) (endpoints, error) {
	list, err := s.d.Catalog.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	out := endpoints{}
	for _, cl := range list {
		out[cl.ID] = cl
	}
	return out, nil
}

func (s *server) namespaceOut(c *call, where endpoints, n tenant.Namespace) api.Namespace {
	cl := where[n.ClusterID]
	return api.Namespace{Id: n.ID, Name: n.Name, Region: cl.Name, Description: n.Description, Labels: labels(n.Labels), StrictTypes: n.StrictTypes,
		MaxSendTps: int32(n.MaxSendTPS), MaxRecvTps: int32(n.MaxReceiveTPS), DeletionProtection: n.DeletionProtection, //nolint:gosec // limited by the contract
		Endpoints: api.Endpoints{Remoting: cl.RemotingEndpoint, Grpc: cl.GRPCEndpoint, Http: s.base(c.gin.Request)},
		Status:    status(n.Status), CreatedAt: at(n.CreatedAt), UpdatedAt: at(n.UpdatedAt), Revision: n.Revision}
}

// ListNamespaces lists namespaces.
func (s *server) ListNamespaces(gc context.Context, r ListNamespacesRequestObject) (ListNamespacesResponseObject, error) {
	c, ctx := enter(gc)
	where, err := s.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]tenant.Namespace, error) {
			return only(p, func(p tenant.Page) ([]tenant.Namespace, error) {
				return s.d.Tenants.Namespaces(ctx, c.tenantID(), or(r.Params.Name, ""), p)
			}, func(n tenant.Namespace) tenant.ID { return n.ID }, func(n tenant.Namespace) error {
				return auth.MayOn(c.principal, c.op.permission, auth.Resource{NamespaceID: n.ID, Any: true})
			})
		},
		func(n tenant.Namespace) string { return n.ID },
		func(n tenant.Namespace) api.Namespace { return s.namespaceOut(c, where, n) })
	if err != nil {
		return nil, err
	}
	return ListNamespaces200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateNamespace makes a namespace.
func (s *server) CreateNamespace(gc context.Context, r CreateNamespaceRequestObject) (CreateNamespaceResponseObject, error) {
	c, ctx := enter(gc)
	where, err := s.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	cluster, err := s.d.Catalog.Place(ctx, or(r.Body.Region, ""))
	if err != nil {
		return nil, err
	}
	in := tenant.Namespace{ClusterID: cluster.ID, Name: r.Body.Name, Description: or(r.Body.Description, ""), Labels: or(r.Body.Labels, nil),
		StrictTypes: isTrue(r.Body.StrictTypes), MaxSendTPS: int64(or(r.Body.MaxSendTps, 0)), MaxReceiveTPS: int64(or(r.Body.MaxRecvTps, 0)),
		DeletionProtection: isTrue(r.Body.DeletionProtection)}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Namespace, error) {
		n, err := s.d.Tenants.CreateNamespace(ctx, c.tenantID(), in)
		c.touches("namespace", n.ID, n.ID)
		return s.namespaceOut(c, where, n), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateNamespace200JSONResponse(out), nil
	}
	if out, err = s.awaitNamespace(ctx, c, where, out, r.Params.Wait); err != nil {
		return nil, err
	}
	return CreateNamespace201JSONResponse{Body: out, Headers: CreateNamespace201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/namespaces/" + out.Id}}, nil
}

func (s *server) awaitNamespace(ctx context.Context, c *call, where endpoints, out api.Namespace, wait *string) (api.Namespace, error) {
	d := waiting(wait)
	if d == 0 {
		return out, nil
	}
	if err := s.d.Catalog.Wait(ctx, catalog.KindNamespace, out.Id, out.Revision, d); err != nil {
		return out, err
	}
	n, err := s.d.Tenants.Namespace(ctx, c.tenantID(), out.Id)
	if err != nil {
		return out, err
	}
	return s.namespaceOut(c, where, n), nil
}

// GetNamespace shows one namespace.
func (s *server) GetNamespace(gc context.Context, r GetNamespaceRequestObject) (GetNamespaceResponseObject, error) {
	c, ctx := enter(gc)
	n, err := s.d.Tenants.Namespace(ctx, c.tenantID(), r.Ns)
	if err != nil {
		return nil, err
	}
	where, err := s.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	return GetNamespace200JSONResponse{Body: s.namespaceOut(c, where, n), Headers: GetNamespace200ResponseHeaders{ETag: etag(n.Revision)}}, nil
}

// UpdateNamespace changes one namespace.
func (s *server) UpdateNamespace(gc context.Context, r UpdateNamespaceRequestObject) (UpdateNamespaceResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	where, err := s.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	u := tenant.NamespaceUpdate{Name: r.Body.Name, Description: r.Body.Description, Labels: or(r.Body.Labels, nil), StrictTypes: r.Body.StrictTypes,
		MaxSendTPS: wide(r.Body.MaxSendTps), MaxReceiveTPS: wide(r.Body.MaxRecvTps), DeletionProtection: r.Body.DeletionProtection}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Namespace, error) {
		c.touches("namespace", r.Ns, r.Ns)
		n, err := s.d.Tenants.UpdateNamespace(ctx, c.tenantID(), r.Ns, u, want)
		return s.namespaceOut(c, where, n), err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if out, err = s.awaitNamespace(ctx, c, where, out, r.Params.Wait); err != nil {
			return nil, err
		}
	}
	return UpdateNamespace200JSONResponse{Body: out, Headers: UpdateNamespace200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// DeleteNamespace removes one empty namespace.
func (s *server) DeleteNamespace(gc context.Context, r DeleteNamespaceRequestObject) (DeleteNamespaceResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	revision, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (int64, error) {
		c.touches("namespace", r.Ns, r.Ns)
		n, err := s.d.Tenants.DeleteNamespace(ctx, c.tenantID(), r.Ns, want)
		return n.Revision, err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if err := s.d.Catalog.Wait(ctx, catalog.KindNamespace, r.Ns, revision, waiting(r.Params.Wait)); err != nil {
			return nil, err
		}
	}
	return DeleteNamespace204Response{}, nil
}
