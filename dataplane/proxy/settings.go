package proxy

import (
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/store"
)

// What clients are told besides what the group says.
const (
	producerAttempts = 3
	receiveBatch     = 32
	liteQuota        = 2000
	liteTopicBytes   = 64
	// maxEntries bounds topics and subscriptions in one client's settings.
	maxEntries = 1000
)

// defaultBackoff is how long a failed message waits before each next attempt.
var defaultBackoff = store.DefaultConfig().DelayLevels

// settle takes a client's settings over and returns the answer: everything
// that the client said, with our values written over it.
func (c *call) settle(told *v2.Settings) (*session, *v2.Settings, error) {
	switch told.GetPubSub().(type) {
	case *v2.Settings_Publishing:
		return c.settleProducer(told)
	case *v2.Settings_Subscription:
		return c.settleConsumer(told)
	}
	return nil, nil, fail(v2.Code_BAD_REQUEST, "settings_invalid", "the settings name neither what is published nor what is subscribed to")
}

func (c *call) settleProducer(told *v2.Settings) (*session, *v2.Settings, error) {
	if t := told.GetClientType(); told.ClientType != nil && t != v2.ClientType_PRODUCER {
		return nil, nil, fail(v2.Code_UNRECOGNIZED_CLIENT_TYPE, "client_type_invalid", "a client of type %s cannot publish", t)
	}
	topics := told.GetPublishing().GetTopics()
	if len(topics) > maxEntries {
		return nil, nil, failLimit(v2.Code_BAD_REQUEST, "settings_invalid", "1000 topics", "the settings name too many topics")
	}
	if err := c.in(topics...); err != nil {
		return nil, nil, err
	}
	producers, published := make([]string, 0, len(topics)), make(map[string]*v2.Resource, len(topics))
	for _, t := range topics {
		physical, err := c.topic(t, policy.OperationPub)
		if err != nil {
			return nil, nil, err
		}
		producers = append(producers, physical)
		published[physical] = t
	}
	s, err := c.session()
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.producers, s.publishes, s.timeout = producers, published, told.GetRequestTimeout().AsDuration()
	s.mu.Unlock()

	answer := c.echo(told)
	answer.BackoffPolicy = exponential(producerAttempts, 10*time.Millisecond, time.Second, 2)
	answer.GetPublishing().MaxBodySize = int32(c.f.cfg.MaxBodyBytes)
	answer.GetPublishing().ValidateMessageType = true
	return s, answer, nil
}

func (c *call) settleConsumer(told *v2.Settings) (*session, *v2.Settings, error) {
	switch t := told.GetClientType(); {
	case t == v2.ClientType_LITE_PUSH_CONSUMER || t == v2.ClientType_LITE_SIMPLE_CONSUMER:
		return nil, nil, notYet("lite consumers are not supported yet")
	case told.ClientType != nil && t != v2.ClientType_PUSH_CONSUMER && t != v2.ClientType_SIMPLE_CONSUMER && t != v2.ClientType_PULL_CONSUMER:
		return nil, nil, fail(v2.Code_UNRECOGNIZED_CLIENT_TYPE, "client_type_invalid", "a client of type %s cannot subscribe", t)
	}
	consumer, err := c.subscriptions(told)
	if err != nil {
		return nil, nil, err
	}
	s, err := c.session()
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.timeout = told.GetRequestTimeout().AsDuration()
	s.mu.Unlock()
	s.consumes(c.f.core, consumer, true)

	// A group that does not exist yet gets the defaults: the client starts,
	// and each receive says what is missing until it is there.
	g, ok := c.f.core.Group(consumer.Group)
	if !ok {
		g = store.DefaultGroupConfig(consumer.Group)
	}
	answer := c.echo(told)
	answer.BackoffPolicy = consumerBackoff(g, told.GetUserAgent().GetLanguage())
	sub := answer.GetSubscription()
	sub.Fifo = proto.Bool(g.ConsumeMessageOrderly)
	sub.ReceiveBatchSize = proto.Int32(receiveBatch)
	sub.LongPollingTimeout = durationpb.New(c.f.cfg.MaxPoll)
	sub.LiteSubscriptionQuota = proto.Int32(liteQuota)
	sub.MaxLiteTopicSize = proto.Int32(liteTopicBytes)
	return s, answer, nil
}

