package provider

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// invitationResource is a person who is to belong to the tenant: first an
// invitation, and once it is accepted a member.
type invitationResource struct{ base }

var (
	_ resource.ResourceWithConfigure   = (*invitationResource)(nil)
	_ resource.ResourceWithImportState = (*invitationResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*invitationResource)(nil)
)

type invitationModel struct {
	ID         types.String `tfsdk:"id"`
	Email      types.String `tfsdk:"email"`
	Role       types.String `tfsdk:"role"`
	Locale     types.String `tfsdk:"locale"`
	OnDestroy  types.String `tfsdk:"on_destroy"`
	State      types.String `tfsdk:"state"`
	AcceptedBy types.String `tfsdk:"accepted_by"`
	CreatedAt  types.String `tfsdk:"created_at"`
}

// What on_destroy does to somebody who accepted.
const (
	keepMember   = "keep"
	removeMember = "remove"
)

func (m invitationModel) what() string { return "invitation of " + m.Email.ValueString() }

func (m *invitationModel) set(v api.Invitation) {
	email, onDestroy := m.Email, m.OnDestroy
	if !strings.EqualFold(email.ValueString(), string(v.Email)) {
		email = types.StringValue(string(v.Email))
	}
	if onDestroy.IsNull() {
		onDestroy = types.StringValue(keepMember) // imported
	}
	*m = invitationModel{ID: types.StringValue(v.Id), Email: email, Role: types.StringValue(string(v.Role)), Locale: types.StringValue(string(v.Locale)), OnDestroy: onDestroy,
		State: types.StringValue(string(v.State)), AcceptedBy: types.StringPointerValue(v.AcceptedBy), CreatedAt: types.StringValue(v.CreatedAt.String())}
}

func (r *invitationResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "sluice_member_invitation"
}

func (r *invitationResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A person who is to belong to the tenant. They get a mail with a link that works for 7 days; one that ran out is made again by the next apply. " +
			"Once they accepted, this is the member: `role` is theirs, and who was removed outside is invited again.",
		Attributes: map[string]schema.Attribute{
			"id": computedString("Id of the invitation."),
			"email": schema.StringAttribute{Required: true, Validators: contract("Email", "").strings(),
				PlanModifiers:       []planmodifier.String{likeStateText(strings.ToLower), stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Mail address. A change invites somebody else."},
			"role": schema.StringAttribute{Required: true, Validators: contract("Role", "").strings(),
				MarkdownDescription: "Role in the whole tenant: `owner`, `admin`, `developer`, `viewer`, `billing` or `none`. A change invites anew, or gives a member another role."},
			"locale": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString("en"), Validators: contract("Locale", "").strings(), PlanModifiers: replace(),
				MarkdownDescription: "Language of the mail: `en` or `zh`. Default `en`. A change invites anew."},
			"on_destroy": schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(keepMember),
				Validators:          []validator.String{stringvalidator.OneOf(keepMember, removeMember)},
				MarkdownDescription: "What becomes of a member when this is destroyed: `keep`, or `remove`, which ends their sessions and revokes their API keys. An invitation that is pending is withdrawn either way. Default `keep`."},
			"state":       schema.StringAttribute{Computed: true, MarkdownDescription: "`pending` or `accepted`.", PlanModifiers: keep()},
			"accepted_by": schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the member, once there is one.", PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
			"created_at":  computedString("When they were invited."),
		},
	}
}

// ModifyPlan invites anew for another role while nobody has accepted; after
// that the role is the member's.
func (r *invitationResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var plan, state invitationModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if state.AcceptedBy.IsNull() && !plan.Role.Equal(state.Role) {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("role"))
	}
}

func (r *invitationResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan invitationModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	body := api.InvitationCreate{Email: api.Email(plan.Email.ValueString()), Role: api.Role(plan.Role.ValueString()), Locale: as[api.Locale](known(plan.Locale))}
	v, err := apiclient.Created(r.client.CreateInvitationWithResponse(ctx, nil, body))
	if err != nil {
		addConflict(&resp.Diagnostics, "Could not invite "+plan.Email.ValueString(), err, func() string {
			return lineFor(ctx, r.client, invitationImport, strings.ToLower(plan.Email.ValueString()), listPending,
				func(v api.Invitation) (string, string) { return v.Id, string(v.Email) })
		})
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func listPending(ctx context.Context, c *apiclient.SDK, _, token *string) ([]api.Invitation, *string, error) {
	page, err := apiclient.OK(c.ListInvitationsWithResponse(ctx, &api.ListInvitationsParams{State: ptr(api.InvitationPending), PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

func (r *invitationResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	refresh(ctx, r.base, req, resp, func(ctx context.Context, m invitationModel) (api.Invitation, error) {
		return r.invited(ctx, m.ID.ValueString())
	}, (*invitationModel).set)
}

// invited is an invitation with the role that the person has by now. One that
// ran out, and that of somebody who was removed, count as gone.
func (r *invitationResource) invited(ctx context.Context, id string) (api.Invitation, error) {
	v, err := apiclient.OK(r.client.GetInvitationWithResponse(ctx, id))
	switch {
	case err != nil:
		return v, err
	case v.State == api.InvitationExpired:
		return v, errGone
	case v.AcceptedBy == nil:
		return v, nil
	}
	member, err := apiclient.OK(r.client.GetMemberWithResponse(ctx, *v.AcceptedBy))
	v.Role = member.Role
	return v, err
}

// Update gives the member another role, or changes on_destroy, which no server
// knows.
func (r *invitationResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state invitationModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.ready(&resp.Diagnostics) {
		return
	}
	if role := changed(plan.Role, state.Role); role != nil {
		if _, err := apiclient.OK(r.client.UpdateMemberWithResponse(ctx, state.AcceptedBy.ValueString(), nil, api.MemberUpdate{Role: api.Role(*role)})); err != nil {
			addFailure(&resp.Diagnostics, "Could not change the role of "+state.Email.ValueString(), err)
			return
		}
	}
	v, err := r.invited(ctx, state.ID.ValueString())
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not read "+state.what(), err)
		return
	}
	plan.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

func (r *invitationResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	remove(ctx, r.base, req, resp, func(ctx context.Context, m invitationModel) error {
		if id := known(m.AcceptedBy); id != nil && m.OnDestroy.ValueString() == removeMember {
			if err := apiclient.Done(r.client.RemoveMemberWithResponse(ctx, *id, nil)); err != nil && !isNotFound(err) {
				return err
			}
		}
		return apiclient.Done(r.client.DeleteInvitationWithResponse(ctx, m.ID.ValueString(), nil))
	})
}

func (r *invitationResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	invitationImport.importState(ctx, req, resp)
}
