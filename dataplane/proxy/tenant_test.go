package proxy

import (
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/metadata"

	"github.com/sluicemq/sluice/dataplane/policy"
)

func (c *client) route(topic *v2.Resource) *v2.QueryRouteResponse {
	c.e.t.Helper()
	resp, err := c.QueryRoute(c.ctx(), &v2.QueryRouteRequest{Topic: topic, Endpoints: dialled()})
	if err != nil {
		c.e.t.Fatal(err)
	}
	return resp
}

func TestAuthentication(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	const date = "20261129T120000Z"
	header := func(credential, signature string) string {
		return "MQv2-HMAC-SHA1 Credential=" + credential + ", SignedHeaders=x-mq-date-time, Signature=" + signature
	}
	good := signature("secret-a", date)
	for _, tc := range []struct {
		name, auth, date string
		code             v2.Code
	}{
		{"lower case", header("slk_a", good), date, v2.Code_OK},
		{"upper case", header("slk_a", strings.ToUpper(good)), date, v2.Code_OK},
		{"credential with a suffix", header("slk_a/cn-hangzhou/RocketMQ", good), date, v2.Code_OK},
		{"RFC 3339 date", header("slk_a", signature("secret-a", "2026-11-29T12:00:00.123+08:00")), "2026-11-29T12:00:00.123+08:00", v2.Code_OK},
		{"no header", "", date, v2.Code_UNAUTHORIZED},
		{"empty credential", header("", signature("", date)), date, v2.Code_UNAUTHORIZED},
		{"unknown key", header("slk_nobody", good), date, v2.Code_UNAUTHORIZED},
		{"another key's signature", header("slk_b", good), date, v2.Code_UNAUTHORIZED},
		{"one byte changed", header("slk_a", "00"+good[2:]), date, v2.Code_UNAUTHORIZED},
		{"another date", header("slk_a", good), "20261129T120001Z", v2.Code_UNAUTHORIZED},
		{"no date", header("slk_a", good), "", v2.Code_UNAUTHORIZED},
		{"not hex", header("slk_a", "zz"), date, v2.Code_UNAUTHORIZED},
		{"token that is none", "Bearer x.y.z", date, v2.Code_UNAUTHORIZED},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want(t, c.with("authorization", tc.auth, "x-mq-date-time", tc.date).route(named("orders")).GetStatus(), tc.code)
		})
	}
}

// B149: an allow list narrows; it never replaces the signature, and forged
// address headers change nothing.
func TestAllowList_narrowsOnly_B149(t *testing.T) {
	e := newEnv(t)
	near := e.client("slk_near")
	want(t, near.route(named("orders")).GetStatus(), v2.Code_OK)
	want(t, near.with("authorization", "").route(named("orders")).GetStatus(), v2.Code_UNAUTHORIZED)
	wrong := signed("slk_near", "guess")["authorization"][0]
	want(t, near.with("authorization", wrong).route(named("orders")).GetStatus(), v2.Code_UNAUTHORIZED)
	far := e.client("slk_far").with("x-forwarded-for", "10.9.0.1", "x-real-ip", "10.9.0.1", "forwarded", "for=10.9.0.1", "rpc-remote-address", "10.9.0.1:5")
	got := far.route(named("orders")).GetStatus()
	want(t, got, v2.Code_UNAUTHORIZED)
	if !strings.Contains(got.GetMessage(), policy.CodeAddressNotAllowed) {
		t.Errorf("refusal reads %q", got.GetMessage())
	}
}

