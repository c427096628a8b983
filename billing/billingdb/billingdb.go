// Package billingdb keeps usage in the control plane's database: minute cells
// merged by maximum, longer periods recomputed and replaced.
//
// A Store may be used by any number of goroutines and processes. Sources and
// roll-ups span tenants; questions always name one.
package billingdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluicemq/sluice/billing"
	"github.com/sluicemq/sluice/internal/sqldb"
)

// Store is billing's tables.
type Store struct {
	db  *sqldb.DB
	now func() time.Time
}

// New makes a Store.
func New(db *sqldb.DB, now func() time.Time) *Store { return &Store{db: db, now: now} }

// cellColumns are what usage belongs to, as both usage tables have them.
type cellColumns struct {
	NamespaceID   string
	Topic         string
	ConsumerGroup string
	APIKeyID      string `gorm:"column:api_key_id"`
	Class         string
	Protocol      string
}

func (c cellColumns) cell() billing.Cell {
	return billing.Cell{NamespaceID: c.NamespaceID, Topic: c.Topic, Group: c.ConsumerGroup, APIKeyID: c.APIKeyID,
		Class: billing.Class(c.Class), Protocol: billing.Protocol(c.Protocol)}
}

func columnsOf(c billing.Cell) cellColumns {
	return cellColumns{NamespaceID: c.NamespaceID, Topic: c.Topic, ConsumerGroup: c.Group, APIKeyID: c.APIKeyID,
		Class: string(c.Class), Protocol: string(c.Protocol)}
}

// cellID is a key of fixed length for a cell; NUL is in no name.
func cellID(c billing.Cell) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{c.NamespaceID, c.Topic, c.Group, c.APIKeyID, string(c.Class), string(c.Protocol)}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// minuteRow is one cell in one minute from one source.
type minuteRow struct {
	Minute           int64  `gorm:"primaryKey"`
	CellID           string `gorm:"primaryKey"`
	Source           string `gorm:"primaryKey"`
	TenantID         string
	Columns          cellColumns `gorm:"embedded"`
	MessagesIn       uint64
	MessagesOut      uint64
	BytesIn          uint64
	BytesOut         uint64
	Units4In         uint64 `gorm:"column:units4k_in"`
	Units4Out        uint64 `gorm:"column:units4k_out"`
	Units64In        uint64 `gorm:"column:units64k_in"`
	Units64Out       uint64 `gorm:"column:units64k_out"`
	Calls            uint64 `gorm:"column:api_calls"`
	EmptyPolls       uint64
	StoredByteMillis uint64 `gorm:"column:byte_ms_stored"`
	ConnectionMillis uint64 `gorm:"column:connection_ms"`
	Rejected         uint64
}

func (minuteRow) TableName() string { return "usage_minutes" }

// counters points at the row's values, by the name of the counter, which is
// the name of the column too.
func (r *minuteRow) counters() map[billing.Counter]*uint64 {
	return map[billing.Counter]*uint64{
		billing.MessagesIn: &r.MessagesIn, billing.MessagesOut: &r.MessagesOut, billing.BytesIn: &r.BytesIn, billing.BytesOut: &r.BytesOut,
		billing.Units4In: &r.Units4In, billing.Units4Out: &r.Units4Out, billing.Units64In: &r.Units64In, billing.Units64Out: &r.Units64Out,
		billing.Calls: &r.Calls, billing.EmptyPolls: &r.EmptyPolls, billing.StoredByteMillis: &r.StoredByteMillis,
		billing.ConnectionMillis: &r.ConnectionMillis, billing.Rejected: &r.Rejected,
	}
}

func (r *minuteRow) quantities() billing.Quantities {
	q := billing.Quantities{}
	for c, n := range r.counters() {
		if *n != 0 {
			q[c] = new(big.Int).SetUint64(*n)
		}
	}
	return q
}

type sourceRow struct {
	Source        string `gorm:"primaryKey"`
	Broker        string
	Kind          string
	Dead          bool
	SealedThrough int64
	FirstSeenAt   int64
	Updated       int64 `gorm:"column:updated_at"`
}

