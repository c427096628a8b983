package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var providerView = view[api.IdentityProvider]{name: func(p api.IdentityProvider) string { return p.Id }, columns: []column[api.IdentityProvider]{
	{title: "id", value: func(p api.IdentityProvider) string { return p.Id }},
	{title: "name", value: func(p api.IdentityProvider) string { return p.Name }},
	{title: "enabled", value: func(p api.IdentityProvider) string { return yesNo(p.Enabled) }},
	{title: "issuer", value: func(p api.IdentityProvider) string { return p.Issuer }},
	{title: "domains", value: domains},
	{title: "auto_enrol_role", value: func(p api.IdentityProvider) string { return string(p.AutoEnrolRole) }},
	{title: "client_id", detail: true, value: func(p api.IdentityProvider) string { return p.ClientId }},
	{title: "has_client_secret", detail: true, value: func(p api.IdentityProvider) string { return yesNo(p.HasClientSecret) }},
	{title: "owner_approved", detail: true, value: func(p api.IdentityProvider) string { return yesNo(p.OwnerApproved) }},
	{title: "records", detail: true, value: records},
	{title: "redirect_uri", detail: true, value: func(p api.IdentityProvider) string { return p.RedirectUri }},
	{title: "backchannel_logout_uri", detail: true, value: func(p api.IdentityProvider) string { return p.BackchannelLogoutUri }},
	{title: "created_at", detail: true, value: func(p api.IdentityProvider) string { return p.CreatedAt.String() }},
}}

// domains are those of the provider, with a word for those that are not proven.
func domains(p api.IdentityProvider) string {
	texts := make([]string, len(p.Domains))
	for i, d := range p.Domains {
		texts[i] = d.Domain
		if d.VerifiedAt == nil {
			texts[i] += " (not verified)"
		}
	}
	return strings.Join(texts, ", ")
}

// records are the TXT records that are still to be made.
func records(p api.IdentityProvider) string {
	var texts []string
	for _, d := range p.Domains {
		if d.VerifiedAt == nil {
			texts = append(texts, fmt.Sprintf("%s TXT %q", d.TxtName, d.TxtValue))
		}
	}
	return strings.Join(texts, ", ")
}

type providerFlags struct {
	name, issuer, clientID, secretFile, enrol string
	domains                                   []string
	public                                    bool
}

func (p *providerFlags) add(f *pflag.FlagSet) {
	f.StringVar(&p.issuer, "issuer", "", "https URL of the provider, exactly as it writes its issuer")
	f.StringVar(&p.clientID, "client-id", "", "client id that the provider gave")
	f.StringVar(&p.secretFile, "client-secret-file", "", "file that holds the client secret, or - for standard input (default: none, a public client)")
	f.StringSliceVar(&p.domains, "domain", nil, "domain of the people's mail addresses; may be repeated; an update replaces all")
	f.StringVar(&p.enrol, "auto-enrol-role", "none", "what somebody of a verified domain becomes who has no account: none, viewer, developer or billing")
}

func (a *app) ssoCommand() *cobra.Command {
	list := listing(a, "list", "List identity providers", "identity providers", providerView,
		func(ctx context.Context, c *apiclient.SDK, token *string) ([]api.IdentityProvider, *string, error) {
			page, err := apiclient.OK(c.ListIdentityProvidersWithResponse(ctx, &api.ListIdentityProvidersParams{PageToken: token, PageSize: fullPage()}))
			return page.Items, page.NextPageToken, err
		})
	get := showing(a, "get PROVIDER", "Show an identity provider, by id or name, with the records that prove its domains", "identity provider", providerView,
		func(ctx context.Context, _ *apiclient.SDK, name string) (api.IdentityProvider, error) {
			return a.provider(ctx, name)
		})
	remove := a.removing(a.writes, "delete PROVIDER", "Delete an identity provider, by id or name", "identity provider", "Sessions that began there end.",
		func(ctx context.Context, c *apiclient.SDK, name string) error {
			p, err := a.provider(ctx, name)
			if err != nil {
				return err
			}
			return apiclient.Done(c.DeleteIdentityProviderWithResponse(ctx, p.Id, &api.DeleteIdentityProviderParams{DryRun: a.dry()}))
		})
	return a.parent("sso", "Single sign-on: OpenID Connect providers at which the tenant's people sign in",
		list, get, a.ssoCreate(), a.ssoUpdate(), a.ssoSwitch("enable", true), a.ssoSwitch("disable", false), a.ssoVerify(), a.ssoEnforce(), a.ssoUnlink(), remove)
}

