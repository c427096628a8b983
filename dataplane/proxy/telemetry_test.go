package proxy

import (
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicemq/sluice/dataplane/store"
)

func TestTelemetry_producer(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.SettingsRepeat = 20 * time.Millisecond })
	c := e.client("slk_a")
	told := producerSettings("orders")
	told.GetPublishing().GetTopics()[0].ResourceNamespace = nsA
	told.BackoffPolicy = &v2.RetryPolicy{MaxAttempts: 7, Strategy: &v2.RetryPolicy_ExponentialBackoff{ExponentialBackoff: &v2.ExponentialBackoff{}}}
	ts := c.telemetry(told)
	for range 2 { // the second one is the repeat that one SDK needs
		cmd, err := ts.Recv()
		if err != nil {
			t.Fatal(err)
		}
		want(t, cmd.GetStatus(), v2.Code_OK)
		s := cmd.GetSettings()
		if s.GetClientType() != v2.ClientType_PRODUCER || !proto.Equal(s.GetAccessPoint(), told.GetAccessPoint()) || !proto.Equal(s.GetUserAgent(), told.GetUserAgent()) ||
			!proto.Equal(s.GetPublishing().GetTopics()[0], told.GetPublishing().GetTopics()[0]) || !proto.Equal(s.GetRequestTimeout(), told.GetRequestTimeout()) {
			t.Errorf("the answer does not echo: %v", s)
		}
		b := s.GetBackoffPolicy()
		x := b.GetExponentialBackoff()
		if b.GetMaxAttempts() != 3 || x.GetInitial().AsDuration() != 10*time.Millisecond || x.GetMax().AsDuration() != time.Second || x.GetMultiplier() != 2 {
			t.Errorf("back-off is %v", b)
		}
		if s.GetPublishing().GetMaxBodySize() != 4<<20 || !s.GetPublishing().GetValidateMessageType() || s.GetMetric() == nil || s.GetMetric().GetOn() {
			t.Errorf("settings are %v", s)
		}
	}
	if ps := e.core.Producers(nsA + "%orders"); len(ps) != 1 {
		t.Errorf("%d producers of the topic, want 1", len(ps))
	}
}

func TestTelemetry_consumer(t *testing.T) {
	e := newEnv(t)
	e.group(nsA+"%ordered", func(g *store.GroupConfig) { g.ConsumeMessageOrderly, g.RetryMaxTimes = true, 4 })
	e.group(nsA+"%own", func(g *store.GroupConfig) {
		g.GroupRetryPolicy = store.GroupRetryPolicy{Type: "CUSTOMIZED", Customized: &store.CustomizedRetryPolicy{Next: []int64{1000, 2000}}}
	})
	c := e.client("slk_a")
	for _, tc := range []struct {
		group    string
		language v2.Language
		attempts int32
		list     int // 0: exponential
		fifo     bool
	}{
		{"g", v2.Language_JAVA, 17, 18, false},
		{"g", v2.Language_PYTHON, 17, 18, false},
		{"g", v2.Language_NODE_JS, 17, 0, false},
		{"own", v2.Language_GOLANG, 17, 2, false},
		{"own", v2.Language_NODE_JS, 17, 0, false},
		{"ordered", v2.Language_GOLANG, 5, 18, true},
		{"not-there-yet", v2.Language_GOLANG, 17, 18, false},
	} {
		told := consumerSettings(tc.group, v2.ClientType_PUSH_CONSUMER, "orders")
		told.UserAgent.Language = tc.language
		ts := c.telemetry(told)
		cmd, err := ts.Recv()
		if err != nil {
			t.Fatal(err)
		}
		want(t, cmd.GetStatus(), v2.Code_OK)
		s := cmd.GetSettings()
		sub, b := s.GetSubscription(), s.GetBackoffPolicy()
		if n := len(b.GetCustomizedBackoff().GetNext()); b.GetMaxAttempts() != tc.attempts || n != tc.list || tc.list == 0 && b.GetExponentialBackoff().GetMultiplier() == 0 {
			t.Errorf("%s, %v: back-off is %v", tc.group, tc.language, b)
		}
		if sub.GetFifo() != tc.fifo || sub.GetReceiveBatchSize() != 32 || sub.GetLongPollingTimeout().AsDuration() != e.cfg.MaxPoll ||
			sub.GetLiteSubscriptionQuota() == 0 || sub.GetMaxLiteTopicSize() == 0 || s.GetMetric() == nil || s.GetMetric().GetOn() {
			t.Errorf("%s: settings are %v", tc.group, s)
		}
		if !proto.Equal(sub.GetSubscriptions()[0], told.GetSubscription().GetSubscriptions()[0]) || !proto.Equal(sub.GetGroup(), told.GetSubscription().GetGroup()) {
			t.Errorf("%s: the answer does not echo", tc.group)
		}
		_ = ts.CloseSend()
		for err == nil {
			_, err = ts.Recv()
		}
	}
}

