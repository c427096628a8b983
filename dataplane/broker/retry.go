package broker

import (
	"context"
	"strconv"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// SendBack is a consumer's request to get a message again later.
type SendBack struct {
	Group        string // physical
	Offset       int64  // commit log offset of the message
	DelayLevel   int    // 0: by the number of attempts; negative: dead letter at once
	MaxReconsume int32  // -1: as the group says
	// Allowed decides, by the physical topic of the record at Offset, whether
	// the caller may touch it. A record that it may not is answered like one
	// that does not exist.
	Allowed func(topic string) bool
}

// firstRetryLevel is the delay level of the first retry: 10 s.
const firstRetryLevel = 3

// SendBack stores the message once more: in the group's retry topic after a
// delay, or among its dead letters when its attempts are used up.
func (b *Broker) SendBack(ctx context.Context, r SendBack) error {
	g, ok := b.store.Group(r.Group)
	if !ok {
		return groupNotFound(r.Group)
	}
	rec, err := b.store.ReadAt(r.Offset)
	if err != nil {
		return fromStore(err)
	}
	m, err := message.Decode(rec)
	if err != nil || !r.Allowed(m.Topic) {
		return fail(CodeMessageNotFound, "there is no message at this offset")
	}
	limit := r.MaxReconsume
	if limit < 0 {
		limit = int32(g.RetryMaxTimes)
	}
	origin := message.OffsetID(b.cfg.StoreHost, r.Offset)
	if m.ReconsumeTimes >= limit || r.DelayLevel < 0 {
		return b.deadLetter(ctx, r.Group, &m, origin)
	}
	level := r.DelayLevel
	if level == 0 {
		level = firstRetryLevel + int(m.ReconsumeTimes)
	}
	next := m
	next.ReconsumeTimes++
	next.Topic, next.QueueID = RetryTopic(r.Group), 0
	next.Properties = retryProperties(&m, origin)
	if err := b.ensureGroupTopic(ctx, next.Topic, max(g.RetryQueueNums, 1)); err != nil {
		return err
	}
	return b.schedule.put(ctx, &next, level)
}

// retryProperties are those of m without what belongs to its first delivery,
// with the names of the first topic and record. The owner's mark goes: a retry
// is not charged again.
func retryProperties(m *message.Message, origin string) []byte {
	out := message.AppendPropertiesWithout(make([]byte, 0, len(m.Properties)+128), m.Properties,
		OwnerKey, message.KeyDelay, message.KeyRealTopic, message.KeyRealQueueID)
	next := message.Message{Properties: out}
	if _, ok := message.FindProperty(out, message.KeyRetryTopic); !ok {
		addProperty(&next, message.KeyRetryTopic, m.Topic)
	}
	if _, ok := message.FindProperty(out, message.KeyOriginMessageID); !ok {
		addProperty(&next, message.KeyOriginMessageID, origin)
	}
	return next.Properties
}

// deadLetter stores a copy of m among the group's dead letters.
func (b *Broker) deadLetter(ctx context.Context, group string, m *message.Message, origin string) error {
	dead := *m
	dead.Properties = retryProperties(m, origin)
	topic := m.Topic
	if v, ok := message.GetProperty(m.Properties, message.KeyRetryTopic); ok {
		topic = v
	}
	addProperty(&dead, message.KeyDLQOriginTopic, topic)
	if v, ok := message.GetProperty(m.Properties, message.KeyUniqueKey); ok {
		addProperty(&dead, message.KeyDLQOriginMessageID, v)
	}
	addProperty(&dead, message.KeyDelay, "0")
	dead.Topic, dead.QueueID = DLQTopic(group), 0
	if err := b.ensureGroupTopic(ctx, dead.Topic, 1); err != nil {
		return err
	}
	_, err := b.append(ctx, &dead)
	return err
}

// sendRetry takes a message that a client itself sends to the retry topic of
// its group, which it does when sending back failed. It is charged like every
// send: nothing tells that it is a copy of what was charged before.
func (b *Broker) sendRetry(ctx context.Context, who Caller, group string, m *message.Message, maxReconsume int32) (Sent, error) {
	g, ok := b.store.Group(group)
	if !ok {
		return Sent{}, groupNotFound(group)
	}
	if len(m.Body) > b.cfg.MaxMessageBytes {
		return Sent{}, &Error{Code: CodeBodyTooLarge, Text: "the message body is too large", Limit: strconv.Itoa(b.cfg.MaxMessageBytes) + " bytes"}
	}
	if m.SysFlag&message.SysFlagTransaction != 0 {
		return Sent{}, fail(CodeIllegalMessage, "a transactional message cannot be sent to a retry topic")
	}
	limit := maxReconsume
	if limit < 0 {
		limit = int32(g.RetryMaxTimes)
	}
	level := 0
	if v, ok := message.FindProperty(m.Properties, message.KeyDelay); ok {
		level, _ = strconv.Atoi(string(v))
	}
	m.Properties = message.AppendPropertiesWithout(nil, m.Properties, message.KeyDelay, message.KeyRealTopic,
		message.KeyRealQueueID, message.KeyTimerDelaySec, message.KeyTimerDelayMs, message.KeyTimerDeliverMs,
		message.KeyMultiDispatch, message.KeyPopCheckpoint)
	stored := len(m.Properties)
	if addProperty(m, OwnerKey, who.owner()); len(m.Properties) == stored && who.owner() != "" {
		return Sent{}, &Error{Code: CodePropertiesTooLarge, Text: "the properties leave no room for the broker's own", Topic: m.Topic, Limit: strconv.Itoa(message.MaxPropertiesBytes) + " bytes"}
	}
	// An ordered consumer holds locks and gives a message up only at its limit.
	if m.ReconsumeTimes > limit || m.ReconsumeTimes >= limit && b.locks.held(group) {
		m.Topic, m.QueueID = DLQTopic(group), 0
		addProperty(m, message.KeyDelay, "0")
		if err := b.ensureGroupTopic(ctx, m.Topic, 1); err != nil {
			return Sent{}, err
		}
		return b.append(ctx, m)
	}
	m.QueueID = 0
	if err := b.ensureGroupTopic(ctx, m.Topic, max(g.RetryQueueNums, 1)); err != nil {
		return Sent{}, err
	}
	if level <= 0 {
		return b.append(ctx, m)
	}
	return b.schedule.putSent(ctx, m, level)
}

// ensureGroupTopic makes a retry or dead-letter topic if it is not there.
func (b *Broker) ensureGroupTopic(ctx context.Context, topic string, queues int) error {
	if _, ok := b.store.Topic(topic); ok {
		return nil
	}
	t := store.DefaultTopicConfig(topic)
	t.ReadQueueNums, t.WriteQueueNums = queues, queues
	if err := b.store.PutTopic(t); err != nil {
		return fromStore(err)
	}
	b.register.announce(ctx, topic)
	return nil
}
