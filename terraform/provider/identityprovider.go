package provider

import (
	"context"
	"reflect"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type identityProviderResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*identityProviderResource)(nil)
	_ resource.ResourceWithImportState = (*identityProviderResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*identityProviderResource)(nil)
)

// identityProviderFields are the attributes that resource and data source share.
type identityProviderFields struct {
	ID                types.String `tfsdk:"id"`
	Name              types.String `tfsdk:"name"`
	Issuer            types.String `tfsdk:"issuer"`
	ClientID          types.String `tfsdk:"client_id"`
	HasClientSecret   types.Bool   `tfsdk:"has_client_secret"`
	Domains           types.Set    `tfsdk:"domains"`
	DomainRecords     types.Map    `tfsdk:"domain_records"`
	AutoEnrolRole     types.String `tfsdk:"auto_enrol_role"`
	Enabled           types.Bool   `tfsdk:"enabled"`
	OwnerApproved     types.Bool   `tfsdk:"owner_approved"`
	RedirectURI       types.String `tfsdk:"redirect_uri"`
	BackchannelLogout types.String `tfsdk:"backchannel_logout_uri"`
	CreatedAt         types.String `tfsdk:"created_at"`
}

type identityProviderModel struct {
	identityProviderFields
	ClientSecret        types.String `tfsdk:"client_secret"`
	ClientSecretWO      types.String `tfsdk:"client_secret_wo"`
	ClientSecretVersion types.Int64  `tfsdk:"client_secret_version"`
}

func (f identityProviderFields) what() string { return "identity provider " + f.Name.ValueString() }

func (f *identityProviderFields) set(v api.IdentityProvider) {
	names := make([]string, len(v.Domains))
	for i, d := range v.Domains {
		names[i] = d.Domain
	}
	*f = identityProviderFields{ID: types.StringValue(v.Id), Name: types.StringValue(v.Name), Issuer: types.StringValue(v.Issuer), ClientID: types.StringValue(v.ClientId),
		HasClientSecret: types.BoolValue(v.HasClientSecret), Domains: likeBefore(names, f.Domains, strings.ToLower), DomainRecords: domainRecords(v.Domains),
		AutoEnrolRole: types.StringValue(string(v.AutoEnrolRole)), Enabled: types.BoolValue(v.Enabled), OwnerApproved: types.BoolValue(v.OwnerApproved),
		RedirectURI: types.StringValue(v.RedirectUri), BackchannelLogout: types.StringValue(v.BackchannelLogoutUri), CreatedAt: types.StringValue(v.CreatedAt.String())}
}

// set shows a secret that was taken away on the server as one that is missing.
func (m *identityProviderModel) set(v api.IdentityProvider) {
	m.identityProviderFields.set(v)
	if !v.HasClientSecret {
		m.ClientSecret, m.ClientSecretVersion = types.StringNull(), types.Int64Null()
	}
}

func (r *identityProviderResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_identity_provider"
}

func (r *identityProviderResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	domains, enrol, secret := contract("IdentityProviderCreate", "domains"), contract("AutoEnrolRole", ""), contract("IdentityProviderCreate", "client_secret")
	resp.Schema = schema.Schema{
		MarkdownDescription: "An OpenID Connect provider at which the tenant's people sign in. Register `redirect_uri` and `backchannel_logout_uri` there. " +
			"A domain counts once it is verified: make the TXT record of `domain_records`, then a `sluice_identity_domain_verification`. " +
			"An API key is no owner: owners can sign in there only after one of them saved the provider in the console or with the command line (`owner_approved`).",
		Attributes: map[string]schema.Attribute{
			"id": computedString(contract("IdentityProviderId", "").Description),
			"name": schema.StringAttribute{Required: true, Validators: contract("DisplayName", "").strings(),
				MarkdownDescription: "Name, unique in the tenant."},
			"issuer": schema.StringAttribute{Required: true, Validators: contract("OidcIssuer", "").strings(),
				MarkdownDescription: contract("OidcIssuer", "").Description + " A change ends the sessions that began there."},
			"client_id": schema.StringAttribute{Required: true, Validators: contract("OidcClientId", "").strings(),
				MarkdownDescription: contract("OidcClientId", "").Description + " A change ends the sessions that began there."},
			"client_secret": schema.StringAttribute{Optional: true, Sensitive: true,
				Validators: append(secret.strings(), stringvalidator.ConflictsWith(path.MatchRoot("client_secret_wo"))),
				MarkdownDescription: "Secret that the provider gave, kept in the state: for Terraform before 1.11. Else use `client_secret_wo`. " +
					"Both left out: a public client."},
			"client_secret_wo": schema.StringAttribute{Optional: true, WriteOnly: true, Sensitive: true,
				Validators:          append(secret.strings(), stringvalidator.AlsoRequires(path.MatchRoot("client_secret_version"))),
				MarkdownDescription: "Secret that the provider gave; neither plan nor state hold it. Needs Terraform 1.11 and `client_secret_version`."},
			"client_secret_version": schema.Int64Attribute{Optional: true,
				Validators:          []validator.Int64{int64validator.AlsoRequires(path.MatchRoot("client_secret_wo"))},
				MarkdownDescription: "A number of your own; another one sends `client_secret_wo` again."},
			"has_client_secret": schema.BoolAttribute{Computed: true, MarkdownDescription: contract("IdentityProvider", "has_client_secret").Description},
			"domains": schema.SetAttribute{ElementType: types.StringType, Optional: true, Computed: true, Validators: domains.sets(),
				Default: setdefault.StaticValue(setValue([]string{})), PlanModifiers: []planmodifier.Set{likeStateSet(strings.ToLower)}, MarkdownDescription: domains.Description},
			"domain_records": schema.MapNestedAttribute{Computed: true, PlanModifiers: []planmodifier.Map{recordsOfDomains{}},
				MarkdownDescription: "By domain, in lower case, the TXT record that proves it.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"txt_name":  schema.StringAttribute{Computed: true, MarkdownDescription: contract("IdentityDomain", "txt_name").Description},
					"txt_value": schema.StringAttribute{Computed: true, MarkdownDescription: contract("IdentityDomain", "txt_value").Description},
				}}},
			"auto_enrol_role": defaultedString(enrol, "none", enrol.Description+" `none`, `viewer`, `developer` or `billing`. Default `none`."),
			"enabled": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: contract("IdentityProviderCreate", "enabled").Description + " Default `true`."},
			"owner_approved":         schema.BoolAttribute{Computed: true, MarkdownDescription: contract("IdentityProvider", "owner_approved").Description},
			"redirect_uri":           computedString(contract("IdentityProvider", "redirect_uri").Description),
			"backchannel_logout_uri": computedString(contract("IdentityProvider", "backchannel_logout_uri").Description),
			"created_at":             computedString("When it was created."),
		},
	}
}

