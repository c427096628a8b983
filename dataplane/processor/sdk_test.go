//go:build !race

// The race detector stops at data races inside the official client.

package processor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// The tests of this file drive the official Go remoting client against the
// whole data plane in this process: route query at the name server, signed
// requests, heartbeats, rebalance, long polling.

// sdk makes clients of one tenant.
type sdk struct {
	*env
	key       string
	namespace string // "" speaks bare names
}

func (s sdk) credentials() primitive.Credentials {
	return primitive.Credentials{AccessKey: s.key, SecretKey: string(s.secret(s.key))}
}

func (s sdk) producer(instance string) rocketmq.Producer {
	s.t.Helper()
	opts := []producer.Option{
		producer.WithNameServer([]string{s.ns}), producer.WithGroupName("p"), producer.WithInstanceName(s.key + instance),
		producer.WithCredentials(s.credentials()), producer.WithRetry(0), producer.WithQueueSelector(producer.NewHashQueueSelector()),
	}
	if s.namespace != "" {
		opts = append(opts, producer.WithNamespace(s.namespace))
	}
	p, err := rocketmq.NewProducer(opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { p.Shutdown() })
	return p
}

type listen1 = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func (s sdk) consumer(instance, group, topic, tags string, fn listen1, more ...consumer.Option) rocketmq.PushConsumer {
	s.t.Helper()
	opts := append([]consumer.Option{
		consumer.WithNameServer([]string{s.ns}), consumer.WithGroupName(group), consumer.WithInstance(s.key + instance),
		consumer.WithCredentials(s.credentials()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)
	if s.namespace != "" {
		opts = append(opts, consumer.WithNamespace(s.namespace))
	}
	c, err := rocketmq.NewPushConsumer(opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}, fn); err != nil {
		s.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Shutdown() })
	return c
}

// inbox collects bodies by consumer.
type inbox struct {
	t    testing.TB
	mu   sync.Mutex
	got  map[string][]string // consumer -> bodies
	seen map[string]int      // body -> times
	news chan struct{}
}

func newInbox(t testing.TB) *inbox {
	return &inbox{t: t, got: map[string][]string{}, seen: map[string]int{}, news: make(chan struct{}, 1)}
}

func (in *inbox) listen(name string) listen1 {
	return func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		in.mu.Lock()
		for _, m := range ms {
			in.got[name] = append(in.got[name], string(m.Body))
			in.seen[string(m.Body)]++
			for k := range m.GetProperties() {
				if strings.HasPrefix(k, "__SLUICE") {
					in.t.Errorf("property %s reached the client", k)
				}
			}
		}
		in.mu.Unlock()
		select {
		case in.news <- struct{}{}:
		default:
		}
		return consumer.ConsumeSuccess, nil
	}
}

// wait returns when ok holds.
func (in *inbox) wait(what string, ok func() bool) {
	in.t.Helper()
	deadline := time.After(40 * time.Second)
	for {
		in.mu.Lock()
		done := ok()
		in.mu.Unlock()
		if done {
			return
		}
		select {
		case <-in.news:
		case <-deadline:
			in.mu.Lock()
			defer in.mu.Unlock()
			in.t.Fatalf("%s did not happen; got %v", what, in.got)
		}
	}
}

func message1(topic, body, tag string) *primitive.Message {
	m := primitive.NewMessage(topic, []byte(body))
	if tag != "" {
		m.WithTag(tag)
	}
	return m
}

