package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var memberView = view[api.Member]{name: func(m api.Member) string { return m.Id }, columns: []column[api.Member]{
	{title: "id", value: func(m api.Member) string { return m.Id }},
	{title: "email", value: func(m api.Member) string { return m.Email }},
	{title: "name", value: func(m api.Member) string { return m.Name }},
	{title: "role", value: func(m api.Member) string { return string(m.Role) }},
	{title: "last_sign_in_at", value: func(m api.Member) string { return moment(m.LastSignInAt) }},
	{title: "created_at", detail: true, value: func(m api.Member) string { return m.CreatedAt.String() }},
}}

func (a *app) memberCommand() *cobra.Command {
	return a.parent("member", "Members: the people of the tenant", a.memberList(), a.memberGet(), a.memberRole(), a.memberRemove(), a.memberLeave())
}

func (a *app) members(ctx context.Context) ([]api.Member, error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	items, err := collect(apiclient.All(func(token *string) ([]api.Member, *string, error) {
		page, err := apiclient.OK(c.ListMembersWithResponse(ctx, &api.ListMembersParams{PageToken: token, PageSize: fullPage()}))
		return page.Items, page.NextPageToken, err
	}))
	if err != nil {
		return nil, doing("list members", err)
	}
	return items, nil
}

// findMember finds a member by id or mail address.
func (a *app) findMember(ctx context.Context, who string) (string, error) {
	if !strings.Contains(who, "@") {
		_, err := a.client(ctx)
		return who, err
	}
	items, err := a.members(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range items {
		if strings.EqualFold(m.Email, who) {
			return m.Id, nil
		}
	}
	return "", &Error{Exit: exitNotFound, What: "there is no member " + who, Why: "nobody in this tenant has that address", Fix: "See: sluice member list"}
}

func (a *app) memberList() *cobra.Command {
	return a.command("list", "List the people of the tenant", cobra.NoArgs, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		items, err := a.members(ctx)
		if err != nil {
			return err
		}
		return showList(a, memberView, items)
	})
}

func (a *app) memberGet() *cobra.Command {
	return a.command("get MEMBER", "Show a member, by id or mail address", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		id, err := a.findMember(ctx, args[0])
		if err != nil {
			return err
		}
		m, err := apiclient.OK(a.sdk.GetMemberWithResponse(ctx, id))
		if err != nil {
			return doing("read member "+args[0], err)
		}
		return showOne(a, memberView, m)
	})
}

func (a *app) memberRole() *cobra.Command {
	return a.writes(a.command("set-role MEMBER ROLE", "Give a member another role: owner, admin, developer, viewer, billing or none", cobra.ExactArgs(2), func(ctx context.Context, _ *cobra.Command, args []string) error {
		id, err := a.findMember(ctx, args[0])
		if err != nil {
			return err
		}
		m, err := apiclient.OK(a.sdk.UpdateMemberWithResponse(ctx, id, &api.UpdateMemberParams{DryRun: a.dry()}, api.MemberUpdate{Role: api.Role(args[1])}))
		if err != nil {
			return doing("change the role of "+args[0], err)
		}
		a.noted()
		return showOne(a, memberView, m)
	}))
}

func (a *app) memberRemove() *cobra.Command {
	return a.asks(a.writes(a.command("remove MEMBER", "Remove a member: their sessions end and their API keys are revoked at once", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		id, err := a.findMember(ctx, args[0])
		if err != nil {
			return err
		}
		if err := a.confirm("Remove " + args[0] + " from the tenant? Their API keys in it stop at once."); err != nil {
			return err
		}
		if err := apiclient.Done(a.sdk.RemoveMemberWithResponse(ctx, id, &api.RemoveMemberParams{DryRun: a.dry()})); err != nil {
			return doing("remove member "+args[0], err)
		}
		a.noted()
		return nil
	})))
}

func (a *app) memberLeave() *cobra.Command {
	return a.asks(a.writes(a.command("leave", "Leave the tenant: your sessions in it end and your API keys are revoked at once", cobra.NoArgs, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		if err := a.confirm("Leave this tenant? Your API keys in it stop at once."); err != nil {
			return err
		}
		if err := apiclient.Done(c.LeaveTenantWithResponse(ctx, &api.LeaveTenantParams{DryRun: a.dry()})); err != nil {
			return doing("leave the tenant", err)
		}
		a.noted()
		return nil
	})))
}
