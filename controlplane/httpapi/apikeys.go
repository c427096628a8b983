package httpapi

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

func (s *server) keyOut(k tenant.APIKey) api.ApiKey {
	out := api.ApiKey{Id: k.ID, OwnerId: k.OwnerID, Name: k.Name, Description: k.Description,
		ControlRole: some(api.ControlRole(k.ControlRole)), ExpiresAt: atPtr(k.Ends()), Disabled: k.Disabled, State: api.ApiKeyState(k.State(s.d.Now())),
		Hint: k.Hint, LastUsedAt: atPtr(k.LastUsedAt), RevokedAt: atPtr(k.RevokedAt), ReplacesKeyId: some(k.Replaces), ReplacedByKeyId: some(k.ReplacedBy),
		Status: status(k.Status), CreatedAt: at(k.CreatedAt), UpdatedAt: at(k.UpdatedAt), Revision: k.Revision}
	if k.LastUsedAt != nil {
		out.LastUsed = &api.ApiKeyUse{At: at(k.LastUse.At), Address: some(k.LastUse.Address), Operation: some(k.LastUse.Operation), Topic: some(k.LastUse.Topic)}
	}
	out.RevokedReason = some(api.ApiKeyRevokedReason(k.RevokedReason))
	out.Scopes, out.WorkloadIdentityId = scopesOut(k.Scopes), some(k.WorkloadID)
	out.AllowedCidrs = cidrsOut(k.AllowedCIDRs)
	return out
}

func cidrsOut(in []netip.Prefix) []api.Cidr {
	out := make([]api.Cidr, len(in))
	for i, p := range in {
		out[i] = p.String()
	}
	return out
}

func scopesOut(scopes []tenant.Scope) []api.ApiKeyScope {
	out := []api.ApiKeyScope{}
	for _, sc := range scopes {
		scope := api.ApiKeyScope{NamespaceId: sc.NamespaceID, Permissions: strs[tenant.Permission, api.KeyPermission](sc.Permissions)}
		if len(sc.Topics) > 0 {
			scope.Topics = &sc.Topics
		}
		if len(sc.Groups) > 0 {
			scope.Groups = &sc.Groups
		}
		if len(sc.CIDRs) > 0 {
			cidrs := cidrsOut(sc.CIDRs)
			scope.Cidrs = &cidrs
		}
		scope.ExpiresAt = atPtr(sc.ExpiresAt)
		out = append(out, scope)
	}
	return out
}

func scopesIn(in *[]api.ApiKeyScope) ([]tenant.Scope, error) {
	var out []tenant.Scope
	for i, sc := range or(in, nil) {
		cidrs, err := tenant.ParseCIDRs(fmt.Sprintf("scopes[%d].cidrs", i), or(sc.Cidrs, nil))
		if err != nil {
			return nil, err
		}
		out = append(out, tenant.Scope{NamespaceID: sc.NamespaceId, Permissions: strs[api.KeyPermission, tenant.Permission](sc.Permissions),
			Topics: or(sc.Topics, nil), Groups: or(sc.Groups, nil), CIDRs: cidrs, ExpiresAt: timeOf(sc.ExpiresAt)})
	}
	return out, nil
}

// ListApiKeys lists keys.
func (s *server) ListApiKeys(gc context.Context, r ListApiKeysRequestObject) (ListApiKeysResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	f := tenant.KeyFilter{Name: or(r.Params.Name, ""), OwnerID: or(r.Params.OwnerId, ""), NamespaceID: or(r.Params.NamespaceId, ""),
		State: tenant.KeyState(or(r.Params.State, ""))}
	if c.ownKeysOnly() {
		if f.OwnerID != "" && f.OwnerID != c.principal.ID {
			return ListApiKeys200JSONResponse{Items: []api.ApiKey{}}, nil
		}
		f.OwnerID = c.principal.ID
	}
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]tenant.APIKey, error) { return s.d.Tenants.Keys(ctx, c.tenantID(), f, p) },
		func(k tenant.APIKey) string { return k.ID }, s.keyOut)
	if err != nil {
		return nil, err
	}
	return ListApiKeys200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateApiKey makes a key.
