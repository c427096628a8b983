package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// Defaults of the server that the contract tells in words.
const (
	defaultTopicType = string(api.NORMAL)
	defaultRetention = "72h"
	defaultPerm      = string(api.Rw)
)

type topicResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*topicResource)(nil)
	_ resource.ResourceWithImportState = (*topicResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*topicResource)(nil)
)

// topicFields are the attributes that resource and data source share.
type topicFields struct {
	ID                 types.String  `tfsdk:"id"`
	NamespaceID        types.String  `tfsdk:"namespace_id"`
	Name               types.String  `tfsdk:"name"`
	Type               types.String  `tfsdk:"type"`
	Queues             types.Int64   `tfsdk:"queues"`
	Retention          notationValue `tfsdk:"retention"`
	MaxMessageBytes    types.Int64   `tfsdk:"max_message_bytes"`
	MaxSendTPS         types.Int64   `tfsdk:"max_send_tps"`
	Perm               types.String  `tfsdk:"perm"`
	Description        types.String  `tfsdk:"description"`
	Labels             types.Map     `tfsdk:"labels"`
	DeletionProtection types.Bool    `tfsdk:"deletion_protection"`
	CreatedAt          types.String  `tfsdk:"created_at"`
}

type topicModel struct {
	topicFields
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

func (f topicFields) what() string { return "topic " + f.Name.ValueString() }

func (f *topicFields) set(t api.Topic) {
	*f = topicFields{
		ID: types.StringValue(t.Id), NamespaceID: types.StringValue(t.NamespaceId), Name: types.StringValue(t.Name),
		Type: types.StringValue(string(t.Type)), Queues: types.Int64Value(int64(t.Queues)), Retention: durations.of(t.Retention),
		MaxMessageBytes: types.Int64Value(int64(t.MaxMessageBytes)), MaxSendTPS: types.Int64Value(int64(t.MaxSendTps)),
		Perm: types.StringValue(string(t.Perm)), Description: types.StringValue(t.Description), Labels: labelsValue(t.Labels),
		DeletionProtection: types.BoolValue(t.DeletionProtection), CreatedAt: types.StringValue(t.CreatedAt.String()),
	}
}

func (r *topicResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_topic"
}

func (r *topicResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	queues := contract("TopicCreate", "queues")
	resp.Schema = schema.Schema{
		MarkdownDescription: "A topic: a named stream of messages of one type. A change of namespace, name or type replaces it, and its messages are lost.",
		Attributes: map[string]schema.Attribute{
			"id":           computedString("Id made by the server; a topic made again under the same name has another one."),
			"namespace_id": identityString(contract("NamespaceId", ""), "Namespace that the topic lives in. A change replaces the topic."),
			"name":         identityString(contract("TopicName", ""), "Name, unique inside the namespace. A change replaces the topic."),
			"type": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(defaultTopicType),
				PlanModifiers: replace(), Validators: contract("TopicType", "").strings(),
				MarkdownDescription: "Which messages the topic is for: `NORMAL`, `FIFO`, `DELAY` or `TRANSACTION`. Default `NORMAL`. A change replaces the topic."},
			"queues": schema.Int64Attribute{Optional: true, Computed: true, Validators: queues.ints(),
				PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
				MarkdownDescription: fmt.Sprintf("Number of queues. It can grow, never shrink: a smaller number is an error at plan time. "+
					"Left out: `%d` for a new topic, unchanged for an existing one.", queues.intDefault())},
			"retention": schema.StringAttribute{Optional: true, Computed: true, CustomType: durations.typ(),
				Default:             stringdefault.StaticString(defaultRetention),
				MarkdownDescription: "How long messages are kept, such as `72h`, which is the default."},
			"max_message_bytes":   defaultedInt(contract("TopicCreate", "max_message_bytes")),
			"max_send_tps":        defaultedInt(contract("TopicCreate", "max_send_tps")),
			"perm":                defaultedString(contract("TopicPerm", ""), defaultPerm, "What clients may do: send and receive (`rw`), only receive (`r`), only send (`w`). Default `rw`."),
			"description":         descriptionAttribute(),
			"labels":              labelsAttribute(),
			"deletion_protection": protectionAttribute(false),
			"created_at":          computedString("When it was created."),
			"timeouts":            timeoutsAttribute(ctx),
		},
	}
}

