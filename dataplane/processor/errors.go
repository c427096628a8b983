package processor

import (
	"context"
	"errors"
	"strings"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// refusalCodes are the response codes of policy refusals; the rest is
// NoPermission, which producers do not blindly repeat against us.
var refusalCodes = map[string]int32{
	policy.CodeRateLimited:   wire.SystemBusy,
	policy.CodePolicyMissing: wire.ServiceNotAvailable,
	policy.CodeNameInvalid:   wire.InvalidParameter,
	policy.CodeNameReserved:  wire.InvalidParameter,
}

// RefusalCode returns the response code of a policy refusal.
func RefusalCode(code string) int32 {
	if n, ok := refusalCodes[code]; ok {
		return n
	}
	return wire.NoPermission
}

// refuse turns an error into the answer. Errors without a code of their own
// are logged and shown as internal.
func (p *Processor) refuse(r *request, err error) *wire.Frame {
	var refusal *policy.Refusal
	var core *broker.Error
	var field *wire.FieldError
	switch {
	case r.ctx != nil && r.ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil // the client has left, nobody hears
	case errors.As(err, &refusal):
		id := p.requestID()
		p.denied(r, refusal, id)
		return r.f.Reply(RefusalCode(refusal.Code), refusal.WithRequestID(id).Error())
	case errors.As(err, &core):
		id := p.requestID()
		if core.Code == broker.CodeInternal {
			p.log.Error("request failed", "code", r.f.Code, "request_id", id, "err", err)
		}
		return p.replyWith(r, id, core.Code.Remoting(), core.Code.String(), r.textOf(core), core.Limit)
	case errors.As(err, &field):
		return p.reply(r, wire.SystemError, "header_field_invalid", field.Error(), "")
	case errors.Is(err, wire.ErrMalformed):
		return p.reply(r, wire.SystemError, "body_malformed", "the body is not the JSON that this request wants", "")
	case errors.Is(err, message.ErrCorrupt):
		return p.reply(r, wire.MessageIllegal, "message_illegal", "the body is not a well-formed batch", "")
	}
	id := p.requestID()
	p.log.Error("request failed", "code", r.f.Code, "request_id", id, "err", err)
	return p.replyWith(r, id, wire.SystemError, "internal", "internal error", "")
}

// denied counts a refusal, and tells the tenant of it if it is one of a right.
func (p *Processor) denied(r *request, refusal *policy.Refusal, id string) {
	p.refused(refusal.Code)
	p.policy.Denied(refusal, r.conn.RemoteAddr().Addr(), id)
}

// textOf adds the names to blame as the caller knows them.
func (r *request) textOf(e *broker.Error) string {
	s := e.Text
	if r.v == nil {
		return s
	}
	if shown := r.v.ShowTopic(e.Topic); shown != "" {
		s += ": topic " + shown
	}
	if shown := r.v.ShowGroup(e.Group); shown != "" {
		s += ": group " + shown
	}
	return s
}

// reply makes an answer whose text has the form of all refusals.
func (p *Processor) reply(r *request, code int32, name, text, limit string) *wire.Frame {
	return p.replyWith(r, p.requestID(), code, name, text, limit)
}

// replyWith is reply for a request that has an id already.
func (p *Processor) replyWith(r *request, id string, code int32, name, text, limit string) *wire.Frame {
	p.refused(name)
	var b strings.Builder
	b.WriteString("[SLUICE:")
	b.WriteString(name)
	b.WriteString("] ")
	b.WriteString(text)
	if limit != "" {
		b.WriteString("; limit=")
		b.WriteString(limit)
	}
	b.WriteString("; request_id=")
	b.WriteString(id)
	return r.f.Reply(code, b.String())
}