// provider finds an identity provider by id or name.
func (a *app) provider(ctx context.Context, which string) (api.IdentityProvider, error) {
	c, err := a.client(ctx)
	if err != nil {
		return api.IdentityProvider{}, err
	}
	return found(which, "idp_", "identity provider", "sluice sso list",
		func(id string) (api.IdentityProvider, error) {
			return apiclient.OK(c.GetIdentityProviderWithResponse(ctx, id))
		},
		func(name string) ([]api.IdentityProvider, error) {
			page, err := apiclient.OK(c.ListIdentityProvidersWithResponse(ctx, &api.ListIdentityProvidersParams{Name: &name}))
			return page.Items, err
		})
}

func (a *app) ssoCreate() *cobra.Command {
	var p providerFlags
	var lenient, off bool
	c := a.command("create NAME", "Name an identity provider; then register its redirect_uri there", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		body := api.IdentityProviderCreate{Name: args[0], Issuer: p.issuer, ClientId: p.clientID, Domains: given(f, "domain", p.domains),
			AutoEnrolRole: given(f, "auto-enrol-role", api.AutoEnrolRole(p.enrol)), Enabled: ptr(!off)}
		if f.Changed("client-secret-file") {
			secret, err := a.readSecret("--client-secret-file", p.secretFile, 4096)
			if err != nil {
				return err
			}
			body.ClientSecret = &secret
		}
		v, err := written(c.CreateIdentityProviderWithResponse(ctx, &api.CreateIdentityProviderParams{DryRun: a.dry()}, body))
		if lenient && apiclient.Is(err, "already_exists") {
			v, err = a.provider(ctx, args[0])
		}
		return changed(a, providerView, "create identity provider "+args[0], v, err,
			"Next: register the redirect_uri at the provider, make the records, then: sluice sso verify-domain "+args[0]+" DOMAIN")
	})
	c.Example = `  sluice sso create staff --issuer https://login.example.com --client-id sluice --client-secret-file secret.txt --domain example.com
  sluice sso verify-domain staff example.com --wait=10m
  sluice sso enforce --yes`
	p.add(c.Flags())
	c.Flags().BoolVar(&off, "disabled", false, "let nobody sign in there yet")
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "show the one that exists instead of failing")
	_ = c.MarkFlagRequired("issuer")
	_ = c.MarkFlagRequired("client-id")
	return a.writes(c)
}

func (a *app) ssoUpdate() *cobra.Command {
	var p providerFlags
	c := a.command("update PROVIDER", "Change an identity provider, by id or name", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		body := api.IdentityProviderUpdate{Name: given(f, "name", p.name), Issuer: given(f, "issuer", p.issuer), ClientId: given(f, "client-id", p.clientID),
			Domains: given(f, "domain", p.domains)}
		if f.Changed("auto-enrol-role") {
			body.AutoEnrolRole = ptr(api.AutoEnrolRole(p.enrol))
		}
		switch {
		case p.public:
			body.ClientSecret = nullable.NewNullNullable[string]()
		case f.Changed("client-secret-file"):
			secret, err := a.readSecret("--client-secret-file", p.secretFile, 4096)
			if err != nil {
				return err
			}
			body.ClientSecret = nullable.NewNullableWithValue(secret)
		}
		if body.Name == nil && body.Issuer == nil && body.ClientId == nil && body.Domains == nil && body.AutoEnrolRole == nil && !body.ClientSecret.IsSpecified() {
			return nothingToChange(cmd)
		}
		return a.ssoChange(ctx, args[0], body)
	})
	c.Example = `  sluice sso update staff --domain example.com --domain example.org
  pass show sluice/oidc | sluice sso update staff --client-secret-file -`
	p.add(c.Flags())
	c.Flags().StringVar(&p.name, "name", "", "another name")
	c.Flags().BoolVar(&p.public, "no-client-secret", false, "forget the secret: a public client")
	c.MarkFlagsMutuallyExclusive("client-secret-file", "no-client-secret")
	return a.writes(c)
}

