package controldb

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

var _ auth.Store = (*AuthStore)(nil)

// AuthStore implements auth.Store.
type AuthStore struct {
	*Outbox
	db *sqldb.DB
}

// NewAuthStore makes an AuthStore on an open, migrated database.
func NewAuthStore(db *sqldb.DB, outbox *Outbox) *AuthStore { return &AuthStore{Outbox: outbox, db: db} }

// InTx runs fn in a transaction; see sqldb.DB.InTx.
func (s *AuthStore) InTx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.InTx(ctx, fn)
}

// AfterCommit runs f after the commit; see sqldb.DB.AfterCommit.
func (s *AuthStore) AfterCommit(ctx context.Context, f func()) { s.db.AfterCommit(ctx, f) }

type userRow struct {
	ID           string `gorm:"primaryKey"`
	Email        string
	Name         string
	PasswordHash string
	Locale       string
	LastSignInAt *int64
	EraseAt      *int64
	Created      int64 `gorm:"column:created_at"`
	Updated      int64 `gorm:"column:updated_at"`
	Revision     int64
}

func (userRow) TableName() string { return "users" }

func (r userRow) user() auth.User {
	return auth.User{ID: r.ID, Email: r.Email, Name: r.Name, PasswordHash: r.PasswordHash, Locale: r.Locale, LastSignInAt: sqldb.TimePtr(r.LastSignInAt), EraseAt: sqldb.TimePtr(r.EraseAt),
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
}

func rowOfUser(u auth.User) userRow {
	return userRow{ID: u.ID, Email: u.Email, Name: u.Name, PasswordHash: u.PasswordHash, Locale: u.Locale, LastSignInAt: sqldb.MillisPtr(u.LastSignInAt), EraseAt: sqldb.MillisPtr(u.EraseAt),
		Created: sqldb.Millis(u.CreatedAt), Updated: sqldb.Millis(u.UpdatedAt), Revision: u.Revision}
}

// CreateUser implements auth.Store.
func (s *AuthStore) CreateUser(ctx context.Context, u auth.User) error {
	row := rowOfUser(u)
	return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
}

// User implements auth.Store.
func (s *AuthStore) User(ctx context.Context, id tenant.ID) (auth.User, error) {
	row, err := one[userRow](s.db.Locking(ctx, s.db.Conn(ctx)).Where("id = ?", id), "user", id)
	return row.user(), err
}

// UserByEmail implements auth.Store.
func (s *AuthStore) UserByEmail(ctx context.Context, email string) (auth.User, error) {
	row, err := one[userRow](s.db.Locking(ctx, s.db.Conn(ctx)).Where("email = ?", email), "user", email)
	if err != nil {
		return auth.User{}, err
	}
	return row.user(), nil
}

// UpdateUser implements auth.Store.
func (s *AuthStore) UpdateUser(ctx context.Context, u auth.User) error {
	row := rowOfUser(u)
	return replace(s.db.Conn(ctx).Where("id = ?", u.ID), &row, u.Revision, "user")
}

// SignedIn implements auth.Store.
func (s *AuthStore) SignedIn(ctx context.Context, id tenant.ID, at time.Time) error {
	return sqldb.Error(s.db.Conn(ctx).Model(&userRow{}).Where("id = ?", id).UpdateColumn("last_sign_in_at", sqldb.Millis(at)).Error)
}

// TenantsOf implements auth.Store.
func (s *AuthStore) TenantsOf(ctx context.Context, userID tenant.ID) ([]tenant.ID, error) {
	var ids []tenant.ID
	err := s.db.Conn(sqldb.AcrossTenants(ctx)).Table("members").Where("user_id = ?", userID).Order("created_at, tenant_id").Pluck("tenant_id", &ids).Error
	return ids, sqldb.Error(err)
}

// Memberships implements auth.Store.
func (s *AuthStore) Memberships(ctx context.Context, userID tenant.ID) ([]auth.Membership, error) {
	var rows []struct {
		TenantID, Name, State, Role string
		Created, Updated, Revision  int64
	}
	err := s.db.Conn(sqldb.AcrossTenants(ctx)).Table("members").Joins("JOIN tenants ON tenants.id = members.tenant_id").
		Select("members.tenant_id, tenants.name, tenants.state, members.role, tenants.created_at AS created, tenants.updated_at AS updated, tenants.revision").
		Where("members.user_id = ?", userID).Order("members.created_at, members.tenant_id").Find(&rows).Error
	out := make([]auth.Membership, len(rows))
	for i, r := range rows {
		out[i] = auth.Membership{TenantID: r.TenantID, Name: r.Name, State: tenant.State(r.State), Role: tenant.Role(r.Role),
			CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	}
	return out, sqldb.Error(err)
}

type codeRow struct {
	ID        string `gorm:"primaryKey"`
	Email     string
	Purpose   string
	CodeHash  []byte
	Payload   string
	Tries     int
	Created   int64 `gorm:"column:created_at"`
	ExpiresAt int64
}

func (codeRow) TableName() string { return "mail_codes" }

// AddCode implements auth.Store.
func (s *AuthStore) AddCode(ctx context.Context, c auth.Code) error {
	row := codeRow{ID: c.ID, Email: c.Email, Purpose: c.Purpose, CodeHash: c.Hash, Payload: c.Payload, Tries: c.Tries,
		Created: sqldb.Millis(c.CreatedAt), ExpiresAt: sqldb.Millis(c.ExpiresAt)}
	return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
}

// Codes implements auth.Store.
func (s *AuthStore) Codes(ctx context.Context, email, purpose string, since time.Time) ([]auth.Code, error) {
	q := s.db.Locking(ctx, s.db.Conn(ctx)).Where("email = ? AND purpose = ? AND created_at > ?", email, purpose, sqldb.Millis(since)).Order("id DESC").Limit(100)
	return all(q, func(r codeRow) (auth.Code, error) {
		return auth.Code{ID: r.ID, Email: r.Email, Purpose: r.Purpose, Hash: r.CodeHash, Payload: r.Payload, Tries: r.Tries,
			CreatedAt: sqldb.Time(r.Created), ExpiresAt: sqldb.Time(r.ExpiresAt)}, nil
	})
}

// CountTry implements auth.Store.
func (s *AuthStore) CountTry(ctx context.Context, ids []tenant.ID) error {
	return sqldb.Error(s.db.Conn(ctx).Model(&codeRow{}).Where("id IN ?", ids).UpdateColumn("tries", gorm.Expr("tries + 1")).Error)
}

// DeleteCode implements auth.Store.
func (s *AuthStore) DeleteCode(ctx context.Context, id tenant.ID) (bool, error) {
	res := s.db.Conn(ctx).Where("id = ?", id).Delete(&codeRow{})
	return res.RowsAffected > 0, sqldb.Error(res.Error)
}

// DeleteCodes implements auth.Store.
func (s *AuthStore) DeleteCodes(ctx context.Context, email, purpose string) error {
	return sqldb.Error(s.db.Conn(ctx).Where("email = ? AND purpose = ?", email, purpose).Delete(&codeRow{}).Error)
}

type sessionRow struct {
	ID         string `gorm:"primaryKey"`
	UserID     string
	Tenant     string
	UserAgent  string
	Address    string
	Created    int64 `gorm:"column:created_at"`
	LastUsedAt int64

	AuthenticatedAt int64
	ExpiresAt       int64
	RevokedAt       *int64
	RevokedReason   string

	ProviderID      string
	ProviderSubject string
	ProviderSession string
}

func (sessionRow) TableName() string { return "sessions" }

// CreateSession implements auth.Store.
func (s *AuthStore) CreateSession(ctx context.Context, v auth.Session) error {
	row := sessionRow{ID: v.ID, UserID: v.UserID, Tenant: v.TenantID, UserAgent: v.UserAgent, Address: v.Address, Created: sqldb.Millis(v.CreatedAt),
		LastUsedAt: sqldb.Millis(v.LastUsedAt), AuthenticatedAt: sqldb.Millis(v.AuthenticatedAt), ExpiresAt: sqldb.Millis(v.ExpiresAt), RevokedAt: sqldb.MillisPtr(v.RevokedAt), RevokedReason: v.RevokedReason,
		ProviderID: v.Federated.ProviderID, ProviderSubject: v.Federated.Subject, ProviderSession: v.Federated.SessionID}
	return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
}

// Session implements auth.Store.
func (s *AuthStore) Session(ctx context.Context, id tenant.ID) (auth.Session, error) {
	r, err := one[sessionRow](s.db.Locking(ctx, s.db.Conn(ctx)).Where("id = ?", id), "session", id)
	if err != nil {
		return auth.Session{}, err
	}
	return r.session(), nil
}

func (r sessionRow) session() auth.Session {
	return auth.Session{ID: r.ID, UserID: r.UserID, TenantID: r.Tenant, UserAgent: r.UserAgent, Address: r.Address, CreatedAt: sqldb.Time(r.Created),
		LastUsedAt: sqldb.Time(r.LastUsedAt), AuthenticatedAt: sqldb.Time(r.AuthenticatedAt), ExpiresAt: sqldb.Time(r.ExpiresAt),
		RevokedAt: sqldb.TimePtr(r.RevokedAt), RevokedReason: r.RevokedReason,
		Federated: auth.Federated{ProviderID: r.ProviderID, Subject: r.ProviderSubject, SessionID: r.ProviderSession}}
}

// Sessions implements auth.Store.
func (s *AuthStore) Sessions(ctx context.Context, userID tenant.ID, at time.Time, p tenant.Page) ([]auth.Session, error) {
	q := s.db.Conn(ctx).Where("user_id = ? AND revoked_at IS NULL AND expires_at > ?", userID, sqldb.Millis(at))
	if p.After != "" {
		q = q.Where("id < ?", p.After)
	}
	return all(q.Order("id DESC").Limit(p.Size), func(r sessionRow) (auth.Session, error) { return r.session(), nil })
}

// SessionAuthenticated implements auth.Store.
func (s *AuthStore) SessionAuthenticated(ctx context.Context, id tenant.ID, at time.Time) error {
	return sqldb.Error(s.db.Conn(ctx).Model(&sessionRow{}).Where("id = ?", id).UpdateColumn("authenticated_at", sqldb.Millis(at)).Error)
}

// UseSession implements auth.Store.
func (s *AuthStore) UseSession(ctx context.Context, id tenant.ID, at time.Time) error {
	return sqldb.Error(s.db.Conn(ctx).Model(&sessionRow{}).Where("id = ?", id).UpdateColumn("last_used_at", sqldb.Millis(at)).Error)
}

// RevokeSession implements auth.Store.
func (s *AuthStore) RevokeSession(ctx context.Context, id tenant.ID, reason string, at time.Time) error {
	return sqldb.Error(s.db.Conn(ctx).Model(&sessionRow{}).Where("id = ? AND revoked_at IS NULL", id).
		UpdateColumns(map[string]any{"revoked_at": sqldb.Millis(at), "revoked_reason": reason}).Error)
}

// RevokeSessionsOf implements auth.Store.
func (s *AuthStore) RevokeSessionsOf(ctx context.Context, userID, but tenant.ID, reason string, at time.Time) ([]tenant.ID, error) {
	return s.revokeSessions(ctx, reason, at, "user_id = ? AND id <> ? AND revoked_at IS NULL", userID, but)
}

// RevokeSessionsIn implements auth.Store.
func (s *AuthStore) RevokeSessionsIn(ctx context.Context, tenantID, userID tenant.ID, reason string, at time.Time) ([]tenant.ID, error) {
	return s.revokeSessions(ctx, reason, at, "user_id = ? AND tenant = ? AND revoked_at IS NULL", userID, tenantID)
}

// RevokeFederated implements auth.Store.
func (s *AuthStore) RevokeFederated(ctx context.Context, providerIDs []tenant.ID, subject, sessionID, reason string, at time.Time) ([]tenant.ID, error) {
	where, args := "provider_id IN ? AND revoked_at IS NULL", []any{providerIDs}
	if subject != "" {
		where, args = where+" AND provider_subject = ?", append(args, subject)
	}
	if sessionID != "" {
		where, args = where+" AND provider_session = ?", append(args, sessionID)
	}
	return s.revokeSessions(ctx, reason, at, where, args...)
}

// RevokeFederatedOf implements auth.Store.
func (s *AuthStore) RevokeFederatedOf(ctx context.Context, tenantID, userID tenant.ID, reason string, at time.Time) ([]tenant.ID, error) {
	return s.revokeSessions(ctx, reason, at, "user_id = ? AND tenant = ? AND provider_id <> '' AND revoked_at IS NULL", userID, tenantID)
}

// RevokePasswordSessions implements auth.Store.
func (s *AuthStore) RevokePasswordSessions(ctx context.Context, tenantID tenant.ID, but tenant.Role, reason string, at time.Time) ([]tenant.ID, error) {
	return s.revokeSessions(ctx, reason, at,
		"tenant = ? AND provider_id = '' AND revoked_at IS NULL AND user_id NOT IN (SELECT user_id FROM members WHERE tenant_id = ? AND role = ?)", tenantID, tenantID, but)
}

func (s *AuthStore) revokeSessions(ctx context.Context, reason string, at time.Time, where string, args ...any) ([]tenant.ID, error) {
	var ids []tenant.ID
	if err := s.db.Locking(ctx, s.db.Conn(ctx).Model(&sessionRow{})).Where(where, args...).Pluck("id", &ids).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	err := s.db.Conn(ctx).Model(&sessionRow{}).Where(where, args...).
		UpdateColumns(map[string]any{"revoked_at": sqldb.Millis(at), "revoked_reason": reason}).Error
	return ids, sqldb.Error(err)
}

type refreshRow struct {
	TokenHash []byte `gorm:"primaryKey"`
	SessionID string
	Created   int64 `gorm:"column:created_at"`
	ExpiresAt int64
	UsedAt    *int64
}

func (refreshRow) TableName() string { return "refresh_tokens" }

// AddRefresh implements auth.Store.
func (s *AuthStore) AddRefresh(ctx context.Context, t auth.RefreshToken) error {
	row := refreshRow{TokenHash: t.Hash, SessionID: t.SessionID, Created: sqldb.Millis(t.CreatedAt), ExpiresAt: sqldb.Millis(t.ExpiresAt), UsedAt: sqldb.MillisPtr(t.UsedAt)}
	return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
}

// Refresh implements auth.Store.
func (s *AuthStore) Refresh(ctx context.Context, hash []byte) (auth.RefreshToken, error) {
	r, err := one[refreshRow](s.db.Conn(ctx).Where("token_hash = ?", hash), "refresh token", "")
	if err != nil {
		return auth.RefreshToken{}, err
	}
	return auth.RefreshToken{Hash: r.TokenHash, SessionID: r.SessionID, CreatedAt: sqldb.Time(r.Created), ExpiresAt: sqldb.Time(r.ExpiresAt), UsedAt: sqldb.TimePtr(r.UsedAt)}, nil
}

// UseRefresh implements auth.Store.
func (s *AuthStore) UseRefresh(ctx context.Context, hash []byte, at time.Time) (bool, error) {
	res := s.db.Conn(ctx).Model(&refreshRow{}).Where("token_hash = ? AND used_at IS NULL", hash).UpdateColumn("used_at", sqldb.Millis(at))
	return res.RowsAffected > 0, sqldb.Error(res.Error)
}

type signingKeyRow struct {
	ID        string `gorm:"primaryKey"`
	State     string
	Algorithm string
	PublicKey []byte
	Sealed    []byte
	Created   int64 `gorm:"column:created_at"`
	Changed   int64 `gorm:"column:changed_at"`
}

func (signingKeyRow) TableName() string { return "signing_keys" }

// SigningKeys implements auth.Store.
func (s *AuthStore) SigningKeys(ctx context.Context) ([]auth.SigningKey, error) {
	return all(s.db.Conn(ctx).Order("id"), func(r signingKeyRow) (auth.SigningKey, error) {
		return auth.SigningKey{ID: r.ID, State: auth.KeyState(r.State), Algorithm: r.Algorithm, Public: r.PublicKey, Sealed: r.Sealed,
			CreatedAt: sqldb.Time(r.Created), ChangedAt: sqldb.Time(r.Changed)}, nil
	})
}

// PutSigningKey implements auth.Store.
func (s *AuthStore) PutSigningKey(ctx context.Context, k auth.SigningKey) error {
	row := signingKeyRow{ID: k.ID, State: string(k.State), Algorithm: k.Algorithm, PublicKey: k.Public, Sealed: k.Sealed, Created: sqldb.Millis(k.CreatedAt), Changed: sqldb.Millis(k.ChangedAt)}
	return sqldb.Error(s.db.Conn(ctx).Save(&row).Error)
}

// DeleteSigningKey implements auth.Store.
func (s *AuthStore) DeleteSigningKey(ctx context.Context, id string) error {
	return sqldb.Error(s.db.Conn(ctx).Where("id = ?", id).Delete(&signingKeyRow{}).Error)
}

// PurgeAuth forgets codes, refresh tokens and sessions that ended before a
// time.
func (s *AuthStore) PurgeAuth(ctx context.Context, before time.Time) error {
	return s.db.InTx(ctx, func(ctx context.Context) error {
		ms := sqldb.Millis(before)
		for _, row := range []any{&codeRow{}, &refreshRow{}, &sessionRow{}, &challengeRow{}} {
			if err := s.db.Conn(ctx).Where("expires_at < ?", ms).Delete(row).Error; err != nil {
				return sqldb.Error(err)
			}
		}
		return nil
	})
}

// LockChanges implements auth.Store: it takes the lock that orders changes, so that what follows in the
// transaction of ctx runs on one replica at a time.
func (s *AuthStore) LockChanges(ctx context.Context) error { return lockChanges(s.db.Conn(ctx)) }

func lockChanges(db *gorm.DB) error {
	res := db.Table("change_counter").Where("id = 1").UpdateColumn("value", gorm.Expr("value"))
	if res.Error == nil && res.RowsAffected == 0 {
		return errs.E(errs.Internal, "change counter is missing")
	}
	return sqldb.Error(res.Error)
}
