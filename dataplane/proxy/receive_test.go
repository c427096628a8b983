package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

func TestReceive_waitsOutThePoll(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	req := poll("orders", "g")
	req.LongPollingTimeout = durationpb.New(300 * time.Millisecond)
	start := time.Now()
	status, _ := c.receive(req)
	want(t, status, v2.Code_MESSAGE_NOT_FOUND)
	if took := time.Since(start); took < 300*time.Millisecond || took > 2*time.Second {
		t.Errorf("an empty poll of 300 ms took %v", took)
	}
}

// B110: a poll longer than the deadline is answered all the same, in time.
func TestReceive_endsBeforeTheDeadline_B110(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxPoll = 20 * time.Second })
	c := e.client("slk_a")
	for name, asked := range map[string]*durationpb.Duration{"as long as the deadline": durationpb.New(2 * time.Second), "an hour": durationpb.New(time.Hour), "not told": nil} {
		ctx, cancel := context.WithTimeout(c.ctx(), 2*time.Second)
		req := poll("orders", "g")
		req.LongPollingTimeout = asked
		status, _, err := c.tryReceive(ctx, req)
		cancel()
		if err != nil {
			t.Errorf("%s: %v, want an answer before the deadline", name, err)
			continue
		}
		want(t, status, v2.Code_MESSAGE_NOT_FOUND)
	}
}

func TestWait_table(t *testing.T) {
	f := &Front{cfg: DefaultConfig()}
	in := func(d time.Duration) func() (context.Context, context.CancelFunc) {
		return func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), d) }
	}
	none := func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }
	for _, c := range []struct {
		name  string
		ctx   func() (context.Context, context.CancelFunc)
		asked time.Duration // -1: not told
		want  time.Duration
	}{
		{"as asked", in(13 * time.Second), 10 * time.Second, 10 * time.Second},
		{"capped", in(60 * time.Second), 40 * time.Second, 20 * time.Second},
		{"deadline equals what was asked", in(5 * time.Second), 5 * time.Second, 4500 * time.Millisecond},
		{"zero is not a busy loop", in(3 * time.Second), 0, 500 * time.Millisecond},
		{"by the deadline", in(8 * time.Second), -1, 6500 * time.Millisecond},
		{"short deadline", in(time.Second), -1, 500 * time.Millisecond},
		{"tiny deadline", in(200 * time.Millisecond), -1, 150 * time.Millisecond},
		{"nothing told", none, -1, 20 * time.Second},
	} {
		ctx, cancel := c.ctx()
		var asked *durationpb.Duration
		if c.asked >= 0 {
			asked = durationpb.New(c.asked)
		}
		got := f.wait(ctx, asked, 3*time.Second)
		cancel()
		if got > c.want || got < c.want-100*time.Millisecond {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReceive_wakesAtArrival(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	got := make(chan []*v2.Message, 1)
	req := poll("orders", "g")
	req.LongPollingTimeout = durationpb.New(e.cfg.MaxPoll)
	rs, err := c.ReceiveMessage(c.ctx(), req)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		var out []*v2.Message
		for {
			resp, err := rs.Recv()
			if err != nil {
				got <- out
				return
			}
			if m := resp.GetMessage(); m != nil {
				out = append(out, m)
			}
		}
	}()
	e.waiting(1)
	start := time.Now()
	c.mustSend("orders", "x")
	if out := <-got; len(out) != 1 || time.Since(start) > e.cfg.MaxPoll/2 {
		t.Errorf("got %d messages after %v", len(out), time.Since(start))
	}
}

func TestReceive_refusals(t *testing.T) {
	e := newEnv(t)
	e.group(nsA+"%off", func(g *store.GroupConfig) { g.ConsumeEnable = false })
	c := e.client("slk_a")
	for _, tc := range []struct {
		name   string
		change func(*v2.ReceiveMessageRequest)
		code   v2.Code
	}{
		{"no topic", func(r *v2.ReceiveMessageRequest) { r.MessageQueue.Topic.Name = "nowhere" }, v2.Code_TOPIC_NOT_FOUND},
		{"no group", func(r *v2.ReceiveMessageRequest) { r.Group.Name = "nobody" }, v2.Code_CONSUMER_GROUP_NOT_FOUND},
		{"switched off", func(r *v2.ReceiveMessageRequest) { r.Group.Name = "off" }, v2.Code_FORBIDDEN},
		{"short invisible time", func(r *v2.ReceiveMessageRequest) { r.InvisibleDuration = durationpb.New(9 * time.Second) }, v2.Code_ILLEGAL_INVISIBLE_TIME},
		{"long invisible time", func(r *v2.ReceiveMessageRequest) {
			r.InvisibleDuration = durationpb.New(12*time.Hour + time.Second)
		}, v2.Code_ILLEGAL_INVISIBLE_TIME},
		{"no invisible time", func(r *v2.ReceiveMessageRequest) { r.InvisibleDuration = nil }, v2.Code_ILLEGAL_INVISIBLE_TIME},
		{"SQL", func(r *v2.ReceiveMessageRequest) {
			r.FilterExpression = &v2.FilterExpression{Type: v2.FilterType_SQL, Expression: "a == 5"}
		}, v2.Code_ILLEGAL_FILTER_EXPRESSION},
		{"negative polling time", func(r *v2.ReceiveMessageRequest) { r.LongPollingTimeout = durationpb.New(-1) }, v2.Code_ILLEGAL_POLLING_TIME},
		{"bad tags", func(r *v2.ReceiveMessageRequest) { r.FilterExpression.Expression = "||" }, v2.Code_ILLEGAL_FILTER_EXPRESSION},
		{"nothing at all", func(r *v2.ReceiveMessageRequest) { proto.Reset(r) }, v2.Code_ILLEGAL_TOPIC},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := poll("orders", "g")
			tc.change(req)
			status, _ := c.receive(req)
			want(t, status, tc.code)
		})
	}
}

