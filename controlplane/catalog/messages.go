package catalog

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/tenant"
)

// Messages is the way of the control plane to messages, offsets and clients
// of one namespace. Names are bare in both directions. The caller has checked
// permissions; the implementation signs as the system principal and passes
// ActorID on for metering. Errors carry codes of package errs.
type Messages interface {
	// Send stores one message and returns where it lies.
	Send(ctx context.Context, m Outgoing) (Sent, error)
	// Query looks messages up; at most q.Limit, newest first for keys, in
	// queue order otherwise.
	Query(ctx context.Context, q MessageQuery) ([]StoredMessage, error)
	// Tail calls each for every message that arrives from now on, in one
	// goroutine, until ctx ends or each returns an error, which it returns.
	Tail(ctx context.Context, namespaceID tenant.ID, topic string, each func(StoredMessage) error) error
	// Lag reports each queue that the group has an offset for or subscribes.
	Lag(ctx context.Context, namespaceID tenant.ID, group string) (GroupLag, error)
	// Clients lists the connected consumers of a group.
	Clients(ctx context.Context, namespaceID tenant.ID, group string) ([]Client, error)
}

// Outgoing is a message to send.
type Outgoing struct {
	NamespaceID tenant.ID
	ActorID     tenant.ID // usr_…, sa_… or slk_…
	Topic       string
	Body        []byte
	Tag         string
	Keys        []string
	Properties  map[string]string
	QueueID     *int32
	Group       string     // message group of a FIFO topic
	DeliverAt   *time.Time // of a DELAY topic
}

// Sent is where a message lies.
type Sent struct {
	MessageID string
	QueueID   int32
	Offset    int64
	StoredAt  time.Time
}

// MessageQuery names messages: by MessageID, by Key, or by place and time.
type MessageQuery struct {
	NamespaceID tenant.ID
	Topic       string
	MessageID   string
	Key         string
	Queue       *int32
	Offset      *int64
	From, To    time.Time
	Limit       int
}

// StoredMessage is a message as stored.
type StoredMessage struct {
	MessageID      string
	Topic          string
	QueueID        int32
	Offset         int64
	Body           []byte
	Tag            string
	Keys           []string
	Properties     map[string]string
	BornAt         time.Time
	StoredAt       time.Time
	BornHost       string
	ReconsumeTimes int32
}

// GroupLag is how far a group is behind.
type GroupLag struct {
	Messages int64
	Queues   []QueueLag
}

// QueueLag is how far a group is behind on one queue.
type QueueLag struct {
	Topic          string
	QueueID        int32
	MinOffset      int64
	MaxOffset      int64
	ConsumerOffset int64 // -1: none yet
	Lag            int64
	LastConsumedAt *time.Time // store time of the last consumed message
}

// Client is a connected consumer.
type Client struct {
	ID          string
	Address     string
	Language    string
	Version     string
	Protocol    string // remoting or grpc
	ConnectedAt *time.Time
}
