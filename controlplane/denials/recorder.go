package denials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/internal/tally"
	"github.com/sluicemq/sluice/tenant"
)

// Bounds of what a Recorder counts between two flushes: kinds of one tenant or
// person, kinds of all, events that wait for a database.
const (
	recordedKinds   = 16
	recordedTotal   = 50_000
	recordedWaiting = 20_000
)

// flushEvery is how late a refusal is in the log at the latest, while the
// database answers and it is not one of many.
const flushEvery = 5 * time.Second

// Recorder counts what this process refused to callers who are known and were not
// let in, and writes it later, so that no answer waits for the log and a flood
// makes few events. It also files what people did, see controldb.Audit.Note.
type Recorder struct {
	log    Log
	logger *slog.Logger
	counts *tally.Tally[controldb.AuditEvent]

	mu      sync.Mutex
	waiting []controldb.AuditEvent // guarded by mu: each of a tenant, or of a person
}

// NewRecorder makes a Recorder; Run starts it.
func NewRecorder(log Log, now func() time.Time, logger *slog.Logger) *Recorder {
	return &Recorder{log: log, logger: logger, counts: tally.New(tally.Config[controldb.AuditEvent]{
		Owner: ownerOf, Others: others, PerOwner: recordedKinds, Total: recordedTotal, Now: now,
	})}
}

// ownerOf is whom a refusal is told to: a tenant, a person, or nobody.
func ownerOf(e controldb.AuditEvent) string {
	if e.TenantID != "" {
		return e.TenantID
	}
	return e.ActorID
}

// others stands for refusals of kinds beyond recordedKinds. Of a person it still
// names them: it goes to their tenants.
func others(e controldb.AuditEvent) controldb.AuditEvent {
	o := controldb.AuditEvent{TenantID: e.TenantID, ActorType: "system", ActorID: othersID, Action: "connect", TargetType: "api_key", Denied: true, Reason: othersID}
	if e.TenantID == "" {
		o.ActorType, o.ActorID, o.Action, o.TargetType, o.TargetID = e.ActorType, e.ActorID, "signIn", "user", e.ActorID
	}
	return o
}

// Refused counts a refusal. Its id, time and count do not matter; without a tenant
// it is one of a person, who is its actor.
func (r *Recorder) Refused(e controldb.AuditEvent) {
	request := e.RequestID
	e.ID, e.At, e.RequestID, e.Count, e.FirstAt = "", time.Time{}, "", 0, time.Time{}
	r.counts.Add(e, request)
}

// Run writes what was counted until ctx ends, and then the rest.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushEvery)
			defer cancel()
			r.take(r.counts.TakeAll())
			if err := r.write(last); err != nil {
				r.logger.Error("refusals are not in the audit logs: the process ends", "err", err)
			}
			return ctx.Err()
		case <-tick.C:
		}
		if err := r.Flush(ctx); err != nil && ctx.Err() == nil {
			r.logger.Error("refusals are not in the audit logs yet; trying again", "err", err)
		}
	}
}

// Flush writes what is to be told now, and what people did. What could not be
// written is kept.
func (r *Recorder) Flush(ctx context.Context) error {
	r.take(r.counts.Take())
	if n := r.counts.Dropped(); n > 0 {
		r.logger.Error("refusals are not in the audit logs: there were too many kinds", "count", n)
	}
	return errors.Join(r.write(ctx), r.log.FileActs(ctx))
}

func (r *Recorder) take(list []tally.Counted[controldb.AuditEvent]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range list {
		if ownerOf(c.Key) == "" {
			continue // of nobody
		}
		if len(r.waiting) >= recordedWaiting {
			r.logger.Error("refusals are not in the audit logs: the database is away for too long", "count", c.Count)
			continue
		}
		e := c.Key
		e.ID = tenant.NewID("evt_", c.Last)
		e.At, e.FirstAt, e.Count, e.RequestID = c.Last.UTC(), c.First.UTC(), c.Count, c.Detail
		r.waiting = append(r.waiting, e)
	}
}

// write puts what waits into the logs, until the first failure.
func (r *Recorder) write(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > 0 {
		if err := r.log.AppendOf(ctx, r.waiting[0]); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		r.waiting = r.waiting[1:]
	}
	r.waiting = nil
	return nil
}
