package tenant

import (
	"context"
	"fmt"
	"time"
)

// reserve takes one of a quota for an object about to be created: in the
// tenant, and in the namespace if one is given and the plan counts there. It
// runs in the transaction that creates the object.
func (s *Service) reserve(ctx context.Context, t Tenant, namespaceID ID, name string) error {
	return Reserve(ctx, s.store, t, namespaceID, name, s.time())
}

// Reserver is the part of a store that counts quotas.
type Reserver interface {
	Reserve(ctx context.Context, tenantID, scope ID, name string, n, limit int64, at time.Time) (Quota, bool, error)
	Release(ctx context.Context, tenantID, scope ID, name string, n int64) error
}

// Reserve takes one of the quota in all scopes in which t's plan counts it;
// QuotaExceeded names the first that is used up.
func Reserve(ctx context.Context, store Reserver, t Tenant, namespaceID ID, name string, at time.Time) error {
	for _, l := range limitsOf(t, namespaceID, name) {
		q, ok, err := store.Reserve(ctx, t.ID, l.scope, name, 1, l.limit, at)
		if err != nil {
			return fmt.Errorf("reserve quota %s: %w", name, err)
		}
		if !ok {
			return q.Exceeded()
		}
	}
	return nil
}

// Release gives back what Reserve took.
func Release(ctx context.Context, store Reserver, t Tenant, namespaceID ID, name string) error {
	for _, l := range limitsOf(t, namespaceID, name) {
		if err := store.Release(ctx, t.ID, l.scope, name, 1); err != nil {
			return fmt.Errorf("release quota %s: %w", name, err)
		}
	}
	return nil
}

type scopedLimit struct {
	scope ID
	limit int64
}

func limitsOf(t Tenant, namespaceID ID, name string) []scopedLimit {
	l := PlanOf(t.Plan).Limit(name)
	var out []scopedLimit
	if l.Tenant > 0 {
		out = append(out, scopedLimit{t.ID, l.Tenant})
	}
	if l.Namespace > 0 && namespaceID != "" {
		out = append(out, scopedLimit{namespaceID, l.Namespace})
	}
	return out
}

// Quotas lists limits and their use: of the tenant, or of one of its
// namespaces. Rates are in it with a use of 0.
func (s *Service) Quotas(ctx context.Context, tenantID, namespaceID ID) ([]Quota, error) {
	t, err := s.store.Tenant(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	plan, scope, since, rev := PlanOf(t.Plan), t.ID, t.CreatedAt, t.Revision
	rates := plan.Rates
	if namespaceID != "" {
		n, err := s.store.Namespace(ctx, tenantID, namespaceID)
		if err != nil {
			return nil, err
		}
		scope, since, rev = n.ID, n.CreatedAt, n.Revision
		rates = Rates{SendMessages: n.MaxSendTPS, ReceiveMessages: n.MaxReceiveTPS}
	}
	rows, err := s.store.QuotaRows(ctx, tenantID, scope)
	if err != nil {
		return nil, err
	}
	stored := map[string]QuotaRow{}
	for _, r := range rows {
		stored[r.Name] = r
	}
	var out []Quota
	for _, l := range plan.Limits {
		limit := l.Tenant
		if namespaceID != "" {
			limit = l.Namespace
		}
		if limit == 0 {
			continue
		}
		q := Quota{Name: l.Name, Scope: scope, Kind: QuotaCount, Unit: l.Name, Limit: limit, Source: "plan", Since: since, Revision: rev}
		if r, ok := stored[l.Name]; ok {
			q.Used = r.Used
			if r.Limit != nil {
				q.Limit, q.Source = *r.Limit, "override"
			}
		}
		out = append(out, q)
	}
	source := "plan"
	if namespaceID != "" {
		source = "override"
	}
	for _, r := range []struct {
		name, unit string
		limit      int64
	}{
		{"send_messages", "messages/s", rates.SendMessages},
		{"send_bytes", "bytes/s", rates.SendBytes},
		{"receive_messages", "messages/s", rates.ReceiveMessages},
		{"requests", "requests/s", rates.Requests},
	} {
		if r.limit > 0 {
			out = append(out, Quota{Name: r.name, Scope: scope, Kind: QuotaRate, Unit: r.unit, Limit: r.limit, Source: source, Since: since, Revision: rev})
		}
	}
	return out, nil
}
