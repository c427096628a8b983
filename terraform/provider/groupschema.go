package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
)

// Defaults of the server that the contract tells in words. The delays are the
// levels of RocketMQ's own retries.
const (
	defaultOrder       = string(api.Concurrent)
	defaultMaxAttempts = 16
	defaultStrategy    = string(api.Custom)
)

var defaultDelays = []string{"10s", "30s", "1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m", "10m", "20m", "30m", "1h", "2h"}

var (
	retryTypes = map[string]attr.Type{"max_attempts": types.Int64Type, "strategy": types.StringType,
		"delays": types.ListType{ElemType: durations.typ()}}
	deadLetterTypes = map[string]attr.Type{"enabled": types.BoolType, "topic": types.StringType}
)

func defaultDelaysValue() types.List {
	values := make([]attr.Value, len(defaultDelays))
	for i, d := range defaultDelays {
		values[i] = durations.of(d)
	}
	return types.ListValueMust(durations.typ(), values)
}

// deadLetterTopic is where messages of a group go unless it says otherwise.
func deadLetterTopic(group string) string { return "%DLQ%" + group }

func groupSchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A consumer group: the consumers that share the messages of the topics they subscribe to, and how failed deliveries are retried.",
		Attributes: map[string]schema.Attribute{
			"id":           computedString("Id made by the server; a group made again under the same name has another one."),
			"namespace_id": identityString(contract("NamespaceId", ""), "Namespace that the group lives in. A change replaces the group."),
			"name":         identityString(contract("GroupName", ""), "Name, unique inside the namespace. A change replaces the group."),
			"order": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(defaultOrder),
				PlanModifiers: replace(), Validators: contract("GroupOrder", "").strings(),
				MarkdownDescription: "`concurrent` (default), or `fifo`, which delivers the messages of one message group (gRPC) or queue (remoting) one after another. A change replaces the group."},
			"consume_enabled":     defaultedBool(contract("GroupCreate", "consume_enabled")),
			"broadcast":           defaultedBool(contract("GroupCreate", "broadcast")),
			"retry":               retryAttribute(),
			"dead_letter":         deadLetterAttribute(),
			"max_in_flight":       defaultedInt(contract("GroupCreate", "max_in_flight")),
			"max_recv_tps":        defaultedInt(contract("GroupCreate", "max_recv_tps")),
			"description":         descriptionAttribute(),
			"labels":              labelsAttribute(),
			"deletion_protection": protectionAttribute(false),
			"created_at":          computedString("When it was created."),
			"timeouts":            timeoutsAttribute(ctx),
		},
	}
}

func retryAttribute() schema.Attribute {
	attempts, delays := contract("GroupRetry", "max_attempts"), contract("GroupRetry", "delays")
	return schema.SingleNestedAttribute{Optional: true, Computed: true,
		Default: objectdefault.StaticValue(types.ObjectValueMust(retryTypes, map[string]attr.Value{
			"max_attempts": types.Int64Value(defaultMaxAttempts), "strategy": types.StringValue(defaultStrategy), "delays": defaultDelaysValue()})),
		MarkdownDescription: "What happens after a failed delivery.",
		Attributes: map[string]schema.Attribute{
			"max_attempts": schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(defaultMaxAttempts),
				Validators: attempts.ints(), MarkdownDescription: attempts.Description + " Default `16`."},
			"strategy": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(defaultStrategy),
				Validators:          contract("RetryStrategy", "").strings(),
				MarkdownDescription: "How `delays` is read: `fixed`, `exponential` or `custom`. Default `custom`."},
			"delays": schema.ListAttribute{ElementType: durations.typ(), Optional: true, Computed: true,
				Default: listdefault.StaticValue(defaultDelaysValue()), Validators: delays.lists(),
				MarkdownDescription: "`fixed` takes one delay; `exponential` the first and the longest, doubling; `custom` one for each delivery, " +
					"the last repeats. Default, for `custom`: 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h."},
		}}
}

func deadLetterAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{Optional: true, Computed: true, PlanModifiers: []planmodifier.Object{deadLetterDefault{}},
		MarkdownDescription: "Where messages go that used up their attempts.",
		Attributes: map[string]schema.Attribute{
			"enabled": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: contract("GroupDeadLetter", "enabled").Description + " Default `true`."},
			"topic": schema.StringAttribute{Optional: true, Computed: true, Validators: contract("ReadableTopicName", "").strings(),
				PlanModifiers:       []planmodifier.String{deadLetterDefault{}},
				MarkdownDescription: "Name of the topic. Default: `%DLQ%` and the name of the group."},
		}}
}

// deadLetterDefault fills in what the server makes of the group's name, so
// that taking the attribute out of the configuration goes back to it.
type deadLetterDefault struct{}

var (
	_ planmodifier.Object = deadLetterDefault{}
	_ planmodifier.String = deadLetterDefault{}
)

func (deadLetterDefault) Description(context.Context) string {
	return "defaults to the dead-letter topic of the group"
}

func (d deadLetterDefault) MarkdownDescription(ctx context.Context) string { return d.Description(ctx) }

func (deadLetterDefault) PlanModifyObject(ctx context.Context, req planmodifier.ObjectRequest, resp *planmodifier.ObjectResponse) {
	if !req.ConfigValue.IsNull() {
		return
	}
	var name types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	if resp.Diagnostics.HasError() {
		return
	}
	topic := types.StringUnknown()
	if !name.IsUnknown() {
		topic = types.StringValue(deadLetterTopic(name.ValueString()))
	}
	resp.PlanValue = types.ObjectValueMust(deadLetterTypes, map[string]attr.Value{"enabled": types.BoolValue(true), "topic": topic})
}

func (deadLetterDefault) PlanModifyString(ctx context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse) {
	if !req.ConfigValue.IsNull() {
		return
	}
	var name types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	if !name.IsUnknown() {
		resp.PlanValue = types.StringValue(deadLetterTopic(name.ValueString()))
	}
}
