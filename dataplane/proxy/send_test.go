package proxy

import (
	"crypto/md5"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/store"
)

func TestSendReceive_roundTrip(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	m := msg("orders", "hello")
	m.GetTopic().ResourceNamespace = nsA
	sys := m.GetSystemProperties()
	sys.Tag, sys.Keys, sys.TraceContext = proto.String("blue"), []string{"k1", "k2"}, proto.String("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	sys.BornTimestamp = timestamppb.New(time.UnixMilli(1_700_000_000_123))
	sys.QueueId, sys.DeliveryAttempt = 77, proto.Int32(-5) // both are ignored
	m.UserProperties = map[string]string{"color": "grün", "n": "1"}
	resp := c.send(m)
	want(t, resp.GetStatus(), v2.Code_OK)
	if e := resp.GetEntries(); len(e) != 1 || e[0].GetMessageId() != sys.GetMessageId() || e[0].GetStatus().GetCode() != v2.Code_OK {
		t.Errorf("entries are %v", e)
	}
	req := poll("orders", "g")
	req.MessageQueue.Topic.ResourceNamespace = nsA
	_, got := c.receive(req)
	if len(got) != 1 {
		t.Fatalf("got %d messages, want 1", len(got))
	}
	r, p := got[0], got[0].GetSystemProperties()
	if string(r.GetBody()) != "hello" || !maps.Equal(r.GetUserProperties(), m.GetUserProperties()) {
		t.Errorf("got body %q, properties %v", r.GetBody(), r.GetUserProperties())
	}
	if !proto.Equal(r.GetTopic(), m.GetTopic()) {
		t.Errorf("got topic %v, want what the client called it", r.GetTopic())
	}
	sum := md5.Sum([]byte("hello"))
	for name, ok := range map[string]bool{
		"tag":             p.GetTag() == "blue",
		"keys":            slices.Equal(p.GetKeys(), []string{"k1", "k2"}),
		"message id":      p.GetMessageId() == sys.GetMessageId(),
		"digest":          p.GetBodyDigest().GetType() == v2.DigestType_MD5 && p.GetBodyDigest().GetChecksum() == fmt.Sprintf("%X", sum[:]),
		"encoding":        p.GetBodyEncoding() == v2.Encoding_IDENTITY,
		"type":            p.GetMessageType() == v2.MessageType_NORMAL,
		"born time":       p.GetBornTimestamp().AsTime().UnixMilli() == 1_700_000_000_123,
		"born host":       p.GetBornHost() == "host",
		"store time":      p.GetStoreTimestamp().IsValid() && p.GetStoreTimestamp().AsTime().Year() >= 2024,
		"handle":          p.GetReceiptHandle() != "",
		"attempt":         p.GetDeliveryAttempt() == 1,
		"queue":           p.GetQueueId() == 0 || p.GetQueueId() == 1,
		"offset":          p.QueueOffset != nil && p.GetQueueOffset() == resp.GetEntries()[0].GetOffset(),
		"trace":           p.GetTraceContext() == sys.GetTraceContext(),
		"invisible":       p.GetInvisibleDuration().AsDuration() == 30*time.Second,
		"no dead letters": p.DeadLetterQueue == nil,
	} {
		if !ok {
			t.Errorf("%s is wrong in %v", name, p)
		}
	}
}

func TestSend_refusals(t *testing.T) {
	e := newEnv(t)
	for _, kind := range []string{"FIFO", "DELAY", "TRANSACTION"} {
		e.topic(nsA+"%"+strings.ToLower(kind), kind)
	}
	tc := store.DefaultTopicConfig(nsA + "%readonly")
	tc.Perm = store.PermRead
	if err := e.core.PutTopic(t.Context(), tc); err != nil {
		t.Fatal(err)
	}
	ns := e.snapshot.Namespaces[nsA]
	e.topic(nsA+"%small", "NORMAL")
	ns.Topics = map[string]policy.Topic{"small": {MaxMessageBytes: 10}}
	e.snapshot.Namespaces[nsA] = ns
	e.applyPolicy()
	c := e.client("slk_a")
	sys := func(change func(*v2.SystemProperties)) func(*v2.Message) {
		return func(m *v2.Message) { change(m.GetSystemProperties()) }
	}
	user := func(k, v string) func(*v2.Message) {
		return func(m *v2.Message) { m.UserProperties = map[string]string{k: v} }
	}
	future := timestamppb.New(time.Now().Add(time.Hour))
	for _, tc := range []struct {
		name, topic string
		change      func(*v2.Message)
		code        v2.Code
	}{
		{"no topic", "nowhere", func(*v2.Message) {}, v2.Code_TOPIC_NOT_FOUND},
		{"read only", "readonly", func(*v2.Message) {}, v2.Code_FORBIDDEN},
		{"no id", "orders", sys(func(p *v2.SystemProperties) { p.MessageId = " " }), v2.Code_ILLEGAL_MESSAGE_ID},
		{"long id", "orders", sys(func(p *v2.SystemProperties) { p.MessageId = strings.Repeat("x", 256) }), v2.Code_ILLEGAL_MESSAGE_ID},
		{"blank tag", "orders", sys(func(p *v2.SystemProperties) { p.Tag = proto.String("") }), v2.Code_ILLEGAL_MESSAGE_TAG},
		{"tag with bar", "orders", sys(func(p *v2.SystemProperties) { p.Tag = proto.String("a|b") }), v2.Code_ILLEGAL_MESSAGE_TAG},
		{"tag with control", "orders", sys(func(p *v2.SystemProperties) { p.Tag = proto.String("a\x01b") }), v2.Code_ILLEGAL_MESSAGE_TAG},
		{"blank key", "orders", sys(func(p *v2.SystemProperties) { p.Keys = []string{"k", " "} }), v2.Code_ILLEGAL_MESSAGE_KEY},
		{"long keys", "orders", sys(func(p *v2.SystemProperties) { p.Keys = []string{strings.Repeat("k", 17<<10)} }), v2.Code_MESSAGE_PROPERTIES_TOO_LARGE},
		{"reserved property", "orders", user("UNIQ_KEY", "x"), v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY},
		{"hidden delay", "orders", user("TIMER_DELAY_SEC", "5"), v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY},
		{"our own property", "orders", user("__SLUICE", "slk_b,g"), v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY},
		{"property separator", "orders", user("a\x02b", "x"), v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY},
		{"value separator", "orders", user("a", "x\x02DELAY\x013"), v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY},
		{"empty value", "orders", user("a", ""), v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY},
		{"body over the limit", "orders", func(m *v2.Message) { m.Body = make([]byte, 4<<20+1) }, v2.Code_MESSAGE_BODY_TOO_LARGE},
		{"body over the topic's limit", "small", func(m *v2.Message) { m.Body = make([]byte, 11) }, v2.Code_MESSAGE_BODY_TOO_LARGE},
		{"wrong digest", "orders", sys(func(p *v2.SystemProperties) {
			p.BodyDigest = &v2.Digest{Type: v2.DigestType_MD5, Checksum: "00"}
		}), v2.Code_MESSAGE_CORRUPTED},
		{"false gzip", "orders", sys(func(p *v2.SystemProperties) { p.BodyEncoding = v2.Encoding_GZIP }), v2.Code_MESSAGE_CORRUPTED},

		{"normal to FIFO", "fifo", func(*v2.Message) {}, v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE},
		{"FIFO to normal", "orders", sys(func(p *v2.SystemProperties) { p.MessageGroup = proto.String("mg") }), v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE},
		{"delay to normal", "orders", sys(func(p *v2.SystemProperties) { p.DeliveryTimestamp = future }), v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE},
		{"transaction to normal", "orders", sys(func(p *v2.SystemProperties) { p.MessageType = v2.MessageType_TRANSACTION }), v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE},
		{"claims FIFO without a group", "orders", sys(func(p *v2.SystemProperties) { p.MessageType = v2.MessageType_FIFO }), v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE},
		{"priority", "orders", sys(func(p *v2.SystemProperties) { p.Priority = proto.Int32(1) }), v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE},
		{"FIFO", "fifo", sys(func(p *v2.SystemProperties) {
			p.MessageType, p.MessageGroup = v2.MessageType_FIFO, proto.String("mg")
		}), v2.Code_NOT_IMPLEMENTED},
		{"delay", "delay", sys(func(p *v2.SystemProperties) {
			p.MessageType, p.DeliveryTimestamp = v2.MessageType_DELAY, timestamppb.New(time.Now().Add(broker.MaxDelay+time.Minute))
		}), v2.Code_ILLEGAL_DELIVERY_TIME},
		{"no time", "delay", sys(func(p *v2.SystemProperties) {
			p.MessageType, p.DeliveryTimestamp = v2.MessageType_DELAY, &timestamppb.Timestamp{Nanos: -1}
		}), v2.Code_ILLEGAL_DELIVERY_TIME},
		{"delayed transaction", "transaction", sys(func(p *v2.SystemProperties) {
			p.MessageType, p.DeliveryTimestamp = v2.MessageType_TRANSACTION, future
		}), v2.Code_NOT_IMPLEMENTED},
		{"long recovery", "transaction", sys(func(p *v2.SystemProperties) {
			p.MessageType, p.OrphanedTransactionRecoveryDuration = v2.MessageType_TRANSACTION, durationpb.New(time.Hour+1)
		}), v2.Code_BAD_REQUEST},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := msg(tc.topic, "x")
			tc.change(m)
			resp, err := c.SendMessage(c.ctx(), &v2.SendMessageRequest{Messages: []*v2.Message{m}})
			if err != nil {
				t.Fatal(err)
			}
			want(t, resp.GetStatus(), tc.code)
			if len(resp.GetEntries()) != 1 || resp.GetEntries()[0].GetStatus().GetCode() != tc.code {
				t.Errorf("entries are %v: one SDK looks at nothing else", resp.GetEntries())
			}
		})
	}
	want(t, c.send().GetStatus(), v2.Code_MESSAGE_CORRUPTED)
	c.none("orders", "g")
}

