// Package tenantdb keeps tenants, members, service accounts, namespaces, API
// keys and quota counters in the database, behind tenant.Store.
//
// It owns rows and queries, no rules. Each query names the tenant. A Store
// may be used by any number of goroutines.
package tenantdb

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

var _ tenant.Store = (*Store)(nil)

// Recorder appends to the outbox in the transaction of its context.
type Recorder interface {
	Record(ctx context.Context, c tenant.Change) error
}

// Store implements tenant.Store.
type Store struct {
	Recorder
	db *sqldb.DB
}

// New makes a Store on an open, migrated database.
func New(db *sqldb.DB, outbox Recorder) *Store { return &Store{Recorder: outbox, db: db} }

// InTx runs fn in a transaction; see sqldb.DB.InTx.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.InTx(ctx, fn)
}

// AfterCommit runs f after the commit; see sqldb.DB.AfterCommit.
func (s *Store) AfterCommit(ctx context.Context, f func()) { s.db.AfterCommit(ctx, f) }

type tenantRow struct {
	ID       string `gorm:"primaryKey"`
	Name     string
	State    string
	Plan     string
	Labels   string
	DataKey  []byte
	MFA      bool  `gorm:"column:mfa_required"`
	SSO      bool  `gorm:"column:sso_required"`
	KeyAge   int64 `gorm:"column:max_key_age_ms"`
	Created  int64 `gorm:"column:created_at"`
	Updated  int64 `gorm:"column:updated_at"`
	Revision int64
}

func (tenantRow) TableName() string { return "tenants" }

