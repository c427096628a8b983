package httpapi

import (
	"context"
	"net/netip"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

func aclOut(r tenant.Rule) api.Acl {
	out := api.Acl{Id: r.ID, NamespaceId: r.NamespaceID, Effect: api.AclEffect(r.Effect), Principal: r.Principal, Resource: api.AclResource(r.Resource),
		Pattern: r.Pattern, Operations: strs[tenant.Permission, api.KeyPermission](r.Operations), Cidrs: []api.Cidr{}, ExpiresAt: atPtr(r.ExpiresAt),
		Description: r.Description, Status: status(r.Status), CreatedAt: at(r.CreatedAt), UpdatedAt: at(r.UpdatedAt), Revision: r.Revision}
	for _, p := range r.CIDRs {
		out.Cidrs = append(out.Cidrs, p.String())
	}
	return out
}

// ListAcls lists the rules of a namespace.
func (s *server) ListAcls(gc context.Context, r ListAclsRequestObject) (ListAclsResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	f := tenant.RuleFilter{Principal: or(r.Params.Principal, ""), Resource: tenant.ResourceKind(or(r.Params.Resource, ""))}
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]tenant.Rule, error) {
			return s.d.Tenants.Rules(ctx, c.tenantID(), r.Ns, f, p)
		},
		func(r tenant.Rule) string { return r.ID }, aclOut)
	if err != nil {
		return nil, err
	}
	return ListAcls200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateAcl adds a rule.
func (s *server) CreateAcl(gc context.Context, r CreateAclRequestObject) (CreateAclResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	cidrs, err := tenant.ParseCIDRs("cidrs", or(r.Body.Cidrs, nil))
	if err != nil {
		return nil, err
	}
	in := tenant.Rule{Effect: tenant.Effect(r.Body.Effect), Principal: r.Body.Principal, Resource: tenant.ResourceKind(r.Body.Resource), Pattern: r.Body.Pattern,
		Operations: strs[api.KeyPermission, tenant.Permission](r.Body.Operations), CIDRs: cidrs, ExpiresAt: timeOf(r.Body.ExpiresAt), Description: or(r.Body.Description, "")}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Acl, error) {
		if err := c.mayLoosen(r.Ns, tenant.Rule{}, in); err != nil {
			return api.Acl{}, err
		}
		rule, err := s.d.Tenants.CreateRule(ctx, c.tenantID(), r.Ns, in)
		c.touches("acl", rule.ID, r.Ns)
		return aclOut(rule), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateAcl200JSONResponse(out), nil
	}
	if out, err = s.awaitAcl(ctx, c, out, r.Params.Wait); err != nil {
		return nil, err
	}
	return CreateAcl201JSONResponse{Body: out, Headers: CreateAcl201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/namespaces/" + r.Ns + "/acls/" + out.Id}}, nil
}

// awaitAcl waits until brokers have the rule, if that was asked for.
func (s *server) awaitAcl(ctx context.Context, c *call, out api.Acl, wait *string) (api.Acl, error) { //nolint:revive // as the contract spells it
	d := waiting(wait)
	if d == 0 {
		return out, nil
	}
	if err := s.d.Catalog.Wait(ctx, catalog.KindRule, out.Id, out.Revision, d); err != nil {
		return out, err
	}
	rule, err := s.d.Tenants.Rule(ctx, c.tenantID(), out.NamespaceId, out.Id)
	if errs.Is(err, errs.NotFound) {
		return out, nil // taken away meanwhile
	}
	out.Status = status(rule.Status)
	return out, err
}

// GetAcl shows one rule.
func (s *server) GetAcl(gc context.Context, r GetAclRequestObject) (GetAclResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	rule, err := s.d.Tenants.Rule(ctx, c.tenantID(), r.Ns, r.Id)
	if err != nil {
		return nil, err
	}
	return GetAcl200JSONResponse{Body: aclOut(rule), Headers: GetAcl200ResponseHeaders{ETag: etag(rule.Revision)}}, nil
}

