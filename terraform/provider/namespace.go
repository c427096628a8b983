package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type namespaceResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*namespaceResource)(nil)
	_ resource.ResourceWithImportState = (*namespaceResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*namespaceResource)(nil)
)

// namespaceFields are the attributes that resource and data source share.
type namespaceFields struct {
	ID                 types.String `tfsdk:"id"`
	Name               types.String `tfsdk:"name"`
	Region             types.String `tfsdk:"region"`
	Description        types.String `tfsdk:"description"`
	Labels             types.Map    `tfsdk:"labels"`
	StrictTypes        types.Bool   `tfsdk:"strict_types"`
	MaxSendTPS         types.Int64  `tfsdk:"max_send_tps"`
	MaxRecvTPS         types.Int64  `tfsdk:"max_recv_tps"`
	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
	Endpoints          types.Object `tfsdk:"endpoints"`
	WirePrefix         types.String `tfsdk:"wire_prefix"`
	State              types.String `tfsdk:"state"`
	CreatedAt          types.String `tfsdk:"created_at"`
}

type namespaceModel struct {
	namespaceFields
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

var endpointTypes = map[string]attr.Type{"remoting": types.StringType, "grpc": types.StringType, "http": types.StringType}

func (f namespaceFields) what() string { return "namespace " + f.ID.ValueString() }

func (f *namespaceFields) set(n api.Namespace) {
	*f = namespaceFields{
		ID: types.StringValue(n.Id), Name: types.StringValue(n.Name), Region: types.StringValue(n.Region),
		Description: types.StringValue(n.Description), Labels: labelsValue(n.Labels), StrictTypes: types.BoolValue(n.StrictTypes),
		MaxSendTPS: types.Int64Value(int64(n.MaxSendTps)), MaxRecvTPS: types.Int64Value(int64(n.MaxRecvTps)),
		DeletionProtection: types.BoolValue(n.DeletionProtection),
		Endpoints: types.ObjectValueMust(endpointTypes, map[string]attr.Value{
			"remoting": types.StringValue(n.Endpoints.Remoting), "grpc": types.StringValue(n.Endpoints.Grpc),
			"http": types.StringValue(n.Endpoints.Http)}),
		WirePrefix: types.StringValue(n.Id + "%"), State: types.StringValue(string(n.Status.Phase)),
		CreatedAt: types.StringValue(n.CreatedAt.String()),
	}
}

func (r *namespaceResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_namespace"
}

func (r *namespaceResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A namespace: the unit of isolation that topics, consumer groups and the scopes of API keys live in. " +
			"Destroying it destroys all of them, so `deletion_protection` is on unless you turn it off.",
		Attributes: map[string]schema.Attribute{
			"id": computedString("Id made by the server, never used again."),
			"name": schema.StringAttribute{Required: true, Validators: contract("DisplayName", "").strings(),
				MarkdownDescription: "Name for people, unique in the tenant. It can be changed in place."},
			"region": schema.StringAttribute{Optional: true, Computed: true, Validators: contract("Region", "").strings(),
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
				MarkdownDescription: "Region code. Left out: the only or nearest one. A change replaces the namespace."},
			"description":         descriptionAttribute(),
			"labels":              labelsAttribute(),
			"strict_types":        defaultedBool(contract("NamespaceCreate", "strict_types")),
			"max_send_tps":        defaultedInt(contract("NamespaceCreate", "max_send_tps")),
			"max_recv_tps":        defaultedInt(contract("NamespaceCreate", "max_recv_tps")),
			"deletion_protection": protectionAttribute(true),
			"endpoints": schema.SingleNestedAttribute{Computed: true,
				PlanModifiers:       []planmodifier.Object{objectplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Where clients of the namespace connect.",
				Attributes: map[string]schema.Attribute{
					"remoting": schema.StringAttribute{Computed: true, MarkdownDescription: contract("Endpoints", "remoting").Description},
					"grpc":     schema.StringAttribute{Computed: true, MarkdownDescription: contract("Endpoints", "grpc").Description},
					"http":     schema.StringAttribute{Computed: true, MarkdownDescription: contract("Endpoints", "http").Description},
				}},
			"wire_prefix": computedString("What names carry on brokers in front of the bare name. SDKs need it only when a key reaches several namespaces."),
			"state":       schema.StringAttribute{Computed: true, MarkdownDescription: contract("Phase", "").Description + " `pending`, `ready` or `failed`."},
			"created_at":  computedString("When it was created."),
			"timeouts":    timeoutsAttribute(ctx),
		},
	}
}

func (r *namespaceResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	guardDelete(ctx, req, resp, "namespace", "region")
}

func (r *namespaceResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan namespaceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit, diags := plan.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	body := api.NamespaceCreate{
		Name: plan.Name.ValueString(), Region: known(plan.Region), Description: known(plan.Description),
		Labels: labelsOf(ctx, plan.Labels, &resp.Diagnostics), StrictTypes: ptr(plan.StrictTypes.ValueBool()),
		MaxSendTps: int32Of(plan.MaxSendTPS), MaxRecvTps: int32Of(plan.MaxRecvTPS),
		DeletionProtection: ptr(plan.DeletionProtection.ValueBool()),
	}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	what := "namespace " + body.Name
	n, err := apiclient.Created(r.client.CreateNamespaceWithResponse(ctx, &api.CreateNamespaceParams{Wait: r.wait()}, body))
	if err != nil {
		addConflict(&resp.Diagnostics, "Could not create "+what, err, func() string {
			return lineFor(ctx, r.client, namespaceImport, body.Name, listNamespaces, func(v api.Namespace) (string, string) { return v.Id, v.Name })
		})
		return
	}
	r.store(ctx, plan, n, &resp.State, &resp.Diagnostics, "Created "+what)
}

func (r *namespaceResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m namespaceModel) (api.Namespace, error) {
		return apiclient.OK(r.client.GetNamespaceWithResponse(ctx, m.ID.ValueString()))
	}, func(m *namespaceModel, v api.Namespace) { m.set(v) })
}

