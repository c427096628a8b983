package namesrv

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// Table is the route table: which brokers there are and which topics they
// serve. It knows no tenants and no network; names are physical. Its methods
// may be called at the same time.
type Table struct {
	now    func() time.Time
	expiry time.Duration

	mu      sync.RWMutex
	brokers map[brokerKey]*brokerEntry
	topics  map[string]map[string]wire.QueueData // topic -> broker name -> queues
}

// brokerKey names one replica of a broker group.
type brokerKey struct {
	cluster, name string
	id            int64
}

type brokerEntry struct {
	addr    string
	seen    time.Time
	expiry  time.Duration
	version wire.DataVersion
	owner   any // the connection that registered it
}

// Registration is what one broker says about itself.
type Registration struct {
	Cluster, BrokerName, Addr string
	BrokerID                  int64
	Expiry                    time.Duration // 0: the table's default
	Version                   wire.DataVersion
	Topics                    map[string]wire.TopicConfig
	// Full says that Topics are all topics of the broker: others of it go.
	Full  bool
	Owner any
}

// NewTable makes an empty table. A broker that is silent for expiry is
// removed.
func NewTable(expiry time.Duration, now func() time.Time) *Table {
	return &Table{now: now, expiry: expiry, brokers: map[brokerKey]*brokerEntry{}, topics: map[string]map[string]wire.QueueData{}}
}

// Register adds or updates a broker. Only the master (id 0) brings topics. An
// address has one id: a broker that came back with another loses the old one.
func (t *Table) Register(r Registration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := brokerKey{r.Cluster, r.BrokerName, r.BrokerID}
	for other, e := range t.brokers {
		if e.addr == r.Addr && other != key && other.cluster == key.cluster && other.name == key.name {
			delete(t.brokers, other)
		}
	}
	e := t.brokers[key]
	if e == nil {
		e = &brokerEntry{}
		t.brokers[key] = e
	}
	e.addr, e.seen, e.version, e.owner = r.Addr, t.now(), r.Version, r.Owner
	e.expiry = r.Expiry
	if e.expiry <= 0 {
		e.expiry = t.expiry
	}
	if r.BrokerID != 0 {
		return
	}
	if r.Full {
		for topic, brokers := range t.topics {
			if _, still := r.Topics[topic]; !still {
				delete(brokers, r.BrokerName)
				if len(brokers) == 0 {
					delete(t.topics, topic)
				}
			}
		}
	}
	for topic, c := range r.Topics {
		if t.topics[topic] == nil {
			t.topics[topic] = map[string]wire.QueueData{}
		}
		t.topics[topic][r.BrokerName] = wire.QueueData{
			BrokerName: r.BrokerName, Perm: c.Perm, ReadQueueNums: c.ReadQueueNums, WriteQueueNums: c.WriteQueueNums, TopicSysFlag: c.TopicSysFlag,
		}
	}
}

// Touch refreshes a broker that is there and returns its data version.
func (t *Table) Touch(cluster, name string, id int64) (wire.DataVersion, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.brokers[brokerKey{cluster, name, id}]
	if e == nil {
		return wire.DataVersion{}, false
	}
	e.seen = t.now()
	return e.version, true
}

// Unregister removes a broker. A master's topics go with it.
func (t *Table) Unregister(cluster, name string, id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(brokerKey{cluster, name, id})
}

func (t *Table) removeLocked(key brokerKey) {
	if t.brokers[key] == nil {
		return
	}
	delete(t.brokers, key)
	for other := range t.brokers {
		if other.name == key.name {
			return // another replica still serves the queues
		}
	}
	for topic, brokers := range t.topics {
		delete(brokers, key.name)
		if len(brokers) == 0 {
			delete(t.topics, topic)
		}
	}
}

// Disconnected removes the brokers that owner registered.
func (t *Table) Disconnected(owner any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, e := range t.brokers {
		if e.owner == owner {
			t.removeLocked(key)
		}
	}
}

