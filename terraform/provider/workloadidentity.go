package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type workloadIdentityResource struct{ base }

var (
	_ resource.ResourceWithConfigure      = (*workloadIdentityResource)(nil)
	_ resource.ResourceWithImportState    = (*workloadIdentityResource)(nil)
	_ resource.ResourceWithValidateConfig = (*workloadIdentityResource)(nil)
)

type workloadIdentityModel struct {
	ID               types.String  `tfsdk:"id"`
	Name             types.String  `tfsdk:"name"`
	Issuer           types.String  `tfsdk:"issuer"`
	Audience         types.String  `tfsdk:"audience"`
	Subject          types.String  `tfsdk:"subject"`
	Conditions       types.Map     `tfsdk:"conditions"`
	ServiceAccountID types.String  `tfsdk:"service_account_id"`
	KeyID            types.String  `tfsdk:"key_id"`
	Scope            []scopeModel  `tfsdk:"scope"`
	ControlRole      types.String  `tfsdk:"control_role"`
	MaxTTL           notationValue `tfsdk:"max_ttl"`
	Enabled          types.Bool    `tfsdk:"enabled"`
	CreatedAt        types.String  `tfsdk:"created_at"`
}

func (m workloadIdentityModel) what() string { return "workload identity " + m.Name.ValueString() }

func (m *workloadIdentityModel) set(v api.WorkloadIdentity) {
	*m = workloadIdentityModel{ID: types.StringValue(v.Id), Name: types.StringValue(v.Name), Issuer: types.StringValue(v.Issuer), Audience: types.StringValue(v.Audience),
		Subject: types.StringValue(v.Subject), Conditions: labelsValue(api.Labels(v.Conditions)), ServiceAccountID: types.StringValue(v.ServiceAccountId), KeyID: types.StringValue(v.KeyId),
		Scope: scopesValue(v.Scopes, m.Scope), ControlRole: types.StringNull(), MaxTTL: durations.of(v.MaxTtl), Enabled: types.BoolValue(v.Enabled),
		CreatedAt: types.StringValue(v.CreatedAt.String())}
	if v.ControlRole != nil {
		m.ControlRole = types.StringValue(string(*v.ControlRole))
	}
}

func (r *workloadIdentityResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_workload_identity"
}

// longestTTL is the longest life of tokens, and the default.
const longestTTL = "15m"

func (r *workloadIdentityResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	text := func(p *property, description string) schema.StringAttribute {
		return schema.StringAttribute{Required: true, Validators: p.strings(), MarkdownDescription: description}
	}
	claim, ttl, role := contract("ClaimPattern", ""), contract("WorkloadTTL", ""), contract("ControlRole", "")
	resp.Schema = schema.Schema{
		MarkdownDescription: "Lets programs that another issuer vouches for, such as the jobs of a CI system or the pods of a cluster, act for a service account: " +
			"they exchange a token of theirs for a short one (`sluice workload-identity exchange`), and no secret is kept anywhere. " +
			"It needs at least one `scope` or a `control_role`.",
		Attributes: map[string]schema.Attribute{
			"id":      computedString("Id of the workload identity, the `client_id` of the exchange."),
			"name":    text(contract("DisplayName", ""), "Name, unique in the tenant."),
			"issuer":  text(contract("OidcIssuer", ""), contract("OidcIssuer", "").Description),
			"subject": text(claim, "The `sub` of its tokens. "+claim.Description),
			"audience": text(contract("WorkloadIdentityCreate", "audience"),
				contract("WorkloadIdentityCreate", "audience").Description),
			"conditions": schema.MapAttribute{ElementType: types.StringType, Optional: true, Computed: true, Default: emptyMap(),
				Validators: contract("ClaimConditions", "").maps(), MarkdownDescription: contract("ClaimConditions", "").Description + " By claim: " + claim.Description},
			"service_account_id": identityString(contract("ServiceAccountId", ""), "The service account that they act for. A change replaces the workload identity."),
			"key_id":             computedString("Id of the API key whose rights the tokens have; nobody knows its secret, and only this resource changes it."),
			"scope": scopeAttribute(contract("WorkloadIdentityCreate", "scopes"),
				"What the tokens may do; elements of one namespace differ in `cidrs` or `expires_at`."),
			"control_role": schema.StringAttribute{Optional: true, PlanModifiers: replace(), Validators: role.strings(),
				MarkdownDescription: "Lets the tokens use the HTTP API as `admin`, `developer`, `viewer` or `billing`. A change replaces the workload identity."},
			"max_ttl": schema.StringAttribute{Optional: true, Computed: true, CustomType: durations.typ(), PlanModifiers: durations.likeState(),
				Default: stringdefault.StaticString(longestTTL), Validators: ttl.strings(), MarkdownDescription: ttl.Description + " Default `15m`."},
			"enabled": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: contract("WorkloadIdentityCreate", "enabled").Description + " Default `true`."},
			"created_at": computedString("When it was created."),
		},
	}
}

