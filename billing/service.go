package billing

import (
	"context"
	"time"
)

// Store is where usage is kept. Each method names the tenant whose rows it may
// touch; billingdb implements it.
type Store interface {
	// Usage returns the tenant's records with Start in [from, to) of a grain.
	// Filters of q are applied.
	Usage(ctx context.Context, q UsageQuery) ([]Record, error)
	// CompleteThrough is the time before which every broker's usage is final
	// and in the store; zero when no broker has reported yet.
	CompleteThrough(ctx context.Context) (time.Time, error)
}

// Service answers questions about usage and money.
type Service struct {
	store Store
	now   func() time.Time
}

// NewService makes a Service.
func NewService(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// Usage answers q. Errors name the field that breaks a rule.
func (s *Service) Usage(ctx context.Context, q UsageQuery) (Usage, error) {
	if err := q.Normalise(s.now()); err != nil {
		return Usage{}, err
	}
	complete, err := s.store.CompleteThrough(ctx)
	if err != nil {
		return Usage{}, err
	}
	records, err := s.store.Usage(ctx, q)
	if err != nil {
		return Usage{}, err
	}
	rows, totals, err := aggregate(q, records)
	if err != nil {
		return Usage{}, err
	}
	return Usage{Query: q, CompleteThrough: complete, Totals: totals, Rows: rows}, nil
}

// Costs rates the month that holds at; the zero time means the running one.
func (s *Service) Costs(ctx context.Context, tenantID, planID string, at time.Time) (Costs, error) {
	if at.IsZero() {
		at = s.now()
	}
	from := GrainMonth.Floor(at)
	c := Costs{From: from, To: GrainMonth.Next(from), PlanID: planID, Book: BookAt(from)}
	u, err := s.Usage(ctx, UsageQuery{TenantID: tenantID, From: c.From, To: c.To, Grain: GrainMonth})
	if err != nil {
		return Costs{}, err
	}
	c.CompleteThrough = u.CompleteThrough
	c.Final = !c.CompleteThrough.Before(c.To)
	c.Lines, c.Total = Rate(c.Book, u.Totals)
	return c, nil
}
