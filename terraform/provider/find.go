package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// findData is a data source that finds one object by its id or by what people
// call it. V is the object, M its state.
type findData[V, M any] struct {
	dataBase
	typeName string
	words    string // what the object is, such as "API key"
	schema   func(context.Context) schema.Schema
	id, name string // the attributes that find it
	get      func(ctx context.Context, c *apiclient.SDK, id string) (V, error)
	// list may return more than what has the name; named tells.
	list  func(ctx context.Context, c *apiclient.SDK, name, token *string) ([]V, *string, error)
	named func(v V, name string) bool
	set   func(*M, V)
}

func (d *findData[V, M]) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = d.typeName
}

func (d *findData[V, M]) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = d.schema(ctx)
}

func (d *findData[V, M]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var id, name types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(d.id), &id)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(d.name), &name)...)
	if resp.Diagnostics.HasError() || !d.ready(&resp.Diagnostics) {
		return
	}
	var v V
	var err error
	switch {
	case (id.ValueString() == "") == (name.ValueString() == ""):
		resp.Diagnostics.AddError("Which "+d.words+"?", fmt.Sprintf("Set either %s or %s.", d.id, d.name))
		return
	case id.ValueString() != "":
		v, err = d.get(ctx, d.client, id.ValueString())
	default:
		var found []V
		found, err = d.called(ctx, name.ValueString())
		if err == nil && len(found) == 0 {
			resp.Diagnostics.AddAttributeError(path.Root(d.name), "No such "+d.words, fmt.Sprintf("There is no %s with the %s %q.", d.words, d.name, name.ValueString()))
			return
		}
		if err == nil && len(found) > 1 {
			resp.Diagnostics.AddAttributeError(path.Root(d.name), "Not one "+d.words,
				fmt.Sprintf("%d have the %s %q. Name the one by %s.", len(found), d.name, name.ValueString(), d.id))
			return
		}
		if err == nil {
			v = found[0]
		}
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not read "+d.words+" "+id.ValueString()+name.ValueString(), err)
		return
	}
	var m M
	d.set(&m, v)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	if !name.IsNull() {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(d.name), name)...) // as it was asked for
	}
}

// called are all objects of that name.
func (d *findData[V, M]) called(ctx context.Context, name string) ([]V, error) {
	var found []V
	for v, err := range apiclient.All(func(token *string) ([]V, *string, error) { return d.list(ctx, d.client, &name, token) }) {
		if err != nil {
			return nil, err
		}
		if d.named(v, name) {
			found = append(found, v)
		}
	}
	return found, nil
}

// fullPage is the largest page of a list.
func fullPage() *int32 { return ptr(int32(1000)) }

func newNamespaceData() datasource.DataSource {
	return &findData[api.Namespace, namespaceFields]{typeName: "sluice_namespace", words: "namespace", id: "id", name: "name",
		schema: func(ctx context.Context) schema.Schema {
			return mirror(ctx, &namespaceResource{}, "Finds a namespace by `id` or by `name`.", "id?", "name?")
		},
		get: func(ctx context.Context, c *apiclient.SDK, id string) (api.Namespace, error) {
			return apiclient.OK(c.GetNamespaceWithResponse(ctx, id))
		},
		list:  listNamespaces,
		named: func(n api.Namespace, name string) bool { return n.Name == name }, set: (*namespaceFields).set}
}

// apiKeyDataModel adds what changes with use, which a resource must not show:
// every refresh would find a change.
type apiKeyDataModel struct {
	apiKeyFields
	State      types.String  `tfsdk:"state"`
	LastUsedAt notationValue `tfsdk:"last_used_at"`
}

func (m *apiKeyDataModel) set(k api.ApiKey) {
	m.apiKeyFields.set(k)
	m.State, m.LastUsedAt = types.StringValue(string(k.State)), timeValue(k.LastUsedAt)
}

func apiKeyDataSchema(ctx context.Context, description string, keys ...string) schema.Schema {
	s := mirror(ctx, &apiKeyResource{}, description, keys...)
	s.Attributes["state"] = schema.StringAttribute{Computed: true,
		MarkdownDescription: contract("ApiKeyState", "").Description + " `active`, `disabled`, `expired` or `revoked`."}
	s.Attributes["last_used_at"] = schema.StringAttribute{Computed: true, CustomType: timestamps.typ(), MarkdownDescription: "When the key was last used, if ever."}
	return s
}

