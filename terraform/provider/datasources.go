package provider

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	managed "github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// The data sources show what their resources show, but for what only the one
// who manages an object has: secret, keepers, grace period, timeouts.

type (
	topicData struct{ dataBase }
	groupData struct{ dataBase }
	aclData   struct{ dataBase }
)

var (
	_ datasource.DataSourceWithConfigure = (*topicData)(nil)
	_ datasource.DataSourceWithConfigure = (*groupData)(nil)
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
		case "timeouts", "secret", "secret_wo", "secret_version", "rotation_keepers", "grace_period",
			"client_secret", "client_secret_wo", "client_secret_version":
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
	case managed.MapNestedAttribute:
		return schema.MapNestedAttribute{Computed: true, MarkdownDescription: a.MarkdownDescription,
			NestedObject: schema.NestedAttributeObject{Attributes: mirroredAll(a.NestedObject.Attributes)}}
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
