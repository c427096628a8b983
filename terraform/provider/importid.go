package provider

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// importID is the form of a resource's import id: its parts, joined by a
// slash, which no name can hold.
type importID struct {
	resource string
	parts    []importPart
}

type importPart struct {
	attribute string
	schema    string // schema of the contract whose pattern the part must match
	example   string
}

var (
	namespaceImport = importID{"sluice_namespace", []importPart{{"id", "NamespaceId", "k7m2q9x4w1bz"}}}
	topicImport     = importID{"sluice_topic", []importPart{
		{"namespace_id", "NamespaceId", "k7m2q9x4w1bz"}, {"name", "TopicName", "orders"}}}
	groupImport = importID{"sluice_consumer_group", []importPart{
		{"namespace_id", "NamespaceId", "k7m2q9x4w1bz"}, {"name", "GroupName", "billing"}}}
	aclImport = importID{"sluice_acl", []importPart{
		{"namespace_id", "NamespaceId", "k7m2q9x4w1bz"}, {"id", "AclId", "acl_01JAB3CD4EF5GH6JK7MN8PQ9RS"}}}
	roleImport             = importID{"sluice_role", []importPart{{"id", "RoleRef", "rol_01JAB3CD4EF5GH6JK7MN8PQ9RS"}}}
	bindingImport          = importID{"sluice_role_binding", []importPart{{"id", "RoleBindingId", "rbd_01JAB3CD4EF5GH6JK7MN8PQ9RS"}}}
	accountImport          = importID{"sluice_service_account", []importPart{{"id", "ServiceAccountId", "sa_01JAB3CD4EF5GH6JK7MN8PQ9RS"}}}
	identityProviderImport = importID{"sluice_identity_provider", []importPart{{"id", "IdentityProviderId", "idp_01JAB3CD4EF5GH6JK7MN8PQ9RS"}}}
	invitationImport       = importID{"sluice_member_invitation", []importPart{{"id", "InvitationId", "inv_01JAB3CD4EF5GH6JK7MN8PQ9RS"}}}
	domainImport           = importID{"sluice_identity_domain_verification", []importPart{
		{"identity_provider_id", "IdentityProviderId", "idp_01JAB3CD4EF5GH6JK7MN8PQ9RS"}, {"domain", "DomainName", "example.com"}}}
	workloadIdentityImport = importID{"sluice_workload_identity", []importPart{{"id", "WorkloadIdentityId", "wid_01JAB3CD4EF5GH6JK7MN8PQ9RS"}}}
	tenantSecurityImport   = importID{"sluice_tenant_security", []importPart{{"id", "TenantId", "ten_01JAB3CD4EF5GH6JK7MN8PQ9RS"}}}
	apiKeyImport           = importID{"sluice_api_key", []importPart{{"id", "ApiKeyId", "slk_7Qm2XvN4kPz9Rt3Lc8Wd"}}}
)

// parse splits id into the values of its parts.
func (f importID) parse(id string) ([]string, error) {
	values := strings.Split(id, "/")
	if len(values) != len(f.parts) {
		return nil, fmt.Errorf("the import id %q has %d parts; %s", id, len(values), f.usage())
	}
	for i, part := range f.parts {
		form := regexp.MustCompile(contract(part.schema, "").Pattern)
		if !form.MatchString(values[i]) {
			return nil, fmt.Errorf("%q in the import id is no %s; %s", values[i], part.attribute, f.usage())
		}
	}
	return values, nil
}

func (f importID) usage() string {
	names, examples := make([]string, len(f.parts)), make([]string, len(f.parts))
	for i, part := range f.parts {
		names[i], examples[i] = part.attribute, part.example
	}
	return fmt.Sprintf("a %s is imported by %s, such as: terraform import %s.example %s",
		f.resource, strings.Join(names, "/"), f.resource, strings.Join(examples, "/"))
}

// line is the command that takes an object into the state.
func (f importID) line(values ...string) string {
	return fmt.Sprintf("terraform import %s.<name of the resource block> %s", f.resource, strings.Join(values, "/"))
}

// lineFor is the command that takes the object of this name into the state, or
// nothing when it is not found. one tells id and name of an object.
func lineFor[V any](ctx context.Context, c *apiclient.SDK, f importID, name string,
	list func(ctx context.Context, c *apiclient.SDK, name, token *string) ([]V, *string, error), one func(V) (id, name string)) string {
	page := func(token *string) ([]V, *string, error) { return list(ctx, c, &name, token) }
	for v, err := range apiclient.All(page) {
		if err != nil {
			return ""
		}
		if id, called := one(v); called == name {
			return f.line(id)
		}
	}
	return ""
}

// importState puts the parts of the import id into the state; Read does the rest.
func (f importID) importState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	values, err := f.parse(req.ID)
	if err != nil {
		resp.Diagnostics.AddError("Invalid import id", err.Error())
		return
	}
	for i, part := range f.parts {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(part.attribute), values[i])...)
	}
}
