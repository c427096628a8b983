// Package provider is the Terraform provider of Sluice: namespaces, topics,
// consumer groups, and who may do what with them, as resources and data sources.
//
// It owns the translation between Terraform's plans and the HTTP API, and
// nothing else: limits and patterns are read from the contract
// (controlplane/api), retries and idempotency keys are the client's
// (controlplane/apiclient). It talks to the HTTP API only, never to a broker.
// Terraform may call every resource from many goroutines at the same time;
// all they share is the client.
package provider

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Address is the provider's place in registries, which a configuration names
// in required_providers.
const Address = "registry.terraform.io/sluicemq/sluice"

// The environment variables that stand in for attributes of the provider
// block. No other variable is read.
const (
	envEndpoint     = "SLUICE_ENDPOINT"
	envToken        = "SLUICE_TOKEN"
	envClientID     = "SLUICE_CLIENT_ID"
	envClientSecret = "SLUICE_CLIENT_SECRET"
)

const (
	defaultMaxRetries     = 8
	defaultRequestTimeout = "30s"
)

type sluiceProvider struct{ version string }

var _ provider.Provider = sluiceProvider{}

// New returns the provider; version is told to the server as part of the
// user agent.
func New(version string) provider.Provider { return sluiceProvider{version: version} }

type providerModel struct {
	Endpoint        types.String  `tfsdk:"endpoint"`
	Token           types.String  `tfsdk:"token"`
	ClientID        types.String  `tfsdk:"client_id"`
	ClientSecret    types.String  `tfsdk:"client_secret"`
	TenantID        types.String  `tfsdk:"tenant_id"`
	MaxRetries      types.Int64   `tfsdk:"max_retries"`
	RequestTimeout  notationValue `tfsdk:"request_timeout"`
	UserAgentSuffix types.String  `tfsdk:"user_agent_suffix"`
}

func (p sluiceProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "sluice"
	resp.Version = p.version
}

func (p sluiceProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Manages namespaces, topics, consumer groups and access of Sluice, a message queue for the RocketMQ SDKs.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Base URL of the API, such as `https://sluice.example.com`. Environment: `SLUICE_ENDPOINT`."},
			"token": schema.StringAttribute{Optional: true, Sensitive: true,
				MarkdownDescription: "Access token. Environment: `SLUICE_TOKEN`. Give either this or `client_id` with `client_secret`."},
			"client_id": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Id of an API key that has a control role. Environment: `SLUICE_CLIENT_ID`."},
			"client_secret": schema.StringAttribute{Optional: true, Sensitive: true,
				MarkdownDescription: "Secret of that API key. Environment: `SLUICE_CLIENT_SECRET`."},
			"tenant_id": schema.StringAttribute{Optional: true, Validators: contract("TenantId", "").strings(),
				MarkdownDescription: "Tenant that the credential must belong to; another one is an error before anything is planned. Left out: not checked."},
			"max_retries": schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.Between(0, 100)},
				MarkdownDescription: "How often a request is tried again after a rate limit, an unavailable server or a lost connection. Default `8`."},
			"request_timeout": schema.StringAttribute{Optional: true, CustomType: durations.typ(),
				MarkdownDescription: "How long one request may take. Default `30s`."},
			"user_agent_suffix": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Text added to the user agent of every request."},
		},
	}
}

func (p sluiceProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var config providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	for _, v := range []attr.Value{config.Endpoint, config.Token, config.ClientID, config.ClientSecret,
		config.TenantID, config.MaxRetries, config.RequestTimeout, config.UserAgentSuffix} {
		if v.IsUnknown() {
			// A plan may run before another resource made the value: planning
			// needs no server, and apply configures the provider again.
			return
		}
	}
	settings, ok := p.settings(config, resp)
	if !ok {
		return
	}
	s, err := connect(settings)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("endpoint"), "Invalid endpoint", err.Error())
		return
	}
	if want := config.TenantID.ValueString(); want != "" {
		me, err := s.me(ctx)
		if err != nil {
			addFailure(&resp.Diagnostics, "Could not find out whose the credential is", err)
			return
		}
		if me.TenantId != want {
			resp.Diagnostics.AddAttributeError(path.Root("tenant_id"), "Credential of another tenant",
				fmt.Sprintf("The credential belongs to tenant %s, the provider block asks for %s. Use a credential of %s or change tenant_id.", me.TenantId, want, want))
			return
		}
	}
	resp.ResourceData, resp.DataSourceData = s, s
}

