package cli

import (
	"context"
	"slices"

	"github.com/oapi-codegen/nullable"
	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// securityView shows what a tenant demands; its name is the tenant's id.
var securityView = view[api.Tenant]{name: func(t api.Tenant) string { return t.Id }, columns: []column[api.Tenant]{
	{title: "tenant_id", value: func(t api.Tenant) string { return t.Id }},
	{title: "mfa_required", value: func(t api.Tenant) string { return yesNo(t.Security.MfaRequired) }},
	{title: "sso_required", value: func(t api.Tenant) string { return yesNo(t.Security.SsoRequired) }},
	{title: "max_key_age", value: func(t api.Tenant) string {
		if t.Security.MaxKeyAge == nil {
			return "no limit"
		}
		return *t.Security.MaxKeyAge
	}},
}}

var ownTenantView = view[api.OwnTenant]{name: func(t api.OwnTenant) string { return t.Id }, columns: []column[api.OwnTenant]{
	{title: "id", value: func(t api.OwnTenant) string { return t.Id }},
	{title: "name", value: func(t api.OwnTenant) string { return t.Name }},
	{title: "role", value: func(t api.OwnTenant) string { return string(t.Role) }},
	{title: "status", value: func(t api.OwnTenant) string { return string(t.Status) }},
	{title: "current", value: func(t api.OwnTenant) string { return yesNo(t.Current) }},
}}

var tenantView = view[api.Tenant]{name: func(t api.Tenant) string { return t.Id }, columns: []column[api.Tenant]{
	{title: "id", value: func(t api.Tenant) string { return t.Id }},
	{title: "name", value: func(t api.Tenant) string { return t.Name }},
	{title: "status", value: func(t api.Tenant) string { return string(t.Status) }},
	{title: "plan_id", value: func(t api.Tenant) string { return t.PlanId }},
	{title: "labels", value: func(t api.Tenant) string { return labels(t.Labels) }},
	{title: "created_at", value: func(t api.Tenant) string { return t.CreatedAt.String() }},
}}

// foundedView is for the one answer that holds the secret of the first key.
var foundedView = view[api.Founded]{name: func(f api.Founded) string { return f.TenantId }, columns: []column[api.Founded]{
	{title: "tenant_id", value: func(f api.Founded) string { return f.TenantId }},
	{title: "namespace_id", value: func(f api.Founded) string { return f.NamespaceId }},
	{title: "topic", value: func(f api.Founded) string { return f.Topic }},
	{title: "group", value: func(f api.Founded) string { return f.Group }},
	{title: "api_key_id", value: func(f api.Founded) string { return f.ApiKey.Id }},
	{title: "api_key_secret", value: func(f api.Founded) string { return f.ApiKey.Secret }},
}}

func (a *app) tenantCommand() *cobra.Command {
	return a.parent("tenant", "Your tenants, and what the current one demands",
		listing(a, "list", "List the tenants that you belong to", "tenants", ownTenantView, ownTenants),
		a.ownTenant("Show the tenant of the credential", func(t api.Tenant) error { return showOne(a, tenantView, t) }), a.tenantUpdate(), a.tenantCreate(), a.tenantSwitch(),
		a.parent("security", "What the tenant demands of its people and keys", a.ownTenant("Show what the tenant demands", a.showSecurity), a.securitySet()))
}

func ownTenants(ctx context.Context, c *apiclient.SDK, token *string) ([]api.OwnTenant, *string, error) {
	page, err := apiclient.OK(c.ListTenantsWithResponse(ctx, &api.ListTenantsParams{PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

// ownTenant makes a command that reads the tenant of the credential.
func (a *app) ownTenant(short string, show func(api.Tenant) error) *cobra.Command {
	return a.command("get", short, cobra.NoArgs, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		t, err := apiclient.OK(c.GetTenantWithResponse(ctx))
		if err != nil {
			return doing("read the tenant", err)
		}
		return show(t)
	})
}

func (a *app) tenantUpdate() *cobra.Command {
	var name string
	var pairs map[string]string
	c := a.command("update", "Change the tenant of the credential", cobra.NoArgs, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		body := api.TenantUpdate{Name: given(cmd.Flags(), "name", name), Labels: given(cmd.Flags(), "label", api.Labels(pairs))}
		if body == (api.TenantUpdate{}) {
			return nothingToChange(cmd)
		}
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		t, err := apiclient.OK(c.UpdateTenantWithResponse(ctx, &api.UpdateTenantParams{DryRun: a.dry()}, body))
		return changed(a, tenantView, "change the tenant", t, err, "")
	})
	c.Flags().StringVar(&name, "name", "", "another name")
	pairsVar(c.Flags(), &pairs, "label", "label as key=value; may be repeated; replaces all, '' takes them away")
	return a.writes(c)
}

func (a *app) tenantCreate() *cobra.Command {
	c := a.command("create NAME", "Make a further tenant that you own, with what a sign-up makes", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		founded, err := apiclient.Created(c.CreateTenantWithResponse(ctx, &api.CreateTenantParams{DryRun: a.dry()}, api.TenantCreate{Name: args[0]}))
		if err != nil {
			return doing("make tenant "+args[0], err)
		}
		if a.dryRun { // what the answer names is not kept
			defer a.noted()
			if form := a.form(); form == outputJSON || form == outputYAML {
				return a.encode(struct {
					Name   string `json:"name"`
					DryRun bool   `json:"dry_run"`
				}{args[0], true})
			}
			return nil
		}
		if err := showOne(a, foundedView, founded); err != nil {
			return err
		}
		a.hint("The secret is shown this once. Next: sluice tenant switch %s", founded.TenantId)
		return nil
	})
	c.Example = `  sluice tenant create "Acme Labs"
  sluice tenant switch "Acme Labs"`
	return a.writes(c)
}

// tenantSwitch goes on with the context in another tenant: the server ends the
// session before and begins one there.
func (a *app) tenantSwitch() *cobra.Command {
	c := a.command("switch TENANT", "Go on in another of your tenants, by id or name; the context then is for that one", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		p := *a.profile
		if p.secret.RefreshToken == "" {
			return usage("only somebody who signed in has several tenants; this is the credential of one", "Sign in with your mail address: sluice login --name NAME, or use an API key of the other tenant.")
		}
		items, err := every(ctx, a, "tenants", ownTenants)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(items, func(t api.OwnTenant) bool { return t.Id == args[0] || t.Name == args[0] })
		if i < 0 {
			return noneNamed("tenant", args[0], "sluice tenant list")
		}
		t := items[i]
		if !t.Current {
			if err := a.goOn(ctx, c, &p, t.Id); err != nil {
				return err
			}
		}
		t.Current = true
		return showOne(a, ownTenantView, t)
	})
	c.Example = `  sluice tenant list
  sluice tenant switch ten_01JAB3CD4EF5GH6JK7MN8PQ9RS`
	return c
}

func (a *app) goOn(ctx context.Context, c *apiclient.SDK, p *profile, id string) error {
	resp, err := c.SwitchTenantWithResponse(ctx, nil, api.SwitchTenant{TenantId: id})
	session, err := apiclient.OK(resp, err)
	if err != nil {
		return doing("switch the tenant", err)
	}
	p.secret = a.secretOf(session, resp.HTTPResponse)
	p.Namespace = "" // that of the tenant before
	if err := a.keep(p.name, *p); err != nil {
		return err
	}
	_, namespace, err := a.greet(ctx, *p)
	if err != nil || namespace == "" {
		return err
	}
	p.Namespace = namespace
	return a.keep(p.name, *p)
}

// showSecurity keeps to the schema of the contract in JSON and YAML.
func (a *app) showSecurity(t api.Tenant) error {
	if form := a.form(); form == outputJSON || form == outputYAML {
		return a.encode(t.Security)
	}
	return showOne(a, securityView, t)
}

// secure changes what the tenant demands.
func (a *app) secure(ctx context.Context, body api.TenantSecurityUpdate) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	t, err := apiclient.OK(c.UpdateTenantWithResponse(ctx, &api.UpdateTenantParams{DryRun: a.dry()}, api.TenantUpdate{Security: &body}))
	if err != nil {
		return doing("change what the tenant demands", err)
	}
	a.noted()
	return a.showSecurity(t)
}

