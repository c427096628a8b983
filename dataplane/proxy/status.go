package proxy

import (
	"context"
	"errors"
	"fmt"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// failure is a refusal of this package: the protocol's code, and the text that
// all refusals share.
type failure struct {
	code    v2.Code
	refusal policy.Refusal
}

func (e *failure) Error() string { return e.refusal.Error() }

func fail(code v2.Code, name, format string, args ...any) *failure {
	return &failure{code: code, refusal: policy.Refusal{Code: name, Text: fmt.Sprintf(format, args...)}}
}

func failLimit(code v2.Code, name, limit, format string, args ...any) *failure {
	e := fail(code, name, format, args...)
	e.refusal.Limit = limit
	return e
}

// notYet refuses what this server does not do. SDKs treat the code as final,
// not as a reason to try again.
func notYet(format string, args ...any) *failure {
	return fail(v2.Code_NOT_IMPLEMENTED, "not_supported_yet", format, args...)
}

// refusalCodes translate policy refusals. SDKs know 40100 for both "who are
// you" and "you may not".
var refusalCodes = map[string]v2.Code{
	policy.CodeUnauthenticated:   v2.Code_UNAUTHORIZED,
	policy.CodeKeyRevoked:        v2.Code_UNAUTHORIZED,
	policy.CodeKeyDisabled:       v2.Code_UNAUTHORIZED,
	policy.CodeKeyExpired:        v2.Code_UNAUTHORIZED,
	policy.CodeTokenInvalid:      v2.Code_UNAUTHORIZED,
	policy.CodeAddressNotAllowed: v2.Code_UNAUTHORIZED,
	policy.CodePermissionDenied:  v2.Code_UNAUTHORIZED,
	policy.CodeNamespaceMismatch: v2.Code_FORBIDDEN,
	policy.CodeTenantSuspended:   v2.Code_FORBIDDEN,
	policy.CodeNamespaceRequired: v2.Code_BAD_REQUEST,
	policy.CodeNameInvalid:       v2.Code_BAD_REQUEST,
	policy.CodeNameReserved:      v2.Code_BAD_REQUEST,
	policy.CodeRateLimited:       v2.Code_TOO_MANY_REQUESTS,
	policy.CodePolicyMissing:     v2.Code_INTERNAL_SERVER_ERROR,
}

// coreCodes are the core's codes for which the protocol has a better one than
// the core's table.
var coreCodes = map[broker.Code]v2.Code{
	broker.CodeNotYet: v2.Code_NOT_IMPLEMENTED,
}

// done is the status of what did not fail.
func done(code v2.Code) *v2.Status { return &v2.Status{Code: code, Message: code.String()} }

// status makes the answer's status. Errors without a code of their own are
// logged and shown as internal.
func (c *call) status(err error) *v2.Status {
	if err == nil {
		return done(c.code)
	}
	code, r := c.refusal(err)
	if code == v2.Code_INTERNAL_SERVER_ERROR && r.Code == "internal" {
		c.f.log.Error("call failed", "action", c.action, "request_id", c.id, "err", err)
	}
	c.f.refused(r.Code)
	c.f.policy.Denied(r, c.remote.Addr(), c.id)
	return &v2.Status{Code: code, Message: r.WithRequestID(c.id).Error()}
}

func (c *call) refusal(err error) (v2.Code, *policy.Refusal) {
	var own *failure
	var refused *policy.Refusal
	var core *broker.Error
	switch {
	case errors.As(err, &own):
		return own.code, &own.refusal
	case errors.As(err, &refused):
		code, ok := refusalCodes[refused.Code]
		if !ok {
			code = v2.Code_UNAUTHORIZED
		}
		return code, refused
	case errors.As(err, &core) && core.Code != broker.CodeInternal:
		code, ok := coreCodes[core.Code]
		if !ok {
			code = v2.Code(core.Code.GRPC())
		}
		return code, &policy.Refusal{Code: core.Code.String(), Text: c.textOf(core), Limit: core.Limit}
	case errors.Is(err, errRevoked):
		return v2.Code_UNAUTHORIZED, &policy.Refusal{Code: policy.CodeKeyRevoked, Text: "the API key was revoked, changed, or its time is over: sign with a key that is valid now"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return v2.Code_REQUEST_TIMEOUT, &policy.Refusal{Code: "request_timeout", Text: "the caller's deadline passed before the call was done"}
	}
	return v2.Code_INTERNAL_SERVER_ERROR, &policy.Refusal{Code: "internal", Text: "internal error"}
}

// textOf adds the names to blame as the caller knows them.
func (c *call) textOf(e *broker.Error) string {
	s := e.Text
	if c.v == nil {
		return s
	}
	if e.Topic != "" {
		if shown := c.v.ShowTopic(e.Topic); shown != "" {
			s += ": topic " + shown
		}
	}
	if e.Group != "" {
		if shown := c.v.ShowGroup(e.Group); shown != "" {
			s += ": group " + shown
		}
	}
	return s
}