// B010: at the limits everything is stored and returned byte for byte; over
// them nothing of the request is, and sending goes on.
func TestSend_propertyLimits_B010(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	props := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("key%d", i)] = fmt.Sprintf("value%d", i)
		}
		return m
	}
	value := func(n int) map[string]string { return map[string]string{"k": strings.Repeat("v", n)} }
	for _, tc := range []struct {
		name string
		user map[string]string
		code v2.Code
	}{
		{"128 properties", props(128), v2.Code_OK},
		{"129 properties", props(129), v2.Code_MESSAGE_PROPERTIES_TOO_LARGE},
		{"16 KiB", value(16 << 10), v2.Code_OK},
		{"16 KiB and a byte", value(16<<10 + 1), v2.Code_MESSAGE_PROPERTIES_TOO_LARGE},
		{"together over 32767 bytes", map[string]string{"a": strings.Repeat("v", 16<<10), "b": strings.Repeat("v", 16<<10)}, v2.Code_MESSAGE_PROPERTIES_TOO_LARGE},
	} {
		m := msg("orders", tc.name)
		m.UserProperties = tc.user
		want(t, c.send(msg("orders", "first"), m, msg("orders", "last")).GetStatus(), tc.code)
		if tc.code != v2.Code_OK {
			c.none("orders", "g")
			continue
		}
		for _, got := range c.take("orders", "g", 3) {
			if string(got.GetBody()) == tc.name && !maps.Equal(got.GetUserProperties(), tc.user) {
				t.Errorf("%s: properties differ", tc.name)
			}
		}
	}
	c.mustSend("orders", "still works")
	e.kill()
	if got := bodies(e.client("slk_a").take("orders", "g", 1)); got[0] != "still works" {
		t.Errorf("after a kill: %q", got)
	}
}

