package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var aclView = view[api.Acl]{name: func(r api.Acl) string { return r.Id }, columns: []column[api.Acl]{
	{title: "id", value: func(r api.Acl) string { return r.Id }},
	{title: "effect", value: func(r api.Acl) string { return string(r.Effect) }},
	{title: "principal", value: func(r api.Acl) string { return r.Principal }},
	{title: "operations", value: func(r api.Acl) string { return joined(r.Operations) }},
	{title: "resource", value: func(r api.Acl) string { return string(r.Resource) }},
	{title: "pattern", value: func(r api.Acl) string { return r.Pattern }},
	{title: "cidrs", value: func(r api.Acl) string { return joined(r.Cidrs) }},
	{title: "expires_at", value: func(r api.Acl) string { return moment(r.ExpiresAt) }},
	{title: "phase", value: func(r api.Acl) string { return string(r.Status.Phase) }},
	{title: "description", detail: true, value: func(r api.Acl) string { return r.Description }},
	{title: "namespace_id", detail: true, value: func(r api.Acl) string { return r.NamespaceId }},
	{title: "created_at", detail: true, value: func(r api.Acl) string { return r.CreatedAt.String() }},
}}

var decisionView = view[api.AclDecision]{name: func(d api.AclDecision) string { return decision(d.Allowed) }, columns: []column[api.AclDecision]{
	{title: "decision", value: func(d api.AclDecision) string { return decision(d.Allowed) }},
	{title: "decided_by", value: func(d api.AclDecision) string { return string(d.DecidedBy) }},
	{title: "rule_id", value: func(d api.AclDecision) string { return deref(d.RuleId) }},
	{title: "reason", value: func(d api.AclDecision) string { return d.Reason }},
}}

var accessorView = view[api.Accessor]{name: func(c api.Accessor) string { return c.Id }, columns: []column[api.Accessor]{
	{title: "id", value: func(c api.Accessor) string { return c.Id }},
	{title: "kind", value: func(c api.Accessor) string { return string(c.Kind) }},
	{title: "name", value: func(c api.Accessor) string { return c.Name }},
	{title: "owner_id", value: func(c api.Accessor) string { return c.OwnerId }},
	{title: "operations", value: func(c api.Accessor) string { return because(c.Operations) }},
}}

func decision(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// because writes each operation with what allows it.
func because(list []api.AccessorOperation) string {
	texts := make([]string, len(list))
	for i, o := range list {
		texts[i] = fmt.Sprintf("%s (%s)", o.Operation, o.DecidedBy)
		if o.RuleId != nil {
			texts[i] = fmt.Sprintf("%s (%s %s)", o.Operation, o.DecidedBy, *o.RuleId)
		}
	}
	return strings.Join(texts, ", ")
}

func (a *app) aclCommand() *cobra.Command {
	return a.parent("acl", "Access rules of a namespace, what they come to, and who can touch what",
		a.aclList(), a.aclGet(), a.aclCreate(), a.aclUpdate(), a.aclDelete(), a.aclTest(), a.aclAccess())
}

type aclFlags struct {
	effect, topics, groups, pattern, expires, describe string
	operations, cidrs                                  []string
	whole                                              bool
}

// add adds the flags that create and update share.
func (r *aclFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&r.operations, "operation", nil, "what the rule is for: PUB, SUB, MANAGE or DESCRIBE; may be repeated; an update replaces all")
	f.StringSliceVar(&r.cidrs, "cidr", nil, "address or network the rule is for; may be repeated; an update replaces all, '' takes them away (default: every address)")
	f.StringVar(&r.expires, "expires", "", "end as time (2027-01-31T00:00:00Z) or from now on (8h); never: no end")
	f.StringVar(&r.describe, "description", "", "free text in one line")
}

