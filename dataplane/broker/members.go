package broker

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/transaction"
)

// Client is one connection of a client, made and kept by a front. Its address
// in memory is its identity: two connections with the same client id are two
// members. The fields must not change after the first Heartbeat.
type Client struct {
	ID       string
	Address  string
	Language string
	Version  int32
	Protocol byte
	// Notify is called, outside of all locks, when the members of a group that
	// the client consumes for have changed. It must not block.
	Notify func(group string)
	// Ask, if set, puts a question about a transaction to the client. It must
	// not block.
	Ask func(transaction.Check) transaction.Answer
	// Reply, if set, hands the reply to a request over and waits until the
	// client has it.
	Reply func(ctx context.Context, m *message.Message) error
}

// Subscription is one topic that a consumer wants.
type Subscription struct {
	Topic          string // physical
	Expression     string
	ExpressionType string
	Tags           []string
	Version        int64
	Filter         *Filter
}

// Consumer is what a client says about one of its consumer groups.
type Consumer struct {
	Group            string // physical
	ConsumeType      string // CONSUME_PASSIVELY, CONSUME_ACTIVELY, CONSUME_POP
	MessageModel     string // CLUSTERING, BROADCASTING
	ConsumeFromWhere string
	Subscriptions    []Subscription
}

// modelBroadcasting is the message model whose members share nothing.
const modelBroadcasting = "BROADCASTING"

// GroupMembers is a consumer group as its members describe it now.
type GroupMembers struct {
	Clients       []*Client
	Consumer      Consumer // of the member that spoke last
	Subscriptions map[string]Subscription
}

type member struct {
	seen     time.Time
	consumer Consumer
}

type consumerGroup struct {
	members map[*Client]*member
	subs    map[string]Subscription
	last    Consumer
}

// membership is one client in one group.
type membership struct {
	consumer bool
	group    string
}

// clientRef names a client as others of its namespace do.
type clientRef struct{ namespace, id string }

// members are the tables of who consumes and who produces. What clients of one
// namespace may say about themselves is bounded together, so that it takes
// nothing from others.
type members struct {
	expiry time.Duration
	limit  int // bytes of one namespace
	now    func() time.Time

	mu        sync.Mutex
	consumers map[string]*consumerGroup
	producers map[string]map[*Client]time.Time
	byID      map[clientRef]*Client          // of those that produce; the newest of an id
	held      map[*Client]map[membership]int // bytes
	used      map[string]int                 // bytes, by namespace
}

func newMembers(expiry time.Duration, limit int, now func() time.Time) *members {
	return &members{
		expiry: expiry, limit: limit, now: now, consumers: map[string]*consumerGroup{}, producers: map[string]map[*Client]time.Time{}, byID: map[clientRef]*Client{},
		held: map[*Client]map[membership]int{}, used: map[string]int{},
	}
}

// entryBytes is about what an entry of the tables takes beside its texts.
const entryBytes = 256

func (c *Consumer) bytes() int {
	n := entryBytes + len(c.Group)
	for i := range c.Subscriptions {
		s := &c.Subscriptions[i]
		n += entryBytes + len(s.Topic) + len(s.Expression) + s.Filter.Bytes()
		for _, tag := range s.Tags {
			n += 16 + len(tag)
		}
	}
	return n
}

func namespaceOf(group string) string {
	ns, _, _ := strings.Cut(group, "%")
	return ns
}

// holdLocked counts what a membership takes; false when the namespace has no
// room for it.
func (m *members) holdLocked(c *Client, key membership, bytes int) bool {
	ns := namespaceOf(key.group)
	used := m.used[ns] - m.held[c][key] + bytes
	if used > m.limit {
		return false
	}
	if m.held[c] == nil {
		m.held[c] = map[membership]int{}
	}
	m.held[c][key], m.used[ns] = bytes, used
	return true
}

func (m *members) freeLocked(c *Client, key membership) {
	ns := namespaceOf(key.group)
	if m.used[ns] -= m.held[c][key]; m.used[ns] <= 0 {
		delete(m.used, ns)
	}
	if delete(m.held[c], key); len(m.held[c]) == 0 {
		delete(m.held, c)
	}
}

// notice says which client must hear about which group.
type notice struct {
	client *Client
	group  string
}