func TestTelemetry_badSettings(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	sql := consumerSettings("g", v2.ClientType_PUSH_CONSUMER, "orders")
	sql.GetSubscription().GetSubscriptions()[0].Expression = &v2.FilterExpression{Type: v2.FilterType_SQL, Expression: "a = "}
	producer := producerSettings("orders")
	producer.ClientType = v2.ClientType_SIMPLE_CONSUMER.Enum()
	for name, s := range map[string]*v2.Settings{
		"neither side": {ClientType: v2.ClientType_PRODUCER.Enum()}, "blank topic": producerSettings(""), "path as topic": producerSettings("../x"),
		"blank group": consumerSettings("", v2.ClientType_PUSH_CONSUMER), "SQL": sql, "consumer that publishes": producer,
		"lite": consumerSettings("g", v2.ClientType_LITE_PUSH_CONSUMER, "orders"),
	} {
		ts := c.telemetry(s)
		cmd, err := ts.Recv()
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "[SLUICE:") {
			t.Errorf("%s: got %v, %v, want InvalidArgument with the reason", name, cmd, err)
		}
	}
}

func TestTelemetry_ignoresWhatItDoesNotKnow(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	ts := c.telemetry(producerSettings("orders"))
	if err := ts.Send(&v2.TelemetryCommand{}); err != nil {
		t.Fatal(err)
	}
	if err := ts.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_VerifyMessageResult{VerifyMessageResult: &v2.VerifyMessageResult{Nonce: "x"}}}); err != nil {
		t.Fatal(err)
	}
	c.tell(ts, producerSettings("orders"))
	for range 2 { // both settings are answered
		if cmd, err := ts.Recv(); err != nil || cmd.GetSettings() == nil {
			t.Fatalf("got %v, %v", cmd, err)
		}
	}
}

// What a client said stays known over a reconnect, and a client that said
// nothing is served all the same.
func TestSession_survivesReconnect(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	told := consumerSettings("g", v2.ClientType_SIMPLE_CONSUMER, "orders")
	told.RequestTimeout = durationpb.New(7 * time.Second)
	ts := c.telemetry(told)
	if _, err := ts.Recv(); err != nil {
		t.Fatal(err)
	}
	c.cc.Close()
	e.noConnections()
	again := e.client("slk_a")
	hb, err := again.Heartbeat(again.ctx(), &v2.HeartbeatRequest{Group: named("g"), ClientType: v2.ClientType_SIMPLE_CONSUMER})
	if err != nil {
		t.Fatal(err)
	}
	want(t, hb.GetStatus(), v2.Code_OK)
	if n := len(e.front.sessions.all()); n != 1 {
		t.Fatalf("%d sessions, want 1", n)
	}
	s := e.front.sessions.all()[0]
	if d := s.requestTimeout(); d != 7*time.Second {
		t.Errorf("the request timeout is forgotten: %v", d)
	}
	if sub, ok := e.core.Subscribed(nsA+"%g", nsA+"%orders"); !ok || sub.Expression != "*" {
		t.Errorf("the subscription is forgotten: %v %v", sub, ok)
	}
}

func TestSession_silentClientIsForgotten(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	if _, err := c.Heartbeat(c.ctx(), &v2.HeartbeatRequest{Group: named("g"), ClientType: v2.ClientType_PUSH_CONSUMER}); err != nil {
		t.Fatal(err)
	}
	e.front.sessions.sweep()
	if ids := e.core.ConsumerIDs(nsA + "%g"); len(ids) != 1 {
		t.Errorf("members are %v, want one", ids)
	}
	e.clock.advance(e.cfg.SessionExpiry + time.Second)
	e.front.sessions.sweep()
	if ids := e.core.ConsumerIDs(nsA + "%g"); len(ids) != 0 || len(e.front.sessions.all()) != 0 {
		t.Errorf("members are %v and %d sessions, want none", ids, len(e.front.sessions.all()))
	}
}

