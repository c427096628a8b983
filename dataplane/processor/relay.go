package processor

import (
	"context"
	"errors"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// relayTime is how long a consumer may take to answer what is relayed to it.
const relayTime = 10 * time.Second

// relay puts a question to one consumer of a group, by its client id, and
// returns its answer. The names in fields are those that the client knows.
func (p *Processor) relay(r *request, group, id string, body []byte, fields ...string) (*wire.Frame, error) {
	m, _ := p.b.Members(group)
	var state *connState
	for _, c := range m.Clients {
		if s, ok := p.conns.Load(c); ok && c.ID == id {
			state = s.(*connState)
		}
	}
	if state == nil {
		return nil, &broker.Error{Code: broker.CodeNotOnline, Text: "the group has no consumer of this client id that can be asked", Group: group}
	}
	f := wire.Request(r.f.Code, body)
	f.Ext.Add("consumerGroup", state.nameOf(group))
	f.Ext.Add("clientId", id)
	for i := 0; i+1 < len(fields); i += 2 {
		f.Ext.AddOptional(fields[i], fields[i+1])
	}
	ctx, cancel := context.WithTimeout(r.ctx, relayTime)
	defer cancel()
	resp, err := state.conn.Invoke(ctx, f)
	if errors.Is(err, context.DeadlineExceeded) {
		return p.reply(r, wire.ConsumeMsgTimeout, "consumer_did_not_answer", "the consumer did not answer in time", relayTime.String()), nil
	}
	if err != nil {
		return nil, &broker.Error{Code: broker.CodeNotOnline, Text: "the consumer could not be asked", Group: group, Err: err}
	}
	out := r.f.Reply(resp.Code, resp.Remark)
	out.Body = resp.Body
	return out, nil
}

// nameOf is what the clients of the connection call a group.
func (s *connState) nameOf(group string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown[group]
}

// runningInfo asks a consumer what it is doing.
func (p *Processor) runningInfo(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	id, jstack := fields.Text("clientId"), fields.OptionalBool("jstackEnable", false)
	if err := fields.Err(); err != nil {
		return nil, err
	}
	group, err := p.groupOf(r, "consumerGroup")
	if err != nil {
		return nil, err
	}
	stack := ""
	if jstack {
		stack = "true"
	}
	return p.relay(r, group, id, nil, "jstackEnable", stack)
}

// consumeDirectly has one consumer consume one message, out of turn: to see
// what it does with it. Nothing moves by that.
func (p *Processor) consumeDirectly(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	groupName, id, msgID := fields.Text("consumerGroup"), fields.Text("clientId"), fields.Text("msgId")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	_, offset, err := message.ParseOffsetID(msgID)
	if err != nil {
		return nil, &wire.FieldError{Field: "msgId", Problem: "is not the offset id of a message"}
	}
	v, err := p.charged(r, groupName)
	if err != nil {
		return nil, err
	}
	group, err := v.Group(groupName, policy.OperationSub)
	if err != nil {
		return nil, err
	}
	rec, err := p.b.View(offset, readable(v))
	if err != nil {
		return nil, err
	}
	body, err := (&shown{v: v}).append(nil, rec)
	if err != nil {
		return nil, err
	}
	return p.relay(r, group, id, body, "msgId", msgID, "brokerName", p.b.Config().Name)
}

// timeSpan tells, for each queue of a topic, from when to when its messages
// are, and how far behind a group is.
func (p *Processor) timeSpan(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("topic")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	group, err := p.groupOf(r, "group")
	if err != nil {
		return nil, err
	}
	topic, err := r.v.TopicAny(name, policy.OperationSub, policy.OperationDescribe)
	if err != nil {
		return nil, err
	}
	spans, err := p.b.TimeSpans(group, topic)
	if err != nil {
		return nil, err
	}
	out := wire.TimeSpans{Spans: make([]wire.TimeSpan, len(spans))}
	for i, s := range spans {
		out.Spans[i] = wire.TimeSpan{
			Queue:        wire.MessageQueue{BrokerName: p.b.Config().Name, QueueID: s.QueueID, Topic: r.v.ShowTopic(topic)},
			MinTimestamp: s.First, MaxTimestamp: s.Last, ConsumeTimestamp: s.Consumed, DelayTime: s.Behind.Milliseconds(),
		}
	}
	return r.json(out)
}
