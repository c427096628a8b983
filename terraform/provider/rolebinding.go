package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type bindingResource struct{ base }

var (
	_ resource.ResourceWithConfigure      = (*bindingResource)(nil)
	_ resource.ResourceWithImportState    = (*bindingResource)(nil)
	_ resource.ResourceWithValidateConfig = (*bindingResource)(nil)
)

type bindingModel struct {
	ID          types.String  `tfsdk:"id"`
	PrincipalID types.String  `tfsdk:"principal_id"`
	Role        types.String  `tfsdk:"role"`
	Scope       *bindingScope `tfsdk:"scope"`
	ExpiresAt   notationValue `tfsdk:"expires_at"`
	CreatedBy   types.String  `tfsdk:"created_by"`
	CreatedAt   types.String  `tfsdk:"created_at"`
}

type bindingScope struct {
	Kind        types.String `tfsdk:"kind"`
	NamespaceID types.String `tfsdk:"namespace_id"`
	Pattern     types.String `tfsdk:"pattern"`
}

func (m bindingModel) what() string { return "role binding " + m.ID.ValueString() }

func (m *bindingModel) set(v api.RoleBinding) {
	*m = bindingModel{ID: types.StringValue(v.Id), PrincipalID: types.StringValue(v.PrincipalId), Role: types.StringValue(v.Role),
		Scope: &bindingScope{Kind: types.StringValue(string(v.Scope.Kind)), NamespaceID: types.StringPointerValue(v.Scope.NamespaceId),
			Pattern: types.StringPointerValue(v.Scope.Pattern)},
		ExpiresAt: timeValue(v.ExpiresAt), CreatedBy: types.StringValue(v.CreatedBy), CreatedAt: types.StringValue(v.CreatedAt.String())}
}

func (r *bindingResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_role_binding"
}

func (r *bindingResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Gives a member or a service account a role in the tenant or in a part of it. All but the end is what a binding is: a change replaces it.",
		Attributes: map[string]schema.Attribute{
			"id":           computedString(contract("RoleBindingId", "").Description),
			"principal_id": identityString(contract("PrincipalId", ""), contract("PrincipalId", "").Description+" A change replaces the binding."),
			"role":         identityString(contract("RoleRef", ""), contract("RoleRef", "").Description+" A change replaces the binding."),
			"scope": schema.SingleNestedAttribute{Required: true, PlanModifiers: []planmodifier.Object{objectplanmodifier.RequiresReplace()},
				MarkdownDescription: "Where the role holds. A change replaces the binding.",
				Attributes: map[string]schema.Attribute{
					"kind": schema.StringAttribute{Required: true, Validators: contract("RoleScopeKind", "").strings(),
						MarkdownDescription: "`tenant`, `namespace`, `topic` or `group`."},
					"namespace_id": schema.StringAttribute{Optional: true, Validators: contract("NamespaceId", "").strings(),
						MarkdownDescription: "The namespace; left out with `tenant` only."},
					"pattern": schema.StringAttribute{Optional: true, Validators: contract("RoleScope", "pattern").strings(),
						MarkdownDescription: contract("RoleScope", "pattern").Description},
				}},
			"expires_at": endAttribute("When the binding ends, such as `2027-01-31T00:00:00Z`. Left out: never."),
			"created_by": computedString("Who made it."),
			"created_at": computedString("When it was created."),
		},
	}
}

// ValidateConfig refuses at plan time the scopes that the server would refuse.
func (r *bindingResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var scope types.Object
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("scope"), &scope)...)
	if resp.Diagnostics.HasError() || scope.IsNull() || scope.IsUnknown() {
		return
	}
	at := path.Root("scope")
	part := func(name string) types.String {
		text, _ := scope.Attributes()[name].(types.String)
		return text
	}
	kind, names := part("kind"), kindNeeds[part("kind").ValueString()]
	if kind.IsUnknown() || names == nil {
		return // the validator of kind speaks of it
	}
	for _, name := range []string{"namespace_id", "pattern"} {
		switch v := part(name); {
		case names[name] && v.IsNull():
			resp.Diagnostics.AddAttributeError(at.AtName(name), "Incomplete scope", fmt.Sprintf("A scope of kind %q needs %s.", kind.ValueString(), name))
		case !names[name] && !v.IsNull():
			resp.Diagnostics.AddAttributeError(at.AtName(name), "Scope with too much", fmt.Sprintf("A scope of kind %q has no %s; leave it out.", kind.ValueString(), name))
		}
	}
}

// kindNeeds says which parts each kind of scope has.
var kindNeeds = map[string]map[string]bool{
	string(api.RoleScopeTenant):    {},
	string(api.RoleScopeNamespace): {"namespace_id": true},
	string(api.RoleScopeTopic):     {"namespace_id": true, "pattern": true},
	string(api.RoleScopeGroup):     {"namespace_id": true, "pattern": true},
}

func (r *bindingResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan bindingModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	body := api.RoleBindingCreate{PrincipalId: plan.PrincipalID.ValueString(), Role: plan.Role.ValueString(),
		Scope:     api.RoleScope{Kind: api.RoleScopeKind(plan.Scope.Kind.ValueString()), NamespaceId: known(plan.Scope.NamespaceID), Pattern: known(plan.Scope.Pattern)},
		ExpiresAt: timeOf(plan.ExpiresAt, &resp.Diagnostics)}
	if resp.Diagnostics.HasError() {
		return
	}
	v, err := apiclient.Created(r.client.CreateRoleBindingWithResponse(ctx, nil, body))
	if err != nil {
		addFailure(&resp.Diagnostics, fmt.Sprintf("Could not give %s the role %s", body.PrincipalId, body.Role), err)
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *bindingResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m bindingModel) (api.RoleBinding, error) {
		return apiclient.OK(r.client.GetRoleBindingWithResponse(ctx, m.ID.ValueString()))
	}, func(m *bindingModel, v api.RoleBinding) { m.set(v) })
}

// Update moves the end, the only thing that can change.
func (r *bindingResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan bindingModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	body := api.RoleBindingUpdate{ExpiresAt: endOf(plan.ExpiresAt, &resp.Diagnostics)}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	id := plan.ID.ValueString()
	v, err := apiclient.OK(r.client.UpdateRoleBindingWithResponse(ctx, id, nil, body))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not move the end of role binding "+id, err)
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *bindingResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m bindingModel) error {
		return apiclient.Done(r.client.DeleteRoleBindingWithResponse(ctx, m.ID.ValueString(), nil))
	})
}

func (r *bindingResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	bindingImport.importState(ctx, req, resp)
}
