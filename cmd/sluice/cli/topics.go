package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var topicView = view[api.Topic]{name: func(t api.Topic) string { return t.Name }, columns: []column[api.Topic]{
	{title: "name", value: func(t api.Topic) string { return t.Name }},
	{title: "type", value: func(t api.Topic) string { return string(t.Type) }},
	{title: "queues", value: func(t api.Topic) string { return number(t.Queues) }},
	{title: "retention", value: func(t api.Topic) string { return t.Retention }},
	{title: "perm", value: func(t api.Topic) string { return string(t.Perm) }},
	{title: "phase", value: func(t api.Topic) string { return string(t.Status.Phase) }},
	{title: "description", value: func(t api.Topic) string { return t.Description }},
	{title: "namespace_id", detail: true, value: func(t api.Topic) string { return t.NamespaceId }},
	{title: "max_message_bytes", detail: true, value: func(t api.Topic) string { return number(t.MaxMessageBytes) }},
	{title: "max_send_tps", detail: true, value: func(t api.Topic) string { return limit(t.MaxSendTps) }},
	{title: "labels", detail: true, value: func(t api.Topic) string { return labels(t.Labels) }},
	{title: "deletion_protection", detail: true, value: func(t api.Topic) string { return yesNo(t.DeletionProtection) }},
	{title: "id", detail: true, value: func(t api.Topic) string { return t.Id }},
	{title: "created_at", detail: true, value: func(t api.Topic) string { return t.CreatedAt.String() }},
}}

type topicFlags struct {
	kind, retention, perm, describe string
	queues, maxBytes, sendTPS       int32
	protect                         bool
	labels                          map[string]string
}

func (t *topicFlags) add(f *pflag.FlagSet) {
	f.Int32Var(&t.queues, "queues", 4, "number of queues; it can grow, never shrink")
	f.StringVar(&t.retention, "retention", "72h", "how long messages are kept")
	f.Int32Var(&t.maxBytes, "max-message-bytes", 4194304, "largest message: body and properties")
	f.Int32Var(&t.sendTPS, "max-send-tps", 0, "messages a second that may be sent; 0: no limit of its own")
	f.StringVar(&t.perm, "perm", "rw", "what clients may do: rw, r or w")
	f.StringVar(&t.describe, "description", "", "free text in one line")
	pairsVar(f, &t.labels, "label", "label as key=value; may be repeated; an update replaces all, '' takes them away")
	f.BoolVar(&t.protect, "deletion-protection", false, "refuse to delete it")
}

func (a *app) topicCommand() *cobra.Command {
	return a.parent("topic", "Topics of a namespace", a.topicList(), a.topicGet(), a.topicCreate(), a.topicUpdate(), a.topicDelete())
}

func (a *app) topicList() *cobra.Command {
	var prefix, kind string
	var c *cobra.Command
	c = listing(a, "list", "List topics", "topics", topicView, func(ctx context.Context, sdk *apiclient.SDK, token *string) ([]api.Topic, *string, error) {
		ns, err := a.ns(ctx)
		if err != nil {
			return nil, nil, err
		}
		page, err := apiclient.OK(sdk.ListTopicsWithResponse(ctx, ns, &api.ListTopicsParams{Prefix: given(c.Flags(), "prefix", prefix),
			Type: given(c.Flags(), "type", api.TopicType(kind)), PageToken: token, PageSize: fullPage()}))
		return page.Items, page.NextPageToken, err
	})
	c.Flags().StringVar(&prefix, "prefix", "", "only names that begin with this")
	c.Flags().StringVar(&kind, "type", "", "only topics of this type")
	return c
}

func (a *app) topicGet() *cobra.Command {
	return showing(a, "get TOPIC", "Show a topic", "topic", topicView, func(ctx context.Context, c *apiclient.SDK, name string) (api.Topic, error) {
		ns, err := a.ns(ctx)
		if err != nil {
			return api.Topic{}, err
		}
		return apiclient.OK(c.GetTopicWithResponse(ctx, ns, name))
	})
}