// ModifyPlan keeps what only a change on the server changes while the
// configuration asks for none.
func (r *identityProviderResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var plan, state identityProviderModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !allKnown(plan.Domains) {
		return
	}
	if reflect.DeepEqual(identityProviderChanges(ctx, plan, state, nil, &resp.Diagnostics), api.IdentityProviderUpdate{}) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("has_client_secret"), state.HasClientSecret)...)
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("owner_approved"), state.OwnerApproved)...)
	}
}

func (r *identityProviderResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan identityProviderModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	domains := setOf[api.DomainName](ctx, plan.Domains, &resp.Diagnostics)
	body := api.IdentityProviderCreate{Name: plan.Name.ValueString(), Issuer: plan.Issuer.ValueString(), ClientId: plan.ClientID.ValueString(),
		ClientSecret: writtenOr(ctx, req.Config, "client_secret_wo", plan.ClientSecret, &resp.Diagnostics), Domains: &domains,
		AutoEnrolRole: ptr(api.AutoEnrolRole(plan.AutoEnrolRole.ValueString())), Enabled: ptr(plan.Enabled.ValueBool())}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	v, err := apiclient.Created(r.client.CreateIdentityProviderWithResponse(ctx, nil, body))
	if err != nil {
		addConflict(&resp.Diagnostics, "Could not create identity provider "+body.Name, err, func() string {
			return lineFor(ctx, r.client, identityProviderImport, body.Name, listIdentityProviders, func(v api.IdentityProvider) (string, string) { return v.Id, v.Name })
		})
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *identityProviderResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m identityProviderModel) (api.IdentityProvider, error) {
		return apiclient.OK(r.client.GetIdentityProviderWithResponse(ctx, m.ID.ValueString()))
	}, (*identityProviderModel).set)
}

func (r *identityProviderResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state identityProviderModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	secret := writtenOr(ctx, req.Config, "client_secret_wo", plan.ClientSecret, &resp.Diagnostics)
	body := identityProviderChanges(ctx, plan, state, secret, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	v, err := apiclient.OK(r.client.UpdateIdentityProviderWithResponse(ctx, state.ID.ValueString(), nil, body))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not change "+state.what(), err)
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func identityProviderChanges(ctx context.Context, plan, state identityProviderModel, secret *string, diags *diag.Diagnostics) api.IdentityProviderUpdate {
	body := api.IdentityProviderUpdate{Name: changed(plan.Name, state.Name), Issuer: changed(plan.Issuer, state.Issuer), ClientId: changed(plan.ClientID, state.ClientID),
		Enabled: changedBool(plan.Enabled, state.Enabled)}
	if !sameSet(plan.Domains, state.Domains, strings.ToLower) {
		body.Domains = ptr(setOf[api.DomainName](ctx, plan.Domains, diags))
	}
	if role := changed(plan.AutoEnrolRole, state.AutoEnrolRole); role != nil {
		body.AutoEnrolRole = ptr(api.AutoEnrolRole(*role))
	}
	switch same := plan.ClientSecret.Equal(state.ClientSecret) && plan.ClientSecretVersion.Equal(state.ClientSecretVersion); {
	case same:
	case secret == nil:
		body.ClientSecret = nullable.NewNullNullable[string]()
	default:
		body.ClientSecret = nullable.NewNullableWithValue(*secret)
	}
	return body
}

func (r *identityProviderResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m identityProviderModel) error {
		return apiclient.Done(r.client.DeleteIdentityProviderWithResponse(ctx, m.ID.ValueString(), nil))
	})
}

func (r *identityProviderResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	identityProviderImport.importState(ctx, req, resp)
}
