package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type aclResource struct{ base }

var (
	_ resource.ResourceWithConfigure      = (*aclResource)(nil)
	_ resource.ResourceWithImportState    = (*aclResource)(nil)
	_ resource.ResourceWithValidateConfig = (*aclResource)(nil)
)

// aclFields are the attributes that resource and data source share.
type aclFields struct {
	ID          types.String  `tfsdk:"id"`
	NamespaceID types.String  `tfsdk:"namespace_id"`
	Effect      types.String  `tfsdk:"effect"`
	Principal   types.String  `tfsdk:"principal"`
	Resource    types.String  `tfsdk:"resource"`
	Pattern     types.String  `tfsdk:"pattern"`
	Operations  types.Set     `tfsdk:"operations"`
	CIDRs       types.Set     `tfsdk:"cidrs"`
	ExpiresAt   notationValue `tfsdk:"expires_at"`
	Description types.String  `tfsdk:"description"`
	CreatedAt   types.String  `tfsdk:"created_at"`
}

type aclModel struct {
	aclFields
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

func (f aclFields) what() string { return "rule " + f.ID.ValueString() }

func (f *aclFields) set(v api.Acl) {
	*f = aclFields{
		ID: types.StringValue(v.Id), NamespaceID: types.StringValue(v.NamespaceId), Effect: types.StringValue(string(v.Effect)),
		Principal: types.StringValue(v.Principal), Resource: types.StringValue(string(v.Resource)), Pattern: types.StringValue(v.Pattern),
		Operations: setValue(v.Operations), CIDRs: likeBefore(v.Cidrs, f.CIDRs, network), ExpiresAt: timeValue(v.ExpiresAt),
		Description: types.StringValue(v.Description), CreatedAt: types.StringValue(v.CreatedAt.String()),
	}
}

func (r *aclResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_acl"
}

func (r *aclResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "One rule of a namespace's access control list. The order of rules and how narrow their patterns are mean nothing: " +
			"a rule that denies decides, else one that allows, else a scope of the key, else the answer is no.",
		Attributes: map[string]schema.Attribute{
			"id":           computedString(contract("AclId", "").Description),
			"namespace_id": identityString(contract("NamespaceId", ""), "Namespace of the rule. A change replaces the rule."),
			"effect": schema.StringAttribute{Required: true, Validators: contract("AclEffect", "").strings(),
				MarkdownDescription: "`allow` or `deny`."},
			"principal": identityString(contract("AclPrincipal", ""), contract("AclPrincipal", "").Description+" A change replaces the rule."),
			"resource": identityString(contract("AclResource", ""), "What the rule is about: `topic`, `group`, or `namespace` for everything in it, with the pattern `*`. "+
				"Retry and dead-letter topics belong to their group. A change replaces the rule."),
			"pattern": schema.StringAttribute{Required: true, Validators: contract("NamePattern", "").strings(),
				MarkdownDescription: "Names that the rule is about: one name, or a prefix with a `*` at the end."},
			"operations": schema.SetAttribute{ElementType: types.StringType, Required: true, Validators: contract("AclCreate", "operations").sets(),
				MarkdownDescription: "`PUB` send; `SUB` receive and commit; `MANAGE` create, change and delete over the message protocols; `DESCRIBE` look."},
			"cidrs":       networksAttribute(contract("AclCreate", "cidrs")),
			"expires_at":  endAttribute("When the rule ends, such as `2027-01-31T00:00:00Z`. Left out: never."),
			"description": descriptionAttribute(),
			"created_at":  computedString("When it was created."),
			"timeouts":    timeoutsAttribute(ctx),
		},
	}
}

// ValidateConfig refuses at plan time what the server would refuse at apply.
func (r *aclResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var resource, pattern types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("resource"), &resource)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("pattern"), &pattern)...)
	if resource.ValueString() == string(api.AclResourceNamespace) && !pattern.IsUnknown() && pattern.ValueString() != everything {
		resp.Diagnostics.AddAttributeError(path.Root("pattern"), "A namespace has no names to choose from",
			"A rule with resource = \"namespace\" is about everything in it. Write pattern = \"*\", or choose topic or group as the resource.")
	}
}

