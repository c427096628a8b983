package controldb

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// DueErasures implements auth.ClosingStore.
func (s *AuthStore) DueErasures(ctx context.Context, at time.Time, limit int) ([]tenant.ID, error) {
	var ids []tenant.ID
	err := s.db.Conn(ctx).Model(&userRow{}).Where("erase_at <= ?", sqldb.Millis(at)).Order("erase_at, id").Limit(limit).Pluck("id", &ids).Error
	return ids, sqldb.Error(err)
}

// EraseUser implements auth.ClosingStore.
func (s *AuthStore) EraseUser(ctx context.Context, u auth.User) error {
	db := s.db.Conn(sqldb.AcrossTenants(ctx))
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{"DELETE FROM refresh_tokens WHERE session_id IN (SELECT id FROM sessions WHERE user_id = ?)", []any{u.ID}},
		{"DELETE FROM sessions WHERE user_id = ?", []any{u.ID}},
		{"DELETE FROM mfa_factors WHERE user_id = ?", []any{u.ID}},
		{"DELETE FROM recovery_codes WHERE user_id = ?", []any{u.ID}},
		{"DELETE FROM mfa_challenges WHERE user_id = ?", []any{u.ID}},
		{"DELETE FROM user_identities WHERE user_id = ?", []any{u.ID}},
		// Former addresses are in codes that undo a change of address.
		{"DELETE FROM mail_codes WHERE email = ? OR payload LIKE ?", []any{u.Email, "%\"" + u.ID + "\"%"}},
		// What is left of invitations that they accepted is the address.
		{"DELETE FROM invitations WHERE accepted_by = ?", []any{u.ID}},
		{"DELETE FROM users WHERE id = ?", []any{u.ID}},
	} {
		if err := db.Exec(q.sql, q.args...).Error; err != nil {
			return sqldb.Error(err)
		}
	}
	return nil
}

// ForgetProviders implements auth.ClosingStore.
func (s *AuthStore) ForgetProviders(ctx context.Context, tenantID tenant.ID) error {
	for _, table := range []string{"user_identities", "identity_domains", "identity_providers"} {
		if err := s.db.Conn(ctx).Exec("DELETE FROM "+table+" WHERE tenant_id = ?", tenantID).Error; err != nil {
			return sqldb.Error(err)
		}
	}
	return nil
}