// B150: a revoked key ends open streams and polls, and stays revoked after a
// restart.
func TestRevocation_reachesOpenStreams_B150(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	ts := c.telemetry(consumerSettings("g", v2.ClientType_PUSH_CONSUMER, "orders"))
	if cmd, err := ts.Recv(); err != nil || cmd.GetStatus().GetCode() != v2.Code_OK {
		t.Fatalf("settings: %v, %v", cmd, err)
	}
	got := make(chan *v2.Status, 1)
	rs, err := c.ReceiveMessage(c.ctx(), poll("orders", "g"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		resp, _ := rs.Recv()
		got <- resp.GetStatus()
	}()
	e.waiting(2)
	key := e.snapshot.Keys["slk_a"]
	key.Revoked = true
	e.snapshot.Keys["slk_a"] = key
	e.applyPolicy()
	want(t, <-got, v2.Code_UNAUTHORIZED)
	var last *v2.Status
	for {
		cmd, err := ts.Recv()
		if err != nil {
			break
		}
		last = cmd.GetStatus()
	}
	want(t, last, v2.Code_UNAUTHORIZED)
	want(t, c.route(named("orders")).GetStatus(), v2.Code_UNAUTHORIZED)
	e.restart()
	want(t, e.client("slk_a").route(named("orders")).GetStatus(), v2.Code_UNAUTHORIZED)
	key.Revoked = false
	e.snapshot.Keys["slk_a"] = key
	e.applyPolicy()
	want(t, e.client("slk_a").route(named("orders")).GetStatus(), v2.Code_OK)
}

// A rule that takes a group away ends the poll that waits for it, and nothing
// else; the answer names the rule.
func TestRule_reachesWaitingPolls(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	got := make(chan *v2.Status, 1)
	rs, err := c.ReceiveMessage(c.ctx(), poll("orders", "g"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		resp, _ := rs.Recv()
		got <- resp.GetStatus()
	}()
	e.waiting(1)
	ns := e.snapshot.Namespaces[nsA]
	ns.ACL = []policy.Rule{{ID: "acl_7", Deny: true, Principal: "*", Resource: "group", Pattern: "g*", Operations: []string{"SUB"}}}
	e.snapshot.Namespaces[nsA] = ns
	e.applyPolicy()
	status := <-got
	want(t, status, v2.Code_UNAUTHORIZED)
	if !strings.Contains(status.GetMessage(), "acl_7") {
		t.Errorf("the refusal does not name the rule: %s", status.GetMessage())
	}
	c.mustSend("orders", "other operations go on")
	ns.ACL = nil
	e.snapshot.Namespaces[nsA] = ns
	e.applyPolicy()
	if m := c.take("orders", "g", 1); len(m) != 1 {
		t.Errorf("without the rule: %d messages", len(m))
	}
}

// A key whose time is over ends open streams within a second, although nobody
// changed the policy and nothing is due for renewal.
func TestExpiry_reachesOpenStreams(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.RenewPeriod = time.Hour })
	end := e.clock.now().Add(time.Hour)
	key := e.snapshot.Keys["slk_a"]
	key.ExpiresAt = &end
	e.snapshot.Keys["slk_a"] = key
	e.applyPolicy()
	ts := e.client("slk_a").telemetry(consumerSettings("g", v2.ClientType_PUSH_CONSUMER, "orders"))
	if cmd, err := ts.Recv(); err != nil || cmd.GetStatus().GetCode() != v2.Code_OK {
		t.Fatalf("settings: %v, %v", cmd, err)
	}
	e.clock.advance(2 * time.Hour)
	var last *v2.Status
	for {
		cmd, err := ts.Recv()
		if err != nil {
			break
		}
		last = cmd.GetStatus()
	}
	want(t, last, v2.Code_UNAUTHORIZED)
}

// B151: the namespace comes from the key, whatever the client says.
func TestNamespaces_isolate_B151(t *testing.T) {
	e := newEnv(t)
	a, b := e.client("slk_a"), e.client("slk_b")
	a.mustSend("orders", "of a")
	b.mustSend("orders", "of b")
	for name, c := range map[string]*client{"of a": a, "of b": b} {
		if got := bodies(c.take("orders", "g", 1)); got[0] != name {
			t.Errorf("got %q, want %q", got, name)
		}
		c.none("orders", "g")
	}
	// In the header, in the resource, or both: the same namespace passes and is
	// given back as it came, another one is refused.
	own := &v2.Resource{ResourceNamespace: nsA, Name: "orders"}
	for _, c := range []*client{a, a.with("x-mq-namespace", nsA)} {
		r := c.route(own)
		want(t, r.GetStatus(), v2.Code_OK)
		if got := r.GetMessageQueues()[0].GetTopic(); got.GetResourceNamespace() != nsA || got.GetName() != "orders" {
			t.Errorf("the route names %v", got)
		}
	}
	want(t, a.with("x-mq-namespace", nsA).route(named("orders")).GetStatus(), v2.Code_OK)
	want(t, a.with("x-mq-namespace", nsB).route(named("orders")).GetStatus(), v2.Code_FORBIDDEN)
	want(t, a.with("x-mq-namespace", nsB).route(own).GetStatus(), v2.Code_FORBIDDEN)
	want(t, a.route(&v2.Resource{ResourceNamespace: nsB, Name: "orders"}).GetStatus(), v2.Code_FORBIDDEN)
	want(t, a.route(named(nsB+"%orders")).GetStatus(), v2.Code_FORBIDDEN)
	want(t, a.route(named("%RETRY%"+nsB+"%g")).GetStatus(), v2.Code_FORBIDDEN)

	two := e.client("slk_two")
	want(t, two.route(named("orders")).GetStatus(), v2.Code_BAD_REQUEST)
	want(t, two.with("x-mq-namespace", "cccccccc").route(named("orders")).GetStatus(), v2.Code_OK)
}

