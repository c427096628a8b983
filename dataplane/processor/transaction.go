package processor

import (
	"strings"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/transaction"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// endings says what the protocol's numbers mean: the transaction bits of a
// record's sysFlag.
var endings = map[int32]transaction.Resolution{
	0: transaction.Unknown, message.SysFlagCommit: transaction.Commit, message.SysFlagRollback: transaction.Rollback,
}

// endTransaction answers a producer's decision, first or after a check.
func (p *Processor) endTransaction(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	group := fields.Text("producerGroup")
	e := transaction.End{HalfOffset: fields.Int64("tranStateTableOffset"), PhysicalOffset: fields.Int64("commitLogOffset")}
	resolution := fields.Int32("commitOrRollback")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	var known bool
	if e.Resolution, known = endings[resolution]; !known {
		return nil, &wire.FieldError{Field: "commitOrRollback", Problem: "must be 0 (unknown), 8 (commit) or 12 (rollback)"}
	}
	if e.HalfOffset < 0 {
		return nil, &wire.FieldError{Field: "tranStateTableOffset", Problem: "must not be negative"}
	}
	v, err := p.charged(r, group, halfName(fields.Optional("topic")))
	if err != nil {
		return nil, err
	}
	if e.Group, err = v.Producer(group); err != nil {
		return nil, err
	}
	e.Allow = mayPublish(v)
	if err := p.b.EndTransaction(r.ctx, e); err != nil {
		return nil, err
	}
	return r.ok(), nil
}

// halfName is the topic that a decision names, if that says anything: some
// clients name the topic in which half messages wait.
func halfName(topic string) string {
	if strings.HasPrefix(topic, "RMQ_SYS_") {
		return ""
	}
	return topic
}

// mayPublish lets a caller decide about messages that it might have sent. What
// belongs to another namespace is not there at all.
func mayPublish(v *policy.View) func(topic string) error {
	return func(topic string) error {
		shown := v.ShowTopic(topic)
		if shown == "" {
			return transaction.ErrUnknown
		}
		_, err := v.Topic(shown, policy.OperationPub)
		return err
	}
}

// resumeCheck asks about a half message from the beginning again.
func (p *Processor) resumeCheck(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	id, topic := fields.Text("msgId"), fields.Optional("topic")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	_, offset, err := message.ParseOffsetID(id)
	if err != nil {
		return nil, &wire.FieldError{Field: "msgId", Problem: "is not the offset id of a half message"}
	}
	v, err := p.charged(r, halfName(topic))
	if err != nil {
		return nil, err
	}
	if err := p.b.ResumeTransaction(r.ctx, transaction.End{HalfOffset: -1, PhysicalOffset: offset, Allow: mayPublish(v)}); err != nil {
		return nil, err
	}
	return r.ok(), nil
}

// ask pushes a question about a transaction to a client of this connection. A
// client whose key may not publish to the topic does not see the message.
func (s *connState) ask(id string, c transaction.Check) transaction.Answer {
	s.mu.Lock()
	view := s.views[id]
	s.mu.Unlock()
	if view == nil {
		return transaction.Nobody
	}
	v, err := view()
	if err != nil || mayPublish(v)(c.Topic) != nil {
		return transaction.Nobody
	}
	m, err := c.Message()
	if err != nil {
		return transaction.Busy // looked at again soon
	}
	m.Topic = v.ShowTopic(m.Topic)
	m.Properties = policy.ShowProperties(v, m.Properties)
	body, err := message.AppendRecord(nil, m)
	if err != nil {
		return transaction.Nobody
	}
	f := wire.Request(wire.CheckTransactionState, body)
	f.Ext.Add("topic", m.Topic)
	f.Ext.AddInt("tranStateTableOffset", c.HalfOffset)
	f.Ext.AddInt("commitLogOffset", c.PhysicalOffset)
	f.Ext.Add("msgId", c.UniqueKey)
	f.Ext.Add("transactionId", c.UniqueKey)
	f.Ext.Add("offsetMsgId", message.OffsetID(m.StoreHost, c.PhysicalOffset))
	f.Ext.Add("bname", s.b.Config().Name)
	if s.conn.OneWay(f) != nil {
		return transaction.Busy // or closing: then it is no member for long
	}
	return transaction.Asked
}
