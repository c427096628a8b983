package processor

import (
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/transaction"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// listTransactions lists the half messages of a namespace that have not ended.
func (p *Processor) listTransactions(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	namespace, topic := fields.Text("namespace"), fields.Optional("topic")
	from, limit := fields.OptionalInt64("from", 0), fields.OptionalInt32("limit", transaction.MaxListed)
	if err := fields.Err(); err != nil {
		return nil, err
	}
	list, next, err := p.b.Transactions(r.ctx, namespace, topic, from, int(limit))
	if err != nil {
		return nil, err
	}
	out := wire.TransactionList{BrokerName: p.b.Config().Name, Transactions: make([]wire.Transaction, len(list)), Next: next}
	for i, t := range list {
		out.Transactions[i] = wire.Transaction{
			HalfOffset: t.HalfOffset, PhysicalOffset: t.PhysicalOffset, Topic: t.Topic, Group: t.Group, UniqueKey: t.UniqueKey, Stored: t.Stored,
			NextCheck: t.NextCheck, Checks: t.Checks, GivenUp: t.State == transaction.StateGivenUp, Bytes: t.Bytes,
		}
	}
	return r.json(out)
}

// settleTransaction ends a half message, or lets its producer be asked again,
// on behalf of somebody who may. What became of it is in the field "outcome",
// the topic in "topic": no code of the protocol tells the outcomes apart.
func (p *Processor) settleTransaction(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	namespace, how := fields.Text("namespace"), fields.Text("how")
	e := transaction.End{HalfOffset: fields.Int64("halfOffset"), PhysicalOffset: fields.Int64("physicalOffset")}
	if err := fields.Err(); err != nil {
		return nil, err
	}
	if e.HalfOffset < 0 {
		return nil, &wire.FieldError{Field: "halfOffset", Problem: "must not be negative"}
	}
	topic := ""
	e.Allow = func(name string) error {
		_, ns, _, ok := policy.SplitPhysical(name)
		if !ok || ns != namespace {
			return transaction.ErrUnknown
		}
		topic = name
		return nil
	}
	settle := p.b.EndTransaction
	switch how {
	case wire.SettleLook:
	case wire.SettleCommit:
		e.Resolution = transaction.Commit
	case wire.SettleRollback:
		e.Resolution = transaction.Rollback
	case wire.SettleCheck:
		settle = p.b.ResumeTransaction
	default:
		return nil, &wire.FieldError{Field: "how", Problem: fmt.Sprintf("is %q: none of look, commit, rollback, check", how)}
	}
	outcome := wire.SettledDone
	var core *broker.Error
	switch err := settle(r.ctx, e); {
	case errors.As(err, &core) && core.Code == broker.CodeTransactionUnknown:
		outcome = wire.SettledUnknown
	case errors.As(err, &core) && core.Code == broker.CodeTransactionEnded:
		outcome = wire.SettledEnded
	case err != nil:
		return nil, err
	}
	resp := r.ok()
	resp.Ext.Add("outcome", outcome)
	resp.Ext.Add("topic", topic)
	return resp, nil
}
