package proxy

import (
	"context"
	"errors"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// Invisible times that a client may ask for when it receives.
const (
	minInvisible = 10 * time.Second
	maxInvisible = 12 * time.Hour
)

// batch is what one receive got.
type batch struct {
	messages  []broker.Received
	invisible time.Duration
	group     string
	topic     string
	name      *v2.Resource // of the topic, as the client said it
	session   *session     // renews the messages; nil if the client does
}

// ReceiveMessage hands out messages, waiting for the first one. The status
// goes first on the stream, then one answer for each message, then the time.
func (s *service) ReceiveMessage(req *v2.ReceiveMessageRequest, rs grpc.ServerStreamingServer[v2.ReceiveMessageResponse]) error {
	c := s.f.newCall(rs.Context(), "receive_message")
	var got *batch
	status := c.run(func() error {
		if err := c.begin(); err != nil {
			return err
		}
		ctx, done := s.f.watches.add(rs.Context(), c)
		defer done()
		var err error
		got, err = c.receive(ctx, req)
		return err
	})
	if status.GetCode() == v2.Code_OK && len(got.messages) == 0 {
		status = &v2.Status{Code: v2.Code_MESSAGE_NOT_FOUND, Message: "no new message"}
	}
	if err := rs.Send(&v2.ReceiveMessageResponse{Content: &v2.ReceiveMessageResponse_Status{Status: status}}); err != nil {
		c.giveBack(got, 0)
		return err
	}
	if status.GetCode() == v2.Code_OK {
		if err := c.deliver(rs, got); err != nil {
			return err
		}
	}
	return rs.Send(&v2.ReceiveMessageResponse{Content: &v2.ReceiveMessageResponse_DeliveryTimestamp{DeliveryTimestamp: timestamppb.New(s.f.now())}})
}

// receive asks the core. What comes back is not yet on its way: if the caller
// was revoked or left meanwhile, it is given back.
func (c *call) receive(ctx context.Context, req *v2.ReceiveMessageRequest) (*batch, error) {
	name := req.GetMessageQueue().GetTopic()
	topic, group, err := c.consuming(name, req.GetGroup())
	if err != nil {
		return nil, err
	}
	if err := c.unordered(group); err != nil {
		return nil, err
	}
	c.waits()
	filter, err := broker.ParseFilter(filterText(req.GetFilterExpression()))
	if err != nil {
		return nil, err
	}
	if d := req.GetLongPollingTimeout(); d.AsDuration() < 0 {
		return nil, fail(v2.Code_ILLEGAL_POLLING_TIME, "polling_time_invalid", "the polling time %v is negative", d.AsDuration())
	}
	b := &batch{group: group, topic: topic, name: name}
	if b.invisible, err = c.invisible(req); err != nil {
		return nil, err
	}
	s := c.known()
	if req.GetAutoRenew() {
		if s, err = c.session(); err != nil {
			return nil, err
		}
		b.session = s
	}
	b.messages, err = c.f.core.Receive(ctx, broker.Receive{
		Who: c.caller(topic), Group: group, Topic: topic, Max: int(min(max(req.GetBatchSize(), 1), receiveBatch)), Filter: filter,
		Invisible: b.invisible, Wait: c.f.wait(c.ctx, req.GetLongPollingTimeout(), s.requestTimeout()), Admit: c.admit,
	})
	if ctx.Err() == nil {
		return b, err
	}
	c.giveBack(b, 0)
	b.messages = nil
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errDraining):
		return b, nil // the client asks again, elsewhere or later
	case errors.Is(cause, errRevoked):
		return b, c.taken()
	}
	return b, ctx.Err()
}

// admit asks the receive rate before messages are handed over.
func (c *call) admit(messages int) time.Duration {
	var r *policy.Refusal
	if errors.As(c.v.TakeReceive(messages), &r) {
		return max(r.RetryAfter, time.Millisecond)
	}
	return 0
}

// invisible is how long messages stay invisible: the server's own time when it
// renews them, else what the client asked for.
func (c *call) invisible(req *v2.ReceiveMessageRequest) (time.Duration, error) {
	if req.GetAutoRenew() {
		return c.f.cfg.RenewLease, nil
	}
	d := req.GetInvisibleDuration().AsDuration()
	if req.GetInvisibleDuration() == nil || d < minInvisible || d > maxInvisible {
		return 0, failLimit(v2.Code_ILLEGAL_INVISIBLE_TIME, "invisible_time_invalid", "10s to 12h", "the invisible time %v is out of range", d)
	}
	return d, nil
}

// requestTimeout is what the client waits for an answer beyond the poll.
func (s *session) requestTimeout() time.Duration {
	const usual = 3 * time.Second
	if s == nil {
		return usual
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timeout <= 0 {
		return usual
	}
	return s.timeout
}

// pollMargin is how long before the caller's deadline a poll ends, so that its
// answer is seen.
const pollMargin = 500 * time.Millisecond

// wait is how long a receive waits for a message: as asked, or else what the
// deadline leaves, within the limits and always short of the deadline. A
// message that arrives after the deadline would be lost until its invisible
// time ends.
func (f *Front) wait(ctx context.Context, asked *durationpb.Duration, requestTimeout time.Duration) time.Duration {
	deadline, bounded := ctx.Deadline()
	left := time.Until(deadline)
	wait := f.cfg.MaxPoll
	switch {
	case asked != nil:
		wait = asked.AsDuration()
	case bounded:
		wait = left - requestTimeout/2
	}
	wait = min(max(wait, f.cfg.MinPoll), f.cfg.MaxPoll)
	if bounded {
		wait = min(wait, left-min(pollMargin, left/4))
	}
	return max(wait, 0)
}

// deliver writes the messages. What could not be written is given back.
func (c *call) deliver(rs grpc.ServerStreamingServer[v2.ReceiveMessageResponse], b *batch) error {
	for i := range b.messages {
		r := &b.messages[i]
		m, done, err := c.received(r, b.name, b.invisible)
		if err != nil && c.ctx.Err() != nil {
			c.giveBack(b, i)
			return err
		}
		if err != nil {
			c.f.log.Error("stored record cannot be delivered; it goes to the dead letters when its attempts are used up",
				"topic", b.topic, "queue", r.QueueID, "offset", r.Offset, "err", err)
			continue
		}
		if b.session != nil {
			b.session.hold(c.f, r.Handle, b.group, b.topic, m.GetSystemProperties().GetMessageId())
		}
		err = rs.Send(&v2.ReceiveMessageResponse{Content: &v2.ReceiveMessageResponse_Message{Message: m}})
		done()
		if err != nil {
			c.giveBack(b, i)
			return err
		}
	}
	return nil
}

// giveBack returns the messages from the i-th on: they never reached the
// client, so the delivery does not count.
func (c *call) giveBack(b *batch, i int) {
	if b == nil {
		return
	}
	for ; i < len(b.messages); i++ {
		handle := b.messages[i].Handle
		if b.session != nil {
			b.session.release(handle)
		}
		if err := c.f.core.GiveBack(b.group, b.topic, handle); err != nil {
			c.f.log.Warn("undelivered message was not given back; it comes again later", "topic", b.topic, "group", b.group, "err", err)
		}
	}
}
