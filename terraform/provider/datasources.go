package provider

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	managed "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// The data sources show what their resources show, but for what only the one
// who manages an object has: secret, keepers, grace period, timeouts.

type (
	namespaceData struct{ dataBase }
	topicData     struct{ dataBase }
	groupData     struct{ dataBase }
	apiKeyData    struct{ dataBase }
	aclData       struct{ dataBase }
)

var (
	_ datasource.DataSourceWithConfigure = (*namespaceData)(nil)
	_ datasource.DataSourceWithConfigure = (*topicData)(nil)
	_ datasource.DataSourceWithConfigure = (*groupData)(nil)
	_ datasource.DataSourceWithConfigure = (*apiKeyData)(nil)
	_ datasource.DataSourceWithConfigure = (*aclData)(nil)
)

// mirror turns the schema of a resource into that of its data source: all
// attributes computed but those of key, which find the object. A key that
// ends in "?" may be left out.
func mirror(ctx context.Context, r resource.Resource, description string, key ...string) schema.Schema {
	var from resource.SchemaResponse
	r.Schema(ctx, resource.SchemaRequest{}, &from)
	out := schema.Schema{MarkdownDescription: description, Attributes: map[string]schema.Attribute{}}
	for name, attribute := range from.Schema.Attributes {
		switch name {
		case "timeouts", "secret", "rotation_keepers", "grace_period":
		default:
			out.Attributes[name] = mirrored(attribute)
		}
	}
	for _, name := range key {
		name, optional := strings.CutSuffix(name, "?")
		a := from.Schema.Attributes[name].(managed.StringAttribute)
		out.Attributes[name] = schema.StringAttribute{Required: !optional, Optional: optional, Computed: optional,
			Validators: a.Validators, MarkdownDescription: a.MarkdownDescription}
	}
	return out
}

func mirrored(attribute managed.Attribute) schema.Attribute {
	switch a := attribute.(type) {
	case managed.StringAttribute:
		return schema.StringAttribute{Computed: true, CustomType: a.CustomType, MarkdownDescription: a.MarkdownDescription}
	case managed.Int64Attribute:
		return schema.Int64Attribute{Computed: true, MarkdownDescription: a.MarkdownDescription}
	case managed.BoolAttribute:
		return schema.BoolAttribute{Computed: true, MarkdownDescription: a.MarkdownDescription}
	case managed.MapAttribute:
		return schema.MapAttribute{Computed: true, ElementType: a.ElementType, MarkdownDescription: a.MarkdownDescription}
	case managed.SetAttribute:
		return schema.SetAttribute{Computed: true, ElementType: a.ElementType, MarkdownDescription: a.MarkdownDescription}
	case managed.ListAttribute:
		return schema.ListAttribute{Computed: true, ElementType: a.ElementType, MarkdownDescription: a.MarkdownDescription}
	case managed.SingleNestedAttribute:
		return schema.SingleNestedAttribute{Computed: true, Attributes: mirroredAll(a.Attributes), MarkdownDescription: a.MarkdownDescription}
	case managed.ListNestedAttribute:
		return schema.ListNestedAttribute{Computed: true, MarkdownDescription: a.MarkdownDescription,
			NestedObject: schema.NestedAttributeObject{Attributes: mirroredAll(a.NestedObject.Attributes)}}
	}
	panic(fmt.Sprintf("no data source attribute for %T", attribute))
}

func mirroredAll(in map[string]managed.Attribute) map[string]schema.Attribute {
	out := make(map[string]schema.Attribute, len(in))
	for name, attribute := range in {
		out[name] = mirrored(attribute)
	}
	return out
}

func (d *namespaceData) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "sluice_namespace"
}

func (d *namespaceData) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = mirror(ctx, &namespaceResource{}, "Finds a namespace by `id` or by `name`.", "id?", "name?")
}

