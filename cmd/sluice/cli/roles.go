package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var roleView = view[api.CustomRole]{name: func(r api.CustomRole) string { return r.Id }, columns: []column[api.CustomRole]{
	{title: "id", value: func(r api.CustomRole) string { return r.Id }},
	{title: "name", value: func(r api.CustomRole) string { return r.Name }},
	{title: "built_in", value: func(r api.CustomRole) string { return yesNo(r.BuiltIn) }},
	{title: "permissions", value: func(r api.CustomRole) string { return joined(r.Permissions) }},
	{title: "description", detail: true, value: func(r api.CustomRole) string { return r.Description }},
}}

var bindingView = view[api.RoleBinding]{name: func(b api.RoleBinding) string { return b.Id }, columns: []column[api.RoleBinding]{
	{title: "id", value: func(b api.RoleBinding) string { return b.Id }},
	{title: "principal_id", value: func(b api.RoleBinding) string { return b.PrincipalId }},
	{title: "role", value: func(b api.RoleBinding) string { return b.Role }},
	{title: "scope", value: func(b api.RoleBinding) string { return scopeText(b.Scope) }},
	{title: "expires_at", value: func(b api.RoleBinding) string { return moment(b.ExpiresAt) }},
	{title: "created_by", detail: true, value: func(b api.RoleBinding) string { return b.CreatedBy }},
	{title: "created_at", detail: true, value: func(b api.RoleBinding) string { return b.CreatedAt.String() }},
}}

func joined[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = string(v)
	}
	return strings.Join(texts, " ")
}

func scopeText(s api.RoleScope) string {
	text := string(s.Kind)
	for _, part := range []*string{s.NamespaceId, s.Pattern} {
		if part != nil {
			text += " " + *part
		}
	}
	return text
}

func (a *app) roleCommand() *cobra.Command {
	return a.parent("role", "Roles: the built-in ones and the tenant's own, and who has them where",
		a.roleList(), a.roleGet(), a.roleCreate(), a.roleUpdate(), a.roleDelete(), a.bindingList(), a.roleBind(), a.roleExtend(), a.roleUnbind())
}

func permissions(list []string) []api.Permission {
	out := make([]api.Permission, len(list))
	for i, p := range list {
		out[i] = api.Permission(p)
	}
	return out
}

