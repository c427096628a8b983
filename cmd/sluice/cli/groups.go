package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var groupView = view[api.Group]{name: func(g api.Group) string { return g.Name }, columns: []column[api.Group]{
	{title: "name", value: func(g api.Group) string { return g.Name }},
	{title: "order", value: func(g api.Group) string { return string(g.Order) }},
	{title: "consume_enabled", value: func(g api.Group) string { return yesNo(g.ConsumeEnabled) }},
	{title: "max_attempts", value: func(g api.Group) string {
		if g.Retry.MaxAttempts == nil {
			return ""
		}
		return number(*g.Retry.MaxAttempts)
	}},
	{title: "phase", value: func(g api.Group) string { return string(g.Status.Phase) }},
	{title: "description", value: func(g api.Group) string { return g.Description }},
	{title: "namespace_id", detail: true, value: func(g api.Group) string { return g.NamespaceId }},
	{title: "broadcast", detail: true, value: func(g api.Group) string { return yesNo(g.Broadcast) }},
	{title: "retry", detail: true, value: func(g api.Group) string {
		if g.Retry.Delays == nil {
			return deref(g.Retry.Strategy)
		}
		return deref(g.Retry.Strategy) + " " + strings.Join(*g.Retry.Delays, " ")
	}},
	{title: "dead_letter", detail: true, value: func(g api.Group) string {
		if g.DeadLetter.Enabled != nil && !*g.DeadLetter.Enabled {
			return "off"
		}
		return deref(g.DeadLetter.Topic)
	}},
	{title: "max_in_flight", detail: true, value: func(g api.Group) string { return number(g.MaxInFlight) }},
	{title: "max_recv_tps", detail: true, value: func(g api.Group) string { return limit(g.MaxRecvTps) }},
	{title: "labels", detail: true, value: func(g api.Group) string { return labels(g.Labels) }},
	{title: "deletion_protection", detail: true, value: func(g api.Group) string { return yesNo(g.DeletionProtection) }},
	{title: "id", detail: true, value: func(g api.Group) string { return g.Id }},
	{title: "created_at", detail: true, value: func(g api.Group) string { return g.CreatedAt.String() }},
}}

type groupFlags struct {
	order, strategy, deadLetterTopic, describe string
	delays                                     []string
	attempts, inFlight, recvTPS                int32
	consume, broadcast, deadLetter, protect    bool
	labels                                     map[string]string
}

func (g *groupFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&g.consume, "consume-enabled", true, "false: members of the group get nothing")
	f.BoolVar(&g.broadcast, "broadcast", true, "let members ask for every message each")
	f.Int32Var(&g.attempts, "max-attempts", 16, "deliveries before a message goes to the dead-letter topic")
	f.StringVar(&g.strategy, "retry-strategy", "custom", "how delays are read: fixed, exponential or custom")
	f.StringSliceVar(&g.delays, "retry-delays", nil, "delays, such as 10s,30s,1m")
	f.BoolVar(&g.deadLetter, "dead-letter", true, "false: drop a message that used up its attempts")
	f.StringVar(&g.deadLetterTopic, "dead-letter-topic", "", "where such messages go (default: %DLQ% and the name of the group)")
	f.Int32Var(&g.inFlight, "max-in-flight", 10000, "messages handed out and not acknowledged, for each queue")
	f.Int32Var(&g.recvTPS, "max-recv-tps", 0, "messages a second that may be received; 0: no limit of its own")
	f.StringVar(&g.describe, "description", "", "free text in one line")
	pairsVar(f, &g.labels, "label", "label as key=value; may be repeated; an update replaces all, '' takes them away")
	f.BoolVar(&g.protect, "deletion-protection", false, "refuse to delete it")
}

// retry lays the flags over what is there; nil when none was given.
func (g *groupFlags) retry(f *pflag.FlagSet, now api.GroupRetry) *api.GroupRetry {
	if !f.Changed("max-attempts") && !f.Changed("retry-strategy") && !f.Changed("retry-delays") {
		return nil
	}
	if f.Changed("max-attempts") {
		now.MaxAttempts = &g.attempts
	}
	if f.Changed("retry-strategy") {
		now.Strategy = ptr(api.RetryStrategy(g.strategy))
	}
	if f.Changed("retry-delays") {
		now.Delays = &g.delays
	}
	return &now
}

func (g *groupFlags) letters(f *pflag.FlagSet, now api.GroupDeadLetter) *api.GroupDeadLetter {
	if !f.Changed("dead-letter") && !f.Changed("dead-letter-topic") {
		return nil
	}
	if f.Changed("dead-letter") {
		now.Enabled = &g.deadLetter
	}
	if f.Changed("dead-letter-topic") {
		now.Topic = &g.deadLetterTopic
	}
	return &now
}

func (a *app) groupCommand() *cobra.Command {
	return a.parent("group", "Consumer groups of a namespace", a.groupList(), a.groupGet(), a.groupCreate(), a.groupUpdate(), a.groupDelete(), a.groupLag(), a.groupReset())
}

func (a *app) groupList() *cobra.Command {
	var prefix string
	var c *cobra.Command
	c = listing(a, "list", "List consumer groups", "groups", groupView, func(ctx context.Context, sdk *apiclient.SDK, token *string) ([]api.Group, *string, error) {
		ns, err := a.ns(ctx)
		if err != nil {
			return nil, nil, err
		}
		page, err := apiclient.OK(sdk.ListGroupsWithResponse(ctx, ns, &api.ListGroupsParams{Prefix: given(c.Flags(), "prefix", prefix), PageToken: token, PageSize: fullPage()}))
		return page.Items, page.NextPageToken, err
	})
	c.Flags().StringVar(&prefix, "prefix", "", "only names that begin with this")
	return c
}