func TestSDK_sendKindsAndTags(t *testing.T) {
	e := newEnv(t)
	for _, s := range []sdk{{e, "slk_a", ""}, {e, "slk_b", nsB}} {
		in := newInbox(t)
		s.consumer("c", "g", "orders", "want || also", in.listen("c"))
		p := s.producer("p")
		for i := range 10 {
			r, err := p.SendSync(t.Context(), message1("orders", fmt.Sprint("sync", i), []string{"want", "no"}[i%2]))
			if err != nil || r.Status != primitive.SendOK || r.MsgID == "" || r.OffsetMsgID == "" {
				t.Fatalf("sync %d: %+v, %v", i, r, err)
			}
		}
		if err := p.SendOneWay(t.Context(), message1("orders", "oneway", "also")); err != nil {
			t.Fatal(err)
		}
		var batch []*primitive.Message
		for i := range 5 {
			batch = append(batch, message1("orders", fmt.Sprint("batch", i), "want"))
		}
		if r, err := p.SendSync(t.Context(), batch...); err != nil || strings.Count(r.OffsetMsgID, ",") != 4 {
			t.Fatalf("batch: %+v, %v", r, err)
		}
		async := make(chan error, 1)
		if err := p.SendAsync(t.Context(), func(_ context.Context, _ *primitive.SendResult, err error) { async <- err }, message1("orders", "async", "want")); err != nil {
			t.Fatal(err)
		}
		if err := <-async; err != nil {
			t.Fatal(err)
		}
		in.wait("12 messages", func() bool { return len(in.seen) == 12 })
		for body, n := range in.seen {
			if n != 1 || strings.HasPrefix(body, "sync") && (body[4]-'0')%2 == 1 {
				t.Errorf("%s came %d times", body, n)
			}
		}
	}
}