// about says which resources the flags of a create name.
func (r *aclFlags) about(f *pflag.FlagSet) (api.AclResource, string, error) {
	named := 0
	for _, flag := range []string{"topics", "groups", "whole-namespace"} {
		if f.Changed(flag) {
			named++
		}
	}
	switch {
	case named > 1:
		return "", "", usage("a rule is about one kind of resource", "Say one of --topics, --groups and --whole-namespace; make another rule for the next.")
	case f.Changed("topics"):
		return api.AclResourceTopic, r.topics, nil
	case f.Changed("groups"):
		return api.AclResourceGroup, r.groups, nil
	case r.whole:
		return api.AclResourceNamespace, "*", nil
	}
	return "", "", usage("the rule names nothing that it is about", "Say --topics PATTERN, --groups PATTERN or --whole-namespace.")
}

func (a *app) aclList() *cobra.Command {
	var principal, resource string
	var c *cobra.Command
	c = listing(a, "list", "List the rules of a namespace", "access rules", aclView, func(ctx context.Context, sdk *apiclient.SDK, token *string) ([]api.Acl, *string, error) {
		ns, err := a.ns(ctx)
		if err != nil {
			return nil, nil, err
		}
		params := api.ListAclsParams{Resource: given(c.Flags(), "resource", api.AclResource(resource)), PageToken: token, PageSize: fullPage()}
		if c.Flags().Changed("principal") {
			id, err := a.principal(ctx, principal)
			if err != nil {
				return nil, nil, err
			}
			params.Principal = &id
		}
		page, err := apiclient.OK(sdk.ListAclsWithResponse(ctx, ns, &params))
		return page.Items, page.NextPageToken, err
	})
	c.Flags().StringVar(&principal, "principal", "", "only rules for exactly this key, service account, member or *")
	c.Flags().StringVar(&resource, "resource", "", "only rules about this kind: topic, group or namespace")
	return c
}

func (a *app) aclGet() *cobra.Command {
	return showing(a, "get RULE_ID", "Show a rule", "rule", aclView, func(ctx context.Context, c *apiclient.SDK, id string) (api.Acl, error) {
		ns, err := a.ns(ctx)
		if err != nil {
			return api.Acl{}, err
		}
		return apiclient.OK(c.GetAclWithResponse(ctx, ns, id))
	})
}

func (a *app) aclCreate() *cobra.Command {
	var r aclFlags
	c := a.command("create allow|deny PRINCIPAL", "Add a rule for an API key, a service account (id or name), a member (id or mail address) or * for everybody", cobra.ExactArgs(2), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		resource, pattern, err := r.about(f)
		if err != nil {
			return err
		}
		if len(r.operations) == 0 {
			return usage("the rule names no operation", "Say --operation with PUB, SUB, MANAGE or DESCRIBE.")
		}
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		principal, err := a.principal(ctx, args[1])
		if err != nil {
			return err
		}
		body := api.AclCreate{Effect: api.AclEffect(args[0]), Principal: principal, Resource: resource, Pattern: pattern,
			Operations: keyPermissions(r.operations), Cidrs: given(f, "cidr", r.cidrs), Description: given(f, "description", r.describe)}
		if body.ExpiresAt, err = a.firstEnd(f, "expires", r.expires); err != nil {
			return err
		}
		created, err := written(a.sdk.CreateAclWithResponse(ctx, ns, &api.CreateAclParams{DryRun: a.dry(), Wait: a.waitParam()}, body))
		if err != nil {
			return doing("add the rule", err)
		}
		return a.shownACL(ctx, started, created, "Next: sluice acl test KEY_ID OPERATION topic|group NAME")
	})
	c.Example = `  sluice acl create deny '*' --topics 'payments-*' --operation PUB,SUB --cidr 10.0.0.0/8
  sluice acl create allow grace@example.com --groups billing --operation SUB --expires 8h`
	r.add(c.Flags())
	c.Flags().StringVar(&r.topics, "topics", "", "topics the rule is about: a name, or a prefix such as 'orders*'")
	c.Flags().StringVar(&r.groups, "groups", "", "groups the rule is about: a name or a prefix; with their retry and dead-letter topics")
	c.Flags().BoolVar(&r.whole, "whole-namespace", false, "the rule is about everything in the namespace")
	return a.reaches(c)
}

