package controlplane

import (
	"context"
	"io"
	"math/big"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/billing"
	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// usage says billing's answers in the words of the API.
type usage struct {
	billing *billing.Service
	tenants *tenant.Service
	now     func() time.Time
}

// Usage implements httpapi.Billing. A cursor is the number of rows that earlier
// pages had.
func (u *usage) Usage(ctx context.Context, tenantID tenant.ID, p api.GetUsageParams, limit int, cursor string) (api.Usage, string, error) {
	skip := 0
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 0 {
			return api.Usage{}, "", errs.Field("page_token", "not a page token of this request")
		}
		skip = n
	}
	got, err := u.billing.Usage(ctx, usageQuery(tenantID, api.GetUsageCsvParams{
		From: p.From, To: p.To, Grain: p.Grain, GroupBy: p.GroupBy, NamespaceId: p.NamespaceId, Topic: p.Topic, Group: p.Group, ApiKeyId: p.ApiKeyId,
	}))
	if err != nil {
		return api.Usage{}, "", err
	}
	out := api.Usage{
		From: api.NewTimestamp(got.Query.From), To: api.NewTimestamp(got.Query.To), Grain: api.UsageGrain(got.Query.Grain),
		GroupBy: []api.UsageDimension{}, CompleteThrough: api.NewTimestamp(got.CompleteThrough), Totals: counters(got.Totals), Items: []api.UsageRow{},
	}
	for _, d := range got.Query.GroupBy {
		out.GroupBy = append(out.GroupBy, api.UsageDimension(d))
	}
	rows := got.Rows[min(skip, len(got.Rows)):]
	next := ""
	if limit > 0 && len(rows) > limit {
		rows, next = rows[:limit], strconv.Itoa(skip+limit)
	}
	for _, r := range rows {
		out.Items = append(out.Items, usageRow(r))
	}
	return out, next, nil
}

// UsageCSV implements httpapi.Billing.
func (u *usage) UsageCSV(ctx context.Context, tenantID tenant.ID, p api.GetUsageCsvParams, w io.Writer) error {
	got, err := u.billing.Usage(ctx, usageQuery(tenantID, p))
	if err != nil {
		return err
	}
	return got.WriteCSV(w)
}