func (s *server) CreateApiKey(gc context.Context, r CreateApiKeyRequestObject) (CreateApiKeyResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	cidrs, err := tenant.ParseCIDRs("allowed_cidrs", or(r.Body.AllowedCidrs, nil))
	if err != nil {
		return nil, err
	}
	scopes, err := scopesIn(r.Body.Scopes)
	if err != nil {
		return nil, err
	}
	role := tenant.Role(or(r.Body.ControlRole, ""))
	owner := or(r.Body.OwnerId, c.principal.ID)
	if c.ownKeysOnly() && owner != c.principal.ID {
		return nil, errs.Field("owner_id", "with a role in a part of the tenant you make keys of your own only")
	}
	if err := auth.MayGrant(c.principal, owner, role); err != nil {
		return nil, err
	}
	if err := c.mayScopes(owner, scopes); err != nil {
		return nil, err
	}
	in := tenant.KeyCreate{OwnerID: owner, Name: r.Body.Name, Description: or(r.Body.Description, ""), Scopes: scopes,
		ControlRole: role, ExpiresAt: timeOf(r.Body.ExpiresAt), AllowedCIDRs: cidrs, Secret: or(r.Body.Secret, "")}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.ApiKeyWithSecret, error) {
		k, secret, err := s.d.Tenants.CreateKey(ctx, c.tenantID(), in)
		c.touches("api_key", k.ID, "")
		return s.keyOut(k).WithSecret(secret), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateApiKey200JSONResponse(out.WithoutSecret()), nil
	}
	if out.Status, err = s.keyStatus(ctx, c, out.Id, out.Revision, waiting(r.Params.Wait), out.Status); err != nil {
		return nil, err
	}
	return CreateApiKey201JSONResponse{Body: out, Headers: CreateApiKey201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/api-keys/" + out.Id}}, nil
}

// keyStatus waits for brokers if asked to, and reads how far they are.
func (s *server) keyStatus(ctx context.Context, c *call, id string, revision int64, wait time.Duration, was api.ResourceStatus) (api.ResourceStatus, error) {
	if wait == 0 {
		return was, nil
	}
	if err := s.d.Catalog.Wait(ctx, catalog.KindKey, id, revision, wait); err != nil {
		return was, err
	}
	k, err := s.d.Tenants.Key(ctx, c.tenantID(), id)
	if errs.Is(err, errs.NotFound) {
		return was, nil // deleted meanwhile
	}
	return status(k.Status), err
}

// GetApiKey shows one key.
func (s *server) GetApiKey(gc context.Context, r GetApiKeyRequestObject) (GetApiKeyResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	k, err := s.d.Tenants.Key(ctx, c.tenantID(), r.Id)
	if err == nil {
		err = c.mayKey(k)
	}
	if err != nil {
		return nil, err
	}
	return GetApiKey200JSONResponse{Body: s.keyOut(k), Headers: GetApiKey200ResponseHeaders{ETag: etag(k.Revision)}}, nil
}