func (b *Broker) notify(notices []notice) {
	for _, n := range notices {
		if n.client.Notify != nil {
			n.client.Notify(n.group)
		}
	}
}

// Heartbeat keeps the client a member of its groups. Groups that do not exist
// are left out, and so is what passes Config.MaxMemberBytes; the first of them
// is returned as an error after everything else was done.
func (b *Broker) Heartbeat(c *Client, producers []string, consumers []Consumer) error {
	var firstErr error
	known := consumers[:0:0]
	for _, consumer := range consumers {
		g, ok := b.store.Group(consumer.Group)
		if !ok {
			if firstErr == nil {
				firstErr = groupNotFound(consumer.Group)
			}
			continue
		}
		if consumer.MessageModel == modelBroadcasting && !g.ConsumeBroadcastEnable {
			if firstErr == nil {
				firstErr = &Error{Code: CodeNoPermission, Text: "broadcasting is switched off for the group", Group: consumer.Group}
			}
			continue
		}
		known = append(known, consumer)
	}
	notices, whole := b.members.heartbeat(c, producers, known)
	b.notify(notices)
	if c.Protocol == ProtocolRemoting { // the other says with each request what it wants
		for i := range known {
			b.subscriptions.remember(known[i].Group, b.members.subscriptions(known[i].Group))
		}
	}
	if !whole && firstErr == nil {
		firstErr = &Error{
			Code: CodeBusy, Text: "the clients of the namespace name too many groups and subscriptions on this broker: part of the heartbeat was left out",
			Limit: strconv.Itoa(b.cfg.MaxMemberBytes) + " bytes",
		}
	}
	return firstErr
}

// Unregister removes the client from a producer group, a consumer group, or
// both; empty names are skipped.
func (b *Broker) Unregister(c *Client, producer, consumer string) {
	b.notify(b.members.remove(c, producer, consumer))
}

// Disconnect removes the client from everything.
func (b *Broker) Disconnect(c *Client) { b.notify(b.members.removeAll(c)) }