func usageQuery(tenantID tenant.ID, p api.GetUsageCsvParams) billing.UsageQuery {
	q := billing.UsageQuery{
		TenantID: tenantID, From: value(p.From), To: value(p.To), Grain: billing.Grain(value(p.Grain)),
		NamespaceID: value(p.NamespaceId), Topic: value(p.Topic), Group: value(p.Group), APIKeyID: value(p.ApiKeyId),
	}
	for _, d := range value(p.GroupBy) {
		q.GroupBy = append(q.GroupBy, billing.Dimension(d))
	}
	return q
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// present returns a pointer to v, nil when v is empty.
func present[T ~string](v T) *T {
	if v == "" {
		return nil
	}
	return &v
}

func counters(q billing.Quantities) api.UsageCounters {
	n := func(c billing.Counter) api.Counter { return q.Of(c).String() }
	return api.UsageCounters{
		MessagesIn: n(billing.MessagesIn), MessagesOut: n(billing.MessagesOut), BytesIn: n(billing.BytesIn), BytesOut: n(billing.BytesOut),
		Units4kIn: n(billing.Units4In), Units4kOut: n(billing.Units4Out), Units64kIn: n(billing.Units64In), Units64kOut: n(billing.Units64Out),
		ApiCalls: n(billing.Calls), EmptyPolls: n(billing.EmptyPolls), ByteMsStored: n(billing.StoredByteMillis),
		ConnectionSeconds: billing.Seconds(q.Of(billing.ConnectionMillis)).String(), Rejected: n(billing.Rejected),
	}
}

func usageRow(r billing.UsageRow) api.UsageRow {
	c := counters(r.Quantities)
	return api.UsageRow{
		From: api.NewTimestamp(r.From), To: api.NewTimestamp(r.To), NamespaceId: present(r.Cell.NamespaceID), Topic: present(r.Cell.Topic),
		Group: present(r.Cell.Group), ApiKeyId: present(r.Cell.APIKeyID),
		Class: present(api.MessageClass(r.Cell.Class)), Protocol: present(api.Protocol(r.Cell.Protocol)),
		MessagesIn: c.MessagesIn, MessagesOut: c.MessagesOut, BytesIn: c.BytesIn, BytesOut: c.BytesOut, Units4kIn: c.Units4kIn,
		Units4kOut: c.Units4kOut, Units64kIn: c.Units64kIn, Units64kOut: c.Units64kOut, ApiCalls: c.ApiCalls, EmptyPolls: c.EmptyPolls,
		ByteMsStored: c.ByteMsStored, ConnectionSeconds: c.ConnectionSeconds, Rejected: c.Rejected,
	}
}

// Costs implements httpapi.Billing; month reads "2026-09", empty is the running
// one.
func (u *usage) Costs(ctx context.Context, tenantID tenant.ID, month string) (api.Costs, error) {
	c, err := u.costs(ctx, tenantID, month)
	if err != nil {
		return api.Costs{}, err
	}
	out := api.Costs{
		From: api.NewTimestamp(c.From), To: api.NewTimestamp(c.To), Currency: c.Book.Currency, MinorUnitDigits: c.Book.MinorUnitDigits,
		PlanId: c.PlanID, PriceBookId: c.Book.ID, CompleteThrough: api.NewTimestamp(c.CompleteThrough), Final: c.Final, Total: c.Total.String(),
	}
	for _, l := range c.Lines {
		out.Lines = append(out.Lines, api.CostLine{
			Meter: string(l.Price.Meter), Unit: l.Price.Unit, Quantity: l.Quantity.String(), Included: l.Included.String(), Billable: l.Billable.String(),
			PricePer: l.Price.PricePer.String(), UnitPriceMicros: l.Price.UnitPriceMicros.String(), AmountMicros: l.AmountMicros.String(), Amount: l.Amount.String(),
		})
	}
	return out, nil
}

// CostsCSV implements httpapi.Billing.
func (u *usage) CostsCSV(ctx context.Context, tenantID tenant.ID, month string, w io.Writer) error {
	c, err := u.costs(ctx, tenantID, month)
	if err != nil {
		return err
	}
	return c.WriteCSV(w)
}

func (u *usage) costs(ctx context.Context, tenantID tenant.ID, month string) (billing.Costs, error) {
	t, err := u.tenants.Tenant(ctx, tenantID)
	if err != nil {
		return billing.Costs{}, err
	}
	var at time.Time
	if month != "" {
		if at, err = time.Parse("2006-01", month); err != nil {
			return billing.Costs{}, errs.Field("month", "%q is not a month: write it as 2026-09", month)
		}
	}
	return u.billing.Costs(ctx, tenantID, t.Plan, at)
}

// Plans implements httpapi.Billing.
func (u *usage) Plans(ctx context.Context, tenantID tenant.ID) ([]api.Plan, error) {
	t, err := u.tenants.Tenant(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	p := tenant.PlanOf(tenant.PlanFree)
	book := billing.BookAt(u.now())
	plan := api.Plan{
		Id: p.ID, Name: "Free", Description: "To start with; usage beyond the included amounts is billed by the price book.", PriceBookId: book.ID,
		Currency: book.Currency, MonthlyFee: new(big.Int).String(), Current: t.Plan == p.ID, Limits: []api.PlanLimit{},
		CreatedAt: api.NewTimestamp(book.CreatedAt), UpdatedAt: api.NewTimestamp(book.CreatedAt), Revision: 1,
	}
	for _, l := range p.Limits {
		plan.Limits = append(plan.Limits, api.PlanLimit{Name: l.Name, Kind: api.QuotaKind(tenant.QuotaCount), Unit: l.Name, Limit: max(l.Tenant, l.Namespace)})
	}
	for _, r := range []struct {
		name, unit string
		limit      int64
	}{
		{"send_messages", "messages/s", p.Rates.SendMessages}, {"send_bytes", "bytes/s", p.Rates.SendBytes},
		{"receive_messages", "messages/s", p.Rates.ReceiveMessages}, {"requests", "requests/s", p.Rates.Requests},
	} {
		plan.Limits = append(plan.Limits, api.PlanLimit{Name: r.name, Kind: api.QuotaKind(tenant.QuotaRate), Unit: r.unit, Limit: r.limit})
	}
	return []api.Plan{plan}, nil
}

// PriceBooks implements httpapi.Billing.
func (u *usage) PriceBooks(context.Context, tenant.ID) ([]api.PriceBook, error) {
	var out []api.PriceBook
	for _, b := range billing.Books() {
		book := api.PriceBook{
			Id: b.ID, Currency: b.Currency, MinorUnitDigits: b.MinorUnitDigits, EffectiveFrom: api.NewTimestamp(b.From), Prices: []api.Price{},
			CreatedAt: api.NewTimestamp(b.CreatedAt), UpdatedAt: api.NewTimestamp(b.CreatedAt), Revision: 1,
		}
		if b.To != nil {
			to := api.NewTimestamp(*b.To)
			book.EffectiveTo = &to
		}
		for _, p := range b.Prices {
			book.Prices = append(book.Prices, api.Price{
				Meter: string(p.Meter), Unit: p.Unit, PricePer: p.PricePer.String(), UnitPriceMicros: p.UnitPriceMicros.String(),
				Included: p.Included.String(), Description: p.Description,
			})
		}
		out = append(out, book)
	}
	return out, nil
}