// ValidateConfig refuses at plan time what the server would refuse at apply.
func (r *workloadIdentityResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	needsRights(ctx, req.Config, &resp.Diagnostics)
}

func (r *workloadIdentityResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan workloadIdentityModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	body := api.WorkloadIdentityCreate{Name: plan.Name.ValueString(), Issuer: plan.Issuer.ValueString(), Audience: plan.Audience.ValueString(), Subject: plan.Subject.ValueString(),
		Conditions: (*api.ClaimConditions)(labelsOf(ctx, plan.Conditions, &resp.Diagnostics)), ServiceAccountId: plan.ServiceAccountID.ValueString(),
		Scopes: scopesOf(ctx, plan.Scope, &resp.Diagnostics), MaxTtl: known(plan.MaxTTL.StringValue), Enabled: ptr(plan.Enabled.ValueBool())}
	if role := known(plan.ControlRole); role != nil {
		body.ControlRole = ptr(api.ControlRole(*role))
	}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	v, err := apiclient.Created(r.client.CreateWorkloadIdentityWithResponse(ctx, nil, body))
	if err != nil {
		addConflict(&resp.Diagnostics, "Could not create workload identity "+body.Name, err, func() string {
			return lineFor(ctx, r.client, workloadIdentityImport, body.Name, listWorkloadIdentities, func(v api.WorkloadIdentity) (string, string) { return v.Id, v.Name })
		})
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *workloadIdentityResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m workloadIdentityModel) (api.WorkloadIdentity, error) {
		return apiclient.OK(r.client.GetWorkloadIdentityWithResponse(ctx, m.ID.ValueString()))
	}, (*workloadIdentityModel).set)
}

func (r *workloadIdentityResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state workloadIdentityModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	body := workloadIdentityChanges(ctx, plan, state, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	v, err := apiclient.OK(r.client.UpdateWorkloadIdentityWithResponse(ctx, state.ID.ValueString(), nil, body))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not change "+state.what(), err)
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func workloadIdentityChanges(ctx context.Context, plan, state workloadIdentityModel, diags *diag.Diagnostics) api.WorkloadIdentityUpdate {
	body := api.WorkloadIdentityUpdate{Name: changed(plan.Name, state.Name), Issuer: changed(plan.Issuer, state.Issuer), Audience: changed(plan.Audience, state.Audience),
		Subject: changed(plan.Subject, state.Subject), Conditions: (*api.ClaimConditions)(changedLabels(ctx, plan.Conditions, state.Conditions, diags)),
		Enabled: changedBool(plan.Enabled, state.Enabled)}
	if !sameScopes(plan.Scope, state.Scope) {
		body.Scopes = scopesOf(ctx, plan.Scope, diags)
	}
	if !plan.MaxTTL.sameAs(state.MaxTTL) {
		body.MaxTtl = known(plan.MaxTTL.StringValue)
	}
	return body
}

func (r *workloadIdentityResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m workloadIdentityModel) error {
		return apiclient.Done(r.client.DeleteWorkloadIdentityWithResponse(ctx, m.ID.ValueString(), nil))
	})
}

func (r *workloadIdentityResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	workloadIdentityImport.importState(ctx, req, resp)
}
