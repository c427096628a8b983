package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Unmarshal decodes a JSON body as clients and brokers write it into v: bare
// numeric keys and object literals as keys are turned into string keys first
// (an object key becomes its own JSON text), then encoding/json decodes.
// Unknown members are ignored. Errors are ErrMalformed.
func Unmarshal(body []byte, v any) error {
	strict, err := Normalize(body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(strict, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// Normalize rewrites tolerant JSON as strict JSON without white space.
func Normalize(body []byte) ([]byte, error) {
	p := scanner{s: string(body)}
	out := normalizeValue(make([]byte, 0, len(body)+16), &p, 1, false)
	if p.err == nil && p.peek() != 0 {
		p.fail("bytes after the value")
	}
	if p.err != nil {
		return nil, p.err
	}
	return out, nil
}

// normalizeValue appends one value. inKey forbids a further object key inside
// an object key: each level would double the escapes.
func normalizeValue(dst []byte, p *scanner, depth int, inKey bool) []byte {
	if depth > MaxDepth {
		p.fail("nested deeper than %d", MaxDepth)
		return dst
	}
	switch p.peek() {
	case '{':
		p.i++
		dst = append(dst, '{')
		for first := true; p.more('}', first); first = false {
			if !first {
				dst = append(dst, ',')
			}
			dst = normalizeKey(dst, p, depth, inKey)
			if !p.expect(':') {
				return dst
			}
			dst = append(dst, ':')
			dst = normalizeValue(dst, p, depth+1, inKey)
		}
		return append(dst, '}')
	case '[':
		p.i++
		dst = append(dst, '[')
		for first := true; p.more(']', first); first = false {
			if !first {
				dst = append(dst, ',')
			}
			dst = normalizeValue(dst, p, depth+1, inKey)
		}
		return append(dst, ']')
	case '"':
		return appendQuoted(dst, p.text())
	}
	w := p.word()
	if p.err == nil && !isLiteral(w) {
		p.fail("bare word %.20q", w)
	}
	return append(dst, w...)
}

func normalizeKey(dst []byte, p *scanner, depth int, inKey bool) []byte {
	if p.peek() != '{' {
		return appendQuoted(dst, p.key())
	}
	if inKey {
		p.fail("object key inside an object key")
		return dst
	}
	key := normalizeValue(nil, p, depth+1, true)
	return appendQuoted(dst, string(key))
}

// Int is a JSON integer that also reads from a string, as some clients write
// it.
type Int int64

// UnmarshalJSON reads 5, "5" and null (0).
func (n *Int) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "null" || s == "" {
		*n = 0
		return nil
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return fmt.Errorf("number %.40q: %w", s, err)
	}
	*n = Int(v)
	return nil
}

// MessageQueue names one queue of one broker.
type MessageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// DataVersion tells whether a broker's configuration changed.
type DataVersion struct {
	Counter      Int `json:"counter"`
	StateVersion Int `json:"stateVersion"`
	Timestamp    Int `json:"timestamp"`
}

// Heartbeat is the body of HeartBeat.
type Heartbeat struct {
	ClientID             string         `json:"clientID"`
	Consumers            []ConsumerData `json:"consumerDataSet"`
	Producers            []ProducerData `json:"producerDataSet"`
	HeartbeatFingerprint Int            `json:"heartbeatFingerprint"`
	WithoutSub           bool           `json:"withoutSub"`
}

// ProducerData is one producer group of a heartbeat.
type ProducerData struct {
	GroupName string `json:"groupName"`
}

// ConsumerData is one consumer group of a heartbeat.
type ConsumerData struct {
	GroupName        string         `json:"groupName"`
	ConsumeType      Enum           `json:"consumeType"`
	MessageModel     Enum           `json:"messageModel"`
	ConsumeFromWhere Enum           `json:"consumeFromWhere"`
	Subscriptions    []Subscription `json:"subscriptionDataSet"`
	UnitMode         bool           `json:"unitMode"`
}

// Subscription is one topic of a consumer with its filter. Code sets are not
// read: some clients write them as strings, and they follow from the tags.
type Subscription struct {
	Topic           string   `json:"topic"`
	SubString       string   `json:"subString"`
	ExpressionType  string   `json:"expressionType"`
	TagsSet         []string `json:"tagsSet"`
	SubVersion      Int      `json:"subVersion"`
	ClassFilterMode bool     `json:"classFilterMode"`
}

// Enum is an enumeration value, written by name; numbers read as their
// decimal text.
type Enum string

// UnmarshalJSON reads a name or a number.
func (e *Enum) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(e))
	}
	if s := string(b); s != "null" {
		*e = Enum(s)
	}
	return nil
}

// LockRequest is the body of LockBatchMQ and UnlockBatchMQ.
type LockRequest struct {
	ClientID      string         `json:"clientId"`
	ConsumerGroup string         `json:"consumerGroup"`
	Queues        []MessageQueue `json:"mqSet"`
}

