package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// defaultKeyName names a key whose configuration gives it no name.
const defaultKeyName = "terraform"

func apiKeySchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "An API key: what SDKs sign with, and, with a control role, what programs call the API with. " +
			"The server shows the secret once; it is kept in the state, so keep the state as safe as the key.",
		Attributes: map[string]schema.Attribute{
			"id":     computedString("Id of the key, which is the AccessKey of SDKs."),
			"key_id": computedString("The same as `id`."),
			"owner_id": schema.StringAttribute{Optional: true, Computed: true, Validators: contract("OwnerId", "").strings(),
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
				MarkdownDescription: contract("OwnerId", "").Description + " Left out: the owner of the credential that Terraform uses. A change replaces the key."},
			"name":        defaultedString(contract("DisplayName", ""), defaultKeyName, "Name for people. Default `terraform`."),
			"description": descriptionAttribute(),
			"scope":       scopeAttribute(contract("ApiKeyCreate", "scopes"), "What the key may do; elements of one namespace differ in `cidrs` or `expires_at`. A key with scopes in several namespaces must name one when it connects."),
			"control_role": schema.StringAttribute{Optional: true, PlanModifiers: replace(), Validators: contract("ControlRole", "").strings(),
				MarkdownDescription: contract("ControlRole", "").Description + " `admin`, `developer`, `viewer` or `billing`. A change replaces the key."},
			"allowed_cidrs": networksAttribute(contract("ApiKeyCreate", "allowed_cidrs")),
			"expires_at":    endAttribute("When the key stops working, such as `2027-01-31T00:00:00Z`. Left out: never. A tenant that limits the age of its keys may end it earlier, which the data source shows."),
			"disabled": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: contract("ApiKeyUpdate", "disabled").Description + " Default `false`."},
			"rotation_keepers": schema.MapAttribute{ElementType: types.StringType, Optional: true,
				PlanModifiers: []planmodifier.Map{mapplanmodifier.RequiresReplaceIf(keepersChanged, keepersRule, keepersRule)},
				MarkdownDescription: "Values of your own; a change of any of them replaces the key by a new one with another id and secret. " +
					"Add `lifecycle { create_before_destroy = true }` or a `grace_period` so that no client is cut off. " +
					"Keepers written for a key that was just imported do not replace it."},
			"grace_period": schema.StringAttribute{Optional: true, CustomType: durations.typ(),
				MarkdownDescription: "How long the key goes on working after it was replaced or destroyed, such as `15m`. Left out: it stops at once."},
			"secret_wo": schema.StringAttribute{Optional: true, WriteOnly: true, Sensitive: true,
				Validators: append(contract("BroughtSecret", "").strings(), stringvalidator.ConflictsWith(path.MatchRoot("secret")), stringvalidator.AlsoRequires(path.MatchRoot("secret_version"))),
				MarkdownDescription: "A secret of your own that neither plan nor state hold; `secret` is then null. It must be as hard to guess as 128 random bits. " +
					"Needs Terraform 1.11 and `secret_version`."},
			"secret_version": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.AlsoRequires(path.MatchRoot("secret_wo"))},
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplaceIf(versionChanged, versionRule, versionRule)},
				MarkdownDescription: "A number of your own; another one replaces the key by one with `secret_wo` as it is then. One written for a key that was just imported does not."},
			"secret": schema.StringAttribute{Optional: true, Computed: true, Sensitive: true, Validators: contract("BroughtSecret", "").strings(),
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
				MarkdownDescription: "The secret, which is the SecretKey of SDKs. Left out: the server makes one. One of your own must be as hard to guess as " +
					"128 random bits; a change replaces the key. Null for an imported key and with `secret_wo`."},
			"hint":       computedString(contract("ApiKey", "hint").Description),
			"created_at": computedString("When it was created."),
			"timeouts":   timeoutsAttribute(ctx),
		},
	}
}

const versionRule = "replaces the key when the version of its secret changes"

// versionChanged is keepersChanged for the version of the secret.
func versionChanged(ctx context.Context, req planmodifier.Int64Request, resp *int64planmodifier.RequiresReplaceIfFuncResponse) {
	imported, diags := req.Private.GetKey(ctx, importedKey)
	resp.Diagnostics.Append(diags...)
	resp.RequiresReplace = !req.StateValue.IsNull() || string(imported) != "true"
}

const keepersRule = "replaces the key when a keeper changes"

// keepersChanged lets the first keepers of an imported key pass: nobody knows
// with which ones it was made.
func keepersChanged(ctx context.Context, req planmodifier.MapRequest, resp *mapplanmodifier.RequiresReplaceIfFuncResponse) {
	imported, diags := req.Private.GetKey(ctx, importedKey)
	resp.Diagnostics.Append(diags...)
	resp.RequiresReplace = !req.StateValue.IsNull() || string(imported) != "true"
}
