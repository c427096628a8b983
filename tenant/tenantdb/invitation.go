package tenantdb

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// invitationRow: LiveEmail is NULL once the invitation is not open, so that the
// address can be invited again.
type invitationRow struct {
	ID         string `gorm:"primaryKey"`
	TenantID   string
	Email      string
	LiveEmail  *string
	Role       string
	Locale     string
	InvitedBy  string
	TokenHash  []byte
	SentAt     int64
	ExpiresAt  int64
	AcceptedAt *int64
	AcceptedBy string
	Created    int64 `gorm:"column:created_at"`
	Updated    int64 `gorm:"column:updated_at"`
	Revision   int64
}

func (invitationRow) TableName() string { return "invitations" }

func (r invitationRow) invitation() (tenant.Invitation, error) {
	return tenant.Invitation{TenantID: r.TenantID, ID: r.ID, Email: r.Email, Role: tenant.Role(r.Role), Locale: r.Locale, InvitedBy: r.InvitedBy,
		TokenHash: r.TokenHash, Open: r.LiveEmail != nil, SentAt: sqldb.Time(r.SentAt), ExpiresAt: sqldb.Time(r.ExpiresAt),
		AcceptedAt: sqldb.TimePtr(r.AcceptedAt), AcceptedBy: r.AcceptedBy, CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}, nil
}

func rowOfInvitation(i tenant.Invitation) invitationRow {
	row := invitationRow{ID: i.ID, TenantID: i.TenantID, Email: i.Email, Role: string(i.Role), Locale: i.Locale, InvitedBy: i.InvitedBy, TokenHash: i.TokenHash,
		SentAt: millis(i.SentAt), ExpiresAt: millis(i.ExpiresAt), AcceptedAt: sqldb.MillisPtr(i.AcceptedAt), AcceptedBy: i.AcceptedBy,
		Created: millis(i.CreatedAt), Updated: millis(i.UpdatedAt), Revision: i.Revision}
	if i.Open {
		row.LiveEmail = &i.Email
	}
	return row
}

// CreateInvitation implements tenant.Store.
func (s *Store) CreateInvitation(ctx context.Context, i tenant.Invitation) error {
	row := rowOfInvitation(i)
	return create(s.db.Conn(ctx), &row, "invitation")
}

// Invitation implements tenant.Store.
func (s *Store) Invitation(ctx context.Context, tenantID, id tenant.ID) (tenant.Invitation, error) {
	var row invitationRow
	if err := first(s.db.Locking(ctx, s.db.Tenant(ctx, tenantID)).Where("id = ?", id), &row, "invitation", id); err != nil {
		return tenant.Invitation{}, err
	}
	return row.invitation()
}

// Invitations implements tenant.Store.
func (s *Store) Invitations(ctx context.Context, tenantID tenant.ID, f tenant.InvitationFilter, p tenant.Page) ([]tenant.Invitation, error) {
	q := s.db.Tenant(ctx, tenantID)
	if f.Email != "" {
		q = q.Where("email = ?", f.Email)
	}
	switch f.State {
	case tenant.InvitationAccepted:
		q = q.Where("accepted_at IS NOT NULL")
	case tenant.InvitationPending:
		q = q.Where("accepted_at IS NULL AND expires_at > ?", millis(f.Now))
	case tenant.InvitationExpired:
		q = q.Where("accepted_at IS NULL AND expires_at <= ?", millis(f.Now))
	}
	return list(q, p, invitationRow.invitation)
}

// InvitationByToken implements tenant.Store.
func (s *Store) InvitationByToken(ctx context.Context, hash []byte) (tenant.Invitation, error) {
	var row invitationRow
	if err := first(s.db.Conn(sqldb.AcrossTenants(ctx)).Where("token_hash = ?", hash), &row, "invitation", ""); err != nil {
		return tenant.Invitation{}, err
	}
	return row.invitation()
}

// UpdateInvitation implements tenant.Store.
func (s *Store) UpdateInvitation(ctx context.Context, i tenant.Invitation) error {
	row := rowOfInvitation(i)
	return update(s.db.Tenant(ctx, i.TenantID).Where("id = ?", i.ID), &row, i.Revision, "invitation")
}

// DeleteInvitation implements tenant.Store.
func (s *Store) DeleteInvitation(ctx context.Context, tenantID, id tenant.ID) error {
	return affected(s.db.Tenant(ctx, tenantID).Where("id = ?", id).Delete(&invitationRow{}), "invitation", id)
}

// CloseInvitations implements tenant.Store.
func (s *Store) CloseInvitations(ctx context.Context, tenantID tenant.ID, at time.Time) (int64, error) {
	res := s.db.Tenant(ctx, tenantID).Model(&invitationRow{}).Where("live_email IS NOT NULL AND expires_at <= ?", millis(at)).UpdateColumn("live_email", nil)
	return res.RowsAffected, sqldb.Error(res.Error)
}

// MemberByEmail implements tenant.Store.
func (s *Store) MemberByEmail(ctx context.Context, tenantID tenant.ID, email string) (tenant.Member, error) {
	var v memberView
	if err := first(s.members(ctx, tenantID).Where("users.email = ?", email), &v, "member", email); err != nil {
		return tenant.Member{}, err
	}
	return v.member(), nil
}
