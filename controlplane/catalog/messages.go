package catalog

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Messages is the way of the control plane to messages, offsets and clients
// of one namespace. Names are bare in both directions. The caller has checked
// permissions and that topic or group exist; the implementation signs as the
// system principal and passes ActorID on for metering. Errors carry codes of
// package errs.
type Messages interface {
	// Send stores one message and returns where it lies.
	Send(ctx context.Context, m Outgoing) (Sent, error)
	// Query looks messages up: at most q.Limit, in the order of queues and
	// offsets, by key and by id the newest first. A page ends at some MiB: it may
	// be short or empty and still have a next one.
	Query(ctx context.Context, q MessageQuery) (MessagePage, error)
	// Tail calls r.Ready once it stands, then r.Each for every message, both
	// in one goroutine, until ctx ends or Each returns an error, which Tail
	// returns. It returns only after the goroutine is gone. Each must not wait:
	// other tails wait for it.
	Tail(ctx context.Context, r TailRequest) error
	// Lag reports each queue that the group has an offset for or subscribes.
	Lag(ctx context.Context, namespaceID tenant.ID, group string) ([]QueueLag, error)
	// ResetOffsets moves a group on every broker, or on the one that r names,
	// and tells what that did to each queue, in the order of brokers and queues.
	// With DryRun nothing moves. A queue, offset or broker that is not there is
	// errs.Invalid with its field, before anything has moved; after another error
	// some brokers may have moved, and the same reset may be tried again.
	ResetOffsets(ctx context.Context, r OffsetReset) ([]QueueReset, error)
	// Transactions lists half messages that have not ended, the oldest of each
	// broker first. A page may be short or empty and still have a next one.
	Transactions(ctx context.Context, q TransactionQuery) (TransactionPage, error)
	// Settle ends a half message of a namespace or lets its producer be asked
	// again, and returns its topic. With DryRun it only looks. The error is
	// errs.NotFound when there is none of this id, and errs.Conflict when it has
	// ended the other way.
	Settle(ctx context.Context, s Settlement) (topic string, err error)
}

// TransactionQuery selects half messages.
type TransactionQuery struct {
	NamespaceID tenant.ID
	Topic       string // "": all
	State       TransactionState
	Limit       int
	Cursor      string // Next of the page before
}

// TransactionState is how far a half message is; "" stands for any.
type TransactionState string

// The states.
const (
	TransactionOpen    TransactionState = "open"
	TransactionGivenUp TransactionState = "given_up" // nobody is asked any more
)

// Transaction is a half message that has not ended.
type Transaction struct {
	ID          string // [A-Za-z0-9_-]*, made of its place
	Topic       string
	Group       string // of its producer
	MessageID   string
	State       TransactionState
	Checks      int
	Bytes       int // of the body
	Broker      string
	StoredAt    time.Time
	NextCheckAt *time.Time // nil: none
}

// TransactionPage is a page of half messages.
type TransactionPage struct {
	Transactions []Transaction
	Next         string // empty: no more
}

// SettleAction is what becomes of a half message.
type SettleAction string

// The actions.
const (
	SettleCommit   SettleAction = "commit"
	SettleRollback SettleAction = "rollback"
	SettleCheck    SettleAction = "check" // its producer is asked from the beginning again
)

// Settlement decides about a half message.
type Settlement struct {
	NamespaceID tenant.ID
	ID          string // of a Transaction
	Action      SettleAction
	DryRun      bool
}

// OffsetReset says where a group goes on in a topic.
type OffsetReset struct {
	NamespaceID tenant.ID
	Group       string
	Topic       string    // may be %RETRY%group
	Broker      string    // "": every one
	Queue       *int32    // nil: all
	Offset      *int64    // of Queue; nil: Time says it
	Time        time.Time // the first message that is not older; zero: the end
	DryRun      bool
}

// QueueReset is what a reset does to one queue.
type QueueReset struct {
	Broker   string
	Queue    int32
	From, To int64 // next message to consume; From is -1 if the group had no place
	Min      int64 // first message that is still there
}

// Redelivered is how many messages come again.
func (q QueueReset) Redelivered() int64 {
	if q.From < 0 {
		return 0
	}
	return max(0, q.From-q.To)
}

// Skipped is how many messages the group will not get; those that are gone do
// not count.
func (q QueueReset) Skipped() int64 {
	if q.From < 0 {
		return 0
	}
	return max(0, q.To-max(q.From, q.Min))
}

