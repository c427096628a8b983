package cli

import (
	"context"
	"regexp"
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

func listMembers(ctx context.Context, c *apiclient.SDK, token *string) ([]api.Member, *string, error) {
	page, err := apiclient.OK(c.ListMembersWithResponse(ctx, &api.ListMembersParams{PageToken: token, PageSize: fullPage()}))
	return page.Items, page.NextPageToken, err
}

// findMember finds a member by id or mail address.
func (a *app) findMember(ctx context.Context, who string) (string, error) {
	if !strings.Contains(who, "@") {
		_, err := a.client(ctx)
		return who, err
	}
	items, err := every(ctx, a, "members", listMembers)
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

// principal finds a member by id or mail address, or a service account by id
// or name; ids of keys, and * for everybody, stay as they are.
func (a *app) principal(ctx context.Context, who string) (string, error) {
	if who == "*" || strings.Contains(who, "@") || principalForm.MatchString(who) {
		return a.findMember(ctx, who)
	}
	s, err := a.account(ctx, who)
	return s.Id, doing("find service account "+who, err)
}

var principalForm = regexp.MustCompile(`^(usr|sa|slk)_`)

func (a *app) memberList() *cobra.Command {
	return listing(a, "list", "List the people of the tenant", "members", memberView, listMembers)
}

func (a *app) memberGet() *cobra.Command {
	return showing(a, "get MEMBER", "Show a member, by id or mail address", "member", memberView, func(ctx context.Context, c *apiclient.SDK, who string) (api.Member, error) {
		id, err := a.findMember(ctx, who)
		if err != nil {
			return api.Member{}, err
		}
		return apiclient.OK(c.GetMemberWithResponse(ctx, id))
	})
}

func (a *app) memberRole() *cobra.Command {
	c := a.command("set-role MEMBER ROLE", "Give a member another role: owner, admin, developer, viewer, billing or none", cobra.ExactArgs(2), func(ctx context.Context, _ *cobra.Command, args []string) error {
		id, err := a.findMember(ctx, args[0])
		if err != nil {
			return err
		}
		m, err := apiclient.OK(a.sdk.UpdateMemberWithResponse(ctx, id, &api.UpdateMemberParams{DryRun: a.dry()}, api.MemberUpdate{Role: api.Role(args[1])}))
		return changed(a, memberView, "change the role of "+args[0], m, err, "")
	})
	c.Example = `  sluice member set-role grace@example.com developer`
	c.ValidArgsFunction = words(1, string(api.RoleOwner), string(api.RoleAdmin), string(api.RoleDeveloper), string(api.RoleViewer), string(api.RoleBilling), string(api.RoleNone))
	return a.writes(c)
}

func (a *app) memberRemove() *cobra.Command {
	return a.removing(a.writes, "remove MEMBER", "Remove a member: their sessions end and their API keys are revoked at once", "member",
		"Their sessions end, and their API keys in this tenant stop at once.", func(ctx context.Context, c *apiclient.SDK, who string) error {
			id, err := a.findMember(ctx, who)
			if err != nil {
				return err
			}
			return apiclient.Done(c.RemoveMemberWithResponse(ctx, id, &api.RemoveMemberParams{DryRun: a.dry()}))
		})
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
