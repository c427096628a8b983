package provider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
)

// scopeModel is one scope of an API key or a workload identity.
type scopeModel struct {
	NamespaceID types.String  `tfsdk:"namespace_id"`
	Permissions types.Set     `tfsdk:"permissions"`
	Topics      types.Set     `tfsdk:"topics"`
	Groups      types.Set     `tfsdk:"groups"`
	CIDRs       types.Set     `tfsdk:"cidrs"`
	ExpiresAt   notationValue `tfsdk:"expires_at"`
}

// everything is the pattern that matches all names.
const everything = "*"

var scopeTypes = map[string]attr.Type{"namespace_id": types.StringType, "permissions": types.SetType{ElemType: types.StringType},
	"topics": types.SetType{ElemType: types.StringType}, "groups": types.SetType{ElemType: types.StringType},
	"cidrs": types.SetType{ElemType: types.StringType}, "expires_at": timestamps.typ()}

func scopeAttribute(p *property, description string) schema.Attribute {
	names := func(what string) schema.Attribute {
		return schema.SetAttribute{ElementType: types.StringType, Optional: true, Computed: true,
			Default: setdefault.StaticValue(setValue([]string{everything})), Validators: contract("ApiKeyScope", what).sets(),
			MarkdownDescription: "Names of " + what + " that the permissions hold for; a `*` at the end matches any rest. Default `[\"*\"]`."}
	}
	return schema.ListNestedAttribute{Optional: true, Computed: true, Validators: p.lists(), MarkdownDescription: description,
		Default: listdefault.StaticValue(types.ListValueMust(types.ObjectType{AttrTypes: scopeTypes}, []attr.Value{})),
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"namespace_id": schema.StringAttribute{Required: true, Validators: contract("NamespaceId", "").strings(),
				MarkdownDescription: "The namespace."},
			"permissions": schema.SetAttribute{ElementType: types.StringType, Required: true, Validators: contract("ApiKeyScope", "permissions").sets(),
				MarkdownDescription: "`PUB` send; `SUB` receive and commit; `MANAGE` create, change and delete over the message protocols; `DESCRIBE` look."},
			"topics":     names("topics"),
			"groups":     names("groups"),
			"cidrs":      networksAttribute(contract("ApiKeyScope", "cidrs")),
			"expires_at": endAttribute("When the scope ends. Left out: when the key does."),
		}}}
}

// needsRights refuses at plan time what has neither a scope nor a control role.
func needsRights(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var scope types.List
	var role types.String
	diags.Append(config.GetAttribute(ctx, path.Root("scope"), &scope)...)
	diags.Append(config.GetAttribute(ctx, path.Root("control_role"), &role)...)
	if !scope.IsUnknown() && len(scope.Elements()) == 0 && role.IsNull() {
		diags.AddAttributeError(path.Root("scope"), "Nothing that it may do", "It needs at least one scope, for messages, or a control_role, for the HTTP API.")
	}
}

// scopesValue is what the server has, in the order and the notation of before
// where it means the same: the order of the server's answer means nothing.
func scopesValue(got []api.ApiKeyScope, before []scopeModel) []scopeModel {
	left, placed := slices.Clone(got), make([]*api.ApiKeyScope, len(before))
	for _, fits := range []func(a, b scopeModel) bool{scopeModel.sameAs, scopeModel.sameNamespace} {
		for i, old := range before {
			k := slices.IndexFunc(left, func(s api.ApiKeyScope) bool { return fits(scopeValue(s, old), old) })
			if placed[i] == nil && k >= 0 {
				placed[i] = ptr(left[k])
				left = slices.Delete(left, k, k+1)
			}
		}
	}
	out := make([]scopeModel, 0, len(got))
	for i, s := range placed {
		if s != nil {
			out = append(out, scopeValue(*s, before[i]))
		}
	}
	for _, s := range left {
		out = append(out, scopeValue(s, scopeModel{}))
	}
	return out
}

func scopeValue(s api.ApiKeyScope, before scopeModel) scopeModel {
	out := scopeModel{NamespaceID: types.StringValue(s.NamespaceId), Permissions: setValue(s.Permissions),
		Topics: patterns(s.Topics), Groups: patterns(s.Groups), CIDRs: likeBefore([]api.Cidr{}, before.CIDRs, network), ExpiresAt: timeValue(s.ExpiresAt)}
	if s.Cidrs != nil {
		out.CIDRs = likeBefore(*s.Cidrs, before.CIDRs, network)
	}
	if out.ExpiresAt.sameAs(before.ExpiresAt) {
		out.ExpiresAt = before.ExpiresAt
	}
	return out
}

func patterns(in *[]api.NamePattern) types.Set {
	if in == nil || len(*in) == 0 {
		return setValue([]string{everything})
	}
	return setValue(*in)
}

func (s scopeModel) sameNamespace(o scopeModel) bool { return s.NamespaceID.Equal(o.NamespaceID) }

func (s scopeModel) sameAs(o scopeModel) bool {
	return s.sameNamespace(o) && s.Permissions.Equal(o.Permissions) && s.Topics.Equal(o.Topics) && s.Groups.Equal(o.Groups) &&
		sameSet(s.CIDRs, o.CIDRs, network) && s.ExpiresAt.sameAs(o.ExpiresAt)
}

func sameScopes(a, b []scopeModel) bool { return slices.EqualFunc(a, b, scopeModel.sameAs) }

func scopesOf(ctx context.Context, in []scopeModel, diags *diag.Diagnostics) *[]api.ApiKeyScope {
	out := make([]api.ApiKeyScope, len(in))
	for i, s := range in {
		topics, groups := setOf[string](ctx, s.Topics, diags), setOf[string](ctx, s.Groups, diags)
		cidrs := setOf[api.Cidr](ctx, s.CIDRs, diags)
		out[i] = api.ApiKeyScope{NamespaceId: s.NamespaceID.ValueString(),
			Permissions: setOf[api.KeyPermission](ctx, s.Permissions, diags), Topics: &topics, Groups: &groups, Cidrs: &cidrs,
			ExpiresAt: timeOf(s.ExpiresAt, diags)}
	}
	return &out
}
