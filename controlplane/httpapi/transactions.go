package httpapi

import (
	"context"
	"strings"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/tenant"
)

// prefixTransaction stands before what catalog.Transaction has as its id.
const prefixTransaction = "txn_"

func transactionOut(namespaceID tenant.ID, t catalog.Transaction) api.Transaction {
	return api.Transaction{Id: prefixTransaction + t.ID, NamespaceId: namespaceID, Topic: t.Topic, ProducerGroup: t.Group, MessageId: some(t.MessageID),
		State: api.TransactionState(t.State), Checks: int32(t.Checks), SizeBytes: int32(t.Bytes), //nolint:gosec // checks are some dozens, a message has at most 4 MiB
		Broker: t.Broker, StoredAt: at(t.StoredAt), NextCheckAt: atPtr(t.NextCheckAt)}
}

// ListTransactions lists half messages that have not ended.
func (s *server) ListTransactions(gc context.Context, r ListTransactionsRequestObject) (ListTransactionsResponseObject, error) {
	c, ctx := enter(gc)
	if _, err := s.d.Tenants.Namespace(ctx, c.tenantID(), r.Ns); err != nil {
		return nil, err
	}
	if s.d.Messages == nil {
		return nil, errNoData()
	}
	q := catalog.TransactionQuery{NamespaceID: r.Ns, Topic: or(r.Params.Topic, ""), State: catalog.TransactionState(or(r.Params.State, "")),
		Limit: int(or(r.Params.PageSize, defaultPageSize))}
	var err error
	if q.Cursor, err = s.after(c, r.Params.PageToken); err != nil {
		return nil, err
	}
	page, err := s.d.Messages.Transactions(ctx, q)
	if err != nil {
		return nil, err
	}
	out := ListTransactions200JSONResponse{Items: []api.Transaction{}, NextPageToken: s.next(c, page.Next)}
	for _, t := range page.Transactions {
		if c.mayTopic(r.Ns, t.Topic) == nil {
			out.Items = append(out.Items, transactionOut(r.Ns, t))
		}
	}
	return out, nil
}

// settle decides about a transaction. Whether the caller may is known only when
// it is: from its topic.
func (s *server) settle(ctx context.Context, c *call, namespaceID, id string, action catalog.SettleAction, dryRun *bool) (api.TransactionSettled, error) {
	if _, err := s.d.Tenants.Namespace(ctx, c.tenantID(), namespaceID); err != nil {
		return api.TransactionSettled{}, err
	}
	if s.d.Messages == nil {
		return api.TransactionSettled{}, errNoData()
	}
	c.touches("transaction", id, namespaceID)
	return writeBrokers(ctx, s, c, dryRun, func(ctx context.Context, dry bool) (api.TransactionSettled, error) {
		out := api.TransactionSettled{Id: id, NamespaceId: namespaceID, Action: api.TransactionSettledAction(action)}
		topic, err := s.d.Messages.Settle(ctx, catalog.Settlement{NamespaceID: namespaceID, ID: strings.TrimPrefix(id, prefixTransaction), Action: action, DryRun: dry})
		if out.Topic = topic; err != nil || !dry {
			return out, err
		}
		if err := c.mayTopic(namespaceID, topic); err != nil {
			return out, err
		}
		return out, s.rulesAllowOne(ctx, c, tenant.ResourceTopic, topic, tenant.PermissionPub)
	})
}

// CommitTransaction delivers a half message.
func (s *server) CommitTransaction(gc context.Context, r CommitTransactionRequestObject) (CommitTransactionResponseObject, error) {
	c, ctx := enter(gc)
	out, err := s.settle(ctx, c, r.Ns, r.Id, catalog.SettleCommit, r.Params.DryRun)
	if err != nil {
		return nil, err
	}
	return CommitTransaction200JSONResponse(out), nil
}

// RollbackTransaction drops a half message.
func (s *server) RollbackTransaction(gc context.Context, r RollbackTransactionRequestObject) (RollbackTransactionResponseObject, error) {
	c, ctx := enter(gc)
	out, err := s.settle(ctx, c, r.Ns, r.Id, catalog.SettleRollback, r.Params.DryRun)
	if err != nil {
		return nil, err
	}
	return RollbackTransaction200JSONResponse(out), nil
}

// CheckTransaction lets the producer of a half message be asked again.
func (s *server) CheckTransaction(gc context.Context, r CheckTransactionRequestObject) (CheckTransactionResponseObject, error) {
	c, ctx := enter(gc)
	out, err := s.settle(ctx, c, r.Ns, r.Id, catalog.SettleCheck, r.Params.DryRun)
	if err != nil {
		return nil, err
	}
	return CheckTransaction200JSONResponse(out), nil
}
