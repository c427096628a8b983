package processor

import (
	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// maxLocks is the most queues that one lock request may name.
const maxLocks = 8192

// lockRequest reads and maps a lock body. Queues of this broker only count;
// sent holds the client's own name for each mapped queue.
func (p *Processor) lockRequest(r *request) (body wire.LockRequest, group string, queues []broker.QueueRef, sent map[broker.QueueRef]wire.MessageQueue, err error) {
	if err = wire.Unmarshal(r.f.Body, &body); err != nil {
		return
	}
	if body.ClientID == "" || len(body.ClientID) > maxClientID {
		err = &wire.FieldError{Field: "clientId", Problem: "must have 1 to 255 bytes"}
		return
	}
	if len(body.Queues) > maxLocks {
		err = &wire.FieldError{Field: "mqSet", Problem: "names over 8192 queues"}
		return
	}
	v, err := p.view(r, body.ConsumerGroup)
	if err != nil {
		return
	}
	if group, err = v.Group(body.ConsumerGroup, policy.OperationSub); err != nil {
		return
	}
	sent = make(map[broker.QueueRef]wire.MessageQueue, len(body.Queues))
	for _, q := range body.Queues {
		var topic string
		if topic, err = v.Topic(q.Topic, policy.OperationSub); err != nil {
			return
		}
		ref := broker.QueueRef{Topic: topic, QueueID: q.QueueID}
		sent[ref] = q
		queues = append(queues, ref)
	}
	return
}

func (p *Processor) lock(r *request) (*wire.Frame, error) {
	body, group, queues, sent, err := p.lockRequest(r)
	if err != nil {
		return nil, err
	}
	owned, err := p.b.LockQueues(group, body.ClientID, queues)
	if err != nil {
		return nil, err
	}
	reply := struct {
		Queues []wire.MessageQueue `json:"lockOKMQSet"`
	}{make([]wire.MessageQueue, 0, len(owned))}
	for _, ref := range owned {
		reply.Queues = append(reply.Queues, sent[ref])
	}
	return r.json(reply)
}

func (p *Processor) unlock(r *request) (*wire.Frame, error) {
	body, group, queues, _, err := p.lockRequest(r)
	if err != nil {
		return nil, err
	}
	p.b.UnlockQueues(group, body.ClientID, queues)
	return r.ok(), nil
}

// sendBack answers a consumer that could not process a message.
func (p *Processor) sendBack(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("group")
	back := broker.SendBack{
		Offset: fields.Int64("offset"), DelayLevel: int(fields.Int32("delayLevel")), MaxReconsume: fields.OptionalInt32("maxReconsumeTimes", -1),
	}
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.charged(r, name)
	if err != nil {
		return nil, err
	}
	if back.Group, err = v.Group(name, policy.OperationSub); err != nil {
		return nil, err
	}
	back.Allowed = readable(v)
	if err := p.b.SendBack(r.ctx, back); err != nil {
		return nil, err
	}
	return r.ok(), nil
}
