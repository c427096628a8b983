package provider

import (
	"context"
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
	_ resource.ResourceWithConfigure      = (*apiKeyResource)(nil)
	_ resource.ResourceWithImportState    = (*apiKeyResource)(nil)
	_ resource.ResourceWithValidateConfig = (*apiKeyResource)(nil)
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
	SecretWO        types.String   `tfsdk:"secret_wo"`
	SecretVersion   types.Int64    `tfsdk:"secret_version"`
	Timeouts        timeouts.Value `tfsdk:"timeouts"`
}

func (f apiKeyFields) what() string { return "API key " + f.ID.ValueString() }

func (f *apiKeyFields) set(k api.ApiKey) {
	*f = apiKeyFields{
		ID: types.StringValue(k.Id), KeyID: types.StringValue(k.Id), OwnerID: types.StringValue(k.OwnerId), Name: types.StringValue(k.Name),
		Description: types.StringValue(k.Description), Scope: scopesValue(k.Scopes, f.Scope), AllowedCIDRs: likeBefore(k.AllowedCidrs, f.AllowedCIDRs, network),
		ControlRole: types.StringNull(), ExpiresAt: timeValue(k.ExpiresAt), Disabled: types.BoolValue(k.Disabled),
		Hint: types.StringValue(k.Hint), CreatedAt: types.StringValue(k.CreatedAt.String()),
	}
	if k.ControlRole != nil {
		f.ControlRole = types.StringValue(string(*k.ControlRole))
	}
}

func (r *apiKeyResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_api_key"
}

func (r *apiKeyResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = apiKeySchema(ctx)
}

// ValidateConfig refuses at plan time what the server would refuse at apply.
func (r *apiKeyResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	needsRights(ctx, req.Config, &resp.Diagnostics)
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
		Secret: writtenOr(ctx, req.Config, "secret_wo", plan.Secret, &resp.Diagnostics),
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
	switch {
	case body.Secret == nil:
		plan.Secret = types.StringValue(created.Secret)
	case known(plan.Secret) == nil:
		plan.Secret = types.StringNull() // write-only
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
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m apiKeyModel) (api.ApiKey, error) {
		k, err := apiclient.OK(r.client.GetApiKeyWithResponse(ctx, m.ID.ValueString()))
		if err == nil && k.State == api.ApiKeyStateRevoked {
			err = errGone
		}
		if err == nil {
			k = r.asAsked(ctx, k, m.ExpiresAt)
		}
		return k, err
	}, func(m *apiKeyModel, k api.ApiKey) { m.set(k) })
}

// asAsked gives k the end that was asked for when the tenant's greatest age of
// keys ends it earlier: else every plan would find a change that the server
// refuses to take back.
func (r *apiKeyResource) asAsked(ctx context.Context, k api.ApiKey, asked notationValue) api.ApiKey {
	var diags diag.Diagnostics
	end := timeOf(asked, &diags)
	if k.ExpiresAt == nil || (end != nil && !end.After(k.ExpiresAt.Time)) {
		return k
	}
	t, err := apiclient.OK(r.client.GetTenantWithResponse(ctx))
	if err != nil || t.Security.MaxKeyAge == nil {
		return k
	}
	age := durationOf(durations.of(*t.Security.MaxKeyAge))
	if off := k.CreatedAt.Add(age).Sub(k.ExpiresAt.Time); off.Abs() < time.Second {
		k.ExpiresAt = end
	}
	return k
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
	plan.set(r.asAsked(ctx, k, plan.ExpiresAt))
	plan.Secret = state.Secret
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if !plan.RotationKeepers.IsNull() || !plan.SecretVersion.IsNull() {
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
	if !sameSet(plan.AllowedCIDRs, state.AllowedCIDRs, network) {
		cidrs := setOf[api.Cidr](ctx, plan.AllowedCIDRs, diags)
		body.AllowedCidrs, any = &cidrs, true
	}
	if !plan.ExpiresAt.sameAs(state.ExpiresAt) {
		body.ExpiresAt, any = endOf(plan.ExpiresAt, diags), true
	}
	return body, any
}

// Delete deletes the key at once, or lets it run out after the grace period,
// so that clients can move over to the key that takes its place.
func (r *apiKeyResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m apiKeyModel) error {
		id, grace := m.ID.ValueString(), durationOf(m.GracePeriod)
		if grace == 0 {
			return apiclient.Done(r.client.DeleteApiKeyWithResponse(ctx, id, &api.DeleteApiKeyParams{Wait: r.wait()}))
		}
		end := r.now().Add(grace)
		if known := timeOf(m.ExpiresAt, &resp.Diagnostics); known != nil && known.Before(end) {
			return nil // it runs out earlier by itself
		}
		_, err := apiclient.OK(r.client.UpdateApiKeyWithResponse(ctx, id, &api.UpdateApiKeyParams{Wait: r.wait()},
			api.ApiKeyUpdate{ExpiresAt: nullable.NewNullableWithValue(api.NewTimestamp(end))}))
		if apiclient.Is(err, "key_age") {
			return nil // the tenant ends it earlier
		}
		return err
	})
}

// importedKey is true in the private state of a key whose keepers are not
// known, because it was not made by this configuration.
const importedKey = "imported"

func (r *apiKeyResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	apiKeyImport.importState(ctx, req, resp)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, importedKey, []byte(`true`))...)
}
