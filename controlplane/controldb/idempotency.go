package controldb

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

// Idempotency keeps the answers to writes that carried an Idempotency-Key.
//
// A key is claimed in a transaction of its own, so that a second request sees
// it at once; the answer is written in the transaction of the write, so that
// either both are there or neither is. A claim whose process died is free
// again after a while.
type Idempotency struct {
	db  *sqldb.DB
	now func() time.Time
}

// NewIdempotency makes an Idempotency on an open, migrated database.
func NewIdempotency(db *sqldb.DB, now func() time.Time) *Idempotency {
	return &Idempotency{db: db, now: now}
}

type idempotencyRow struct {
	TenantID     string `gorm:"primaryKey"`
	Principal    string `gorm:"primaryKey"`
	IdemKey      string `gorm:"primaryKey"`
	RequestHash  string
	State        string
	Answer       []byte
	ClaimedUntil int64
	Created      int64 `gorm:"column:created_at"`
	ExpiresAt    int64
}

func (idempotencyRow) TableName() string { return "idempotency_keys" }

const (
	idemRunning = "running"
	idemDone    = "done"
	claimTime   = 2 * time.Minute
	keepTime    = 24 * time.Hour
)

// IdemKey names a request: whose, and which key.
type IdemKey struct {
	TenantID  tenant.ID
	Principal tenant.ID
	Key       string
}

// Claim takes the key for a request with this hash. done means the answer is
// that of the first request. Conflict: the first one is still running.
// Unprocessable: the key belongs to another request.
func (i *Idempotency) Claim(ctx context.Context, k IdemKey, hash string) (answer []byte, done bool, err error) {
	err = i.db.InTx(ctx, func(ctx context.Context) error {
		answer, done = nil, false
		now := i.now()
		var have []idempotencyRow
		if err := i.find(ctx, k, &have); err != nil {
			return err
		}
		if len(have) > 0 && sqldb.Millis(now) < have[0].ExpiresAt {
			r := have[0]
			switch {
			case r.RequestHash != hash:
				return idemProblem(errs.Unprocessable, "idempotency_key_reused", "this Idempotency-Key was used with another request; take a fresh one")
			case r.State == idemDone:
				answer, done = r.Answer, true
				return nil
			case sqldb.Millis(now) < r.ClaimedUntil:
				e := idemProblem(errs.Conflict, "idempotency_in_progress", "the first request with this Idempotency-Key is still running; ask again soon")
				e.RetryAfter = time.Second
				return e
			}
		}
		if len(have) > 0 { // over, or its process died
			if err := i.Drop(ctx, k); err != nil {
				return err
			}
		}
		row := idempotencyRow{TenantID: k.TenantID, Principal: k.Principal, IdemKey: k.Key, RequestHash: hash, State: idemRunning,
			ClaimedUntil: sqldb.Millis(now.Add(claimTime)), Created: sqldb.Millis(now), ExpiresAt: sqldb.Millis(now.Add(keepTime))}
		err := sqldb.Error(i.db.Conn(ctx).Create(&row).Error)
		if errs.Is(err, errs.Conflict) {
			return idemProblem(errs.Conflict, "idempotency_in_progress", "another request with this Idempotency-Key has just begun; ask again soon")
		}
		return err
	})
	return answer, done, err
}

func idemProblem(code errs.Code, reason, text string) *errs.Error {
	e := errs.E(code, "%s", text).WithReason(reason)
	e.Field = "header.Idempotency-Key"
	return e
}

func (i *Idempotency) find(ctx context.Context, k IdemKey, rows *[]idempotencyRow) error {
	return sqldb.Error(i.db.Locking(ctx, i.db.Tenant(ctx, k.TenantID)).Where("principal = ? AND idem_key = ?", k.Principal, k.Key).Limit(1).Find(rows).Error)
}

// Finish keeps the answer in the transaction of ctx.
func (i *Idempotency) Finish(ctx context.Context, k IdemKey, answer []byte) error {
	return i.db.InTx(ctx, func(ctx context.Context) error {
		return sqldb.Error(i.db.Tenant(ctx, k.TenantID).Model(&idempotencyRow{}).Where("principal = ? AND idem_key = ?", k.Principal, k.Key).
			UpdateColumns(map[string]any{"state": idemDone, "answer": answer}).Error)
	})
}

// Drop frees the key after a request that failed.
func (i *Idempotency) Drop(ctx context.Context, k IdemKey) error {
	return i.db.InTx(ctx, func(ctx context.Context) error {
		return sqldb.Error(i.db.Tenant(ctx, k.TenantID).Where("principal = ? AND idem_key = ?", k.Principal, k.Key).Delete(&idempotencyRow{}).Error)
	})
}

// Purge forgets keys that are over.
func (i *Idempotency) Purge(ctx context.Context) error {
	return i.db.InTx(sqldb.AcrossTenants(ctx), func(ctx context.Context) error {
		return sqldb.Error(i.db.Conn(ctx).Where("expires_at < ?", sqldb.Millis(i.now())).Delete(&idempotencyRow{}).Error)
	})
}
