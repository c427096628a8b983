package mqclient

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// actorField carries who is charged for a message that Sluice sends.
const actorField = "__SLUICE_ACTOR"

// SendRequest is one message to send.
type SendRequest struct {
	Topic      string // physical
	QueueID    int32  // -1: the broker chooses
	Body       []byte
	Properties []byte // encoded as in a record
	Flag       int32
	Actor      string // whose usage it is, such as a person's id
	Born       time.Time
}

// SendResult tells where the message went.
type SendResult struct {
	MessageID   string // offset id
	UniqueKey   string
	QueueID     int32
	QueueOffset int64
}

// producerGroup is the group that Sluice's own sends name.
const producerGroup = "SLUICE_SYSTEM"

// Send stores one message.
func (n Node) Send(ctx context.Context, s SendRequest) (SendResult, error) {
	h := wire.SendHeader{
		ProducerGroup: producerGroup, Topic: s.Topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: s.QueueID,
		BornTimestamp: s.Born.UnixMilli(), Flag: s.Flag, Properties: string(s.Properties), MaxReconsumeTimes: -1,
	}
	ext := h.Fields(wire.SendMessageV2).Map()
	if s.Actor != "" {
		ext[actorField] = s.Actor
	}
	resp, err := n.Call(ctx, wire.SendMessageV2, ext, s.Body, wire.FlushDiskTimeout)
	if err != nil {
		return SendResult{}, err
	}
	r := wire.ReadFields(resp.Ext)
	out := SendResult{MessageID: r.Text("msgId"), UniqueKey: r.Optional("transactionId"), QueueID: r.Int32("queueId"), QueueOffset: r.Int64("queueOffset")}
	return out, r.Err()
}

// PullRequest asks for messages of one queue, outside of any group.
type PullRequest struct {
	Topic   string // physical
	QueueID int32
	Offset  int64
	Max     int           // 0: 32
	Hold    time.Duration // wait for a message; ctx must allow for it
	Tags    string        // filter, "" for all
}

// PullResult is what was there. Records are decoded from one buffer, which
// they alias.
type PullResult struct {
	Next, Min, Max int64
	Messages       []message.Message
}

// Pull reads messages. An empty result is no error: go on at Next.
func (n Node) Pull(ctx context.Context, p PullRequest) (PullResult, error) {
	h := wire.PullHeader{
		ConsumerGroup: producerGroup, Topic: p.Topic, QueueID: p.QueueID, QueueOffset: p.Offset, MaxMessages: int32(p.Max),
		SysFlag: wire.PullFlagSubscription, SuspendTimeoutMillis: p.Hold.Milliseconds(), Subscription: p.Tags, ExpressionType: "TAG",
	}
	if p.Max <= 0 {
		h.MaxMessages = 32
	}
	if p.Hold > 0 {
		h.SysFlag |= wire.PullFlagSuspend
	}
	resp, err := n.Call(ctx, wire.PullMessage, h.Fields().Map(), nil, wire.PullNotFound, wire.PullRetryImmediately, wire.PullOffsetMoved)
	if err != nil {
		return PullResult{}, err
	}
	r := wire.ReadFields(resp.Ext)
	out := PullResult{Next: r.Int64("nextBeginOffset"), Min: r.Int64("minOffset"), Max: r.Int64("maxOffset")}
	if err := r.Err(); err != nil {
		return PullResult{}, err
	}
	out.Messages, err = decodeRecords(resp.Body)
	return out, err
}

func decodeRecords(body []byte) ([]message.Message, error) {
	var out []message.Message
	for len(body) > 0 {
		if len(body) < 4 {
			return nil, fmt.Errorf("records: %w", message.ErrCorrupt)
		}
		size := int(int32(binary.BigEndian.Uint32(body)))
		if size < message.MinRecordBytes || size > len(body) {
			return nil, fmt.Errorf("records: %w", message.ErrCorrupt)
		}
		m, err := message.Decode(body[:size])
		if err != nil {
			return nil, err
		}
		out = append(out, m)
		body = body[size:]
	}
	return out, nil
}

// View returns the message at a commit log offset.
func (n Node) View(ctx context.Context, offset int64) (message.Message, error) {
	resp, err := n.Call(ctx, wire.ViewMessageByID, map[string]string{"offset": strconv.FormatInt(offset, 10)}, nil)
	if err != nil {
		return message.Message{}, err
	}
	return message.Decode(resp.Body)
}

// beforeField is understood by our brokers alone; see KeyQuery.Before.
const beforeField = "__SLUICE_BEFORE"

// KeyQuery asks for the messages of a topic that have a key.
type KeyQuery struct {
	Topic    string // physical
	Key      string
	Unique   bool  // the key is the id that the client gave the message; From and To do not count
	From, To int64 // store times in ms, both included
	Before   int64 // only messages in front of this commit log offset; 0 for all
	Max      int   // newest messages to return, 1 to 64
}