// CheckClientRequest is the body of CheckClientConfig.
type CheckClientRequest struct {
	ClientID     string       `json:"clientId"`
	Group        string       `json:"group"`
	Subscription Subscription `json:"subscriptionData"`
}

// BrokerData is one broker group of a route. Keys of BrokerAddrs are broker
// ids as text: 0 is the master.
type BrokerData struct {
	BrokerAddrs        map[string]string `json:"brokerAddrs"`
	BrokerName         string            `json:"brokerName"`
	Cluster            string            `json:"cluster"`
	EnableActingMaster bool              `json:"enableActingMaster"`
}

// QueueData is the share of one broker group in a topic.
type QueueData struct {
	BrokerName     string `json:"brokerName"`
	Perm           int32  `json:"perm"`
	ReadQueueNums  int32  `json:"readQueueNums"`
	TopicSysFlag   int32  `json:"topicSysFlag"`
	WriteQueueNums int32  `json:"writeQueueNums"`
}

// TopicRoute is the reply body of GetRouteInfoByTopic.
type TopicRoute struct {
	BrokerDatas       []BrokerData        `json:"brokerDatas"`
	FilterServerTable map[string][]string `json:"filterServerTable"`
	QueueDatas        []QueueData         `json:"queueDatas"`
}

// ClusterInfo is the reply body of GetBrokerClusterInfo.
type ClusterInfo struct {
	BrokerAddrTable  map[string]BrokerData `json:"brokerAddrTable"`
	ClusterAddrTable map[string][]string   `json:"clusterAddrTable"`
}

// TopicConfig is a topic as brokers register and list it.
type TopicConfig struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int32             `json:"perm"`
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType Enum              `json:"topicFilterType"`
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int32             `json:"topicSysFlag"`
	WriteQueueNums  int32             `json:"writeQueueNums"`
}

// TopicConfigs is the reply body of GetAllTopicConfig and part of a
// registration.
type TopicConfigs struct {
	DataVersion DataVersion            `json:"dataVersion"`
	Topics      map[string]TopicConfig `json:"topicConfigTable"`
}

// RegisterBrokerBody is the body of RegisterBroker.
type RegisterBrokerBody struct {
	FilterServers []string     `json:"filterServerList"`
	Topics        TopicConfigs `json:"topicConfigSerializeWrapper"`
}

