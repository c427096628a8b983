package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var accountView = view[api.ServiceAccount]{name: func(s api.ServiceAccount) string { return s.Id }, columns: []column[api.ServiceAccount]{
	{title: "id", value: func(s api.ServiceAccount) string { return s.Id }},
	{title: "name", value: func(s api.ServiceAccount) string { return s.Name }},
	{title: "disabled", value: func(s api.ServiceAccount) string { return yesNo(s.Disabled) }},
	{title: "bound", value: func(s api.ServiceAccount) string { return yesNo(s.Bound) }},
	{title: "labels", value: func(s api.ServiceAccount) string { return labels(s.Labels) }},
	{title: "description", detail: true, value: func(s api.ServiceAccount) string { return s.Description }},
	{title: "created_at", detail: true, value: func(s api.ServiceAccount) string { return s.CreatedAt.String() }},
}}

type accountFlags struct {
	name, describe string
	disabled       bool
	labels         map[string]string
}

func (s *accountFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.describe, "description", "", "free text in one line")
	f.BoolVar(&s.disabled, "disabled", false, "refuse its keys until it is enabled again")
	pairsVar(f, &s.labels, "label", "label as key=value; may be repeated; an update replaces all, '' takes them away")
}

func (a *app) serviceAccountCommand() *cobra.Command {
	list := listing(a, "list", "List service accounts", "service accounts", accountView,
		func(ctx context.Context, c *apiclient.SDK, token *string) ([]api.ServiceAccount, *string, error) {
			page, err := apiclient.OK(c.ListServiceAccountsWithResponse(ctx, &api.ListServiceAccountsParams{PageToken: token, PageSize: fullPage()}))
			return page.Items, page.NextPageToken, err
		})
	get := showing(a, "get ACCOUNT", "Show a service account, by id or name", "service account", accountView,
		func(ctx context.Context, c *apiclient.SDK, name string) (api.ServiceAccount, error) {
			return a.account(ctx, name)
		})
	remove := a.removing(a.writes, "delete ACCOUNT", "Delete a service account, by id or name, with its keys and workload identities", "service account",
		"Its API keys and workload identities stop at once.", func(ctx context.Context, c *apiclient.SDK, name string) error {
			s, err := a.account(ctx, name)
			if err != nil {
				return err
			}
			return apiclient.Done(c.DeleteServiceAccountWithResponse(ctx, s.Id, &api.DeleteServiceAccountParams{DryRun: a.dry()}))
		})
	return a.parent("service-account", "Service accounts: machines that own API keys", list, get, a.accountCreate(), a.accountUpdate(), remove)
}

// account finds a service account by id or name.
func (a *app) account(ctx context.Context, which string) (api.ServiceAccount, error) {
	c, err := a.client(ctx)
	if err != nil {
		return api.ServiceAccount{}, err
	}
	return found(which, "sa_", "service account", "sluice service-account list",
		func(id string) (api.ServiceAccount, error) {
			return apiclient.OK(c.GetServiceAccountWithResponse(ctx, id))
		},
		func(name string) ([]api.ServiceAccount, error) {
			page, err := apiclient.OK(c.ListServiceAccountsWithResponse(ctx, &api.ListServiceAccountsParams{Name: &name}))
			return page.Items, err
		})
}

func (a *app) accountCreate() *cobra.Command {
	var s accountFlags
	var lenient bool
	c := a.command("create NAME", "Create a service account", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		v, err := written(c.CreateServiceAccountWithResponse(ctx, &api.CreateServiceAccountParams{DryRun: a.dry()}, api.ServiceAccountCreate{Name: args[0],
			Description: given(f, "description", s.describe), Disabled: given(f, "disabled", s.disabled), Labels: given(f, "label", api.Labels(s.labels))}))
		if lenient && apiclient.Is(err, "already_exists") {
			v, err = a.account(ctx, args[0])
		}
		return changed(a, accountView, "create service account "+args[0], v, err, "Next: sluice role bind "+v.Id+" ROLE, sluice key create NAME --owner "+v.Id)
	})
	c.Example = `  sluice service-account create ci --label team=checkout
  sluice role bind ci developer --namespace shop
  sluice key create ci --owner ci --no-scope --control-role developer`
	s.add(c.Flags())
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "show the one that exists instead of failing")
	return a.writes(c)
}

func (a *app) accountUpdate() *cobra.Command {
	var s accountFlags
	c := a.command("update ACCOUNT", "Change a service account, by id or name", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		body := api.ServiceAccountUpdate{Name: given(f, "name", s.name), Description: given(f, "description", s.describe), Disabled: given(f, "disabled", s.disabled),
			Labels: given(f, "label", api.Labels(s.labels))}
		if body == (api.ServiceAccountUpdate{}) {
			return nothingToChange(cmd)
		}
		now, err := a.account(ctx, args[0])
		if err != nil {
			return doing("find service account "+args[0], err)
		}
		v, err := apiclient.OK(a.sdk.UpdateServiceAccountWithResponse(ctx, now.Id, &api.UpdateServiceAccountParams{DryRun: a.dry()}, body))
		return changed(a, accountView, "change service account "+args[0], v, err, "")
	})
	c.Example = `  sluice service-account update ci --disabled`
	s.add(c.Flags())
	c.Flags().StringVar(&s.name, "name", "", "another name")
	return a.writes(c)
}
