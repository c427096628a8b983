package tenantdb

import (
	"context"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type namespaceRow struct {
	ID                 string `gorm:"primaryKey"`
	TenantID           string
	ClusterID          string
	Name               string
	LiveName           *string
	Description        string
	Labels             string
	StrictTypes        bool
	MaxSendTPS         int64 `gorm:"column:max_send_tps"`
	MaxReceiveTPS      int64 `gorm:"column:max_receive_tps"`
	DeletionProtection bool
	Phase              string
	Reason             string
	ObservedRevision   int64
	Created            int64 `gorm:"column:created_at"`
	Updated            int64 `gorm:"column:updated_at"`
	Revision           int64
}

func (namespaceRow) TableName() string { return "namespaces" }

func (r namespaceRow) namespace() (tenant.Namespace, error) {
	n := tenant.Namespace{TenantID: r.TenantID, ID: r.ID, ClusterID: r.ClusterID, Name: r.Name, Description: r.Description,
		StrictTypes: r.StrictTypes, MaxSendTPS: r.MaxSendTPS, MaxReceiveTPS: r.MaxReceiveTPS, DeletionProtection: r.DeletionProtection,
		Status:    tenant.Status{Phase: tenant.Phase(r.Phase), Reason: r.Reason, ObservedRevision: r.ObservedRevision},
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	return n, sqldb.FromJSON(r.Labels, &n.Labels)
}

func rowOfNamespace(n tenant.Namespace) (namespaceRow, error) {
	labels, err := sqldb.JSON(n.Labels)
	row := namespaceRow{ID: n.ID, TenantID: n.TenantID, ClusterID: n.ClusterID, Name: n.Name, LiveName: &n.Name, Description: n.Description,
		Labels: labels, StrictTypes: n.StrictTypes, MaxSendTPS: n.MaxSendTPS, MaxReceiveTPS: n.MaxReceiveTPS,
		DeletionProtection: n.DeletionProtection, Phase: string(n.Status.Phase), Reason: n.Status.Reason,
		ObservedRevision: n.Status.ObservedRevision, Created: millis(n.CreatedAt), Updated: millis(n.UpdatedAt), Revision: n.Revision}
	if n.Status.Phase == tenant.PhaseDeleting {
		row.LiveName = nil
	}
	return row, err
}

// CreateNamespace implements tenant.Store.
func (s *Store) CreateNamespace(ctx context.Context, n tenant.Namespace) error {
	row, err := rowOfNamespace(n)
	if err != nil {
		return err
	}
	return create(s.db.Conn(ctx), &row, "namespace")
}

// Namespace implements tenant.Store.
func (s *Store) Namespace(ctx context.Context, tenantID, id tenant.ID) (tenant.Namespace, error) {
	var row namespaceRow
	if err := first(s.db.Locking(ctx, s.db.Tenant(ctx, tenantID)).Where("id = ? AND live_name IS NOT NULL", id), &row, "namespace", id); err != nil {
		return tenant.Namespace{}, err
	}
	return row.namespace()
}

// Namespaces implements tenant.Store.
func (s *Store) Namespaces(ctx context.Context, tenantID tenant.ID, name string, p tenant.Page) ([]tenant.Namespace, error) {
	q := s.db.Tenant(ctx, tenantID).Where("live_name IS NOT NULL")
	if name != "" {
		q = q.Where("live_name = ?", name)
	}
	return list(q, p, namespaceRow.namespace)
}

// UpdateNamespace implements tenant.Store.
func (s *Store) UpdateNamespace(ctx context.Context, n tenant.Namespace) error {
	row, err := rowOfNamespace(n)
	if err != nil {
		return err
	}
	return update(s.db.Tenant(ctx, n.TenantID).Where("id = ?", n.ID), &row, n.Revision, "namespace")
}

// NamespaceObjects implements tenant.Store.
func (s *Store) NamespaceObjects(ctx context.Context, tenantID, id tenant.ID) (topics, groups int64, err error) {
	const live = "namespace_id = ? AND live_name IS NOT NULL"
	if err := s.db.Tenant(ctx, tenantID).Table("topics").Where(live, id).Count(&topics).Error; err != nil {
		return 0, 0, sqldb.Error(err)
	}
	err = s.db.Tenant(ctx, tenantID).Table("consumer_groups").Where(live, id).Count(&groups).Error
	return topics, groups, sqldb.Error(err)
}
