package processor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/transaction"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// connState is what the processor keeps for one connection.
type connState struct {
	conn  *remoting.Conn
	b     *broker.Broker
	conns *sync.Map // of the processor

	mu         sync.Mutex
	principals map[string]*policy.Principal // by key id: the last that signed a request here
	clients    map[string]*broker.Client    // by client id
	shown      map[string]string            // physical consumer group -> as the client calls it
	views      map[string]viewer            // by client id: what its key may see now
	uncount    func()                       // ends the count of this connection's time; nil before it began
	gone       bool
}

// viewer makes the view of who sent a client's last heartbeat.
type viewer = func() (*policy.View, error)

// Bounds of one connection: a client library has one or a few of each.
const (
	maxClients    = 64
	maxPrincipals = 64
	maxGroups     = 4096
)

type stateKey struct{}

// state returns the connection's state, making it at the first request.
func (p *Processor) state(c *remoting.Conn) *connState {
	made := false
	s := c.ValueOrStore(stateKey{}, func() any {
		made = true
		return &connState{
			conn: c, b: p.b, conns: &p.conns, principals: map[string]*policy.Principal{}, clients: map[string]*broker.Client{}, shown: map[string]string{},
			views: map[string]viewer{},
		}
	}).(*connState)
	if made {
		c.OnClose(s.closed)
	}
	return s
}

func (s *connState) used(p *policy.Principal) {
	s.mu.Lock()
	if s.principals[p.KeyID()] != nil || len(s.principals) < maxPrincipals {
		s.principals[p.KeyID()] = p
	}
	s.mu.Unlock()
}

// live reports whether no key that was used here has been revoked since. A
// client that renews its token counts with its newest one.
func (s *connState) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.principals {
		if !p.Live() {
			return false
		}
	}
	return true
}

// connected begins to count the connection's time for the first tenant that
// uses it.
func (s *connState) connected(calls Calls, who broker.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uncount == nil && !s.gone {
		s.uncount = calls.Connected(who)
	}
}

func (s *connState) closed() {
	s.mu.Lock()
	clients, uncount := s.clients, s.uncount
	s.clients, s.gone = map[string]*broker.Client{}, true
	s.mu.Unlock()
	if uncount != nil {
		uncount()
	}
	for _, c := range clients {
		s.conns.Delete(c)
		s.b.Disconnect(c)
	}
}

// client returns the broker's handle of a client id on this connection.
func (s *connState) client(id string, f *wire.Frame) (*broker.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[id]; c != nil {
		return c, nil
	}
	if len(s.clients) >= maxClients {
		return nil, &broker.Error{Code: broker.CodeInvalidParameter, Text: "too many client ids on one connection", Limit: "64"}
	}
	c := &broker.Client{
		ID: id, Address: s.conn.RemoteAddr().String(), Language: f.Language.String(), Version: f.Version,
		Protocol: broker.ProtocolRemoting, Notify: s.notify, Ask: func(c transaction.Check) transaction.Answer { return s.ask(id, c) },
		Reply: func(ctx context.Context, m *message.Message) error { return s.reply(ctx, id, m) },
	}
	s.clients[id] = c
	if !s.gone {
		s.conns.Store(c, s)
	}
	return c, nil
}

// notify pushes a change of members. A full write queue drops it: the client
// balances again by itself every 20 s.
func (s *connState) notify(group string) {
	s.mu.Lock()
	name, ok := s.shown[group]
	s.mu.Unlock()
	if !ok {
		return
	}
	f := wire.Request(wire.NotifyConsumerIDsChanged, nil)
	f.Ext.Add("consumerGroup", name)
	_ = s.conn.OneWay(f) // closed or full: see above
}

// seenAs notes how to see things as a client does.
func (s *connState) seenAs(id string, v viewer) {
	s.mu.Lock()
	if s.clients[id] != nil {
		s.views[id] = v
	}
	s.mu.Unlock()
}

func (s *connState) names(physical, shown string) {
	s.mu.Lock()
	if len(s.shown) < maxGroups {
		s.shown[physical] = shown
	}
	s.mu.Unlock()
}

// lookPeriod is how often open connections are looked at although the policy
// did not change: keys and tokens also end by the clock.
const lookPeriod = 500 * time.Millisecond

