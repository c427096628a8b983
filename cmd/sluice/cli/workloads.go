package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var workloadView = view[api.WorkloadIdentity]{name: func(w api.WorkloadIdentity) string { return w.Id }, columns: []column[api.WorkloadIdentity]{
	{title: "id", value: func(w api.WorkloadIdentity) string { return w.Id }},
	{title: "name", value: func(w api.WorkloadIdentity) string { return w.Name }},
	{title: "enabled", value: func(w api.WorkloadIdentity) string { return yesNo(w.Enabled) }},
	{title: "issuer", value: func(w api.WorkloadIdentity) string { return w.Issuer }},
	{title: "subject", value: func(w api.WorkloadIdentity) string { return w.Subject }},
	{title: "service_account_id", value: func(w api.WorkloadIdentity) string { return w.ServiceAccountId }},
	{title: "control_role", value: func(w api.WorkloadIdentity) string { return deref(w.ControlRole) }},
	{title: "scopes", value: func(w api.WorkloadIdentity) string { return scopesText(w.Scopes) }},
	{title: "scopes_detail", detail: true, value: func(w api.WorkloadIdentity) string { return scopesDetail(w.Scopes) }},
	{title: "audience", detail: true, value: func(w api.WorkloadIdentity) string { return w.Audience }},
	{title: "conditions", detail: true, value: func(w api.WorkloadIdentity) string { return labels(api.Labels(w.Conditions)) }},
	{title: "max_ttl", detail: true, value: func(w api.WorkloadIdentity) string { return w.MaxTtl }},
	{title: "key_id", detail: true, value: func(w api.WorkloadIdentity) string { return w.KeyId }},
	{title: "created_at", detail: true, value: func(w api.WorkloadIdentity) string { return w.CreatedAt.String() }},
}}

type workloadFlags struct {
	name, issuer, audience, subject, account, role, ttl string
	conditions                                          map[string]string
	scope                                               scopeFlags
	enabled, noScope                                    bool
}

func (w *workloadFlags) add(f *pflag.FlagSet) {
	f.StringVar(&w.issuer, "issuer", "", "https URL of the issuer of its tokens, exactly as the tokens write it")
	f.StringVar(&w.audience, "audience", "", "the aud that its tokens are made for; one that no other service uses")
	f.StringVar(&w.subject, "subject", "", "the sub of its tokens, or how it begins, such as repo:acme/checkout:*")
	pairsVar(f, &w.conditions, "condition", "claim=value that its tokens must have besides; may be repeated; an update replaces all, '' takes them away")
	f.StringVar(&w.ttl, "max-ttl", "15m", "how long our tokens live, 1m to 15m")
	f.BoolVar(&w.enabled, "enabled", true, "false: no token is exchanged, and those that are out end")
	w.scope.add(f)
}

func (w *workloadFlags) claims(f *pflag.FlagSet) *api.ClaimConditions {
	return (*api.ClaimConditions)(given(f, "condition", w.conditions))
}

func (a *app) workloadCommand() *cobra.Command {
	list := listing(a, "list", "List workload identities", "workload identities", workloadView,
		func(ctx context.Context, c *apiclient.SDK, token *string) ([]api.WorkloadIdentity, *string, error) {
			page, err := apiclient.OK(c.ListWorkloadIdentitiesWithResponse(ctx, &api.ListWorkloadIdentitiesParams{PageToken: token, PageSize: fullPage()}))
			return page.Items, page.NextPageToken, err
		})
	get := showing(a, "get IDENTITY", "Show a workload identity, by id or name", "workload identity", workloadView,
		func(ctx context.Context, _ *apiclient.SDK, name string) (api.WorkloadIdentity, error) {
			return a.workload(ctx, name)
		})
	remove := a.removing(a.writes, "delete IDENTITY", "Delete a workload identity, by id or name", "workload identity", "Its tokens, and connections that use them, end at once.",
		func(ctx context.Context, c *apiclient.SDK, name string) error {
			w, err := a.workload(ctx, name)
			if err != nil {
				return err
			}
			return apiclient.Done(c.DeleteWorkloadIdentityWithResponse(ctx, w.Id, &api.DeleteWorkloadIdentityParams{DryRun: a.dry()}))
		})
	return a.parent("workload-identity", "Workload identities: programs that another issuer vouches for, without a secret",
		list, get, a.workloadCreate(), a.workloadUpdate(), a.workloadExchange(), remove)
}

