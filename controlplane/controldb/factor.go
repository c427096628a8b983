package controldb

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type factorRow struct {
	ID             string `gorm:"primaryKey"`
	UserID         string
	Type           string
	Name           string
	Sealed         []byte
	LastStep       int64
	CredentialHash []byte
	ConfirmedAt    *int64
	LastUsedAt     *int64
	Created        int64 `gorm:"column:created_at"`
	Updated        int64 `gorm:"column:updated_at"`
	Revision       int64
}

func (factorRow) TableName() string { return "mfa_factors" }

func (r factorRow) factor() auth.Factor {
	return auth.Factor{ID: r.ID, UserID: r.UserID, Type: auth.FactorType(r.Type), Name: r.Name, Sealed: r.Sealed, LastStep: r.LastStep, CredentialHash: r.CredentialHash,
		ConfirmedAt: sqldb.TimePtr(r.ConfirmedAt), LastUsedAt: sqldb.TimePtr(r.LastUsedAt), CreatedAt: sqldb.Time(r.Created),
		UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
}

func rowOfFactor(f auth.Factor) factorRow {
	return factorRow{ID: f.ID, UserID: f.UserID, Type: string(f.Type), Name: f.Name, Sealed: f.Sealed, LastStep: f.LastStep, CredentialHash: f.CredentialHash,
		ConfirmedAt: sqldb.MillisPtr(f.ConfirmedAt), LastUsedAt: sqldb.MillisPtr(f.LastUsedAt), Created: sqldb.Millis(f.CreatedAt),
		Updated: sqldb.Millis(f.UpdatedAt), Revision: f.Revision}
}

// AddFactor implements auth.FactorStore.
func (s *AuthStore) AddFactor(ctx context.Context, f auth.Factor) error {
	row := rowOfFactor(f)
	return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
}

// Factor implements auth.FactorStore.
func (s *AuthStore) Factor(ctx context.Context, userID, id tenant.ID) (auth.Factor, error) {
	r, err := one[factorRow](s.db.Locking(ctx, s.db.Conn(ctx)).Where("user_id = ? AND id = ?", userID, id), "second factor", id)
	return r.factor(), err
}

// Factors implements auth.FactorStore.
func (s *AuthStore) Factors(ctx context.Context, userID tenant.ID) ([]auth.Factor, error) {
	return all(s.db.Conn(ctx).Where("user_id = ?", userID).Order("id"), func(r factorRow) (auth.Factor, error) { return r.factor(), nil })
}

// UpdateFactor implements auth.FactorStore.
func (s *AuthStore) UpdateFactor(ctx context.Context, f auth.Factor) error {
	row := rowOfFactor(f)
	return replace(s.db.Conn(ctx).Where("id = ?", f.ID), &row, f.Revision, "second factor")
}

// UseStep implements auth.FactorStore.
func (s *AuthStore) UseStep(ctx context.Context, id tenant.ID, step int64, at time.Time) (bool, error) {
	res := s.db.Conn(ctx).Model(&factorRow{}).Where("id = ? AND last_step < ?", id, step).
		UpdateColumns(map[string]any{"last_step": step, "last_used_at": sqldb.Millis(at)})
	return res.RowsAffected > 0, sqldb.Error(res.Error)
}

// UseCredential implements auth.FactorStore.
func (s *AuthStore) UseCredential(ctx context.Context, id tenant.ID, sealed []byte, at time.Time) error {
	return sqldb.Error(s.db.Conn(ctx).Model(&factorRow{}).Where("id = ?", id).UpdateColumns(map[string]any{"sealed": sealed, "last_used_at": sqldb.Millis(at)}).Error)
}

// DeleteFactor implements auth.FactorStore.
func (s *AuthStore) DeleteFactor(ctx context.Context, userID, id tenant.ID) error {
	return sqldb.Error(s.db.Conn(ctx).Where("user_id = ? AND id = ?", userID, id).Delete(&factorRow{}).Error)
}

type recoveryRow struct {
	UserID   string `gorm:"primaryKey"`
	CodeHash []byte `gorm:"primaryKey"`
	UsedAt   *int64
	Created  int64 `gorm:"column:created_at"`
}

func (recoveryRow) TableName() string { return "recovery_codes" }

// SetRecoveryCodes implements auth.FactorStore.
func (s *AuthStore) SetRecoveryCodes(ctx context.Context, userID tenant.ID, hashes [][]byte, at time.Time) error {
	if err := s.db.Conn(ctx).Where("user_id = ?", userID).Delete(&recoveryRow{}).Error; err != nil || len(hashes) == 0 {
		return sqldb.Error(err)
	}
	rows := make([]recoveryRow, len(hashes))
	for i, h := range hashes {
		rows[i] = recoveryRow{UserID: userID, CodeHash: h, Created: sqldb.Millis(at)}
	}
	return sqldb.Error(s.db.Conn(ctx).Create(&rows).Error)
}

// RecoveryCodesLeft implements auth.FactorStore.
func (s *AuthStore) RecoveryCodesLeft(ctx context.Context, userID tenant.ID) (int, error) {
	var n int64
	err := s.db.Conn(ctx).Model(&recoveryRow{}).Where("user_id = ? AND used_at IS NULL", userID).Count(&n).Error
	return int(n), sqldb.Error(err)
}

// UseRecoveryCode implements auth.FactorStore.
func (s *AuthStore) UseRecoveryCode(ctx context.Context, userID tenant.ID, hash []byte, at time.Time) (bool, error) {
	res := s.db.Conn(ctx).Model(&recoveryRow{}).Where("user_id = ? AND code_hash = ? AND used_at IS NULL", userID, hash).UpdateColumn("used_at", sqldb.Millis(at))
	return res.RowsAffected > 0, sqldb.Error(res.Error)
}

type challengeRow struct {
	ID        string `gorm:"primaryKey"`
	TokenHash []byte
	UserID    string
	Tries     int
	Data      []byte
	Created   int64 `gorm:"column:created_at"`
	ExpiresAt int64
}

func (challengeRow) TableName() string { return "mfa_challenges" }

// AddChallenge implements auth.FactorStore.
func (s *AuthStore) AddChallenge(ctx context.Context, c auth.Challenge) error {
	row := challengeRow{ID: c.ID, TokenHash: c.TokenHash, UserID: c.UserID, Tries: c.Tries, Data: c.Data, Created: sqldb.Millis(c.CreatedAt), ExpiresAt: sqldb.Millis(c.ExpiresAt)}
	return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
}

// Challenge implements auth.FactorStore.
func (s *AuthStore) Challenge(ctx context.Context, tokenHash []byte) (auth.Challenge, error) {
	r, err := one[challengeRow](s.db.Conn(ctx).Where("token_hash = ?", tokenHash), "challenge", "")
	return auth.Challenge{ID: r.ID, TokenHash: r.TokenHash, UserID: r.UserID, Tries: r.Tries, Data: r.Data, CreatedAt: sqldb.Time(r.Created), ExpiresAt: sqldb.Time(r.ExpiresAt)}, err
}

// TryChallenge implements auth.FactorStore.
func (s *AuthStore) TryChallenge(ctx context.Context, id tenant.ID, limit int) (bool, error) {
	res := s.db.Conn(ctx).Model(&challengeRow{}).Where("id = ? AND tries < ?", id, limit).UpdateColumn("tries", gorm.Expr("tries + 1"))
	return res.RowsAffected > 0, sqldb.Error(res.Error)
}

// ChallengeTries implements auth.FactorStore.
func (s *AuthStore) ChallengeTries(ctx context.Context, userID tenant.ID, since time.Time) (int, error) {
	var n int64
	err := s.db.Conn(ctx).Model(&challengeRow{}).Select("COALESCE(SUM(tries), 0)").Where("user_id = ? AND created_at > ?", userID, sqldb.Millis(since)).Scan(&n).Error
	return int(n), sqldb.Error(err)
}

// DeleteChallenge implements auth.FactorStore.
func (s *AuthStore) DeleteChallenge(ctx context.Context, id tenant.ID) (bool, error) {
	res := s.db.Conn(ctx).Where("id = ?", id).Delete(&challengeRow{})
	return res.RowsAffected > 0, sqldb.Error(res.Error)
}