func TestReceive_filtersByTag(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	for _, tag := range []string{"a", "b", "AaAa", "BBBB", ""} { // the two long ones have one hash
		m := msg("orders", "tag "+tag)
		if tag != "" {
			m.GetSystemProperties().Tag = proto.String(tag)
		}
		want(t, c.send(m).GetStatus(), v2.Code_OK)
	}
	for expression, expected := range map[string][]string{
		" a ||AaAa": {"tag AaAa", "tag a"}, "*": {"tag ", "tag AaAa", "tag BBBB", "tag a", "tag b"}, "": {"tag ", "tag AaAa", "tag BBBB", "tag a", "tag b"},
	} {
		group := fmt.Sprintf("filter%d", len(expression))
		e.group(nsA+"%"+group, nil)
		var got []string
		for len(got) < len(expected) {
			req := poll("orders", group)
			req.FilterExpression.Expression = expression
			status, messages := c.receive(req)
			if status.GetCode() != v2.Code_OK {
				break
			}
			got = append(got, bodies(messages)...)
		}
		slices.Sort(got)
		if !slices.Equal(got, expected) {
			t.Errorf("%q: got %q, want %q", expression, got, expected)
		}
	}
}

func TestRedelivery_afterTheInvisibleTime(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	c.mustSend("orders", "x")
	first := c.take("orders", "g", 1)[0]
	c.none("orders", "g")
	e.clock.advance(31 * time.Second)
	second := c.take("orders", "g", 1)[0]
	a, b := first.GetSystemProperties(), second.GetSystemProperties()
	if b.GetMessageId() != a.GetMessageId() || b.GetDeliveryAttempt() != 2 || b.GetReceiptHandle() == a.GetReceiptHandle() {
		t.Errorf("redelivered %v", b)
	}
	stale := c.ack("orders", "g", first)
	want(t, stale.GetStatus(), v2.Code_INVALID_RECEIPT_HANDLE)
	mixed := c.ack("orders", "g", first, second)
	want(t, mixed.GetStatus(), v2.Code_MULTIPLE_RESULTS)
	want(t, mixed.GetEntries()[0].GetStatus(), v2.Code_INVALID_RECEIPT_HANDLE)
	want(t, mixed.GetEntries()[1].GetStatus(), v2.Code_OK)
	if got := mixed.GetEntries()[0]; got.GetMessageId() != a.GetMessageId() || got.GetReceiptHandle() != a.GetReceiptHandle() {
		t.Errorf("the entry does not echo: %v", got)
	}
	want(t, c.ack("orders", "g", second).GetStatus(), v2.Code_OK) // again
	e.clock.advance(time.Hour)
	c.none("orders", "g")
}