// B011: an empty body is stored, survives a kill, and is delivered as one.
func TestSend_emptyBody_B011(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	c.mustSend("orders", "", "after")
	e.kill()
	got := bodies(e.client("slk_a").take("orders", "g", 2))
	slices.Sort(got)
	if !slices.Equal(got, []string{"", "after"}) {
		t.Errorf("got %q", got)
	}
}

func TestSend_largestBody(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	m := msg("orders", strings.Repeat("b", 4<<20))
	m.UserProperties = map[string]string{"k": strings.Repeat("v", 16<<10)}
	want(t, c.send(m).GetStatus(), v2.Code_OK)
	req := poll("orders", "g")
	rs, err := c.ReceiveMessage(c.ctx(), req)
	if err != nil {
		t.Fatal(err)
	}
	if first, err := rs.Recv(); err != nil || first.GetStatus().GetCode() != v2.Code_OK {
		t.Fatalf("%v, %v", first, err)
	}
	// The client's own receive limit is 4 MiB here, as in some SDKs.
	if _, err := rs.Recv(); err == nil {
		t.Log("the client took a message over 4 MiB")
	}
}

func TestSend_batch(t *testing.T) {
	e := newEnv(t)
	e.topic(nsA+"%second", "NORMAL")
	c := e.client("slk_a")
	resp := c.send(msg("orders", "1"), msg("orders", "2"), msg("orders", "3"))
	want(t, resp.GetStatus(), v2.Code_OK)
	for i, entry := range resp.GetEntries() {
		if entry.GetOffset() != resp.GetEntries()[0].GetOffset()+int64(i) || entry.GetMessageId() == "" {
			t.Errorf("entry %d is %v", i, entry)
		}
	}
	if len(resp.GetEntries()) != 3 {
		t.Errorf("%d entries for 3 messages", len(resp.GetEntries()))
	}
	c.take("orders", "g", 3)
	want(t, c.send(msg("orders", "1"), msg("second", "2")).GetStatus(), v2.Code_MESSAGE_CORRUPTED)
	c.none("orders", "g")
}

