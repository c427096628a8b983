package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/store"
)

// The offset calls. Official SDKs do not use them; tools may.

// UpdateOffset sets a group's offset in a queue. It must lie within the queue.
func (s *service) UpdateOffset(ctx context.Context, req *v2.UpdateOffsetRequest) (*v2.UpdateOffsetResponse, error) {
	return &v2.UpdateOffsetResponse{Status: s.f.serve(ctx, "update_offset", func(c *call) error {
		q := req.GetMessageQueue()
		topic, group, err := c.consuming(q.GetTopic(), req.GetGroup())
		if err != nil {
			return err
		}
		if err := c.within(topic, q.GetId(), req.GetOffset()); err != nil {
			return err
		}
		return s.f.core.CommitOffset(group, topic, q.GetId(), req.GetOffset())
	})}, nil
}

// within refuses an offset outside of the queue.
func (c *call) within(topic string, queue int32, offset int64) error {
	low, top, err := c.f.core.QueueRange(topic, queue)
	if err != nil {
		return err
	}
	if offset < 0 || offset > top {
		return failLimit(v2.Code_ILLEGAL_OFFSET, "offset_invalid", strconv.FormatInt(low, 10)+" to "+strconv.FormatInt(top, 10), "offset %d is not in the queue", offset)
	}
	return nil
}

// GetOffset answers a group's offset in a queue.
func (s *service) GetOffset(ctx context.Context, req *v2.GetOffsetRequest) (*v2.GetOffsetResponse, error) {
	resp := &v2.GetOffsetResponse{}
	resp.Status = s.f.serve(ctx, "get_offset", func(c *call) error {
		q := req.GetMessageQueue()
		topic, group, err := c.consuming(q.GetTopic(), req.GetGroup())
		if err != nil {
			return err
		}
		offset, found, err := s.f.core.Offset(group, topic, q.GetId(), true)
		if err != nil {
			return err
		}
		if !found {
			return fail(v2.Code_OFFSET_NOT_FOUND, "offset_not_found", "the group has no offset in this queue yet")
		}
		resp.Offset = offset
		return nil
	})
	return resp, nil
}

// QueryOffset answers the offset of a queue's begin, end, or of a time.
func (s *service) QueryOffset(ctx context.Context, req *v2.QueryOffsetRequest) (*v2.QueryOffsetResponse, error) {
	resp := &v2.QueryOffsetResponse{}
	resp.Status = s.f.serve(ctx, "query_offset", func(c *call) error {
		q := req.GetMessageQueue()
		if err := c.in(q.GetTopic()); err != nil {
			return err
		}
		topic, err := c.topic(q.GetTopic(), policy.OperationSub, policy.OperationDescribe)
		if err != nil {
			return err
		}
		low, top, err := s.f.core.QueueRange(topic, q.GetId())
		if err != nil {
			return err
		}
		switch req.GetQueryOffsetPolicy() {
		case v2.QueryOffsetPolicy_BEGINNING:
			resp.Offset = low
		case v2.QueryOffsetPolicy_END:
			resp.Offset = top
		case v2.QueryOffsetPolicy_TIMESTAMP:
			if !req.GetTimestamp().IsValid() {
				return fail(v2.Code_BAD_REQUEST, "timestamp_invalid", "the request asks for a time but names none")
			}
			resp.Offset, err = s.f.core.OffsetByTime(topic, q.GetId(), req.GetTimestamp().AsTime().UnixMilli(), store.BoundaryLower)
			return err
		default:
			return fail(v2.Code_BAD_REQUEST, "offset_policy_invalid", "unknown offset policy %d", int32(req.GetQueryOffsetPolicy()))
		}
		return nil
	})
	return resp, nil
}

// pulled is the answer of one pull, for whoever comes last of the core, which
// answers, and the caller, who may have left.
type pulled struct {
	mu   sync.Mutex
	left bool
	done chan struct{}
	out  broker.Pulled
	err  error
}