func (r *aclResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan aclModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit, diags := plan.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	cidrs := setOf[api.Cidr](ctx, plan.CIDRs, &resp.Diagnostics)
	body := api.AclCreate{Effect: api.AclEffect(plan.Effect.ValueString()), Principal: plan.Principal.ValueString(),
		Resource: api.AclResource(plan.Resource.ValueString()), Pattern: plan.Pattern.ValueString(),
		Operations: setOf[api.KeyPermission](ctx, plan.Operations, &resp.Diagnostics), Cidrs: &cidrs,
		ExpiresAt: timeOf(plan.ExpiresAt, &resp.Diagnostics), Description: known(plan.Description)}
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ns := plan.NamespaceID.ValueString()
	v, err := apiclient.Created(r.client.CreateAclWithResponse(ctx, ns, &api.CreateAclParams{Wait: r.wait()}, body))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not add the rule", err)
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := settle(ctx, v.Status, r.status(ns, v.Id)); err != nil {
		addFailure(&resp.Diagnostics, "Added rule "+v.Id+", but it is not ready", err)
	}
}

func (r *aclResource) status(ns, id string) func(context.Context) (api.ResourceStatus, error) {
	return func(ctx context.Context) (api.ResourceStatus, error) {
		v, err := apiclient.OK(r.client.GetAclWithResponse(ctx, ns, id))
		return v.Status, err
	}
}

func (r *aclResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m aclModel) (api.Acl, error) {
		return apiclient.OK(r.client.GetAclWithResponse(ctx, m.NamespaceID.ValueString(), m.ID.ValueString()))
	}, func(m *aclModel, v api.Acl) { m.set(v) })
}

func (r *aclResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state aclModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit, diags := plan.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	body, any := aclChanges(ctx, plan, state, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ns, id := state.NamespaceID.ValueString(), state.ID.ValueString()
	var v api.Acl
	var err error
	if any {
		v, err = apiclient.OK(r.client.UpdateAclWithResponse(ctx, ns, id, &api.UpdateAclParams{Wait: r.wait()}, body))
	} else {
		v, err = apiclient.OK(r.client.GetAclWithResponse(ctx, ns, id)) // only the provider's own attributes changed
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not change rule "+id, err)
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	if err := settle(ctx, v.Status, r.status(ns, id)); err != nil {
		addFailure(&resp.Diagnostics, "Changed rule "+id+", but it is not ready", err)
	}
}

func aclChanges(ctx context.Context, plan, state aclModel, diags *diag.Diagnostics) (body api.AclUpdate, any bool) {
	body = api.AclUpdate{Pattern: changed(plan.Pattern, state.Pattern), Description: changed(plan.Description, state.Description)}
	any = body.Pattern != nil || body.Description != nil
	if !plan.Effect.Equal(state.Effect) {
		body.Effect, any = ptr(api.AclEffect(plan.Effect.ValueString())), true
	}
	if !plan.Operations.Equal(state.Operations) {
		body.Operations, any = ptr(setOf[api.KeyPermission](ctx, plan.Operations, diags)), true
	}
	if !sameSet(plan.CIDRs, state.CIDRs, network) {
		body.Cidrs, any = ptr(setOf[api.Cidr](ctx, plan.CIDRs, diags)), true
	}
	if !plan.ExpiresAt.sameAs(state.ExpiresAt) {
		body.ExpiresAt, any = endOf(plan.ExpiresAt, diags), true
	}
	return body, any
}

func (r *aclResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m aclModel) error {
		return apiclient.Done(r.client.DeleteAclWithResponse(ctx, m.NamespaceID.ValueString(), m.ID.ValueString(), &api.DeleteAclParams{Wait: r.wait()}))
	})
}

func (r *aclResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	aclImport.importState(ctx, req, resp)
}