func TestChangeInvisible(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	c.mustSend("orders", "x")
	m := c.take("orders", "g", 1)[0]
	handle := m.GetSystemProperties().GetReceiptHandle()
	for d, code := range map[time.Duration]v2.Code{-time.Second: v2.Code_ILLEGAL_INVISIBLE_TIME, 12*time.Hour + time.Second: v2.Code_ILLEGAL_INVISIBLE_TIME, 12 * time.Hour: v2.Code_OK} {
		got := c.change("orders", "g", handle, d)
		want(t, got.GetStatus(), code)
		if got.GetReceiptHandle() == "" {
			t.Errorf("%v: no handle in the answer; SDKs overwrite theirs with it", d)
		}
	}
	e.clock.advance(time.Hour)
	c.none("orders", "g")
	nack := c.change("orders", "g", handle, 0)
	want(t, nack.GetStatus(), v2.Code_OK)
	again := c.take("orders", "g", 1)[0]
	if n := again.GetSystemProperties().GetDeliveryAttempt(); n != 2 {
		t.Errorf("attempt %d, want 2", n)
	}
	want(t, c.change("orders", "g", handle, 0).GetStatus(), v2.Code_INVALID_RECEIPT_HANDLE)
	want(t, c.change("orders", "g", "nonsense", 0).GetStatus(), v2.Code_INVALID_RECEIPT_HANDLE)
	// The first handle of a delivery stays good after a change: one SDK keeps it.
	last := again.GetSystemProperties().GetReceiptHandle()
	want(t, c.change("orders", "g", last, time.Minute).GetStatus(), v2.Code_OK)
	want(t, c.ack("orders", "g", again).GetStatus(), v2.Code_OK)
}

// B154 among them: the names that come with a dead letter are the client's own.
func TestDeadLetters_B154(t *testing.T) {
	e := newEnv(t)
	e.group(nsA+"%two", func(g *store.GroupConfig) { g.RetryMaxTimes = 1 })
	e.group(nsA+"%reader", nil)
	c := e.client("slk_a")
	c.mustSend("orders", "x")
	for attempt := range 2 {
		m := c.take("orders", "two", 1)[0]
		if n := m.GetSystemProperties().GetDeliveryAttempt(); n != int32(attempt)+1 {
			t.Errorf("attempt %d, want %d", n, attempt+1)
		}
		e.clock.advance(time.Minute)
	}
	c.none("orders", "two")
	want(t, c.route(named("%DLQ%two")).GetStatus(), v2.Code_OK)
	dead := c.take("%DLQ%two", "two", 1)[0]
	origin := dead.GetSystemProperties().GetDeadLetterQueue()
	if string(dead.GetBody()) != "x" || origin.GetTopic() != "orders" || origin.GetMessageId() != dead.GetSystemProperties().GetMessageId() {
		t.Errorf("dead letter %q of %v", dead.GetBody(), origin)
	}

	// Moved by the client.
	m := c.take("orders", "reader", 1)[0]
	for range 2 { // again is no error
		resp, err := c.ForwardMessageToDeadLetterQueue(c.ctx(), &v2.ForwardMessageToDeadLetterQueueRequest{
			Topic: named("orders"), Group: named("reader"), ReceiptHandle: m.GetSystemProperties().GetReceiptHandle(), MessageId: m.GetSystemProperties().GetMessageId(),
		})
		if err != nil {
			t.Fatal(err)
		}
		want(t, resp.GetStatus(), v2.Code_OK)
	}
	if got := c.take("%DLQ%reader", "reader", 1); string(got[0].GetBody()) != "x" {
		t.Errorf("got %q", got[0].GetBody())
	}
	resp, err := c.ForwardMessageToDeadLetterQueue(c.ctx(), &v2.ForwardMessageToDeadLetterQueueRequest{Topic: named("orders"), Group: named("reader"), MessageId: "unknown"})
	if err != nil {
		t.Fatal(err)
	}
	want(t, resp.GetStatus(), v2.Code_INVALID_RECEIPT_HANDLE)
}

