package processor

import (
	"slices"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// previewField is ours: with it a reset only tells what it would do.
const previewField = "__SLUICE_PREVIEW"

// resetOffset moves a group. Its consumers hear of it with their next pull, so
// it works whether they are online or not. The answer has, beside the places
// as RocketMQ's tools read them, for each queue where the group was.
func (p *Processor) resetOffset(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	topicName, groupName := fields.Text("topic"), fields.Text("group")
	q := broker.Reset{
		QueueID: fields.OptionalInt32("queueId", -1), Offset: fields.OptionalInt64("offset", -1), Time: fields.OptionalInt64("timestamp", -1),
	}
	preview := fields.OptionalBool(previewField, false)
	if err := fields.Err(); err != nil {
		return nil, err
	}
	switch {
	case q.QueueID < -1:
		return nil, &wire.FieldError{Field: "queueId", Problem: "must be a queue, or -1 for all"}
	case q.Offset < -1:
		return nil, &wire.FieldError{Field: "offset", Problem: "must be an offset, or -1 for a reset by time"}
	case q.Time < -1:
		return nil, &wire.FieldError{Field: "timestamp", Problem: "must be a time in ms, or -1 for the end"}
	}
	v, err := p.charged(r, topicName, groupName)
	if err != nil {
		return nil, err
	}
	if q.Topic, err = v.Topic(topicName, policy.OperationSub); err != nil {
		return nil, err
	}
	if q.Group, err = v.Group(groupName, policy.OperationSub); err != nil {
		return nil, err
	}
	reset := p.b.ResetOffsets
	if preview {
		reset = p.b.PreviewReset
	}
	done, err := reset(q)
	if err != nil {
		return nil, err
	}
	queues, to := make([]wire.MessageQueue, len(done)), make([]int64, len(done))
	for i, d := range done {
		queues[i], to[i] = wire.MessageQueue{BrokerName: p.b.Config().Name, QueueID: d.QueueID, Topic: v.ShowTopic(q.Topic)}, d.To
	}
	if v.System() {
		out := make([]wire.ResetQueue, len(done))
		for i, d := range done {
			out[i] = wire.ResetQueue{BrokerName: p.b.Config().Name, QueueID: d.QueueID, From: d.From, To: d.To, Min: d.Min, Max: d.Max}
		}
		return r.json(out)
	}
	resp := r.ok()
	resp.Body, err = wire.AppendQueueTable(nil, "offsetTable", queues, to, "")
	return resp, err
}

// cloneOffset gives a group the places of another, in one topic or in all that
// the other has consumed.
func (p *Processor) cloneOffset(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	fromName, toName, topicName := fields.Text("srcGroup"), fields.Text("destGroup"), fields.Optional("topic")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.charged(r, fromName, toName, topicName)
	if err != nil {
		return nil, err
	}
	from, err := v.Group(fromName, policy.OperationSub)
	if err != nil {
		return nil, err
	}
	to, err := v.Group(toName, policy.OperationSub)
	if err != nil {
		return nil, err
	}
	var topics []string
	if topicName != "" {
		topic, err := v.Topic(topicName, policy.OperationSub)
		if err != nil {
			return nil, err
		}
		topics = []string{topic}
	} else if topics, err = p.topicsOf(v, from); err != nil {
		return nil, err
	}
	for _, topic := range topics {
		if topic == broker.RetryTopic(from) {
			continue // belongs to its group
		}
		if err := p.b.CloneOffsets(from, to, topic); err != nil {
			return nil, err
		}
	}
	return r.ok(), nil
}

// topicsOf are the topics that a group has consumed and the caller may look at.
func (p *Processor) topicsOf(v *policy.View, group string) ([]string, error) {
	all, err := p.b.TopicsOf(group)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(topic string) bool { return !readable(v)(topic) }), nil
}

// topicsOfGroup lists the topics that a group has consumed.
func (p *Processor) topicsOfGroup(r *request) (*wire.Frame, error) {
	group, err := p.groupOf(r, "group")
	if err != nil {
		return nil, err
	}
	topics, err := p.topicsOf(r.v, group)
	if err != nil {
		return nil, err
	}
	list := wire.TopicList{Topics: make([]string, len(topics))}
	for i, topic := range topics {
		list.Topics[i] = r.v.ShowTopic(topic)
	}
	return r.json(list)
}

// subscriptionOfGroup tells what a group wants, or wanted last, of a topic.
func (p *Processor) subscriptionOfGroup(r *request) (*wire.Frame, error) {
	group, err := p.groupOf(r, "group")
	if err != nil {
		return nil, err
	}
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("topic")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	topic, err := r.v.TopicAny(name, policy.OperationSub, policy.OperationDescribe)
	if err != nil {
		return nil, err
	}
	out := wire.GroupSubscription{Group: r.v.ShowGroup(group), Topic: r.v.ShowTopic(topic)}
	if s, ok := p.b.Subscribed(group, topic); ok {
		out.Subscription = &wire.Subscription{
			Topic: out.Topic, SubString: s.Expression, ExpressionType: s.ExpressionType, TagsSet: append([]string{}, s.Tags...), SubVersion: wire.Int(s.Version),
		}
	}
	return r.json(out)
}
