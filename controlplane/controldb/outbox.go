package controldb

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// Outbox numbers and keeps changes that the data plane must learn of.
//
// The number comes from one row that the transaction locks until it commits:
// numbers therefore follow commit order, and a reader that has seen n has
// seen everything below.
type Outbox struct {
	db  *sqldb.DB
	now func() time.Time
}

// NewOutbox makes an Outbox on an open, migrated database.
func NewOutbox(db *sqldb.DB, now func() time.Time) *Outbox { return &Outbox{db: db, now: now} }

type outboxRow struct {
	Sequence    uint64 `gorm:"primaryKey;autoIncrement:false"`
	Tenant      string
	NamespaceID string
	Kind        string
	ObjectID    string
	Revision    int64
	Created     int64 `gorm:"column:created_at"`
}

func (outboxRow) TableName() string { return "outbox" }

func (r outboxRow) change() catalog.Change {
	return catalog.Change{Sequence: r.Sequence, TenantID: r.Tenant, NamespaceID: r.NamespaceID, Kind: catalog.Kind(r.Kind),
		ID: r.ObjectID, Revision: r.Revision, At: sqldb.Time(r.Created)}
}

// Record appends a change in the transaction of ctx.
func (o *Outbox) Record(ctx context.Context, c tenant.Change) error {
	return o.db.InTx(ctx, func(ctx context.Context) error {
		if err := o.db.Conn(ctx).Table("change_counter").Where("id = 1").UpdateColumn("value", gorm.Expr("value + 1")).Error; err != nil {
			return sqldb.Error(err)
		}
		seq, err := sequence(o.db.Conn(ctx))
		if err != nil {
			return err
		}
		row := outboxRow{Sequence: seq, Tenant: c.TenantID, NamespaceID: c.NamespaceID, Kind: c.Kind, ObjectID: c.ID, Revision: c.Revision,
			Created: sqldb.Millis(o.now())}
		return sqldb.Error(o.db.Conn(ctx).Create(&row).Error)
	})
}

func sequence(q *gorm.DB) (uint64, error) {
	var value uint64
	if err := q.Table("change_counter").Select("value").Where("id = 1").Scan(&value).Error; err != nil {
		return 0, fmt.Errorf("read change counter: %w", sqldb.Error(err))
	}
	return value, nil
}

// Purge forgets changes older than an age; readers that are further behind
// start from a whole read.
func (o *Outbox) Purge(ctx context.Context, age time.Duration) error {
	return o.db.InTx(ctx, func(ctx context.Context) error {
		return sqldb.Error(o.db.Conn(ctx).Where("created_at < ?", sqldb.Millis(o.now().Add(-age))).Delete(&outboxRow{}).Error)
	})
}
