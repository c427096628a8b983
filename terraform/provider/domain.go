package provider

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var recordType = types.ObjectType{AttrTypes: map[string]attr.Type{"txt_name": types.StringType, "txt_value": types.StringType}}

func domainRecords(domains []api.IdentityDomain) types.Map {
	records := make(map[string]attr.Value, len(domains))
	for _, d := range domains {
		records[d.Domain] = types.ObjectValueMust(recordType.AttrTypes, map[string]attr.Value{"txt_name": types.StringValue(d.TxtName), "txt_value": types.StringValue(d.TxtValue)})
	}
	return types.MapValueMust(recordType, records)
}

// recordsOfDomains keeps the records while the domains are the same.
type recordsOfDomains struct{}

const recordsRule = "keeps the records while the domains are the same"

func (recordsOfDomains) Description(context.Context) string         { return recordsRule }
func (recordsOfDomains) MarkdownDescription(context.Context) string { return recordsRule }

// PlanModifyMap implements planmodifier.Map.
func (recordsOfDomains) PlanModifyMap(ctx context.Context, req planmodifier.MapRequest, resp *planmodifier.MapResponse) {
	var plan, state types.Set
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("domains"), &plan)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("domains"), &state)...)
	if !req.StateValue.IsNull() && allKnown(plan) && sameSet(plan, state, strings.ToLower) {
		resp.PlanValue = req.StateValue
	}
}

// domainResource is the proof of a domain: it is there once the server has
// found the TXT record. Its end takes nothing back; only taking the domain out
// of the provider does.
type domainResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*domainResource)(nil)
	_ resource.ResourceWithImportState = (*domainResource)(nil)
)

type domainModel struct {
	ID         types.String   `tfsdk:"id"`
	ProviderID types.String   `tfsdk:"identity_provider_id"`
	Domain     types.String   `tfsdk:"domain"`
	VerifiedAt types.String   `tfsdk:"verified_at"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
}

func (m domainModel) what() string { return "proof of domain " + m.Domain.ValueString() }

func (m *domainModel) set(d api.IdentityDomain) {
	m.ID = types.StringValue(m.ProviderID.ValueString() + "/" + m.Domain.ValueString())
	m.VerifiedAt = types.StringValue(d.VerifiedAt.String())
}

func (r *domainResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_identity_domain_verification"
}

func (r *domainResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Waits until the server has found the TXT record that proves a domain of a `sluice_identity_provider`. " +
			"Let it depend on the record. To destroy it changes nothing: a domain stays verified while the provider names it.",
		Attributes: map[string]schema.Attribute{
			"id":                   computedString("The identity provider and the domain, joined by a slash."),
			"identity_provider_id": identityString(contract("IdentityProviderId", ""), "The identity provider. A change proves anew."),
			"domain":               identityString(contract("DomainName", ""), "One of its `domains`. A change proves anew."),
			"verified_at":          computedString("When the server found the record."),
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{Create: true,
				CreateDescription: "How long to look for the record, such as `30m`; resolvers may need that long to forget that there was none. Default `5m`."}),
		},
	}
}

// verified is the domain of the provider if it is verified, and errGone else.
func (r *domainResource) verified(p api.IdentityProvider, name string) (api.IdentityDomain, error) {
	for _, d := range p.Domains {
		if strings.EqualFold(d.Domain, name) && d.VerifiedAt != nil {
			return d, nil
		}
	}
	return api.IdentityDomain{}, errGone
}

// Create asks until the record is found: it may take a while until all see it.
func (r *domainResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan domainModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit, diags := plan.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	id, name := plan.ProviderID.ValueString(), plan.Domain.ValueString()
	wait := time.NewTimer(0)
	defer wait.Stop()
	last := context.DeadlineExceeded
	for {
		select {
		case <-ctx.Done():
			addFailure(&resp.Diagnostics, "Could not prove domain "+name+" within "+limit.String()+", which the timeouts attribute can raise", last)
			return
		case <-wait.C:
		}
		p, err := apiclient.OK(r.client.VerifyIdentityDomainWithResponse(ctx, id, nil, api.VerifyIdentityDomain{Domain: name}))
		if err == nil {
			d, err := r.verified(p, name)
			if err != nil {
				addFailure(&resp.Diagnostics, "Could not prove domain "+name, err)
				return
			}
			plan.set(d)
			resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
			return
		}
		if ctx.Err() == nil && !apiclient.Is(err, "domain_not_verified") {
			addFailure(&resp.Diagnostics, "Could not prove domain "+name, err)
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		wait.Reset(lookEvery)
	}
}

func (r *domainResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m domainModel) (api.IdentityDomain, error) {
		p, err := apiclient.OK(r.client.GetIdentityProviderWithResponse(ctx, m.ProviderID.ValueString()))
		if err != nil {
			return api.IdentityDomain{}, err
		}
		return r.verified(p, m.Domain.ValueString())
	}, (*domainModel).set)
}

// Update is for the timeouts only: all else replaces.
func (r *domainResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan domainModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// Delete forgets the proof in the state; the server has nothing to forget.
func (r *domainResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

func (r *domainResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	domainImport.importState(ctx, req, resp)
}
