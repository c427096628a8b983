package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

// sdk is one of the two official Go SDKs.
type sdk interface {
	fmt.Stringer
	producer(d *demo) (sender, error)
	// consume hands each delivered body of the topics to take, as group, until
	// take returns false or ctx ends.
	consume(ctx context.Context, d *demo, group string, take func(body string) bool, topics ...string) error
}

type sender interface {
	send(ctx context.Context, topic string, body []byte) error
	close()
}

func init() { rlog.SetLogLevel("fatal") }

// stored counts the messages of a topic by looking.
func (d *demo) stored(ctx context.Context, topic string) (int, error) {
	n, token := 0, ""
	for {
		var page struct {
			Items         []struct{} `json:"items"`
			NextPageToken string     `json:"next_page_token"`
		}
		q := url.Values{"from": {d.began.UTC().Format(time.RFC3339)}, "page_size": {"1000"}}
		if token != "" {
			q.Set("page_token", token)
		}
		if err := d.account.Do(ctx, "GET", "/v1/namespaces/"+d.account.NamespaceID+"/topics/"+topic+"/messages?"+q.Encode(), nil, &page); err != nil {
			return 0, err
		}
		n += len(page.Items)
		if token = page.NextPageToken; token == "" {
			return n, nil
		}
	}
}

// remoting is rocketmq-client-go v2.
type remoting struct{}

func (remoting) String() string { return "remoting" }

type remotingSender struct{ rocketmq.Producer }

func (remoting) producer(d *demo) (sender, error) {
	p, err := rocketmq.NewProducer(
		producer.WithNameServer(primitive.NamesrvAddr{d.server.NameSrv}), producer.WithGroupName("demo"), producer.WithRetry(0),
		producer.WithInstanceName(fmt.Sprint("p", time.Now().UnixNano())),
		producer.WithCredentials(primitive.Credentials{AccessKey: d.account.KeyID, SecretKey: d.account.Secret}))
	if err != nil {
		return nil, err
	}
	return remotingSender{p}, p.Start()
}

func (p remotingSender) send(ctx context.Context, topic string, body []byte) error {
	r, err := p.SendSync(ctx, primitive.NewMessage(topic, body))
	if err == nil && r.Status != primitive.SendOK {
		err = fmt.Errorf("send status %d", r.Status)
	}
	return err
}

func (p remotingSender) close() { _ = p.Shutdown() } // the process ends soon

func (remoting) consume(ctx context.Context, d *demo, group string, take func(body string) bool, topics ...string) error {
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(primitive.NamesrvAddr{d.server.NameSrv}), consumer.WithGroupName(group),
		consumer.WithInstance(fmt.Sprint("c", time.Now().UnixNano())), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithCredentials(primitive.Credentials{AccessKey: d.account.KeyID, SecretKey: d.account.Secret}))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	done, finished := make(chan struct{}), false
	handle := func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range ms {
			if !take(string(m.Body)) && !finished {
				finished = true
				close(done)
			}
		}
		return consumer.ConsumeSuccess, nil
	}
	for _, topic := range topics {
		err = errors.Join(err, c.Subscribe(topic, consumer.MessageSelector{}, handle))
	}
	if err = errors.Join(err, c.Start()); err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return errors.Join(err, c.Shutdown())
}

// grpc is rocketmq-clients/golang v5.
type grpc struct{}

func (grpc) String() string { return "grpc" }

func (grpc) config(d *demo, group string) *rmq.Config {
	return &rmq.Config{Endpoint: d.server.GRPC, ConsumerGroup: group,
		Credentials: &credentials.SessionCredentials{AccessKey: d.account.KeyID, AccessSecret: d.account.Secret}}
}

type grpcSender struct{ rmq.Producer }

func (g grpc) producer(d *demo) (sender, error) {
	p, err := rmq.NewProducer(g.config(d, ""), rmq.WithTopics("hello"), rmq.WithMaxAttempts(1))
	if err != nil {
		return nil, err
	}
	return grpcSender{p}, p.Start()
}

func (p grpcSender) send(ctx context.Context, topic string, body []byte) error {
	_, err := p.Send(ctx, &rmq.Message{Topic: topic, Body: body})
	return err
}

func (p grpcSender) close() { _ = p.GracefulStop() }

func (g grpc) consume(ctx context.Context, d *demo, group string, take func(body string) bool, topics ...string) error {
	all := map[string]*rmq.FilterExpression{}
	for _, topic := range topics {
		all[topic] = rmq.SUB_ALL
	}
	c, err := rmq.NewSimpleConsumer(g.config(d, group), rmq.WithSimpleAwaitDuration(time.Second), rmq.WithSimpleSubscriptionExpressions(all))
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	defer func() { _ = c.GracefulStop() }()
	more := true
	for more {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		ms, err := c.Receive(ctx, 32, 30*time.Second)
		if err != nil { // nothing to receive is an error in this SDK
			continue
		}
		for _, m := range ms {
			more = take(string(m.GetBody())) && more
			if err := c.Ack(ctx, m); err != nil {
				return fmt.Errorf("ack: %w", err)
			}
		}
	}
	return nil
}