// UpdateApiKey changes one key.
func (s *server) UpdateApiKey(gc context.Context, r UpdateApiKeyRequestObject) (UpdateApiKeyResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	u := tenant.KeyUpdate{Name: r.Body.Name, Description: r.Body.Description, Disabled: r.Body.Disabled}
	if r.Body.Scopes != nil {
		scopes, err := scopesIn(r.Body.Scopes)
		if err != nil {
			return nil, err
		}
		u.Scopes = &scopes
	}
	if r.Body.AllowedCidrs != nil {
		cidrs, err := tenant.ParseCIDRs("allowed_cidrs", *r.Body.AllowedCidrs)
		if err != nil {
			return nil, err
		}
		u.AllowedCIDRs = &cidrs
	}
	if r.Body.ExpiresAt.IsSpecified() {
		var end *time.Time
		if v, err := r.Body.ExpiresAt.Get(); err == nil {
			end = timeOf(&v)
		}
		u.ExpiresAt = &end
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.ApiKey, error) {
		c.touches("api_key", r.Id, "")
		if err := s.mayTouch(ctx, c, r.Id); err != nil {
			return api.ApiKey{}, err
		}
		if u.Scopes != nil {
			k, err := s.d.Tenants.Key(ctx, c.tenantID(), r.Id)
			if err != nil {
				return api.ApiKey{}, err
			}
			if err := c.mayScopes(k.OwnerID, *u.Scopes); err != nil {
				return api.ApiKey{}, err
			}
		}
		k, err := s.d.Tenants.UpdateKey(ctx, c.tenantID(), r.Id, u, want)
		return s.keyOut(k), err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if out.Status, err = s.keyStatus(ctx, c, out.Id, out.Revision, waiting(r.Params.Wait), out.Status); err != nil {
			return nil, err
		}
	}
	return UpdateApiKey200JSONResponse{Body: out, Headers: UpdateApiKey200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// mayTouch keeps callers from changing keys whose control role may more than
// they.
func (s *server) mayTouch(ctx context.Context, c *call, id string) error {
	k, err := s.d.Tenants.Key(ctx, c.tenantID(), id)
	if err != nil {
		return err
	}
	if err := c.mayKey(k); err != nil {
		return err
	}
	return auth.MayGrant(c.principal, k.OwnerID, k.ControlRole)
}

// DeleteApiKey revokes and forgets one key.
func (s *server) DeleteApiKey(gc context.Context, r DeleteApiKeyRequestObject) (DeleteApiKeyResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	k, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.ApiKey, error) {
		c.touches("api_key", r.Id, "")
		if err := s.mayTouch(ctx, c, r.Id); err != nil {
			return api.ApiKey{}, err
		}
		k, err := s.d.Tenants.DeleteKey(ctx, c.tenantID(), r.Id, want)
		return s.keyOut(k), err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if err := s.d.Catalog.Wait(ctx, catalog.KindKey, k.Id, k.Revision, waiting(r.Params.Wait)); err != nil {
			return nil, err
		}
	}
	return DeleteApiKey204Response{}, nil
}

const maxGrace = 168 * time.Hour

// RotateApiKey replaces a key by a new one.
func (s *server) RotateApiKey(gc context.Context, r RotateApiKeyRequestObject) (RotateApiKeyResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	var body api.ApiKeyRotate
	if r.Body != nil {
		body = *r.Body
	}
	grace, ok := catalog.Duration(or(body.GracePeriod, "0s")).Parse()
	if !ok || grace > maxGrace {
		e := errs.Field("grace_period", "grace_period is %s; it must be 0s to 168h", or(body.GracePeriod, ""))
		e.Limit = "168h"
		return nil, e
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.ApiKeyWithSecret, error) {
		old, err := s.d.Tenants.Key(ctx, c.tenantID(), r.Id)
		if err == nil {
			err = c.mayKey(old)
		}
		if err == nil { // the new key is a copy, and its secret is the caller's
			err = c.mayCopy(old.OwnerID, old.ControlRole, old.Scopes)
		}
		if err != nil {
			return api.ApiKeyWithSecret{}, err
		}
		k, secret, err := s.d.Tenants.RotateKey(ctx, c.tenantID(), r.Id, tenant.KeyRotate{Grace: grace, ExpiresAt: timeOf(body.ExpiresAt), Secret: or(body.Secret, "")}, want)
		c.touches("api_key", r.Id, "")
		return s.keyOut(k).WithSecret(secret), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return RotateApiKey200JSONResponse(out.WithoutSecret()), nil
	}
	if out.Status, err = s.keyStatus(ctx, c, out.Id, out.Revision, waiting(r.Params.Wait), out.Status); err != nil {
		return nil, err
	}
	return RotateApiKey201JSONResponse{Body: out, Headers: RotateApiKey201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/api-keys/" + out.Id}}, nil
}

// RevokeApiKey ends a key for ever.
func (s *server) RevokeApiKey(gc context.Context, r RevokeApiKeyRequestObject) (RevokeApiKeyResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.ApiKey, error) {
		c.touches("api_key", r.Id, "")
		if err := s.ownKey(ctx, c, r.Id); err != nil {
			return api.ApiKey{}, err
		}
		k, err := s.d.Tenants.RevokeKey(ctx, c.tenantID(), r.Id, want)
		return s.keyOut(k), err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if out.Status, err = s.keyStatus(ctx, c, out.Id, out.Revision, waiting(r.Params.Wait), out.Status); err != nil {
			return nil, err
		}
	}
	return RevokeApiKey200JSONResponse{Body: out, Headers: RevokeApiKey200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// CreateKeyToken gives the owner of a key a token for it.
func (s *server) CreateKeyToken(gc context.Context, r CreateKeyTokenRequestObject) (CreateKeyTokenResponseObject, error) {
	c, ctx := enter(gc)
	out, err := write(ctx, s, c, nil, func(ctx context.Context) (api.AccessToken, error) {
		c.touches("api_key", r.Id, "")
		t, err := s.d.Auth.TokenOfOwnKey(ctx, c.principal, r.Id, c.addr)
		return tokenOut(t), err
	})
	if err != nil {
		return nil, err
	}
	return CreateKeyToken200JSONResponse(out), nil
}

func tokenOut(t auth.KeyToken) api.AccessToken {
	return api.AccessToken{AccessToken: t.AccessToken, TokenType: "Bearer", ExpiresIn: lifetime(t.ExpiresIn), Audience: api.TokenAudience(t.Audience)}
}

// ReportLeak takes a secret that somebody found in public. The answer is the
// same whether or not it is anybody's.
func (s *server) ReportLeak(gc context.Context, r ReportLeakRequestObject) (ReportLeakResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.mayTry(ctx, c, "leak", ""); err != nil {
		return nil, err
	}
	if err := s.d.Tenants.ReportLeak(ctx, r.Body.Text, c.addr.String()); err != nil {
		return nil, err
	}
	return ReportLeak202JSONResponse{Received: true}, nil
}
