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

var namespaceView = view[api.Namespace]{name: func(n api.Namespace) string { return n.Id }, columns: []column[api.Namespace]{
	{title: "id", value: func(n api.Namespace) string { return n.Id }},
	{title: "name", value: func(n api.Namespace) string { return n.Name }},
	{title: "region", value: func(n api.Namespace) string { return n.Region }},
	{title: "phase", value: func(n api.Namespace) string { return string(n.Status.Phase) }},
	{title: "remoting", value: func(n api.Namespace) string { return n.Endpoints.Remoting }},
	{title: "grpc", value: func(n api.Namespace) string { return n.Endpoints.Grpc }},
	{title: "strict_types", detail: true, value: func(n api.Namespace) string { return yesNo(n.StrictTypes) }},
	{title: "max_send_tps", detail: true, value: func(n api.Namespace) string { return limit(n.MaxSendTps) }},
	{title: "max_recv_tps", detail: true, value: func(n api.Namespace) string { return limit(n.MaxRecvTps) }},
	{title: "description", detail: true, value: func(n api.Namespace) string { return n.Description }},
	{title: "labels", detail: true, value: func(n api.Namespace) string { return labels(n.Labels) }},
	{title: "deletion_protection", detail: true, value: func(n api.Namespace) string { return yesNo(n.DeletionProtection) }},
	{title: "created_at", detail: true, value: func(n api.Namespace) string { return n.CreatedAt.String() }},
}}

type namespaceFlags struct {
	strict, protect        bool
	sendTPS, recvTPS       int32
	name, region, describe string
	labels                 map[string]string
}

func (n *namespaceFlags) add(f *pflag.FlagSet) {
	f.StringVar(&n.describe, "description", "", "free text in one line")
	pairsVar(f, &n.labels, "label", "label as key=value; may be repeated; an update replaces all, '' takes them away")
	f.BoolVar(&n.strict, "strict-types", false, "refuse messages of another kind than the topic's type, over both protocols")
	f.Int32Var(&n.sendTPS, "max-send-tps", 0, "messages a second that may be sent; 0: no limit of its own")
	f.Int32Var(&n.recvTPS, "max-recv-tps", 0, "messages a second that may be received; 0: no limit of its own")
	f.BoolVar(&n.protect, "deletion-protection", false, "refuse to delete it")
}

// given returns a pointer to v when the flag was given.
func given[T any](f *pflag.FlagSet, name string, v T) *T {
	if !f.Changed(name) {
		return nil
	}
	return &v
}

func (a *app) namespaceCommand() *cobra.Command {
	return a.parent("namespace", "Namespaces: the units of isolation", a.namespaceList(), a.namespaceGet(), a.namespaceCreate(), a.namespaceUpdate(), a.namespaceDelete())
}

func (a *app) namespaceList() *cobra.Command {
	return listing(a, "list", "List namespaces", "namespaces", namespaceView, func(ctx context.Context, c *apiclient.SDK, token *string) ([]api.Namespace, *string, error) {
		page, err := apiclient.OK(c.ListNamespacesWithResponse(ctx, &api.ListNamespacesParams{PageToken: token, PageSize: fullPage()}))
		return page.Items, page.NextPageToken, err
	})
}

func fullPage() *int32 { return ptr(int32(1000)) }

func (a *app) namespaceGet() *cobra.Command {
	return showing(a, "get NAMESPACE", "Show a namespace, by id or name", "namespace", namespaceView, func(ctx context.Context, c *apiclient.SDK, name string) (api.Namespace, error) {
		id, err := a.findNamespace(ctx, name)
		if err != nil {
			return api.Namespace{}, err
		}
		return apiclient.OK(c.GetNamespaceWithResponse(ctx, id))
	})
}

func (a *app) namespaceCreate() *cobra.Command {
	var n namespaceFlags
	var lenient bool
	c := a.command("create NAME", "Create a namespace", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		body := api.NamespaceCreate{Name: args[0], Region: given(f, "region", n.region), Description: given(f, "description", n.describe),
			Labels: given(f, "label", api.Labels(n.labels)), StrictTypes: given(f, "strict-types", n.strict),
			MaxSendTps: given(f, "max-send-tps", n.sendTPS), MaxRecvTps: given(f, "max-recv-tps", n.recvTPS),
			DeletionProtection: given(f, "deletion-protection", n.protect)}
		sdk, err := a.client(ctx)
		if err != nil {
			return err
		}
		created, err := written(sdk.CreateNamespaceWithResponse(ctx, &api.CreateNamespaceParams{DryRun: a.dry(), Wait: a.waitParam()}, body))
		if lenient && apiclient.Is(err, "already_exists") {
			id, err := a.findNamespace(ctx, args[0])
			if err != nil {
				return err
			}
			if created, err = apiclient.OK(sdk.GetNamespaceWithResponse(ctx, id)); err != nil {
				return doing("read namespace "+args[0], err)
			}
			return showOne(a, namespaceView, created)
		}
		if err != nil {
			return doing("create namespace "+args[0], err)
		}
		return a.shownNamespace(ctx, started, created, "Next: sluice topic create NAME --namespace "+created.Id)
	})
	n.add(c.Flags())
	c.Flags().StringVar(&n.region, "region", "", "region code (default: the only or nearest one)")
	c.Flags().BoolVar(&lenient, "if-not-exists", false, "show the one that exists instead of failing")
	return a.reaches(c)
}