// ModifyPlan fails plans that the server could only refuse.
func (r *topicResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	guardDelete(ctx, req, resp, "topic", "namespace_id", "name", "type")
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() || resp.Diagnostics.HasError() {
		return
	}
	var state, plan topicModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !plan.NamespaceID.Equal(state.NamespaceID) || !plan.Name.Equal(state.Name) || !plan.Type.Equal(state.Type) {
		return // another topic, which may begin with any number
	}
	if plan.Queues.IsUnknown() || plan.Queues.ValueInt64() >= state.Queues.ValueInt64() {
		return
	}
	resp.Diagnostics.AddAttributeError(path.Root("queues"), "Queues cannot shrink",
		fmt.Sprintf("Topic %s has %d queues; %d would cut off the messages in the others. Ask for at least %d, or make another topic.",
			state.Name.ValueString(), state.Queues.ValueInt64(), plan.Queues.ValueInt64(), state.Queues.ValueInt64()))
}

func (r *topicResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan topicModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit, diags := plan.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	body := api.TopicCreate{
		Name: plan.Name.ValueString(), Type: ptr(api.TopicType(plan.Type.ValueString())), Queues: int32Of(plan.Queues),
		Retention: known(plan.Retention.StringValue), MaxMessageBytes: int32Of(plan.MaxMessageBytes), MaxSendTps: int32Of(plan.MaxSendTPS),
		Perm: ptr(api.TopicPerm(plan.Perm.ValueString())), Description: known(plan.Description),
		Labels: labelsOf(ctx, plan.Labels, &resp.Diagnostics), DeletionProtection: ptr(plan.DeletionProtection.ValueBool()),
	}
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ns, what := plan.NamespaceID.ValueString(), "topic "+body.Name
	t, err := apiclient.Created(r.client.CreateTopicWithResponse(ctx, ns, &api.CreateTopicParams{Wait: r.wait()}, body))
	if err != nil {
		addConflict(&resp.Diagnostics, "Could not create "+what, err, func() string { return topicImport.line(ns, body.Name) })
		return
	}
	// The state is written before the wait: a topic that is not ready in time
	// is tainted, not orphaned.
	plan.set(t)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := settle(ctx, t.Status, r.status(ns, body.Name)); err != nil {
		addFailure(&resp.Diagnostics, "Created "+what+", but it is not ready", err)
	}
}

func (r *topicResource) status(ns, name string) func(context.Context) (api.ResourceStatus, error) {
	return func(ctx context.Context) (api.ResourceStatus, error) {
		t, err := apiclient.OK(r.client.GetTopicWithResponse(ctx, ns, name))
		return t.Status, err
	}
}

func (r *topicResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m topicModel) (api.Topic, error) {
		return apiclient.OK(r.client.GetTopicWithResponse(ctx, m.NamespaceID.ValueString(), m.Name.ValueString()))
	}, func(m *topicModel, v api.Topic) { m.set(v) })
}

func (r *topicResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state topicModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit, diags := plan.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	body := topicChanges(ctx, plan, state, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ns, name := plan.NamespaceID.ValueString(), plan.Name.ValueString()
	var t api.Topic
	var err error
	if body == (api.TopicUpdate{}) {
		t, err = apiclient.OK(r.client.GetTopicWithResponse(ctx, ns, name)) // only the provider's own attributes changed
	} else {
		t, err = apiclient.OK(r.client.UpdateTopicWithResponse(ctx, ns, name, &api.UpdateTopicParams{Wait: r.wait()}, body))
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not update topic "+name, err)
		return
	}
	plan.set(t)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := settle(ctx, t.Status, r.status(ns, name)); err != nil {
		addFailure(&resp.Diagnostics, "Changed topic "+name+", but it is not ready", err)
	}
}

func topicChanges(ctx context.Context, plan, state topicModel, diags *diag.Diagnostics) api.TopicUpdate {
	body := api.TopicUpdate{
		Queues: changedInt(plan.Queues, state.Queues), MaxMessageBytes: changedInt(plan.MaxMessageBytes, state.MaxMessageBytes),
		MaxSendTps: changedInt(plan.MaxSendTPS, state.MaxSendTPS), Description: changed(plan.Description, state.Description),
		Labels:             changedLabels(ctx, plan.Labels, state.Labels, diags),
		DeletionProtection: changedBool(plan.DeletionProtection, state.DeletionProtection),
	}
	if !plan.Retention.sameAs(state.Retention) {
		body.Retention = known(plan.Retention.StringValue)
	}
	if !plan.Perm.Equal(state.Perm) {
		body.Perm = ptr(api.TopicPerm(plan.Perm.ValueString()))
	}
	return body
}

func (r *topicResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m topicModel) error {
		return apiclient.Done(r.client.DeleteTopicWithResponse(ctx, m.NamespaceID.ValueString(), m.Name.ValueString(), &api.DeleteTopicParams{Wait: r.wait()}))
	})
}

func (r *topicResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	topicImport.importState(ctx, req, resp)
}
