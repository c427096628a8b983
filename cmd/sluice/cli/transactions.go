package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
)

var transactionView = view[api.Transaction]{name: func(t api.Transaction) string { return t.Id }, columns: []column[api.Transaction]{
	{title: "id", value: func(t api.Transaction) string { return t.Id }},
	{title: "topic", value: func(t api.Transaction) string { return t.Topic }},
	{title: "producer_group", value: func(t api.Transaction) string { return t.ProducerGroup }},
	{title: "state", value: func(t api.Transaction) string { return string(t.State) }},
	{title: "checks", value: func(t api.Transaction) string { return number(t.Checks) }},
	{title: "stored_at", value: func(t api.Transaction) string { return t.StoredAt.String() }},
	{title: "next_check_at", value: func(t api.Transaction) string {
		if t.NextCheckAt == nil {
			return ""
		}
		return t.NextCheckAt.String()
	}},
	{title: "message_id", value: func(t api.Transaction) string { return deref(t.MessageId) }},
}}

var settledView = view[api.TransactionSettled]{name: func(t api.TransactionSettled) string { return t.Id }, columns: []column[api.TransactionSettled]{
	{title: "id", value: func(t api.TransactionSettled) string { return t.Id }},
	{title: "topic", value: func(t api.TransactionSettled) string { return t.Topic }},
	{title: "action", value: func(t api.TransactionSettled) string { return string(t.Action) }},
}}

func (a *app) transactionCommand() *cobra.Command {
	return a.parent("transaction", "Transactional messages that nobody has decided about yet", a.transactionList(),
		a.transactionEnd("commit", "Deliver the message of a transaction", "Its message is delivered; that is for good.", a.commitTransaction),
		a.transactionEnd("rollback", "Drop the message of a transaction", "Its message is dropped; that is for good.", a.rollbackTransaction),
		a.transactionCheck())
}

func (a *app) transactionList() *cobra.Command {
	var topic, state string
	var c *cobra.Command
	c = listing(a, "list", "List transactions that have not ended", "transactions", transactionView, func(ctx context.Context, sdk *apiclient.SDK, token *string) ([]api.Transaction, *string, error) {
		ns, err := a.ns(ctx)
		if err != nil {
			return nil, nil, err
		}
		page, err := apiclient.OK(sdk.ListTransactionsWithResponse(ctx, ns, &api.ListTransactionsParams{
			Topic: given(c.Flags(), "topic", topic), State: given(c.Flags(), "state", api.TransactionState(state)), PageToken: token, PageSize: fullPage()}))
		return page.Items, page.NextPageToken, err
	})
	c.Flags().StringVar(&topic, "topic", "", "only those of this topic")
	c.Flags().StringVar(&state, "state", "", "only those that are open, or given_up: nobody answered the checks")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]cobra.Completion{string(api.Open), string(api.GivenUp)}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

type settleFunc func(ctx context.Context, ns, id string) (api.TransactionSettled, error)

// transactionEnd makes a command that ends a transaction after a question.
func (a *app) transactionEnd(verb, short, ends string, settle settleFunc) *cobra.Command {
	return a.asks(a.writes(a.command(verb+" TRANSACTION_ID", short, cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		if err := a.confirm("Settle transaction " + args[0] + "? " + ends); err != nil {
			return err
		}
		return a.settled(ctx, verb, args[0], settle)
	})))
}

func (a *app) transactionCheck() *cobra.Command {
	return a.writes(a.command("check TRANSACTION_ID", "Ask the producer of a transaction again", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.settled(ctx, "check", args[0], func(ctx context.Context, ns, id string) (api.TransactionSettled, error) {
			return apiclient.OK(a.sdk.CheckTransactionWithResponse(ctx, ns, id, &api.CheckTransactionParams{DryRun: a.dry()}))
		})
	}))
}

func (a *app) settled(ctx context.Context, verb, id string, settle settleFunc) error {
	ns, err := a.ns(ctx)
	if err != nil {
		return err
	}
	done, err := settle(ctx, ns, id)
	if err != nil {
		return doing(verb+" transaction "+id, err)
	}
	a.noted()
	return showOne(a, settledView, done)
}

func (a *app) commitTransaction(ctx context.Context, ns, id string) (api.TransactionSettled, error) {
	return apiclient.OK(a.sdk.CommitTransactionWithResponse(ctx, ns, id, &api.CommitTransactionParams{DryRun: a.dry()}))
}

func (a *app) rollbackTransaction(ctx context.Context, ns, id string) (api.TransactionSettled, error) {
	return apiclient.OK(a.sdk.RollbackTransactionWithResponse(ctx, ns, id, &api.RollbackTransactionParams{DryRun: a.dry()}))
}
