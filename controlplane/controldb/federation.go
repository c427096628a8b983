package controldb

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/controlplane/federation"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

var _ federation.Store = (*FederationStore)(nil)

// FederationStore implements federation.Store.
type FederationStore struct{ db *sqldb.DB }

// NewFederationStore makes a FederationStore on an open, migrated database.
func NewFederationStore(db *sqldb.DB) *FederationStore { return &FederationStore{db: db} }

// InTx runs fn in a transaction; see sqldb.DB.InTx.
func (s *FederationStore) InTx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.InTx(ctx, fn)
}

type providerRow struct {
	ID            string `gorm:"primaryKey"`
	TenantID      string
	Name          string
	Issuer        string
	ClientID      string
	Sealed        []byte
	AutoEnrolRole string
	Enabled       bool
	OwnerApproved bool
	Created       int64 `gorm:"column:created_at"`
	Updated       int64 `gorm:"column:updated_at"`
	Revision      int64
}

func (providerRow) TableName() string { return "identity_providers" }

func rowOfProvider(p federation.IdentityProvider) providerRow {
	return providerRow{ID: p.ID, TenantID: p.TenantID, Name: p.Name, Issuer: p.Issuer, ClientID: p.ClientID, Sealed: p.Sealed, AutoEnrolRole: string(p.AutoEnrolRole),
		Enabled: p.Enabled, OwnerApproved: p.OwnerApproved, Created: sqldb.Millis(p.CreatedAt), Updated: sqldb.Millis(p.UpdatedAt), Revision: p.Revision}
}

