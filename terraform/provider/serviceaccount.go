package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type accountResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*accountResource)(nil)
	_ resource.ResourceWithImportState = (*accountResource)(nil)
)

// accountModel leaves out bound, which the first binding changes behind it.
type accountModel struct {
	ID          types.String `tfsdk:"id"`
	Name        types.String `tfsdk:"name"`
	Description types.String `tfsdk:"description"`
	Disabled    types.Bool   `tfsdk:"disabled"`
	Labels      types.Map    `tfsdk:"labels"`
	CreatedAt   types.String `tfsdk:"created_at"`
}

func (m accountModel) what() string { return "service account " + m.Name.ValueString() }

func (m *accountModel) set(v api.ServiceAccount) {
	*m = accountModel{ID: types.StringValue(v.Id), Name: types.StringValue(v.Name), Description: types.StringValue(v.Description),
		Disabled: types.BoolValue(v.Disabled), Labels: labelsValue(v.Labels), CreatedAt: types.StringValue(v.CreatedAt.String())}
}

func (r *accountResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_service_account"
}

func (r *accountResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A machine that owns API keys. From its first role binding on its keys may no more than its bindings give.",
		Attributes: map[string]schema.Attribute{
			"id": computedString("Id, which API keys name as `owner_id`, bindings as `principal_id` and access rules as `principal`."),
			"name": schema.StringAttribute{Required: true, Validators: contract("DisplayName", "").strings(),
				MarkdownDescription: "Name, unique in the tenant."},
			"description": descriptionAttribute(),
			"disabled":    defaultedBool(contract("ServiceAccountCreate", "disabled")),
			"labels":      labelsAttribute(),
			"created_at":  computedString("When it was created."),
		},
	}
}

func (r *accountResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan accountModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	body := api.ServiceAccountCreate{Name: plan.Name.ValueString(), Description: known(plan.Description), Disabled: ptr(plan.Disabled.ValueBool()),
		Labels: labelsOf(ctx, plan.Labels, &resp.Diagnostics)}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	v, err := apiclient.Created(r.client.CreateServiceAccountWithResponse(ctx, nil, body))
	if err != nil {
		addConflict(&resp.Diagnostics, "Could not create service account "+body.Name, err, func() string {
			return lineFor(ctx, r.client, accountImport, body.Name, listServiceAccounts, func(v api.ServiceAccount) (string, string) { return v.Id, v.Name })
		})
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *accountResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m accountModel) (api.ServiceAccount, error) {
		return apiclient.OK(r.client.GetServiceAccountWithResponse(ctx, m.ID.ValueString()))
	}, func(m *accountModel, v api.ServiceAccount) { m.set(v) })
}

func (r *accountResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state accountModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	body := api.ServiceAccountUpdate{Name: changed(plan.Name, state.Name), Description: changed(plan.Description, state.Description),
		Disabled: changedBool(plan.Disabled, state.Disabled), Labels: changedLabels(ctx, plan.Labels, state.Labels, &resp.Diagnostics)}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	v, err := apiclient.OK(r.client.UpdateServiceAccountWithResponse(ctx, state.ID.ValueString(), nil, body))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not change service account "+state.Name.ValueString(), err)
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *accountResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m accountModel) error {
		return apiclient.Done(r.client.DeleteServiceAccountWithResponse(ctx, m.ID.ValueString(), nil))
	})
}

func (r *accountResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	accountImport.importState(ctx, req, resp)
}