// PullMessage reads a queue from an offset on, without taking messages from
// the group.
func (s *service) PullMessage(req *v2.PullMessageRequest, ps grpc.ServerStreamingServer[v2.PullMessageResponse]) error {
	c := s.f.newCall(ps.Context(), "pull_message")
	var messages []message.Message
	next := req.GetOffset()
	status := c.run(func() error {
		if err := c.begin(); err != nil {
			return err
		}
		ctx, done := s.f.watches.add(ps.Context(), c)
		defer done()
		var err error
		messages, next, err = c.pull(ctx, req)
		return err
	})
	if status.GetCode() == v2.Code_OK && len(messages) == 0 {
		status = &v2.Status{Code: v2.Code_MESSAGE_NOT_FOUND, Message: "no new message"}
	}
	if err := ps.Send(&v2.PullMessageResponse{Content: &v2.PullMessageResponse_Status{Status: status}}); err != nil {
		return err
	}
	for i := range messages {
		m, done, err := c.shown(&messages[i], req.GetMessageQueue().GetTopic())
		if err != nil {
			return err
		}
		err = ps.Send(&v2.PullMessageResponse{Content: &v2.PullMessageResponse_Message{Message: m}})
		done()
		if err != nil {
			return err
		}
	}
	return ps.Send(&v2.PullMessageResponse{Content: &v2.PullMessageResponse_NextOffset{NextOffset: next}})
}

func (c *call) pull(ctx context.Context, req *v2.PullMessageRequest) ([]message.Message, int64, error) {
	q, next := req.GetMessageQueue(), req.GetOffset()
	topic, group, err := c.consuming(q.GetTopic(), req.GetGroup())
	if err != nil {
		return nil, next, err
	}
	c.waits()
	filter, err := broker.ParseFilter(filterText(req.GetFilterExpression()))
	if err != nil {
		return nil, next, err
	}
	deadline := time.Now().Add(c.f.wait(c.ctx, req.GetLongPollingTimeout(), c.known().requestTimeout()))
	for {
		p := &pulled{done: make(chan struct{})}
		c.f.core.Pull(broker.Pull{
			Who: c.caller(topic), Group: group, Topic: topic, QueueID: q.GetId(), Offset: next, MaxMessages: int(min(max(req.GetBatchSize(), 1), receiveBatch)),
			Filter: filter, Commit: -1, Hold: max(time.Until(deadline), 0), Admit: c.admit,
		}, p.answer)
		select {
		case <-p.done:
		case <-ctx.Done():
			p.leave()
			if cause := context.Cause(ctx); !errors.Is(cause, errRevoked) {
				return nil, next, cause
			}
			return nil, next, c.taken()
		}
		if p.err != nil {
			return nil, next, p.err
		}
		messages, err := pulledMessages(&p.out)
		status, after := p.out.Status, p.out.Next
		p.out.Release()
		switch {
		case status == broker.PullOffsetMoved:
			return nil, after, fail(v2.Code_ILLEGAL_OFFSET, "offset_invalid", "offset %d is not in the queue: go on at next_offset", next)
		case status == broker.PullSkipped && time.Now().Before(deadline), status == broker.PullFound && len(messages) == 0 && err == nil:
			next = after
			continue
		}
		return messages, after, err
	}
}

// pulledMessages are the messages of an answer, as they are stored.
func pulledMessages(out *broker.Pulled) ([]message.Message, error) {
	messages := make([]message.Message, 0, len(out.Records))
	for _, rec := range out.Records {
		m, err := message.Decode(bytes.Clone(rec))
		if err != nil {
			return nil, fmt.Errorf("decode record: %w", err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// answer takes the core's answer; it releases it when nobody waits any more.
func (p *pulled) answer(out broker.Pulled, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		out.Release()
		return
	}
	p.out, p.err = out, err
	close(p.done)
}

func (p *pulled) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		p.out.Release()
	default:
		p.left = true
	}
}
