package controldb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type actRow struct {
	ID    string `gorm:"primaryKey"`
	Event string
}

func (actRow) TableName() string { return "audit_acts" }

// Note keeps what a person did, in the transaction of ctx, until FileActs puts it
// into the audit logs of their tenants: all that they then belong to, if the event
// has none. It waits for nobody.
func (a *Audit) Note(ctx context.Context, e AuditEvent) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode act: %w", err)
	}
	return sqldb.Error(a.db.Conn(ctx).Create(&actRow{ID: e.ID, Event: string(text)}).Error)
}

// actsAtOnce bounds what FileActs reads at a time.
const actsAtOnce = 500

// FileActs puts what Note kept into the audit logs, oldest first. Any number of
// replicas may do it at the same time: each act is filed once.
func (a *Audit) FileActs(ctx context.Context) error {
	for {
		var rows []actRow
		if err := a.db.Conn(ctx).Order("id").Limit(actsAtOnce).Find(&rows).Error; err != nil {
			return sqldb.Error(err)
		}
		if err := a.fileActs(ctx, rows); err != nil || len(rows) < actsAtOnce {
			return err
		}
	}
}

func (a *Audit) fileActs(ctx context.Context, rows []actRow) error {
	for _, r := range rows {
		err := a.db.InTx(ctx, func(ctx context.Context) error {
			taken := a.db.Conn(ctx).Where("id = ?", r.ID).Delete(&actRow{})
			if taken.Error != nil || taken.RowsAffected == 0 { // another replica was faster
				return sqldb.Error(taken.Error)
			}
			var e AuditEvent
			if err := json.Unmarshal([]byte(r.Event), &e); err != nil {
				return fmt.Errorf("decode act %s: %w", r.ID, err)
			}
			return a.AppendOf(ctx, e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// AppendOf adds an event of a person, its actor, to the log of its tenant, or
// without one to those of all tenants that they belong to. Again changes nothing.
func (a *Audit) AppendOf(ctx context.Context, e AuditEvent) error {
	if e.TenantID != "" {
		return a.AppendOnce(ctx, e.TenantID, e)
	}
	return a.db.InTx(ctx, func(ctx context.Context) error {
		var tenants []string
		err := a.db.Conn(sqldb.AcrossTenants(ctx)).Table("members").Where("user_id = ?", e.ActorID).Pluck("tenant_id", &tenants).Error
		if err != nil {
			return sqldb.Error(err)
		}
		slices.Sort(tenants) // all lock in one order
		for _, id := range tenants {
			of := e
			of.ID = tenant.DerivedID("evt_", e.At, e.ID+id)
			if err := a.AppendOnce(ctx, id, of); err != nil {
				return err
			}
		}
		return nil
	})
}

// ActEvent is the event of an act.
func ActEvent(c auth.Caller, a auth.Act, at time.Time) AuditEvent {
	return AuditEvent{ID: tenant.NewID("evt_", at), TenantID: a.TenantID, At: at, ActorType: string(auth.KindOf(a.UserID)), ActorID: a.UserID, KeyID: a.KeyID, SourceIP: c.Address,
		Action: c.Operation, TargetType: a.TargetType, TargetID: a.TargetID, Denied: a.Refused != "", Reason: a.Refused, RequestID: c.RequestID}
}
