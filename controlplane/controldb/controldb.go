// Package controldb keeps the control plane's own rows in the database:
// clusters, topics and groups behind catalog.Store, users, sessions and
// signing keys behind auth.Store, the outbox with the reads of the fleet,
// idempotency keys and audit events.
//
// It owns rows and queries, no rules. All of it may be used by any number of
// goroutines.
package controldb

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
	"github.com/sluicemq/sluice/tenant/tenantdb"
)

var _ catalog.Store = (*Store)(nil)

// Store implements catalog.Store; what it shares with tenant.Store is that
// store's.
type Store struct {
	*tenantdb.Store
	db *sqldb.DB
}

// New makes a Store on an open, migrated database.
func New(db *sqldb.DB, tenants *tenantdb.Store) *Store { return &Store{Store: tenants, db: db} }

type clusterRow struct {
	ID               string `gorm:"primaryKey"`
	Name             string
	RemotingEndpoint string
	GRPCEndpoint     string `gorm:"column:grpc_endpoint"`
	Created          int64  `gorm:"column:created_at"`
	Updated          int64  `gorm:"column:updated_at"`
	Revision         int64
}

func (clusterRow) TableName() string { return "clusters" }

// PutCluster implements catalog.Store.
func (s *Store) PutCluster(ctx context.Context, c catalog.Cluster) error {
	var have clusterRow
	err := s.db.Conn(ctx).Where("id = ?", c.ID).Limit(1).Find(&have).Error
	if err != nil {
		return sqldb.Error(err)
	}
	row := clusterRow{ID: c.ID, Name: c.Name, RemotingEndpoint: c.RemotingEndpoint, GRPCEndpoint: c.GRPCEndpoint,
		Created: sqldb.Millis(c.CreatedAt), Updated: sqldb.Millis(c.UpdatedAt), Revision: have.Revision + 1}
	if have.ID == "" {
		return sqldb.Error(s.db.Conn(ctx).Create(&row).Error)
	}
	if have.Name == row.Name && have.RemotingEndpoint == row.RemotingEndpoint && have.GRPCEndpoint == row.GRPCEndpoint {
		return nil
	}
	row.Created = have.Created
	return sqldb.Error(s.db.Conn(ctx).Save(&row).Error)
}

// Clusters implements catalog.Store.
func (s *Store) Clusters(ctx context.Context) ([]catalog.Cluster, error) {
	var rows []clusterRow
	if err := s.db.Conn(ctx).Order("id").Find(&rows).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	out := make([]catalog.Cluster, len(rows))
	for i, r := range rows {
		out[i] = catalog.Cluster{ID: r.ID, Name: r.Name, RemotingEndpoint: r.RemotingEndpoint, GRPCEndpoint: r.GRPCEndpoint,
			CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	}
	return out, nil
}

// Live is the part of a row that topics and groups share; exported only because gorm
// reads no other fields.
type Live struct {
	Phase            string
	Reason           string
	ObservedRevision int64
	Created          int64 `gorm:"column:created_at"`
	Updated          int64 `gorm:"column:updated_at"`
	Revision         int64
}

func (l Live) status() catalog.Status {
	return catalog.Status{Phase: catalog.Phase(l.Phase), Reason: l.Reason, ObservedRevision: l.ObservedRevision}
}

func liveOf(st catalog.Status, created, updated time.Time, revision int64) Live {
	return Live{Phase: string(st.Phase), Reason: st.Reason, ObservedRevision: st.ObservedRevision,
		Created: sqldb.Millis(created), Updated: sqldb.Millis(updated), Revision: revision}
}

func liveName(name string, phase catalog.Phase) *string {
	if phase == catalog.PhaseDeleting {
		return nil
	}
	return &name
}

func (s *Store) in(ctx context.Context, tenantID, namespaceID tenant.ID) *gorm.DB {
	return s.db.Tenant(ctx, tenantID).Where("namespace_id = ? AND live_name IS NOT NULL", namespaceID)
}

// likePrefix is a LIKE pattern for names that begin with prefix. The escape
// is `!`, which means nothing to either database by itself.
func likePrefix(prefix string) string {
	out := make([]byte, 0, len(prefix)+8)
	for i := range len(prefix) {
		if c := prefix[i]; c == '%' || c == '_' || c == '!' {
			out = append(out, '!')
		}
		out = append(out, prefix[i])
	}
	return string(out) + "%"
}

func one[R any](q *gorm.DB, what, name string) (R, error) {
	var row R
	err := sqldb.Error(q.Limit(1).Take(&row).Error)
	if errs.Is(err, errs.NotFound) {
		return row, errs.E(errs.NotFound, "%s %q does not exist", what, name)
	}
	return row, err
}

func page[R, T any](q *gorm.DB, p tenant.Page, convert func(R) (T, error)) ([]T, error) {
	return all(q.Where("id > ?", p.After).Order("id").Limit(p.Size), convert)
}

func all[R, T any](q *gorm.DB, convert func(R) (T, error)) ([]T, error) {
	var rows []R
	if err := q.Find(&rows).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	out := make([]T, len(rows))
	for i, r := range rows {
		v, err := convert(r)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// replace writes all columns of row where the revision is the one before.
func replace(q *gorm.DB, row any, revision int64, what string) error {
	res := q.Where("revision = ?", revision-1).Select("*").Omit("created_at").Updates(row)
	if res.Error != nil {
		return fmt.Errorf("update %s: %w", what, sqldb.Error(res.Error))
	}
	if res.RowsAffected == 0 {
		return errs.E(errs.PreconditionFailed, "%s was changed meanwhile; read it again", what)
	}
	return nil
}
