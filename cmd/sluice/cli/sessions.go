package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var sessionView = view[api.LiveSession]{name: func(s api.LiveSession) string { return s.Id }, columns: []column[api.LiveSession]{
	{title: "id", value: func(s api.LiveSession) string { return s.Id }},
	{title: "current", value: func(s api.LiveSession) string { return yesNo(s.Current) }},
	{title: "address", value: func(s api.LiveSession) string { return s.Address }},
	{title: "last_used_at", value: func(s api.LiveSession) string { return s.LastUsedAt.String() }},
	{title: "expires_at", value: func(s api.LiveSession) string { return s.ExpiresAt.String() }},
	{title: "tenant_id", value: func(s api.LiveSession) string { return s.TenantId }},
	{title: "user_agent", value: func(s api.LiveSession) string { return printable(s.UserAgent) }},
}}

func (a *app) sessionCommand() *cobra.Command {
	return a.parent("session", "Your sign-ins on all devices, in all of your tenants",
		listing(a, "list", "List your sessions, newest first", "sessions", sessionView,
			func(ctx context.Context, c *apiclient.SDK, token *string) ([]api.LiveSession, *string, error) {
				page, err := apiclient.OK(c.ListSessionsWithResponse(ctx, &api.ListSessionsParams{PageToken: token, PageSize: fullPage()}))
				return page.Items, page.NextPageToken, err
			}),
		a.sessionEnd())
}

func (a *app) sessionEnd() *cobra.Command {
	var others, lenient bool
	c := a.command("end [SESSION_ID]", "End a session, or with --others all but this one", cobra.MaximumNArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if others == (len(args) == 1) {
			return usage("which session?", "Name one, or say --others. sluice session list shows them.")
		}
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		if others {
			if err := a.confirm("End all your sessions but this one?"); err != nil {
				return err
			}
			ended, err := apiclient.OK(c.EndOtherSessionsWithResponse(ctx, &api.EndOtherSessionsParams{DryRun: a.dry()}))
			return changed(a, endedView, "end the other sessions", ended, err, "")
		}
		if err := a.confirm("End session " + args[0] + "? What it signed in is signed out at once."); err != nil {
			return err
		}
		err = apiclient.Done(c.EndSessionWithResponse(ctx, args[0], &api.EndSessionParams{DryRun: a.dry()}))
		return a.deleted("session "+args[0], args[0], err, lenient)
	})
	c.Example = `  sluice session end ses_01JAB3CD4EF5GH6JK7MN8PQ9RS
  sluice session end --others --yes`
	c.Flags().BoolVar(&others, "others", false, "end all sessions but this one")
	c.Flags().BoolVar(&lenient, "if-exists", false, "do not fail when it is over already")
	return a.asks(a.writes(c))
}

var endedView = view[api.SessionsEnded]{name: func(e api.SessionsEnded) string { return number(e.Ended) }, columns: []column[api.SessionsEnded]{
	{title: "ended", value: func(e api.SessionsEnded) string { return number(e.Ended) }},
}}
