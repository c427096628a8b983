package cli

import (
	"context"
	"strings"

	"github.com/oapi-codegen/nullable"
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

func (a *app) roleList() *cobra.Command {
	return a.command("list", "List roles with their permissions", cobra.NoArgs, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		items, err := collect(apiclient.All(func(token *string) ([]api.CustomRole, *string, error) {
			page, err := apiclient.OK(c.ListRolesWithResponse(ctx, &api.ListRolesParams{PageToken: token, PageSize: fullPage()}))
			return page.Items, page.NextPageToken, err
		}))
		if err != nil {
			return doing("list roles", err)
		}
		return showList(a, roleView, items)
	})
}

func (a *app) roleGet() *cobra.Command {
	return a.command("get ROLE", "Show a role, by id or the name of a built-in one", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		r, err := apiclient.OK(c.GetRoleWithResponse(ctx, args[0]))
		if err != nil {
			return doing("read role "+args[0], err)
		}
		return showOne(a, roleView, r)
	})
}

func (a *app) roleCreate() *cobra.Command {
	var description string
	var grants []string
	c := a.command("create NAME", "Make a role of permissions that you have", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		r, err := written(c.CreateRoleWithResponse(ctx, &api.CreateRoleParams{DryRun: a.dry()},
			api.CustomRoleCreate{Name: args[0], Description: given(cmd.Flags(), "description", description), Permissions: permissions(grants)}))
		if err != nil {
			return doing("create role "+args[0], err)
		}
		a.noted()
		return showOne(a, roleView, r)
	})
	c.Flags().StringVar(&description, "description", "", "free text in one line")
	c.Flags().StringSliceVar(&grants, "permission", nil, "what it grants, such as topic:read; may be repeated")
	return a.writes(c)
}

func (a *app) roleUpdate() *cobra.Command {
	var name, description string
	var grants []string
	c := a.command("update ROLE_ID", "Change a role, and at once what all who have it may do", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		body := api.CustomRoleUpdate{Name: given(f, "name", name), Description: given(f, "description", description), Permissions: given(f, "permission", permissions(grants))}
		if body == (api.CustomRoleUpdate{}) {
			return nothingToChange(cmd)
		}
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		r, err := apiclient.OK(c.UpdateRoleWithResponse(ctx, args[0], &api.UpdateRoleParams{DryRun: a.dry()}, body))
		if err != nil {
			return doing("change role "+args[0], err)
		}
		a.noted()
		return showOne(a, roleView, r)
	})
	c.Flags().StringVar(&name, "name", "", "another name")
	c.Flags().StringVar(&description, "description", "", "free text in one line")
	c.Flags().StringSliceVar(&grants, "permission", nil, "what it grants; replaces all")
	return a.writes(c)
}

func (a *app) roleDelete() *cobra.Command {
	return a.writes(a.command("delete ROLE_ID", "Delete a role that nobody has", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		if err := apiclient.Done(c.DeleteRoleWithResponse(ctx, args[0], &api.DeleteRoleParams{DryRun: a.dry()})); err != nil {
			return doing("delete role "+args[0], err)
		}
		a.noted()
		return nil
	}))
}

func (a *app) bindingList() *cobra.Command {
	var principal, role string
	c := a.command("bindings", "List who has which role where", cobra.NoArgs, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		params := api.ListRoleBindingsParams{PrincipalId: given(cmd.Flags(), "principal", principal), Role: given(cmd.Flags(), "role", role), PageSize: fullPage()}
		if a.namespace != "" {
			ns, err := a.findNamespace(ctx, a.namespace)
			if err != nil {
				return err
			}
			params.NamespaceId = &ns
		}
		items, err := collect(apiclient.All(func(token *string) ([]api.RoleBinding, *string, error) {
			params.PageToken = token
			page, err := apiclient.OK(c.ListRoleBindingsWithResponse(ctx, &params))
			return page.Items, page.NextPageToken, err
		}))
		if err != nil {
			return doing("list role bindings", err)
		}
		return showList(a, bindingView, items)
	})
	c.Flags().StringVar(&principal, "principal", "", "only those of this member or service account")
	c.Flags().StringVar(&role, "role", "", "only those of this role")
	return c
}

func (a *app) roleBind() *cobra.Command {
	var topics, groups, expires string
	var whole bool
	c := a.command("bind PRINCIPAL ROLE", "Give a member (id or mail address) or service account (id) a role in a namespace, or in a part of it", cobra.ExactArgs(2), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		principal, err := a.findMember(ctx, args[0])
		if err != nil {
			return err
		}
		f := cmd.Flags()
		body := api.RoleBindingCreate{PrincipalId: principal, Role: args[1], Scope: api.RoleScope{Kind: api.RoleScopeTenant}}
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
		if expires != "" {
			end, err := a.instant("expires", expires)
			if err != nil {
				return err
			}
			body.ExpiresAt = &end
		}
		b, err := written(a.sdk.CreateRoleBindingWithResponse(ctx, &api.CreateRoleBindingParams{DryRun: a.dry()}, body))
		if err != nil {
			return doing("give "+args[0]+" the role "+args[1], err)
		}
		a.noted()
		return showOne(a, bindingView, b)
	})
	c.Flags().BoolVar(&whole, "whole-tenant", false, "in the whole tenant instead of a namespace")
	c.Flags().StringVar(&topics, "topics", "", "only for topics that fit: a name, or a prefix such as orders*")
	c.Flags().StringVar(&groups, "groups", "", "only for groups that fit")
	c.Flags().StringVar(&expires, "expires", "", "end as time (2027-01-31T00:00:00Z) or from now on (8h); default: no end")
	c.MarkFlagsMutuallyExclusive("whole-tenant", "topics", "groups")
	return a.writes(c)
}

func (a *app) roleExtend() *cobra.Command {
	return a.writes(a.command("extend BINDING_ID END", "Move the end of a binding: a time, a length from now on, or never", cobra.ExactArgs(2), func(ctx context.Context, _ *cobra.Command, args []string) error {
		body := api.RoleBindingUpdate{ExpiresAt: nullable.NewNullNullable[api.Timestamp]()}
		if args[1] != "never" {
			end, err := a.instant("expires", args[1])
			if err != nil {
				return err
			}
			body.ExpiresAt = nullable.NewNullableWithValue(end)
		}
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		b, err := apiclient.OK(c.UpdateRoleBindingWithResponse(ctx, args[0], &api.UpdateRoleBindingParams{DryRun: a.dry()}, body))
		if err != nil {
			return doing("move the end of "+args[0], err)
		}
		a.noted()
		return showOne(a, bindingView, b)
	}))
}

func (a *app) roleUnbind() *cobra.Command {
	return a.writes(a.command("unbind BINDING_ID", "Take a role away, at once", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		if err := apiclient.Done(c.DeleteRoleBindingWithResponse(ctx, args[0], &api.DeleteRoleBindingParams{DryRun: a.dry()})); err != nil {
			return doing("take binding "+args[0]+" away", err)
		}
		a.noted()
		return nil
	}))
}
