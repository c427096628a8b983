package broker

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
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

// members are the tables of who consumes and who produces.
type members struct {
	expiry time.Duration
	now    func() time.Time

	mu        sync.Mutex
	consumers map[string]*consumerGroup
	producers map[string]map[*Client]time.Time
}

func newMembers(expiry time.Duration, now func() time.Time) *members {
	return &members{expiry: expiry, now: now, consumers: map[string]*consumerGroup{}, producers: map[string]map[*Client]time.Time{}}
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
// are left out, and the first of them is returned as an error after everything
// else was done.
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
	b.notify(b.members.heartbeat(c, producers, known))
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

// Subscribed returns what the group's members want of a topic.
func (b *Broker) Subscribed(group, topic string) (Subscription, bool) {
	b.members.mu.Lock()
	defer b.members.mu.Unlock()
	g := b.members.consumers[group]
	if g == nil {
		return Subscription{}, false
	}
	s, ok := g.subs[topic]
	return s, ok
}

func (m *members) heartbeat(c *Client, producers []string, consumers []Consumer) []notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for _, p := range producers {
		if m.producers[p] == nil {
			m.producers[p] = map[*Client]time.Time{}
		}
		m.producers[p][c] = now
	}
	var notices []notice
	for _, consumer := range consumers {
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
	return notices
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
	delete(m.producers[group], c)
	if len(m.producers[group]) == 0 {
		delete(m.producers, group)
	}
}

func (m *members) removeConsumerLocked(c *Client, group string) []notice {
	g := m.consumers[group]
	if g == nil || g.members[c] == nil {
		return nil
	}
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
	for group := range m.producers {
		m.removeProducerLocked(c, group)
	}
	var notices []notice
	for group := range m.consumers {
		notices = append(notices, m.removeConsumerLocked(c, group)...)
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
