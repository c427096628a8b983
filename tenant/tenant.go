// Package tenant owns who pays and who acts: tenants, their members, service
// accounts, API keys, namespaces and quotas.
//
// It knows no database and no HTTP. Service holds the rules, Store is what it
// asks of a database, Keyring seals API-key secrets. All of them may be used
// by any number of goroutines.
package tenant

import (
	"time"
)

// State of a tenant.
type State string

// The states of a tenant.
const (
	StateActive    State = "active"
	StateSuspended State = "suspended"
	// StateClosing is that of a tenant whose only member closes their account:
	// like suspended, until they reopen it or it is closed.
	StateClosing State = "closing"
	StateClosed  State = "closed" // for good
)

// Tenant is a paying organisation.
type Tenant struct {
	ID        ID
	Name      string
	State     State
	Plan      string
	Labels    map[string]string
	Security  Security
	DataKey   []byte // sealed by the master key; opens the tenant's secrets
	CreatedAt time.Time
	UpdatedAt time.Time
	Revision  int64
}

// Role is what a member may do in a tenant. Package auth holds the table of
// role and permission.
type Role string

// The roles.
const (
	RoleOwner     Role = "owner"
	RoleAdmin     Role = "admin"
	RoleDeveloper Role = "developer"
	RoleViewer    Role = "viewer"
	RoleBilling   Role = "billing"
	RoleNone      Role = "none" // of members who may only what bindings give
)

// Valid reports whether r is one of the six roles.
func (r Role) Valid() bool {
	switch r {
	case RoleOwner, RoleAdmin, RoleDeveloper, RoleViewer, RoleBilling, RoleNone:
		return true
	}
	return false
}

// Member is a person in a tenant.
type Member struct {
	TenantID  ID
	UserID    ID
	Email     string
	Name      string
	Role      Role
	LastSeen  *time.Time // last sign-in
	Closing   bool       // closes the account: what is theirs has stopped
	CreatedAt time.Time
	UpdatedAt time.Time
	Revision  int64
}

// ServiceAccount is a program in a tenant: it owns API keys and cannot sign in.
type ServiceAccount struct {
	TenantID    ID
	ID          ID
	Name        string
	Description string
	Labels      map[string]string
	Disabled    bool
	Bound       bool // its keys may no more than its bindings give; for ever
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Revision    int64
}

// Namespace is the unit of isolation on brokers.
type Namespace struct {
	TenantID           ID
	ID                 ID
	ClusterID          ID
	Name               string
	Description        string
	Labels             map[string]string
	StrictTypes        bool  // remoting clients, too, are held to a topic's type
	MaxSendTPS         int64 // 0: only the tenant's rate
	MaxReceiveTPS      int64
	DeletionProtection bool
	Status             Status
	CreatedAt          time.Time
	UpdatedAt          time.Time
	Revision           int64
}

// Phase of an object on its way to the brokers.
type Phase string

// The phases. A deleting object is invisible to users; it lives on only until
// the data plane confirms that it is gone.
const (
	PhasePending  Phase = "pending"
	PhaseReady    Phase = "ready"
	PhaseFailed   Phase = "failed"
	PhaseDeleting Phase = "deleting"
)

// Status is what the data plane said last about an object.
type Status struct {
	Phase            Phase
	Reason           string // why it failed
	ObservedRevision int64  // last revision that the data plane answered for
}

// Page asks for a stretch of a list, ordered by id.
type Page struct {
	Size  int // 1..1000
	After ID  // exclusive; empty for the first page
}

// Change is one entry of the outbox: object Kind/ID of a tenant has a new
// wanted state.
type Change struct {
	TenantID    ID
	NamespaceID ID // empty when the object lies above namespaces
	Kind        string
	ID          ID
	Revision    int64
}
