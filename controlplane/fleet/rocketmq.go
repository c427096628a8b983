package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// Attributes of topics and groups on brokers.
const (
	attributeID   = "sluice.id"
	attributeType = "message.type" // RocketMQ's own
)

// Remote is a name server or broker reached over RocketMQ's admin requests.
type Remote struct{ mqclient.Node }

var (
	_ Node   = Remote{}
	_ Broker = Remote{}
)

// Name implements Node.
func (r Remote) Name() string { return r.Addr() }

// ApplyPolicy implements Node.
func (r Remote) ApplyPolicy(ctx context.Context, envelope []byte) (uint64, error) {
	revision, err := r.Node.ApplyPolicy(ctx, envelope)
	if errors.Is(err, mqclient.ErrPolicyStale) {
		err = fmt.Errorf("%w: %w", ErrStale, err)
	}
	return revision, err
}

// Policy implements Node.
func (r Remote) Policy(ctx context.Context) (revision uint64, hash string, err error) {
	return r.PolicyStatus(ctx)
}

// Topics implements Broker.
func (r Remote) Topics(ctx context.Context) (map[string]TopicConfig, error) {
	list, _, err := r.Node.Topics(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]TopicConfig, len(list))
	for name, t := range list {
		out[name] = TopicConfig{Name: name, ID: t.Attributes[attributeID], Type: t.Attributes[attributeType], Queues: t.WriteQueueNums, Perm: t.Perm}
	}
	return out, nil
}

// PutTopic implements Broker.
func (r Remote) PutTopic(ctx context.Context, t TopicConfig) error {
	return refused(r.Node.PutTopic(ctx, wire.TopicConfig{
		TopicName: t.Name, ReadQueueNums: t.Queues, WriteQueueNums: t.Queues, Perm: t.Perm, TopicFilterType: "SINGLE_TAG",
		Attributes: map[string]string{attributeID: t.ID, attributeType: t.Type},
	}))
}

// DeleteTopic implements Broker.
func (r Remote) DeleteTopic(ctx context.Context, name string) error {
	return refused(r.Node.DeleteTopic(ctx, name))
}

// Groups implements Broker.
func (r Remote) Groups(ctx context.Context) (map[string]GroupConfig, error) {
	list, _, err := r.Node.Groups(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]GroupConfig, len(list))
	for name, g := range list {
		out[name] = GroupConfig{Name: name, ID: g.Attributes[attributeID], FIFO: g.ConsumeMessageOrderly, ConsumeEnabled: g.ConsumeEnable,
			Broadcast: g.ConsumeBroadcastEnable, MaxAttempts: g.RetryMaxTimes}
	}
	return out, nil
}

// PutGroup implements Broker.
func (r Remote) PutGroup(ctx context.Context, g GroupConfig) error {
	c := mqclient.DefaultGroup(g.Name)
	c.Attributes = map[string]string{attributeID: g.ID}
	c.ConsumeMessageOrderly, c.ConsumeEnable, c.ConsumeBroadcastEnable, c.RetryMaxTimes = g.FIFO, g.ConsumeEnabled, g.Broadcast, g.MaxAttempts
	return refused(r.Node.PutGroup(ctx, c))
}

// DeleteGroup implements Broker; the group's offsets go with it.
func (r Remote) DeleteGroup(ctx context.Context, name string) error {
	return refused(r.Node.DeleteGroup(ctx, name, true))
}

// refused marks the answers that trying again would not change.
func refused(err error) error {
	code, ok := mqclient.CodeOf(err)
	if ok && (code == wire.InvalidParameter || code == wire.MessageIllegal || code == wire.NoPermission) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