// FindByKey returns the messages that a query asks for, oldest first, none
// without an error when there are none.
func (n Node) FindByKey(ctx context.Context, q KeyQuery) ([]message.Message, error) {
	ext := map[string]string{
		"topic": q.Topic, "key": q.Key, "maxNum": strconv.Itoa(q.Max), "beginTimestamp": strconv.FormatInt(q.From, 10),
		"endTimestamp": strconv.FormatInt(q.To, 10), beforeField: strconv.FormatInt(q.Before, 10),
	}
	if q.Unique {
		ext["indexType"] = "U"
	}
	resp, err := n.Call(ctx, wire.QueryMessage, ext, nil, wire.QueryNotFound)
	if err != nil || resp.Code == wire.QueryNotFound {
		return nil, err
	}
	return decodeRecords(resp.Body)
}

func (n Node) number(ctx context.Context, code int32, field string, ext map[string]string) (int64, error) {
	resp, err := n.Call(ctx, code, ext, nil)
	if err != nil {
		return 0, err
	}
	r := wire.ReadFields(resp.Ext)
	v := r.Int64(field)
	return v, r.Err()
}

func queueFields(topic string, queueID int32) map[string]string {
	return map[string]string{"topic": topic, "queueId": strconv.Itoa(int(queueID))}
}

// MaxOffset returns the next offset of a queue.
func (n Node) MaxOffset(ctx context.Context, topic string, queueID int32) (int64, error) {
	return n.number(ctx, wire.GetMaxOffset, "offset", queueFields(topic, queueID))
}

// MinOffset returns the first offset of a queue.
func (n Node) MinOffset(ctx context.Context, topic string, queueID int32) (int64, error) {
	return n.number(ctx, wire.GetMinOffset, "offset", queueFields(topic, queueID))
}

// OffsetByTime returns the offset of the first message stored at t or later.
func (n Node) OffsetByTime(ctx context.Context, topic string, queueID int32, t time.Time) (int64, error) {
	ext := queueFields(topic, queueID)
	ext["timestamp"] = strconv.FormatInt(t.UnixMilli(), 10)
	return n.number(ctx, wire.SearchOffsetByTimestamp, "offset", ext)
}

// CommitOffset sets a group's offset.
func (n Node) CommitOffset(ctx context.Context, group, topic string, queueID int32, offset int64) error {
	ext := queueFields(topic, queueID)
	ext["consumerGroup"] = group
	ext["commitOffset"] = strconv.FormatInt(offset, 10)
	_, err := n.Call(ctx, wire.UpdateConsumerOffset, ext, nil)
	return err
}

// QueueProgress is a group's place in one queue.
type QueueProgress struct {
	Topic   string
	QueueID int32
	wire.OffsetProgress
}

// GroupStats returns a group's progress; topic "" means every topic of it.
func (n Node) GroupStats(ctx context.Context, group, topic string) ([]QueueProgress, error) {
	ext := map[string]string{"consumerGroup": group}
	if topic != "" {
		ext["topic"] = topic
	}
	var out struct {
		Table map[string]wire.OffsetProgress `json:"offsetTable"`
	}
	if err := n.callJSON(ctx, wire.GetConsumeStats, ext, nil, &out); err != nil {
		return nil, err
	}
	stats := make([]QueueProgress, 0, len(out.Table))
	for key, p := range out.Table {
		var q wire.MessageQueue
		if err := json.Unmarshal([]byte(key), &q); err != nil {
			return nil, fmt.Errorf("queue in group statistics: %w", err)
		}
		stats = append(stats, QueueProgress{Topic: q.Topic, QueueID: q.QueueID, OffsetProgress: p})
	}
	return stats, nil
}

// QueueState is one queue of a topic.
type QueueState struct {
	QueueID int32
	wire.QueueRange
}

// TopicStats returns the queues of a topic.
func (n Node) TopicStats(ctx context.Context, topic string) ([]QueueState, error) {
	var out struct {
		Table map[string]wire.QueueRange `json:"offsetTable"`
	}
	if err := n.callJSON(ctx, wire.GetTopicStatsInfo, map[string]string{"topic": topic}, nil, &out); err != nil {
		return nil, err
	}
	stats := make([]QueueState, 0, len(out.Table))
	for key, r := range out.Table {
		var q wire.MessageQueue
		if err := json.Unmarshal([]byte(key), &q); err != nil {
			return nil, fmt.Errorf("queue in topic statistics: %w", err)
		}
		stats = append(stats, QueueState{QueueID: q.QueueID, QueueRange: r})
	}
	return stats, nil
}

// Consumers returns the members of a group that are online; none is no error.
func (n Node) Consumers(ctx context.Context, group string) (wire.ConsumerConnections, error) {
	var out wire.ConsumerConnections
	err := n.callJSON(ctx, wire.GetConsumerConnectionList, map[string]string{"consumerGroup": group}, nil, &out)
	if code, ok := CodeOf(err); ok && code == wire.ConsumerNotOnline {
		return out, nil
	}
	return out, err
}