func (sourceRow) TableName() string { return "usage_sources" }

type periodRow struct {
	TenantID    string      `gorm:"primaryKey"`
	Grain       string      `gorm:"primaryKey"`
	StartMinute int64       `gorm:"primaryKey"`
	CellID      string      `gorm:"primaryKey"`
	Columns     cellColumns `gorm:"embedded"`
	Quantities  string      // JSON: counter to decimal text
	Inputs      int64       // rows of the level below
}

func (periodRow) TableName() string { return "usage_periods" }

type dirtyRow struct {
	Grain       string `gorm:"primaryKey"`
	StartMinute int64  `gorm:"primaryKey"`
	TenantID    string `gorm:"primaryKey"`
	Changed     int64  // time of the last change, so that a job sees one that came while it worked
}

func (dirtyRow) TableName() string { return "usage_dirty" }

func minuteOf(t time.Time) int64    { return t.Unix() / 60 }
func timeOf(minute int64) time.Time { return time.Unix(minute*60, 0).UTC() }

// Source is one origin of cumulative minute values: the commit log of a broker
// or one broker process.
type Source struct {
	ID, Broker, Kind string
	Dead             bool  // no value will change any more
	SealedThrough    int64 // last minute that is final
}

// MinuteCell is the value so far of one cell in one minute.
type MinuteCell struct {
	Minute   int64
	Sealed   bool
	TenantID string
	Cell     billing.Cell
	Counts   map[billing.Counter]uint64
}

// Merge takes a source's values in one transaction: each counter becomes the
// greater of what is stored and what is new, so that reports may be repeated,
// lost and reordered. What changed is marked for roll-up in the same
// transaction.
func (s *Store) Merge(ctx context.Context, src Source, cells []MinuteCell) error {
	ctx = sqldb.AcrossTenants(ctx)
	return s.db.InTx(ctx, func(ctx context.Context) error {
		conn := s.db.Conn(ctx)
		now := s.now().UnixMilli()
		row := sourceRow{Source: src.ID, Broker: src.Broker, Kind: src.Kind, Dead: src.Dead, SealedThrough: src.SealedThrough, FirstSeenAt: now, Updated: now}
		err := conn.Clauses(clause.OnConflict{
			Columns: []clause.Column{{Name: "source"}},
			DoUpdates: clause.Assignments(map[string]any{
				"sealed_through": s.greater("usage_sources", "sealed_through"), "dead": s.greater("usage_sources", "dead"), "updated_at": now,
			}),
		}).Create(&row).Error
		if err != nil {
			return fmt.Errorf("store usage source: %w", err)
		}
		return s.mergeCells(conn, src.ID, cells, now)
	})
}

// batchRows bounds one INSERT: SQLite takes 32,766 variables.
const batchRows = 500

func (s *Store) mergeCells(conn *gorm.DB, source string, cells []MinuteCell, now int64) error {
	rows := make([]minuteRow, 0, len(cells))
	dirty := map[dirtyRow]bool{}
	for _, c := range cells {
		row := minuteRow{Minute: c.Minute, CellID: cellID(c.Cell), Source: source, TenantID: c.TenantID, Columns: columnsOf(c.Cell)}
		for name, p := range row.counters() {
			*p = c.Counts[name]
		}
		rows = append(rows, row)
		hour := c.Minute - c.Minute%60
		dirty[dirtyRow{Grain: string(billing.GrainHour), StartMinute: hour, TenantID: c.TenantID, Changed: now}] = true
	}
	if len(rows) == 0 {
		return nil
	}
	updates := map[string]any{}
	for c := range (&minuteRow{}).counters() {
		updates[string(c)] = s.greater("usage_minutes", string(c))
	}
	err := conn.Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "minute"}, {Name: "cell_id"}, {Name: "source"}},
		DoUpdates: clause.Assignments(updates),
	}).CreateInBatches(rows, batchRows).Error
	if err != nil {
		return fmt.Errorf("store usage: %w", err)
	}
	for d := range dirty {
		if err := s.markDirty(conn, d); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) markDirty(conn *gorm.DB, d dirtyRow) error {
	err := conn.Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "grain"}, {Name: "start_minute"}, {Name: "tenant_id"}},
		DoUpdates: clause.Assignments(map[string]any{"changed": d.Changed}),
	}).Create(&d).Error
	if err != nil {
		return fmt.Errorf("mark usage for roll-up: %w", err)
	}
	return nil
}