// UpdateAcl changes one rule.
func (s *server) UpdateAcl(gc context.Context, r UpdateAclRequestObject) (UpdateAclResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	u := tenant.RuleUpdate{Effect: (*tenant.Effect)(r.Body.Effect), Pattern: r.Body.Pattern, Description: r.Body.Description}
	if r.Body.Operations != nil {
		u.Operations = strs[api.KeyPermission, tenant.Permission](*r.Body.Operations)
	}
	if r.Body.Cidrs != nil {
		cidrs, err := tenant.ParseCIDRs("cidrs", *r.Body.Cidrs)
		if err != nil {
			return nil, err
		}
		u.CIDRs = &cidrs
	}
	if r.Body.ExpiresAt.IsSpecified() {
		var end *time.Time
		if v, err := r.Body.ExpiresAt.Get(); err == nil {
			end = timeOf(&v)
		}
		u.ExpiresAt = &end
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Acl, error) {
		c.touches("acl", r.Id, r.Ns)
		was, err := s.d.Tenants.Rule(ctx, c.tenantID(), r.Ns, r.Id)
		if err != nil {
			return api.Acl{}, err
		}
		rule, err := s.d.Tenants.UpdateRule(ctx, c.tenantID(), r.Ns, r.Id, u, want)
		if err != nil {
			return api.Acl{}, err
		}
		if err := c.mayLoosen(r.Ns, was, rule); err != nil {
			return api.Acl{}, err
		}
		return aclOut(rule), nil
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if out, err = s.awaitAcl(ctx, c, out, r.Params.Wait); err != nil {
			return nil, err
		}
	}
	return UpdateAcl200JSONResponse{Body: out, Headers: UpdateAcl200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// DeleteAcl takes one rule away.
func (s *server) DeleteAcl(gc context.Context, r DeleteAclRequestObject) (DeleteAclResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	revision, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (int64, error) {
		c.touches("acl", r.Id, r.Ns)
		was, err := s.d.Tenants.Rule(ctx, c.tenantID(), r.Ns, r.Id)
		if err != nil {
			return 0, err
		}
		if err := c.mayLoosen(r.Ns, was, tenant.Rule{}); err != nil {
			return 0, err
		}
		rule, err := s.d.Tenants.DeleteRule(ctx, c.tenantID(), r.Ns, r.Id, want)
		return rule.Revision, err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if err := s.d.Catalog.Wait(ctx, catalog.KindRule, r.Id, revision, waiting(r.Params.Wait)); err != nil {
			return nil, err
		}
	}
	return DeleteAcl204Response{}, nil
}

// TestAcl tells what brokers would decide, and why.
func (s *server) TestAcl(gc context.Context, r TestAclRequestObject) (TestAclResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	q := catalog.AccessQuestion{Resource: tenant.ResourceKind(r.Body.Resource), Name: r.Body.Name, Operation: tenant.Permission(r.Body.Operation), Now: s.d.Now()}
	if r.Body.SourceIp != nil {
		var err error
		if q.Remote, err = netip.ParseAddr(*r.Body.SourceIp); err != nil {
			return nil, errs.Field("source_ip", "%q is no address", *r.Body.SourceIp)
		}
	}
	var err error
	if q.Key, q.State, err = s.keyAtBrokers(ctx, c.tenantID(), r.Body.Principal); err != nil {
		return nil, err
	}
	judge, err := s.judge(ctx, c.tenantID(), r.Ns, tenant.RulesAbout([]tenant.ID{q.Key.ID, q.Key.OwnerID}, q.Resource, q.Name))
	if err != nil {
		return nil, err
	}
	d, err := judge(q)
	if err != nil {
		return nil, err
	}
	return TestAcl200JSONResponse{Allowed: d.Allowed, DecidedBy: api.AclDecider(d.DecidedBy), RuleId: some(d.RuleID), Reason: d.Reason}, nil
}
