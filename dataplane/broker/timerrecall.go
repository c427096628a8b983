package broker

import (
	"context"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/message"
)

// recallTag marks messages that take another one back, as RocketMQ does.
const recallTag = "_RECALL_TAG_"

// Recall takes a message back that waits for a time of its own. topic is
// physical; r.Topic was compared with it. The message is not delivered if its
// time has not come before this is stored; nobody is charged. The error is
// CodeRecallLate when the time is over.
func (b *Broker) Recall(ctx context.Context, topic string, r Recall) (Sent, error) {
	now := b.now().UnixMilli()
	if r.At <= now {
		return Sent{}, &Error{Code: CodeRecallLate, Text: "the time of the message has come: it cannot be taken back", Topic: topic}
	}
	var props []byte
	for _, p := range [][2]string{
		{message.KeyTags, recallTag}, {message.KeyTimerDeleteKey, r.Unique}, {message.KeyTimerDeliverMs, strconv.FormatInt(r.At, 10)}, {message.KeyBornTimestamp, strconv.FormatInt(now, 10)},
	} {
		props = message.AppendProperty(props, p[0], p[1])
	}
	m := &message.Message{Topic: topic, QueueID: 0, BornTimestamp: now, Body: []byte("0"), Properties: props}
	return b.Send(ctx, Caller{}, m, -1)
}
