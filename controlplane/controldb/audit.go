package controldb

import (
	"cmp"
	"context"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// Audit keeps what was done, and what was refused.
type Audit struct{ db *sqldb.DB }

// NewAudit makes an Audit on an open, migrated database.
func NewAudit(db *sqldb.DB) *Audit { return &Audit{db: db} }

// AuditEvent is one thing that somebody did or tried.
type AuditEvent struct {
	ID          tenant.ID
	TenantID    tenant.ID
	At          time.Time
	ActorType   string
	ActorID     tenant.ID
	KeyID       tenant.ID
	SourceIP    string
	Action      string // operationId
	TargetType  string
	TargetID    string
	NamespaceID tenant.ID
	Denied      bool
	Reason      string
	RequestID   string
	BeforeHash  string // fingerprint of the object; empty: there was none
	AfterHash   string
	// Count and FirstAt are of an event that stands for several of the same; At
	// is then when the last was. Else zero.
	Count   int64
	FirstAt time.Time

	// Place in the tenant's hash chain; see package auditchain. Zero for events
	// from before there was one, and for Append.
	Sequence           int64
	Hash, PreviousHash string
}

const decisionDenied = "denied"

func (e AuditEvent) decision() string {
	if e.Denied {
		return decisionDenied
	}
	return "allowed"
}

// AuditFilter narrows a list of events; zero fields do not.
type AuditFilter struct {
	From, To time.Time
	ActorID  string
	Action   string
	TargetID string
}

type auditRow struct {
	ID          string `gorm:"primaryKey"`
	TenantID    string
	ActorType   string
	ActorID     string
	APIKeyID    string `gorm:"column:api_key_id"`
	SourceIP    string `gorm:"column:source_ip"`
	Action      string
	TargetType  string
	TargetID    string
	NamespaceID string
	Decision    string
	Reason      string
	RequestID   string
	BeforeHash  string
	AfterHash   string
	Count       int64
	FirstAt     int64
	Created     int64 `gorm:"column:created_at"`
}

func (auditRow) TableName() string { return "audit_events" }

// Append adds an event and its link to the chain, in the transaction of ctx if
// there is one. Writers of one tenant wait for each other here until they
// commit, so let it be the last thing that a transaction does.
func (a *Audit) Append(ctx context.Context, e AuditEvent) error {
	row := rowOf(e)
	return a.db.InTx(ctx, func(ctx context.Context) error {
		if err := a.db.Conn(ctx).Create(&row).Error; err != nil {
			return sqldb.Error(err)
		}
		return a.link(ctx, row.event())
	})
}

// AppendOnce adds those events of one tenant that are not there yet, by their
// ids, all or none: for events that may be handed over again.
func (a *Audit) AppendOnce(ctx context.Context, tenantID tenant.ID, events ...AuditEvent) error {
	return a.db.InTx(ctx, func(ctx context.Context) error {
		if _, err := a.lockHead(ctx, tenantID); err != nil { // another one with the same events waits here
			return err
		}
		for _, e := range events {
			var n int64
			if err := a.db.Tenant(ctx, tenantID).Model(&auditRow{}).Where("id = ?", e.ID).Count(&n).Error; err != nil {
				return sqldb.Error(err)
			}
			if n > 0 {
				continue
			}
			e.TenantID = tenantID
			if err := a.Append(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

func rowOf(e AuditEvent) auditRow {
	row := auditRow{ID: e.ID, TenantID: e.TenantID, ActorType: e.ActorType, ActorID: e.ActorID, APIKeyID: e.KeyID, SourceIP: e.SourceIP,
		Action: e.Action, TargetType: e.TargetType, TargetID: e.TargetID, NamespaceID: e.NamespaceID, Decision: e.decision(), Reason: e.Reason,
		RequestID: e.RequestID, BeforeHash: e.BeforeHash, AfterHash: e.AfterHash, Count: e.Count, Created: sqldb.Millis(e.At)}
	if !e.FirstAt.IsZero() {
		row.FirstAt = sqldb.Millis(e.FirstAt)
	}
	return row
}

// List returns events before an id, newest first.
func (a *Audit) List(ctx context.Context, tenantID tenant.ID, f AuditFilter, p tenant.Page) ([]AuditEvent, error) {
	q := a.db.Tenant(ctx, tenantID)
	if p.After != "" {
		q = q.Where("id < ?", p.After)
	}
	if !f.From.IsZero() {
		q = q.Where("created_at >= ?", sqldb.Millis(f.From))
	}
	if !f.To.IsZero() {
		q = q.Where("created_at < ?", sqldb.Millis(f.To))
	}
	for column, value := range map[string]string{"actor_id": f.ActorID, "action": f.Action, "target_id": f.TargetID} {
		if value != "" {
			q = q.Where(column+" = ?", value)
		}
	}
	out, err := all(q.Order("id DESC").Limit(p.Size), func(r auditRow) (AuditEvent, error) { return r.event(), nil })
	if err != nil {
		return nil, err
	}
	return out, a.places(ctx, tenantID, out)
}

func (r auditRow) event() AuditEvent {
	e := AuditEvent{ID: r.ID, TenantID: r.TenantID, At: sqldb.Time(r.Created), ActorType: r.ActorType, ActorID: r.ActorID, KeyID: r.APIKeyID,
		SourceIP: r.SourceIP, Action: r.Action, TargetType: r.TargetType, TargetID: r.TargetID, NamespaceID: r.NamespaceID,
		Denied: r.Decision == decisionDenied, Reason: r.Reason, RequestID: r.RequestID,
		BeforeHash: r.BeforeHash, AfterHash: r.AfterHash, Count: r.Count}
	if r.FirstAt != 0 {
		e.FirstAt = sqldb.Time(r.FirstAt)
	}
	return e
}

// AccountEvent is what closing, reopening or erasing a person's account did in
// one of their tenants. Erasing is nobody's act but time's.
func AccountEvent(c auth.Caller, tenantID, userID tenant.ID, action string, at time.Time) AuditEvent {
	e := AuditEvent{ID: tenant.NewID("evt_", at), TenantID: tenantID, At: at, ActorType: "user", ActorID: userID, SourceIP: c.Address,
		Action: action, TargetType: "user", TargetID: userID, RequestID: cmp.Or(c.RequestID, tenant.NewID("req_", at))}
	if action == "eraseAccount" {
		e.ActorType, e.ActorID = "system", "erase_accounts"
	}
	return e
}

// LeakEvent is the revocation of a key whose secret was reported.
func LeakEvent(k tenant.APIKey, r tenant.LeakReport, at time.Time) AuditEvent {
	return AuditEvent{ID: tenant.NewID("evt_", at), TenantID: k.TenantID, At: at, ActorType: "system", ActorID: "leak_report", SourceIP: r.Address,
		Action: "reportLeak", TargetType: "api_key", TargetID: k.ID, RequestID: r.ID}
}
