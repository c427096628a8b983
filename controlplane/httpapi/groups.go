package httpapi

import (
	"context"
	"strconv"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

func groupOut(g catalog.Group) api.Group {
	strategy, delays := api.RetryStrategy(g.Retry.Strategy), strs[catalog.Duration, api.Duration](g.Retry.Delays)
	dead := g.DeadLetter.Topic
	if dead == "" {
		dead = catalog.DeadLetterPrefix + g.Name
	}
	return api.Group{Id: g.ID, NamespaceId: g.NamespaceID, Name: g.Name, Order: api.GroupOrder(g.Order), ConsumeEnabled: g.ConsumeEnabled, Broadcast: g.Broadcast,
		Retry:      api.GroupRetry{MaxAttempts: &g.Retry.MaxAttempts, Strategy: &strategy, Delays: &delays},
		DeadLetter: api.GroupDeadLetter{Enabled: &g.DeadLetter.Enabled, Topic: &dead}, MaxInFlight: g.MaxInFlight,
		MaxRecvTps: int32(g.MaxReceiveTPS), Description: g.Description, Labels: labels(g.Labels), DeletionProtection: g.DeletionProtection, //nolint:gosec // limited by the contract
		Status: status(g.Status), CreatedAt: at(g.CreatedAt), UpdatedAt: at(g.UpdatedAt), Revision: g.Revision}
}

func retryIn(in *api.GroupRetry) *catalog.Retry {
	if in == nil {
		return nil
	}
	return &catalog.Retry{MaxAttempts: or(in.MaxAttempts, 0), Strategy: string(or(in.Strategy, "")), Delays: strs[api.Duration, catalog.Duration](or(in.Delays, nil))}
}

func deadLetterIn(in *api.GroupDeadLetter) *catalog.DeadLetter {
	if in == nil {
		return nil
	}
	return &catalog.DeadLetter{Enabled: or(in.Enabled, true), Topic: or(in.Topic, "")}
}

// ListGroups lists the groups of a namespace.
func (s *server) ListGroups(gc context.Context, r ListGroupsRequestObject) (ListGroupsResponseObject, error) {
	c, ctx := enter(gc)
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]catalog.Group, error) {
			return only(p, func(p tenant.Page) ([]catalog.Group, error) {
				return s.d.Catalog.Groups(ctx, c.tenantID(), r.Ns, or(r.Params.Prefix, ""), p)
			}, func(g catalog.Group) tenant.ID { return g.ID }, func(g catalog.Group) error { return c.mayGroup(r.Ns, g.Name) })
		},
		func(g catalog.Group) string { return g.ID }, groupOut)
	if err != nil {
		return nil, err
	}
	return ListGroups200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateGroup makes a group.
