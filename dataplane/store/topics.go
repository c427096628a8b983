package store

import (
	"encoding/json"
	"fmt"
)

// Perm bits of a topic.
const (
	PermInherit  = 1
	PermWrite    = 2
	PermRead     = 4
	PermPriority = 8
)

// Attribute keys of topics.
const (
	AttributeMessageType = "message.type" // NORMAL, FIFO, DELAY, TRANSACTION
	AttributeQueueType   = "queue.type"   // SimpleCQ, BatchCQ
	AttributeID          = "sluice.id"    // id of the resource in the control plane
)

// TopicConfig is one topic as topics.json holds it.
type TopicConfig struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int               `json:"perm"`
	ReadQueueNums   int               `json:"readQueueNums"`
	TopicFilterType string            `json:"topicFilterType"` // SINGLE_TAG or MULTI_TAG
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int               `json:"topicSysFlag"`
	WriteQueueNums  int               `json:"writeQueueNums"`
}

// DefaultTopicConfig returns a readable and writable topic with 8 queues.
func DefaultTopicConfig(name string) TopicConfig {
	return TopicConfig{
		Attributes: map[string]string{}, Perm: PermRead | PermWrite, ReadQueueNums: 8, WriteQueueNums: 8,
		TopicFilterType: "SINGLE_TAG", TopicName: name,
	}
}

// GroupConfig is one consumer group as subscriptionGroup.json holds it.
type GroupConfig struct {
	Attributes                     map[string]string `json:"attributes"`
	BrokerID                       int64             `json:"brokerId"`
	ConsumeBroadcastEnable         bool              `json:"consumeBroadcastEnable"`
	ConsumeEnable                  bool              `json:"consumeEnable"`
	ConsumeFromMinEnable           bool              `json:"consumeFromMinEnable"`
	ConsumeMessageOrderly          bool              `json:"consumeMessageOrderly"`
	ConsumeTimeoutMinute           int               `json:"consumeTimeoutMinute"`
	GroupName                      string            `json:"groupName"`
	GroupRetryPolicy               GroupRetryPolicy  `json:"groupRetryPolicy"`
	GroupSysFlag                   int               `json:"groupSysFlag"`
	NotifyConsumerIdsChangedEnable bool              `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes                  int               `json:"retryMaxTimes"`
	RetryQueueNums                 int               `json:"retryQueueNums"`
	SubscriptionDataSet            json.RawMessage   `json:"subscriptionDataSet,omitempty"`
	WhichBrokerWhenConsumeSlowly   int64             `json:"whichBrokerWhenConsumeSlowly"`
}

// GroupRetryPolicy says how long a message waits before it is tried again.
type GroupRetryPolicy struct {
	Type        string                  `json:"type"` // CUSTOMIZED or EXPONENTIAL
	Exponential *ExponentialRetryPolicy `json:"exponentialRetryPolicy,omitempty"`
	Customized  *CustomizedRetryPolicy  `json:"customizedRetryPolicy,omitempty"`
}

// ExponentialRetryPolicy waits Initial ms, then Multiplier times longer, up to Max.
type ExponentialRetryPolicy struct {
	Initial    int64 `json:"initial"`
	Max        int64 `json:"max"`
	Multiplier int64 `json:"multiplier"`
}

// CustomizedRetryPolicy lists the waits in ms.
type CustomizedRetryPolicy struct {
	Next []int64 `json:"next"`
}

// DefaultGroupConfig returns a group that consumes, with 16 retries.
func DefaultGroupConfig(name string) GroupConfig {
	return GroupConfig{
		Attributes: map[string]string{}, ConsumeBroadcastEnable: true, ConsumeEnable: true, ConsumeFromMinEnable: true,
		ConsumeTimeoutMinute: 15, GroupName: name, GroupRetryPolicy: GroupRetryPolicy{Type: "CUSTOMIZED"},
		NotifyConsumerIdsChangedEnable: true, RetryMaxTimes: 16, RetryQueueNums: 1, WhichBrokerWhenConsumeSlowly: 1,
	}
}

// DataVersion orders versions of a configuration table: StateVersion, then
// Counter, then Timestamp.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"`
}

// ValidName refuses what must not become a folder name: empty, "." and "..",
// anything with a slash, backslash or NUL, anything over 255 bytes. The error
// is ErrName.
func ValidName[T string | []byte](name T) error {
	if len(name) > 255 {
		return fmt.Errorf("%d bytes, at most 255 are allowed: %w", len(name), ErrName)
	}
	bad := len(name) == 0 || string(name) == "." || string(name) == ".."
	for i := range len(name) {
		bad = bad || name[i] == '/' || name[i] == '\\' || name[i] == 0
	}
	if bad {
		return fmt.Errorf("%q: %w", string(name), ErrName)
	}
	return nil
}