func TestQueryRoute(t *testing.T) {
	e := newEnv(t)
	e.topic(nsA+"%fifo", "FIFO")
	c := e.client("slk_a")
	r := c.route(named("orders"))
	want(t, r.GetStatus(), v2.Code_OK)
	if len(r.GetMessageQueues()) != 2 {
		t.Fatalf("got %d queues, want 2", len(r.GetMessageQueues()))
	}
	for i, q := range r.GetMessageQueues() {
		if q.GetId() != int32(i) || q.GetPermission() != v2.Permission_READ_WRITE || q.GetBroker().GetId() != 0 || q.GetBroker().GetName() != "broker-a" ||
			!proto.Equal(q.GetBroker().GetEndpoints(), dialled()) || !slices.Equal(q.GetAcceptMessageTypes(), []v2.MessageType{v2.MessageType_NORMAL}) {
			t.Errorf("queue %d is %v", i, q)
		}
	}
	if got := c.route(named("fifo")).GetMessageQueues()[0].GetAcceptMessageTypes(); !slices.Equal(got, []v2.MessageType{v2.MessageType_FIFO}) {
		t.Errorf("a FIFO topic accepts %v", got)
	}
	want(t, c.route(named("nowhere")).GetStatus(), v2.Code_TOPIC_NOT_FOUND)
	const none, r4, w3, rw = v2.Permission_NONE, v2.Permission_READ, v2.Permission_WRITE, v2.Permission_READ_WRITE
	for _, tc := range []struct {
		perm, reads, writes int
		queues              []v2.Permission
	}{
		{store.PermRead | store.PermWrite, 2, 2, []v2.Permission{rw, rw}},
		{store.PermRead | store.PermWrite, 3, 1, []v2.Permission{rw, r4, r4}},
		{store.PermRead | store.PermWrite, 1, 2, []v2.Permission{rw, w3}},
		{store.PermRead, 2, 2, []v2.Permission{r4, r4}},
		{store.PermWrite, 2, 2, []v2.Permission{w3, w3}},
		{0, 2, 2, nil},
	} {
		cfg := store.DefaultTopicConfig(nsA + "%shape")
		cfg.Perm, cfg.ReadQueueNums, cfg.WriteQueueNums = tc.perm, tc.reads, tc.writes
		if err := e.core.PutTopic(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		resp := c.route(named("shape"))
		if tc.queues == nil {
			want(t, resp.GetStatus(), v2.Code_FORBIDDEN)
		}
		var got []v2.Permission
		for _, q := range resp.GetMessageQueues() {
			got = append(got, q.GetPermission())
		}
		if !slices.Equal(got, tc.queues) || slices.Contains(got, none) {
			t.Errorf("perm %d, %d to read, %d to write: got %v, want %v", tc.perm, tc.reads, tc.writes, got, tc.queues)
		}
	}
	for _, bad := range []*v2.Endpoints{
		nil, {Scheme: v2.AddressScheme_IPv4}, {Addresses: dialled().GetAddresses()},
		{Scheme: v2.AddressScheme_DOMAIN_NAME, Addresses: append(dialled().GetAddresses(), dialled().GetAddresses()...)},
	} {
		resp, err := c.QueryRoute(c.ctx(), &v2.QueryRouteRequest{Topic: named("orders"), Endpoints: bad})
		if err != nil {
			t.Fatal(err)
		}
		want(t, resp.GetStatus(), v2.Code_ILLEGAL_ACCESS_POINT)
	}
}

func TestAdvertise(t *testing.T) {
	for text, want := range map[string]*v2.Endpoints{
		"10.1.2.3:8081":         {Scheme: v2.AddressScheme_IPv4, Addresses: []*v2.Address{{Host: "10.1.2.3", Port: 8081}}},
		"[2001:db8::1]:8081":    {Scheme: v2.AddressScheme_IPv6, Addresses: []*v2.Address{{Host: "2001:db8::1", Port: 8081}}},
		"mq.example.com:443":    {Scheme: v2.AddressScheme_DOMAIN_NAME, Addresses: []*v2.Address{{Host: "mq.example.com", Port: 443}}},
		"10.0.0.1:1 10.0.0.2:2": {Scheme: v2.AddressScheme_IPv4, Addresses: []*v2.Address{{Host: "10.0.0.1", Port: 1}, {Host: "10.0.0.2", Port: 2}}},
	} {
		got, err := parseEndpoints(strings.Fields(text))
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"host", "host:0", "host:x", ":80", "0.0.0.0:80", "a:1 b:2", "10.0.0.1:1 h:2", "[::]:1", "h:70000"} {
		if got, err := parseEndpoints(strings.Fields(text)); err == nil {
			t.Errorf("%s: got %v, want an error", text, got)
		}
	}
	e := newEnv(t, func(c *Config) { c.Advertise = []string{"mq.example.com:443"} })
	c := e.client("slk_a")
	if at := c.route(named("orders")).GetMessageQueues()[0].GetBroker().GetEndpoints(); at.GetAddresses()[0].GetHost() != "mq.example.com" {
		t.Errorf("clients are sent to %v", at)
	}
}

func TestQueryAssignment(t *testing.T) {
	e := newEnv(t)
	e.group(nsA+"%ordered", func(g *store.GroupConfig) { g.ConsumeMessageOrderly = true })
	c := e.client("slk_a")
	ask := func(topic, group string) *v2.QueryAssignmentResponse {
		resp, err := c.QueryAssignment(c.ctx(), &v2.QueryAssignmentRequest{Topic: named(topic), Group: named(group), Endpoints: dialled()})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	got := ask("orders", "g")
	want(t, got.GetStatus(), v2.Code_OK)
	if a := got.GetAssignments(); len(a) != 1 || a[0].GetMessageQueue().GetId() != -1 || a[0].GetMessageQueue().GetBroker().GetEndpoints() == nil {
		t.Errorf("assignments are %v", a)
	}
	want(t, ask("nowhere", "g").GetStatus(), v2.Code_TOPIC_NOT_FOUND)
	want(t, ask("orders", "nobody").GetStatus(), v2.Code_CONSUMER_GROUP_NOT_FOUND)
	want(t, ask("orders", "ordered").GetStatus(), v2.Code_NOT_IMPLEMENTED)
	status, _ := c.receive(poll("orders", "ordered"))
	want(t, status, v2.Code_NOT_IMPLEMENTED)
}

func TestNotThereYet_saysSo(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	lite, err := c.SyncLiteSubscription(c.ctx(), &v2.SyncLiteSubscriptionRequest{Topic: named("orders"), Group: named("g")})
	if err != nil {
		t.Fatal(err)
	}
	want(t, lite.GetStatus(), v2.Code_NOT_IMPLEMENTED)
	for _, status := range []*v2.Status{lite.GetStatus()} {
		if !strings.Contains(status.GetMessage(), "not supported") {
			t.Errorf("refusal %q does not say what is missing", status.GetMessage())
		}
	}
}
