package billingdb

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluicemq/sluice/internal/sqldb"
)

type namespaceRow struct {
	NamespaceID string `gorm:"primaryKey"`
	TenantID    string
}

func (namespaceRow) TableName() string { return "usage_namespaces" }

// Remember keeps who pays for a namespace that is about to be forgotten:
// brokers may still report what it used. An unknown namespace is no error.
func (s *Store) Remember(ctx context.Context, namespaceID string) error {
	ctx = sqldb.AcrossTenants(ctx)
	return s.db.InTx(ctx, func(ctx context.Context) error {
		tenantID, err := s.owner(ctx, "namespaces", "id", namespaceID)
		if err != nil || tenantID == "" {
			return err
		}
		err = s.db.Conn(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&namespaceRow{NamespaceID: namespaceID, TenantID: tenantID}).Error
		if err != nil {
			return fmt.Errorf("remember namespace: %w", err)
		}
		return nil
	})
}

// TenantOf returns who pays for a namespace, also for one that is gone; "" for
// one that never was. Ids are never used again, so the answer may be kept.
func (s *Store) TenantOf(ctx context.Context, namespaceID string) (string, error) {
	ctx = sqldb.AcrossTenants(ctx)
	tenantID, err := s.owner(ctx, "namespaces", "id", namespaceID)
	if err == nil && tenantID == "" {
		tenantID, err = s.owner(ctx, "usage_namespaces", "namespace_id", namespaceID)
	}
	return tenantID, sqldb.Error(err)
}

func (s *Store) owner(ctx context.Context, table, column, id string) (string, error) {
	var row struct{ TenantID string }
	err := s.db.Conn(ctx).Table(table).Select("tenant_id").Where(column+" = ?", id).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find who pays for a namespace: %w", err)
	}
	return row.TenantID, nil
}
