package proxy

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/transaction"
)

// maxOrphanWindow is how long a producer may ask not to be asked.
const maxOrphanWindow = time.Hour

// orphanWindow is the age in seconds at which a producer wants to be asked
// first; "" is as the server likes.
func orphanWindow(p *v2.SystemProperties) (string, error) {
	if p.OrphanedTransactionRecoveryDuration == nil {
		return "", nil
	}
	d := p.OrphanedTransactionRecoveryDuration.AsDuration()
	if d < 0 || d > maxOrphanWindow {
		return "", failLimit(v2.Code_BAD_REQUEST, "recovery_duration_invalid", maxOrphanWindow.String(), "orphaned_transaction_recovery_duration is %v", d)
	}
	if d == 0 {
		return "", nil
	}
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10), nil
}

// transactionID is the place of a half message: all that it takes to end its
// transaction, from any process, before and after a restart of the server.
func transactionID(s broker.Sent) string {
	return fmt.Sprintf("%016X%016X", s.PhysicalOffset, s.QueueOffset)
}

func parseTransactionID(id string) (e transaction.End, ok bool) {
	if len(id) != 32 {
		return e, false
	}
	physical, err := strconv.ParseInt(id[:16], 16, 64)
	half, err2 := strconv.ParseInt(id[16:], 16, 64)
	return transaction.End{HalfOffset: half, PhysicalOffset: physical}, err == nil && err2 == nil
}

// EndTransaction takes a producer's decision, first or after a check.
func (s *service) EndTransaction(ctx context.Context, req *v2.EndTransactionRequest) (*v2.EndTransactionResponse, error) {
	return &v2.EndTransactionResponse{Status: s.f.serve(ctx, "end_transaction", func(c *call) error {
		return c.endTransaction(req)
	})}, nil
}

func (c *call) endTransaction(req *v2.EndTransactionRequest) error {
	if err := c.in(req.GetTopic()); err != nil {
		return err
	}
	topic, err := c.topic(req.GetTopic(), policy.OperationPub)
	if err != nil {
		return err
	}
	e, ok := parseTransactionID(req.GetTransactionId())
	if !ok {
		return fail(v2.Code_INVALID_TRANSACTION_ID, "transaction_id_invalid", "the transaction id is missing, or is not one that this server gave")
	}
	e.UniqueKey = req.GetMessageId()
	e.Allow = func(real string) error {
		if real != topic {
			return transaction.ErrUnknown
		}
		return nil
	}
	switch req.GetResolution() {
	case v2.TransactionResolution_COMMIT:
		e.Resolution = transaction.Commit
	case v2.TransactionResolution_ROLLBACK:
		e.Resolution = transaction.Rollback
	case v2.TransactionResolution_TRANSACTION_RESOLUTION_UNSPECIFIED:
	default:
		return fail(v2.Code_BAD_REQUEST, "resolution_invalid", "the resolution %d is neither COMMIT nor ROLLBACK", int32(req.GetResolution()))
	}
	return c.f.core.EndTransaction(c.ctx, e)
}

// ask hands a question about a transaction to one of the client's streams.
func (s *session) ask(q transaction.Check) transaction.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := transaction.Nobody
	for i := len(s.streams) - 1; i >= 0; i-- {
		select {
		case s.streams[i].checks <- q:
			return transaction.Asked
		default:
			answer = transaction.Busy
		}
	}
	return answer
}

// recover sends a question that was handed to the stream. One about a message
// that is gone, or that the caller may not publish any more, is left out: its
// turn comes again.
func (t *telemetry) recover(q transaction.Check) error {
	m, err := q.Message()
	if err != nil {
		return nil
	}
	if t.c.v.Still() != nil {
		return nil
	}
	topic := t.s.published(m.Topic)
	if topic == nil {
		return nil
	}
	if _, err := t.c.topic(topic, policy.OperationPub); err != nil {
		return nil
	}
	shown, done, err := t.c.shown(m, topic)
	if err != nil {
		return nil
	}
	defer done()
	shown.SystemProperties.MessageType = v2.MessageType_TRANSACTION
	return t.ts.Send(&v2.TelemetryCommand{
		Status: t.c.status(nil),
		Command: &v2.TelemetryCommand_RecoverOrphanedTransactionCommand{RecoverOrphanedTransactionCommand: &v2.RecoverOrphanedTransactionCommand{
			Message: shown, TransactionId: transactionID(broker.Sent{PhysicalOffset: q.PhysicalOffset, QueueOffset: q.HalfOffset}),
		}},
	})
}
