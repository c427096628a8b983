package processor

import (
	"maps"
	"slices"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// recall answers RecallMessage: it takes back a message that waits for its time.
func (p *Processor) recall(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	bare, handle := fields.Text("topic"), fields.Text("recallHandle")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.charged(r, bare)
	if err != nil {
		return nil, err
	}
	topic, err := v.Topic(bare, policy.OperationPub)
	if err != nil {
		return nil, err
	}
	back, err := p.b.ParseRecall(handle)
	if err != nil {
		return nil, err
	}
	if named, err := v.Topic(back.Topic, policy.OperationPub); err != nil || named != topic {
		return nil, &broker.Error{Code: broker.CodeBadRecall, Text: "the recall handle is of a message of another topic", Topic: topic}
	}
	if _, err := p.b.Recall(r.ctx, topic, back); err != nil {
		return nil, err
	}
	resp := r.ok()
	resp.Ext = make(wire.Fields, 0, 1)
	resp.Ext.Add("msgId", back.Unique)
	return resp, nil
}

// timerMetric is what waits for one topic. The first two fields are RocketMQ's.
type timerMetric struct {
	Count     int64 `json:"count"`
	TimeStamp int64 `json:"timeStamp"` // ms, of the answer
	NextDue   int64 `json:"nextDue"`   // ms, when the next of them is wanted
}

// timerMetrics answers GetTimerMetrics: the messages that wait for a time of
// their own, by topic.
func (p *Processor) timerMetrics(r *request) (*wire.Frame, error) {
	topics, _ := p.b.Topics()
	waiting, err := p.b.TimerTopics(slices.Collect(maps.Keys(topics)))
	if err != nil {
		return nil, err
	}
	now := p.now().UnixMilli()
	counts := make(map[string]timerMetric, len(waiting))
	for topic, s := range waiting {
		counts[topic] = timerMetric{Count: s.Pending, TimeStamp: now, NextDue: s.NextDue.UnixMilli()}
	}
	return r.json(map[string]any{"timingCount": counts})
}
