package provider

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/oapi-codegen/nullable"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type apiKeyResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*apiKeyResource)(nil)
	_ resource.ResourceWithImportState = (*apiKeyResource)(nil)
)

// apiKeyFields are the attributes that resource and data source share.
type apiKeyFields struct {
	ID           types.String  `tfsdk:"id"`
	KeyID        types.String  `tfsdk:"key_id"`
	OwnerID      types.String  `tfsdk:"owner_id"`
	Name         types.String  `tfsdk:"name"`
	Description  types.String  `tfsdk:"description"`
	Scope        []scopeModel  `tfsdk:"scope"`
	ControlRole  types.String  `tfsdk:"control_role"`
	AllowedCIDRs types.Set     `tfsdk:"allowed_cidrs"`
	ExpiresAt    notationValue `tfsdk:"expires_at"`
	Disabled     types.Bool    `tfsdk:"disabled"`
	Hint         types.String  `tfsdk:"hint"`
	CreatedAt    types.String  `tfsdk:"created_at"`
}

type apiKeyModel struct {
	apiKeyFields
	RotationKeepers types.Map      `tfsdk:"rotation_keepers"`
	GracePeriod     notationValue  `tfsdk:"grace_period"`
	Secret          types.String   `tfsdk:"secret"`
	Timeouts        timeouts.Value `tfsdk:"timeouts"`
}

type scopeModel struct {
	NamespaceID types.String  `tfsdk:"namespace_id"`
	Permissions types.Set     `tfsdk:"permissions"`
	Topics      types.Set     `tfsdk:"topics"`
	Groups      types.Set     `tfsdk:"groups"`
	CIDRs       types.Set     `tfsdk:"cidrs"`
	ExpiresAt   notationValue `tfsdk:"expires_at"`
}

// everything is the pattern that matches all names.
const everything = "*"

func (f *apiKeyFields) set(k api.ApiKey) {
	scopes := alignScopes(k.Scopes, f.Scope)
	*f = apiKeyFields{
		ID: types.StringValue(k.Id), KeyID: types.StringValue(k.Id), OwnerID: types.StringValue(k.OwnerId), Name: types.StringValue(k.Name),
		Description: types.StringValue(k.Description), Scope: scopes, AllowedCIDRs: cidrsValue(k.AllowedCidrs, f.AllowedCIDRs),
		ControlRole: types.StringNull(), ExpiresAt: timeValue(k.ExpiresAt), Disabled: types.BoolValue(k.Disabled),
		Hint: types.StringValue(k.Hint), CreatedAt: types.StringValue(k.CreatedAt.String()),
	}
	if k.ControlRole != nil {
		f.ControlRole = types.StringValue(string(*k.ControlRole))
	}
}

// alignScopes keeps the order in which the configuration lists the
// namespaces; the order of the server's answer means nothing.
func alignScopes(scopes []api.ApiKeyScope, before []scopeModel) []scopeModel {
	place := make(map[string]int, len(before))
	for i, s := range before {
		place[s.NamespaceID.ValueString()] = i
	}
	at := func(s api.ApiKeyScope) int {
		if i, ok := place[s.NamespaceId]; ok {
			return i
		}
		return len(before)
	}
	scopes = slices.Clone(scopes)
	slices.SortStableFunc(scopes, func(a, b api.ApiKeyScope) int { return at(a) - at(b) })
	out := make([]scopeModel, len(scopes))
	for i, s := range scopes {
		out[i] = scopeModel{NamespaceID: types.StringValue(s.NamespaceId), Permissions: setValue(s.Permissions),
			Topics: patterns(s.Topics), Groups: patterns(s.Groups), CIDRs: cidrSet(s.Cidrs), ExpiresAt: timeValue(s.ExpiresAt)}
	}
	return out
}

func patterns(in *[]api.NamePattern) types.Set {
	if in == nil || len(*in) == 0 {
		return setValue([]string{everything})
	}
	return setValue(*in)
}

