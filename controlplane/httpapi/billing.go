package httpapi

import (
	"bytes"
	"context"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/internal/errs"
)

func (s *server) billing() (Billing, error) {
	if s.d.Billing == nil {
		return nil, errs.E(errs.Unavailable, "this server has no billing")
	}
	return s.d.Billing, nil
}

// GetUsage shows what was used.
func (s *server) GetUsage(gc context.Context, r GetUsageRequestObject) (GetUsageResponseObject, error) {
	c, ctx := enter(gc)
	b, err := s.billing()
	if err != nil {
		return nil, err
	}
	if err := s.checkUsage(ctx, c, r.Params.NamespaceId, r.Params.Topic, r.Params.Group); err != nil {
		return nil, err
	}
	cursor, err := s.after(c, r.Params.PageToken)
	if err != nil {
		return nil, err
	}
	u, next, err := b.Usage(ctx, c.tenantID(), r.Params, int(or(r.Params.PageSize, defaultPageSize)), cursor)
	if err != nil {
		return nil, err
	}
	u.NextPageToken = s.next(c, next)
	return GetUsage200JSONResponse(u), nil
}

// checkUsage refuses filters that make no sense alone. A namespace that is
// gone may be asked for: it was used before.
func (s *server) checkUsage(_ context.Context, _ *call, ns, topic, group *string) error {
	switch {
	case topic != nil && ns == nil:
		return errs.Field("query.namespace_id", "topic needs namespace_id")
	case group != nil && ns == nil:
		return errs.Field("query.namespace_id", "group needs namespace_id")
	}
	return nil
}

// GetUsageCsv is GetUsage as a file.
func (s *server) GetUsageCsv(gc context.Context, r GetUsageCsvRequestObject) (GetUsageCsvResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	b, err := s.billing()
	if err != nil {
		return nil, err
	}
	if err := s.checkUsage(ctx, c, r.Params.NamespaceId, r.Params.Topic, r.Params.Group); err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := b.UsageCSV(ctx, c.tenantID(), r.Params, &file); err != nil {
		return nil, err
	}
	return GetUsageCsv200TextcsvResponse{Body: &file, ContentLength: int64(file.Len()),
		Headers: GetUsageCsv200ResponseHeaders{ContentDisposition: `attachment; filename="usage.csv"`}}, nil
}

// GetCosts shows what a month costs.
func (s *server) GetCosts(gc context.Context, r GetCostsRequestObject) (GetCostsResponseObject, error) {
	c, ctx := enter(gc)
	b, err := s.billing()
	if err != nil {
		return nil, err
	}
	costs, err := b.Costs(ctx, c.tenantID(), s.month(r.Params.Month))
	if err != nil {
		return nil, err
	}
	return GetCosts200JSONResponse(costs), nil
}

func (s *server) month(m *string) string { return or(m, s.d.Now().UTC().Format("2006-01")) }

// GetCostsCsv is GetCosts as a file.
func (s *server) GetCostsCsv(gc context.Context, r GetCostsCsvRequestObject) (GetCostsCsvResponseObject, error) { //nolint:revive // the name is the contract's
	c, ctx := enter(gc)
	b, err := s.billing()
	if err != nil {
		return nil, err
	}
	month := s.month(r.Params.Month)
	var file bytes.Buffer
	if err := b.CostsCSV(ctx, c.tenantID(), month, &file); err != nil {
		return nil, err
	}
	return GetCostsCsv200TextcsvResponse{Body: &file, ContentLength: int64(file.Len()),
		Headers: GetCostsCsv200ResponseHeaders{ContentDisposition: `attachment; filename="costs-` + month + `.csv"`}}, nil
}

// ListPlans shows the plans on offer.
func (s *server) ListPlans(gc context.Context, r ListPlansRequestObject) (ListPlansResponseObject, error) {
	c, ctx := enter(gc)
	b, err := s.billing()
	if err != nil {
		return nil, err
	}
	plans, err := b.Plans(ctx, c.tenantID())
	if err != nil {
		return nil, err
	}
	items, next, err := whole(s, c, r.Params.PageSize, r.Params.PageToken, plans, func(p api.Plan) string { return p.Id })
	if err != nil {
		return nil, err
	}
	return ListPlans200JSONResponse{Items: items, NextPageToken: next}, nil
}

// ListPriceBooks shows prices.
func (s *server) ListPriceBooks(gc context.Context, r ListPriceBooksRequestObject) (ListPriceBooksResponseObject, error) {
	c, ctx := enter(gc)
	b, err := s.billing()
	if err != nil {
		return nil, err
	}
	books, err := b.PriceBooks(ctx, c.tenantID())
	if err != nil {
		return nil, err
	}
	items, next, err := whole(s, c, r.Params.PageSize, r.Params.PageToken, books, func(p api.PriceBook) string { return p.Id })
	if err != nil {
		return nil, err
	}
	return ListPriceBooks200JSONResponse{Items: items, NextPageToken: next}, nil
}
