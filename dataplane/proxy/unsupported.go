package proxy

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

// What the protocol has and this server not yet; callers are admitted first.

// SyncLiteSubscription is refused: there are no lite topics.
func (s *service) SyncLiteSubscription(ctx context.Context, req *v2.SyncLiteSubscriptionRequest) (*v2.SyncLiteSubscriptionResponse, error) {
	return &v2.SyncLiteSubscriptionResponse{Status: s.f.serve(ctx, "sync_lite_subscription", func(c *call) error {
		if err := c.in(req.GetTopic(), req.GetGroup()); err != nil {
			return err
		}
		return notYet("lite topics are not supported yet")
	})}, nil
}
