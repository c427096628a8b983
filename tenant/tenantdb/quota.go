package tenantdb

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type quotaRow struct {
	TenantID   string `gorm:"primaryKey"`
	ScopeID    string `gorm:"primaryKey"`
	Name       string `gorm:"primaryKey"`
	Used       int64
	LimitValue *int64
	Created    int64 `gorm:"column:created_at"`
}

func (quotaRow) TableName() string { return "quotas" }

// Reserve implements tenant.Store: one conditional update, so that two
// creations at the same time cannot both take the last one.
func (s *Store) Reserve(ctx context.Context, tenantID, scope tenant.ID, name string, n, limit int64, at time.Time) (tenant.Quota, bool, error) {
	row := quotaRow{TenantID: tenantID, ScopeID: scope, Name: name, Created: millis(at)}
	if err := s.db.Conn(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error; err != nil {
		return tenant.Quota{}, false, sqldb.Error(err)
	}
	res := s.quota(ctx, tenantID, scope, name).
		Where("used + ? <= COALESCE(limit_value, ?)", n, limit).
		UpdateColumn("used", gorm.Expr("used + ?", n))
	if res.Error != nil {
		return tenant.Quota{}, false, sqldb.Error(res.Error)
	}
	if res.RowsAffected > 0 {
		return tenant.Quota{}, true, nil
	}
	var have quotaRow
	if err := s.quota(ctx, tenantID, scope, name).Take(&have).Error; err != nil {
		return tenant.Quota{}, false, sqldb.Error(err)
	}
	q := tenant.Quota{Name: name, Scope: scope, Kind: tenant.QuotaCount, Unit: name, Limit: limit, Used: have.Used, Source: "plan"}
	if have.LimitValue != nil {
		q.Limit, q.Source = *have.LimitValue, "override"
	}
	return q, false, nil
}

func (s *Store) quota(ctx context.Context, tenantID, scope tenant.ID, name string) *gorm.DB {
	return s.db.Tenant(ctx, tenantID).Model(&quotaRow{}).Where("scope_id = ? AND name = ?", scope, name)
}

// Release implements tenant.Store.
func (s *Store) Release(ctx context.Context, tenantID, scope tenant.ID, name string, n int64) error {
	return sqldb.Error(s.quota(ctx, tenantID, scope, name).Where("used >= ?", n).UpdateColumn("used", gorm.Expr("used - ?", n)).Error)
}

// QuotaRows implements tenant.Store.
func (s *Store) QuotaRows(ctx context.Context, tenantID, scope tenant.ID) ([]tenant.QuotaRow, error) {
	var rows []quotaRow
	if err := s.db.Tenant(ctx, tenantID).Where("scope_id = ?", scope).Order("name").Find(&rows).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	out := make([]tenant.QuotaRow, len(rows))
	for i, r := range rows {
		out[i] = tenant.QuotaRow{Name: r.Name, Used: r.Used, Limit: r.LimitValue, CreatedAt: sqldb.Time(r.Created)}
	}
	return out, nil
}