// Expire removes brokers that were silent for too long and returns their
// names.
func (t *Table) Expire() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var gone []string
	for key, e := range t.brokers {
		if t.now().Sub(e.seen) > e.expiry {
			t.removeLocked(key)
			gone = append(gone, key.name)
		}
	}
	return gone
}

// DeleteTopic forgets a topic until a broker registers it again.
func (t *Table) DeleteTopic(topic string) {
	t.mu.Lock()
	delete(t.topics, topic)
	t.mu.Unlock()
}

// Route returns where a topic is; false when no broker serves it.
func (t *Table) Route(topic string) (wire.TopicRoute, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	queues := t.topics[topic]
	if len(queues) == 0 {
		return wire.TopicRoute{}, false
	}
	route := wire.TopicRoute{FilterServerTable: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		data, ok := t.brokerLocked(name)
		if !ok {
			continue
		}
		route.BrokerDatas = append(route.BrokerDatas, data)
		route.QueueDatas = append(route.QueueDatas, queues[name])
	}
	return route, len(route.QueueDatas) > 0
}

// replySuffix ends the name of the topic that replies of a cluster are sent
// to. No such topic is stored: brokers hand replies over.
const replySuffix = "_REPLY_TOPIC"

// ReplyRoute returns the route of a cluster's reply topic: every broker of the
// cluster takes replies. False when no cluster has this one.
func (t *Table) ReplyRoute(topic string) (wire.TopicRoute, bool) {
	cluster, ok := strings.CutSuffix(topic, replySuffix)
	if !ok {
		return wire.TopicRoute{}, false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	names := map[string]bool{}
	for key := range t.brokers {
		if key.cluster == cluster && key.id == 0 {
			names[key.name] = true
		}
	}
	route := wire.TopicRoute{FilterServerTable: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if data, ok := t.brokerLocked(name); ok {
			route.BrokerDatas = append(route.BrokerDatas, data)
			route.QueueDatas = append(route.QueueDatas, wire.QueueData{BrokerName: name, Perm: 6, ReadQueueNums: 1, WriteQueueNums: 1})
		}
	}
	return route, len(route.QueueDatas) > 0
}

func (t *Table) brokerLocked(name string) (wire.BrokerData, bool) {
	data := wire.BrokerData{BrokerName: name, BrokerAddrs: map[string]string{}}
	for key, e := range t.brokers {
		if key.name == name {
			data.Cluster = key.cluster
			data.BrokerAddrs[strconv.FormatInt(key.id, 10)] = e.addr
		}
	}
	return data, len(data.BrokerAddrs) > 0
}

// Cluster returns all brokers.
func (t *Table) Cluster() wire.ClusterInfo {
	t.mu.RLock()
	defer t.mu.RUnlock()
	info := wire.ClusterInfo{BrokerAddrTable: map[string]wire.BrokerData{}, ClusterAddrTable: map[string][]string{}}
	for key := range t.brokers {
		if _, done := info.BrokerAddrTable[key.name]; done {
			continue
		}
		info.BrokerAddrTable[key.name], _ = t.brokerLocked(key.name)
		info.ClusterAddrTable[key.cluster] = append(info.ClusterAddrTable[key.cluster], key.name)
	}
	for _, names := range info.ClusterAddrTable {
		slices.Sort(names)
	}
	return info
}

// Member returns one broker group.
func (t *Table) Member(name string) (wire.BrokerData, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.brokerLocked(name)
}

// Topics returns all topic names, sorted; with a cluster, those that a broker
// of it serves.
func (t *Table) Topics(cluster string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	in := map[string]bool{}
	for key := range t.brokers {
		if cluster == "" || key.cluster == cluster {
			in[key.name] = true
		}
	}
	out := []string{}
	for topic, brokers := range t.topics {
		for name := range brokers {
			if in[name] {
				out = append(out, topic)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}