func newAPIKeyData() datasource.DataSource {
	return &findData[api.ApiKey, apiKeyDataModel]{typeName: "sluice_api_key", words: "API key", id: "key_id", name: "name",
		schema: func(ctx context.Context) schema.Schema {
			return apiKeyDataSchema(ctx, "Finds an API key by `key_id` or by `name`. It never shows a secret.", "key_id?", "name?")
		},
		get: func(ctx context.Context, c *apiclient.SDK, id string) (api.ApiKey, error) {
			return apiclient.OK(c.GetApiKeyWithResponse(ctx, id))
		},
		list: func(ctx context.Context, c *apiclient.SDK, name, token *string) ([]api.ApiKey, *string, error) {
			return listAPIKeys(ctx, c, api.ListApiKeysParams{Name: name, PageToken: token})
		},
		named: func(k api.ApiKey, name string) bool { return k.Name == name }, set: (*apiKeyDataModel).set}
}

// roleDataModel adds what only roles have that nobody manages.
type roleDataModel struct {
	roleModel
	BuiltIn types.Bool `tfsdk:"built_in"`
}

func (m *roleDataModel) set(r api.CustomRole) {
	m.roleModel.set(r)
	m.BuiltIn = types.BoolValue(r.BuiltIn)
}

func roleDataSchema(ctx context.Context, description string, keys ...string) schema.Schema {
	s := mirror(ctx, &roleResource{}, description, keys...)
	s.Attributes["built_in"] = schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether every tenant has it; its id is then its name."}
	return s
}

func listRoles(ctx context.Context, c *apiclient.SDK, _, token *string) ([]api.CustomRole, *string, error) {
	page, err := apiclient.OK(c.ListRolesWithResponse(ctx, &api.ListRolesParams{PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

func newRoleData() datasource.DataSource {
	return &findData[api.CustomRole, roleDataModel]{typeName: "sluice_role", words: "role", id: "id", name: "name",
		schema: func(ctx context.Context) schema.Schema {
			return roleDataSchema(ctx, "Finds a role, a built-in one or one of the tenant's own, by `id` or by `name`.", "id?", "name?")
		},
		get: func(ctx context.Context, c *apiclient.SDK, id string) (api.CustomRole, error) {
			return apiclient.OK(c.GetRoleWithResponse(ctx, id))
		},
		list:  listRoles,
		named: func(r api.CustomRole, name string) bool { return r.Name == name }, set: (*roleDataModel).set}
}

func newServiceAccountData() datasource.DataSource {
	return &findData[api.ServiceAccount, accountModel]{typeName: "sluice_service_account", words: "service account", id: "id", name: "name",
		schema: func(ctx context.Context) schema.Schema {
			return mirror(ctx, &accountResource{}, "Finds a service account by `id` or by `name`.", "id?", "name?")
		},
		get: func(ctx context.Context, c *apiclient.SDK, id string) (api.ServiceAccount, error) {
			return apiclient.OK(c.GetServiceAccountWithResponse(ctx, id))
		},
		list:  listServiceAccounts,
		named: func(a api.ServiceAccount, name string) bool { return a.Name == name }, set: (*accountModel).set}
}

func newIdentityProviderData() datasource.DataSource {
	return &findData[api.IdentityProvider, identityProviderFields]{typeName: "sluice_identity_provider", words: "identity provider", id: "id", name: "name",
		schema: func(ctx context.Context) schema.Schema {
			return mirror(ctx, &identityProviderResource{}, "Finds an identity provider by `id` or by `name`.", "id?", "name?")
		},
		get: func(ctx context.Context, c *apiclient.SDK, id string) (api.IdentityProvider, error) {
			return apiclient.OK(c.GetIdentityProviderWithResponse(ctx, id))
		},
		list:  listIdentityProviders,
		named: func(p api.IdentityProvider, name string) bool { return p.Name == name }, set: (*identityProviderFields).set}
}

func newWorkloadIdentityData() datasource.DataSource {
	return &findData[api.WorkloadIdentity, workloadIdentityModel]{typeName: "sluice_workload_identity", words: "workload identity", id: "id", name: "name",
		schema: func(ctx context.Context) schema.Schema {
			return mirror(ctx, &workloadIdentityResource{}, "Finds a workload identity by `id` or by `name`.", "id?", "name?")
		},
		get: func(ctx context.Context, c *apiclient.SDK, id string) (api.WorkloadIdentity, error) {
			return apiclient.OK(c.GetWorkloadIdentityWithResponse(ctx, id))
		},
		list:  listWorkloadIdentities,
		named: func(w api.WorkloadIdentity, name string) bool { return w.Name == name }, set: (*workloadIdentityModel).set}
}