// B153, B143: names round-trip exactly or are refused; none becomes a path.
func TestNames_refusedByKind_B143_B153(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	for _, name := range []string{"", "../../../x", "a/b", "..", "a\x00b", "a b", "111%222", "%", "TBW102", "rmq_sys_x", strings.Repeat("x", 10<<10)} {
		got := c.send(msg(name, "x")).GetStatus().GetCode()
		if got != v2.Code_ILLEGAL_TOPIC && got != v2.Code_FORBIDDEN { // "111%222" names a namespace
			t.Errorf("topic %.30q: %v", name, got)
		}
		status, _ := c.receive(poll("orders", name))
		if code := status.GetCode(); code != v2.Code_ILLEGAL_CONSUMER_GROUP && code != v2.Code_FORBIDDEN && !(name == "TBW102" && code == v2.Code_CONSUMER_GROUP_NOT_FOUND) {
			t.Errorf("group %.30q: %v", name, code)
		}
		hb, err := c.Heartbeat(c.ctx(), &v2.HeartbeatRequest{Group: named(name), ClientType: v2.ClientType_PUSH_CONSUMER})
		if err != nil || hb.GetStatus().GetCode() == v2.Code_OK {
			t.Errorf("heartbeat of group %.30q: %v, %v", name, hb.GetStatus(), err)
		}
	}
	for _, name := range []string{"123", "a-b_C", "Orders"} {
		e.topic(nsA+"%"+name, "NORMAL")
		c.mustSend(name, "to "+name)
		m := c.take(name, "g", 1)[0]
		if m.GetTopic().GetName() != name || string(m.GetBody()) != "to "+name {
			t.Errorf("sent to %s, got %s %q", name, m.GetTopic().GetName(), m.GetBody())
		}
	}
}