func (r providerRow) provider() federation.IdentityProvider {
	return federation.IdentityProvider{ID: r.ID, TenantID: r.TenantID, Name: r.Name, Issuer: r.Issuer, ClientID: r.ClientID, Sealed: r.Sealed,
		AutoEnrolRole: tenant.Role(r.AutoEnrolRole), Enabled: r.Enabled, OwnerApproved: r.OwnerApproved,
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
}

type domainRow struct {
	ProviderID string `gorm:"primaryKey"`
	Domain     string `gorm:"primaryKey"`
	TenantID   string
	Challenge  string
	VerifiedAt *int64
	LiveDomain *string
}

func (domainRow) TableName() string { return "identity_domains" }

func domainsOf(p federation.IdentityProvider) []domainRow {
	out := make([]domainRow, len(p.Domains))
	for i, d := range p.Domains {
		out[i] = domainRow{ProviderID: p.ID, Domain: d.Name, TenantID: p.TenantID, Challenge: d.Challenge, VerifiedAt: sqldb.MillisPtr(d.VerifiedAt)}
		if d.VerifiedAt != nil {
			out[i].LiveDomain = &p.Domains[i].Name
		}
	}
	return out
}

func (s *FederationStore) withDomains(ctx context.Context, list []federation.IdentityProvider) ([]federation.IdentityProvider, error) {
	if len(list) == 0 {
		return list, nil
	}
	at := map[string]int{}
	ids := make([]string, len(list))
	for i, p := range list {
		at[p.ID], ids[i] = i, p.ID
	}
	var rows []domainRow
	if err := s.db.Conn(sqldb.AcrossTenants(ctx)).Where("provider_id IN ?", ids).Order("domain").Find(&rows).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	for _, r := range rows {
		p := &list[at[r.ProviderID]]
		p.Domains = append(p.Domains, federation.Domain{Name: r.Domain, Challenge: r.Challenge, VerifiedAt: sqldb.TimePtr(r.VerifiedAt)})
	}
	return list, nil
}

func (s *FederationStore) oneProvider(ctx context.Context, q *gorm.DB, id string) (federation.IdentityProvider, error) {
	r, err := one[providerRow](s.db.Locking(ctx, q), "identity provider", id)
	if err != nil {
		return federation.IdentityProvider{}, err
	}
	list, err := s.withDomains(ctx, []federation.IdentityProvider{r.provider()})
	if err != nil {
		return federation.IdentityProvider{}, err
	}
	return list[0], nil
}

// CreateProvider implements federation.Store.
func (s *FederationStore) CreateProvider(ctx context.Context, p federation.IdentityProvider) error {
	row := rowOfProvider(p)
	if err := s.db.Conn(ctx).Create(&row).Error; err != nil {
		return sqldb.Error(err)
	}
	return s.putDomains(ctx, p)
}

func (s *FederationStore) putDomains(ctx context.Context, p federation.IdentityProvider) error {
	if err := s.db.Tenant(ctx, p.TenantID).Where("provider_id = ?", p.ID).Delete(&domainRow{}).Error; err != nil {
		return sqldb.Error(err)
	}
	rows := domainsOf(p)
	if len(rows) == 0 {
		return nil
	}
	return sqldb.Error(s.db.Conn(ctx).Create(&rows).Error)
}

// Provider implements federation.Store.
func (s *FederationStore) Provider(ctx context.Context, tenantID, id tenant.ID) (federation.IdentityProvider, error) {
	return s.oneProvider(ctx, s.db.Tenant(ctx, tenantID).Where("id = ?", id), id)
}

// ProviderByID implements federation.Store.
func (s *FederationStore) ProviderByID(ctx context.Context, id tenant.ID) (federation.IdentityProvider, error) {
	return s.oneProvider(ctx, s.db.Conn(sqldb.AcrossTenants(ctx)).Where("id = ?", id), id)
}

// ProviderOfDomain implements federation.Store.
func (s *FederationStore) ProviderOfDomain(ctx context.Context, domain string) (federation.IdentityProvider, error) {
	r, err := one[domainRow](s.db.Conn(sqldb.AcrossTenants(ctx)).Where("live_domain = ?", domain), "identity provider of", domain)
	if err != nil {
		return federation.IdentityProvider{}, err
	}
	return s.Provider(ctx, r.TenantID, r.ProviderID)
}

// ProvidersOf implements federation.Store.
func (s *FederationStore) ProvidersOf(ctx context.Context, issuer, clientID string) ([]federation.IdentityProvider, error) {
	return all(s.db.Conn(sqldb.AcrossTenants(ctx)).Where("client_id = ? AND issuer = ?", clientID, issuer).Order("id").Limit(1000),
		func(r providerRow) (federation.IdentityProvider, error) { return r.provider(), nil })
}

// Providers implements federation.Store.
func (s *FederationStore) Providers(ctx context.Context, tenantID tenant.ID, name string, p tenant.Page) ([]federation.IdentityProvider, error) {
	q := s.db.Tenant(ctx, tenantID)
	if name != "" {
		q = q.Where("name = ?", name)
	}
	list, err := page(q, p, func(r providerRow) (federation.IdentityProvider, error) { return r.provider(), nil })
	if err != nil {
		return nil, err
	}
	return s.withDomains(ctx, list)
}

// UpdateProvider implements federation.Store.
func (s *FederationStore) UpdateProvider(ctx context.Context, p federation.IdentityProvider) error {
	row := rowOfProvider(p)
	if err := replace(s.db.Tenant(ctx, p.TenantID).Where("id = ?", p.ID), &row, p.Revision, "identity provider"); err != nil {
		return err
	}
	return s.putDomains(ctx, p)
}

// DeleteProvider implements federation.Store.
func (s *FederationStore) DeleteProvider(ctx context.Context, tenantID, id tenant.ID) error {
	for _, row := range []any{&domainRow{}, &identityRow{}} {
		if err := s.db.Tenant(ctx, tenantID).Where("provider_id = ?", id).Delete(row).Error; err != nil {
			return sqldb.Error(err)
		}
	}
	return sqldb.Error(s.db.Tenant(ctx, tenantID).Where("id = ?", id).Delete(&providerRow{}).Error)
}

type attemptRow struct {
	StateHash []byte `gorm:"primaryKey"`
	Sealed    []byte
	Created   int64 `gorm:"column:created_at"`
	ExpiresAt int64
}

func (attemptRow) TableName() string { return "sign_in_attempts" }

// AddAttempt implements federation.Store.
func (s *FederationStore) AddAttempt(ctx context.Context, a federation.Attempt) error {
	row := attemptRow{StateHash: a.Hash, Sealed: a.Sealed, Created: sqldb.Millis(a.CreatedAt), ExpiresAt: sqldb.Millis(a.ExpiresAt)}
	return s.db.InTx(ctx, func(ctx context.Context) error { return sqldb.Error(s.db.Conn(ctx).Create(&row).Error) })
}

// TakeAttempt implements federation.Store: of two that ask for it at once, one
// gets it.
func (s *FederationStore) TakeAttempt(ctx context.Context, hash []byte) (federation.Attempt, error) {
	var out federation.Attempt
	err := s.db.InTx(ctx, func(ctx context.Context) error {
		r, err := one[attemptRow](s.db.Locking(ctx, s.db.Conn(ctx)).Where("state_hash = ?", hash), "sign-in", "")
		if err != nil {
			return err
		}
		out = federation.Attempt{Hash: r.StateHash, Sealed: r.Sealed, CreatedAt: sqldb.Time(r.Created), ExpiresAt: sqldb.Time(r.ExpiresAt)}
		res := s.db.Conn(ctx).Where("state_hash = ?", hash).Delete(&attemptRow{})
		if res.Error == nil && res.RowsAffected == 0 {
			return sqldb.Error(gorm.ErrRecordNotFound)
		}
		return sqldb.Error(res.Error)
	})
	return out, err
}

type seenRow struct {
	Digest    []byte `gorm:"primaryKey"`
	ExpiresAt int64
}

func (seenRow) TableName() string { return "seen_tokens" }

// Seen implements federation.Store.
func (s *FederationStore) Seen(ctx context.Context, digest []byte, until time.Time) (bool, error) {
	row := seenRow{Digest: digest, ExpiresAt: sqldb.Millis(until)}
	err := sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
	if errs.Is(err, errs.Conflict) { // the statement fails, the transaction goes on
		return false, nil
	}
	return err == nil, err
}

type identityRow struct {
	ProviderID string `gorm:"primaryKey"`
	Issuer     string `gorm:"primaryKey"`
	Subject    string `gorm:"primaryKey"`
	TenantID   string
	UserID     string
	Created    int64 `gorm:"column:created_at"`
}

func (identityRow) TableName() string { return "user_identities" }

func (r identityRow) identity() (federation.Identity, error) {
	return federation.Identity{TenantID: r.TenantID, ProviderID: r.ProviderID, Issuer: r.Issuer, Subject: r.Subject, UserID: r.UserID, CreatedAt: sqldb.Time(r.Created)}, nil
}

// AddIdentity implements federation.Store.
func (s *FederationStore) AddIdentity(ctx context.Context, i federation.Identity) error {
	row := identityRow{ProviderID: i.ProviderID, Issuer: i.Issuer, Subject: i.Subject, TenantID: i.TenantID, UserID: i.UserID, Created: sqldb.Millis(i.CreatedAt)}
	return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
}

// Identity implements federation.Store.
func (s *FederationStore) Identity(ctx context.Context, providerID tenant.ID, issuer, subject string) (federation.Identity, error) {
	r, err := one[identityRow](s.db.Conn(sqldb.AcrossTenants(ctx)).Where("provider_id = ? AND issuer = ? AND subject = ?", providerID, issuer, subject), "identity", "")
	if err != nil {
		return federation.Identity{}, err
	}
	return r.identity()
}

// IdentitiesOf implements federation.Store.
func (s *FederationStore) IdentitiesOf(ctx context.Context, tenantID, providerID, userID tenant.ID) ([]federation.Identity, error) {
	return all(s.db.Tenant(ctx, tenantID).Where("provider_id = ? AND user_id = ?", providerID, userID).Order("issuer, subject").Limit(100), identityRow.identity)
}

// DeleteIdentities implements federation.Store.
func (s *FederationStore) DeleteIdentities(ctx context.Context, tenantID, providerID, userID tenant.ID) (int64, error) {
	res := s.db.Tenant(ctx, tenantID).Where("provider_id = ? AND user_id = ?", providerID, userID).Delete(&identityRow{})
	return res.RowsAffected, sqldb.Error(res.Error)
}

// Purge forgets sign-ins and seen tokens whose time was over before a time.
func (s *FederationStore) Purge(ctx context.Context, before time.Time) error {
	return s.db.InTx(ctx, func(ctx context.Context) error {
		for _, row := range []any{&attemptRow{}, &seenRow{}} {
			if err := s.db.Conn(ctx).Where("expires_at < ?", sqldb.Millis(before)).Delete(row).Error; err != nil {
				return sqldb.Error(err)
			}
		}
		return nil
	})
}