// Outgoing is a message to send.
type Outgoing struct {
	NamespaceID  tenant.ID
	ActorID      tenant.ID // usr_… or slk_…
	Topic        string
	Body         []byte
	Tag          string
	Keys         []string
	Properties   map[string]string
	Queue        *int32     // nil: the server chooses
	MessageGroup string     // of a FIFO topic
	DeliverAt    *time.Time // of a DELAY topic
}

// Sent is where a message lies.
type Sent struct {
	MessageID string
	Queue     int32
	Offset    int64
	StoredAt  time.Time
}

// MessageQuery names messages: by MessageID, by Key, by Queue and Offset, or by
// the time of storing.
type MessageQuery struct {
	NamespaceID tenant.ID
	Topic       string // may be %RETRY%group or %DLQ%group
	MessageID   string // as a client or a send through the API returned it
	Key         string // newest first; From and To may narrow it
	Queue       *int32
	Offset      *int64
	From, To    time.Time // half-open; zero To: now
	Limit       int
	Cursor      string // Next of the page before; [A-Za-z0-9_.=-]*
}

// MessagePage is a page of messages.
type MessagePage struct {
	Messages []StoredMessage
	Next     string // empty: no more
}

// StoredMessage is a message as stored. Properties are the user's alone.
type StoredMessage struct {
	MessageID      string
	Topic          string
	Queue          int32
	Offset         int64
	Body           []byte
	Tag            string
	Keys           []string
	Properties     map[string]string
	MessageGroup   string
	DeliverAt      *time.Time
	BornAt         time.Time
	StoredAt       time.Time
	BornHost       string
	ReconsumeTimes int32
}

// Bytes is about what the message takes in memory.
func (m *StoredMessage) Bytes() int {
	const self, property, key = 512, 64, 16
	n := self + len(m.Body) + len(m.Tag) + len(m.MessageGroup)
	for _, k := range m.Keys {
		n += key + len(k)
	}
	for k, v := range m.Properties {
		n += property + len(k) + len(v)
	}
	return n
}

// TailRequest says what to watch.
type TailRequest struct {
	NamespaceID tenant.ID
	Topic       string
	Tag         string          // empty: all
	Since       time.Time       // zero: from now
	Offsets     map[int32]int64 // next offset by queue; wins over Since
	Ready       func()
	Each        func(StoredMessage) error
}

// QueueLag is how far a group is behind on one queue.
type QueueLag struct {
	Topic      string
	Queue      int32
	MinOffset  int64
	MaxOffset  int64
	Committed  int64 // -1: none yet
	Lag        int64 // never negative
	ConsumerID string
}

// Prefixes of the topics that belong to a group.
const (
	RetryPrefix      = "%RETRY%"
	DeadLetterPrefix = "%DLQ%"
)

// GroupOf returns the group that a retry or dead-letter topic belongs to; false
// for any other topic.
func GroupOf(topic string) (group string, ok bool) {
	for _, prefix := range []string{RetryPrefix, DeadLetterPrefix} {
		if group, ok = strings.CutPrefix(topic, prefix); ok {
			return group, true
		}
	}
	return "", false
}

// CheckReadable makes sure that a topic, or the group that a retry or
// dead-letter topic belongs to, is the tenant's.
func (s *Service) CheckReadable(ctx context.Context, tenantID, namespaceID tenant.ID, topic string) error {
	if group, ok := GroupOf(topic); ok {
		_, err := s.store.Group(ctx, tenantID, namespaceID, group)
		return err
	}
	_, err := s.store.Topic(ctx, tenantID, namespaceID, topic)
	return err
}

