package proxy

import (
	"crypto/md5"
	"fmt"
	"strconv"
	"strings"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// shown makes the protocol's form of a stored message. topic is what the
// client itself called the topic. It may wait for room to unpack the body, and
// fails when the call ends first; the caller calls done when it was sent.
func (c *call) shown(m *message.Message, topic *v2.Resource) (_ *v2.Message, done func(), err error) {
	body, encoding, done, err := c.plainBody(m)
	if err != nil {
		return nil, nil, fmt.Errorf("wait for room to unpack: %w", err)
	}
	sum := md5.Sum(body)
	sys := &v2.SystemProperties{
		BodyDigest:      &v2.Digest{Type: v2.DigestType_MD5, Checksum: fmt.Sprintf("%X", sum[:])},
		BodyEncoding:    encoding,
		MessageType:     v2.MessageType_NORMAL,
		BornTimestamp:   timestamppb.New(time.UnixMilli(m.BornTimestamp)),
		BornHost:        m.BornHost.String(),
		StoreTimestamp:  timestamppb.New(time.UnixMilli(m.StoreTimestamp)),
		StoreHost:       m.StoreHost.String(),
		QueueId:         m.QueueID,
		QueueOffset:     proto.Int64(m.QueueOffset),
		DeliveryAttempt: proto.Int32(m.ReconsumeTimes + 1),
	}
	user := map[string]string{}
	for k, v := range message.Properties(policy.ShowProperties(c.v, m.Properties)) {
		if !addSystem(sys, string(k), string(v)) && !reserved(string(k)) {
			user[string(k)] = string(v)
		}
	}
	if d := sys.DeadLetterQueue; d != nil && d.Topic == "" {
		sys.DeadLetterQueue = nil
	}
	if sys.MessageId == "" {
		sys.MessageId = message.OffsetID(m.StoreHost, m.PhysicalOffset)
	}
	return &v2.Message{Topic: topic, UserProperties: user, SystemProperties: sys, Body: body}, done, nil
}

// addSystem takes over a property that the protocol has a field for.
func addSystem(sys *v2.SystemProperties, key, value string) bool {
	switch key {
	case message.KeyTags:
		sys.Tag = proto.String(value)
	case message.KeyKeys:
		sys.Keys = strings.Fields(value)
	case message.KeyUniqueKey:
		sys.MessageId = value
	case message.KeyBornHost:
		sys.BornHost = value
	case message.KeyTraceContext:
		sys.TraceContext = proto.String(value)
	case message.KeyShardingKey:
		sys.MessageGroup, sys.MessageType = proto.String(value), v2.MessageType_FIFO
	case message.KeyTimerDeliverMs:
		ms, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return false
		}
		sys.DeliveryTimestamp, sys.MessageType = timestamppb.New(time.UnixMilli(ms)), v2.MessageType_DELAY
	case message.KeyDLQOriginTopic:
		dead(sys).Topic = value
	case message.KeyDLQOriginMessageID:
		dead(sys).MessageId = value
	default:
		return false
	}
	return true
}

func dead(sys *v2.SystemProperties) *v2.DeadLetterQueue {
	if sys.DeadLetterQueue == nil {
		sys.DeadLetterQueue = &v2.DeadLetterQueue{}
	}
	return sys.DeadLetterQueue
}

// received is shown for a message that was handed out.
func (c *call) received(r *broker.Received, topic *v2.Resource, invisible time.Duration) (_ *v2.Message, done func(), err error) {
	stored, err := message.Decode(r.Record)
	if err != nil {
		return nil, nil, fmt.Errorf("decode record: %w", err)
	}
	m, done, err := c.shown(&stored, topic)
	if err != nil {
		return nil, nil, err
	}
	sys := m.SystemProperties
	sys.ReceiptHandle = proto.String(r.Handle)
	sys.DeliveryAttempt = proto.Int32(sys.GetDeliveryAttempt() - 1 + max(r.Attempt, 1))
	sys.InvisibleDuration = durationpb.New(invisible)
	return m, done, nil
}
