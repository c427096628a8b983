package cases

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// narrowKey makes a key with one permission on one topic and one group.
func narrowKey(t *testing.T, c *testcluster.Cluster, a *testcluster.Account, permission, topic, group string) key {
	t.Helper()
	var made struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	scope := map[string]any{"namespace_id": a.NamespaceID, "permissions": []string{permission}, "topics": []string{topic}, "groups": []string{group}}
	must(t, a.Do(t.Context(), "POST", "/v1/api-keys?wait=10s", map[string]any{"name": "narrow", "scopes": []any{scope}}, &made))
	return key{c.Addresses, made.ID, made.Secret}
}

// B146: the right to consume one topic in one group is enough to let a message
// fail until it is a dead letter, over both protocols, and for nothing else.
func TestConsumeRight_isEnoughToFail_B146(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("narrow@example.com")
	ctx := t.Context()
	must(t, errors.Join(a.CreateTopic(ctx, "other"), a.CreateGroup(ctx, "others")))
	owner, k := key{c.Addresses, a.KeyID, a.Secret}, narrowKey(t, c, a, "SUB", "hello", "hello-group")
	letters := func() (bodies string) {
		for _, m := range look(t, a, "%25DLQ%25hello-group", url.Values{}).Items {
			bodies += m.Body + " "
		}
		return bodies
	}
	attempts := make(chan int32, 8)
	stop := k.remotingConsumer(t, "hello", "hello-group", func(ctx context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
		attempts <- m.ReconsumeTimes
		cc, _ := primitive.GetConcurrentlyCtx(ctx)
		if cc.DelayLevelWhenNextConsume = 1; m.ReconsumeTimes > 0 {
			cc.DelayLevelWhenNextConsume = -1 // to the dead letters
		}
		return consumer.ConsumeRetryLater
	})
	must(t, remotingSend(t, owner, "hello")([]byte("remoting"), ""))
	must(t, testcluster.Eventually(ctx, 40*time.Second, func() (bool, error) { return strings.Contains(letters(), "remoting"), nil }))
	stop()
	if first, second := <-attempts, <-attempts; first != 0 || second != 1 {
		t.Errorf("attempts %d, %d", first, second)
	}

	s := signer{id: k.id, secret: k.secret}
	client, signed := dialRPC(t, c.GRPC), s.signed(ctx, "narrow")
	stream, err := client.telemetry(signed, "hello", "hello-group")
	must(t, err)
	defer func() { _ = stream.CloseSend() }()
	must(t, grpcSend(t, owner, "hello")([]byte("grpc"), ""))
	queues, err := client.queues(signed, "hello")
	must(t, err)
	must(t, testcluster.Eventually(ctx, 30*time.Second, func() (bool, error) {
		for _, q := range queues {
			forwarded, err := client.fail(signed, q, "hello-group")
			if forwarded || err != nil {
				return forwarded, err
			}
		}
		return false, nil
	}))
	must(t, testcluster.Eventually(ctx, 20*time.Second, func() (bool, error) { return strings.Contains(letters(), "grpc"), nil }))

	line := dialLine(t, c.Broker)
	for what, err := range map[string]error{
		"send to its topic": line.produce(s, "hello", "x"), "send to another": line.produce(s, "other", "x"), "send over gRPC": client.produce(signed, "hello", "01A2B3C4D5DD00000000000000000000", "x"),
		"route of another topic":   func() error { _, err := client.queues(signed, "other"); return err }(),
		"join another group":       func() error { _, err := client.telemetry(signed, "hello", "others"); return err }(),
		"offsets of another group": line.call(s, wire.QueryConsumerOffset, map[string]string{"topic": "hello", "queueId": "0", "consumerGroup": "others"}, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), "permission_denied") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// fail receives a message of a queue, if there is one, and forwards it to the
// dead letters.
func (r rpc) fail(ctx context.Context, q *v2.MessageQueue, group string) (forwarded bool, err error) {
	s, err := r.ReceiveMessage(ctx, &v2.ReceiveMessageRequest{Group: &v2.Resource{Name: group}, MessageQueue: q, BatchSize: 1,
		FilterExpression: &v2.FilterExpression{Expression: "*", Type: v2.FilterType_TAG}, InvisibleDuration: durationpb.New(30 * time.Second), LongPollingTimeout: durationpb.New(0)})
	if err != nil {
		return false, err
	}
	for {
		m, err := s.Recv()
		if err != nil {
			return false, nil //nolint:nilerr // the end of the answer
		}
		if got := m.GetMessage(); got != nil {
			resp, err := r.ForwardMessageToDeadLetterQueue(ctx, &v2.ForwardMessageToDeadLetterQueueRequest{Group: &v2.Resource{Name: group}, Topic: got.GetTopic(),
				MessageId: got.GetSystemProperties().GetMessageId(), ReceiptHandle: got.GetSystemProperties().GetReceiptHandle(), DeliveryAttempt: 1, MaxDeliveryAttempts: 1})
			err = succeeded(resp.GetStatus(), err)
			return err == nil, err
		}
	}
}

// requestID is what differs between two answers of the same kind.
var requestID = regexp.MustCompile(`request_id=\S+|\d{3,}`)

// B148: who may not read is told so, and does not get an empty answer; an id of
// a message that is out of reach is as absent as a made-up one.
func TestQueries_denialIsNoEmptyAnswer_B148(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("denied@example.com")
	p := key{c.Addresses, a.KeyID, a.Secret}.remotingProducer(t)
	m := primitive.NewMessage("hello", []byte("secret"))
	m.WithKeys([]string{"order-1"})
	sent, err := p.SendSync(t.Context(), m)
	must(t, err)
	_, offset, err := message.ParseOffsetID(sent.OffsetMsgID)
	must(t, err)
	line := dialLine(t, c.Broker)
	pull := wire.PullHeader{ConsumerGroup: "hello-group", Topic: "hello", MaxMessages: 1, SysFlag: wire.PullFlagSubscription, Subscription: "*", ExpressionType: "TAG"}
	asked := map[string]func(s signer) error{
		"by key": func(s signer) error {
			return line.call(s, wire.QueryMessage, map[string]string{"topic": "hello", "key": "order-1", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": "9999999999999"}, nil)
		},
		"by id": func(s signer) error {
			return line.call(s, wire.ViewMessageByID, map[string]string{"offset": strconv.FormatInt(offset, 10)}, nil)
		},
		"by offset": func(s signer) error { return line.call(s, wire.PullMessage, pull.Fields().Map(), nil) },
	}
	blind := narrowKey(t, c, a, "PUB", "hello", "hello-group")
	made := line.call(signer{id: blind.id, secret: blind.secret}, wire.ViewMessageByID, map[string]string{"offset": "123456789"}, nil)
	for what, ask := range asked {
		err := ask(signer{id: blind.id, secret: blind.secret})
		switch {
		case err == nil:
			t.Errorf("%s without the right: answered", what)
		case what == "by id":
			if made == nil || requestID.ReplaceAllString(err.Error(), "") != requestID.ReplaceAllString(made.Error(), "") {
				t.Errorf("an id out of reach is told apart from a made-up one: %v, %v", err, made)
			}
		case !strings.Contains(err.Error(), "permission_denied"):
			t.Errorf("%s without the right: %v", what, err)
		}
	}
	reader := narrowKey(t, c, a, "SUB", "hello", "hello-group")
	for _, what := range []string{"by key", "by id"} {
		must(t, testcluster.Eventually(t.Context(), 10*time.Second, func() (bool, error) {
			err := asked[what](signer{id: reader.id, secret: reader.secret})
			return err == nil, err
		}))
	}
	var s *testcluster.Status
	billing := struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}{}
	must(t, a.Do(t.Context(), "POST", "/v1/api-keys", map[string]any{"name": "bills", "control_role": "billing"}, &billing))
	bills := *a
	bills.KeyID, bills.Secret = billing.ID, billing.Secret
	bills.Token = token(t, &bills, "control")
	err = bills.Do(t.Context(), "GET", "/v1/namespaces/"+a.NamespaceID+"/topics/hello/messages?key=order-1", nil, nil)
	if !errors.As(err, &s) || s.Code != 403 || s.Problem.Code == "" {
		t.Errorf("over HTTP without the right: %v", err)
	}
	if page := look(t, a, "hello", url.Values{"key": {"order-1"}}); len(page.Items) != 1 {
		t.Errorf("over HTTP with the right: %+v", page)
	}
}

// B147: traces of messages are cleanly off: the answer to a send says so, and no
// key writes to or reads from a trace topic that tenants would share.
func TestTrace_isCleanlyOff_B147(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("trace@example.com")
	s := signer{id: a.KeyID, secret: a.Secret}
	line := dialLine(t, c.Broker)
	h := wire.SendHeader{ProducerGroup: "raw", Topic: "hello", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, BornTimestamp: time.Now().UnixMilli(), MaxReconsumeTimes: -1}
	must(t, line.send(s, wire.SendMessageV2, h.Fields(wire.SendMessageV2).Map(), []byte("x")))
	f, err := line.read(10 * time.Second)
	must(t, err)
	if on := f.Ext.Value("TRACE_ON"); f.Code != wire.Success || on != "false" {
		t.Errorf("code %d %s, TRACE_ON %q", f.Code, f.Remark, on)
	}
	for _, topic := range []string{"RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_DefaultRegion"} {
		if err := line.produce(s, topic, "x"); err == nil {
			t.Errorf("%s takes messages over remoting", topic)
		}
		if err := dialRPC(t, c.GRPC).produce(s.signed(t.Context(), "trace"), topic, "01A2B3C4D5CC00000000000000000000", "x"); err == nil {
			t.Errorf("%s takes messages over gRPC", topic)
		}
		if err := dialLine(t, c.NameSrv).route(s, topic); err == nil {
			t.Errorf("%s has a route", topic)
		}
	}
}
