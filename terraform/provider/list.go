package provider

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// listData is a data source of all objects of a kind that fit its filters. The
// objects are a list under the name of the kind.
type listData struct {
	dataBase
	kind     string // such as api_keys; the type is sluice_ and this
	element  func(context.Context) map[string]schema.Attribute
	required map[string]*property // parts of the path, such as namespace_id
	filters  map[string]*property // may be left out
	// read returns a slice of models; filter tells what was asked for.
	read func(ctx context.Context, c *apiclient.SDK, filter func(name string) *string) (any, error)
}

func (d *listData) words() string { return kindWords.Replace(d.kind) }

var kindWords = strings.NewReplacer("_", " ", "api", "API", "acls", "access rules")

func (d *listData) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "sluice_" + d.kind
}

func (d *listData) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{MarkdownDescription: "Lists " + d.words() + ".", Attributes: map[string]schema.Attribute{
		d.kind: schema.ListNestedAttribute{Computed: true, MarkdownDescription: "All that fit, in a stable order.",
			NestedObject: schema.NestedAttributeObject{Attributes: d.element(ctx)}},
	}}
	for name, p := range d.required {
		resp.Schema.Attributes[name] = schema.StringAttribute{Required: true, Validators: p.strings(), MarkdownDescription: p.Description}
	}
	for name, p := range d.filters {
		resp.Schema.Attributes[name] = schema.StringAttribute{Optional: true, Validators: p.strings(), MarkdownDescription: "Only those with this value. " + p.Description}
		if len(p.Enum) > 0 {
			resp.Schema.Attributes[name] = schema.StringAttribute{Optional: true, Validators: p.strings(), MarkdownDescription: "Only those with this value: `" + strings.Join(p.Enum, "`, `") + "`."}
		}
	}
}

func (d *listData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if !d.ready(&resp.Diagnostics) {
		return
	}
	asked := map[string]*string{}
	for _, part := range []map[string]*property{d.required, d.filters} {
		for name := range part {
			var v types.String
			resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(name), &v)...)
			asked[name] = known(v)
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	items, err := d.read(ctx, d.client, func(name string) *string { return asked[name] })
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not list "+d.words(), err)
		return
	}
	resp.State.Raw = req.Config.Raw
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(d.kind), items)...)
}

// all reads every page into models.
func all[V, M any](set func(*M, V), page func(token *string) ([]V, *string, error)) (any, error) {
	models := []M{}
	for v, err := range apiclient.All(page) {
		if err != nil {
			return nil, err
		}
		var m M
		set(&m, v)
		models = append(models, m)
	}
	return models, nil
}

func as[T ~string](text *string) *T {
	if text == nil {
		return nil
	}
	return ptr(T(*text))
}

// element is the schema of a resource without what only its manager has.
func element(s func(context.Context) schema.Schema) func(context.Context) map[string]schema.Attribute {
	return func(ctx context.Context) map[string]schema.Attribute { return s(ctx).Attributes }
}

func newListData() []func() datasource.DataSource {
	lists := []listData{namespaceList(), topicList(), groupList(), keyList(), aclList(), roleList(), bindingList(), accountList(), memberList(), identityProviderList(), workloadIdentityList()}
	out := make([]func() datasource.DataSource, len(lists))
	for i, l := range lists {
		out[i] = func() datasource.DataSource { return &l }
	}
	return out
}

func namespaceList() listData {
	return listData{kind: "namespaces", element: element(func(ctx context.Context) schema.Schema { return mirror(ctx, &namespaceResource{}, "") }),
		read: func(ctx context.Context, c *apiclient.SDK, _ func(string) *string) (any, error) {
			return all((*namespaceFields).set, func(token *string) ([]api.Namespace, *string, error) { return listNamespaces(ctx, c, nil, token) })
		}}
}

func topicList() listData {
	return listData{kind: "topics", element: element(func(ctx context.Context) schema.Schema { return mirror(ctx, &topicResource{}, "") }),
		required: map[string]*property{"namespace_id": contract("NamespaceId", "")}, filters: map[string]*property{"type": contract("TopicType", "")},
		read: func(ctx context.Context, c *apiclient.SDK, filter func(string) *string) (any, error) {
			return all((*topicFields).set, func(token *string) ([]api.Topic, *string, error) {
				page, err := apiclient.OK(c.ListTopicsWithResponse(ctx, *filter("namespace_id"),
					&api.ListTopicsParams{Type: as[api.TopicType](filter("type")), PageToken: token, PageSize: fullPage()}))
				return page.Items, page.NextPageToken, err
			})
		}}
}

func groupList() listData {
	return listData{kind: "consumer_groups", element: element(func(ctx context.Context) schema.Schema { return mirror(ctx, &groupResource{}, "") }),
		required: map[string]*property{"namespace_id": contract("NamespaceId", "")},
		read: func(ctx context.Context, c *apiclient.SDK, filter func(string) *string) (any, error) {
			return all((*groupFields).set, func(token *string) ([]api.Group, *string, error) {
				page, err := apiclient.OK(c.ListGroupsWithResponse(ctx, *filter("namespace_id"), &api.ListGroupsParams{PageToken: token, PageSize: fullPage()}))
				return page.Items, page.NextPageToken, err
			})
		}}
}

func keyList() listData {
	return listData{kind: "api_keys", element: element(func(ctx context.Context) schema.Schema { return apiKeyDataSchema(ctx, "") }),
		filters: map[string]*property{"owner_id": contract("OwnerId", ""), "namespace_id": contract("NamespaceId", ""), "state": contract("ApiKeyState", "")},
		read: func(ctx context.Context, c *apiclient.SDK, filter func(string) *string) (any, error) {
			return all((*apiKeyDataModel).set, func(token *string) ([]api.ApiKey, *string, error) {
				return listAPIKeys(ctx, c, api.ListApiKeysParams{OwnerId: filter("owner_id"), NamespaceId: filter("namespace_id"),
					State: as[api.ApiKeyState](filter("state")), PageToken: token})
			})
		}}
}

