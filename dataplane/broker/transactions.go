package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/transaction"
)

// newTransactions makes the coordinator of the broker's transactions.
func newTransactions(b *Broker, deps Deps) (*transaction.Coordinator, error) {
	return transaction.New(b.cfg.Transactions, transaction.Deps{
		Store: b.store, FS: deps.FS, Dir: b.cfg.Dir, Progress: transactionProgress{b.offsets}, Now: b.now, Logger: b.log,
		Host: b.cfg.StoreHost, OwnerKey: OwnerKey, Deliver: b.deliverCommitted, Ask: b.askProducer,
		Topic: func(name string) bool {
			_, ok := b.store.Topic(name)
			return ok
		},
	})
}

// transactionProgress keeps the offsets where a RocketMQ broker looks for them.
type transactionProgress struct{ o *offsets }

// Get implements transaction.Progress.
func (p transactionProgress) Get(topic string) int64 {
	offset, _ := p.o.get(transaction.Group, topic, 0)
	return offset
}

// Set implements transaction.Progress.
func (p transactionProgress) Set(topic string, offset int64) {
	p.o.set(transaction.Group, topic, 0, offset)
}

// checkTransactions looks for transactions that are due, each second, until ctx
// ends.
func (b *Broker) checkTransactions(ctx context.Context) error {
	tick := func() {
		if err := b.transactions.Tick(ctx); err != nil && ctx.Err() == nil {
			b.log.Error("transactions were not checked; trying again", "err", err)
		}
	}
	tick() // reads what the last process left: until then no transaction ends
	c := cron.New(cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger)))
	c.Schedule(cron.Every(time.Second), cron.FuncJob(tick))
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	return nil
}

// sendHalf stores the first half of a transaction out of sight. The result is
// its place there, which the producer names when it decides.
func (b *Broker) sendHalf(ctx context.Context, who Caller, m *message.Message) (Sent, error) {
	if err := checkHalf(m); err != nil {
		return Sent{}, err
	}
	if err := b.checkSizes(m); err != nil {
		return Sent{}, err
	}
	if err := b.chooseQueue(m); err != nil {
		return Sent{}, err
	}
	b.addProperties(who, m, nil)
	b.addHosts(m)
	a, err := b.transactions.Send(ctx, m)
	if errors.Is(err, transaction.ErrTooMany) {
		return Sent{}, &Error{
			Code: CodeBusy, Text: "the namespace has too many open transactions: commit or roll back some first",
			Limit: strconv.Itoa(b.cfg.Transactions.MaxOpen),
		}
	}
	if err != nil {
		return Sent{}, fromStore(err)
	}
	return b.sent(m.QueueID, a), nil
}

func checkHalf(m *message.Message) *Error {
	if t := m.SysFlag & message.SysFlagTransaction; t != 0 && t != message.SysFlagPrepared {
		return fail(CodeIllegalMessage, "sysFlag says that the message is a commit or a rollback: a transaction ends by END_TRANSACTION")
	}
	group := ""
	for k, v := range message.Properties(m.Properties) {
		switch string(k) {
		case message.KeyProducerGroup:
			group = string(v)
		case message.KeyDelay, message.KeyTimerDelaySec, message.KeyTimerDelayMs, message.KeyTimerDeliverMs:
			if n, err := strconv.ParseInt(string(v), 10, 64); err != nil || n > 0 {
				return fail(CodeIllegalMessage, "a transactional message cannot be delayed: property %s", k)
			}
		case message.KeyMultiDispatch:
			return fail(CodeIllegalMessage, "a transactional message cannot go to light queues: property %s", k)
		}
	}
	if group == "" {
		return fail(CodeIllegalMessage, "a transactional message names its producer group in the property %s, who is asked what became of it", message.KeyProducerGroup)
	}
	return nil
}

// deliverCommitted stores a message whose transaction was committed. It was
// charged when it was sent.
func (b *Broker) deliverCommitted(ctx context.Context, m *message.Message) error {
	t, ok := b.store.Topic(m.Topic)
	if !ok {
		return topicNotFound(m.Topic)
	}
	if n := max(t.WriteQueueNums, 1); m.QueueID < 0 || int(m.QueueID) >= n {
		m.QueueID = b.next.pick(n)
	}
	m.Properties = message.AppendPropertiesWithout(nil, m.Properties, OwnerKey)
	_, err := b.append(ctx, m)
	return err
}

// EndTransaction delivers or drops a half message; see transaction.End.
func (b *Broker) EndTransaction(ctx context.Context, e transaction.End) error {
	return fromTransaction(b.transactions.End(ctx, e))
}

// ResumeTransaction asks about a half message from the beginning again.
func (b *Broker) ResumeTransaction(ctx context.Context, e transaction.End) error {
	return fromTransaction(b.transactions.Resume(ctx, e))
}

// Transactions lists those of a namespace that have not ended; see
// transaction.List.
func (b *Broker) Transactions(ctx context.Context, namespace, topic string, from int64, limit int) ([]transaction.Info, int64, error) {
	return b.transactions.List(ctx, namespace, topic, from, limit)
}

// TransactionCounts are for metrics.
func (b *Broker) TransactionCounts() transaction.Counts { return b.transactions.Counts() }

func fromTransaction(err error) error {
	var own *Error
	switch {
	case err == nil || errors.As(err, &own) || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, transaction.ErrUnknown):
		return fail(CodeTransactionUnknown, "there is no half message of this producer group at this place")
	case errors.Is(err, transaction.ErrEnded):
		return fail(CodeTransactionEnded, "the transaction has already ended the other way")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, store.ErrIndexing):
		return &Error{Code: CodeBusy, Text: "the transaction could not be looked up in time: try again", Err: err}
	}
	return fromStore(err)
}

// askProducer puts a question to one member of the producer group, another one
// each time.
func (b *Broker) askProducer(c transaction.Check) transaction.Answer {
	clients := b.Producers(c.Group)
	if len(clients) == 0 {
		return transaction.Nobody
	}
	slices.SortFunc(clients, func(x, y *Client) int {
		return cmp.Or(strings.Compare(x.ID, y.ID), strings.Compare(x.Address, y.Address))
	})
	start, out := int(b.next.pick(len(clients))), transaction.Nobody
	for i := range clients {
		ask := clients[(start+i)%len(clients)].Ask
		if ask == nil {
			continue
		}
		switch ask(c) {
		case transaction.Asked:
			return transaction.Asked
		case transaction.Busy:
			out = transaction.Busy
		}
	}
	return out
}