func (a *app) shownACL(ctx context.Context, started time.Time, r api.Acl, hint string) error {
	return shown(ctx, a, started, aclView, "rule "+r.Id, r, func(r api.Acl) api.ResourceStatus { return r.Status },
		func(ctx context.Context, c *apiclient.SDK) (api.Acl, error) {
			return apiclient.OK(c.GetAclWithResponse(ctx, r.NamespaceId, r.Id))
		}, hint)
}

var aclUpdateFlags = []string{"effect", "pattern", "operation", "cidr", "expires", "description"}

func (a *app) aclUpdate() *cobra.Command {
	var r aclFlags
	c := a.command("update RULE_ID", "Change a rule; whom and what kind of resource it is about never changes", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		if !slices.ContainsFunc(aclUpdateFlags, f.Changed) {
			return nothingToChange(cmd)
		}
		body := api.AclUpdate{Effect: given(f, "effect", api.AclEffect(r.effect)), Pattern: given(f, "pattern", r.pattern),
			Operations: given(f, "operation", keyPermissions(r.operations)), Cidrs: given(f, "cidr", r.cidrs), Description: given(f, "description", r.describe)}
		var err error
		if body.ExpiresAt, err = a.end(f, "expires", r.expires); err != nil {
			return err
		}
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		changed, err := apiclient.OK(a.sdk.UpdateAclWithResponse(ctx, ns, args[0], &api.UpdateAclParams{DryRun: a.dry(), Wait: a.waitParam()}, body))
		if err != nil {
			return doing("change rule "+args[0], err)
		}
		return a.shownACL(ctx, started, changed, "")
	})
	r.add(c.Flags())
	c.Flags().StringVar(&r.effect, "effect", "", "allow or deny")
	c.Flags().StringVar(&r.pattern, "pattern", "", "names the rule is about: a name, or a prefix such as 'orders*'")
	return a.reaches(c)
}

func (a *app) aclDelete() *cobra.Command {
	return a.removing(a.reaches, "delete RULE_ID", "Take a rule away", "rule", "What it allowed stops, and what it denied is possible, at once.", func(ctx context.Context, c *apiclient.SDK, name string) error {
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		return apiclient.Done(c.DeleteAclWithResponse(ctx, ns, name, &api.DeleteAclParams{DryRun: a.dry(), Wait: a.waitParam()}))
	})
}

// aclTest prints the decision and exits like a refused call when it is no, so
// that scripts need not read it.
func (a *app) aclTest() *cobra.Command {
	var from string
	c := a.command("test KEY_ID OPERATION topic|group NAME", "Ask what brokers would decide for an API key, and why; exit code 4 when they would refuse", cobra.ExactArgs(4), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		d, err := apiclient.OK(a.sdk.TestAclWithResponse(ctx, ns, api.AclTest{Principal: args[0], Operation: api.KeyPermission(strings.ToUpper(args[1])),
			Resource: api.AclObject(args[2]), Name: args[3], SourceIp: given(cmd.Flags(), "from", from)}))
		if err != nil {
			return doing("test the rules", err)
		}
		if err := showOne(a, decisionView, d); err != nil || d.Allowed {
			return err
		}
		return &Error{Exit: exitRefused, What: fmt.Sprintf("brokers would refuse %s on %s %s", strings.ToUpper(args[1]), args[2], args[3]), Why: d.Reason}
	})
	c.Flags().StringVar(&from, "from", "", "address of the caller (default: one that no rule for addresses is for)")
	return c
}

func (a *app) aclAccess() *cobra.Command {
	return a.command("access topic|group NAME", "List who can touch a topic or a group, and what lets them", cobra.ExactArgs(2), func(ctx context.Context, _ *cobra.Command, args []string) error {
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		items, err := collect(apiclient.All(func(token *string) ([]api.Accessor, *string, error) {
			page, err := apiclient.OK(a.sdk.ListAccessWithResponse(ctx, ns, &api.ListAccessParams{Resource: api.AclObject(args[0]), Name: args[1],
				PageToken: token, PageSize: fullPage()}))
			return page.Items, page.NextPageToken, err
		}))
		if err != nil {
			return doing("list who can touch "+args[0]+" "+args[1], err)
		}
		return showList(a, accessorView, items)
	})
}