func (d *namespaceData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model namespaceFields
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || !d.base.ready(&resp.Diagnostics) {
		return
	}
	id, name := model.ID.ValueString(), model.Name.ValueString()
	var n api.Namespace
	var err error
	switch {
	case (id == "") == (name == ""):
		resp.Diagnostics.AddError("Which namespace?", "Set either id or name.")
		return
	case id != "":
		n, err = apiclient.OK(d.client.GetNamespaceWithResponse(ctx, id))
	default:
		var page api.NamespaceList
		page, err = apiclient.OK(d.client.ListNamespacesWithResponse(ctx, &api.ListNamespacesParams{Name: &name}))
		if err == nil && len(page.Items) == 0 {
			resp.Diagnostics.AddError("No such namespace", fmt.Sprintf("There is no namespace with the name %q. `sluice namespace list` shows those that exist.", name))
			return
		}
		if err == nil {
			n = page.Items[0]
		}
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not read namespace "+id+name, err)
		return
	}
	model.set(n)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (d *topicData) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "sluice_topic"
}

func (d *topicData) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = mirror(ctx, &topicResource{}, "Finds a topic by its namespace and name.", "namespace_id", "name")
}

func (d *topicData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model topicFields
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || !d.base.ready(&resp.Diagnostics) {
		return
	}
	t, err := apiclient.OK(d.client.GetTopicWithResponse(ctx, model.NamespaceID.ValueString(), model.Name.ValueString()))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not read topic "+model.Name.ValueString(), err)
		return
	}
	model.set(t)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (d *groupData) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "sluice_consumer_group"
}

func (d *groupData) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = mirror(ctx, &groupResource{}, "Finds a consumer group by its namespace and name.", "namespace_id", "name")
}

func (d *groupData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model groupFields
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || !d.base.ready(&resp.Diagnostics) {
		return
	}
	g, err := apiclient.OK(d.client.GetGroupWithResponse(ctx, model.NamespaceID.ValueString(), model.Name.ValueString()))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not read consumer group "+model.Name.ValueString(), err)
		return
	}
	model.set(g)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// apiKeyDataModel adds what changes with use, which a resource must not show:
// every refresh would find a change.
type apiKeyDataModel struct {
	apiKeyFields
	State      types.String  `tfsdk:"state"`
	LastUsedAt notationValue `tfsdk:"last_used_at"`
}

func (d *apiKeyData) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "sluice_api_key"
}

func (d *apiKeyData) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = mirror(ctx, &apiKeyResource{}, "Finds an API key by `key_id` or by `name`. It never shows a secret.", "key_id?", "name?")
	resp.Schema.Attributes["state"] = schema.StringAttribute{Computed: true,
		MarkdownDescription: contract("ApiKeyState", "").Description + " `active`, `disabled`, `expired` or `revoked`."}
	resp.Schema.Attributes["last_used_at"] = schema.StringAttribute{Computed: true, CustomType: timestamps.typ(),
		MarkdownDescription: "When the key was last used, if ever."}
}

func (d *apiKeyData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model apiKeyDataModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || !d.base.ready(&resp.Diagnostics) {
		return
	}
	id, name := model.KeyID.ValueString(), model.Name.ValueString()
	var k api.ApiKey
	var err error
	switch {
	case (id == "") == (name == ""):
		resp.Diagnostics.AddError("Which API key?", "Set either key_id or name.")
		return
	case id != "":
		k, err = apiclient.OK(d.client.GetApiKeyWithResponse(ctx, id))
	default:
		var page api.ApiKeyList
		page, err = apiclient.OK(d.client.ListApiKeysWithResponse(ctx, &api.ListApiKeysParams{Name: &name}))
		if err == nil && len(page.Items) != 1 {
			resp.Diagnostics.AddError("Not one API key", fmt.Sprintf("%d API keys have the name %q. Name the one by key_id; `sluice key list` shows all.", len(page.Items), name))
			return
		}
		if err == nil {
			k = page.Items[0]
		}
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not read API key "+id+name, err)
		return
	}
	model.set(k)
	model.State, model.LastUsedAt = types.StringValue(string(k.State)), timeValue(k.LastUsedAt)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

func (d *aclData) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "sluice_acl"
}

func (d *aclData) Schema(ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = mirror(ctx, &aclResource{}, "Finds an access rule by its namespace and id.", "namespace_id", "id")
}

func (d *aclData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model aclFields
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || !d.base.ready(&resp.Diagnostics) {
		return
	}
	v, err := apiclient.OK(d.client.GetAclWithResponse(ctx, model.NamespaceID.ValueString(), model.ID.ValueString()))
	if err != nil {
		addFailure(&resp.Diagnostics, "Could not read rule "+model.ID.ValueString(), err)
		return
	}
	model.set(v)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}