func (a *app) ssoChange(ctx context.Context, which string, body api.IdentityProviderUpdate) error {
	now, err := a.provider(ctx, which)
	if err != nil {
		return doing("find identity provider "+which, err)
	}
	v, err := apiclient.OK(a.sdk.UpdateIdentityProviderWithResponse(ctx, now.Id, &api.UpdateIdentityProviderParams{DryRun: a.dry()}, body))
	return changed(a, providerView, "change identity provider "+which, v, err, "")
}

// ssoSwitch makes the commands that let people sign in somewhere, or not.
func (a *app) ssoSwitch(verb string, enabled bool) *cobra.Command {
	short := "Let people sign in at an identity provider, by id or name"
	if !enabled {
		short = "Let nobody sign in at an identity provider, by id or name; sessions that began there end"
	}
	c := a.command(verb+" PROVIDER", short, cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		if !enabled {
			if err := a.confirm("Disable identity provider " + args[0] + "? Sessions that began there end."); err != nil {
				return err
			}
		}
		return a.ssoChange(ctx, args[0], api.IdentityProviderUpdate{Enabled: &enabled})
	})
	return a.asks(a.writes(c))
}

// lookEvery is how long verify-domain --wait lets DNS settle between two looks.
const lookEvery = 5 * time.Second

func (a *app) ssoVerify() *cobra.Command {
	c := a.command("verify-domain PROVIDER DOMAIN", "Look for the TXT record that proves a domain; exit code 4 while it is not there", cobra.ExactArgs(2), func(ctx context.Context, _ *cobra.Command, args []string) error {
		p, err := a.provider(ctx, args[0])
		if err != nil {
			return doing("find identity provider "+args[0], err)
		}
		waiting, cancel := context.WithTimeout(ctx, a.wait)
		defer cancel()
		timer := time.NewTimer(lookEvery)
		defer timer.Stop()
		for {
			v, err := apiclient.OK(a.sdk.VerifyIdentityDomainWithResponse(ctx, p.Id, nil, api.VerifyIdentityDomain{Domain: args[1]}))
			if !apiclient.Is(err, "domain_not_verified") {
				return changed(a, providerView, "prove domain "+args[1], v, err, "")
			}
			select {
			case <-waiting.Done():
				return doing("prove domain "+args[1], err)
			case <-timer.C:
				timer.Reset(lookEvery)
			}
		}
	})
	c.Flags().DurationVar(&a.wait, "wait", 0, "look again until the record is there, at most this long (--wait alone: 60s)")
	c.Flags().Lookup("wait").NoOptDefVal = "60s"
	c.Example = `  sluice sso verify-domain staff example.com --wait=10m`
	return c
}

func (a *app) ssoEnforce() *cobra.Command {
	var off bool
	c := a.command("enforce", "Let people sign in through an identity provider of the tenant only, but for owners", cobra.NoArgs, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		if !off {
			if err := a.confirm("Demand single sign-on? Sessions that began with a password end, but those of owners."); err != nil {
				return err
			}
		}
		return a.secure(ctx, api.TenantSecurityUpdate{SsoRequired: ptr(!off)})
	})
	c.Flags().BoolVar(&off, "off", false, "let people sign in with their password again")
	return a.asks(a.writes(c))
}

func (a *app) ssoUnlink() *cobra.Command {
	return a.asks(a.command("unlink PROVIDER MEMBER", "Forget which subject of a provider a member is, for an address that got another owner", cobra.ExactArgs(2), func(ctx context.Context, _ *cobra.Command, args []string) error {
		p, err := a.provider(ctx, args[0])
		if err != nil {
			return doing("find identity provider "+args[0], err)
		}
		member, err := a.findMember(ctx, args[1])
		if err != nil {
			return err
		}
		if err := a.confirm("Forget who " + args[1] + " is at " + args[0] + "? Sessions that they began there end."); err != nil {
			return err
		}
		err = apiclient.Done(a.sdk.UnlinkIdentityWithResponse(ctx, p.Id, nil, api.UnlinkIdentity{UserId: member}))
		return a.deleted("link of "+args[1]+" to "+args[0], member, err, false)
	}))
}
