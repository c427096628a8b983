package catalog

import (
	"context"
	"net/netip"
	"time"

	"github.com/sluicemq/sluice/tenant"
)

// Kind of an object that the data plane must know.
type Kind string

// The kinds that appear in changes and marks.
const (
	KindTenant    Kind = "tenant"
	KindNamespace Kind = "namespace"
	KindTopic     Kind = "topic"
	KindGroup     Kind = "group"
	KindKey       Kind = "api_key"
	KindRule      Kind = "acl"
	KindJWKS      Kind = "jwks"
)

// Phase and Status are those of package tenant, whose namespaces and keys
// travel the same way.
type (
	Phase  = tenant.Phase
	Status = tenant.Status
)

// The phases.
const (
	PhasePending  = tenant.PhasePending
	PhaseReady    = tenant.PhaseReady
	PhaseFailed   = tenant.PhaseFailed
	PhaseDeleting = tenant.PhaseDeleting
)

// Desired is what the data plane should look like: one consistent read.
//
// Slices are ordered by id and owned by the caller. Sequence is the number of
// the last change that the read includes; every change with a smaller number
// is included as well (numbers follow commit order, without holes that fill
// up later).
type Desired struct {
	Sequence   uint64
	Tenants    []DesiredTenant
	Namespaces []DesiredNamespace
	Topics     []DesiredTopic
	Groups     []DesiredGroup
	Keys       []DesiredKey
	Rules      []DesiredRule
	JWKS       []byte // JSON Web Key Set with current, next and retiring public keys
}

// DesiredTenant is a tenant as brokers see it.
type DesiredTenant struct {
	ID        tenant.ID
	Suspended bool
	Rates     tenant.Rates
	Revision  int64
}

// DesiredNamespace is a namespace as brokers see it.
type DesiredNamespace struct {
	ID          tenant.ID
	TenantID    tenant.ID
	ClusterID   tenant.ID
	StrictTypes bool
	Rates       tenant.Rates // of this namespace alone; 0: only the tenant's
	Deleted     bool         // remove its policy, then MarkDeleted; its topics and groups are deleted too
	Revision    int64
	Observed    int64 // last revision marked ready or failed
}

// DesiredTopic is a topic as brokers see it. Name is bare; Physical is what
// the broker calls it.
type DesiredTopic struct {
	ID              tenant.ID
	TenantID        tenant.ID
	NamespaceID     tenant.ID
	Name            string
	Physical        string
	Type            TopicType
	Queues          int32
	Perm            int32 // RocketMQ bits: 6 rw, 4 r, 2 w
	Retention       time.Duration
	MaxMessageBytes int32
	MaxSendTPS      int64
	Deleted         bool // remove it where the broker's sluice.id equals ID, then MarkDeleted
	Revision        int64
	Observed        int64
}

// DesiredGroup is a consumer group as brokers see it.
type DesiredGroup struct {
	ID              tenant.ID
	TenantID        tenant.ID
	NamespaceID     tenant.ID
	Name            string
	Physical        string
	FIFO            bool
	ConsumeEnabled  bool
	Broadcast       bool
	MaxAttempts     int32
	RetryDelays     []time.Duration // empty: the broker's default levels
	DeadLetter      bool
	DeadLetterTopic string // bare name; empty: %DLQ%<group>
	MaxInFlight     int32  // for each queue
	MaxReceiveTPS   int64
	Deleted         bool
	Revision        int64
	Observed        int64
}

// DesiredKey is an API key as brokers see it. Keys that are disabled or
// revoked, and those of a disabled service account, are in it with that State,
// so that a client is told why; a deleted key has no Secret. State never reads
// expired: brokers compare ExpiresAt with their own clock.
type DesiredKey struct {
	ID           tenant.ID
	TenantID     tenant.ID
	OwnerID      tenant.ID
	Secret       string
	State        tenant.KeyState
	ExpiresAt    *time.Time
	Scopes       []tenant.Scope
	AllowedCIDRs []netip.Prefix
	Deleted      bool // State is revoked; MarkDeleted once no broker has it
	Revision     int64
	Observed     int64
}

// DesiredRule is a rule of an access control list as brokers see it.
type DesiredRule struct {
	tenant.Rule
	Deleted bool // MarkDeleted once no broker has it
}

// Change is an entry of the outbox.
type Change struct {
	Sequence    uint64
	TenantID    tenant.ID
	NamespaceID tenant.ID // empty for tenants, keys and JWKS
	Kind        Kind
	ID          tenant.ID
	Revision    int64
	At          time.Time
}

// Source is where fleet reads what should be and reports what is. Its methods
// may be called by any number of goroutines; each reads one snapshot of the
// database.
type Source interface {
	// Desired reads everything.
	Desired(ctx context.Context) (Desired, error)
	// DesiredFor reads the present state of exactly the objects that changes
	// name. An object that no longer exists is absent. Sequence is that of
	// the read, and at least the greatest of changes.
	DesiredFor(ctx context.Context, changes []Change) (Desired, error)
	// Sequence is the number of the last committed change.
	Sequence(ctx context.Context) (uint64, error)
	// Changes lists at most limit changes after a number, in order. Changes
	// are kept for at least an hour; truncated tells that some after the
	// given number are gone, so that the caller needs a whole Desired.
	Changes(ctx context.Context, after uint64, limit int) (list []Change, truncated bool, err error)
	// MarkReady says that the data plane has revision of the object. An older
	// revision than the one observed is ignored.
	MarkReady(ctx context.Context, kind Kind, id tenant.ID, revision int64) error
	// MarkFailed says that it could not be done and why; reason is shown to
	// the user.
	MarkFailed(ctx context.Context, kind Kind, id tenant.ID, revision int64, reason string) error
	// MarkDeleted says that the data plane no longer has the object; its row
	// is forgotten, its id is never used again.
	MarkDeleted(ctx context.Context, kind Kind, id tenant.ID) error
}

// Fleet carries desired state to the data plane. Declared here because
// Service calls it; package fleet implements it.
type Fleet interface {
	// Wake says that the namespace has changes to carry; it never blocks. An
	// empty id stands for changes above namespaces.
	Wake(namespaceID tenant.ID)
	// WaitReady blocks until the data plane has at least revision of the
	// object, until it failed (nil: the row then says so), or until ctx ends
	// (ctx.Err()).
	WaitReady(ctx context.Context, kind Kind, id tenant.ID, revision int64) error
}
