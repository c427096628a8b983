package controldb

import (
	"context"

	"gorm.io/gorm/clause"

	"github.com/sluicemq/sluice/internal/auditchain"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type chainRow struct {
	TenantID     string `gorm:"primaryKey"`
	Sequence     int64  `gorm:"primaryKey;autoIncrement:false"`
	EventID      string
	PreviousHash string
	Hash         string
}

func (chainRow) TableName() string { return "audit_chain" }

type headRow struct {
	TenantID string `gorm:"primaryKey"`
	Sequence int64
	Hash     string
}

func (headRow) TableName() string { return "audit_heads" }

// link puts an event behind the newest of its tenant.
func (a *Audit) link(ctx context.Context, e AuditEvent) error {
	head, err := a.lockHead(ctx, e.TenantID)
	if err != nil {
		return err
	}
	next := auditchain.Head{Sequence: head.Sequence, Hash: head.Hash}.Next(chained(e))
	row := chainRow{TenantID: e.TenantID, Sequence: next.Sequence, EventID: e.ID, PreviousHash: head.Hash, Hash: next.Hash}
	if err := a.db.Conn(ctx).Create(&row).Error; err != nil {
		return sqldb.Error(err)
	}
	return sqldb.Error(a.db.Tenant(ctx, e.TenantID).Model(&headRow{}).
		UpdateColumns(map[string]any{"sequence": next.Sequence, "hash": next.Hash}).Error)
}

// lockHead reads the head and keeps other writers of the tenant waiting.
func (a *Audit) lockHead(ctx context.Context, tenantID tenant.ID) (headRow, error) {
	if err := a.db.Conn(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&headRow{TenantID: tenantID}).Error; err != nil {
		return headRow{}, sqldb.Error(err)
	}
	var head headRow
	err := a.db.Locking(ctx, a.db.Tenant(ctx, tenantID)).Take(&head).Error
	return head, sqldb.Error(err)
}

func chained(e AuditEvent) *auditchain.Event {
	return &auditchain.Event{Sequence: e.Sequence, ID: e.ID, At: e.At, ActorType: e.ActorType, ActorID: e.ActorID, KeyID: e.KeyID, SourceIP: e.SourceIP,
		Action: e.Action, TargetType: e.TargetType, TargetID: e.TargetID, NamespaceID: e.NamespaceID, Decision: e.decision(), Reason: e.Reason, RequestID: e.RequestID,
		BeforeHash: e.BeforeHash, AfterHash: e.AfterHash, Count: e.Count, FirstAt: e.FirstAt}
}

// places fills in where events stand in the chain.
func (a *Audit) places(ctx context.Context, tenantID tenant.ID, events []AuditEvent) error {
	if len(events) == 0 {
		return nil
	}
	ids := make([]string, len(events))
	at := map[string]int{}
	for i := range events {
		ids[i], at[events[i].ID] = events[i].ID, i
	}
	var rows []chainRow
	if err := a.db.Tenant(ctx, tenantID).Where("event_id IN ?", ids).Find(&rows).Error; err != nil {
		return sqldb.Error(err)
	}
	for _, r := range rows {
		e := &events[at[r.EventID]]
		e.Sequence, e.Hash, e.PreviousHash = r.Sequence, r.Hash, r.PreviousHash
	}
	return nil
}

const verifyChunk = 1000

// Verify checks the whole chain of a tenant, and that it holds the heads that
// somebody knows from earlier. The error is an *auditchain.BrokenError when
// anything was changed or removed.
func (a *Audit) Verify(ctx context.Context, tenantID tenant.ID, known ...auditchain.Head) (auditchain.Head, error) {
	var v *auditchain.Verifier
	err := a.db.InSnapshot(ctx, func(ctx context.Context) error {
		var head headRow
		if err := sqldb.Error(a.db.Tenant(ctx, tenantID).Limit(1).Find(&head).Error); err != nil {
			return err
		}
		v = auditchain.NewVerifier(append(known[:len(known):len(known)], auditchain.Head{Sequence: head.Sequence, Hash: head.Hash})...)
		v.From(auditchain.Head{})
		for after := int64(0); ; after += verifyChunk {
			n, err := a.verifyChunk(ctx, v, tenantID, after)
			if err != nil {
				return err
			}
			if n == 0 {
				return nil
			}
		}
	})
	if err != nil {
		return auditchain.Head{}, err
	}
	return v.End()
}

// verifyChunk checks the links with the sequences after+1 to after+verifyChunk
// and returns how many there are. A link whose event is gone gets an empty one,
// which has another hash.
func (a *Audit) verifyChunk(ctx context.Context, v *auditchain.Verifier, tenantID tenant.ID, after int64) (int, error) {
	var links []chainRow
	err := a.db.Tenant(ctx, tenantID).Where("sequence > ? AND sequence <= ?", after, after+verifyChunk).Order("sequence").Find(&links).Error
	if err != nil {
		return 0, sqldb.Error(err)
	}
	ids := make([]string, len(links))
	for i, l := range links {
		ids[i] = l.EventID
	}
	var rows []auditRow
	if len(ids) > 0 {
		if err := a.db.Tenant(ctx, tenantID).Where("id IN ?", ids).Find(&rows).Error; err != nil {
			return 0, sqldb.Error(err)
		}
	}
	events := make(map[string]AuditEvent, len(rows))
	for _, r := range rows {
		events[r.ID] = r.event()
	}
	for _, l := range links {
		e := events[l.EventID]
		e.Sequence = l.Sequence
		if err := v.Add(chained(e), l.Hash, l.PreviousHash); err != nil {
			return 0, err
		}
	}
	return len(links), nil
}
