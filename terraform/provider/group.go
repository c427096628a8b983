package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type groupResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*groupResource)(nil)
	_ resource.ResourceWithImportState = (*groupResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*groupResource)(nil)
)

// groupFields are the attributes that resource and data source share.
type groupFields struct {
	ID                 types.String `tfsdk:"id"`
	NamespaceID        types.String `tfsdk:"namespace_id"`
	Name               types.String `tfsdk:"name"`
	Order              types.String `tfsdk:"order"`
	ConsumeEnabled     types.Bool   `tfsdk:"consume_enabled"`
	Broadcast          types.Bool   `tfsdk:"broadcast"`
	Retry              types.Object `tfsdk:"retry"`
	DeadLetter         types.Object `tfsdk:"dead_letter"`
	MaxInFlight        types.Int64  `tfsdk:"max_in_flight"`
	MaxRecvTPS         types.Int64  `tfsdk:"max_recv_tps"`
	Description        types.String `tfsdk:"description"`
	Labels             types.Map    `tfsdk:"labels"`
	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
	CreatedAt          types.String `tfsdk:"created_at"`
}

type groupModel struct {
	groupFields
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

type retryModel struct {
	MaxAttempts types.Int64     `tfsdk:"max_attempts"`
	Strategy    types.String    `tfsdk:"strategy"`
	Delays      []notationValue `tfsdk:"delays"`
}

type deadLetterModel struct {
	Enabled types.Bool   `tfsdk:"enabled"`
	Topic   types.String `tfsdk:"topic"`
}

func (f groupFields) what() string { return "consumer group " + f.Name.ValueString() }

func (f *groupFields) set(g api.Group) {
	*f = groupFields{
		ID: types.StringValue(g.Id), NamespaceID: types.StringValue(g.NamespaceId), Name: types.StringValue(g.Name),
		Order: types.StringValue(string(g.Order)), ConsumeEnabled: types.BoolValue(g.ConsumeEnabled), Broadcast: types.BoolValue(g.Broadcast),
		Retry: retryValue(g.Retry), DeadLetter: deadLetterValue(g.DeadLetter, g.Name),
		MaxInFlight: types.Int64Value(int64(g.MaxInFlight)), MaxRecvTPS: types.Int64Value(int64(g.MaxRecvTps)),
		Description: types.StringValue(g.Description), Labels: labelsValue(g.Labels),
		DeletionProtection: types.BoolValue(g.DeletionProtection), CreatedAt: types.StringValue(g.CreatedAt.String()),
	}
}

func retryValue(r api.GroupRetry) types.Object {
	attempts, strategy, delays := int64(defaultMaxAttempts), defaultStrategy, []attr.Value{}
	if r.MaxAttempts != nil {
		attempts = int64(*r.MaxAttempts)
	}
	if r.Strategy != nil {
		strategy = string(*r.Strategy)
	}
	if r.Delays != nil {
		for _, d := range *r.Delays {
			delays = append(delays, durations.of(d))
		}
	}
	return types.ObjectValueMust(retryTypes, map[string]attr.Value{
		"max_attempts": types.Int64Value(attempts), "strategy": types.StringValue(strategy),
		"delays": types.ListValueMust(durations.typ(), delays)})
}

func deadLetterValue(d api.GroupDeadLetter, group string) types.Object {
	enabled, topic := true, deadLetterTopic(group)
	if d.Enabled != nil {
		enabled = *d.Enabled
	}
	if d.Topic != nil {
		topic = *d.Topic
	}
	return types.ObjectValueMust(deadLetterTypes, map[string]attr.Value{
		"enabled": types.BoolValue(enabled), "topic": types.StringValue(topic)})
}

func retryOf(ctx context.Context, v types.Object, diags *diag.Diagnostics) *api.GroupRetry {
	var m retryModel
	diags.Append(v.As(ctx, &m, basetypes.ObjectAsOptions{})...)
	delays := make([]api.Duration, len(m.Delays))
	for i, d := range m.Delays {
		delays[i] = d.ValueString()
	}
	return &api.GroupRetry{MaxAttempts: int32Of(m.MaxAttempts), Strategy: ptr(api.RetryStrategy(m.Strategy.ValueString())), Delays: &delays}
}

func deadLetterOf(ctx context.Context, v types.Object, diags *diag.Diagnostics) *api.GroupDeadLetter {
	var m deadLetterModel
	diags.Append(v.As(ctx, &m, basetypes.ObjectAsOptions{})...)
	return &api.GroupDeadLetter{Enabled: ptr(m.Enabled.ValueBool()), Topic: known(m.Topic)}
}

func (r *groupResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_consumer_group"
}

func (r *groupResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = groupSchema(ctx)
}

func (r *groupResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	guardDelete(ctx, req, resp, "consumer group", "namespace_id", "name", "order")
}

func (r *groupResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan groupModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit, diags := plan.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	body := api.GroupCreate{
		Name: plan.Name.ValueString(), Order: ptr(api.GroupOrder(plan.Order.ValueString())),
		ConsumeEnabled: ptr(plan.ConsumeEnabled.ValueBool()), Broadcast: ptr(plan.Broadcast.ValueBool()),
		Retry: retryOf(ctx, plan.Retry, &resp.Diagnostics), DeadLetter: deadLetterOf(ctx, plan.DeadLetter, &resp.Diagnostics),
		MaxInFlight: int32Of(plan.MaxInFlight), MaxRecvTps: int32Of(plan.MaxRecvTPS), Description: known(plan.Description),
		Labels: labelsOf(ctx, plan.Labels, &resp.Diagnostics), DeletionProtection: ptr(plan.DeletionProtection.ValueBool()),
	}
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ns, what := plan.NamespaceID.ValueString(), "consumer group "+body.Name
	g, err := apiclient.Created(r.client.CreateGroupWithResponse(ctx, ns, &api.CreateGroupParams{Wait: r.wait()}, body))
	if err != nil {
		addConflict(&resp.Diagnostics, "Could not create "+what, err, func() string { return groupImport.line(ns, body.Name) })
		return
	}
	plan.set(g)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := settle(ctx, g.Status, r.status(ns, body.Name)); err != nil {
		addFailure(&resp.Diagnostics, "Created "+what+", but it is not ready", err)
	}
}

func (r *groupResource) status(ns, name string) func(context.Context) (api.ResourceStatus, error) {
	return func(ctx context.Context) (api.ResourceStatus, error) {
		g, err := apiclient.OK(r.client.GetGroupWithResponse(ctx, ns, name))
		return g.Status, err
	}
}

func (r *groupResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m groupModel) (api.Group, error) {
		return apiclient.OK(r.client.GetGroupWithResponse(ctx, m.NamespaceID.ValueString(), m.Name.ValueString()))
	}, func(m *groupModel, v api.Group) { m.set(v) })
}