// greater is the expression for the greater of the stored and the new value.
func (s *Store) greater(table, column string) clause.Expr {
	if s.db.Driver() == sqldb.MySQL {
		return gorm.Expr(fmt.Sprintf("GREATEST(%s.%s, VALUES(%s))", table, column, column))
	}
	return gorm.Expr(fmt.Sprintf("MAX(%s.%s, excluded.%s)", table, column, column))
}

// CompleteThrough implements billing.Store: the end of the last minute that is
// final at every source that still counts.
func (s *Store) CompleteThrough(ctx context.Context) (time.Time, error) {
	var live []sourceRow
	if err := s.db.Conn(sqldb.AcrossTenants(ctx)).Where("dead = ?", false).Find(&live).Error; err != nil {
		return time.Time{}, sqldb.Error(fmt.Errorf("read usage sources: %w", err))
	}
	if len(live) == 0 {
		return time.Unix(0, 0).UTC(), nil
	}
	first := live[0].SealedThrough
	for _, r := range live[1:] {
		first = min(first, r.SealedThrough)
	}
	return timeOf(max(first, -1) + 1), nil
}

// Usage implements billing.Store.
func (s *Store) Usage(ctx context.Context, q billing.UsageQuery) ([]billing.Record, error) {
	conn := s.db.Tenant(ctx, q.TenantID)
	for column, value := range map[string]string{"namespace_id": q.NamespaceID, "topic": q.Topic, "consumer_group": q.Group, "api_key_id": q.APIKeyID} {
		if value != "" {
			conn = conn.Where(column+" = ?", value)
		}
	}
	from, to := minuteOf(q.From), minuteOf(q.To)
	if q.Grain == billing.GrainMinute {
		var rows []minuteRow
		if err := conn.Where("minute >= ? AND minute < ?", from, to).Find(&rows).Error; err != nil {
			return nil, sqldb.Error(fmt.Errorf("read usage: %w", err))
		}
		out := make([]billing.Record, 0, len(rows))
		for i := range rows {
			out = append(out, billing.Record{Start: timeOf(rows[i].Minute), Cell: rows[i].Columns.cell(), Quantities: rows[i].quantities()})
		}
		return out, nil
	}
	var rows []periodRow
	err := conn.Where("grain = ? AND start_minute >= ? AND start_minute < ?", string(q.Grain), from, to).Find(&rows).Error
	if err != nil {
		return nil, sqldb.Error(fmt.Errorf("read usage: %w", err))
	}
	out := make([]billing.Record, 0, len(rows))
	for _, r := range rows {
		quantities, err := decodeQuantities(r.Quantities)
		if err != nil {
			return nil, err
		}
		out = append(out, billing.Record{Start: timeOf(r.StartMinute), Cell: r.Columns.cell(), Quantities: quantities})
	}
	return out, nil
}

var errQuantity = errors.New("usage row holds a quantity that is no number")

func decodeQuantities(text string) (billing.Quantities, error) {
	var m map[billing.Counter]string
	if err := sqldb.FromJSON(text, &m); err != nil {
		return nil, err
	}
	q := make(billing.Quantities, len(m))
	for c, digits := range m {
		n, ok := new(big.Int).SetString(digits, 10)
		if !ok {
			return nil, errQuantity
		}
		q[c] = n
	}
	return q, nil
}

func encodeQuantities(q billing.Quantities) (string, error) {
	m := make(map[billing.Counter]string, len(q))
	for c, n := range q {
		m[c] = n.String()
	}
	return sqldb.JSON(m)
}