// B156: the same group name in two namespaces is two groups.
func TestGroups_separate_B156(t *testing.T) {
	e := newEnv(t)
	a, b := e.client("slk_a"), e.client("slk_b")
	a.mustSend("orders", "1", "2")
	b.mustSend("orders", "3")
	got := a.take("orders", "g", 2)
	want(t, a.ack("orders", "g", got...).GetStatus(), v2.Code_OK)
	if got := bodies(b.take("orders", "g", 1)); got[0] != "3" {
		t.Errorf("b got %q", got)
	}
	for _, c := range []*client{a, b} {
		if _, err := c.Heartbeat(c.ctx(), &v2.HeartbeatRequest{Group: named("g"), ClientType: v2.ClientType_SIMPLE_CONSUMER}); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range []string{nsA, nsB} {
		if ids := e.core.ConsumerIDs(ns + "%g"); len(ids) != 1 {
			t.Errorf("group of %s has members %v, want its own one", ns, ids)
		}
	}
}

// B155, B157: a receipt of another tenant or group is refused like one that
// never was, and no RPC shows or moves another tenant's data.
func TestForeignReceipts_tellNothing_B155_B157(t *testing.T) {
	e := newEnv(t)
	e.group(nsA+"%other", nil)
	a, b := e.client("slk_a"), e.client("slk_b")
	b.mustSend("orders", "of b")
	held := b.take("orders", "g", 1)[0]
	handle := held.GetSystemProperties().GetReceiptHandle()
	never := strings.Repeat("A", len(handle))
	for _, group := range []string{"g", "other"} {
		stolen, unknown := a.ack("orders", group, held), a.ack("orders", group, &v2.Message{SystemProperties: &v2.SystemProperties{ReceiptHandle: &never}})
		want(t, stolen.GetStatus(), v2.Code_INVALID_RECEIPT_HANDLE)
		x, y := stolen.GetEntries()[0].GetStatus(), unknown.GetEntries()[0].GetStatus()
		strip := func(s string) string { text, _, _ := strings.Cut(s, "; request_id="); return text }
		if x.GetCode() != y.GetCode() || strip(x.GetMessage()) != strip(y.GetMessage()) {
			t.Errorf("a foreign handle is answered %v, an unknown one %v", x, y)
		}
		want(t, a.change("orders", group, handle, 0).GetStatus(), v2.Code_INVALID_RECEIPT_HANDLE)
		dlq, err := a.ForwardMessageToDeadLetterQueue(a.ctx(), &v2.ForwardMessageToDeadLetterQueueRequest{Topic: named("orders"), Group: named(group), ReceiptHandle: handle})
		if err != nil {
			t.Fatal(err)
		}
		want(t, dlq.GetStatus(), v2.Code_INVALID_RECEIPT_HANDLE)
	}
	b.none("orders", "g") // still held
	want(t, b.ack("orders", "g", held).GetStatus(), v2.Code_OK)
}

func TestUnsigned_learnsNothing(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a").with("authorization", "")
	for topic, kind := range map[string]string{"orders": "exists", "nowhere": "does not"} {
		got := c.route(named(topic))
		want(t, got.GetStatus(), v2.Code_UNAUTHORIZED)
		if strings.Contains(got.GetStatus().GetMessage(), topic) {
			t.Errorf("the answer for a topic that %s names it: %q", kind, got.GetStatus().GetMessage())
		}
		want(t, c.send(msg(topic, "x")).GetStatus(), v2.Code_UNAUTHORIZED)
		status, _ := c.receive(poll(topic, "g"))
		want(t, status, v2.Code_UNAUTHORIZED)
	}
	ts := c.telemetry(producerSettings("orders"))
	cmd, err := ts.Recv()
	if err != nil {
		t.Fatal(err)
	}
	want(t, cmd.GetStatus(), v2.Code_UNAUTHORIZED)
	if _, err := ts.Recv(); err == nil {
		t.Error("the stream of an unsigned client stays open")
	}
}

func TestPermissions(t *testing.T) {
	e := newEnv(t)
	e.topic(nsA+"%secret", "NORMAL")
	c := e.client("slk_pub")
	c.mustSend("orders", "x")
	want(t, c.send(msg("secret", "x")).GetStatus(), v2.Code_UNAUTHORIZED)
	want(t, c.route(named("secret")).GetStatus(), v2.Code_UNAUTHORIZED)
	status, _ := c.receive(poll("orders", "g"))
	want(t, status, v2.Code_UNAUTHORIZED)
	ts := c.telemetry(consumerSettings("g", v2.ClientType_PUSH_CONSUMER, "orders"))
	cmd, err := ts.Recv()
	if err != nil || cmd.GetSettings() != nil {
		t.Errorf("settings of a client that may not consume: %v, %v", cmd, err)
	}
	want(t, cmd.GetStatus(), v2.Code_UNAUTHORIZED)
}

func TestRateLimit_saysWhen(t *testing.T) {
	e := newEnv(t)
	ns := e.snapshot.Namespaces[nsA]
	ns.Limits.SendMessagesPerSecond = 2
	e.snapshot.Namespaces[nsA] = ns
	e.applyPolicy()
	c := e.client("slk_a")
	var last *v2.SendMessageResponse
	for range 20 {
		if last = c.send(msg("orders", "x")); last.GetStatus().GetCode() != v2.Code_OK {
			break
		}
	}
	want(t, last.GetStatus(), v2.Code_TOO_MANY_REQUESTS)
	text := last.GetStatus().GetMessage()
	if !strings.HasPrefix(text, "[SLUICE:rate_limited] ") || !strings.Contains(text, "limit=2 messages/s") || !strings.Contains(text, "retry_after_ms=") {
		t.Errorf("refusal reads %q", text)
	}
	if len(last.GetEntries()) != 1 || last.GetEntries()[0].GetStatus().GetCode() != v2.Code_TOO_MANY_REQUESTS {
		t.Errorf("entries are %v", last.GetEntries())
	}
}

func TestClientID_required(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	want(t, c.with("x-mq-client-id", "").route(named("orders")).GetStatus(), v2.Code_CLIENT_ID_REQUIRED)
	want(t, c.with("x-mq-client-id", strings.Repeat("x", 300)).route(named("orders")).GetStatus(), v2.Code_CLIENT_ID_REQUIRED)
	// A heartbeat without anything is how one SDK repairs its connection.
	bare := *c
	bare.headers = metadata.MD{}
	hb, err := bare.Heartbeat(bare.ctx(), &v2.HeartbeatRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, hb.GetStatus(), v2.Code_OK)
}

func TestSystemProperties_hidden(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	m := msg("orders", "x")
	m.UserProperties = map[string]string{"mine": "kept"}
	want(t, c.send(m).GetStatus(), v2.Code_OK)
	got := c.take("orders", "g", 1)[0]
	if len(got.GetUserProperties()) != 1 || got.GetUserProperties()["mine"] != "kept" {
		t.Errorf("user properties are %v, want the client's own", got.GetUserProperties())
	}
	if strings.Contains(got.String(), nsA) {
		t.Errorf("the namespace shows in %v", got)
	}
}
