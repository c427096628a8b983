package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var invitationView = view[api.Invitation]{name: func(i api.Invitation) string { return i.Id }, columns: []column[api.Invitation]{
	{title: "id", value: func(i api.Invitation) string { return i.Id }},
	{title: "email", value: func(i api.Invitation) string { return i.Email }},
	{title: "role", value: func(i api.Invitation) string { return string(i.Role) }},
	{title: "state", value: func(i api.Invitation) string { return string(i.State) }},
	{title: "expires_at", value: func(i api.Invitation) string { return i.ExpiresAt.String() }},
	{title: "sent_at", detail: true, value: func(i api.Invitation) string { return i.SentAt.String() }},
	{title: "invited_by", detail: true, value: func(i api.Invitation) string { return i.InvitedBy }},
	{title: "accepted_by", detail: true, value: func(i api.Invitation) string { return deref(i.AcceptedBy) }},
}}

func (a *app) invitationCommand() *cobra.Command {
	return a.parent("invitation", "Invitations of people to the tenant, by mail", a.invitationList(), a.invitationGet(), a.invitationCreate(), a.invitationResend(), a.invitationDelete())
}

func invitations(state *api.InvitationState) func(context.Context, *apiclient.SDK, *string) ([]api.Invitation, *string, error) {
	return func(ctx context.Context, c *apiclient.SDK, token *string) ([]api.Invitation, *string, error) {
		page, err := apiclient.OK(c.ListInvitationsWithResponse(ctx, &api.ListInvitationsParams{State: state, PageToken: token, PageSize: fullPage()}))
		return page.Items, page.NextPageToken, err
	}
}

// findInvitation finds an invitation by id, or a pending one by mail address.
func (a *app) findInvitation(ctx context.Context, which string) (string, error) {
	if !strings.Contains(which, "@") {
		_, err := a.client(ctx)
		return which, err
	}
	items, err := every(ctx, a, "invitations", invitations(ptr(api.InvitationPending)))
	if err != nil {
		return "", err
	}
	for _, i := range items {
		if strings.EqualFold(i.Email, which) {
			return i.Id, nil
		}
	}
	return "", &Error{Exit: exitNotFound, What: "there is no invitation of " + which, Why: "none is pending for that address", Fix: "See: sluice invitation list"}
}

func (a *app) invitationList() *cobra.Command {
	var state string
	var c *cobra.Command
	c = listing(a, "list", "List invitations", "invitations", invitationView, func(ctx context.Context, sdk *apiclient.SDK, token *string) ([]api.Invitation, *string, error) {
		return invitations(given(c.Flags(), "state", api.InvitationState(state)))(ctx, sdk, token)
	})
	c.Flags().StringVar(&state, "state", "", "only those in this state: pending, accepted or expired")
	return c
}

func (a *app) invitationGet() *cobra.Command {
	return showing(a, "get INVITATION", "Show an invitation, by id or mail address", "invitation", invitationView, func(ctx context.Context, c *apiclient.SDK, which string) (api.Invitation, error) {
		id, err := a.findInvitation(ctx, which)
		if err != nil {
			return api.Invitation{}, err
		}
		return apiclient.OK(c.GetInvitationWithResponse(ctx, id))
	})
}

func (a *app) invitationCreate() *cobra.Command {
	var role, locale string
	var lenient bool
	c := a.command("create EMAIL", "Invite a person by mail; the link works for 7 days", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		i, err := written(c.CreateInvitationWithResponse(ctx, &api.CreateInvitationParams{DryRun: a.dry()},
			api.InvitationCreate{Email: args[0], Role: api.Role(role), Locale: given(cmd.Flags(), "language", api.Locale(locale))}))
		if lenient && apiclient.Is(err, "already_exists") {
			var id string
			if id, err = a.findInvitation(ctx, args[0]); err == nil {
				i, err = apiclient.OK(c.GetInvitationWithResponse(ctx, id))
			}
		}
		if apiclient.Is(err, "already_exists") {
			return &Error{What: "could not invite " + args[0], Fix: "Send it again with: sluice invitation resend " + args[0] + ", or say --if-not-exists.", cause: err}
		}
		return changed(a, invitationView, "invite "+args[0], i, err, "")
	})
	c.Example = `  sluice invitation create ada@example.com --role developer --language zh`
	c.Flags().StringVar(&role, "role", "viewer", "role in the whole tenant: owner, admin, developer, viewer, billing or none")
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "show the invitation that is pending instead of failing")
	c.Flags().StringVar(&locale, "language", "en", "language of the mail: en or zh")
	return a.writes(c)
}

func (a *app) invitationResend() *cobra.Command {
	return a.command("resend INVITATION", "Send an invitation again; the link before works no more", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		id, err := a.findInvitation(ctx, args[0])
		if err != nil {
			return err
		}
		i, err := apiclient.OK(a.sdk.ResendInvitationWithResponse(ctx, id, nil))
		return changed(a, invitationView, "send invitation "+args[0]+" again", i, err, "")
	})
}

func (a *app) invitationDelete() *cobra.Command {
	return a.removing(a.writes, "delete INVITATION", "Withdraw an invitation, by id or mail address", "invitation", "Its link works no more.",
		func(ctx context.Context, c *apiclient.SDK, which string) error {
			id, err := a.findInvitation(ctx, which)
			if err != nil {
				return err
			}
			return apiclient.Done(c.DeleteInvitationWithResponse(ctx, id, &api.DeleteInvitationParams{DryRun: a.dry()}))
		})
}