func TestReceive_cancelledPollTakesNothing(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	ctx, cancel := context.WithCancel(c.ctx())
	rs, err := c.ReceiveMessage(ctx, poll("orders", "g"))
	if err != nil {
		t.Fatal(err)
	}
	e.waiting(1)
	cancel()
	if _, err := rs.Recv(); err == nil {
		t.Error("a cancelled poll got an answer")
	}
	e.idle()
	c.mustSend("orders", "x")
	if m := c.take("orders", "g", 1)[0]; m.GetSystemProperties().GetDeliveryAttempt() != 1 {
		t.Errorf("the cancelled poll took the message: attempt %d", m.GetSystemProperties().GetDeliveryAttempt())
	}
}

// idle returns when no stream is open.
func (e *env) idle() {
	e.t.Helper()
	for {
		e.front.watches.mu.Lock()
		open := len(e.front.watches.open)
		e.front.watches.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-e.t.Context().Done():
			e.t.Fatal("a stream stays open")
		}
	}
}

// Any poll may get any message: the queue of the request does not matter, and
// members of a group share.
func TestReceive_sharesOutAcrossClients(t *testing.T) {
	e := newEnv(t)
	const n = 200
	one := e.client("slk_a")
	for i := range n {
		one.mustSend("orders", fmt.Sprint(i))
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for i := range 4 {
		c := e.client("slk_a").with("x-mq-client-id", fmt.Sprint("client", i))
		wg.Go(func() {
			for {
				req := poll("orders", "g")
				req.BatchSize, req.MessageQueue.Id = 7, 0
				req.LongPollingTimeout = durationpb.New(50 * time.Millisecond)
				status, messages, err := c.tryReceive(c.ctx(), req)
				if err != nil || status.GetCode() != v2.Code_OK {
					return
				}
				mu.Lock()
				for _, b := range bodies(messages) {
					seen[b]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != n {
		t.Errorf("%d different messages, want %d", len(seen), n)
	}
	for b, times := range seen {
		if times != 1 {
			t.Errorf("message %s came %d times", b, times)
		}
	}
}

// An idle push consumer does not make a busy loop: ten polls of 20 ms are ten
// polls.
func TestReceive_countsEmptyPolls(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	for range 10 {
		c.none("orders", "g")
	}
	c.mustSend("orders", "x")
	c.take("orders", "g", 1)
	e.meter.mu.Lock()
	defer e.meter.mu.Unlock()
	if e.meter.emptyPolls != 10 || e.meter.delivered != 1 {
		t.Errorf("metered %d empty polls and %d deliveries, want 10 and 1", e.meter.emptyPolls, e.meter.delivered)
	}
}

func TestOffsets_B115(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	resp := c.send(msg("orders", "1"), msg("orders", "2"), msg("orders", "3"))
	want(t, resp.GetStatus(), v2.Code_OK)
	queue := e.queueWith(nsA+"%orders", 3)
	mq := &v2.MessageQueue{Topic: named("orders"), Id: queue}
	get := func() *v2.GetOffsetResponse {
		r, err := c.GetOffset(c.ctx(), &v2.GetOffsetRequest{Group: named("g"), MessageQueue: mq})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want(t, get().GetStatus(), v2.Code_OFFSET_NOT_FOUND)
	for offset, code := range map[int64]v2.Code{-1: v2.Code_ILLEGAL_OFFSET, 103: v2.Code_ILLEGAL_OFFSET, 4: v2.Code_ILLEGAL_OFFSET, 2: v2.Code_OK} {
		r, err := c.UpdateOffset(c.ctx(), &v2.UpdateOffsetRequest{Group: named("g"), MessageQueue: mq, Offset: offset})
		if err != nil {
			t.Fatal(err)
		}
		want(t, r.GetStatus(), code)
	}
	r, err := c.UpdateOffset(c.ctx(), &v2.UpdateOffsetRequest{Group: named("g"), MessageQueue: &v2.MessageQueue{Topic: named("orders"), Id: 999}, Offset: 0})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r.GetStatus(), v2.Code_BAD_REQUEST)
	if got := get(); got.GetOffset() != 2 {
		t.Errorf("offset is %v, want 2", got)
	}
	for policy, expected := range map[v2.QueryOffsetPolicy]int64{v2.QueryOffsetPolicy_BEGINNING: 0, v2.QueryOffsetPolicy_END: 3, v2.QueryOffsetPolicy_TIMESTAMP: 0} {
		r, err := c.QueryOffset(c.ctx(), &v2.QueryOffsetRequest{MessageQueue: mq, QueryOffsetPolicy: policy, Timestamp: timestamppb.New(time.UnixMilli(1000))})
		if err != nil {
			t.Fatal(err)
		}
		want(t, r.GetStatus(), v2.Code_OK)
		if r.GetOffset() != expected {
			t.Errorf("%v is %d, want %d", policy, r.GetOffset(), expected)
		}
	}
	for offset, expected := range map[int64]struct {
		code v2.Code
		n    int
		next int64
	}{1: {v2.Code_OK, 2, 3}, 3: {v2.Code_MESSAGE_NOT_FOUND, 0, 3}, 50: {v2.Code_ILLEGAL_OFFSET, 0, 3}} {
		ps, err := c.PullMessage(c.ctx(), &v2.PullMessageRequest{
			Group: named("g"), MessageQueue: mq, Offset: offset, BatchSize: 10, LongPollingTimeout: durationpb.New(20 * time.Millisecond),
		})
		if err != nil {
			t.Fatal(err)
		}
		var status *v2.Status
		n, next := 0, int64(-1)
		for {
			resp, err := ps.Recv()
			if err != nil {
				break
			}
			switch content := resp.GetContent().(type) {
			case *v2.PullMessageResponse_Status:
				status = content.Status
			case *v2.PullMessageResponse_Message:
				n++
			case *v2.PullMessageResponse_NextOffset:
				next = content.NextOffset
			}
		}
		want(t, status, expected.code)
		if n != expected.n || next != expected.next {
			t.Errorf("pull at %d: %d messages, next %d; want %d, %d", offset, n, next, expected.n, expected.next)
		}
	}
}

// queueWith returns the queue of a topic that has n messages, once it has.
func (e *env) queueWith(topic string, n int64) int32 {
	e.t.Helper()
	for {
		for q := range int32(2) {
			if _, top := e.store.QueueOffsets(topic, q); top == n {
				return q
			}
		}
		select {
		case <-time.After(time.Millisecond):
		case <-e.t.Context().Done():
			e.t.Fatal("the messages never reached their queue")
		}
	}
}

// What 4.x clients store is received with the names, and in the encoding, that
// gRPC clients understand.
func TestReceive_messagesOfRemotingClients(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	plain := strings.Repeat("body of a 4.x client. ", 500)
	var props []byte
	for k, v := range map[string]string{
		"TAGS": "blue", "KEYS": "k1 k2", "WAIT": "true", "color": "red", "PGROUP": nsA + "%producers", "INSTANCE_ID": "DEFAULT", "__SLUICE_X": "hidden",
	} {
		props = message.AppendProperty(props, k, v)
	}
	for _, body := range []string{zipped(t, plain), "not zlib"} {
		e.compressed(nsA, body, props)
	}
	for _, m := range c.take("orders", "g", 2) {
		p := m.GetSystemProperties()
		want := v2.Encoding_IDENTITY
		if string(m.GetBody()) == "not zlib" {
			want = v2.Encoding_GZIP // labelled, since the client may know better
		} else if string(m.GetBody()) != plain {
			t.Errorf("the body came as %d bytes, want %d", len(m.GetBody()), len(plain))
		}
		if p.GetBodyEncoding() != want || p.GetTag() != "blue" || !slices.Equal(p.GetKeys(), []string{"k1", "k2"}) || p.GetMessageId() == "" {
			t.Errorf("system properties are %v", p)
		}
		if u := m.GetUserProperties(); len(u) != 1 || u["color"] != "red" {
			t.Errorf("user properties are %v, want the user's own", u)
		}
	}
}
