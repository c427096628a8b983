// Package federation lets identities of others in: people who sign in at the
// identity provider of their tenant, and programs that show a token of an
// issuer that the tenant trusts.
//
// It owns identity providers, the domains that prove them, sign-ins on their
// way, the links between subjects and people, and workload identities. Who a
// person is and what a session may do stay with package auth, what a provider
// says is checked by package oidc. README.md says who may become whom, and
// why. A Service may be used by any number of goroutines.
package federation

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/oidc"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// IdentityProvider is where the people of a tenant sign in.
type IdentityProvider struct {
	ID            tenant.ID
	TenantID      tenant.ID
	Name          string
	Issuer        string
	ClientID      string
	Sealed        []byte // the client's secret; empty for a public client
	AutoEnrolRole tenant.Role
	Enabled       bool
	// OwnerApproved: an owner made or last changed issuer and client. Without
	// it no owner is linked by mail address: an admin who names a provider of
	// their own must not become owner by it.
	OwnerApproved bool
	Domains       []Domain // sorted
	CreatedAt     time.Time
	UpdatedAt     time.Time
	Revision      int64
}

// Domain of mail addresses that a provider speaks for, once it is verified.
type Domain struct {
	Name       string
	Challenge  string // what the TXT record must hold
	VerifiedAt *time.Time
}

// owns reports whether the provider speaks for the domain of an address.
func (p IdentityProvider) owns(email string) bool {
	name := domainOf(email)
	for _, d := range p.Domains {
		if d.Name == name && d.VerifiedAt != nil {
			return true
		}
	}
	return false
}

// usable reports whether people can sign in at the provider.
func (p IdentityProvider) usable() bool {
	if !p.Enabled {
		return false
	}
	for _, d := range p.Domains {
		if d.VerifiedAt != nil {
			return true
		}
	}
	return false
}

// Attempt is a sign-in on its way; Sealed holds what the answer is checked with.
type Attempt struct {
	Hash      []byte // of the state
	Sealed    []byte
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Identity links a subject of a provider to a person.
type Identity struct {
	TenantID   tenant.ID
	ProviderID tenant.ID
	Issuer     string
	Subject    string
	UserID     tenant.ID
	CreatedAt  time.Time
}

// Store is what Service asks of a database; every method takes part in the
// transaction that its context carries. A missing row is NotFound.
type Store interface {
	InTx(ctx context.Context, fn func(ctx context.Context) error) error

	CreateProvider(ctx context.Context, p IdentityProvider) error
	Provider(ctx context.Context, tenantID, id tenant.ID) (IdentityProvider, error)
	Providers(ctx context.Context, tenantID tenant.ID, name string, p tenant.Page) ([]IdentityProvider, error)
	// UpdateProvider writes p where the revision is p.Revision-1, and its domains.
	// A domain that another tenant verified is Conflict.
	UpdateProvider(ctx context.Context, p IdentityProvider) error
	DeleteProvider(ctx context.Context, tenantID, id tenant.ID) error
	// ProviderByID, ProviderOfDomain and ProvidersOf look through all tenants.
	ProviderByID(ctx context.Context, id tenant.ID) (IdentityProvider, error)
	ProviderOfDomain(ctx context.Context, domain string) (IdentityProvider, error)
	ProvidersOf(ctx context.Context, issuer, clientID string) ([]IdentityProvider, error)

	AddAttempt(ctx context.Context, a Attempt) error
	// TakeAttempt returns an attempt once.
	TakeAttempt(ctx context.Context, hash []byte) (Attempt, error)
	// Seen notes a token and reports whether it was new.
	Seen(ctx context.Context, digest []byte, until time.Time) (fresh bool, err error)

	AddIdentity(ctx context.Context, i Identity) error
	Identity(ctx context.Context, providerID tenant.ID, issuer, subject string) (Identity, error)
	IdentitiesOf(ctx context.Context, tenantID, providerID, userID tenant.ID) ([]Identity, error)
	DeleteIdentities(ctx context.Context, tenantID, providerID, userID tenant.ID) (int64, error)
}

// Resolver finds TXT records; net.Resolver does.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// Sealer seals attempts; tenant.Keyring does.
type Sealer interface {
	Seal(purpose string, plain []byte) []byte
	Open(purpose string, sealed []byte) ([]byte, error)
}

// Deps is what a Service needs.
type Deps struct {
	Store    Store
	Auth     *auth.Service
	Tenants  *tenant.Service
	OIDC     *oidc.Client
	Resolver Resolver
	Sealer   Sealer
	Now      func() time.Time
	Logger   *slog.Logger
}

// Service holds the rules.
type Service struct{ d Deps }

// New makes a Service.
func New(d Deps) *Service {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{d: d}
}

func (s *Service) time() time.Time { return s.d.Now().UTC().Truncate(time.Millisecond) }

func conflict(reason, format string, args ...any) error {
	return errs.E(errs.Conflict, format, args...).WithReason(reason)
}

func forbidden(reason, format string, args ...any) error {
	return errs.E(errs.Forbidden, format, args...).WithReason(reason)
}
