package proxy

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// RecallMessage takes back a message that waits for its time, and answers its
// id.
func (s *service) RecallMessage(ctx context.Context, req *v2.RecallMessageRequest) (*v2.RecallMessageResponse, error) {
	resp := &v2.RecallMessageResponse{}
	resp.Status = s.f.serve(ctx, "recall_message", func(c *call) error {
		t, err := c.topicConfig(req.GetTopic(), policy.OperationPub)
		if err != nil {
			return err
		}
		back, err := c.f.core.ParseRecall(req.GetRecallHandle())
		if err != nil {
			return err
		}
		if named, err := c.v.Topic(back.Topic, policy.OperationPub); err != nil || named != t.TopicName {
			return &broker.Error{Code: broker.CodeBadRecall, Text: "the recall handle is of a message of another topic", Topic: t.TopicName}
		}
		if _, err := c.f.core.Recall(c.ctx, t.TopicName, back); err != nil {
			return err
		}
		resp.MessageId = back.Unique
		return nil
	})
	return resp, nil
}
