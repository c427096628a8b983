package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// resetIn is a reset as the brokers' side has it. What goes with what is of the
// contract, but too much for its schema.
func resetIn(in api.OffsetReset) (catalog.OffsetReset, error) {
	r := catalog.OffsetReset{Topic: in.Topic, Broker: or(in.Broker, ""), Queue: in.Queue}
	byTime, byOffset := in.To == api.OffsetResetToTime, in.To == api.OffsetResetToOffset
	switch {
	case byTime && in.Timestamp == nil:
		return r, errs.Field("timestamp", "to time needs a timestamp")
	case !byTime && in.Timestamp != nil:
		return r, errs.Field("timestamp", "timestamp goes with to time alone")
	case byOffset && in.Offset == nil:
		return r, errs.Field("offset", "to offset needs an offset")
	case !byOffset && in.Offset != nil:
		return r, errs.Field("offset", "offset goes with to offset alone")
	case byOffset && in.Queue == nil:
		return r, errs.Field("queue", "to offset needs a queue: every queue has offsets of its own")
	}
	switch {
	case byTime:
		// A broker takes what is before 1970 for a fault, and no message is as old.
		if r.Time = in.Timestamp.UTC(); r.Time.UnixMilli() < 0 {
			r.Time = time.UnixMilli(0)
		}
	case byOffset:
		n, err := strconv.ParseInt(*in.Offset, 10, 64)
		if err != nil {
			return r, errs.Field("offset", "offset %s does not fit 64 bits", *in.Offset)
		}
		r.Offset = &n
	case in.To == api.OffsetResetToEarliest:
		r.Time = time.UnixMilli(0)
	}
	return r, nil
}

func resetOut(r catalog.OffsetReset, queues []catalog.QueueReset) api.OffsetResetResult {
	out := api.OffsetResetResult{NamespaceId: r.NamespaceID, Group: r.Group, Topic: r.Topic, Queues: []api.QueueReset{}, Undo: []api.OffsetReset{}}
	var redelivered, skipped int64
	for _, q := range queues {
		redelivered += q.Redelivered()
		skipped += q.Skipped()
		out.Queues = append(out.Queues, api.QueueReset{Broker: q.Broker, Queue: q.Queue, FromOffset: strconv.FormatInt(q.From, 10), ToOffset: count(q.To),
			Redelivered: count(q.Redelivered()), Skipped: count(q.Skipped())})
		if q.From >= 0 && q.From != q.To {
			out.Undo = append(out.Undo, api.OffsetReset{Topic: r.Topic, To: api.OffsetResetToOffset, Broker: &q.Broker, Queue: &q.Queue, Offset: some(count(q.From))})
		}
	}
	out.Redelivered, out.Skipped = count(redelivered), count(skipped)
	return out
}

// ResetGroupOffset moves a group in a topic.
func (s *server) ResetGroupOffset(gc context.Context, r ResetGroupOffsetRequestObject) (ResetGroupOffsetResponseObject, error) {
	c, ctx := enter(gc)
	g, err := s.d.Catalog.Group(ctx, c.tenantID(), r.Ns, r.Group)
	if err != nil {
		return nil, err
	}
	reset, err := resetIn(*r.Body)
	if err != nil {
		return nil, err
	}
	reset.NamespaceID, reset.Group = r.Ns, r.Group
	if err := s.mayReset(ctx, c, reset); err != nil {
		return nil, err
	}
	if s.d.Messages == nil {
		return nil, errNoData()
	}
	c.touches("group", g.ID, r.Ns)
	out, err := writeBrokers(ctx, s, c, r.Params.DryRun, func(ctx context.Context, dry bool) (api.OffsetResetResult, error) {
		reset.DryRun = dry
		queues, err := s.d.Messages.ResetOffsets(ctx, reset)
		return resetOut(reset, queues), err
	})
	if err != nil {
		return nil, err
	}
	return ResetGroupOffset200JSONResponse(out), nil
}

// mayReset answers whether the topic is there and the caller may see it: the
// answer tells how many messages it has. What belongs to a group goes with it.
func (s *server) mayReset(ctx context.Context, c *call, r catalog.OffsetReset) error {
	if owner, ok := catalog.GroupOf(r.Topic); ok {
		if owner != r.Group {
			return errs.Field("topic", "topic %q belongs to another group", r.Topic)
		}
		return nil
	}
	if err := auth.MayOn(c.principal, "topic:read", auth.Resource{NamespaceID: r.NamespaceID, Topic: r.Topic}); err != nil {
		return err
	}
	if err := s.rulesAllowOne(ctx, c, tenant.ResourceTopic, r.Topic, tenant.PermissionDescribe); err != nil {
		return err
	}
	if _, err := s.d.Catalog.Topic(ctx, c.tenantID(), r.NamespaceID, r.Topic); errs.Is(err, errs.NotFound) {
		return errs.Field("topic", "topic %q does not exist in this namespace", r.Topic)
	} else if err != nil {
		return err
	}
	return nil
}
