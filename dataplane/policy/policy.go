// Package policy decides who may do what on the message path, for both
// protocols alike: it authenticates a request, finds the namespace that its
// credential belongs to, maps the bare names of the user's world to the
// physical names of the store and back, and takes from the rate limits.
//
// It owns the policy snapshot of one process: verified, kept on disk, replaced
// by deltas, read without locks. It knows nothing of wire formats, topics'
// existence or queues. It never asks anybody: a process goes on with the last
// good snapshot for as long as it takes.
//
// All methods may be called at the same time, except those of View: a View
// belongs to one request.
package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Operation is what a request wants to do with a topic or group.
type Operation uint8

// The operations, with the permission names of an API key's scope.
const (
	OperationPub      Operation = 1 << iota // PUB: send
	OperationSub                            // SUB: receive, acknowledge, read and move offsets
	OperationManage                         // MANAGE: create, change, delete
	OperationDescribe                       // DESCRIBE: look without taking part
)

var operationNames = map[string]Operation{
	"PUB": OperationPub, "SUB": OperationSub, "MANAGE": OperationManage, "DESCRIBE": OperationDescribe,
}

// String returns the permission's name in an API key's scope.
func (o Operation) String() string {
	for name, op := range operationNames {
		if op == o {
			return name
		}
	}
	return "Operation(" + strconv.Itoa(int(o)) + ")"
}

// The codes of refusals, stable on the wire inside "[SLUICE:<code>]".
const (
	CodeUnauthenticated   = "unauthenticated"     // no credential, unknown key, or wrong signature: one answer for all three
	CodeKeyRevoked        = "key_revoked"         // the signature is right, the key was revoked
	CodeKeyDisabled       = "key_disabled"        // the signature is right, the key or its owner is switched off
	CodeKeyExpired        = "key_expired"         // the signature is right, the key's time is over
	CodeTokenInvalid      = "token_invalid"       // a JWT that is malformed, expired, or not for the message path
	CodeAddressNotAllowed = "address_not_allowed" // the key's allowed_cidrs do not hold the caller's address
	CodeNamespaceMismatch = "namespace_mismatch"  // the client named a namespace that is not the key's
	CodeNamespaceRequired = "namespace_required"  // the key reaches several namespaces and the client named none
	CodePermissionDenied  = "permission_denied"   // the key's scopes do not hold the operation
	CodeNameInvalid       = "name_invalid"        // not a topic or group name
	CodeNameReserved      = "name_reserved"       // a name that RocketMQ keeps for itself
	CodeRateLimited       = "rate_limited"        // a rate of the namespace or topic is used up
	CodeTenantSuspended   = "tenant_suspended"    // the tenant is suspended
	CodePolicyMissing     = "policy_missing"      // this process has not yet received a policy
)

// Refusal is why a request does not pass. Its text is meant for the caller:
// it says nothing of other tenants and holds no secret.
type Refusal struct {
	Code       string
	Text       string        // what happened and how to fix it
	Limit      string        // with CodeRateLimited: the limit, such as "1000 messages/s"
	Used       string        // with CodeRateLimited: what the request asked for on top
	RetryAfter time.Duration // with CodeRateLimited: when the same request could pass
	RequestID  string

	denied *denied // set where it is for the tenant's audit log; see Engine.Denied
}

func refuse(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}

// WithRequestID returns a copy that names the request in its text.
func (r *Refusal) WithRequestID(id string) *Refusal {
	c := *r
	c.RequestID = id
	return &c
}

// Error is the text form that both protocols carry:
// "[SLUICE:<code>] text; limit=…; used=…; retry_after_ms=…; request_id=…".
// Parts that do not apply are left out.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString("[SLUICE:")
	b.WriteString(r.Code)
	b.WriteString("] ")
	b.WriteString(r.Text)
	part := func(name, value string) {
		if value != "" {
			b.WriteString("; ")
			b.WriteString(name)
			b.WriteByte('=')
			b.WriteString(value)
		}
	}
	part("limit", r.Limit)
	part("used", r.Used)
	if r.RetryAfter > 0 {
		ms := (r.RetryAfter + time.Millisecond - 1) / time.Millisecond
		part("retry_after_ms", strconv.FormatInt(int64(ms), 10))
	}
	part("request_id", r.RequestID)
	return b.String()
}
