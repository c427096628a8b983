package proxy

import (
	"context"
	"strconv"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// sessionKey names a client. The namespace belongs to it: two tenants may use
// the same client id.
type sessionKey struct{ namespace, client string }

// session is what one client said about itself, and what it holds. It lives
// as long as the client calls or has a Telemetry stream, over reconnects.
type session struct {
	key    sessionKey
	client *broker.Client

	mu        sync.Mutex // guards the rest
	p         *policy.Principal
	seen      time.Time
	timeout   time.Duration // the client's request timeout, 0 if not told
	consumer  *broker.Consumer
	producers []string
	publishes map[string]*v2.Resource // physical topic -> as the client calls it
	streams   []*stream               // newest last
	leases    map[string]*lease
	ended     bool
}

// sessions is the table of clients.
type sessions struct {
	f *Front

	mu    sync.Mutex // guards the rest; a session's own lock is taken inside of it
	m     map[sessionKey]*session
	count map[string]int // by namespace
}

func newSessions(f *Front) *sessions {
	return &sessions{f: f, m: map[sessionKey]*session{}, count: map[string]int{}}
}

// session returns the caller's session, new if it has none.
func (c *call) session() (*session, error) {
	ss := c.f.sessions
	key := sessionKey{c.v.NamespaceID(), c.clientID}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.m[key]
	if s == nil {
		if len(ss.m) >= c.f.cfg.MaxSessions {
			return nil, fail(v2.Code_TOO_MANY_REQUESTS, "too_many_clients", "too many clients are connected to this server")
		}
		if limit := c.f.cfg.MaxNamespaceSessions; ss.count[key.namespace] >= limit {
			return nil, failLimit(v2.Code_TOO_MANY_REQUESTS, "too_many_clients", strconv.Itoa(limit)+" clients", "too many clients of the namespace are connected to this server")
		}
		s = &session{key: key, client: c.client(), leases: map[string]*lease{}}
		s.client.Ask = s.ask
		ss.m[key] = s
		ss.count[key.namespace]++
	}
	s.touch(c)
	return s, nil
}

// known is session for calls that need none.
func (c *call) known() *session {
	ss := c.f.sessions
	ss.mu.Lock()
	s := ss.m[sessionKey{c.v.NamespaceID(), c.clientID}]
	ss.mu.Unlock()
	if s != nil {
		s.touch(c)
	}
	return s
}

func (s *session) touch(c *call) {
	s.mu.Lock()
	s.p, s.seen = c.p, c.f.now()
	s.mu.Unlock()
}

func (c *call) client() *broker.Client {
	language := c.header("x-mq-language")
	if !plain(language, 32) {
		language = "OTHER"
	}
	return &broker.Client{ID: c.clientID, Address: c.remote.String(), Language: language, Protocol: broker.ProtocolGRPC}
}

// modelClustering is how every gRPC client consumes.
const modelClustering = "CLUSTERING"

// published is what the client calls a topic that its settings name; nil if
// they do not.
func (s *session) published(topic string) *v2.Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.publishes[topic]
}

// announce keeps the client a member of its groups.
func (s *session) announce(core *broker.Broker) error {
	s.mu.Lock()
	producers := s.producers
	var consumers []broker.Consumer
	if s.consumer != nil {
		consumers = []broker.Consumer{*s.consumer}
	}
	ended := s.ended
	s.mu.Unlock()
	if ended {
		return nil
	}
	return core.Heartbeat(s.client, producers, consumers)
}

// Heartbeat keeps a client known; one that is not gets a session.
func (s *service) Heartbeat(ctx context.Context, req *v2.HeartbeatRequest) (*v2.HeartbeatResponse, error) {
	c := s.f.newCall(ctx, "heartbeat")
	if c.clientID == "" && c.header("authorization") == "" && req.GetGroup() == nil {
		// One SDK repairs a broken stream with a heartbeat that says nothing
		// at all, and gives the connection up unless it is answered so.
		return &v2.HeartbeatResponse{Status: c.status(nil)}, nil
	}
	return &v2.HeartbeatResponse{Status: c.run(func() error {
		if err := c.begin(); err != nil {
			return err
		}
		return c.heartbeat(req)
	})}, nil
}

