package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
)

// named is the state of a resource, which names the object for messages,
// such as "topic orders".
type named interface{ what() string }

// refresh reads what the state names and puts what the server has into it.
// Only a 404 takes an object out of the state, and the user is told.
func refresh[M named, V any](ctx context.Context, b base, req resource.ReadRequest, resp *resource.ReadResponse,
	read func(context.Context, M) (V, error), set func(*M, V)) {
	var state M
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !b.ready(&resp.Diagnostics) {
		return
	}
	v, err := read(ctx, state)
	switch {
	case isNotFound(err):
		addGone(&resp.Diagnostics, state.what())
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		addFailure(&resp.Diagnostics, "Could not read "+state.what(), err)
		return
	}
	set(&state, v)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// remove deletes what the state names; what is gone already is no failure.
func remove[M named](ctx context.Context, b base, req resource.DeleteRequest, resp *resource.DeleteResponse, drop func(context.Context, M) error) {
	var state M
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit := deleteTimeout(ctx, req.State, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !b.ready(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := drop(ctx, state); err != nil && !isNotFound(err) {
		addFailure(&resp.Diagnostics, "Could not delete "+state.what(), err)
	}
}

// deleteTimeout is that of the timeouts attribute, for resources that have one.
func deleteTimeout(ctx context.Context, state tfsdk.State, diags *diag.Diagnostics) time.Duration {
	if _, has := state.Schema.GetAttributes()["timeouts"]; !has {
		return defaultTimeout
	}
	var t timeouts.Value
	diags.Append(state.GetAttribute(ctx, path.Root("timeouts"), &t)...)
	limit, more := t.Delete(ctx, defaultTimeout)
	diags.Append(more...)
	return limit
}
