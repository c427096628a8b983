package proxy

import (
	"context"
	"strconv"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/sluicemq/sluice/dataplane/policy"
)

// maxAcks bounds the entries of one acknowledgement.
const maxAcks = 1000

// AckMessage ends deliveries. Each entry has a result of its own.
func (s *service) AckMessage(ctx context.Context, req *v2.AckMessageRequest) (*v2.AckMessageResponse, error) {
	resp := &v2.AckMessageResponse{}
	resp.Status = s.f.serve(ctx, "ack_message", func(c *call) (err error) {
		resp.Entries, err = c.ack(req)
		return err
	})
	if e := resp.Entries; len(e) > 0 && e[0].GetStatus().GetCode() == resp.Status.GetCode() {
		resp.Status = e[0].GetStatus() // all alike: the overall text is theirs
	}
	if resp.Entries == nil {
		// Some SDKs look at the entries only: each one says the same.
		for _, e := range req.GetEntries()[:min(len(req.GetEntries()), maxAcks)] {
			resp.Entries = append(resp.Entries, &v2.AckMessageResultEntry{MessageId: e.GetMessageId(), ReceiptHandle: e.GetReceiptHandle(), Status: resp.Status})
		}
	}
	return resp, nil
}

func (c *call) ack(req *v2.AckMessageRequest) ([]*v2.AckMessageResultEntry, error) {
	if n := len(req.GetEntries()); n == 0 || n > maxAcks {
		return nil, failLimit(v2.Code_BAD_REQUEST, "ack_invalid", strconv.Itoa(maxAcks)+" entries", "the request acknowledges %d messages", n)
	}
	topic, group, err := c.consuming(req.GetTopic(), req.GetGroup())
	if err != nil {
		return nil, err
	}
	s := c.known()
	entries := make([]*v2.AckMessageResultEntry, len(req.GetEntries()))
	for i, e := range req.GetEntries() {
		s.release(e.GetReceiptHandle())
		status := done(v2.Code_OK)
		if err := c.f.core.Ack(group, topic, e.GetReceiptHandle()); err != nil {
			status = c.status(err)
		}
		entries[i] = &v2.AckMessageResultEntry{MessageId: e.GetMessageId(), ReceiptHandle: e.GetReceiptHandle(), Status: status}
		switch {
		case i == 0:
			c.code = status.GetCode()
		case c.code != status.GetCode():
			c.code = v2.Code_MULTIPLE_RESULTS
		}
	}
	return entries, nil
}

// consuming admits the caller to consume a topic with a group.
func (c *call) consuming(topic, group *v2.Resource) (physicalTopic, physicalGroup string, err error) {
	if err = c.in(topic, group); err != nil {
		return "", "", err
	}
	if physicalTopic, err = c.topic(topic, policy.OperationSub); err != nil {
		return "", "", err
	}
	physicalGroup, err = c.group(group, policy.OperationSub)
	return physicalTopic, physicalGroup, err
}

// ChangeInvisibleDuration makes a received message come again at another time.
// The handle is answered in any case: SDKs overwrite theirs with it.
func (s *service) ChangeInvisibleDuration(ctx context.Context, req *v2.ChangeInvisibleDurationRequest) (*v2.ChangeInvisibleDurationResponse, error) {
	resp := &v2.ChangeInvisibleDurationResponse{ReceiptHandle: req.GetReceiptHandle()}
	resp.Status = s.f.serve(ctx, "change_invisible_duration", func(c *call) error {
		topic, group, err := c.consuming(req.GetTopic(), req.GetGroup())
		if err != nil {
			return err
		}
		d := req.GetInvisibleDuration().AsDuration()
		if req.GetInvisibleDuration() == nil || d < 0 || d > maxInvisible {
			return failLimit(v2.Code_ILLEGAL_INVISIBLE_TIME, "invisible_time_invalid", "0s to 12h", "the invisible time %v is out of range", d)
		}
		if req.GetSuspend() {
			return notYet("suspending a message without counting its delivery is not supported yet")
		}
		c.known().release(req.GetReceiptHandle())
		handle, err := s.f.core.ChangeInvisible(group, topic, req.GetReceiptHandle(), d)
		if handle != "" {
			resp.ReceiptHandle = handle
		}
		return err
	})
	return resp, nil
}

// ForwardMessageToDeadLetterQueue moves a received message to the dead letters
// of its group. One SDK names it by message id alone; then it must be one that
// the client holds.
func (s *service) ForwardMessageToDeadLetterQueue(ctx context.Context, req *v2.ForwardMessageToDeadLetterQueueRequest) (*v2.ForwardMessageToDeadLetterQueueResponse, error) {
	return &v2.ForwardMessageToDeadLetterQueueResponse{Status: s.f.serve(ctx, "forward_to_dead_letter_queue", func(c *call) error {
		topic, group, err := c.consuming(req.GetTopic(), req.GetGroup())
		if err != nil {
			return err
		}
		held, handle := c.known(), req.GetReceiptHandle()
		if handle == "" {
			handle = held.find(group, topic, req.GetMessageId())
		}
		held.release(handle)
		return s.f.core.DeadLetter(ctx, group, topic, handle)
	})}, nil
}