func (c *call) heartbeat(req *v2.HeartbeatRequest) error {
	var consumer bool
	switch req.GetClientType() {
	case v2.ClientType_PRODUCER:
	case v2.ClientType_PUSH_CONSUMER, v2.ClientType_SIMPLE_CONSUMER, v2.ClientType_PULL_CONSUMER:
		consumer = true
	case v2.ClientType_LITE_PUSH_CONSUMER, v2.ClientType_LITE_SIMPLE_CONSUMER:
		return notYet("lite consumers are not supported yet")
	default:
		return fail(v2.Code_UNRECOGNIZED_CLIENT_TYPE, "client_type_invalid", "client type %d is unknown", int32(req.GetClientType()))
	}
	if !consumer {
		if err := c.in(); err != nil {
			return err
		}
		s, err := c.session()
		if err != nil {
			return err
		}
		return s.announce(c.f.core)
	}
	if err := c.in(req.GetGroup()); err != nil {
		return err
	}
	group, err := c.group(req.GetGroup(), policy.OperationSub)
	if err != nil {
		return err
	}
	s, err := c.session()
	if err != nil {
		return err
	}
	s.consumes(c.f.core, &broker.Consumer{Group: group, ConsumeType: consumeType(req.GetClientType()), MessageModel: modelClustering}, false)
	return s.announce(c.f.core)
}

// consumes takes over what a client says about itself as a consumer; without
// subscriptions (all is false) only if it did not say more about this group
// before. A client has one group: it leaves another one.
func (s *session) consumes(core *broker.Broker, consumer *broker.Consumer, all bool) {
	s.mu.Lock()
	left := ""
	if s.consumer != nil && s.consumer.Group != consumer.Group {
		left = s.consumer.Group
	}
	if all || s.consumer == nil || left != "" {
		s.consumer = consumer
	}
	s.mu.Unlock()
	if left != "" {
		core.Unregister(s.client, "", left)
	}
}

func consumeType(t v2.ClientType) string {
	if t == v2.ClientType_PUSH_CONSUMER {
		return "CONSUME_PASSIVELY"
	}
	return "CONSUME_ACTIVELY"
}

// NotifyClientTermination ends a client's session: it leaves its groups, and
// what it held comes again soon.
func (s *service) NotifyClientTermination(ctx context.Context, req *v2.NotifyClientTerminationRequest) (*v2.NotifyClientTerminationResponse, error) {
	return &v2.NotifyClientTerminationResponse{Status: s.f.serve(ctx, "notify_client_termination", func(c *call) error {
		if err := c.in(namedOnly(req.GetGroup())...); err != nil {
			return err
		}
		if known := c.known(); known != nil {
			s.f.sessions.end(known)
		}
		return nil
	})}, nil
}

// namedOnly drops a group without a name, which some producers send.
func namedOnly(r *v2.Resource) []*v2.Resource {
	if r.GetName() == "" {
		return nil
	}
	return []*v2.Resource{r}
}

// end forgets a session. What was renewed for it becomes visible after
// lastLease.
func (ss *sessions) end(s *session) {
	ss.mu.Lock()
	if ss.m[s.key] == s {
		delete(ss.m, s.key)
		if ss.count[s.key.namespace]--; ss.count[s.key.namespace] == 0 {
			delete(ss.count, s.key.namespace)
		}
	}
	ss.mu.Unlock()
	s.mu.Lock()
	s.ended = true
	leases := s.leases
	s.leases = nil
	s.mu.Unlock()
	ss.f.core.Disconnect(s.client)
	for handle, l := range leases {
		l.giveUp(ss.f, handle)
	}
}

// sweep ends the sessions of clients that are silent or no longer let in.
func (ss *sessions) sweep() {
	limit := ss.f.now().Add(-ss.f.cfg.SessionExpiry)
	for _, s := range ss.all() {
		s.mu.Lock()
		over := !s.p.Live() || len(s.streams) == 0 && s.seen.Before(limit)
		if !over && len(s.streams) > 0 {
			// An open stream keeps a client alive that has nothing to say.
			s.seen = ss.f.now()
		}
		s.mu.Unlock()
		if over {
			ss.end(s)
		}
	}
}

func (ss *sessions) closeAll() {
	for _, s := range ss.all() {
		ss.f.core.Disconnect(s.client)
	}
}

func (ss *sessions) all() []*session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	out := make([]*session, 0, len(ss.m))
	for _, s := range ss.m {
		out = append(out, s)
	}
	return out
}
