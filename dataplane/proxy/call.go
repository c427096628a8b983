package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"strings"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// call is one request on its way through a handler.
type call struct {
	f         *Front
	ctx       context.Context
	action    string
	id        string // request id
	clientID  string
	namespace string // of the header, may be empty
	conn      *conn
	remote    netip.AddrPort
	p         *policy.Principal // nil until authenticated
	v         *policy.View      // nil until in
	watch     *watch            // of an open stream, nil for others
	code      v2.Code           // of the answer, if it is not OK although nothing failed
}

// newCall reads what every request carries, without judging it.
func (f *Front) newCall(ctx context.Context, action string) *call {
	c := &call{f: f, ctx: ctx, action: action, code: v2.Code_OK}
	if p, ok := peer.FromContext(ctx); ok {
		c.remote = addrPort(p.Addr)
		if info, ok := p.AuthInfo.(connInfo); ok {
			c.conn = info.conn
		}
	}
	c.clientID = c.header("x-mq-client-id")
	c.namespace = c.header("x-mq-namespace")
	if c.id = c.header("x-mq-request-id"); !plain(c.id, 64) {
		c.id = fmt.Sprintf("%08x-%08x", f.idBase, f.idNext.Add(1))
	}
	return c
}

// header returns the first value of a metadata header.
func (c *call) header(name string) string {
	if v := metadata.ValueFromIncomingContext(c.ctx, name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// plain reports whether s is short, not empty, and safe in a log line.
func plain(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// authenticate finds out who calls.
func (c *call) authenticate() error {
	p, err := c.f.policy.AuthenticateGRPC(policy.GRPCRequest{
		Authorization: c.header("authorization"), DateTime: c.header("x-mq-date-time"),
		SessionToken: c.header("x-mq-session-token"), Remote: c.remote.Addr(),
	})
	if err != nil {
		return err
	}
	c.p = p
	if c.conn != nil {
		c.conn.in.login()
	}
	return nil
}

// maxClientIDBytes bounds what a session is kept under.
const maxClientIDBytes = 255

// begin is authenticate for calls of a named client, which is all but one.
func (c *call) begin() error {
	if err := c.authenticate(); err != nil {
		return err
	}
	if strings.TrimSpace(c.clientID) == "" {
		return fail(v2.Code_CLIENT_ID_REQUIRED, "client_id_required", "the header x-mq-client-id is missing")
	}
	if len(c.clientID) > maxClientIDBytes {
		return failLimit(v2.Code_CLIENT_ID_REQUIRED, "client_id_invalid", "255 bytes", "the client id is too long")
	}
	return nil
}

// in fixes the namespace of the call and takes it from the request rate. Every
// namespace that the client names, in resources and in the header, must be the
// same one, and the key's.
func (c *call) in(resources ...*v2.Resource) error {
	named := c.namespace
	names := make([]string, 0, len(resources))
	for _, r := range resources {
		names = append(names, r.GetName())
		ns := r.GetResourceNamespace()
		if ns == "" || ns == named {
			continue
		}
		if named != "" {
			for _, one := range []string{named, ns} {
				if _, err := c.p.In(one, c.remote.Addr()); err != nil {
					return err
				}
			}
			return &policy.Refusal{Code: policy.CodeNamespaceMismatch, Text: fmt.Sprintf("the request names two namespaces, %.64q and %.64q", named, ns)}
		}
		named = ns
	}
	v, err := c.p.InOf(named, c.remote.Addr(), names...)
	if err != nil {
		return err
	}
	c.v = v
	if c.conn != nil {
		c.conn.usedBy(c.caller(""))
	}
	return v.TakeRequest()
}

// caller is who the call is charged to. The system acts in the namespace that
// the physical name belongs to.
func (c *call) caller(physical string) broker.Caller {
	who := broker.Caller{KeyID: c.p.KeyID(), Protocol: broker.ProtocolGRPC}
	if c.v != nil {
		who.NamespaceID = c.v.NamespaceID()
	}
	if c.p.System() {
		_, who.NamespaceID, _, _ = policy.SplitPhysical(physical)
	}
	return who
}

// topic checks that the caller may do one of ops on a topic and returns its
// physical name.
func (c *call) topic(r *v2.Resource, ops ...policy.Operation) (string, error) {
	physical, err := c.v.TopicAny(r.GetName(), ops...)
	return physical, nameError(err, v2.Code_ILLEGAL_TOPIC)
}

// group is topic for consumer groups.
func (c *call) group(r *v2.Resource, op policy.Operation) (string, error) {
	physical, err := c.v.Group(r.GetName(), op)
	return physical, nameError(err, v2.Code_ILLEGAL_CONSUMER_GROUP)
}

// nameError gives a refused name the code of its kind.
func nameError(err error, code v2.Code) error {
	var r *policy.Refusal
	if errors.As(err, &r) && (r.Code == policy.CodeNameInvalid || r.Code == policy.CodeNameReserved) {
		return &failure{code: code, refusal: *r}
	}
	return err
}

// serve runs one unary call and returns its status. fn runs after the caller
// is known; it calls in before anything else.
func (f *Front) serve(ctx context.Context, action string, fn func(*call) error) *v2.Status {
	c := f.newCall(ctx, action)
	return c.run(func() error {
		if err := c.begin(); err != nil {
			return err
		}
		return fn(c)
	})
}

// run calls fn at the edge of the process: a panic becomes an internal error
// of this one call.
func (c *call) run(fn func() error) *v2.Status {
	err := c.guard(fn)
	c.count(err)
	return c.status(err)
}

func (c *call) guard(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in %s: %v\n%s", c.action, r, debug.Stack())
		}
	}()
	return fn()
}

// count tells the meter about a call whose caller and namespace are known.
func (c *call) count(err error) {
	if c.v == nil || c.v.System() {
		return
	}
	if err != nil {
		c.f.meter.Rejected(c.caller(""))
		return
	}
	c.f.meter.Call(c.caller(""))
}