// workload finds a workload identity by id or name.
func (a *app) workload(ctx context.Context, which string) (api.WorkloadIdentity, error) {
	c, err := a.client(ctx)
	if err != nil {
		return api.WorkloadIdentity{}, err
	}
	return found(which, "wid_", "workload identity", "sluice workload-identity list",
		func(id string) (api.WorkloadIdentity, error) {
			return apiclient.OK(c.GetWorkloadIdentityWithResponse(ctx, id))
		},
		func(name string) ([]api.WorkloadIdentity, error) {
			page, err := apiclient.OK(c.ListWorkloadIdentitiesWithResponse(ctx, &api.ListWorkloadIdentitiesParams{Name: &name}))
			return page.Items, err
		})
}

func (a *app) workloadCreate() *cobra.Command {
	var w workloadFlags
	var lenient bool
	c := a.command("create NAME", "Let programs that another issuer vouches for act for a service account", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		account, err := a.account(ctx, w.account)
		if err != nil {
			return doing("find service account "+w.account, err)
		}
		body := api.WorkloadIdentityCreate{Name: args[0], Issuer: w.issuer, Audience: w.audience, Subject: w.subject, Conditions: w.claims(f), ServiceAccountId: account.Id,
			ControlRole: given(f, "control-role", api.ControlRole(w.role)), MaxTtl: given(f, "max-ttl", w.ttl), Enabled: &w.enabled}
		if !w.noScope {
			if body.Scopes, err = a.scopes(ctx, &w.scope, f, nil); err != nil {
				return err
			}
		}
		v, err := written(a.sdk.CreateWorkloadIdentityWithResponse(ctx, &api.CreateWorkloadIdentityParams{DryRun: a.dry()}, body))
		if lenient && apiclient.Is(err, "already_exists") {
			v, err = a.workload(ctx, args[0])
		}
		audience := ""
		if v.ControlRole == nil {
			audience = " --for data"
		}
		return changed(a, workloadView, "create workload identity "+args[0], v, err, "Next, where the program runs: sluice workload-identity exchange "+v.Id+" --token-file FILE"+audience)
	})
	c.Example = `  sluice workload-identity create deploy --service-account ci --issuer https://token.actions.githubusercontent.com \
    --audience https://sluice.example.com --subject 'repo:acme/checkout:*' --condition ref=refs/heads/main --no-scope --control-role developer`
	w.add(c.Flags())
	c.Flags().StringVar(&w.account, "service-account", "", "service account that they act for, by id or name")
	c.Flags().StringVar(&w.role, "control-role", "", "let them use the HTTP API as admin, developer, viewer or billing")
	c.Flags().BoolVar(&w.noScope, "no-scope", false, "no permissions on messages, only the control role")
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "show the one that exists instead of failing")
	for _, flag := range []string{"service-account", "issuer", "audience", "subject"} {
		_ = c.MarkFlagRequired(flag)
	}
	return a.writes(c)
}

