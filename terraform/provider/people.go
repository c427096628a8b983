package provider

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type memberModel struct {
	ID        types.String `tfsdk:"id"`
	Email     types.String `tfsdk:"email"`
	Name      types.String `tfsdk:"name"`
	Role      types.String `tfsdk:"role"`
	CreatedAt types.String `tfsdk:"created_at"`
}

func (m *memberModel) set(v api.Member) {
	*m = memberModel{ID: types.StringValue(v.Id), Email: types.StringValue(string(v.Email)), Name: types.StringValue(v.Name), Role: types.StringValue(string(v.Role)),
		CreatedAt: types.StringValue(v.CreatedAt.String())}
}

func memberAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id":         schema.StringAttribute{Computed: true, MarkdownDescription: "Id of the person, which bindings name as `principal_id` and access rules as `principal`."},
		"email":      schema.StringAttribute{Computed: true, MarkdownDescription: "Mail address."},
		"name":       schema.StringAttribute{Computed: true, MarkdownDescription: contract("Member", "name").Description},
		"role":       schema.StringAttribute{Computed: true, MarkdownDescription: "Role in the whole tenant: `owner`, `admin`, `developer`, `viewer`, `billing` or `none`."},
		"created_at": schema.StringAttribute{Computed: true, MarkdownDescription: "When they became a member."},
	}
}

func listMembers(ctx context.Context, c *apiclient.SDK, _, token *string) ([]api.Member, *string, error) {
	page, err := apiclient.OK(c.ListMembersWithResponse(ctx, &api.ListMembersParams{PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

func newMemberData() datasource.DataSource {
	return &findData[api.Member, memberModel]{typeName: "sluice_member", words: "member", id: "id", name: "email",
		schema: func(context.Context) schema.Schema {
			attributes := memberAttributes()
			attributes["id"] = schema.StringAttribute{Optional: true, Computed: true, Validators: contract("UserId", "").strings(), MarkdownDescription: attributes["id"].GetMarkdownDescription()}
			attributes["email"] = schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: "Mail address, in upper or lower case."}
			return schema.Schema{MarkdownDescription: "Finds a person of the tenant by `id` or by `email`.", Attributes: attributes}
		},
		get: func(ctx context.Context, c *apiclient.SDK, id string) (api.Member, error) {
			return apiclient.OK(c.GetMemberWithResponse(ctx, id))
		},
		list:  listMembers,
		named: func(m api.Member, email string) bool { return strings.EqualFold(string(m.Email), email) }, set: (*memberModel).set}
}
