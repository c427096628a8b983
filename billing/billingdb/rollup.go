package billingdb

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/billing"
	"github.com/sluicemq/sluice/internal/sqldb"
)

// above names the grain that is summed from each grain.
var above = map[billing.Grain]billing.Grain{billing.GrainHour: billing.GrainDay, billing.GrainDay: billing.GrainMonth}

// Rollup recomputes at most limit marked periods and returns how many it did.
// Each is one transaction: the sum of the level below replaces what was there,
// the level above is marked, the mark goes unless it was renewed meanwhile. It
// may run anywhere, any number of times, and die in the middle.
func (s *Store) Rollup(ctx context.Context, limit int) (int, error) {
	ctx = sqldb.AcrossTenants(ctx)
	var marks []dirtyRow
	if err := s.db.Conn(ctx).Order("grain DESC, start_minute").Limit(limit).Find(&marks).Error; err != nil {
		return 0, sqldb.Error(fmt.Errorf("read roll-up marks: %w", err))
	}
	for i, mark := range marks {
		if err := s.rollup(ctx, mark); err != nil {
			return i, err
		}
	}
	return len(marks), nil
}

func (s *Store) rollup(ctx context.Context, mark dirtyRow) error {
	grain := billing.Grain(mark.Grain)
	start := timeOf(mark.StartMinute)
	end := minuteOf(grain.Next(start))
	return s.db.InTx(ctx, func(ctx context.Context) error {
		conn := s.db.Conn(ctx)
		gone := conn.Where("grain = ? AND start_minute = ? AND tenant_id = ? AND changed = ?", mark.Grain, mark.StartMinute, mark.TenantID, mark.Changed).Delete(&dirtyRow{})
		if gone.Error != nil {
			return fmt.Errorf("take roll-up mark: %w", gone.Error)
		}
		if gone.RowsAffected == 0 {
			return nil // another process did it, or it changed again and comes again
		}
		rows, err := s.below(conn, grain, mark.TenantID, mark.StartMinute, end)
		if err != nil {
			return err
		}
		err = conn.Where("tenant_id = ? AND grain = ? AND start_minute = ?", mark.TenantID, mark.Grain, mark.StartMinute).Delete(&periodRow{}).Error
		if err != nil {
			return fmt.Errorf("replace usage of a %s: %w", grain, err)
		}
		if len(rows) > 0 {
			if err := conn.CreateInBatches(rows, batchRows).Error; err != nil {
				return fmt.Errorf("replace usage of a %s: %w", grain, err)
			}
		}
		next, ok := above[grain]
		if !ok {
			return nil
		}
		return s.markDirty(conn, dirtyRow{Grain: string(next), StartMinute: minuteOf(next.Floor(start)), TenantID: mark.TenantID, Changed: s.now().UnixMilli()})
	})
}

// below sums the level below a period, per cell.
func (s *Store) below(conn *gorm.DB, grain billing.Grain, tenantID string, from, to int64) ([]periodRow, error) {
	type sum struct {
		cell   billing.Cell
		q      billing.Quantities
		inputs int64
	}
	sums := map[string]*sum{}
	var order []string
	add := func(id string, cell billing.Cell, q billing.Quantities) {
		if sums[id] == nil {
			sums[id] = &sum{cell: cell, q: billing.Quantities{}}
			order = append(order, id)
		}
		sums[id].q.Add(q)
		sums[id].inputs++
	}
	if grain == billing.GrainHour {
		var minutes []minuteRow
		if err := conn.Where("tenant_id = ? AND minute >= ? AND minute < ?", tenantID, from, to).Order("cell_id").Find(&minutes).Error; err != nil {
			return nil, fmt.Errorf("read usage minutes: %w", err)
		}
		for i := range minutes {
			add(minutes[i].CellID, minutes[i].Columns.cell(), minutes[i].quantities())
		}
	} else {
		lower := billing.GrainHour
		if grain == billing.GrainMonth {
			lower = billing.GrainDay
		}
		var periods []periodRow
		err := conn.Where("tenant_id = ? AND grain = ? AND start_minute >= ? AND start_minute < ?", tenantID, string(lower), from, to).Order("cell_id").Find(&periods).Error
		if err != nil {
			return nil, fmt.Errorf("read usage of each %s: %w", lower, err)
		}
		for _, p := range periods {
			q, err := decodeQuantities(p.Quantities)
			if err != nil {
				return nil, err
			}
			add(p.CellID, p.Columns.cell(), q)
		}
	}
	rows := make([]periodRow, 0, len(order))
	for _, id := range order {
		text, err := encodeQuantities(sums[id].q)
		if err != nil {
			return nil, err
		}
		rows = append(rows, periodRow{TenantID: tenantID, Grain: string(grain), StartMinute: from, CellID: id, Columns: columnsOf(sums[id].cell), Quantities: text, Inputs: sums[id].inputs})
	}
	return rows, nil
}
