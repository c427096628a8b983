package controldb

import (
	"context"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type topicRow struct {
	ID                 string `gorm:"primaryKey"`
	TenantID           string
	NamespaceID        string
	Name               string
	LiveName           *string
	Type               string
	Queues             int32
	Retention          string
	MaxMessageBytes    int32
	MaxSendTPS         int64 `gorm:"column:max_send_tps"`
	Perm               string
	Description        string
	Labels             string
	DeletionProtection bool
	Live               `gorm:"embedded"`
}

func (topicRow) TableName() string { return "topics" }

func (r topicRow) topic() (catalog.Topic, error) {
	t := catalog.Topic{TenantID: r.TenantID, NamespaceID: r.NamespaceID, ID: r.ID, Name: r.Name, Type: catalog.TopicType(r.Type),
		Queues: r.Queues, Retention: catalog.Duration(r.Retention), MaxMessageBytes: r.MaxMessageBytes, MaxSendTPS: r.MaxSendTPS,
		Perm: r.Perm, Description: r.Description, DeletionProtection: r.DeletionProtection, Status: r.status(),
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	return t, sqldb.FromJSON(r.Labels, &t.Labels)
}

func rowOfTopic(t catalog.Topic) (topicRow, error) {
	labels, err := sqldb.JSON(t.Labels)
	return topicRow{ID: t.ID, TenantID: t.TenantID, NamespaceID: t.NamespaceID, Name: t.Name, LiveName: liveName(t.Name, t.Status.Phase),
		Type: string(t.Type), Queues: t.Queues, Retention: string(t.Retention), MaxMessageBytes: t.MaxMessageBytes, MaxSendTPS: t.MaxSendTPS,
		Perm: t.Perm, Description: t.Description, Labels: labels, DeletionProtection: t.DeletionProtection,
		Live: liveOf(t.Status, t.CreatedAt, t.UpdatedAt, t.Revision)}, err
}

// CreateTopic implements catalog.Store.
func (s *Store) CreateTopic(ctx context.Context, t catalog.Topic) error {
	row, err := rowOfTopic(t)
	if err != nil {
		return err
	}
	return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
}

// Topic implements catalog.Store.
func (s *Store) Topic(ctx context.Context, tenantID, namespaceID tenant.ID, name string) (catalog.Topic, error) {
	row, err := one[topicRow](s.db.Locking(ctx, s.in(ctx, tenantID, namespaceID)).Where("live_name = ?", name), "topic", name)
	if err != nil {
		return catalog.Topic{}, err
	}
	return row.topic()
}

// Topics implements catalog.Store.
func (s *Store) Topics(ctx context.Context, tenantID, namespaceID tenant.ID, f catalog.TopicFilter, p tenant.Page) ([]catalog.Topic, error) {
	q := s.in(ctx, tenantID, namespaceID)
	if f.Prefix != "" { // SQLite's LIKE knows no case: the second condition does
		q = q.Where("live_name LIKE ? ESCAPE '!' AND substr(live_name, 1, ?) = ?", likePrefix(f.Prefix), len(f.Prefix), f.Prefix)
	}
	if f.Type != "" {
		q = q.Where("type = ?", f.Type)
	}
	return page(q, p, topicRow.topic)
}

// TopicsByName implements catalog.Store.
func (s *Store) TopicsByName(ctx context.Context, tenantID, namespaceID tenant.ID, names []string) ([]catalog.Topic, error) {
	return all(s.in(ctx, tenantID, namespaceID).Where("live_name IN ?", names), topicRow.topic)
}

// UpdateTopic implements catalog.Store.
func (s *Store) UpdateTopic(ctx context.Context, t catalog.Topic) error {
	row, err := rowOfTopic(t)
	if err != nil {
		return err
	}
	return replace(s.db.Tenant(ctx, t.TenantID).Where("id = ?", t.ID), &row, t.Revision, "topic")
}
