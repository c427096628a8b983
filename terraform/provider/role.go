package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type roleResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*roleResource)(nil)
	_ resource.ResourceWithImportState = (*roleResource)(nil)
)

type roleModel struct {
	ID          types.String `tfsdk:"id"`
	Name        types.String `tfsdk:"name"`
	Description types.String `tfsdk:"description"`
	Permissions types.Set    `tfsdk:"permissions"`
	CreatedAt   types.String `tfsdk:"created_at"`
}

func (m roleModel) what() string { return "role " + m.Name.ValueString() }

func (m *roleModel) set(v api.CustomRole) {
	*m = roleModel{ID: types.StringValue(v.Id), Name: types.StringValue(v.Name), Description: types.StringValue(v.Description),
		Permissions: setValue(v.Permissions), CreatedAt: types.StringValue(v.CreatedAt.String())}
}

func (r *roleResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_role"
}

func (r *roleResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A role of the tenant's own: a set of permissions that a `sluice_role_binding` gives to members and service accounts. " +
			"It grants no more than the credential of Terraform has itself. A change holds at once for all who have the role.",
		Attributes: map[string]schema.Attribute{
			"id": computedString("Id of the role, which bindings name."),
			"name": schema.StringAttribute{Required: true, Validators: contract("DisplayName", "").strings(),
				MarkdownDescription: "Name, unique in the tenant and not that of a built-in role."},
			"description": descriptionAttribute(),
			"permissions": schema.SetAttribute{ElementType: types.StringType, Required: true, Validators: contract("CustomRoleCreate", "permissions").sets(),
				MarkdownDescription: "What the role grants, such as `topic:read`."},
			"created_at": computedString("When it was created."),
		},
	}
}

func (r *roleResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan roleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	body := api.CustomRoleCreate{Name: plan.Name.ValueString(), Description: known(plan.Description),
		Permissions: setOf[api.Permission](ctx, plan.Permissions, &resp.Diagnostics)}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	v, err := apiclient.Created(r.client.CreateRoleWithResponse(ctx, nil, body))
	if err != nil {
		addConflict(&resp.Diagnostics, "Could not create role "+body.Name, err, func() string {
			return lineFor(ctx, r.client, roleImport, body.Name, listRoles, func(v api.CustomRole) (string, string) { return v.Id, v.Name })
		})
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *roleResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m roleModel) (api.CustomRole, error) {
		return apiclient.OK(r.client.GetRoleWithResponse(ctx, m.ID.ValueString()))
	}, func(m *roleModel, v api.CustomRole) { m.set(v) })
}

func (r *roleResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state roleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	body := api.CustomRoleUpdate{Name: changed(plan.Name, state.Name), Description: changed(plan.Description, state.Description)}
	if !plan.Permissions.Equal(state.Permissions) {
		body.Permissions = ptr(setOf[api.Permission](ctx, plan.Permissions, &resp.Diagnostics))
	}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	v, err := apiclient.OK(r.client.UpdateRoleWithResponse(ctx, state.ID.ValueString(), nil, body))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not change role "+state.Name.ValueString(), err)
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *roleResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m roleModel) error {
		return apiclient.Done(r.client.DeleteRoleWithResponse(ctx, m.ID.ValueString(), nil))
	})
}

func (r *roleResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	roleImport.importState(ctx, req, resp)
}
