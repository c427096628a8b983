package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// tenantData is the tenant of the credential.
type tenantData struct{ dataBase }

var _ datasource.DataSourceWithConfigure = (*tenantData)(nil)

type tenantModel struct {
	tenantSecurityModel
	Name   types.String `tfsdk:"name"`
	Status types.String `tfsdk:"status"`
	PlanID types.String `tfsdk:"plan_id"`
	Labels types.Map    `tfsdk:"labels"`
}

func (d *tenantData) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "sluice_tenant"
}

func (d *tenantData) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	s := mirror(ctx, &tenantSecurityResource{}, "The tenant of the credential, and what it demands of its people and keys.")
	s.Attributes["name"] = schema.StringAttribute{Computed: true, MarkdownDescription: "Name for people."}
	s.Attributes["status"] = schema.StringAttribute{Computed: true, MarkdownDescription: contract("TenantStatus", "").Description}
	s.Attributes["plan_id"] = schema.StringAttribute{Computed: true, MarkdownDescription: "The plan that it pays for."}
	s.Attributes["labels"] = schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Its labels."}
	resp.Schema = s
}

func (d *tenantData) Read(ctx context.Context, _ datasource.ReadRequest, resp *datasource.ReadResponse) {
	if !d.ready(&resp.Diagnostics) {
		return
	}
	t, err := apiclient.OK(d.client.GetTenantWithResponse(ctx))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not read the tenant", err)
		return
	}
	m := tenantModel{Name: types.StringValue(t.Name), Status: types.StringValue(string(t.Status)), PlanID: types.StringValue(t.PlanId), Labels: labelsValue(t.Labels)}
	m.set(t)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}