// Run closes connections whose key was revoked or has expired, and ends pulls
// whose callers lost what they need, until ctx ends.
func (p *Processor) Run(ctx context.Context, conns func(func(*remoting.Conn))) error {
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		case <-tick.C:
		}
		p.b.CheckHolds()
		conns(func(c *remoting.Conn) {
			if s, ok := c.Value(stateKey{}).(*connState); ok && !s.live() {
				p.log.Info("closing connection: its key was revoked, changed, or its time is over", "remote", c.RemoteAddr())
				_ = c.Close()
			}
		})
	}
}

// maxClientID is the longest client id that is kept.
const maxClientID = 255

// heartbeat registers the client in all its groups. Groups that it may not use
// or that do not exist are left out, and the first of them is the answer.
func (p *Processor) heartbeat(r *request) (*wire.Frame, error) {
	var hb wire.Heartbeat
	if err := wire.Unmarshal(r.f.Body, &hb); err != nil {
		return nil, err
	}
	if hb.ClientID == "" || len(hb.ClientID) > maxClientID {
		return nil, &wire.FieldError{Field: "clientID", Problem: "must have 1 to 255 bytes"}
	}
	var names []string
	for i := range hb.Consumers {
		names = append(names, hb.Consumers[i].GroupName)
	}
	if len(names) == 0 {
		for i := range hb.Producers {
			names = append(names, hb.Producers[i].GroupName)
		}
	}
	v, err := p.view(r, names...)
	if err != nil {
		return nil, err
	}
	s := p.state(r.conn)
	client, err := s.client(hb.ClientID, r.f)
	if err != nil {
		return nil, err
	}
	var firstErr error
	keep := func(err error) {
		var refusal *policy.Refusal
		if firstErr == nil {
			firstErr = err
		} else if errors.As(err, &refusal) { // the answer holds one, the log holds all
			p.denied(r, refusal, p.requestID())
		}
	}
	var producers []string
	for _, d := range hb.Producers {
		name, err := v.Producer(d.GroupName)
		if err != nil {
			keep(err)
			continue
		}
		producers = append(producers, name)
	}
	var consumers []broker.Consumer
	for i := range hb.Consumers {
		consumer, err := consumerOf(v, &hb.Consumers[i])
		if err != nil {
			keep(err)
			continue
		}
		s.names(consumer.Group, hb.Consumers[i].GroupName)
		consumers = append(consumers, consumer)
	}
	principal, ns, prefixed, remote := r.p, v.NamespaceID(), v.Prefixed(), r.conn.RemoteAddr().Addr()
	s.seenAs(hb.ClientID, func() (*policy.View, error) {
		v, err := principal.In(ns, remote)
		if err == nil {
			v.SetPrefixed(prefixed)
		}
		return v, err
	})
	if err := p.b.Heartbeat(client, producers, consumers); err != nil {
		keep(err)
	}
	if firstErr != nil {
		return nil, firstErr
	}
	return r.ok(), nil
}

// consumerOf maps one consumer of a heartbeat. Topics that the key may not
// read are refused; a filter that cannot be read refuses the consumer.
func consumerOf(v *policy.View, d *wire.ConsumerData) (broker.Consumer, error) {
	group, err := v.Group(d.GroupName, policy.OperationSub)
	if err != nil {
		return broker.Consumer{}, err
	}
	out := broker.Consumer{
		Group: group, ConsumeType: string(d.ConsumeType), MessageModel: string(d.MessageModel), ConsumeFromWhere: string(d.ConsumeFromWhere),
	}
	for i := range d.Subscriptions {
		sub, err := subscriptionOf(v, &d.Subscriptions[i])
		if err != nil {
			return broker.Consumer{}, err
		}
		out.Subscriptions = append(out.Subscriptions, sub)
	}
	return out, nil
}

func subscriptionOf(v *policy.View, s *wire.Subscription) (broker.Subscription, error) {
	topic, err := v.Topic(s.Topic, policy.OperationSub)
	if err != nil {
		return broker.Subscription{}, err
	}
	filter, err := broker.ParseFilter(s.ExpressionType, s.SubString)
	if err != nil {
		return broker.Subscription{}, err
	}
	return broker.Subscription{
		Topic: topic, Expression: s.SubString, ExpressionType: cmp.Or(s.ExpressionType, "TAG"), Tags: s.TagsSet,
		Version: int64(s.SubVersion), Filter: filter,
	}, nil
}

func (p *Processor) unregister(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	id := fields.Text("clientID")
	producer, consumer := fields.Optional("producerGroup"), fields.Optional("consumerGroup")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.view(r, consumer)
	if err != nil {
		return nil, err
	}
	if producer != "" {
		if producer, err = v.Producer(producer); err != nil {
			return nil, err
		}
	}
	if consumer != "" {
		if consumer, err = v.Group(consumer, policy.OperationSub); err != nil {
			return nil, err
		}
	}
	s := p.state(r.conn)
	s.mu.Lock()
	client := s.clients[id]
	s.mu.Unlock()
	if client != nil {
		p.b.Unregister(client, producer, consumer)
	}
	return r.ok(), nil
}