func (a *app) shownNamespace(ctx context.Context, started time.Time, n api.Namespace, hint string) error {
	return shown(ctx, a, started, namespaceView, "namespace "+n.Name, n, func(n api.Namespace) api.ResourceStatus { return n.Status },
		func(ctx context.Context, c *apiclient.SDK) (api.Namespace, error) {
			return apiclient.OK(c.GetNamespaceWithResponse(ctx, n.Id))
		}, hint)
}

func (a *app) namespaceUpdate() *cobra.Command {
	var n namespaceFlags
	c := a.command("update NAMESPACE", "Change a namespace, by id or name", cobra.ExactArgs(1), func(ctx context.Context, cmd *cobra.Command, args []string) error {
		f, started := cmd.Flags(), a.Now()
		body := api.NamespaceUpdate{Name: given(f, "name", n.name), Description: given(f, "description", n.describe),
			Labels: given(f, "label", api.Labels(n.labels)), StrictTypes: given(f, "strict-types", n.strict),
			MaxSendTps: given(f, "max-send-tps", n.sendTPS), MaxRecvTps: given(f, "max-recv-tps", n.recvTPS),
			DeletionProtection: given(f, "deletion-protection", n.protect)}
		if body == (api.NamespaceUpdate{}) {
			return nothingToChange(cmd)
		}
		id, err := a.findNamespace(ctx, args[0])
		if err != nil {
			return err
		}
		changed, err := apiclient.OK(a.sdk.UpdateNamespaceWithResponse(ctx, id, &api.UpdateNamespaceParams{DryRun: a.dry(), Wait: a.waitParam()}, body))
		if err != nil {
			return doing("change namespace "+args[0], err)
		}
		return a.shownNamespace(ctx, started, changed, "")
	})
	n.add(c.Flags())
	c.Flags().StringVar(&n.name, "name", "", "another name")
	return a.reaches(c)
}

func nothingToChange(cmd *cobra.Command) error {
	return usage("there is nothing to change", "Name at least one of the flags of: "+cmd.CommandPath()+" --help")
}

func (a *app) namespaceDelete() *cobra.Command {
	return a.removing(a.reaches, "delete NAMESPACE", "Delete a namespace with all that is in it", "namespace", "All topics, groups and messages in it go with it.", func(ctx context.Context, c *apiclient.SDK, name string) error {
		id, err := a.findNamespace(ctx, name)
		if err != nil {
			return err
		}
		return apiclient.Done(c.DeleteNamespaceWithResponse(ctx, id, &api.DeleteNamespaceParams{DryRun: a.dry(), Wait: a.waitParam()}))
	})
}

// deleted ends a delete: a script gets the name of what is gone, and whether
// it was there.
func (a *app) deleted(what, name string, err error, lenient bool) error {
	existed := err == nil
	if err != nil && (!lenient || exitCode(err) != exitNotFound) {
		return doing("delete "+what, err)
	}
	switch a.form() {
	case outputTable:
		if existed && !a.dryRun {
			fmt.Fprintf(a.Out, "Deleted %s.\n", what)
		} else if !existed {
			a.hint("There is no %s.", what)
		}
	case outputName:
		fmt.Fprintln(a.Out, name)
	default:
		if err := a.encode(struct {
			Deleted string `json:"deleted"`
			Existed bool   `json:"existed"`
			DryRun  bool   `json:"dry_run,omitempty"`
		}{name, existed, a.dryRun}); err != nil {
			return err
		}
	}
	a.noted()
	return nil
}

// next ends a write: a dry run says so, else comes the next step.
func (a *app) next(hint string) {
	switch {
	case a.dryRun:
		a.noted()
	case hint != "":
		a.hint("%s", hint)
	}
}

func labels(l api.Labels) string {
	pairs := make([]string, 0, len(l))
	for k, v := range l {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ", ")
}
