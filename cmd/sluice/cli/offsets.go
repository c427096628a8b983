package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

type resetFlags struct {
	topic, to, broker string
	queue             int32
	offset            int64
}

func (a *app) groupReset() *cobra.Command {
	var r resetFlags
	c := a.command("reset-offsets GROUP", "Move a consumer group in a topic, forward or back", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		body, err := a.resetBody(cmd, r)
		if err != nil {
			return err
		}
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		call := func(dry *bool) (api.OffsetResetResult, error) {
			out, err := apiclient.OK(a.sdk.ResetGroupOffsetWithResponse(ctx, ns, args[0], &api.ResetGroupOffsetParams{DryRun: dry}, body))
			return out, doing("reset group "+args[0], err)
		}
		if !a.yes && !a.dryRun && a.InTerminal { // who is asked sees what would happen
			preview, err := call(ptr(true))
			if err != nil {
				return err
			}
			asking := *a
			asking.Out = a.Err
			if err := asking.table(resetRows(preview)); err != nil {
				return err
			}
		}
		if err := a.confirm("Reset group " + args[0] + " in topic " + r.topic + "?"); err != nil {
			return err
		}
		done, err := call(a.dry())
		if err != nil {
			return err
		}
		a.noted()
		if err := a.shownReset(done); err != nil || a.dryRun {
			return err
		}
		for i, u := range done.Undo {
			if i == 0 {
				a.hint("To undo:")
			}
			a.hint("  sluice group reset-offsets %s --topic %s --broker %s --queue %d --offset %s --yes", done.Group, u.Topic, deref(u.Broker), *u.Queue, deref(u.Offset))
		}
		return nil
	})
	c.Aliases = []string{"reset"}
	c.Example = `  sluice group reset-offsets billing --topic orders --to earliest --dry-run
  sluice group reset-offsets billing --topic orders --to 2026-01-02T03:04:05Z
  sluice group reset-offsets billing --topic orders --to 2h --yes
  sluice group reset-offsets billing --topic orders --queue 0 --offset 5`
	f := c.Flags()
	f.StringVar(&r.topic, "topic", "", "the topic, also %RETRY% and the name of the group")
	f.StringVar(&r.to, "to", "", "earliest, latest, a time, or a length of time before now: the first message stored then or later")
	f.Int32Var(&r.queue, "queue", 0, "only this queue (default: all)")
	f.Int64Var(&r.offset, "offset", 0, "the next message of --queue to consume")
	f.StringVar(&r.broker, "broker", "", "only at this broker (default: all)")
	_ = c.MarkFlagRequired("topic")
	_ = c.RegisterFlagCompletionFunc("to", cobra.FixedCompletions([]cobra.Completion{"earliest", "latest"}, cobra.ShellCompDirectiveNoFileComp))
	return a.asks(a.writes(c))
}

// resetBody is the request that the flags say.
func (a *app) resetBody(cmd *cobra.Command, r resetFlags) (api.OffsetReset, error) {
	f := cmd.Flags()
	body := api.OffsetReset{Topic: r.topic, Queue: given(f, "queue", r.queue), Broker: given(f, "broker", r.broker)}
	switch {
	case f.Changed("offset") == f.Changed("to"):
		return body, usage("one of --to and --offset says where the group goes on", "See: "+cmd.CommandPath()+" --help")
	case f.Changed("offset") && !f.Changed("queue"):
		return body, usage("--offset needs --queue: every queue has offsets of its own", "See: "+cmd.CommandPath()+" --help")
	case f.Changed("offset"):
		body.To, body.Offset = api.OffsetResetToOffset, ptr(strconv.FormatInt(r.offset, 10))
	case r.to == "earliest":
		body.To = api.OffsetResetToEarliest
	case r.to == "latest":
		body.To = api.OffsetResetToLatest
	default:
		at, err := a.since("--to", r.to)
		if err != nil {
			return body, err
		}
		body.To, body.Timestamp = api.OffsetResetToTime, ptr(api.NewTimestamp(at))
	}
	return body, nil
}

func (a *app) shownReset(r api.OffsetResetResult) error {
	switch a.form() {
	case outputName:
		fmt.Fprintln(a.Out, r.Group)
		return nil
	case outputTable:
		return a.table(resetRows(r))
	}
	return a.encode(r)
}

func resetRows(r api.OffsetResetResult) [][]string {
	rows := [][]string{{"BROKER", "QUEUE", "FROM", "TO", "COME AGAIN", "SKIPPED"}}
	for _, q := range r.Queues {
		from := q.FromOffset
		if from == "-1" {
			from = "-" // no place yet
		}
		rows = append(rows, []string{q.Broker, number(q.Queue), from, q.ToOffset, q.Redelivered, q.Skipped})
	}
	return append(rows, []string{"total", "", "", "", r.Redelivered, r.Skipped})
}
