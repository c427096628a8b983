package provider

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/defaults"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"github.com/sluicemq/sluice/controlplane/api"
)

func replace() []planmodifier.String {
	return []planmodifier.String{stringplanmodifier.RequiresReplace()}
}

func keep() []planmodifier.String {
	return []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
}

// computedString is a value that the server makes once and never changes.
func computedString(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, PlanModifiers: keep(), MarkdownDescription: description}
}

// identityString is a required part of what an object is.
func identityString(p *property, description string) schema.StringAttribute {
	return schema.StringAttribute{Required: true, PlanModifiers: replace(), Validators: p.strings(), MarkdownDescription: description}
}

// defaultedString goes back to standard when it is taken out of the configuration.
func defaultedString(p *property, standard, description string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(standard),
		Validators: p.strings(), MarkdownDescription: description}
}

// defaultedInt is a number with the default that the contract names.
func defaultedInt(p *property) schema.Int64Attribute {
	return schema.Int64Attribute{Optional: true, Computed: true, Default: int64default.StaticInt64(p.intDefault()),
		Validators:          p.ints(),
		MarkdownDescription: fmt.Sprintf("%s Default `%d`.", p.Description, p.intDefault())}
}

// defaultedBool is a flag with the default that the contract names.
func defaultedBool(p *property) schema.BoolAttribute {
	return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(p.boolDefault()),
		MarkdownDescription: fmt.Sprintf("%s Default `%t`.", p.Description, p.boolDefault())}
}

func descriptionAttribute() schema.StringAttribute {
	p := contract("Description", "")
	return defaultedString(p, "", p.Description)
}

// networksAttribute is a set of addresses and networks, empty by default.
func networksAttribute(p *property) schema.SetAttribute {
	return schema.SetAttribute{ElementType: types.StringType, Optional: true, Computed: true, PlanModifiers: []planmodifier.Set{likeStateSet(network)},
		Default: setdefault.StaticValue(setValue([]string{})), Validators: p.sets(), MarkdownDescription: p.Description}
}

// endAttribute is when something ends.
func endAttribute(description string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, CustomType: timestamps.typ(), PlanModifiers: timestamps.likeState(), MarkdownDescription: description}
}

func labelsAttribute() schema.MapAttribute {
	return schema.MapAttribute{ElementType: types.StringType, Optional: true, Computed: true, Default: emptyMap(),
		Validators: contract("Labels", "").maps(),
		MarkdownDescription: "At most 32 pairs of your own. Keys match `[a-z][a-z0-9_.-]{0,62}`, values have at most 128 characters. " +
			"Pairs that are not written here are removed."}
}

func emptyMap() defaults.Map {
	return mapdefault.StaticValue(types.MapValueMust(types.StringType, map[string]attr.Value{}))
}

// protectionAttribute is the delete guard. It is kept on the server, which
// refuses the delete by itself; guardDelete says so at plan time already.
func protectionAttribute(standard bool) schema.BoolAttribute {
	return schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(standard),
		MarkdownDescription: fmt.Sprintf("While `true`, a plan that destroys or replaces the object fails, and the server refuses to delete it "+
			"whoever asks. Set it to `false` and apply before a destroy. Default `%t`.", standard)}
}

func timeoutsAttribute(ctx context.Context) schema.Attribute {
	return timeouts.Attributes(ctx, timeouts.Opts{Create: true, Update: true, Delete: true,
		CreateDescription: "How long to wait until brokers have it, such as `5m`, which is the default.",
		UpdateDescription: "How long to wait until brokers have the change. Default `5m`.",
		DeleteDescription: "How long to wait until it is gone and its name is free. Default `5m`."})
}

// guardDelete fails a plan that would destroy a protected object, be it by
// destroy or by replacement through one of the named attributes.
func guardDelete(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, what string, replacing ...string) {
	if req.State.Raw.IsNull() {
		return
	}
	var protected types.Bool
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("deletion_protection"), &protected)...)
	if resp.Diagnostics.HasError() || !protected.ValueBool() {
		return
	}
	const fix = "Set deletion_protection = false, apply, and then plan again."
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.AddError("Protected from deletion", fmt.Sprintf("This plan destroys a %s with deletion_protection. %s", what, fix))
		return
	}
	for _, name := range replacing {
		at := path.Root(name)
		var before, after types.String
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, at, &before)...)
		resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, at, &after)...)
		if resp.Diagnostics.HasError() {
			return
		}
		if !after.Equal(before) {
			resp.Diagnostics.AddAttributeError(at, "Protected from deletion",
				fmt.Sprintf("A change of %s replaces the %s, which has deletion_protection. %s", name, what, fix))
		}
	}
}

func ptr[T any](v T) *T { return &v }

// changed returns the planned value where it differs from the state, and nil
// where the server has it already.
func changed(plan, state types.String) *string {
	if plan.Equal(state) {
		return nil
	}
	return ptr(plan.ValueString())
}