func TestSDK_twoMembersShareAndTakeOver(t *testing.T) {
	e := newEnv(t)
	s := sdk{e, "slk_a", ""}
	in := newInbox(t)
	p := s.producer("p")
	round := 0
	sendAll := func() { // one message to each of the four queues, with luck; sixteen make sure
		round++
		for i := range 16 {
			m := message1("orders", fmt.Sprintf("r%d-%d", round, i), "")
			m.WithShardingKey(fmt.Sprint("k", i))
			if _, err := p.SendSync(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	one := s.consumer("one", "g", "orders", "*", in.listen("one"))
	sendAll()
	in.wait("the first member gets all", func() bool { return len(in.got["one"]) >= 16 })
	s.consumer("two", "g", "orders", "*", in.listen("two"))
	for { // until the queues were divided
		sendAll()
		want := round * 16
		in.wait("the round", func() bool { return len(in.seen) == want })
		in.mu.Lock()
		shared := len(in.got["two"]) > 0
		in.mu.Unlock()
		if shared {
			break
		}
		if round > 200 {
			t.Fatal("the second member never got a queue")
		}
		pause(t)
	}
	one.Shutdown()
	sendAll()
	want := round * 16
	in.wait("the second member takes over", func() bool { return len(in.seen) == want })
}

// pause waits for a moment of the client's own timers, which no test controls.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(200 * time.Millisecond):
	case <-t.Context().Done():
	}
}

func TestSDK_broadcastReachesAll(t *testing.T) {
	e := newEnv(t)
	s := sdk{e, "slk_a", ""}
	in := newInbox(t)
	// The client keeps offsets of broadcast groups in the home folder; a group
	// of its own keeps those of earlier runs out.
	group := fmt.Sprint("broadcast-", time.Now().UnixNano())
	e.putGroup(nsA + "%" + group)
	for _, name := range []string{"one", "two"} {
		s.consumer(name, group, "orders", "*", in.listen(name), consumer.WithConsumerModel(consumer.BroadCasting))
	}
	p := s.producer("p")
	for i := range 8 {
		if _, err := p.SendSync(t.Context(), message1("orders", fmt.Sprint(i), "")); err != nil {
			t.Fatal(err)
		}
	}
	in.wait("both members get all", func() bool { return len(in.got["one"]) == 8 && len(in.got["two"]) == 8 })
}

func TestSDK_orderlyKeepsOrder(t *testing.T) {
	e := newEnv(t)
	s := sdk{e, "slk_a", nsA}
	in := newInbox(t)
	s.consumer("c", "g", "orders", "*", in.listen("c"), consumer.WithConsumerOrder(true))
	p := s.producer("p")
	for i := range 30 {
		m := message1("orders", fmt.Sprintf("%02d", i), "")
		m.WithShardingKey("same")
		if _, err := p.SendSync(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	in.wait("30 in order", func() bool { return len(in.got["c"]) == 30 })
	for i, body := range in.got["c"] {
		if body != fmt.Sprintf("%02d", i) {
			t.Fatalf("order: %v", in.got["c"])
		}
	}
}

func TestSDK_laterComesAgain(t *testing.T) {
	e := newEnv(t)
	s := sdk{e, "slk_a", ""}
	in := newInbox(t)
	times := make(chan int32, 10)
	s.consumer("c", "g", "orders", "*", func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			times <- m.ReconsumeTimes
			if m.Topic != "orders" {
				t.Errorf("topic %q", m.Topic)
			}
			if m.ReconsumeTimes == 0 {
				concurrent, _ := primitive.GetConcurrentlyCtx(ctx)
				concurrent.DelayLevelWhenNextConsume = 1
				return consumer.ConsumeRetryLater, nil
			}
		}
		return in.listen("c")(ctx, ms...)
	})
	if _, err := s.producer("p").SendSync(t.Context(), message1("orders", "again", "")); err != nil {
		t.Fatal(err)
	}
	in.wait("the retry", func() bool { return in.seen["again"] == 1 })
	if first, second := <-times, <-times; first != 0 || second != 1 {
		t.Errorf("reconsume times %d, %d", first, second)
	}
}

// A delay level and a time of its own, sent by the official client to a
// consumer that waits.
func TestSDK_delayedMessages_B055(t *testing.T) {
	e := newEnv(t)
	s := sdk{e, "slk_a", ""}
	in := newInbox(t)
	s.consumer("c", "g", "orders", "*", in.listen("c"))
	p := s.producer("p")
	level, timed := message1("orders", "level", ""), message1("orders", "timed", "")
	level.WithDelayTimeLevel(1)
	began := time.Now()
	timed.WithProperty("TIMER_DELAY_MS", "1300")
	for _, m := range []*primitive.Message{level, timed} {
		if _, err := p.SendSync(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	in.wait("both", func() bool { return in.seen["level"] == 1 && in.seen["timed"] == 1 })
	if took := time.Since(began); took < 1300*time.Millisecond {
		t.Errorf("both came after %v", took)
	}
}

func TestSDK_wrongSecretAndMissingTopic(t *testing.T) {
	e := newEnv(t)
	k := e.snap.Keys["slk_a"]
	k.Secret = "another"
	e.snap.Keys["slk_a"] = k // the clients below sign with this one; the policy in force has the old one
	if _, err := (sdk{e, "slk_a", ""}).producer("w").SendSync(t.Context(), message1("orders", "x", "")); err == nil {
		t.Error("a wrong secret was accepted")
	}
	if _, err := (sdk{e, "slk_b", ""}).producer("m").SendSync(t.Context(), message1("none", "x", "")); err == nil {
		t.Error("a missing topic was accepted")
	}
}

func TestSDK_sqlFilter(t *testing.T) {
	e := newEnv(t)
	s := sdk{e, "slk_a", ""}
	in := newInbox(t)
	c, err := rocketmq.NewPushConsumer(consumer.WithNameServer([]string{s.ns}), consumer.WithGroupName("g"), consumer.WithInstance("sql"),
		consumer.WithCredentials(s.credentials()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		t.Fatal(err)
	}
	selector := consumer.MessageSelector{Type: consumer.SQL92, Expression: "price BETWEEN 10 AND 20 AND color IN ('red', 'blue') AND TAGS IS NOT NULL"}
	if err := c.Subscribe("orders", selector, in.listen("c")); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Shutdown() })
	p := s.producer("p")
	for i := range 60 {
		m := message1("orders", fmt.Sprint(i), "t")
		m.WithProperty("price", fmt.Sprint(i))
		m.WithProperty("color", []string{"red", "green", "blue"}[i%3])
		if _, err := p.SendSync(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	in.wait("the 7 messages", func() bool { return len(in.seen) >= 7 })
	for _, body := range []string{"11", "12", "14", "15", "17", "18", "20"} {
		if in.seen[body] != 1 {
			t.Errorf("%s came %d times: %v", body, in.seen[body], in.got)
		}
	}
	if len(in.seen) != 7 {
		t.Errorf("got %v", in.got)
	}
}