// ConsumerIDs returns the client ids of a group's members, sorted.
func (b *Broker) ConsumerIDs(group string) []string {
	b.members.mu.Lock()
	defer b.members.mu.Unlock()
	g := b.members.consumers[group]
	if g == nil {
		return nil
	}
	ids := make([]string, 0, len(g.members))
	for c := range g.members {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	return ids
}

// Members describes a consumer group; false when nobody is online.
func (b *Broker) Members(group string) (GroupMembers, bool) {
	b.members.mu.Lock()
	defer b.members.mu.Unlock()
	g := b.members.consumers[group]
	if g == nil {
		return GroupMembers{}, false
	}
	out := GroupMembers{Consumer: g.last, Subscriptions: make(map[string]Subscription, len(g.subs))}
	for c := range g.members {
		out.Clients = append(out.Clients, c)
	}
	maps.Copy(out.Subscriptions, g.subs)
	slices.SortFunc(out.Clients, func(a, b *Client) int { return strings.Compare(a.ID, b.ID) })
	return out, true
}

// Producers returns the clients of a producer group.
func (b *Broker) Producers(group string) []*Client {
	b.members.mu.Lock()
	defer b.members.mu.Unlock()
	var out []*Client
	for c := range b.members.producers[group] {
		out = append(out, c)
	}
	return out
}

// Subscribed returns what the group's members want of a topic, or wanted when
// they were online last.
func (b *Broker) Subscribed(group, topic string) (Subscription, bool) {
	if subs := b.members.subscriptions(group); subs != nil {
		s, ok := subs[topic]
		return s, ok
	}
	return b.subscriptions.get(group, topic)
}

// subscriptions returns what the members of a group want, by topic; nil when
// nobody is online. The map is never changed.
func (m *members) subscriptions(group string) map[string]Subscription {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.consumers[group]; g != nil {
		return g.subs
	}
	return nil
}

// heartbeat takes over what a client says; whole is false when there was no
// room for all of it.
func (m *members) heartbeat(c *Client, producers []string, consumers []Consumer) (notices []notice, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	whole = true
	for _, p := range producers {
		if !m.holdLocked(c, membership{group: p}, entryBytes+len(p)) {
			whole = false
			continue
		}
		if m.producers[p] == nil {
			m.producers[p] = map[*Client]time.Time{}
		}
		m.producers[p][c] = now
		m.byID[clientRef{namespaceOf(p), c.ID}] = c
	}
	for i := range consumers {
		consumer := consumers[i]
		if !m.holdLocked(c, membership{consumer: true, group: consumer.Group}, consumer.bytes()) {
			whole = false
			continue
		}
		g := m.consumers[consumer.Group]
		if g == nil {
			g = &consumerGroup{members: map[*Client]*member{}}
			m.consumers[consumer.Group] = g
		}
		mem := g.members[c]
		changed := mem == nil
		if mem == nil {
			mem = &member{}
			g.members[c] = mem
		}
		mem.seen, mem.consumer = now, consumer
		if g.refreshLocked(consumer) || changed {
			notices = append(notices, g.noticesLocked(consumer.Group, c)...)
		}
	}
	return notices, whole
}

// refreshLocked takes over the subscriptions of the newest heartbeat and drops
// topics that no member wants any more. It reports whether the set of topics
// changed.
func (g *consumerGroup) refreshLocked(newest Consumer) bool {
	old := g.subs
	g.last = newest
	g.subs = make(map[string]Subscription, len(old))
	for _, mem := range g.members {
		for _, s := range mem.consumer.Subscriptions {
			if have, ok := g.subs[s.Topic]; !ok || s.Version > have.Version {
				g.subs[s.Topic] = s
			}
		}
	}
	if len(old) != len(g.subs) {
		return true
	}
	for t := range g.subs {
		if _, ok := old[t]; !ok {
			return true
		}
	}
	return false
}

// noticesLocked lists the members to notify. Members that broadcast share no
// queues: only the one that joined hears of it, since some clients begin to
// pull at their first notice.
func (g *consumerGroup) noticesLocked(group string, joined *Client) []notice {
	if g.last.MessageModel == modelBroadcasting {
		if joined == nil {
			return nil
		}
		return []notice{{joined, group}}
	}
	out := make([]notice, 0, len(g.members))
	for c := range g.members {
		out = append(out, notice{c, group})
	}
	return out
}

func (m *members) remove(c *Client, producer, consumer string) []notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	if producer != "" {
		m.removeProducerLocked(c, producer)
	}
	if consumer == "" {
		return nil
	}
	return m.removeConsumerLocked(c, consumer)
}

func (m *members) removeProducerLocked(c *Client, group string) {
	if _, ok := m.producers[group][c]; !ok {
		return
	}
	m.freeLocked(c, membership{group: group})
	delete(m.producers[group], c)
	if len(m.producers[group]) == 0 {
		delete(m.producers, group)
	}
	ref := clientRef{namespaceOf(group), c.ID}
	for key := range m.held[c] {
		if !key.consumer && namespaceOf(key.group) == ref.namespace {
			return
		}
	}
	if m.byID[ref] == c {
		delete(m.byID, ref)
	}
}

func (m *members) removeConsumerLocked(c *Client, group string) []notice {
	g := m.consumers[group]
	if g == nil || g.members[c] == nil {
		return nil
	}
	m.freeLocked(c, membership{consumer: true, group: group})
	delete(g.members, c)
	if len(g.members) == 0 {
		delete(m.consumers, group)
		return nil
	}
	g.refreshLocked(g.last)
	return g.noticesLocked(group, nil)
}

func (m *members) removeAll(c *Client) []notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	var notices []notice
	for key := range m.held[c] {
		if key.consumer {
			notices = append(notices, m.removeConsumerLocked(c, key.group)...)
		} else {
			m.removeProducerLocked(c, key.group)
		}
	}
	return notices
}

// expire removes members that were silent for too long.
func (m *members) expire() []notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := m.now().Add(-m.expiry)
	for group, clients := range m.producers {
		for c, seen := range clients {
			if seen.Before(limit) {
				m.removeProducerLocked(c, group)
			}
		}
	}
	var notices []notice
	for group, g := range m.consumers {
		for c, mem := range g.members {
			if mem.seen.Before(limit) {
				notices = append(notices, m.removeConsumerLocked(c, group)...)
			}
		}
	}
	return notices
}
