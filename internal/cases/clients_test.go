package cases

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"

	"github.com/sluicemq/sluice/internal/standalone"
)

func init() { rlog.SetLogLevel("fatal") }

// key is an API key and where to use it.
type key struct {
	standalone.Addresses
	id, secret string
}

var instances atomic.Int64

// instance is a client name that no other client of this process has: clients
// of one name share connections.
func instance() string { return fmt.Sprint("i", instances.Add(1)) }

func (k key) remotingProducer(t testing.TB) rocketmq.Producer {
	t.Helper()
	p, err := rocketmq.NewProducer(producer.WithNameServer(primitive.NamesrvAddr{k.NameSrv}), producer.WithGroupName("cases"), producer.WithRetry(0),
		producer.WithInstanceName(instance()), producer.WithCredentials(primitive.Credentials{AccessKey: k.id, SecretKey: k.secret}))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown() })
	return p
}

// remotingConsumer runs a push consumer until the test ends or stop is called.
func (k key) remotingConsumer(t testing.TB, topic, group string, take func(context.Context, *primitive.MessageExt) consumer.ConsumeResult) (stop func()) {
	t.Helper()
	c, err := rocketmq.NewPushConsumer(consumer.WithNameServer(primitive.NamesrvAddr{k.NameSrv}), consumer.WithGroupName(group), consumer.WithInstance(instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithCredentials(primitive.Credentials{AccessKey: k.id, SecretKey: k.secret}))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Subscribe(topic, consumer.MessageSelector{}, func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			if r := take(ctx, m); r != consumer.ConsumeSuccess {
				return r, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	stop = func() {
		if done.CompareAndSwap(false, true) {
			_ = c.Shutdown()
		}
	}
	t.Cleanup(stop)
	return stop
}

func (k key) config(group string) *rmq.Config {
	return &rmq.Config{Endpoint: k.GRPC, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{AccessKey: k.id, AccessSecret: k.secret}}
}

func (k key) grpcProducer(t testing.TB, topic string) rmq.Producer {
	t.Helper()
	p, err := rmq.NewProducer(k.config(""), rmq.WithTopics(topic), rmq.WithMaxAttempts(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.GracefulStop() })
	return p
}

func (k key) grpcConsumer(t testing.TB, topic, group string) rmq.SimpleConsumer {
	t.Helper()
	c, err := rmq.NewSimpleConsumer(k.config(group), rmq.WithSimpleAwaitDuration(2*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.GracefulStop() })
	return c
}
