package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// tenantSecurityResource is what the tenant of the credential demands. A
// tenant has it from the beginning: to create it changes it, to delete it
// takes all demands back.
type tenantSecurityResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*tenantSecurityResource)(nil)
	_ resource.ResourceWithImportState = (*tenantSecurityResource)(nil)
)

type tenantSecurityModel struct {
	ID          types.String  `tfsdk:"id"`
	MFARequired types.Bool    `tfsdk:"mfa_required"`
	SSORequired types.Bool    `tfsdk:"sso_required"`
	MaxKeyAge   notationValue `tfsdk:"max_key_age"`
}

func (m tenantSecurityModel) what() string { return "security of tenant " + m.ID.ValueString() }

func (m *tenantSecurityModel) set(t api.Tenant) {
	*m = tenantSecurityModel{ID: types.StringValue(t.Id), MFARequired: types.BoolValue(t.Security.MfaRequired), SSORequired: types.BoolValue(t.Security.SsoRequired),
		MaxKeyAge: durations.null()}
	if t.Security.MaxKeyAge != nil {
		m.MaxKeyAge = durations.of(*t.Security.MaxKeyAge)
	}
}

func (r *tenantSecurityResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_tenant_security"
}

func (r *tenantSecurityResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	demand := func(field string) schema.BoolAttribute {
		return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: contract("TenantSecurity", field).Description + " Default `false`."}
	}
	age := contract("TenantSecurityUpdate", "max_key_age")
	resp.Schema = schema.Schema{
		MarkdownDescription: "What the tenant of the credential demands of its people and keys. A tenant has this once: the first apply takes over what is there, " +
			"and a destroy takes all demands back. Write one block of it.",
		Attributes: map[string]schema.Attribute{
			"id":           computedString("Id of the tenant."),
			"mfa_required": demand("mfa_required"),
			"sso_required": demand("sso_required"),
			"max_key_age": schema.StringAttribute{Optional: true, CustomType: durations.typ(), PlanModifiers: durations.likeState(), Validators: age.strings(),
				MarkdownDescription: "An API key ends this long after it was made, `1h` to `87600h`; older keys end at once, that of Terraform, too. Left out: no limit."},
		},
	}
}

// demand tells the server what plan has other than state.
func (r *tenantSecurityResource) demand(ctx context.Context, plan, state tenantSecurityModel) (api.Tenant, error) {
	body := api.TenantSecurityUpdate{MfaRequired: changedBool(plan.MFARequired, state.MFARequired), SsoRequired: changedBool(plan.SSORequired, state.SSORequired)}
	switch text := known(plan.MaxKeyAge.StringValue); {
	case text != nil && !plan.MaxKeyAge.sameAs(state.MaxKeyAge):
		body.MaxKeyAge = nullable.NewNullableWithValue(*text)
	case text == nil && !state.MaxKeyAge.IsNull():
		body.MaxKeyAge = nullable.NewNullNullable[string]()
	}
	if body.MfaRequired == nil && body.SsoRequired == nil && !body.MaxKeyAge.IsSpecified() {
		return apiclient.OK(r.client.GetTenantWithResponse(ctx))
	}
	return apiclient.OK(r.client.UpdateTenantWithResponse(ctx, nil, api.TenantUpdate{Security: &body}))
}

// write changes what differs from the tenant as it is now, also on the first
// apply: it may demand something already.
func (r *tenantSecurityResource) write(ctx context.Context, plan tfsdk.Plan, state *tfsdk.State, diags *diag.Diagnostics) {
	var m, now tenantSecurityModel
	diags.Append(plan.Get(ctx, &m)...)
	if diags.HasError() || !r.ready(diags) {
		return
	}
	t, err := apiclient.OK(r.client.GetTenantWithResponse(ctx))
	if err == nil {
		now.set(t)
		t, err = r.demand(ctx, m, now)
	}
	if err != nil {
		addFailure(diags, "Could not change what the tenant demands", err)
		return
	}
	m.set(t)
	diags.Append(state.Set(ctx, m)...)
}

func (r *tenantSecurityResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	r.write(ctx, req.Plan, &resp.State, &resp.Diagnostics)
}

func (r *tenantSecurityResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	r.write(ctx, req.Plan, &resp.State, &resp.Diagnostics)
}

func (r *tenantSecurityResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m tenantSecurityModel) (api.Tenant, error) {
		t, err := apiclient.OK(r.client.GetTenantWithResponse(ctx))
		if err == nil && t.Id != m.ID.ValueString() {
			err = fmt.Errorf("the credential is for tenant %s, the state is of tenant %s; use a credential of the latter", t.Id, m.ID.ValueString())
		}
		return t, err
	}, (*tenantSecurityModel).set)
}

func (r *tenantSecurityResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m tenantSecurityModel) error {
		_, err := r.demand(ctx, tenantSecurityModel{MFARequired: types.BoolValue(false), SSORequired: types.BoolValue(false), MaxKeyAge: durations.null()}, m)
		return err
	})
}

func (r *tenantSecurityResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	tenantSecurityImport.importState(ctx, req, resp)
}
