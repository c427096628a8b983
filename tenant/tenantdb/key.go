package tenantdb

import (
	"context"
	"net/netip"
	"time"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type keyRow struct {
	ID               string `gorm:"primaryKey"`
	TenantID         string
	OwnerID          string
	Name             string
	Description      string
	Scopes           string
	ControlRole      string
	AllowedCIDRs     string `gorm:"column:allowed_cidrs"`
	Disabled         bool
	ExpiresAt        *int64
	RevokedAt        *int64
	RevokedReason    string
	LastUsedAt       *int64
	LastAddress      string `gorm:"column:last_used_address"`
	LastOperation    string `gorm:"column:last_used_operation"`
	LastTopic        string `gorm:"column:last_used_topic"`
	ReplacesID       string
	ReplacedByID     string
	Hint             string
	Sealed           []byte
	Fingerprint      []byte `gorm:"column:secret_fingerprint"`
	WorkloadID       string
	Phase            string
	Reason           string
	ObservedRevision int64
	Created          int64 `gorm:"column:created_at"`
	Updated          int64 `gorm:"column:updated_at"`
	Revision         int64
	MaxAge           int64 `gorm:"->;column:max_age_ms"` // of the tenant, by keyColumns
}

// keyColumns are those of a key and what its tenant demands of it.
const keyColumns = "api_keys.*, (SELECT tenants.max_key_age_ms FROM tenants WHERE tenants.id = api_keys.tenant_id) AS max_age_ms"

func (keyRow) TableName() string { return "api_keys" }

func (r keyRow) key() (tenant.APIKey, error) {
	k := tenant.APIKey{TenantID: r.TenantID, ID: r.ID, OwnerID: r.OwnerID, Name: r.Name, Description: r.Description,
		ControlRole: tenant.Role(r.ControlRole), Disabled: r.Disabled, ExpiresAt: sqldb.TimePtr(r.ExpiresAt),
		MaxAge:    time.Duration(r.MaxAge) * time.Millisecond,
		RevokedAt: sqldb.TimePtr(r.RevokedAt), LastUsedAt: sqldb.TimePtr(r.LastUsedAt), Replaces: r.ReplacesID, ReplacedBy: r.ReplacedByID,
		Hint: r.Hint, Sealed: r.Sealed, Fingerprint: r.Fingerprint, RevokedReason: r.RevokedReason,
		Status:    tenant.Status{Phase: tenant.Phase(r.Phase), Reason: r.Reason, ObservedRevision: r.ObservedRevision},
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	if k.WorkloadID = r.WorkloadID; k.WorkloadID != "" {
		k.MaxAge = 0
	}
	if k.LastUsedAt != nil {
		k.LastUse = tenant.KeyUse{At: *k.LastUsedAt, Address: r.LastAddress, Operation: r.LastOperation, Topic: r.LastTopic}
	}
	if err := sqldb.FromJSON(r.AllowedCIDRs, &k.AllowedCIDRs); err != nil {
		return k, err
	}
	return k, sqldb.FromJSON(r.Scopes, &k.Scopes)
}

func rowOfKey(k tenant.APIKey) (keyRow, error) {
	if k.Scopes == nil {
		k.Scopes = []tenant.Scope{}
	}
	if k.AllowedCIDRs == nil {
		k.AllowedCIDRs = []netip.Prefix{}
	}
	scopes, err := sqldb.JSON(k.Scopes)
	if err != nil {
		return keyRow{}, err
	}
	cidrs, err := sqldb.JSON(k.AllowedCIDRs)
	return keyRow{ID: k.ID, TenantID: k.TenantID, OwnerID: k.OwnerID, Name: k.Name, Description: k.Description, Scopes: scopes,
		ControlRole: string(k.ControlRole), AllowedCIDRs: cidrs, Disabled: k.Disabled, ExpiresAt: sqldb.MillisPtr(k.ExpiresAt),
		RevokedAt: sqldb.MillisPtr(k.RevokedAt), LastUsedAt: sqldb.MillisPtr(k.LastUsedAt), ReplacesID: k.Replaces, ReplacedByID: k.ReplacedBy,
		RevokedReason: k.RevokedReason, LastAddress: k.LastUse.Address, LastOperation: k.LastUse.Operation, LastTopic: k.LastUse.Topic,
		Hint: k.Hint, Sealed: k.Sealed, Fingerprint: k.Fingerprint, WorkloadID: k.WorkloadID, Phase: string(k.Status.Phase), Reason: k.Status.Reason, ObservedRevision: k.Status.ObservedRevision,
		Created: millis(k.CreatedAt), Updated: millis(k.UpdatedAt), Revision: k.Revision}, err
}

// CreateKey implements tenant.Store.
func (s *Store) CreateKey(ctx context.Context, k tenant.APIKey) error {
	row, err := rowOfKey(k)
	if err != nil {
		return err
	}
	return create(s.db.Conn(ctx), &row, "API key")
}

// Key implements tenant.Store.
func (s *Store) Key(ctx context.Context, tenantID, id tenant.ID) (tenant.APIKey, error) {
	var row keyRow
	if err := first(s.db.Locking(ctx, s.db.Tenant(ctx, tenantID)).Select(keyColumns).Where("id = ? AND phase <> ?", id, tenant.PhaseDeleting), &row, "API key", id); err != nil {
		return tenant.APIKey{}, err
	}
	return row.key()
}

// Keys implements tenant.Store.
func (s *Store) Keys(ctx context.Context, tenantID tenant.ID, f tenant.KeyFilter, p tenant.Page) ([]tenant.APIKey, error) {
	q := s.db.Tenant(ctx, tenantID).Select(keyColumns).Where("phase <> ?", tenant.PhaseDeleting)
	if f.Name != "" {
		q = q.Where("name = ?", f.Name)
	}
	if f.OwnerID != "" {
		q = q.Where("owner_id = ?", f.OwnerID)
	}
	if f.NamespaceID != "" { // ids hold no character that LIKE or JSON would read otherwise
		q = q.Where("scopes LIKE ?", `%"namespace_id":"`+f.NamespaceID+`"%`)
	}
	now, oldest := millis(f.Now), int64(-1) // keys made until then are too old
	if f.MaxAge > 0 {
		oldest = millis(f.Now.Add(-f.MaxAge))
	}
	switch f.State {
	case tenant.KeyRevoked:
		q = q.Where("revoked_at IS NOT NULL")
	case tenant.KeyExpired:
		q = q.Where("revoked_at IS NULL AND (expires_at <= ? OR created_at <= ?)", now, oldest)
	case tenant.KeyDisabled, tenant.KeyActive:
		q = q.Where("revoked_at IS NULL AND disabled = ?", f.State == tenant.KeyDisabled).
			Where("COALESCE(expires_at, ?) > ? AND created_at > ?", now+1, now, oldest)
	}
	return list(q, p, keyRow.key)
}

// UpdateKey implements tenant.Store.
func (s *Store) UpdateKey(ctx context.Context, k tenant.APIKey) error {
	row, err := rowOfKey(k)
	if err != nil {
		return err
	}
	return update(s.db.Tenant(ctx, k.TenantID).Where("id = ?", k.ID), &row, k.Revision, "API key")
}

// KeyByID implements tenant.Store.
func (s *Store) KeyByID(ctx context.Context, id tenant.ID) (tenant.APIKey, error) {
	var row keyRow
	if err := first(s.db.Conn(sqldb.AcrossTenants(ctx)).Select(keyColumns).Where("id = ?", id), &row, "API key", id); err != nil {
		return tenant.APIKey{}, err
	}
	return row.key()
}

// TouchKey implements tenant.Store. The time never moves back.
func (s *Store) TouchKey(ctx context.Context, tenantID, id tenant.ID, use tenant.KeyUse) error {
	return s.db.InTx(ctx, func(ctx context.Context) error {
		return sqldb.Error(s.db.Tenant(ctx, tenantID).Model(&keyRow{}).Where("id = ? AND (last_used_at IS NULL OR last_used_at < ?)", id, millis(use.At)).
			UpdateColumns(map[string]any{"last_used_at": millis(use.At), "last_used_address": clip(use.Address, 64),
				"last_used_operation": clip(use.Operation, 64), "last_used_topic": clip(use.Topic, 255)}).Error)
	})
}

func clip(text string, limit int) string { return text[:min(len(text), limit)] }

// KeysByFingerprint implements tenant.Store.
func (s *Store) KeysByFingerprint(ctx context.Context, fingerprint []byte) ([]tenant.APIKey, error) {
	q := s.db.Conn(sqldb.AcrossTenants(ctx))
	return list(q.Select(keyColumns).Where("secret_fingerprint = ?", fingerprint), tenant.Page{Size: 1000}, keyRow.key)
}

// KeysWithoutFingerprint implements tenant.Store.
func (s *Store) KeysWithoutFingerprint(ctx context.Context, after tenant.ID, limit int) ([]tenant.APIKey, error) {
	q := s.db.Conn(sqldb.AcrossTenants(ctx))
	return list(q.Select(keyColumns).Where("secret_fingerprint IS NULL"), tenant.Page{Size: limit, After: after}, keyRow.key)
}

// SetFingerprint implements tenant.Store.
func (s *Store) SetFingerprint(ctx context.Context, tenantID, id tenant.ID, fingerprint []byte) error {
	return s.db.InTx(ctx, func(ctx context.Context) error {
		return sqldb.Error(s.db.Tenant(ctx, tenantID).Model(&keyRow{}).Where("id = ?", id).UpdateColumn("secret_fingerprint", fingerprint).Error)
	})
}

type leakRow struct {
	ID          string `gorm:"primaryKey"`
	Fingerprint []byte
	Address     string
	Created     int64 `gorm:"column:created_at"`
}

func (leakRow) TableName() string { return "leak_reports" }

func (r leakRow) report() (tenant.LeakReport, error) {
	return tenant.LeakReport{ID: r.ID, Fingerprint: r.Fingerprint, Address: r.Address, At: sqldb.Time(r.Created)}, nil
}

// AddLeakReport implements tenant.Store.
func (s *Store) AddLeakReport(ctx context.Context, r tenant.LeakReport) error {
	return create(s.db.Conn(ctx), &leakRow{ID: r.ID, Fingerprint: r.Fingerprint, Address: clip(r.Address, 64), Created: millis(r.At)}, "leak report")
}

// LeakReports implements tenant.Store.
func (s *Store) LeakReports(ctx context.Context, limit int) ([]tenant.LeakReport, error) {
	return list(s.db.Conn(ctx), tenant.Page{Size: limit}, leakRow.report)
}

// TakeLeakReport implements tenant.Store.
func (s *Store) TakeLeakReport(ctx context.Context, id tenant.ID) (bool, error) {
	res := s.db.Conn(ctx).Where("id = ?", id).Delete(&leakRow{})
	return res.RowsAffected == 1, sqldb.Error(res.Error)
}

// AllKeys reads keys of all tenants, deleted ones too: those of ids, or every
// one. For the reads of the fleet only.
func (s *Store) AllKeys(ctx context.Context, ids []tenant.ID, every bool) ([]tenant.APIKey, error) {
	return ofAll(ctx, s, keyColumns, ids, every, keyRow.key)
}

// AllRules is AllKeys for rules.
func (s *Store) AllRules(ctx context.Context, ids []tenant.ID, every bool) ([]tenant.Rule, error) {
	return ofAll(ctx, s, "*", ids, every, ruleRow.rule)
}

func ofAll[R, T any](ctx context.Context, s *Store, columns string, ids []tenant.ID, every bool, convert func(R) (T, error)) ([]T, error) {
	q := s.db.Conn(sqldb.AcrossTenants(ctx)).Select(columns).Order("id")
	if !every {
		if len(ids) == 0 {
			return nil, nil
		}
		q = q.Where("id IN ?", ids)
	}
	var rows []R
	if err := q.Find(&rows).Error; err != nil {
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
