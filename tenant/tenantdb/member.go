package tenantdb

import (
	"context"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type memberRow struct {
	TenantID string `gorm:"primaryKey"`
	UserID   string `gorm:"primaryKey"`
	Role     string
	Created  int64 `gorm:"column:created_at"`
	Updated  int64 `gorm:"column:updated_at"`
	Revision int64
}

func (memberRow) TableName() string { return "members" }

func rowOfMember(m tenant.Member) memberRow {
	return memberRow{TenantID: m.TenantID, UserID: m.UserID, Role: string(m.Role),
		Created: millis(m.CreatedAt), Updated: millis(m.UpdatedAt), Revision: m.Revision}
}

// CreateMember implements tenant.Store.
func (s *Store) CreateMember(ctx context.Context, m tenant.Member) error {
	row := rowOfMember(m)
	return create(s.db.Conn(ctx), &row, "member")
}

type memberView struct {
	TenantID   string
	UserID     string
	Email      string
	Name       string
	Role       string
	LastSignIn *int64 `gorm:"column:last_sign_in_at"`
	EraseAt    *int64
	Created    int64 `gorm:"column:created_at"`
	Updated    int64 `gorm:"column:updated_at"`
	Revision   int64
}

func (v memberView) member() tenant.Member {
	return tenant.Member{TenantID: v.TenantID, UserID: v.UserID, Email: v.Email, Name: v.Name, Role: tenant.Role(v.Role),
		LastSeen: sqldb.TimePtr(v.LastSignIn), Closing: v.EraseAt != nil, CreatedAt: sqldb.Time(v.Created), UpdatedAt: sqldb.Time(v.Updated), Revision: v.Revision}
}

func (s *Store) members(ctx context.Context, tenantID tenant.ID) *gorm.DB {
	return s.db.Conn(ctx).Table("members").
		Select("members.tenant_id, members.user_id, members.role, members.created_at, members.updated_at, members.revision, users.email, users.name, users.last_sign_in_at, users.erase_at").
		Joins("JOIN users ON users.id = members.user_id").
		Where("members.tenant_id = ?", tenantID)
}

// Member implements tenant.Store.
func (s *Store) Member(ctx context.Context, tenantID, userID tenant.ID) (tenant.Member, error) {
	var v memberView
	if err := first(s.members(ctx, tenantID).Where("members.user_id = ?", userID), &v, "member", userID); err != nil {
		return tenant.Member{}, err
	}
	return v.member(), nil
}

// Members implements tenant.Store.
func (s *Store) Members(ctx context.Context, tenantID tenant.ID, p tenant.Page) ([]tenant.Member, error) {
	var list []memberView
	err := s.members(ctx, tenantID).Where("members.user_id > ?", p.After).Order("members.user_id").Limit(p.Size).Find(&list).Error
	out := make([]tenant.Member, len(list))
	for i, v := range list {
		out[i] = v.member()
	}
	return out, sqldb.Error(err)
}

// UpdateMember implements tenant.Store.
func (s *Store) UpdateMember(ctx context.Context, m tenant.Member) error {
	row := rowOfMember(m)
	return update(s.db.Tenant(ctx, m.TenantID).Where("user_id = ?", m.UserID), &row, m.Revision, "member")
}

// DeleteMember implements tenant.Store.
func (s *Store) DeleteMember(ctx context.Context, tenantID, userID tenant.ID) error {
	return affected(s.db.Tenant(ctx, tenantID).Where("user_id = ?", userID).Delete(&memberRow{}), "member", userID)
}

// OwnersBesides implements tenant.Store.
func (s *Store) OwnersBesides(ctx context.Context, tenantID, userID tenant.ID) (int64, error) {
	var n int64
	err := s.members(ctx, tenantID).Where("members.role = ? AND members.user_id <> ? AND users.erase_at IS NULL", tenant.RoleOwner, userID).Count(&n).Error
	return n, sqldb.Error(err)
}
