package controldb

import (
	"context"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type groupRow struct {
	ID                 string `gorm:"primaryKey"`
	TenantID           string
	NamespaceID        string
	Name               string
	LiveName           *string
	DeliveryOrder      string
	ConsumeEnabled     bool
	Broadcast          bool
	Retry              string
	DeadLetterEnabled  bool
	DeadLetterTopic    string
	MaxInFlight        int32
	MaxReceiveTPS      int64 `gorm:"column:max_receive_tps"`
	Description        string
	Labels             string
	DeletionProtection bool
	Live               `gorm:"embedded"`
}

func (groupRow) TableName() string { return "consumer_groups" }

type retryJSON struct {
	MaxAttempts int32              `json:"max_attempts"`
	Strategy    string             `json:"strategy"`
	Delays      []catalog.Duration `json:"delays"`
}

func (r groupRow) group() (catalog.Group, error) {
	g := catalog.Group{TenantID: r.TenantID, NamespaceID: r.NamespaceID, ID: r.ID, Name: r.Name, Order: r.DeliveryOrder,
		ConsumeEnabled: r.ConsumeEnabled, Broadcast: r.Broadcast,
		DeadLetter:  catalog.DeadLetter{Enabled: r.DeadLetterEnabled, Topic: r.DeadLetterTopic},
		MaxInFlight: r.MaxInFlight, MaxReceiveTPS: r.MaxReceiveTPS, Description: r.Description, DeletionProtection: r.DeletionProtection,
		Status: r.status(), CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	var retry retryJSON
	if err := sqldb.FromJSON(r.Retry, &retry); err != nil {
		return g, err
	}
	g.Retry = catalog.Retry(retry)
	return g, sqldb.FromJSON(r.Labels, &g.Labels)
}

func rowOfGroup(g catalog.Group) (groupRow, error) {
	retry, err := sqldb.JSON(retryJSON(g.Retry))
	if err != nil {
		return groupRow{}, err
	}
	labels, err := sqldb.JSON(g.Labels)
	return groupRow{ID: g.ID, TenantID: g.TenantID, NamespaceID: g.NamespaceID, Name: g.Name, LiveName: liveName(g.Name, g.Status.Phase),
		DeliveryOrder: g.Order, ConsumeEnabled: g.ConsumeEnabled, Broadcast: g.Broadcast, Retry: retry, DeadLetterEnabled: g.DeadLetter.Enabled,
		DeadLetterTopic: g.DeadLetter.Topic, MaxInFlight: g.MaxInFlight, MaxReceiveTPS: g.MaxReceiveTPS, Description: g.Description,
		Labels: labels, DeletionProtection: g.DeletionProtection, Live: liveOf(g.Status, g.CreatedAt, g.UpdatedAt, g.Revision)}, err
}

// CreateGroup implements catalog.Store.
func (s *Store) CreateGroup(ctx context.Context, g catalog.Group) error {
	row, err := rowOfGroup(g)
	if err != nil {
		return err
	}
	return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
}

// Group implements catalog.Store.
func (s *Store) Group(ctx context.Context, tenantID, namespaceID tenant.ID, name string) (catalog.Group, error) {
	row, err := one[groupRow](s.db.Locking(ctx, s.in(ctx, tenantID, namespaceID)).Where("live_name = ?", name), "group", name)
	if err != nil {
		return catalog.Group{}, err
	}
	return row.group()
}

// Groups implements catalog.Store.
func (s *Store) Groups(ctx context.Context, tenantID, namespaceID tenant.ID, prefix string, p tenant.Page) ([]catalog.Group, error) {
	q := s.in(ctx, tenantID, namespaceID)
	if prefix != "" {
		q = q.Where("live_name LIKE ? ESCAPE '!' AND substr(live_name, 1, ?) = ?", likePrefix(prefix), len(prefix), prefix)
	}
	return page(q, p, groupRow.group)
}

// UpdateGroup implements catalog.Store.
func (s *Store) UpdateGroup(ctx context.Context, g catalog.Group) error {
	row, err := rowOfGroup(g)
	if err != nil {
		return err
	}
	return replace(s.db.Tenant(ctx, g.TenantID).Where("id = ?", g.ID), &row, g.Revision, "group")
}