// subscriptions reads a consumer's group and what it wants, and admits both.
func (c *call) subscriptions(told *v2.Settings) (*broker.Consumer, error) {
	sub := told.GetSubscription()
	if len(sub.GetSubscriptions()) > maxEntries {
		return nil, failLimit(v2.Code_BAD_REQUEST, "settings_invalid", "1000 subscriptions", "the settings name too many subscriptions")
	}
	resources := []*v2.Resource{sub.GetGroup()}
	for _, e := range sub.GetSubscriptions() {
		resources = append(resources, e.GetTopic())
	}
	if err := c.in(resources...); err != nil {
		return nil, err
	}
	group, err := c.group(sub.GetGroup(), policy.OperationSub)
	if err != nil {
		return nil, err
	}
	consumer := &broker.Consumer{
		Group: group, ConsumeType: consumeType(told.GetClientType()), MessageModel: modelClustering, ConsumeFromWhere: "CONSUME_FROM_LAST_OFFSET",
	}
	for _, e := range sub.GetSubscriptions() {
		topic, err := c.topic(e.GetTopic(), policy.OperationSub)
		if err != nil {
			return nil, err
		}
		kind, expression := filterText(e.GetExpression())
		filter, err := broker.ParseFilter(kind, expression)
		if err != nil {
			return nil, err
		}
		consumer.Subscriptions = append(consumer.Subscriptions, broker.Subscription{
			Topic: topic, Expression: expression, ExpressionType: kind, Version: c.f.now().UnixMilli(), Filter: filter,
		})
	}
	return consumer, nil
}

// filterText returns the core's form of a filter expression.
func filterText(e *v2.FilterExpression) (kind, expression string) {
	kind, expression = "TAG", e.GetExpression()
	if e.GetType() == v2.FilterType_SQL {
		kind = "SQL92"
	}
	if expression == "" && kind == "TAG" {
		expression = "*"
	}
	return kind, expression
}

// echo copies what the client told, unknown fields included.
func (c *call) echo(told *v2.Settings) *v2.Settings {
	answer := proto.CloneOf(told)
	answer.Metric = &v2.Metric{On: false} // one SDK never starts without it
	return answer
}

func exponential(attempts int32, initial, limit time.Duration, multiplier float32) *v2.RetryPolicy {
	return &v2.RetryPolicy{MaxAttempts: attempts, Strategy: &v2.RetryPolicy_ExponentialBackoff{ExponentialBackoff: &v2.ExponentialBackoff{
		Initial: durationpb.New(initial), Max: durationpb.New(limit), Multiplier: multiplier,
	}}}
}

// consumerBackoff is the group's retry policy in the form that the client's
// language understands: the Node SDK knows exponential only, the Python SDK
// lists only.
func consumerBackoff(g store.GroupConfig, language v2.Language) *v2.RetryPolicy {
	attempts := int32(g.RetryMaxTimes) + 1
	retry := g.GroupRetryPolicy
	if e := retry.Exponential; retry.Type == "EXPONENTIAL" && e != nil && e.Initial > 0 && e.Max >= e.Initial && e.Multiplier > 0 {
		return exponential(attempts, time.Duration(e.Initial)*time.Millisecond, time.Duration(e.Max)*time.Millisecond, float32(e.Multiplier))
	}
	if language == v2.Language_NODE_JS {
		return exponential(attempts, time.Second, 2*time.Hour, 2)
	}
	waits := defaultBackoff
	if retry.Customized != nil && len(retry.Customized.Next) > 0 {
		waits = make([]time.Duration, len(retry.Customized.Next))
		for i, ms := range retry.Customized.Next {
			waits[i] = time.Duration(ms) * time.Millisecond
		}
	}
	next := make([]*durationpb.Duration, len(waits))
	for i, w := range waits {
		next[i] = durationpb.New(w)
	}
	return &v2.RetryPolicy{MaxAttempts: attempts, Strategy: &v2.RetryPolicy_CustomizedBackoff{CustomizedBackoff: &v2.CustomizedBackoff{Next: next}}}
}