func (a *app) groupGet() *cobra.Command {
	return showing(a, "get GROUP", "Show a consumer group", "group", groupView, func(ctx context.Context, c *apiclient.SDK, name string) (api.Group, error) {
		ns, err := a.ns(ctx)
		if err != nil {
			return api.Group{}, err
		}
		return apiclient.OK(c.GetGroupWithResponse(ctx, ns, name))
	})
}

func (a *app) groupCreate() *cobra.Command {
	var g groupFlags
	var lenient bool
	c := a.command("create GROUP", "Create a consumer group", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		body := api.GroupCreate{Name: args[0], Order: given(f, "order", api.GroupOrder(g.order)), ConsumeEnabled: given(f, "consume-enabled", g.consume),
			Broadcast: given(f, "broadcast", g.broadcast), Retry: g.retry(f, api.GroupRetry{}), DeadLetter: g.letters(f, api.GroupDeadLetter{}),
			MaxInFlight: given(f, "max-in-flight", g.inFlight), MaxRecvTps: given(f, "max-recv-tps", g.recvTPS),
			Description: given(f, "description", g.describe), Labels: given(f, "label", api.Labels(g.labels)),
			DeletionProtection: given(f, "deletion-protection", g.protect)}
		created, err := written(a.sdk.CreateGroupWithResponse(ctx, ns, &api.CreateGroupParams{DryRun: a.dry(), Wait: a.waitParam()}, body))
		if lenient && apiclient.Is(err, "already_exists") {
			created, err = apiclient.OK(a.sdk.GetGroupWithResponse(ctx, ns, args[0]))
		}
		if err != nil {
			return doing("create group "+args[0], err)
		}
		return a.shownGroup(ctx, started, created, "Next: let a consumer join it, then: sluice group lag "+created.Name)
	})
	g.add(c.Flags())
	c.Flags().StringVar(&g.order, "order", "concurrent", "concurrent or fifo")
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "show the one that exists instead of failing")
	return a.reaches(c)
}

func (a *app) shownGroup(ctx context.Context, started time.Time, g api.Group, hint string) error {
	return shown(ctx, a, started, groupView, "group "+g.Name, g, func(g api.Group) api.ResourceStatus { return g.Status },
		func(ctx context.Context, c *apiclient.SDK) (api.Group, error) {
			return apiclient.OK(c.GetGroupWithResponse(ctx, g.NamespaceId, g.Name))
		}, hint)
}

func (a *app) groupUpdate() *cobra.Command {
	var g groupFlags
	c := a.command("update GROUP", "Change a consumer group; name and order never change", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		// retry and dead_letter are replaced as a whole, so the rest of them is
		// read first, and the change is meant for that revision only.
		now, err := apiclient.OK(a.sdk.GetGroupWithResponse(ctx, ns, args[0]))
		if err != nil {
			return doing("read group "+args[0], err)
		}
		body := api.GroupUpdate{ConsumeEnabled: given(f, "consume-enabled", g.consume), Broadcast: given(f, "broadcast", g.broadcast),
			Retry: g.retry(f, now.Retry), DeadLetter: g.letters(f, now.DeadLetter), MaxInFlight: given(f, "max-in-flight", g.inFlight),
			MaxRecvTps: given(f, "max-recv-tps", g.recvTPS), Description: given(f, "description", g.describe),
			Labels: given(f, "label", api.Labels(g.labels)), DeletionProtection: given(f, "deletion-protection", g.protect)}
		if body == (api.GroupUpdate{}) {
			return nothingToChange(cmd)
		}
		changed, err := apiclient.OK(a.sdk.UpdateGroupWithResponse(ctx, ns, args[0],
			&api.UpdateGroupParams{DryRun: a.dry(), Wait: a.waitParam(), IfMatch: ifMatch(now.Revision)}, body))
		if err != nil {
			return doing("change group "+args[0], err)
		}
		return a.shownGroup(ctx, started, changed, "")
	})
	g.add(c.Flags())
	return a.reaches(c)
}

func (a *app) groupDelete() *cobra.Command {
	return a.removing(a.reaches, "delete GROUP", "Delete a consumer group with its offsets", "group", "Its offsets go with it.", func(ctx context.Context, c *apiclient.SDK, name string) error {
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		return apiclient.Done(c.DeleteGroupWithResponse(ctx, ns, name, &api.DeleteGroupParams{DryRun: a.dry(), Wait: a.waitParam()}))
	})
}

func (a *app) groupLag() *cobra.Command {
	return a.command("lag GROUP", "Show how far a consumer group is behind", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		lag, err := apiclient.OK(a.sdk.GetGroupLagWithResponse(ctx, ns, args[0]))
		if err != nil {
			return doing("read the lag of group "+args[0], err)
		}
		switch a.form() {
		case outputName:
			fmt.Fprintln(a.Out, lag.Lag)
			return nil
		case outputTable:
			rows := [][]string{{"TOPIC", "QUEUE", "COMMITTED", "MAX", "LAG", "CONSUMER"}}
			for _, t := range lag.Topics {
				for _, q := range t.Queues {
					rows = append(rows, []string{t.Topic, number(q.Queue), q.CommittedOffset, q.MaxOffset, q.Lag, orDash(deref(q.ConsumerId))})
				}
			}
			return a.table(append(rows, []string{"total", "", "", "", lag.Lag, ""}))
		}
		return a.encode(lag)
	})
}