func (r tenantRow) tenant() (tenant.Tenant, error) {
	t := tenant.Tenant{ID: r.ID, Name: r.Name, State: tenant.State(r.State), Plan: r.Plan, DataKey: r.DataKey,
		Security:  tenant.Security{MFARequired: r.MFA, SSORequired: r.SSO, MaxKeyAge: time.Duration(r.KeyAge) * time.Millisecond},
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	return t, sqldb.FromJSON(r.Labels, &t.Labels)
}

func rowOfTenant(t tenant.Tenant) (tenantRow, error) {
	labels, err := sqldb.JSON(t.Labels)
	return tenantRow{ID: t.ID, Name: t.Name, State: string(t.State), Plan: t.Plan, Labels: labels, DataKey: t.DataKey,
		MFA: t.Security.MFARequired, SSO: t.Security.SSORequired, KeyAge: t.Security.MaxKeyAge.Milliseconds(),
		Created: sqldb.Millis(t.CreatedAt), Updated: sqldb.Millis(t.UpdatedAt), Revision: t.Revision}, err
}

// CreateTenant implements tenant.Store.
func (s *Store) CreateTenant(ctx context.Context, t tenant.Tenant) error {
	row, err := rowOfTenant(t)
	if err != nil {
		return err
	}
	return create(s.db.Conn(ctx), &row, "tenant")
}

// Tenant implements tenant.Store.
func (s *Store) Tenant(ctx context.Context, tenantID tenant.ID) (tenant.Tenant, error) {
	var row tenantRow
	if err := first(s.db.Locking(ctx, s.db.Conn(ctx)).Where("id = ?", tenantID), &row, "tenant", tenantID); err != nil {
		return tenant.Tenant{}, err
	}
	return row.tenant()
}

// UpdateTenant implements tenant.Store.
func (s *Store) UpdateTenant(ctx context.Context, t tenant.Tenant) error {
	row, err := rowOfTenant(t)
	if err != nil {
		return err
	}
	return update(s.db.Conn(ctx).Where("id = ?", t.ID), &row, t.Revision, "tenant")
}

type serviceAccountRow struct {
	ID          string `gorm:"primaryKey"`
	TenantID    string
	Name        string
	Description string
	Labels      string
	Disabled    bool
	Bound       bool
	Created     int64 `gorm:"column:created_at"`
	Updated     int64 `gorm:"column:updated_at"`
	Revision    int64
}

func (serviceAccountRow) TableName() string { return "service_accounts" }

func (r serviceAccountRow) account() (tenant.ServiceAccount, error) {
	a := tenant.ServiceAccount{TenantID: r.TenantID, ID: r.ID, Name: r.Name, Description: r.Description, Disabled: r.Disabled, Bound: r.Bound,
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	return a, sqldb.FromJSON(r.Labels, &a.Labels)
}

func rowOfServiceAccount(a tenant.ServiceAccount) (serviceAccountRow, error) {
	labels, err := sqldb.JSON(a.Labels)
	return serviceAccountRow{ID: a.ID, TenantID: a.TenantID, Name: a.Name, Description: a.Description, Labels: labels, Disabled: a.Disabled, Bound: a.Bound,
		Created: sqldb.Millis(a.CreatedAt), Updated: sqldb.Millis(a.UpdatedAt), Revision: a.Revision}, err
}

// CreateServiceAccount implements tenant.Store.
func (s *Store) CreateServiceAccount(ctx context.Context, a tenant.ServiceAccount) error {
	row, err := rowOfServiceAccount(a)
	if err != nil {
		return err
	}
	return create(s.db.Conn(ctx), &row, "service account")
}

// ServiceAccount implements tenant.Store.
func (s *Store) ServiceAccount(ctx context.Context, tenantID, id tenant.ID) (tenant.ServiceAccount, error) {
	var row serviceAccountRow
	if err := first(s.db.Locking(ctx, s.db.Tenant(ctx, tenantID)).Where("id = ?", id), &row, "service account", id); err != nil {
		return tenant.ServiceAccount{}, err
	}
	return row.account()
}

// ServiceAccounts implements tenant.Store.
func (s *Store) ServiceAccounts(ctx context.Context, tenantID tenant.ID, name string, p tenant.Page) ([]tenant.ServiceAccount, error) {
	q := s.db.Tenant(ctx, tenantID)
	if name != "" {
		q = q.Where("name = ?", name)
	}
	return list(q, p, serviceAccountRow.account)
}

// UpdateServiceAccount implements tenant.Store.
func (s *Store) UpdateServiceAccount(ctx context.Context, a tenant.ServiceAccount) error {
	row, err := rowOfServiceAccount(a)
	if err != nil {
		return err
	}
	return update(s.db.Tenant(ctx, a.TenantID).Where("id = ?", a.ID), &row, a.Revision, "service account")
}

// DeleteServiceAccount implements tenant.Store.
func (s *Store) DeleteServiceAccount(ctx context.Context, tenantID, id tenant.ID) error {
	res := s.db.Tenant(ctx, tenantID).Where("id = ?", id).Delete(&serviceAccountRow{})
	return affected(res, "service account", id)
}

// The helpers below are the five statements that all rows share.

func create(q *gorm.DB, row any, what string) error {
	if err := q.Create(row).Error; err != nil {
		return fmt.Errorf("create %s: %w", what, sqldb.Error(err))
	}
	return nil
}

func first(q *gorm.DB, row any, what string, id tenant.ID) error {
	err := sqldb.Error(q.Limit(1).Take(row).Error)
	if errs.Is(err, errs.NotFound) {
		return errs.E(errs.NotFound, "%s %q does not exist", what, id)
	}
	return err
}

// update writes all columns of row where the revision is the one before.
func update(q *gorm.DB, row any, revision int64, what string) error {
	res := q.Where("revision = ?", revision-1).Select("*").Omit("created_at").Updates(row)
	if res.Error != nil {
		return fmt.Errorf("update %s: %w", what, sqldb.Error(res.Error))
	}
	if res.RowsAffected == 0 {
		return errs.E(errs.PreconditionFailed, "%s was changed meanwhile; read it again", what)
	}
	return nil
}

func affected(res *gorm.DB, what string, id tenant.ID) error {
	if res.Error != nil {
		return sqldb.Error(res.Error)
	}
	if res.RowsAffected == 0 {
		return errs.E(errs.NotFound, "%s %q does not exist", what, id)
	}
	return nil
}

func list[R, T any](q *gorm.DB, p tenant.Page, convert func(R) (T, error)) ([]T, error) {
	var rows []R
	if err := q.Where("id > ?", p.After).Order("id").Limit(p.Size).Find(&rows).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	out := make([]T, len(rows))
	for i, r := range rows {
		v, err := convert(r)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func millis(t time.Time) int64 { return sqldb.Millis(t) }