// GroupConfig is a consumer group as brokers list it.
type GroupConfig struct {
	Attributes                     map[string]string `json:"attributes"`
	BrokerID                       int64             `json:"brokerId"`
	ConsumeBroadcastEnable         bool              `json:"consumeBroadcastEnable"`
	ConsumeEnable                  bool              `json:"consumeEnable"`
	ConsumeFromMinEnable           bool              `json:"consumeFromMinEnable"`
	ConsumeMessageOrderly          bool              `json:"consumeMessageOrderly"`
	ConsumeTimeoutMinute           int32             `json:"consumeTimeoutMinute"`
	GroupName                      string            `json:"groupName"`
	GroupRetryPolicy               json.RawMessage   `json:"groupRetryPolicy,omitempty"`
	GroupSysFlag                   int32             `json:"groupSysFlag"`
	NotifyConsumerIDsChangedEnable bool              `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes                  int32             `json:"retryMaxTimes"`
	RetryQueueNums                 int32             `json:"retryQueueNums"`
	WhichBrokerWhenConsumeSlowly   int64             `json:"whichBrokerWhenConsumeSlowly"`
}

// GroupConfigs is the reply body of GetAllGroupConfig.
type GroupConfigs struct {
	DataVersion DataVersion            `json:"dataVersion"`
	Forbidden   map[string]any         `json:"forbiddenTable"`
	Groups      map[string]GroupConfig `json:"subscriptionGroupTable"`
}

// FullRegistration is the header field of RegisterBroker which says that the
// body's topics are all that the broker has. Brokers of other make do not send
// it; then a name server removes nothing.
const FullRegistration = "__SLUICE_FULL"

// Registration is what a broker announces at name servers.
type Registration struct {
	Cluster, BrokerName, Addr string
	BrokerID                  int64
	Full                      bool // Topics are all topics of the broker
	Topics                    TopicConfigs
}

// TopicList is the reply body of the topic list requests.
type TopicList struct {
	BrokerAddr string   `json:"brokerAddr,omitempty"`
	Topics     []string `json:"topicList"`
}

// KVTable is a flat table of texts.
type KVTable struct {
	Table map[string]string `json:"table"`
}

// ConsumerList is the reply body of GetConsumerListByGroup.
type ConsumerList struct {
	ConsumerIDs []string `json:"consumerIdList"`
}

// Connection is one client connection in a connection list.
type Connection struct {
	ClientAddr string `json:"clientAddr"`
	ClientID   string `json:"clientId"`
	Language   string `json:"language"`
	Version    int32  `json:"version"`
}

// ConsumerConnections is the reply body of GetConsumerConnectionList.
type ConsumerConnections struct {
	Connections      []Connection            `json:"connectionSet"`
	ConsumeFromWhere Enum                    `json:"consumeFromWhere"`
	ConsumeType      Enum                    `json:"consumeType"`
	MessageModel     Enum                    `json:"messageModel"`
	Subscriptions    map[string]Subscription `json:"subscriptionTable"`
}

// GroupSubscription is the reply body of QuerySubscriptionByConsumer.
type GroupSubscription struct {
	Group        string        `json:"group"`
	Topic        string        `json:"topic"`
	Subscription *Subscription `json:"subscriptionData,omitempty"`
}

// TimeSpans is the reply body of QueryConsumeTimeSpan.
type TimeSpans struct {
	Spans []TimeSpan `json:"consumeTimeSpanSet"`
}

// TimeSpan is one queue in TimeSpans; all times are in ms, 0 for none.
type TimeSpan struct {
	ConsumeTimestamp int64        `json:"consumeTimeStamp"`
	DelayTime        int64        `json:"delayTime"`
	MaxTimestamp     int64        `json:"maxTimeStamp"`
	Queue            MessageQueue `json:"messageQueue"`
	MinTimestamp     int64        `json:"minTimeStamp"`
}

// ResetQueue is one queue in Sluice's own answer of InvokeBrokerToResetOffset:
// the next message to consume before (-1: none) and after, and the queue's range.
type ResetQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	From       int64  `json:"from"`
	To         int64  `json:"to"`
	Min        int64  `json:"min"`
	Max        int64  `json:"max"`
}

// What SettleTransaction is asked for.
const (
	SettleLook     = "look" // whether it is there, ended or not
	SettleCommit   = "commit"
	SettleRollback = "rollback"
	SettleCheck    = "check" // ask the producer from the beginning again
)

// What SettleTransaction answers.
const (
	SettledDone    = "done"    // also when it had ended so before
	SettledUnknown = "unknown" // no half message of the namespace is there
	SettledEnded   = "ended"   // the other way, or for a check: any way
)

// Transaction is a half message that has not ended, in Sluice's own answer of
// ListTransactions. Names are physical, times in ms.
type Transaction struct {
	HalfOffset     int64  `json:"halfOffset"`     // in the topic of half messages
	PhysicalOffset int64  `json:"physicalOffset"` // in the commit log
	Topic          string `json:"topic"`
	Group          string `json:"group"`
	UniqueKey      string `json:"uniqueKey"`
	Stored         int64  `json:"stored"`
	NextCheck      int64  `json:"nextCheck"` // 0: none
	Checks         int    `json:"checks"`
	GivenUp        bool   `json:"givenUp"`
	Bytes          int    `json:"bytes"` // of the body
}

// TransactionList is a page of them in the order of half offsets.
type TransactionList struct {
	BrokerName   string        `json:"brokerName"`
	Transactions []Transaction `json:"transactions"`
	Next         int64         `json:"next"` // half offset to go on at; -1 at the end
}

// OffsetProgress is one queue in ConsumeStats.
type OffsetProgress struct {
	BrokerOffset   int64 `json:"brokerOffset"`
	ConsumerOffset int64 `json:"consumerOffset"`
	LastTimestamp  int64 `json:"lastTimestamp"`
	PullOffset     int64 `json:"pullOffset"`
}

// QueueRange is one queue in TopicStats.
type QueueRange struct {
	LastUpdateTimestamp int64 `json:"lastUpdateTimestamp"`
	MaxOffset           int64 `json:"maxOffset"`
	MinOffset           int64 `json:"minOffset"`
}

// AppendQueueTable appends the text {"<name>":{{queue}:value,...}<tail>}: a
// table keyed by queue objects, which is how the reference writes it and the
// only form every official tool reads.
func AppendQueueTable[V any](dst []byte, name string, queues []MessageQueue, values []V, tail string) ([]byte, error) {
	dst = append(dst, '{')
	dst = appendQuoted(dst, name)
	dst = append(dst, ':', '{')
	for i, q := range queues {
		if i > 0 {
			dst = append(dst, ',')
		}
		key, err := json.Marshal(q)
		if err != nil {
			return nil, fmt.Errorf("encode queue: %w", err)
		}
		value, err := json.Marshal(values[i])
		if err != nil {
			return nil, fmt.Errorf("encode value of queue: %w", err)
		}
		dst = append(append(append(dst, key...), ':'), value...)
	}
	dst = append(dst, '}')
	dst = append(dst, tail...)
	return append(dst, '}'), nil
}
