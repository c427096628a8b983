package controldb

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

var _ tenant.RootStore = (*RootKeys)(nil)

// RootKeys keeps the root keys, wrapped by a master key, and re-seals what an
// older one sealed. It implements tenant.RootStore.
type RootKeys struct{ db *sqldb.DB }

// NewRootKeys makes a RootKeys on an open, migrated database.
func NewRootKeys(db *sqldb.DB) *RootKeys { return &RootKeys{db: db} }

// InTx implements tenant.RootStore.
func (s *RootKeys) InTx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.InTx(ctx, fn)
}

// LockChanges implements tenant.RootStore.
func (s *RootKeys) LockChanges(ctx context.Context) error { return lockChanges(s.db.Conn(ctx)) }

type rootKeyRow struct {
	ID       string `gorm:"primaryKey"`
	MasterID string
	Wrapped  []byte
	Created  int64 `gorm:"column:created_at"`
}

func (rootKeyRow) TableName() string { return "root_keys" }

// RootKeys implements tenant.RootStore.
func (s *RootKeys) RootKeys(ctx context.Context) ([]tenant.RootKey, error) {
	return all(s.db.Conn(ctx).Order("created_at, id"), func(r rootKeyRow) (tenant.RootKey, error) {
		return tenant.RootKey{ID: r.ID, MasterID: r.MasterID, Wrapped: r.Wrapped, CreatedAt: sqldb.Time(r.Created)}, nil
	})
}

// AddRootKey implements tenant.RootStore.
func (s *RootKeys) AddRootKey(ctx context.Context, k tenant.RootKey) error {
	return sqldb.Error(s.db.Conn(ctx).Create(&rootKeyRow{ID: k.ID, MasterID: k.MasterID, Wrapped: k.Wrapped, Created: sqldb.Millis(k.CreatedAt)}).Error)
}

// RewrapRootKey implements tenant.RootStore.
func (s *RootKeys) RewrapRootKey(ctx context.Context, k tenant.RootKey) error {
	return sqldb.Error(s.db.Conn(ctx).Model(&rootKeyRow{}).Where("id = ?", k.ID).Updates(map[string]any{"master_id": k.MasterID, "wrapped": k.Wrapped}).Error)
}

// OldSealed implements tenant.RootStore.
func (s *RootKeys) OldSealed(ctx context.Context) (purpose string, sealed []byte, err error) {
	for _, c := range sealedColumns {
		list, err := s.column(ctx, c, nil, 1)
		if err != nil {
			return "", nil, err
		}
		if len(list) > 0 {
			return c.purpose + list[0].ID, list[0].Sealed, nil
		}
	}
	return "", nil, errs.E(errs.NotFound, "nothing is sealed")
}

// sealedColumn is a column with values that Keyring.Seal made; the purpose of
// each is the text here and the row's id.
type sealedColumn struct{ table, column, purpose string }

// sealedColumns are all of them that last: the answers that are kept for
// repeated requests and the sign-ins under way are gone after a day. A test
// holds this against the schema.
var sealedColumns = []sealedColumn{
	{"tenants", "data_key", "data key of "},
	{"signing_keys", "sealed", "signing key "},
	{"mfa_factors", "sealed", "second factor "},
}

type sealedRow struct {
	ID     string
	Sealed []byte
}

// column reads values that do not begin with prefix.
func (s *RootKeys) column(ctx context.Context, c sealedColumn, prefix []byte, limit int) ([]sealedRow, error) {
	var rows []sealedRow
	err := s.stale(ctx, c, prefix).Select("id, " + c.column + " AS sealed").Order("id").Limit(limit).Find(&rows).Error
	return rows, sqldb.Error(err)
}

func (s *RootKeys) stale(ctx context.Context, c sealedColumn, prefix []byte) *gorm.DB {
	q := s.db.Conn(sqldb.AcrossTenants(ctx)).Table(c.table)
	if len(prefix) > 0 {
		q = q.Where(fmt.Sprintf("SUBSTR(%s, 1, %d) <> ?", c.column, len(prefix)), prefix)
	}
	return q
}

const resealBatch = 200

// Reseal seals with the newest root key what an older one sealed, in batches;
// left counts what remains. It may run on several replicas: a value that
// changed meanwhile is left alone.
func (s *RootKeys) Reseal(ctx context.Context, ring *tenant.Keyring) (done int, left int64, err error) {
	prefix := ring.Newest()
	for _, c := range sealedColumns {
		for {
			rows, err := s.column(ctx, c, prefix, resealBatch)
			if err != nil {
				return done, 0, fmt.Errorf("read %s: %w", c.table, err)
			}
			moved, err := s.resealRows(ctx, ring, c, rows)
			done += moved
			if err != nil {
				return done, 0, fmt.Errorf("reseal %s: %w", c.table, err)
			}
			if len(rows) < resealBatch || moved == 0 {
				break
			}
		}
		var n int64
		if err := s.stale(ctx, c, prefix).Count(&n).Error; err != nil {
			return done, 0, sqldb.Error(err)
		}
		left += n
	}
	return done, left, nil
}

func (s *RootKeys) resealRows(ctx context.Context, ring *tenant.Keyring, c sealedColumn, rows []sealedRow) (moved int, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context) error {
		moved = 0
		for _, r := range rows {
			plain, err := ring.Open(c.purpose+r.ID, r.Sealed)
			if err != nil {
				return err
			}
			res := s.db.Conn(sqldb.AcrossTenants(ctx)).Table(c.table).Where("id = ? AND "+c.column+" = ?", r.ID, r.Sealed).
				UpdateColumn(c.column, ring.Seal(c.purpose+r.ID, plain))
			if res.Error != nil {
				return sqldb.Error(res.Error)
			}
			moved += int(res.RowsAffected)
		}
		return nil
	})
	return moved, err
}