func cidrSet(in *[]api.Cidr) types.Set {
	if in == nil {
		return setValue([]string{})
	}
	return setValue(*in)
}

func scopesOf(ctx context.Context, in []scopeModel, diags *diag.Diagnostics) *[]api.ApiKeyScope {
	out := make([]api.ApiKeyScope, len(in))
	for i, s := range in {
		topics, groups := setOf[string](ctx, s.Topics, diags), setOf[string](ctx, s.Groups, diags)
		cidrs := setOf[api.Cidr](ctx, s.CIDRs, diags)
		out[i] = api.ApiKeyScope{NamespaceId: s.NamespaceID.ValueString(),
			Permissions: setOf[api.KeyPermission](ctx, s.Permissions, diags), Topics: &topics, Groups: &groups, Cidrs: &cidrs,
			ExpiresAt: timeOf(s.ExpiresAt, diags)}
	}
	return &out
}

func sameScopes(a, b []scopeModel) bool {
	return slices.EqualFunc(a, b, func(x, y scopeModel) bool {
		return x.NamespaceID.Equal(y.NamespaceID) && x.Permissions.Equal(y.Permissions) && x.Topics.Equal(y.Topics) && x.Groups.Equal(y.Groups) &&
			x.CIDRs.Equal(y.CIDRs) && x.ExpiresAt.sameAs(y.ExpiresAt)
	})
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

func (r *apiKeyResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_api_key"
}

func (r *apiKeyResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = apiKeySchema(ctx)
}

func (r *apiKeyResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan apiKeyModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit, diags := plan.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	cidrs := setOf[api.Cidr](ctx, plan.AllowedCIDRs, &resp.Diagnostics)
	body := api.ApiKeyCreate{
		Name: plan.Name.ValueString(), OwnerId: known(plan.OwnerID), Description: known(plan.Description),
		Scopes: scopesOf(ctx, plan.Scope, &resp.Diagnostics), AllowedCidrs: &cidrs, ExpiresAt: timeOf(plan.ExpiresAt, &resp.Diagnostics),
		Secret: known(plan.Secret),
	}
	if role := known(plan.ControlRole); role != nil {
		body.ControlRole = ptr(api.ControlRole(*role))
	}
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	created, err := apiclient.Created(r.client.CreateApiKeyWithResponse(ctx, &api.CreateApiKeyParams{Wait: r.wait()}, body))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not create API key "+body.Name, err)
		return
	}
	k := created.WithoutSecret()
	disabled := plan.Disabled.ValueBool()
	plan.set(k)
	if body.Secret == nil {
		plan.Secret = types.StringValue(created.Secret)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if disabled {
		// A key is born enabled; the secret is in the state by now.
		if k, err = apiclient.OK(r.client.UpdateApiKeyWithResponse(ctx, k.Id, &api.UpdateApiKeyParams{Wait: r.wait()}, api.ApiKeyUpdate{Disabled: ptr(true)})); err != nil {
			addFailure(&resp.Diagnostics, "Created API key "+body.Name+", but could not disable it", err)
			return
		}
		plan.set(k)
		resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	}
	if err := settle(ctx, k.Status, r.status(k.Id)); err != nil {
		addFailure(&resp.Diagnostics, "Created API key "+body.Name+", but it is not ready", err)
	}
}

func (r *apiKeyResource) status(id string) func(context.Context) (api.ResourceStatus, error) {
	return func(ctx context.Context) (api.ResourceStatus, error) {
		k, err := apiclient.OK(r.client.GetApiKeyWithResponse(ctx, id))
		return k.Status, err
	}
}

// Read never touches the secret: the server does not show it again. A revoked
// key can never be used again, so it counts as gone.
func (r *apiKeyResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state apiKeyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	what := "API key " + state.ID.ValueString()
	k, err := apiclient.OK(r.client.GetApiKeyWithResponse(ctx, state.ID.ValueString()))
	switch {
	case isNotFound(err), err == nil && k.State == api.ApiKeyStateRevoked:
		addGone(&resp.Diagnostics, what)
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		addFailure(&resp.Diagnostics, "Could not read "+what, err)
		return
	}
	state.set(k)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

func (r *apiKeyResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state apiKeyModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit, diags := plan.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	body, any := apiKeyChanges(ctx, plan, state, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	id := state.ID.ValueString()
	var k api.ApiKey
	var err error
	if any {
		k, err = apiclient.OK(r.client.UpdateApiKeyWithResponse(ctx, id, &api.UpdateApiKeyParams{Wait: r.wait()}, body))
	} else {
		k, err = apiclient.OK(r.client.GetApiKeyWithResponse(ctx, id)) // only the provider's own attributes changed
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not update API key "+id, err)
		return
	}
	plan.set(k)
	plan.Secret = state.Secret
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if !plan.RotationKeepers.IsNull() {
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedKey, nil)...) // known from here on
	}
	if err := settle(ctx, k.Status, r.status(id)); err != nil {
		addFailure(&resp.Diagnostics, "Changed API key "+id+", but it is not ready", err)
	}
}

func apiKeyChanges(ctx context.Context, plan, state apiKeyModel, diags *diag.Diagnostics) (body api.ApiKeyUpdate, any bool) {
	body = api.ApiKeyUpdate{Name: changed(plan.Name, state.Name), Description: changed(plan.Description, state.Description),
		Disabled: changedBool(plan.Disabled, state.Disabled)}
	any = body.Name != nil || body.Description != nil || body.Disabled != nil
	if !sameScopes(plan.Scope, state.Scope) {
		body.Scopes, any = scopesOf(ctx, plan.Scope, diags), true
	}
	if !plan.AllowedCIDRs.Equal(state.AllowedCIDRs) {
		cidrs := setOf[api.Cidr](ctx, plan.AllowedCIDRs, diags)
		body.AllowedCidrs, any = &cidrs, true
	}
	if !plan.ExpiresAt.sameAs(state.ExpiresAt) {
		any = true
		if t := timeOf(plan.ExpiresAt, diags); t != nil {
			body.ExpiresAt = nullable.NewNullableWithValue(*t)
		} else {
			body.ExpiresAt = nullable.NewNullNullable[api.Timestamp]()
		}
	}
	return body, any
}

// Delete deletes the key at once, or lets it run out after the grace period,
// so that clients can move over to the key that takes its place.
func (r *apiKeyResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state apiKeyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit, diags := state.Timeouts.Delete(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	id := state.ID.ValueString()
	grace, err := int64(0), error(nil)
	if text := known(state.GracePeriod.StringValue); text != nil {
		if grace, err = parseDuration(*text); err != nil {
			resp.Diagnostics.AddError("Invalid grace_period", err.Error())
			return
		}
	}
	if grace == 0 {
		err = apiclient.Done(r.client.DeleteApiKeyWithResponse(ctx, id, &api.DeleteApiKeyParams{Wait: r.wait()}))
	} else {
		end := r.now().Add(time.Duration(grace) * time.Millisecond)
		if known := timeOf(state.ExpiresAt, &resp.Diagnostics); known != nil && known.Before(end) {
			return // it runs out earlier by itself
		}
		_, err = apiclient.OK(r.client.UpdateApiKeyWithResponse(ctx, id, &api.UpdateApiKeyParams{Wait: r.wait()},
			api.ApiKeyUpdate{ExpiresAt: nullable.NewNullableWithValue(api.NewTimestamp(end))}))
	}
	if err != nil && !isNotFound(err) {
		addFailure(&resp.Diagnostics, fmt.Sprintf("Could not delete API key %s", id), err)
	}
}

// importedKey is true in the private state of a key whose keepers are not
// known, because it was not made by this configuration.
const importedKey = "imported"

func (r *apiKeyResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	apiKeyImport.importState(ctx, req, resp)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedKey, []byte(`true`))...)
}