func (a *app) workloadUpdate() *cobra.Command {
	var w workloadFlags
	c := a.command("update IDENTITY", "Change a workload identity, by id or name; service account and control role stay", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		body := api.WorkloadIdentityUpdate{Name: given(f, "name", w.name), Issuer: given(f, "issuer", w.issuer), Audience: given(f, "audience", w.audience),
			Subject: given(f, "subject", w.subject), Conditions: w.claims(f), MaxTtl: given(f, "max-ttl", w.ttl), Enabled: given(f, "enabled", w.enabled)}
		if body == (api.WorkloadIdentityUpdate{}) && !w.scope.given(f) {
			return nothingToChange(cmd)
		}
		now, err := a.workload(ctx, args[0])
		if err != nil {
			return doing("find workload identity "+args[0], err)
		}
		params := api.UpdateWorkloadIdentityParams{DryRun: a.dry()}
		if w.scope.given(f) {
			params.IfMatch = ifMatch(now.Revision)
			if body.Scopes, err = a.scopes(ctx, &w.scope, f, now.Scopes); err != nil {
				return err
			}
		}
		v, err := apiclient.OK(a.sdk.UpdateWorkloadIdentityWithResponse(ctx, now.Id, &params, body))
		return changed(a, workloadView, "change workload identity "+args[0], v, err, "")
	})
	c.Example = `  sluice workload-identity update deploy --enabled=false`
	w.add(c.Flags())
	c.Flags().StringVar(&w.name, "name", "", "another name")
	return a.writes(c)
}

var tokenView = view[api.AccessToken]{name: func(t api.AccessToken) string { return t.AccessToken }, columns: []column[api.AccessToken]{
	{title: "access_token", value: func(t api.AccessToken) string { return t.AccessToken }},
	{title: "audience", value: func(t api.AccessToken) string { return string(t.Audience) }},
	{title: "expires_in", value: func(t api.AccessToken) string { return number(t.ExpiresIn) + "s" }},
}}

// workloadExchange needs no credential but the token of the other issuer.
func (a *app) workloadExchange() *cobra.Command {
	var file, audience string
	c := a.command("exchange IDENTITY_ID", "Exchange a token of the issuer for a short one of ours; no sign-in is needed", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		if !strings.HasPrefix(args[0], "wid_") {
			return usage(args[0]+" is no id of a workload identity", "Give the id, which begins with wid_: sluice workload-identity list shows it. Names are known to who is signed in only.")
		}
		p, err := a.resolve()
		if err != nil {
			return err
		}
		if p.Endpoint == "" {
			p.Endpoint = defaultEndpoint
		}
		token, err := a.readSecret("--token-file", file, 1<<16)
		if err != nil {
			return err
		}
		c, err := a.connect(profile{Endpoint: p.Endpoint})
		if err != nil {
			return err
		}
		resp, err := c.CreateTokenWithFormdataBodyWithResponse(ctx, nil, api.TokenRequest{GrantType: api.GrantTokenExchange, ClientId: &args[0],
			SubjectToken: ptr(strings.TrimSpace(token)), SubjectTokenType: ptr(api.SubjectJwt), Audience: ptr(api.TokenAudience(audience))})
		if err == nil {
			for _, refused := range []*api.OAuthError{resp.JSON400, resp.JSON401} {
				if refused != nil {
					return &Error{Exit: exitRefused, What: "could not exchange the token", Why: deref(refused.ErrorDescription), Code: string(refused.Error),
						Fix: "Compare issuer, audience, subject and claims of the token with: sluice workload-identity get " + args[0]}
				}
			}
		}
		answer, err := apiclient.OK(resp, err)
		if err != nil {
			return doing("exchange the token", err)
		}
		return showOne(a, tokenView, answer)
	})
	c.Example = `  export SLUICE_TOKEN=$(sluice workload-identity exchange wid_01JAB3CD4EF5GH6JK7MN8PQ9RS --token-file /var/run/secrets/tokens/sluice -o name)
  sluice topic list`
	c.Flags().StringVar(&file, "token-file", "", "file that holds the token, or - for standard input")
	c.Flags().StringVar(&audience, "for", "control", "what the token is for: control (this API) or data (send and receive)")
	_ = c.MarkFlagRequired("token-file")
	return c
}