func (s *server) CreateGroup(gc context.Context, r CreateGroupRequestObject) (CreateGroupResponseObject, error) {
	c, ctx := enter(gc)
	in := catalog.Group{Name: r.Body.Name, Order: string(or(r.Body.Order, "")), ConsumeEnabled: or(r.Body.ConsumeEnabled, true), Broadcast: or(r.Body.Broadcast, true),
		Retry: or(retryIn(r.Body.Retry), catalog.Retry{}), DeadLetter: or(deadLetterIn(r.Body.DeadLetter), catalog.DeadLetter{Enabled: true}),
		MaxInFlight: or(r.Body.MaxInFlight, 0), MaxReceiveTPS: int64(or(r.Body.MaxRecvTps, 0)), Description: or(r.Body.Description, ""),
		Labels: or(r.Body.Labels, nil), DeletionProtection: isTrue(r.Body.DeletionProtection)}
	if err := c.mayGroup(r.Ns, in.Name); err != nil {
		return nil, err
	}
	if err := s.rulesAllowOne(ctx, c, tenant.ResourceGroup, in.Name, tenant.PermissionManage); err != nil {
		return nil, err
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Group, error) {
		g, err := s.d.Catalog.CreateGroup(ctx, c.tenantID(), r.Ns, in)
		c.touches("group", g.ID, r.Ns)
		return groupOut(g), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateGroup200JSONResponse(out), nil
	}
	if out, err = s.awaitGroup(ctx, c, out, r.Params.Wait); err != nil {
		return nil, err
	}
	return CreateGroup201JSONResponse{Body: out, Headers: CreateGroup201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/namespaces/" + r.Ns + "/groups/" + out.Name}}, nil
}

func (s *server) awaitGroup(ctx context.Context, c *call, out api.Group, wait *string) (api.Group, error) {
	d := waiting(wait)
	if d == 0 {
		return out, nil
	}
	if err := s.d.Catalog.Wait(ctx, catalog.KindGroup, out.Id, out.Revision, d); err != nil {
		return out, err
	}
	g, err := s.d.Catalog.Group(ctx, c.tenantID(), out.NamespaceId, out.Name)
	if err != nil {
		return out, err
	}
	return groupOut(g), nil
}

// GetGroup shows one group.
func (s *server) GetGroup(gc context.Context, r GetGroupRequestObject) (GetGroupResponseObject, error) {
	c, ctx := enter(gc)
	g, err := s.d.Catalog.Group(ctx, c.tenantID(), r.Ns, r.Group)
	if err != nil {
		return nil, err
	}
	return GetGroup200JSONResponse{Body: groupOut(g), Headers: GetGroup200ResponseHeaders{ETag: etag(g.Revision)}}, nil
}

// UpdateGroup changes one group.
func (s *server) UpdateGroup(gc context.Context, r UpdateGroupRequestObject) (UpdateGroupResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	u := catalog.GroupUpdate{ConsumeEnabled: r.Body.ConsumeEnabled, Broadcast: r.Body.Broadcast, Retry: retryIn(r.Body.Retry), DeadLetter: deadLetterIn(r.Body.DeadLetter),
		MaxInFlight: r.Body.MaxInFlight, MaxReceiveTPS: wide(r.Body.MaxRecvTps), Description: r.Body.Description, Labels: or(r.Body.Labels, nil),
		DeletionProtection: r.Body.DeletionProtection}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Group, error) {
		g, err := s.d.Catalog.UpdateGroup(ctx, c.tenantID(), r.Ns, r.Group, u, want)
		c.touches("group", g.ID, r.Ns)
		return groupOut(g), err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if out, err = s.awaitGroup(ctx, c, out, r.Params.Wait); err != nil {
			return nil, err
		}
	}
	return UpdateGroup200JSONResponse{Body: out, Headers: UpdateGroup200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// DeleteGroup removes one group.
func (s *server) DeleteGroup(gc context.Context, r DeleteGroupRequestObject) (DeleteGroupResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	g, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Group, error) {
		g, err := s.d.Catalog.DeleteGroup(ctx, c.tenantID(), r.Ns, r.Group, want)
		c.touches("group", g.ID, r.Ns)
		return groupOut(g), err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if err := s.d.Catalog.Wait(ctx, catalog.KindGroup, g.Id, g.Revision, waiting(r.Params.Wait)); err != nil {
			return nil, err
		}
	}
	return DeleteGroup204Response{}, nil
}

// GetGroupLag tells how far a group is behind.
func (s *server) GetGroupLag(gc context.Context, r GetGroupLagRequestObject) (GetGroupLagResponseObject, error) {
	c, ctx := enter(gc)
	if _, err := s.d.Catalog.Group(ctx, c.tenantID(), r.Ns, r.Group); err != nil {
		return nil, err
	}
	if s.d.Messages == nil {
		return nil, errNoData()
	}
	queues, err := s.d.Messages.Lag(ctx, r.Ns, r.Group)
	if err != nil {
		return nil, err
	}
	out := GetGroupLag200JSONResponse{NamespaceId: r.Ns, Group: r.Group, AsOf: at(s.d.Now()), Topics: []api.TopicLag{}}
	var total int64
	sums := map[string]int64{}
	place := map[string]int{}
	for _, q := range queues {
		i, ok := place[q.Topic]
		if !ok {
			i = len(out.Topics)
			place[q.Topic] = i
			out.Topics = append(out.Topics, api.TopicLag{Topic: q.Topic, Queues: []api.QueueLag{}})
		}
		lag := max(0, q.Lag)
		sums[q.Topic] += lag
		total += lag
		out.Topics[i].Queues = append(out.Topics[i].Queues, api.QueueLag{Queue: q.Queue, MinOffset: count(q.MinOffset), MaxOffset: count(q.MaxOffset),
			CommittedOffset: strconv.FormatInt(q.Committed, 10), Lag: count(lag), ConsumerId: some(q.ConsumerID)})
	}
	for i := range out.Topics {
		out.Topics[i].Lag = count(sums[out.Topics[i].Topic])
	}
	out.Lag = count(total)
	return out, nil
}

func count(n int64) string { return strconv.FormatInt(max(0, n), 10) }

func errNoData() error { return errs.E(errs.Unavailable, "this server has no way to a data plane") }