// groupOf reads a group name field and maps it for a member or an onlooker.
func (p *Processor) groupOf(r *request, field string) (string, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text(field)
	if err := fields.Err(); err != nil {
		return "", err
	}
	v, err := p.view(r, name)
	if err != nil {
		return "", err
	}
	group, err := v.Group(name, policy.OperationSub)
	if err != nil {
		group, err = v.Group(name, policy.OperationDescribe)
	}
	return group, err
}

func (p *Processor) consumerList(r *request) (*wire.Frame, error) {
	group, err := p.groupOf(r, "consumerGroup")
	if err != nil {
		return nil, err
	}
	ids := queueSharers(p.b, group)
	if len(ids) == 0 {
		return p.reply(r, wire.SystemError, "consumer_not_online", "no consumer of the group is online here", ""), nil
	}
	return r.json(wire.ConsumerList{ConsumerIDs: ids})
}

// queueSharers are the members among which clients of this protocol divide the
// queues. Members of the other protocol own no queues: the broker hands them
// messages one by one, and a queue divided to one of them would be read by
// nobody.
func queueSharers(b *broker.Broker, group string) []string {
	members, _ := b.Members(group)
	var ids []string
	for _, c := range members.Clients {
		if c.Protocol != broker.ProtocolGRPC {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func connections(clients []*broker.Client) []wire.Connection {
	out := make([]wire.Connection, 0, len(clients))
	for _, c := range clients {
		out = append(out, wire.Connection{ClientAddr: c.Address, ClientID: c.ID, Language: c.Language, Version: c.Version})
	}
	slices.SortFunc(out, func(a, b wire.Connection) int { return cmp.Compare(a.ClientID, b.ClientID) })
	return out
}

func (p *Processor) consumerConnections(r *request) (*wire.Frame, error) {
	group, err := p.groupOf(r, "consumerGroup")
	if err != nil {
		return nil, err
	}
	m, ok := p.b.Members(group)
	if !ok {
		return nil, &broker.Error{Code: broker.CodeNotOnline, Text: "no consumer of the group is online", Group: group}
	}
	out := wire.ConsumerConnections{
		Connections: connections(m.Clients), ConsumeFromWhere: wire.Enum(m.Consumer.ConsumeFromWhere),
		ConsumeType: wire.Enum(m.Consumer.ConsumeType), MessageModel: wire.Enum(m.Consumer.MessageModel),
		Subscriptions: map[string]wire.Subscription{},
	}
	for topic, s := range m.Subscriptions {
		if shown := r.v.ShowTopic(topic); shown != "" {
			out.Subscriptions[shown] = wire.Subscription{
				Topic: shown, SubString: s.Expression, ExpressionType: s.ExpressionType, TagsSet: append([]string{}, s.Tags...), SubVersion: wire.Int(s.Version),
			}
		}
	}
	return r.json(out)
}

func (p *Processor) producerConnections(r *request) (*wire.Frame, error) {
	fields := wire.ReadFields(r.f.Ext)
	name := fields.Text("producerGroup")
	if err := fields.Err(); err != nil {
		return nil, err
	}
	v, err := p.charged(r, name)
	if err != nil {
		return nil, err
	}
	group, err := v.Producer(name)
	if err != nil {
		return nil, err
	}
	clients := p.b.Producers(group)
	if len(clients) == 0 {
		return p.reply(r, wire.SystemError, "producer_not_online", "no producer of the group is online here", ""), nil
	}
	return r.json(struct {
		Connections []wire.Connection `json:"connectionSet"`
	}{connections(clients)})
}

// checkClient tells a consumer at start whether its filter is one that the
// broker understands.
func (p *Processor) checkClient(r *request) (*wire.Frame, error) {
	var body wire.CheckClientRequest
	if err := wire.Unmarshal(r.f.Body, &body); err != nil {
		return nil, err
	}
	v, err := p.view(r, body.Group, body.Subscription.Topic)
	if err != nil {
		return nil, err
	}
	if _, err := v.Group(body.Group, policy.OperationSub); err != nil {
		return nil, err
	}
	if _, err := subscriptionOf(v, &body.Subscription); err != nil {
		return nil, err
	}
	return r.ok(), nil
}
