package httpapi

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

func roleOut(r tenant.CustomRole) api.CustomRole {
	return api.CustomRole{Id: r.ID, Name: r.Name, Description: r.Description, Permissions: strs[string, api.Permission](r.Permissions),
		CreatedAt: at(r.CreatedAt), UpdatedAt: at(r.UpdatedAt), Revision: r.Revision}
}

// builtInNames are the built-in roles in the order in which lists show them.
var builtInNames = []tenant.Role{tenant.RoleOwner, tenant.RoleAdmin, tenant.RoleDeveloper, tenant.RoleViewer, tenant.RoleBilling, tenant.RoleNone}

// builtIn shows the built-in roles; they are as old as their tenant.
func (s *server) builtIn(ctx context.Context, c *call) ([]api.CustomRole, error) {
	t, err := s.d.Tenants.Tenant(ctx, c.tenantID())
	if err != nil {
		return nil, err
	}
	var out []api.CustomRole
	for _, name := range builtInNames {
		out = append(out, api.CustomRole{Id: string(name), Name: string(name), Permissions: strs[auth.Permission, api.Permission](auth.Roles()[name]), BuiltIn: true,
			CreatedAt: at(t.CreatedAt), UpdatedAt: at(t.CreatedAt), Revision: 1})
	}
	return out, nil
}

// role finds a role by name or id.
func (s *server) role(ctx context.Context, c *call, id string) (api.CustomRole, error) {
	if tenant.Role(id).Valid() {
		all, err := s.builtIn(ctx, c)
		for _, r := range all {
			if r.Id == id {
				return r, nil
			}
		}
		return api.CustomRole{}, err
	}
	r, err := s.d.Tenants.CustomRole(ctx, c.tenantID(), id)
	return roleOut(r), err
}

// custom refuses what changes a built-in role.
func custom(id string) error {
	if tenant.Role(id).Valid() {
		return errs.E(errs.Conflict, "role %s is built in: it cannot be changed or deleted; make a custom one", id).WithReason("role_built_in")
	}
	return nil
}

// ListRoles lists the built-in roles, then those of the tenant.
func (s *server) ListRoles(gc context.Context, r ListRolesRequestObject) (ListRolesResponseObject, error) {
	c, ctx := enter(gc)
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken, func(p tenant.Page) ([]api.CustomRole, error) {
		var out []api.CustomRole
		if !tenant.Role(p.After).Valid() && p.After != "" {
			return s.customRoles(ctx, c, p, out)
		}
		all, err := s.builtIn(ctx, c)
		if err != nil {
			return nil, err
		}
		for i, r := range all {
			if r.Id == p.After {
				all = all[i+1:]
				break
			}
		}
		if len(all) >= p.Size {
			return all[:p.Size], nil
		}
		return s.customRoles(ctx, c, tenant.Page{Size: p.Size - len(all)}, all)
	}, func(r api.CustomRole) string { return r.Id }, func(r api.CustomRole) api.CustomRole { return r })
	if err != nil {
		return nil, err
	}
	return ListRoles200JSONResponse{Items: items, NextPageToken: next}, nil
}

func (s *server) customRoles(ctx context.Context, c *call, p tenant.Page, after []api.CustomRole) ([]api.CustomRole, error) {
	more, err := s.d.Tenants.CustomRoles(ctx, c.tenantID(), p)
	for _, r := range more {
		after = append(after, roleOut(r))
	}
	return after, err
}

// CreateRole makes a custom role.
func (s *server) CreateRole(gc context.Context, r CreateRoleRequestObject) (CreateRoleResponseObject, error) {
	c, ctx := enter(gc)
	in := tenant.CustomRole{Name: r.Body.Name, Description: or(r.Body.Description, ""), Permissions: strs[api.Permission, string](r.Body.Permissions)}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.CustomRole, error) {
		made, err := s.d.Auth.CreateRole(ctx, c.principal, in)
		c.touches("role", made.ID, "")
		return roleOut(made), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateRole200JSONResponse(out), nil
	}
	return CreateRole201JSONResponse{Body: out, Headers: CreateRole201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/roles/" + out.Id}}, nil
}