func changedBool(plan, state types.Bool) *bool {
	if plan.Equal(state) {
		return nil
	}
	return ptr(plan.ValueBool())
}

func changedInt(plan, state types.Int64) *int32 {
	if plan.Equal(state) {
		return nil
	}
	return int32Of(plan)
}

func changedLabels(ctx context.Context, plan, state types.Map, diags *diag.Diagnostics) *api.Labels {
	if plan.Equal(state) {
		return nil
	}
	return labelsOf(ctx, plan, diags)
}

// int32Of narrows a number whose range the validators have checked.
func int32Of(v types.Int64) *int32 {
	if v.IsNull() || v.IsUnknown() {
		return nil
	}
	return ptr(int32(v.ValueInt64()))
}

// known returns the value, or nil when it is null or left to the server.
func known(v types.String) *string {
	if v.IsNull() || v.IsUnknown() {
		return nil
	}
	return ptr(v.ValueString())
}

// writtenOr is the write-only attribute of this name, which only the
// configuration has, or else.
func writtenOr(ctx context.Context, config tfsdk.Config, name string, or types.String, diags *diag.Diagnostics) *string {
	var v types.String
	diags.Append(config.GetAttribute(ctx, path.Root(name), &v)...)
	if text := known(v); text != nil {
		return text
	}
	return known(or)
}

func labelsOf(ctx context.Context, v types.Map, diags *diag.Diagnostics) *api.Labels {
	labels := api.Labels{}
	diags.Append(v.ElementsAs(ctx, &labels, false)...)
	return &labels
}

func labelsValue(labels api.Labels) types.Map {
	values := make(map[string]attr.Value, len(labels))
	for k, v := range labels {
		values[k] = types.StringValue(v)
	}
	return types.MapValueMust(types.StringType, values)
}

func setValue[T ~string](in []T) types.Set {
	values := make([]attr.Value, len(in))
	for i, v := range in {
		values[i] = types.StringValue(string(v))
	}
	return types.SetValueMust(types.StringType, values)
}

// likeBefore keeps the texts of before where the server has the same in
// another notation: it writes 192.0.2.1 as 192.0.2.1/32. meaning turns a text
// into the one notation of what it means.
func likeBefore[T ~string](got []T, before types.Set, meaning func(string) string) types.Set {
	missing := make(map[string]bool, len(got))
	for _, text := range got {
		missing[meaning(string(text))] = true
	}
	kept := map[string]bool{}
	out := []string{}
	for _, text := range texts(before) {
		if n := meaning(text); missing[n] {
			kept[n], out = true, append(out, text)
		}
	}
	for _, text := range got {
		if !kept[meaning(string(text))] {
			out = append(out, string(text))
		}
	}
	return setValue(out)
}

// network is the one notation of an address or a network, or text itself when
// it is neither.
func network(text string) string {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()).String()
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked().String()
	}
	return text
}

// sameSet reports whether two sets mean the same, however they are written.
func sameSet(a, b types.Set, meaning func(string) string) bool {
	meanings := func(set types.Set) []string {
		out := texts(set)
		for i, text := range out {
			out[i] = meaning(text)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return a.IsUnknown() == b.IsUnknown() && slices.Equal(meanings(a), meanings(b))
}

// allKnown reports whether neither the set nor an element is known only later.
func allKnown(set types.Set) bool {
	return !set.IsUnknown() && len(texts(set)) == len(set.Elements())
}

// texts are the elements of a set that are known.
func texts(set types.Set) []string {
	var out []string
	for _, v := range set.Elements() {
		if text, ok := v.(types.String); ok && !text.IsUnknown() {
			out = append(out, text.ValueString())
		}
	}
	return out
}

func setOf[T ~string](ctx context.Context, v types.Set, diags *diag.Diagnostics) []T {
	texts := []string{}
	diags.Append(v.ElementsAs(ctx, &texts, false)...)
	out := make([]T, len(texts))
	for i, text := range texts {
		out[i] = T(text)
	}
	return out
}

func timeOf(v notationValue, diags *diag.Diagnostics) *api.Time {
	if v.IsNull() || v.IsUnknown() {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, v.ValueString())
	if err != nil {
		diags.AddError("Invalid timestamp", err.Error())
		return nil
	}
	return ptr(api.NewTimestamp(t))
}

// endOf is an end for an update: null takes it away.
func endOf(v notationValue, diags *diag.Diagnostics) nullable.Nullable[api.Timestamp] {
	if t := timeOf(v, diags); t != nil {
		return nullable.NewNullableWithValue(*t)
	}
	return nullable.NewNullNullable[api.Timestamp]()
}

func timeValue(t *api.Time) notationValue {
	if t == nil {
		return timestamps.null()
	}
	return timestamps.of(t.String())
}
