package processor

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

var pullCodes = [...]int32{
	broker.PullFound:       wire.Success,
	broker.PullNone:        wire.PullNotFound,
	broker.PullSkipped:     wire.PullRetryImmediately,
	broker.PullOffsetMoved: wire.PullOffsetMoved,
}

// toolsGroup is the group that the stock tools look at messages as. It exists
// for everybody, has no offsets, and needs the right to look at the topic only.
const toolsGroup = "TOOLS_CONSUMER"

func mayRead(group string) []policy.Operation {
	if group == toolsGroup {
		return []policy.Operation{policy.OperationSub, policy.OperationDescribe}
	}
	return []policy.Operation{policy.OperationSub}
}

// pull answers PullMessage and LitePullMessage, often later: a pull that finds
// nothing is parked by the core.
func (p *Processor) pull(r *request) (*wire.Frame, error) {
	h, err := wire.ParsePullHeader(r.f)
	if err != nil {
		return nil, err
	}
	v, err := p.view(r, h.Topic, h.ConsumerGroup)
	if err != nil {
		return nil, err
	}
	topic, err := v.TopicAny(h.Topic, mayRead(h.ConsumerGroup)...)
	if err != nil {
		return nil, err
	}
	group := ""
	if !r.p.System() && h.ConsumerGroup != toolsGroup { // Sluice itself reads for people, without a group
		if group, err = v.Group(h.ConsumerGroup, policy.OperationSub); err != nil {
			return nil, err
		}
	}
	filter, own, err := p.filter(&h, group, topic)
	if err != nil {
		return nil, err
	}
	retained := r.size()
	if own {
		retained += filter.Bytes()
	}
	q := broker.Pull{
		Who: r.caller(topic), Group: group, Topic: topic, QueueID: h.QueueID, Offset: h.QueueOffset,
		MaxMessages: int(h.MaxMessages), MaxBytes: int(h.MaxBytes), Filter: filter, Commit: -1, Admit: admit(v), Retained: retained, Refused: func() error { return p.still(r) },
	}
	if h.SysFlag&wire.PullFlagCommit != 0 {
		q.Commit = h.CommitOffset
	}
	if h.SysFlag&wire.PullFlagSuspend != 0 {
		q.Hold = time.Duration(h.SuspendTimeoutMillis) * time.Millisecond
	}
	p.b.Pull(q, func(out broker.Pulled, err error) {
		buf := bodies.Get().(*[]byte)
		r.conn.Reply(r.f, p.pulled(r, out, err, buf)) // it copies
		if cap(*buf) <= keepBody {
			bodies.Put(buf)
		}
	})
	return nil, nil
}

// admit charges delivered messages to the receive rate; over it a pull slows
// down.
func admit(v *policy.View) func(int) time.Duration {
	return func(messages int) time.Duration {
		var refusal *policy.Refusal
		if errors.As(v.TakeReceive(messages), &refusal) {
			return max(refusal.RetryAfter, time.Millisecond)
		}
		return 0
	}
}

// filter returns what the pull wants: what its own header says, or what the
// group's members told in their heartbeats. own says that nobody else has it.
func (p *Processor) filter(h *wire.PullHeader, group, topic string) (f *broker.Filter, own bool, err error) {
	if h.SysFlag&wire.PullFlagSubscription != 0 || group == "" {
		f, err = broker.ParseFilter(h.ExpressionType, h.Subscription)
		return f, true, err
	}
	s, ok := p.b.Subscribed(group, topic)
	if !ok {
		return nil, false, &broker.Error{Code: broker.CodeNoSubscription, Text: "no member of the group has subscribed to the topic in a heartbeat yet", Topic: topic, Group: group}
	}
	if s.Version < h.SubVersion {
		return nil, false, &broker.Error{Code: broker.CodeOldSubscription, Text: "the subscription in the last heartbeat is older than the pull's", Topic: topic, Group: group}
	}
	return s.Filter, false, nil
}

// errGone ends what waits for a client that is not there any more: it would be
// charged for messages that it never sees.
var errGone = errors.New("the client closed its connection")

// still is nil while the caller of a request that waits is there and may still
// have what it was granted.
func (p *Processor) still(r *request) error {
	if r.conn.Closed() {
		return errGone
	}
	if r.p.Live() {
		return r.v.Still()
	}
	_, err := p.policy.AuthenticateRemoting(policy.RemotingRequest{
		Fields: r.f.Ext, Body: r.f.Body, Remote: r.conn.RemoteAddr().Addr(),
	})
	return err
}

// pulled makes the answer, its body in buf. The four offset fields are always
// there.
func (p *Processor) pulled(r *request, out broker.Pulled, err error, buf *[]byte) *wire.Frame {
	if err != nil {
		return p.refuse(r, err)
	}
	defer out.Release()
	resp := r.f.Reply(pullCodes[out.Status], "")
	resp.Ext = make(wire.Fields, 0, 4)
	resp.Ext.Add("suggestWhichBrokerId", "0")
	resp.Ext.AddInt("nextBeginOffset", out.Next)
	resp.Ext.AddInt("minOffset", out.Min)
	resp.Ext.AddInt("maxOffset", out.Max)
	switch out.Status {
	case broker.PullFound:
		resp.Remark = "FOUND"
		s := shown{v: r.v}
		*buf = (*buf)[:0]
		for _, rec := range out.Records {
			var err error
			if *buf, err = s.append(*buf, rec); err != nil {
				return p.refuse(r, err)
			}
		}
		resp.Body = *buf
	case broker.PullNone:
		resp.Remark = "no new message"
	case broker.PullSkipped:
		resp.Remark = "messages were passed over: go on at nextBeginOffset"
	case broker.PullOffsetMoved:
		resp.Remark = "the offset is outside of the queue: go on at nextBeginOffset"
	}
	return resp
}

// shown copies records with the names that a view's client knows.
type shown struct {
	v *policy.View
	// The last topic and its name outside: one answer mostly has one.
	topic []byte
	name  string
}

func (s *shown) append(dst, rec []byte) ([]byte, error) {
	if s.v.System() {
		return append(dst, rec...), nil
	}
	f, err := message.Parse(rec)
	if err != nil {
		return nil, fmt.Errorf("record to show: %w", err)
	}
	if s.name == "" || !bytes.Equal(f.Topic, s.topic) {
		if s.name = s.v.ShowTopic(string(f.Topic)); s.name == "" {
			return nil, fmt.Errorf("record of topic %q in a queue of another namespace", strings.ToValidUTF8(string(f.Topic), "?"))
		}
		s.topic = append(s.topic[:0], f.Topic...)
	}
	return message.Rewrite(dst, rec, &f, s.name, func(dst []byte) []byte { return policy.AppendShownProperties(dst, s.v, f.Properties) }), nil
}

// bodies are buffers for the bodies of answers.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// keepBody is the largest buffer that is kept: a full pull of usual messages.
const keepBody = 512 << 10