func (a *app) topicCreate() *cobra.Command {
	var t topicFlags
	var lenient bool
	c := a.command("create TOPIC", "Create a topic", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		body := api.TopicCreate{Name: args[0], Type: given(f, "type", api.TopicType(t.kind)), Queues: given(f, "queues", t.queues),
			Retention: given(f, "retention", t.retention), MaxMessageBytes: given(f, "max-message-bytes", t.maxBytes),
			MaxSendTps: given(f, "max-send-tps", t.sendTPS), Perm: given(f, "perm", api.TopicPerm(t.perm)),
			Description: given(f, "description", t.describe), Labels: given(f, "label", api.Labels(t.labels)),
			DeletionProtection: given(f, "deletion-protection", t.protect)}
		created, err := written(a.sdk.CreateTopicWithResponse(ctx, ns, &api.CreateTopicParams{DryRun: a.dry(), Wait: a.waitParam()}, body))
		if lenient && apiclient.Is(err, "already_exists") {
			created, err = apiclient.OK(a.sdk.GetTopicWithResponse(ctx, ns, args[0]))
		}
		if err != nil {
			return doing("create topic "+args[0], err)
		}
		hint := fmt.Sprintf("Next: sluice send %s \"hello\"", created.Name)
		if created.Type != api.NORMAL {
			hint = fmt.Sprintf("Messages of type %s are not delivered yet: sending to it is refused.", created.Type)
		}
		return a.shownTopic(ctx, started, created, hint)
	})
	t.add(c.Flags())
	c.Flags().StringVar(&t.kind, "type", "NORMAL", "which messages it is for: NORMAL; FIFO, DELAY and TRANSACTION are not delivered yet")
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "show the one that exists instead of failing")
	return a.reaches(c)
}

func (a *app) shownTopic(ctx context.Context, started time.Time, t api.Topic, hint string) error {
	return shown(ctx, a, started, topicView, "topic "+t.Name, t, func(t api.Topic) api.ResourceStatus { return t.Status },
		func(ctx context.Context, c *apiclient.SDK) (api.Topic, error) {
			return apiclient.OK(c.GetTopicWithResponse(ctx, t.NamespaceId, t.Name))
		}, hint)
}

func (a *app) topicUpdate() *cobra.Command {
	var t topicFlags
	c := a.command("update TOPIC", "Change a topic; name and type never change", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		body := api.TopicUpdate{Queues: given(f, "queues", t.queues), Retention: given(f, "retention", t.retention),
			MaxMessageBytes: given(f, "max-message-bytes", t.maxBytes), MaxSendTps: given(f, "max-send-tps", t.sendTPS),
			Perm: given(f, "perm", api.TopicPerm(t.perm)), Description: given(f, "description", t.describe),
			Labels: given(f, "label", api.Labels(t.labels)), DeletionProtection: given(f, "deletion-protection", t.protect)}
		if body == (api.TopicUpdate{}) {
			return nothingToChange(cmd)
		}
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		changed, err := apiclient.OK(a.sdk.UpdateTopicWithResponse(ctx, ns, args[0], &api.UpdateTopicParams{DryRun: a.dry(), Wait: a.waitParam()}, body))
		if err != nil {
			return doing("change topic "+args[0], err)
		}
		return a.shownTopic(ctx, started, changed, "")
	})
	t.add(c.Flags())
	return a.reaches(c)
}

func (a *app) topicDelete() *cobra.Command {
	return a.removing(a.reaches, "delete TOPIC", "Delete a topic with its messages", "topic", "All its messages go with it.", func(ctx context.Context, c *apiclient.SDK, name string) error {
		ns, err := a.ns(ctx)
		if err != nil {
			return err
		}
		return apiclient.Done(c.DeleteTopicWithResponse(ctx, ns, name, &api.DeleteTopicParams{DryRun: a.dry(), Wait: a.waitParam()}))
	})
}