var securityFlags = []string{"mfa-required", "sso-required", "max-key-age"}

func (a *app) securitySet() *cobra.Command {
	var mfa, sso bool
	var age string
	c := a.command("set", "Change what the tenant demands; what is not named stays as it is", cobra.NoArgs, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		f := cmd.Flags()
		if !slices.ContainsFunc(securityFlags, f.Changed) {
			return nothingToChange(cmd)
		}
		body := api.TenantSecurityUpdate{MfaRequired: given(f, "mfa-required", mfa), SsoRequired: given(f, "sso-required", sso)}
		if mfa {
			if err := a.confirm("Demand a second factor? Who has none, you too, can do nothing here until they add one at the console. Go on?"); err != nil {
				return err
			}
		}
		if sso {
			if err := a.confirm("Demand single sign-on? Sessions that began with a password end, but those of owners."); err != nil {
				return err
			}
		}
		switch {
		case f.Changed("max-key-age") && age == never:
			body.MaxKeyAge = nullable.NewNullNullable[string]()
		case f.Changed("max-key-age"):
			body.MaxKeyAge = nullable.NewNullableWithValue(age)
			if err := a.confirm("API keys older than " + age + " end at once. Go on?"); err != nil {
				return err
			}
		}
		return a.secure(ctx, body)
	})
	c.Example = `  sluice tenant security set --mfa-required --max-key-age 2160h --yes`
	c.Flags().BoolVar(&mfa, "mfa-required", false, "people sign in with a second factor; --mfa-required=false takes it back")
	c.Flags().BoolVar(&sso, "sso-required", false, "people sign in through the identity provider of the tenant only")
	c.Flags().StringVar(&age, "max-key-age", "", "API keys end this long after they were made, 1h to 87600h; never: no limit")
	return a.asks(a.writes(c))
}