func (r *namespaceResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state namespaceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit, diags := plan.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	body := api.NamespaceUpdate{
		Name: changed(plan.Name, state.Name), Description: changed(plan.Description, state.Description),
		Labels:      changedLabels(ctx, plan.Labels, state.Labels, &resp.Diagnostics),
		StrictTypes: changedBool(plan.StrictTypes, state.StrictTypes),
		MaxSendTps:  changedInt(plan.MaxSendTPS, state.MaxSendTPS), MaxRecvTps: changedInt(plan.MaxRecvTPS, state.MaxRecvTPS),
		DeletionProtection: changedBool(plan.DeletionProtection, state.DeletionProtection),
	}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	id := state.ID.ValueString()
	var n api.Namespace
	var err error
	if body == (api.NamespaceUpdate{}) {
		n, err = apiclient.OK(r.client.GetNamespaceWithResponse(ctx, id)) // only the provider's own attributes changed
	} else {
		n, err = apiclient.OK(r.client.UpdateNamespaceWithResponse(ctx, id, &api.UpdateNamespaceParams{Wait: r.wait()}, body))
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not update namespace "+id, err)
		return
	}
	r.store(ctx, plan, n, &resp.State, &resp.Diagnostics, "Changed namespace "+id)
}

func (r *namespaceResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m namespaceModel) error {
		return apiclient.Done(r.client.DeleteNamespaceWithResponse(ctx, m.ID.ValueString(), &api.DeleteNamespaceParams{Wait: r.wait()}))
	})
}

func (r *namespaceResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	namespaceImport.importState(ctx, req, resp)
}

// store writes the namespace into the state, waits until brokers have it and
// writes what came of it. The first write comes before the wait, so that a
// namespace that is not ready in time is tainted, not orphaned.
func (r *namespaceResource) store(ctx context.Context, model namespaceModel, n api.Namespace, state *tfsdk.State, diags *diag.Diagnostics, done string) {
	model.set(n)
	diags.Append(state.Set(ctx, model)...)
	err := settle(ctx, n.Status, func(ctx context.Context) (api.ResourceStatus, error) {
		latest, err := apiclient.OK(r.client.GetNamespaceWithResponse(ctx, n.Id))
		if err == nil {
			n = latest
		}
		return latest.Status, err
	})
	if err != nil {
		addFailure(diags, done+", but it is not ready", err)
		return
	}
	model.set(n)
	diags.Append(state.Set(ctx, model)...)
}
