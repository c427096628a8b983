package messages

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/errs"
)

// place is a broker with the queues that it has of a topic.
type place struct {
	node   mqclient.Node
	queues []wire.ResetQueue
}

// ResetOffsets implements catalog.Messages. What the brokers have is looked at
// first, so that nothing moves when the wish does not fit one of them.
func (s *Service) ResetOffsets(ctx context.Context, r catalog.OffsetReset) ([]catalog.QueueReset, error) {
	places, err := s.places(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := fits(r, places); err != nil {
		return nil, err
	}
	queue, offset := int32(-1), int64(-1)
	if r.Queue != nil {
		queue = *r.Queue
	}
	if r.Offset != nil {
		offset = *r.Offset
	}
	out := []catalog.QueueReset{}
	for _, p := range places {
		moved, err := p.node.ResetOffsets(ctx, policy.PhysicalName(r.NamespaceID, r.Group), physical(r.NamespaceID, r.Topic), queue, offset, r.Time, r.DryRun)
		if err != nil {
			return nil, failure(err)
		}
		for _, q := range moved {
			out = append(out, catalog.QueueReset{Broker: q.BrokerName, Queue: q.QueueID, From: q.From, To: q.To, Min: q.Min})
		}
	}
	slices.SortFunc(out, func(a, b catalog.QueueReset) int {
		if c := strings.Compare(a.Broker, b.Broker); c != 0 {
			return c
		}
		return int(a.Queue - b.Queue)
	})
	return out, nil
}

// places are the brokers that r is about and have queues of its topic.
func (s *Service) places(ctx context.Context, r catalog.OffsetReset) ([]place, error) {
	group, topic := policy.PhysicalName(r.NamespaceID, r.Group), physical(r.NamespaceID, r.Topic)
	var out []place
	var names []string
	for _, node := range s.brokers {
		queues, err := settled(ctx, r.Topic, func() ([]wire.ResetQueue, error) {
			return node.ResetOffsets(ctx, group, topic, -1, -1, time.Time{}, true)
		})
		if err != nil {
			return nil, failure(err)
		}
		if len(queues) == 0 {
			continue
		}
		names = append(names, queues[0].BrokerName)
		if r.Broker == "" || r.Broker == queues[0].BrokerName {
			out = append(out, place{node, queues})
		}
	}
	if r.Broker != "" && len(out) == 0 {
		return nil, errs.Field("broker", "topic %s has queues at: %s", r.Topic, strings.Join(names, ", "))
	}
	return out, nil
}

// fits tells whether each of the places has what r names.
func fits(r catalog.OffsetReset, places []place) error {
	if r.Offset != nil && len(places) > 1 {
		return errs.Field("broker", "%d brokers have a queue %d of topic %s: name one", len(places), *r.Queue, r.Topic)
	}
	if r.Queue == nil {
		return nil
	}
	if len(places) == 0 {
		return errs.Field("queue", "topic %s has no queues yet", r.Topic)
	}
	for _, p := range places {
		i := slices.IndexFunc(p.queues, func(q wire.ResetQueue) bool { return q.QueueID == *r.Queue })
		if i < 0 {
			return errs.Field("queue", "topic %s has queues 0 to %d", r.Topic, len(p.queues)-1)
		}
		if end := p.queues[i].Max; r.Offset != nil && *r.Offset > end {
			e := errs.Field("offset", "offset %d is beyond the end of queue %d, which is %d", *r.Offset, *r.Queue, end)
			e.Limit = strconv.FormatInt(end, 10)
			return e
		}
	}
	return nil
}
