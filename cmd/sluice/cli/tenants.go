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

func (a *app) tenantCommand() *cobra.Command {
	return a.parent("tenant", "The tenant of the credential", a.parent("security", "What the tenant demands of its people and keys", a.securityGet(), a.securitySet()))
}

// showSecurity keeps to the schema of the contract in JSON and YAML.
func (a *app) showSecurity(t api.Tenant) error {
	if form := a.form(); form == outputJSON || form == outputYAML {
		return a.encode(t.Security)
	}
	return showOne(a, securityView, t)
}

func (a *app) securityGet() *cobra.Command {
	return a.command("get", "Show what the tenant demands", cobra.NoArgs, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		t, err := apiclient.OK(c.GetTenantWithResponse(ctx))
		if err != nil {
			return doing("read the tenant", err)
		}
		return a.showSecurity(t)
	})
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
		switch {
		case f.Changed("max-key-age") && age == "never":
			body.MaxKeyAge = nullable.NewNullNullable[string]()
		case f.Changed("max-key-age"):
			body.MaxKeyAge = nullable.NewNullableWithValue(age)
			if err := a.confirm("API keys older than " + age + " end at once. Go on?"); err != nil {
				return err
			}
		}
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
	})
	c.Flags().BoolVar(&mfa, "mfa-required", false, "people sign in with a second factor; --mfa-required=false takes it back")
	c.Flags().BoolVar(&sso, "sso-required", false, "people sign in through the identity provider of the tenant only")
	c.Flags().StringVar(&age, "max-key-age", "", "API keys end this long after they were made, 1h to 87600h; never: no limit")
	return a.asks(a.writes(c))
}