func (r *groupResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state groupModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit, diags := plan.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	body := groupChanges(ctx, plan, state, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ns, name := plan.NamespaceID.ValueString(), plan.Name.ValueString()
	var g api.Group
	var err error
	if body == (api.GroupUpdate{}) {
		g, err = apiclient.OK(r.client.GetGroupWithResponse(ctx, ns, name)) // only the provider's own attributes changed
	} else {
		g, err = apiclient.OK(r.client.UpdateGroupWithResponse(ctx, ns, name, &api.UpdateGroupParams{Wait: r.wait()}, body))
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not update consumer group "+name, err)
		return
	}
	plan.set(g)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := settle(ctx, g.Status, r.status(ns, name)); err != nil {
		addFailure(&resp.Diagnostics, "Changed consumer group "+name+", but it is not ready", err)
	}
}

func groupChanges(ctx context.Context, plan, state groupModel, diags *diag.Diagnostics) api.GroupUpdate {
	body := api.GroupUpdate{
		ConsumeEnabled: changedBool(plan.ConsumeEnabled, state.ConsumeEnabled), Broadcast: changedBool(plan.Broadcast, state.Broadcast),
		MaxInFlight: changedInt(plan.MaxInFlight, state.MaxInFlight), MaxRecvTps: changedInt(plan.MaxRecvTPS, state.MaxRecvTPS),
		Description:        changed(plan.Description, state.Description),
		Labels:             changedLabels(ctx, plan.Labels, state.Labels, diags),
		DeletionProtection: changedBool(plan.DeletionProtection, state.DeletionProtection),
	}
	if !plan.Retry.Equal(state.Retry) {
		body.Retry = retryOf(ctx, plan.Retry, diags)
	}
	if !plan.DeadLetter.Equal(state.DeadLetter) {
		body.DeadLetter = deadLetterOf(ctx, plan.DeadLetter, diags)
	}
	return body
}

func (r *groupResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m groupModel) error {
		return apiclient.Done(r.client.DeleteGroupWithResponse(ctx, m.NamespaceID.ValueString(), m.Name.ValueString(), &api.DeleteGroupParams{Wait: r.wait()}))
	})
}

func (r *groupResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	groupImport.importState(ctx, req, resp)
}
