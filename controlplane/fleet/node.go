package fleet

import (
	"context"
	"errors"
)

// Node is a name server or broker as fleet drives it. Calls end with ctx.
type Node interface {
	// Name identifies the node in logs and metrics.
	Name() string
	// ApplyPolicy hands over an envelope of package policy and returns the
	// revision then in force. ErrStale asks for a whole snapshot.
	ApplyPolicy(ctx context.Context, envelope []byte) (revision uint64, err error)
	// Policy returns the revision in force and the hash of its content.
	Policy(ctx context.Context) (revision uint64, hash string, err error)
}

// Broker is a node that also holds topics and groups. Names are physical.
type Broker interface {
	Node
	Topics(ctx context.Context) (map[string]TopicConfig, error)
	// PutTopic creates or changes a topic; it is routable when PutTopic returns.
	PutTopic(ctx context.Context, t TopicConfig) error
	DeleteTopic(ctx context.Context, name string) error
	Groups(ctx context.Context) (map[string]GroupConfig, error)
	PutGroup(ctx context.Context, g GroupConfig) error
	DeleteGroup(ctx context.Context, name string) error
}

// TopicConfig is what fleet sets of a topic.
type TopicConfig struct {
	Name   string
	ID     string // attribute sluice.id; empty for a topic that Sluice did not make
	Type   string // attribute message.type
	Queues int32
	Perm   int32
}

// GroupConfig is what fleet sets of a group.
type GroupConfig struct {
	Name           string
	ID             string
	FIFO           bool
	ConsumeEnabled bool
	Broadcast      bool
	MaxAttempts    int32
}

// The failures of nodes that fleet tells apart; anything else is tried again.
var (
	ErrStale   = errors.New("node wants a whole policy snapshot")
	ErrRefused = errors.New("node refused") // for good: the object is marked failed with the error's text
)
