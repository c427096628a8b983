// Package catalog owns the objects that live on brokers as users want them:
// clusters, topics and consumer groups; their rules, their lifecycle and the
// quota that each one takes.
//
// Service writes intent: a row and an outbox entry in one transaction. Fleet
// carries it to brokers and reports back through Source. The package knows no
// database and no HTTP.
package catalog

import (
	"time"

	"github.com/sluicemq/sluice/tenant"
)

// TopicType is what kind of messages a topic takes.
type TopicType string

// The types, as RocketMQ names them.
const (
	TopicNormal      TopicType = "NORMAL"
	TopicFIFO        TopicType = "FIFO"
	TopicDelay       TopicType = "DELAY"
	TopicTransaction TopicType = "TRANSACTION"
)

// Topic is a topic as its owner wants it.
type Topic struct {
	TenantID           tenant.ID
	NamespaceID        tenant.ID
	ID                 tenant.ID
	Name               string
	Type               TopicType
	Queues             int32
	Retention          Duration
	MaxMessageBytes    int32
	MaxSendTPS         int64 // 0: only the tenant's rate
	Perm               string
	Description        string
	Labels             map[string]string
	DeletionProtection bool
	Status             Status
	CreatedAt          time.Time
	UpdatedAt          time.Time
	Revision           int64
}

// Group is a consumer group as its owner wants it.
type Group struct {
	TenantID           tenant.ID
	NamespaceID        tenant.ID
	ID                 tenant.ID
	Name               string
	Order              string // concurrent or fifo
	ConsumeEnabled     bool
	Broadcast          bool
	Retry              Retry
	DeadLetter         DeadLetter
	MaxInFlight        int32
	MaxReceiveTPS      int64
	Description        string
	Labels             map[string]string
	DeletionProtection bool
	Status             Status
	CreatedAt          time.Time
	UpdatedAt          time.Time
	Revision           int64
}

// Retry is what happens to a message that a consumer failed on.
type Retry struct {
	MaxAttempts int32
	Strategy    string // exponential, fixed or custom
	Delays      []Duration
}

// DeadLetter is where messages go after the last attempt.
type DeadLetter struct {
	Enabled bool
	Topic   string
}

// Cluster is a data plane.
type Cluster struct {
	ID               tenant.ID
	Name             string
	RemotingEndpoint string // host:port of the name server
	GRPCEndpoint     string // host:port
	CreatedAt        time.Time
	UpdatedAt        time.Time
	Revision         int64
}