// GetRole shows one role.
func (s *server) GetRole(gc context.Context, r GetRoleRequestObject) (GetRoleResponseObject, error) {
	c, ctx := enter(gc)
	out, err := s.role(ctx, c, r.Id)
	if err != nil {
		return nil, err
	}
	return GetRole200JSONResponse{Body: out, Headers: GetRole200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// UpdateRole changes one custom role.
func (s *server) UpdateRole(gc context.Context, r UpdateRoleRequestObject) (UpdateRoleResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	u := tenant.RoleUpdate{Name: r.Body.Name, Description: r.Body.Description}
	if r.Body.Permissions != nil {
		u.Permissions = strs[api.Permission, string](*r.Body.Permissions)
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.CustomRole, error) {
		c.touches("role", r.Id, "")
		if err := custom(r.Id); err != nil {
			return api.CustomRole{}, err
		}
		changed, err := s.d.Auth.UpdateRole(ctx, c.principal, r.Id, u, want)
		return roleOut(changed), err
	})
	if err != nil {
		return nil, err
	}
	return UpdateRole200JSONResponse{Body: out, Headers: UpdateRole200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// DeleteRole forgets one custom role.
func (s *server) DeleteRole(gc context.Context, r DeleteRoleRequestObject) (DeleteRoleResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	_, err = write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		c.touches("role", r.Id, "")
		if err := custom(r.Id); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, s.d.Tenants.DeleteRole(ctx, c.tenantID(), r.Id, want)
	})
	if err != nil {
		return nil, err
	}
	return DeleteRole204Response{}, nil
}

func scopeOut(sc tenant.BindingScope) api.RoleScope {
	return api.RoleScope{Kind: api.RoleScopeKind(sc.Kind), NamespaceId: some(sc.NamespaceID), Pattern: some(sc.Pattern)}
}

func bindingOut(b tenant.Binding) api.RoleBinding {
	return api.RoleBinding{Id: b.ID, PrincipalId: b.PrincipalID, Role: b.Role, Scope: scopeOut(b.Scope), ExpiresAt: atPtr(b.ExpiresAt), CreatedBy: b.CreatedBy,
		CreatedAt: at(b.CreatedAt), UpdatedAt: at(b.UpdatedAt), Revision: b.Revision}
}

// ListRoleBindings lists bindings.
func (s *server) ListRoleBindings(gc context.Context, r ListRoleBindingsRequestObject) (ListRoleBindingsResponseObject, error) {
	c, ctx := enter(gc)
	f := tenant.BindingFilter{PrincipalID: or(r.Params.PrincipalId, ""), Role: or(r.Params.Role, ""), NamespaceID: or(r.Params.NamespaceId, "")}
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]tenant.Binding, error) {
			return s.d.Tenants.Bindings(ctx, c.tenantID(), f, p)
		},
		func(b tenant.Binding) string { return b.ID }, bindingOut)
	if err != nil {
		return nil, err
	}
	return ListRoleBindings200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateRoleBinding gives somebody a role.
func (s *server) CreateRoleBinding(gc context.Context, r CreateRoleBindingRequestObject) (CreateRoleBindingResponseObject, error) {
	c, ctx := enter(gc)
	in := tenant.Binding{PrincipalID: r.Body.PrincipalId, Role: r.Body.Role, ExpiresAt: timeOf(r.Body.ExpiresAt),
		Scope: tenant.BindingScope{Kind: tenant.ScopeKind(r.Body.Scope.Kind), NamespaceID: or(r.Body.Scope.NamespaceId, ""), Pattern: or(r.Body.Scope.Pattern, "")}}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.RoleBinding, error) {
		b, err := s.d.Auth.Bind(ctx, c.principal, in)
		c.touches("role_binding", b.ID, b.Scope.NamespaceID)
		return bindingOut(b), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateRoleBinding200JSONResponse(out), nil
	}
	return CreateRoleBinding201JSONResponse{Body: out, Headers: CreateRoleBinding201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/role-bindings/" + out.Id}}, nil
}

// GetRoleBinding shows one binding.
func (s *server) GetRoleBinding(gc context.Context, r GetRoleBindingRequestObject) (GetRoleBindingResponseObject, error) {
	c, ctx := enter(gc)
	b, err := s.d.Tenants.Binding(ctx, c.tenantID(), r.Id)
	if err != nil {
		return nil, err
	}
	return GetRoleBinding200JSONResponse{Body: bindingOut(b), Headers: GetRoleBinding200ResponseHeaders{ETag: etag(b.Revision)}}, nil
}

// UpdateRoleBinding moves the end of one binding.
func (s *server) UpdateRoleBinding(gc context.Context, r UpdateRoleBindingRequestObject) (UpdateRoleBindingResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	var end *time.Time
	if v, err := r.Body.ExpiresAt.Get(); err == nil {
		end = timeOf(&v)
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.RoleBinding, error) {
		c.touches("role_binding", r.Id, "")
		b, err := s.d.Auth.UpdateBinding(ctx, c.principal, r.Id, end, want)
		return bindingOut(b), err
	})
	if err != nil {
		return nil, err
	}
	return UpdateRoleBinding200JSONResponse{Body: out, Headers: UpdateRoleBinding200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// DeleteRoleBinding takes one role away.
func (s *server) DeleteRoleBinding(gc context.Context, r DeleteRoleBindingRequestObject) (DeleteRoleBindingResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	_, err = write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		c.touches("role_binding", r.Id, "")
		return struct{}{}, s.d.Auth.Unbind(ctx, c.principal, r.Id, want)
	})
	if err != nil {
		return nil, err
	}
	return DeleteRoleBinding204Response{}, nil
}
