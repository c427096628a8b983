package controldb

import (
	"context"
	"time"

	"gorm.io/gorm/clause"

	"github.com/sluicemq/sluice/internal/sqldb"
)

type revokedRow struct {
	ID        string `gorm:"primaryKey"`
	Created   int64  `gorm:"column:created_at"`
	ExpiresAt int64
}

func (revokedRow) TableName() string { return "revoked_tokens" }

// RevokeToken implements auth.Store.
func (s *AuthStore) RevokeToken(ctx context.Context, id string, now, expires time.Time) error {
	row := revokedRow{ID: id, Created: sqldb.Millis(now), ExpiresAt: sqldb.Millis(expires)}
	return sqldb.Error(s.db.Conn(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error)
}

// TokenRevoked implements auth.Store.
func (s *AuthStore) TokenRevoked(ctx context.Context, id string) (bool, error) {
	var n int64
	err := s.db.Conn(ctx).Model(&revokedRow{}).Where("id = ?", id).Count(&n).Error
	return n > 0, sqldb.Error(err)
}

// RevokedTokens implements auth.Store.
func (s *AuthStore) RevokedTokens(ctx context.Context, now time.Time) (map[string]time.Time, error) {
	var rows []revokedRow
	if err := s.db.Conn(ctx).Where("expires_at > ?", sqldb.Millis(now)).Find(&rows).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	out := make(map[string]time.Time, len(rows))
	for _, r := range rows {
		out[r.ID] = sqldb.Time(r.ExpiresAt)
	}
	return out, nil
}

// ForgetTokens implements auth.Store.
func (s *AuthStore) ForgetTokens(ctx context.Context, before time.Time) (bool, error) {
	res := s.db.Conn(ctx).Where("expires_at <= ?", sqldb.Millis(before)).Delete(&revokedRow{})
	return res.RowsAffected > 0, sqldb.Error(res.Error)
}