// CheckSend checks a message against its topic.
func (s *Service) CheckSend(ctx context.Context, tenantID tenant.ID, m Outgoing) error {
	if _, err := s.open(ctx, tenantID, m.NamespaceID); err != nil {
		return err
	}
	t, err := s.store.Topic(ctx, tenantID, m.NamespaceID, m.Topic)
	if err != nil {
		return err
	}
	switch {
	case t.Perm == "r":
		return errs.E(errs.Forbidden, "topic %q has perm r: nothing can be sent to it", t.Name).WithReason("topic_read_only")
	case t.Type == TopicTransaction:
		return errs.Field("topic", "topic %q is of type TRANSACTION; only a transactional producer can send to it", t.Name).WithReason("message_type_mismatch")
	case t.Type == TopicFIFO && m.MessageGroup == "":
		return errs.Field("message_group", "topic %q is of type FIFO: a message_group is needed", t.Name).WithReason("message_type_mismatch")
	case t.Type != TopicFIFO && m.MessageGroup != "":
		return errs.Field("message_group", "topic %q is of type %s: message_group is for FIFO topics", t.Name, t.Type).WithReason("message_type_mismatch")
	case t.Type == TopicDelay && m.DeliverAt == nil:
		return errs.Field("deliver_at", "topic %q is of type DELAY: deliver_at is needed", t.Name).WithReason("message_type_mismatch")
	case t.Type != TopicDelay && m.DeliverAt != nil:
		return errs.Field("deliver_at", "topic %q is of type %s: deliver_at is for DELAY topics", t.Name, t.Type).WithReason("message_type_mismatch")
	case t.Type != TopicNormal:
		// Brokers would deliver it at once and in any order: nothing is better.
		return errs.Field("topic", "topic %q is of type %s: such messages are not delivered yet; send to a NORMAL topic", t.Name, t.Type).WithReason("message_type_unsupported")
	case m.Queue != nil && *m.Queue >= t.Queues:
		return within("queue", int64(*m.Queue), 0, int64(t.Queues)-1)
	case len(m.Body) == 0:
		return errs.Field("body", "the body is empty").WithReason("body_empty")
	}
	size := len(m.Body)
	for k, v := range m.Properties {
		if !propertyName(k) {
			return errs.Field("properties."+k, "property name %q: 1 to 128 printable characters, not one that RocketMQ or Sluice keeps to itself", clip(k)).WithReason("property_invalid")
		}
		if strings.ContainsAny(v, "\x01\x02") || !utf8.ValidString(v) {
			return errs.Field("properties."+k, "the value holds a character that properties cannot carry").WithReason("property_invalid")
		}
		size += len(k) + len(v)
	}
	if size > int(t.MaxMessageBytes) {
		e := errs.Field("body", "the message has %d bytes; topic %q takes at most %d", size, t.Name, t.MaxMessageBytes).WithReason("message_too_large")
		e.Limit = itoa(int64(t.MaxMessageBytes))
		return e
	}
	return nil
}

// Names of properties that mean something to brokers and clients.
var systemProperties = map[string]bool{
	"KEYS": true, "TAGS": true, "WAIT": true, "DELAY": true, "RETRY_TOPIC": true, "REAL_TOPIC": true, "REAL_QID": true, "TRAN_MSG": true,
	"PGROUP": true, "MIN_OFFSET": true, "MAX_OFFSET": true, "BUYER_ID": true, "ORIGIN_MESSAGE_ID": true, "TRANSFER_FLAG": true,
	"CORRECTION_FLAG": true, "MQ2_FLAG": true, "RECONSUME_TIME": true, "MSG_REGION": true, "TRACE_ON": true, "UNIQ_KEY": true,
	"EXTEND_UNIQ_INFO": true, "MAX_RECONSUME_TIMES": true, "CONSUME_START_TIME": true, "INNER_NUM": true, "INNER_BASE": true,
	"DUP_INFO": true, "CHECK_IMMUNITY_TIME_IN_SECONDS": true, "TRAN_PREPARED_QUEUE_OFFSET": true, "CLUSTER": true, "MSG_TYPE": true,
	"POP_CK": true, "CORRELATION_ID": true, "REPLY_TO_CLIENT": true, "TTL": true, "INSTANCE_ID": true, "TIMER_DELAY_SEC": true,
	"TIMER_DELIVER_MS": true, "TIMER_DELAY_MS": true, "DLQ_ORIGIN_TOPIC": true, "DLQ_ORIGIN_MESSAGE_ID": true, "ORIGIN_GROUP": true,
	"__SHARDINGKEY": true, "__STARTDELIVERTIME": true, "__transactionId__": true,
}

func propertyName(k string) bool {
	if k == "" || len(k) > 128 || systemProperties[k] || strings.HasPrefix(k, "__SLUICE") || !utf8.ValidString(k) {
		return false
	}
	return !strings.ContainsFunc(k, control)
}

func control(r rune) bool { return r <= 0x20 || r == 0x7f }