// setting is a value together with the place that it came from.
type setting struct{ value, source string }

func (s setting) set() bool { return s.value != "" }

func lookup(value types.String, attribute, variable string) setting {
	if v := value.ValueString(); v != "" {
		return setting{v, attribute + " in the provider block"}
	}
	return setting{os.Getenv(variable), "the environment variable " + variable}
}

// settings joins the provider block with the environment, block first.
func (p sluiceProvider) settings(config providerModel, resp *provider.ConfigureResponse) (settings, bool) {
	endpoint := lookup(config.Endpoint, "endpoint", envEndpoint)
	token := lookup(config.Token, "token", envToken)
	id := lookup(config.ClientID, "client_id", envClientID)
	secret := lookup(config.ClientSecret, "client_secret", envClientSecret)

	if !endpoint.set() {
		resp.Diagnostics.AddAttributeError(path.Root("endpoint"), "Missing endpoint",
			"Set endpoint in the provider block or "+envEndpoint+" to the base URL of the API, such as https://sluice.example.com.")
	}
	switch {
	case token.set() && (id.set() || secret.set()):
		other := id
		if !other.set() {
			other = secret
		}
		resp.Diagnostics.AddError("Two credentials",
			fmt.Sprintf("Both token (from %s) and client_id with client_secret (from %s) are set. Remove one of the two.", token.source, other.source))
	case !token.set() && !id.set() && !secret.set():
		resp.Diagnostics.AddError("Missing credential",
			fmt.Sprintf("Set client_id and client_secret (%s, %s) to an API key with a control role, or token (%s) to an access token.", envClientID, envClientSecret, envToken))
	case id.set() && !secret.set():
		resp.Diagnostics.AddAttributeError(path.Root("client_secret"), "Missing client_secret",
			fmt.Sprintf("client_id comes from %s, but there is no secret. Set client_secret or %s.", id.source, envClientSecret))
	case secret.set() && !id.set():
		resp.Diagnostics.AddAttributeError(path.Root("client_id"), "Missing client_id",
			fmt.Sprintf("client_secret comes from %s, but there is no key id. Set client_id or %s.", secret.source, envClientID))
	}
	if resp.Diagnostics.HasError() {
		return settings{}, false
	}
	timeout := config.RequestTimeout.ValueString()
	if config.RequestTimeout.IsNull() {
		timeout = defaultRequestTimeout
	}
	ms, err := parseDuration(timeout)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("request_timeout"), "Invalid duration", err.Error())
		return settings{}, false
	}
	retries := int64(defaultMaxRetries)
	if !config.MaxRetries.IsNull() {
		retries = config.MaxRetries.ValueInt64()
	}
	agent := "terraform-provider-sluice/" + p.version
	if suffix := strings.TrimSpace(config.UserAgentSuffix.ValueString()); suffix != "" {
		agent += " " + suffix
	}
	return settings{
		endpoint: strings.TrimRight(endpoint.value, "/"), token: token.value, keyID: id.value, keySecret: secret.value,
		maxRetries: int(retries), requestTimeout: time.Duration(ms) * time.Millisecond, userAgent: agent,
	}, true
}

func (p sluiceProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &namespaceResource{} },
		func() resource.Resource { return &topicResource{} },
		func() resource.Resource { return &groupResource{} },
		func() resource.Resource { return &apiKeyResource{} },
		func() resource.Resource { return &aclResource{} },
		func() resource.Resource { return &accountResource{} },
		func() resource.Resource { return &roleResource{} },
		func() resource.Resource { return &bindingResource{} },
		func() resource.Resource { return &identityProviderResource{} },
		func() resource.Resource { return &domainResource{} },
		func() resource.Resource { return &workloadIdentityResource{} },
		func() resource.Resource { return &tenantSecurityResource{} },
		func() resource.Resource { return &invitationResource{} },
	}
}

func (p sluiceProvider) DataSources(context.Context) []func() datasource.DataSource {
	return append([]func() datasource.DataSource{
		newNamespaceData, newAPIKeyData, newRoleData, newServiceAccountData, newMemberData, newIdentityProviderData, newWorkloadIdentityData,
		func() datasource.DataSource { return &topicData{} },
		func() datasource.DataSource { return &groupData{} },
		func() datasource.DataSource { return &aclData{} },
		func() datasource.DataSource { return &tenantData{} },
	}, newListData()...)
}