func TestHeartbeat_refusals(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	for _, tc := range []struct {
		group string
		kind  v2.ClientType
		code  v2.Code
	}{
		{"g", v2.ClientType_SIMPLE_CONSUMER, v2.Code_OK},
		{"", v2.ClientType_PRODUCER, v2.Code_OK},
		{"nobody", v2.ClientType_PUSH_CONSUMER, v2.Code_CONSUMER_GROUP_NOT_FOUND},
		{"a/b", v2.ClientType_PUSH_CONSUMER, v2.Code_ILLEGAL_CONSUMER_GROUP},
		{"g", v2.ClientType_CLIENT_TYPE_UNSPECIFIED, v2.Code_UNRECOGNIZED_CLIENT_TYPE},
		{"g", v2.ClientType_LITE_PUSH_CONSUMER, v2.Code_NOT_IMPLEMENTED},
	} {
		hb, err := c.Heartbeat(c.ctx(), &v2.HeartbeatRequest{Group: named(tc.group), ClientType: tc.kind})
		if err != nil {
			t.Fatal(err)
		}
		want(t, hb.GetStatus(), tc.code)
	}
}

// pushPoll is one receive of a push consumer: the server keeps the messages
// invisible.
func pushPoll(topic, group string) *v2.ReceiveMessageRequest {
	req := poll(topic, group)
	req.AutoRenew, req.InvisibleDuration = true, nil
	return req
}

func TestAutoRenew(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.RenewPeriod = time.Hour }) // the test looks by itself
	c := e.client("slk_a")
	c.mustSend("orders", "x")
	_, got := c.receive(pushPoll("orders", "g"))
	if len(got) != 1 {
		t.Fatalf("got %d messages", len(got))
	}
	for range 10 { // ten minutes of work
		e.clock.advance(50 * time.Second)
		e.front.sessions.renew()
		c.none("orders", "g")
	}
	want(t, c.ack("orders", "g", got[0]).GetStatus(), v2.Code_OK)
	e.clock.advance(time.Hour)
	e.front.sessions.renew()
	c.none("orders", "g")

	// A nack is the last word.
	c.mustSend("orders", "y")
	_, got = c.receive(pushPoll("orders", "g"))
	want(t, c.change("orders", "g", got[0].GetSystemProperties().GetReceiptHandle(), 5*time.Second).GetStatus(), v2.Code_OK)
	e.clock.advance(6 * time.Second)
	e.front.sessions.renew()
	_, got = c.receive(pushPoll("orders", "g"))
	if len(got) != 1 || got[0].GetSystemProperties().GetDeliveryAttempt() != 2 {
		t.Fatalf("after the nack: %v", got)
	}

	// By message id alone, as one SDK does.
	dlq, err := c.ForwardMessageToDeadLetterQueue(c.ctx(), &v2.ForwardMessageToDeadLetterQueueRequest{Topic: named("orders"), Group: named("g"), MessageId: got[0].GetSystemProperties().GetMessageId()})
	if err != nil {
		t.Fatal(err)
	}
	want(t, dlq.GetStatus(), v2.Code_OK)

	// What a client that leaves held comes again within a second.
	c.mustSend("orders", "z")
	if _, got = c.receive(pushPoll("orders", "g")); len(got) != 1 {
		t.Fatalf("got %d messages", len(got))
	}
	for range 2 { // and twice is fine
		bye, err := c.NotifyClientTermination(c.ctx(), &v2.NotifyClientTerminationRequest{Group: named("g")})
		if err != nil {
			t.Fatal(err)
		}
		want(t, bye.GetStatus(), v2.Code_OK)
	}
	e.clock.advance(1100 * time.Millisecond)
	if again := c.take("orders", "g", 1); string(again[0].GetBody()) != "z" {
		t.Errorf("got %q", again[0].GetBody())
	}
}

// Messages are not renewed for ever.
func TestAutoRenew_ends(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.RenewPeriod = time.Hour })
	c := e.client("slk_a")
	c.mustSend("orders", "x")
	if _, got := c.receive(pushPoll("orders", "g")); len(got) != 1 {
		t.Fatal("nothing received")
	}
	for range 3*3600/50 + 10 { // three hours and a little
		e.clock.advance(50 * time.Second)
		e.front.sessions.renew()
	}
	e.clock.advance(time.Hour)
	if again := c.take("orders", "g", 1)[0]; again.GetSystemProperties().GetDeliveryAttempt() != 2 {
		t.Errorf("attempt %d, want 2", again.GetSystemProperties().GetDeliveryAttempt())
	}
}