func aclList() listData {
	return listData{kind: "acls", element: element(func(ctx context.Context) schema.Schema { return mirror(ctx, &aclResource{}, "") }),
		required: map[string]*property{"namespace_id": contract("NamespaceId", "")},
		filters:  map[string]*property{"principal": contract("AclPrincipal", ""), "resource": contract("AclResource", "")},
		read: func(ctx context.Context, c *apiclient.SDK, filter func(string) *string) (any, error) {
			return all((*aclFields).set, func(token *string) ([]api.Acl, *string, error) {
				page, err := apiclient.OK(c.ListAclsWithResponse(ctx, *filter("namespace_id"),
					&api.ListAclsParams{Principal: filter("principal"), Resource: as[api.AclResource](filter("resource")), PageToken: token, PageSize: fullPage()}))
				return page.Items, page.NextPageToken, err
			})
		}}
}

func roleList() listData {
	return listData{kind: "roles", element: element(func(ctx context.Context) schema.Schema { return roleDataSchema(ctx, "") }),
		read: func(ctx context.Context, c *apiclient.SDK, _ func(string) *string) (any, error) {
			return all((*roleDataModel).set, func(token *string) ([]api.CustomRole, *string, error) { return listRoles(ctx, c, nil, token) })
		}}
}

func bindingList() listData {
	return listData{kind: "role_bindings", element: element(func(ctx context.Context) schema.Schema { return mirror(ctx, &bindingResource{}, "") }),
		filters: map[string]*property{"principal_id": contract("PrincipalId", ""), "role": contract("RoleRef", ""), "namespace_id": contract("NamespaceId", "")},
		read: func(ctx context.Context, c *apiclient.SDK, filter func(string) *string) (any, error) {
			return all((*bindingModel).set, func(token *string) ([]api.RoleBinding, *string, error) {
				page, err := apiclient.OK(c.ListRoleBindingsWithResponse(ctx, &api.ListRoleBindingsParams{PrincipalId: filter("principal_id"), Role: filter("role"),
					NamespaceId: filter("namespace_id"), PageToken: token, PageSize: fullPage()}))
				return page.Items, page.NextPageToken, err
			})
		}}
}

func accountList() listData {
	return listData{kind: "service_accounts", element: element(func(ctx context.Context) schema.Schema { return mirror(ctx, &accountResource{}, "") }),
		read: func(ctx context.Context, c *apiclient.SDK, _ func(string) *string) (any, error) {
			return all((*accountModel).set, func(token *string) ([]api.ServiceAccount, *string, error) {
				return listServiceAccounts(ctx, c, nil, token)
			})
		}}
}

func memberList() listData {
	return listData{kind: "members", element: func(context.Context) map[string]schema.Attribute { return memberAttributes() },
		read: func(ctx context.Context, c *apiclient.SDK, _ func(string) *string) (any, error) {
			return all((*memberModel).set, func(token *string) ([]api.Member, *string, error) { return listMembers(ctx, c, nil, token) })
		}}
}

func identityProviderList() listData {
	return listData{kind: "identity_providers", element: element(func(ctx context.Context) schema.Schema { return mirror(ctx, &identityProviderResource{}, "") }),
		read: func(ctx context.Context, c *apiclient.SDK, _ func(string) *string) (any, error) {
			return all((*identityProviderFields).set, func(token *string) ([]api.IdentityProvider, *string, error) {
				return listIdentityProviders(ctx, c, nil, token)
			})
		}}
}

func workloadIdentityList() listData {
	return listData{kind: "workload_identities", element: element(func(ctx context.Context) schema.Schema { return mirror(ctx, &workloadIdentityResource{}, "") }),
		read: func(ctx context.Context, c *apiclient.SDK, _ func(string) *string) (any, error) {
			return all((*workloadIdentityModel).set, func(token *string) ([]api.WorkloadIdentity, *string, error) {
				return listWorkloadIdentities(ctx, c, nil, token)
			})
		}}
}

func listNamespaces(ctx context.Context, c *apiclient.SDK, name, token *string) ([]api.Namespace, *string, error) {
	page, err := apiclient.OK(c.ListNamespacesWithResponse(ctx, &api.ListNamespacesParams{Name: name, PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

func listServiceAccounts(ctx context.Context, c *apiclient.SDK, name, token *string) ([]api.ServiceAccount, *string, error) {
	page, err := apiclient.OK(c.ListServiceAccountsWithResponse(ctx, &api.ListServiceAccountsParams{Name: name, PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

func listIdentityProviders(ctx context.Context, c *apiclient.SDK, name, token *string) ([]api.IdentityProvider, *string, error) {
	page, err := apiclient.OK(c.ListIdentityProvidersWithResponse(ctx, &api.ListIdentityProvidersParams{Name: name, PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

func listWorkloadIdentities(ctx context.Context, c *apiclient.SDK, name, token *string) ([]api.WorkloadIdentity, *string, error) {
	page, err := apiclient.OK(c.ListWorkloadIdentitiesWithResponse(ctx, &api.ListWorkloadIdentitiesParams{Name: name, PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

func listAPIKeys(ctx context.Context, c *apiclient.SDK, params api.ListApiKeysParams) ([]api.ApiKey, *string, error) {
	params.PageSize = fullPage()
	page, err := apiclient.OK(c.ListApiKeysWithResponse(ctx, &params))
	return page.Items, page.NextPageToken, err
}