func listRoles(ctx context.Context, c *apiclient.SDK, token *string) ([]api.CustomRole, *string, error) {
	page, err := apiclient.OK(c.ListRolesWithResponse(ctx, &api.ListRolesParams{PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

// role is the id of a role, by id or name; that of a built-in one is its name.
func (a *app) role(ctx context.Context, which string) (string, error) {
	if _, err := a.client(ctx); err != nil {
		return "", err
	}
	r, err := found(which, "rol_", "role", "sluice role list",
		func(id string) (api.CustomRole, error) { return api.CustomRole{Id: id}, nil },
		func(name string) ([]api.CustomRole, error) {
			items, err := every(ctx, a, "roles", listRoles)
			return slices.DeleteFunc(items, func(r api.CustomRole) bool { return r.Name != name }), err
		})
	return r.Id, err
}

func (a *app) roleList() *cobra.Command {
	return listing(a, "list", "List roles with their permissions", "roles", roleView, listRoles)
}

func (a *app) roleGet() *cobra.Command {
	return showing(a, "get ROLE", "Show a role, by id or name", "role", roleView, func(ctx context.Context, c *apiclient.SDK, which string) (api.CustomRole, error) {
		id, err := a.role(ctx, which)
		if err != nil {
			return api.CustomRole{}, err
		}
		return apiclient.OK(c.GetRoleWithResponse(ctx, id))
	})
}

func (a *app) roleCreate() *cobra.Command {
	var description string
	var grants []string
	var lenient bool
	c := a.command("create NAME", "Make a role of permissions that you have", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		r, err := written(c.CreateRoleWithResponse(ctx, &api.CreateRoleParams{DryRun: a.dry()},
			api.CustomRoleCreate{Name: args[0], Description: given(cmd.Flags(), "description", description), Permissions: permissions(grants)}))
		if lenient && apiclient.Is(err, "already_exists") {
			var id string
			if id, err = a.role(ctx, args[0]); err == nil {
				r, err = apiclient.OK(c.GetRoleWithResponse(ctx, id))
			}
		}
		return changed(a, roleView, "create role "+args[0], r, err, "Next: sluice role bind PRINCIPAL "+args[0])
	})
	c.Flags().StringVar(&description, "description", "", "free text in one line")
	c.Example = `  sluice role create support --permission topic:read,message:read`
	c.Flags().StringSliceVar(&grants, "permission", nil, "what it grants, such as topic:read; may be repeated")
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "show the one that exists instead of failing")
	return a.writes(c)
}

func (a *app) roleUpdate() *cobra.Command {
	var name, description string
	var grants []string
	c := a.command("update ROLE", "Change a role, by id or name, and at once what all who have it may do", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		body := api.CustomRoleUpdate{Name: given(f, "name", name), Description: given(f, "description", description), Permissions: given(f, "permission", permissions(grants))}
		if body == (api.CustomRoleUpdate{}) {
			return nothingToChange(cmd)
		}
		id, err := a.role(ctx, args[0])
		if err != nil {
			return err
		}
		r, err := apiclient.OK(a.sdk.UpdateRoleWithResponse(ctx, id, &api.UpdateRoleParams{DryRun: a.dry()}, body))
		return changed(a, roleView, "change role "+args[0], r, err, "")
	})
	c.Flags().StringVar(&name, "name", "", "another name")
	c.Flags().StringVar(&description, "description", "", "free text in one line")
	c.Flags().StringSliceVar(&grants, "permission", nil, "what it grants; replaces all")
	return a.writes(c)
}

func (a *app) roleDelete() *cobra.Command {
	return a.removing(a.writes, "delete ROLE", "Delete a role that nobody has, by id or name", "role", "Nobody can be given it any more.",
		func(ctx context.Context, c *apiclient.SDK, which string) error {
			id, err := a.role(ctx, which)
			if err != nil {
				return err
			}
			return apiclient.Done(c.DeleteRoleWithResponse(ctx, id, &api.DeleteRoleParams{DryRun: a.dry()}))
		})
}

func (a *app) bindingList() *cobra.Command {
	var principal, role string
	c := listing(a, "bindings", "List who has which role where", "role bindings", bindingView, func(ctx context.Context, sdk *apiclient.SDK, token *string) ([]api.RoleBinding, *string, error) {
		params := api.ListRoleBindingsParams{PageToken: token, PageSize: fullPage()}
		for _, filter := range []struct {
			given bool
			text  string
			find  func(context.Context, string) (string, error)
			into  **string
		}{{principal != "", principal, a.principal, &params.PrincipalId}, {role != "", role, a.role, &params.Role}, {a.namespace != "", a.namespace, a.findNamespace, &params.NamespaceId}} {
			if filter.given {
				id, err := filter.find(ctx, filter.text)
				if err != nil {
					return nil, nil, err
				}
				*filter.into = &id
			}
		}
		page, err := apiclient.OK(sdk.ListRoleBindingsWithResponse(ctx, &params))
		return page.Items, page.NextPageToken, err
	})
	c.Flags().StringVar(&principal, "principal", "", "only those of this member (id or mail address) or service account (id or name)")
	c.Flags().StringVar(&role, "role", "", "only those of this role, by id or name")
	return c
}

func (a *app) roleBind() *cobra.Command {
	var topics, groups, expires string
	var whole, lenient bool
	c := a.command("bind PRINCIPAL ROLE", "Give a member (id or mail address) or service account (id or name) a role in a namespace, or in a part of it", cobra.ExactArgs(2), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		principal, err := a.principal(ctx, args[0])
		if err != nil {
			return err
		}
		role, err := a.role(ctx, args[1])
		if err != nil {
			return err
		}
		f := cmd.Flags()
		body := api.RoleBindingCreate{PrincipalId: principal, Role: role, Scope: api.RoleScope{Kind: api.RoleScopeTenant}}
		if !whole {
			ns, err := a.ns(ctx)
			if err != nil {
				return err
			}
			body.Scope = api.RoleScope{Kind: api.RoleScopeNamespace, NamespaceId: &ns}
			switch {
			case f.Changed("topics"):
				body.Scope.Kind, body.Scope.Pattern = api.RoleScopeTopic, &topics
			case f.Changed("groups"):
				body.Scope.Kind, body.Scope.Pattern = api.RoleScopeGroup, &groups
			}
		}
		if body.ExpiresAt, err = a.firstEnd(f, "expires", expires); err != nil {
			return err
		}
		if lenient {
			same, err := every(ctx, a, "role bindings", func(ctx context.Context, c *apiclient.SDK, token *string) ([]api.RoleBinding, *string, error) {
				page, err := apiclient.OK(c.ListRoleBindingsWithResponse(ctx, &api.ListRoleBindingsParams{PrincipalId: &principal, Role: &role, PageToken: token, PageSize: fullPage()}))
				return page.Items, page.NextPageToken, err
			})
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(same, func(b api.RoleBinding) bool { return scopeText(b.Scope) == scopeText(body.Scope) }); i >= 0 {
				return showOne(a, bindingView, same[i])
			}
		}
		b, err := written(a.sdk.CreateRoleBindingWithResponse(ctx, &api.CreateRoleBindingParams{DryRun: a.dry()}, body))
		return changed(a, bindingView, "give "+args[0]+" the role "+args[1], b, err, "")
	})
	c.Example = `  sluice role bind grace@example.com support --namespace shop --topics 'orders*' --expires 8h
  sluice role bind ci developer --whole-tenant`
	c.Flags().BoolVar(&whole, "whole-tenant", false, "in the whole tenant instead of a namespace")
	c.Flags().StringVar(&topics, "topics", "", "only for topics that fit: a name, or a prefix such as orders*")
	c.Flags().StringVar(&groups, "groups", "", "only for groups that fit")
	c.Flags().StringVar(&expires, "expires", "", "end as time (2027-01-31T00:00:00Z) or from now on (8h); default: no end")
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "show the binding of that role at that place instead of making another")
	c.MarkFlagsMutuallyExclusive("whole-tenant", "topics", "groups")
	return a.writes(c)
}

func (a *app) roleExtend() *cobra.Command {
	return a.writes(a.command("extend BINDING_ID END", "Move the end of a binding: a time, a length from now on, or never", cobra.ExactArgs(2), func(ctx context.Context, _ *cobra.Command, args []string) error {
		end, err := a.moved(args[1], "END")
		if err != nil {
			return err
		}
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		b, err := apiclient.OK(c.UpdateRoleBindingWithResponse(ctx, args[0], &api.UpdateRoleBindingParams{DryRun: a.dry()}, api.RoleBindingUpdate{ExpiresAt: end}))
		return changed(a, bindingView, "move the end of "+args[0], b, err, "")
	}))
}

func (a *app) roleUnbind() *cobra.Command {
	return a.removing(a.writes, "unbind BINDING_ID", "Take a role away, at once", "role binding", "What it allowed stops at once.",
		func(ctx context.Context, c *apiclient.SDK, id string) error {
			return apiclient.Done(c.DeleteRoleBindingWithResponse(ctx, id, &api.DeleteRoleBindingParams{DryRun: a.dry()}))
		})
}
