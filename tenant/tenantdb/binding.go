package tenantdb

import (
	"context"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type roleRow struct {
	ID          string `gorm:"primaryKey"`
	TenantID    string
	Name        string
	Description string
	Permissions string
	Created     int64 `gorm:"column:created_at"`
	Updated     int64 `gorm:"column:updated_at"`
	Revision    int64
}

func (roleRow) TableName() string { return "roles" }

func (r roleRow) role() (tenant.CustomRole, error) {
	out := tenant.CustomRole{TenantID: r.TenantID, ID: r.ID, Name: r.Name, Description: r.Description,
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	return out, sqldb.FromJSON(r.Permissions, &out.Permissions)
}

func rowOfRole(r tenant.CustomRole) (roleRow, error) {
	permissions, err := sqldb.JSON(r.Permissions)
	return roleRow{ID: r.ID, TenantID: r.TenantID, Name: r.Name, Description: r.Description, Permissions: permissions,
		Created: millis(r.CreatedAt), Updated: millis(r.UpdatedAt), Revision: r.Revision}, err
}

// CreateRole implements tenant.Store.
func (s *Store) CreateRole(ctx context.Context, r tenant.CustomRole) error {
	row, err := rowOfRole(r)
	if err != nil {
		return err
	}
	return create(s.db.Conn(ctx), &row, "role")
}

// Role implements tenant.Store.
func (s *Store) Role(ctx context.Context, tenantID, id tenant.ID) (tenant.CustomRole, error) {
	var row roleRow
	if err := first(s.db.Locking(ctx, s.db.Tenant(ctx, tenantID)).Where("id = ?", id), &row, "role", id); err != nil {
		return tenant.CustomRole{}, err
	}
	return row.role()
}

// Roles implements tenant.Store.
func (s *Store) Roles(ctx context.Context, tenantID tenant.ID, p tenant.Page) ([]tenant.CustomRole, error) {
	return list(s.db.Tenant(ctx, tenantID), p, roleRow.role)
}

// UpdateRole implements tenant.Store.
func (s *Store) UpdateRole(ctx context.Context, r tenant.CustomRole) error {
	row, err := rowOfRole(r)
	if err != nil {
		return err
	}
	return update(s.db.Tenant(ctx, r.TenantID).Where("id = ?", r.ID), &row, r.Revision, "role")
}

// DeleteRole implements tenant.Store.
func (s *Store) DeleteRole(ctx context.Context, tenantID, id tenant.ID) error {
	return affected(s.db.Tenant(ctx, tenantID).Where("id = ?", id).Delete(&roleRow{}), "role", id)
}

type bindingRow struct {
	ID          string `gorm:"primaryKey"`
	TenantID    string
	PrincipalID string
	Role        string
	ScopeKind   string
	NamespaceID string
	Pattern     string
	ExpiresAt   *int64
	CreatedBy   string
	Created     int64 `gorm:"column:created_at"`
	Updated     int64 `gorm:"column:updated_at"`
	Revision    int64
}

func (bindingRow) TableName() string { return "role_bindings" }

func (r bindingRow) binding() (tenant.Binding, error) {
	return tenant.Binding{TenantID: r.TenantID, ID: r.ID, PrincipalID: r.PrincipalID, Role: r.Role,
		Scope:     tenant.BindingScope{Kind: tenant.ScopeKind(r.ScopeKind), NamespaceID: r.NamespaceID, Pattern: r.Pattern},
		ExpiresAt: sqldb.TimePtr(r.ExpiresAt), CreatedBy: r.CreatedBy,
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}, nil
}

func rowOfBinding(b tenant.Binding) bindingRow {
	return bindingRow{ID: b.ID, TenantID: b.TenantID, PrincipalID: b.PrincipalID, Role: b.Role, ScopeKind: string(b.Scope.Kind), NamespaceID: b.Scope.NamespaceID,
		Pattern: b.Scope.Pattern, ExpiresAt: sqldb.MillisPtr(b.ExpiresAt), CreatedBy: b.CreatedBy,
		Created: millis(b.CreatedAt), Updated: millis(b.UpdatedAt), Revision: b.Revision}
}

// CreateBinding implements tenant.Store.
func (s *Store) CreateBinding(ctx context.Context, b tenant.Binding) error {
	row := rowOfBinding(b)
	return create(s.db.Conn(ctx), &row, "role binding")
}

// boundRow is a binding with what its custom role permits.
type boundRow struct {
	Row         bindingRow `gorm:"embedded"`
	Permissions *string
}

func (r boundRow) binding() (tenant.Binding, error) {
	b, err := r.Row.binding()
	if err == nil && r.Permissions != nil {
		err = sqldb.FromJSON(*r.Permissions, &b.Permissions)
	}
	return b, err
}

// bound selects bindings with their custom roles, which are of the same tenant.
func (s *Store) bound(ctx context.Context) *gorm.DB {
	return s.db.Conn(ctx).Table("role_bindings").Select("role_bindings.*, roles.permissions").
		Joins("LEFT JOIN roles ON roles.id = role_bindings.role AND roles.tenant_id = role_bindings.tenant_id").Order("role_bindings.id")
}

func allBound(q *gorm.DB) ([]tenant.Binding, error) {
	var rows []boundRow
	if err := q.Find(&rows).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	out := make([]tenant.Binding, len(rows))
	for i, r := range rows {
		b, err := r.binding()
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}

// Binding implements tenant.Store.
func (s *Store) Binding(ctx context.Context, tenantID, id tenant.ID) (tenant.Binding, error) {
	var row boundRow
	q := s.bound(ctx).Where("role_bindings.tenant_id = ?", tenantID).Where("role_bindings.id = ?", id)
	if err := first(s.db.Locking(ctx, q), &row, "role binding", id); err != nil {
		return tenant.Binding{}, err
	}
	return row.binding()
}

// BindingsOf implements tenant.Store.
func (s *Store) BindingsOf(ctx context.Context, tenantID, principalID tenant.ID) ([]tenant.Binding, error) {
	return allBound(s.bound(ctx).Where("role_bindings.tenant_id = ?", tenantID).Where("role_bindings.principal_id = ?", principalID))
}

// BindingsOfAll reads the bindings of principals of all tenants: those named, or
// every one. For the reads of the fleet only.
func (s *Store) BindingsOfAll(ctx context.Context, principals []tenant.ID, every bool) ([]tenant.Binding, error) {
	q := s.bound(sqldb.AcrossTenants(ctx))
	if !every {
		if len(principals) == 0 {
			return nil, nil
		}
		q = q.Where("role_bindings.principal_id IN ?", principals)
	}
	return allBound(q)
}

// Bindings implements tenant.Store.
func (s *Store) Bindings(ctx context.Context, tenantID tenant.ID, f tenant.BindingFilter, p tenant.Page) ([]tenant.Binding, error) {
	q := s.db.Tenant(ctx, tenantID)
	for column, value := range map[string]string{"principal_id": f.PrincipalID, "role": f.Role, "namespace_id": f.NamespaceID} {
		if value != "" {
			q = q.Where(column+" = ?", value)
		}
	}
	return list(q, p, bindingRow.binding)
}

// CountBindings implements tenant.Store.
func (s *Store) CountBindings(ctx context.Context, tenantID tenant.ID, role string) (int64, error) {
	var n int64
	err := s.db.Tenant(ctx, tenantID).Model(&bindingRow{}).Where("role = ?", role).Count(&n).Error
	return n, sqldb.Error(err)
}

// UpdateBinding implements tenant.Store.
func (s *Store) UpdateBinding(ctx context.Context, b tenant.Binding) error {
	row := rowOfBinding(b)
	return update(s.db.Tenant(ctx, b.TenantID).Where("id = ?", b.ID), &row, b.Revision, "role binding")
}

// DeleteBinding implements tenant.Store.
func (s *Store) DeleteBinding(ctx context.Context, tenantID, id tenant.ID) error {
	return affected(s.db.Tenant(ctx, tenantID).Where("id = ?", id).Delete(&bindingRow{}), "role binding", id)
}
