package namesrv

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var systemSecret = []byte("0123456789abcdef0123456789abcdef")

func all(ns string) policy.Scope {
	return policy.Scope{NamespaceID: ns, Permissions: []string{"PUB", "SUB", "MANAGE", "DESCRIBE"}, Topics: []string{"*"}, Groups: []string{"*"}}
}

// fixture is a name server on a listener, with the policy of two tenants.
type fixture struct {
	*Server
	t      *testing.T
	engine *policy.Engine
	sign   ed25519.PrivateKey
	snap   *policy.Snapshot
	addr   string
	client *remoting.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, sign: private}
	f.engine, err = policy.Open(policy.Config{
		Dir: t.TempDir(), Cluster: "c1", SystemSecret: systemSecret, Trusted: []ed25519.PublicKey{public}, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.snap = &policy.Snapshot{
		Namespaces: map[string]policy.Namespace{"aaaaaaaa": {TenantID: "ten_a"}, "bbbbbbbb": {TenantID: "ten_b"}},
		Keys: map[string]policy.Key{
			"slk_a":    {Secret: "secret-a", TenantID: "ten_a", Scopes: []policy.Scope{all("aaaaaaaa")}},
			"slk_b":    {Secret: "secret-b", TenantID: "ten_b", Scopes: []policy.Scope{all("bbbbbbbb")}},
			"slk_none": {Secret: "secret-none", TenantID: "ten_a", Scopes: []policy.Scope{{NamespaceID: "aaaaaaaa", Permissions: []string{"PUB"}, Topics: []string{"another"}}}},
		},
	}
	f.apply(1)
	f.Server = New(Deps{Policy: f.engine})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := remoting.NewServer(remoting.Config{}, ln, f.Server, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- srv.Serve() }()
	go func() { done <- f.Run(ctx, srv.Conns) }()
	f.addr = ln.Addr().String()
	if f.client, err = remoting.NewClient(remoting.ClientOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		f.client.Close()
		srv.Close()
		<-done
		<-done
	})
	return f
}

func (f *fixture) apply(revision uint64) {
	f.t.Helper()
	env, err := policy.SealSnapshot(f.sign, "c1", revision, f.snap)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.engine.Apply(env); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) secret(key string) string {
	if key == policy.SystemKeyID {
		return string(systemSecret)
	}
	return f.snap.Keys[key].Secret
}

// call sends a request signed by key; "" leaves it unsigned.
func (f *fixture) call(key string, code int32, ext map[string]string, body []byte) *wire.Frame {
	f.t.Helper()
	if ext == nil {
		ext = map[string]string{}
	}
	if key != "" {
		policy.SignRemoting(ext, body, key, []byte(f.secret(key)))
	}
	req := wire.Request(code, body)
	for k, v := range ext {
		req.Ext.Add(k, v)
	}
	resp, err := f.client.Invoke(f.t.Context(), f.addr, req)
	if err != nil {
		f.t.Fatalf("code %d: %v", code, err)
	}
	return resp
}

func registerBody(t *testing.T, topics ...string) []byte {
	t.Helper()
	body := wire.RegisterBrokerBody{FilterServers: []string{}}
	body.Topics.DataVersion = wire.DataVersion{Counter: 3, Timestamp: 5}
	body.Topics.Topics = map[string]wire.TopicConfig{}
	for _, name := range topics {
		body.Topics.Topics[name] = wire.TopicConfig{TopicName: name, Perm: 6, ReadQueueNums: 4, WriteQueueNums: 4}
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func brokerExt(more ...string) map[string]string {
	ext := map[string]string{"clusterName": "c1", "brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "brokerId": "0"}
	for i := 0; i+1 < len(more); i += 2 {
		ext[more[i]] = more[i+1]
	}
	return ext
}

func TestRoute_mapsNamesByTheKey(t *testing.T) {
	f := newFixture(t)
	if r := f.call(policy.SystemKeyID, wire.RegisterBroker, brokerExt(wire.FullRegistration, "true"), registerBody(t, "aaaaaaaa%orders", "%RETRY%aaaaaaaa%g", "bbbbbbbb%orders", "bbbbbbbb%secret")); r.Code != wire.Success {
		t.Fatalf("register: %d %s", r.Code, r.Remark)
	}
	for _, c := range []struct {
		key, topic string
		want       int32
	}{
		{"slk_a", "orders", wire.Success},
		{"slk_a", "aaaaaaaa%orders", wire.Success},
		{"slk_a", "%RETRY%g", wire.Success},
		{"slk_a", "%RETRY%aaaaaaaa%g", wire.Success},
		{"slk_b", "orders", wire.Success},
		{"slk_b", "secret", wire.Success},
		{"slk_a", "secret", wire.TopicNotExist},
		{"slk_a", "nothing", wire.TopicNotExist},
		{"slk_a", "TBW102", wire.TopicNotExist},
		{"slk_a", "c1_REPLY_TOPIC", wire.Success}, // of its cluster, for everybody
		{"slk_a", "aaaaaaaa%c1_REPLY_TOPIC", wire.Success},
		{"slk_none", "c1_REPLY_TOPIC", wire.Success},
		{"slk_a", "c2_REPLY_TOPIC", wire.TopicNotExist},
		{"slk_a", "bbbbbbbb%c1_REPLY_TOPIC", wire.NoPermission},
		{"", "c1_REPLY_TOPIC", wire.NoPermission},
		{"slk_a", "../../../x", wire.TopicNotExist},
		{"slk_a", "%RETRY%other", wire.TopicNotExist},
		{"slk_a", "bbbbbbbb%orders", wire.NoPermission},
		{"slk_a", "%RETRY%bbbbbbbb%g", wire.NoPermission},
		{"", "orders", wire.NoPermission},
		{"", "nothing", wire.NoPermission},
	} {
		r := f.call(c.key, wire.GetRouteInfoByTopic, map[string]string{"topic": c.topic}, nil)
		if r.Code != c.want {
			t.Errorf("key %q topic %q: got %d %s, want %d", c.key, c.topic, r.Code, r.Remark, c.want)
		}
		if r.Code != wire.Success && !strings.HasPrefix(r.Remark, "[SLUICE:") {
			t.Errorf("key %q topic %q: text %q", c.key, c.topic, r.Remark)
		}
		if strings.ContainsAny(string(r.Body), " \n") {
			t.Errorf("route with white space, which a client cannot split: %s", r.Body)
		}
	}
	r := f.call("slk_a", wire.GetRouteInfoByTopic, map[string]string{"topic": "orders"}, nil)
	want := `{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c1","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}`
	if got := string(r.Body); got != want {
		t.Errorf("route:\n got %s\nwant %s", got, want)
	}
}

// B141: nobody but Sluice itself changes the name server, and nothing of it is
// a file.
func TestHandle_refusesForeignChanges(t *testing.T) {
	f := newFixture(t)
	f.call(policy.SystemKeyID, wire.RegisterBroker, brokerExt(), registerBody(t, "aaaaaaaa%orders"))
	before := string(f.call("slk_a", wire.GetRouteInfoByTopic, map[string]string{"topic": "orders"}, nil).Body)
	for _, key := range []string{"", "slk_a", "slk_b"} {
		for _, c := range []struct {
			code int32
			ext  map[string]string
			body []byte
		}{
			{wire.UpdateNamesrvConfig, nil, []byte("kvConfigPath=/tmp/x\nconfigStorePath=/tmp/y\n")},
			{wire.GetNamesrvConfig, nil, nil},
			{wire.PutKVConfig, map[string]string{"namespace": "n", "key": "k", "value": "v"}, nil},
			{wire.GetKVConfig, map[string]string{"namespace": "n", "key": "k"}, nil},
			{wire.DeleteKVConfig, map[string]string{"namespace": "n", "key": "k"}, nil},
			{wire.RegisterBroker, brokerExt("brokerAddr", "6.6.6.6:1"), registerBody(t, "aaaaaaaa%orders", "bbbbbbbb%orders")},
			{wire.UnregisterBroker, brokerExt(), nil},
			{wire.BrokerHeartbeat, brokerExt(), nil},
			{wire.DeleteTopicInNamesrv, map[string]string{"topic": "aaaaaaaa%orders"}, nil},
			{wire.WipeWritePermOfBroker, map[string]string{"brokerName": "broker-a"}, nil},
			{wire.ApplyPolicy, nil, []byte("{}")},
			{wire.GetBrokerClusterInfo, nil, nil}, // B157
		} {
			if r := f.call(key, c.code, c.ext, c.body); r.Code != wire.NoPermission || len(r.Body) > 0 {
				t.Errorf("key %q code %d: got %d %s %s", key, c.code, r.Code, r.Remark, r.Body)
			}
		}
	}
	for _, code := range []int32{wire.UpdateNamesrvConfig, wire.PutKVConfig} {
		if r := f.call(policy.SystemKeyID, code, nil, []byte("a=b")); r.Code != wire.NoPermission {
			t.Errorf("system, code %d: got %d", code, r.Code)
		}
	}
	if after := string(f.call("slk_a", wire.GetRouteInfoByTopic, map[string]string{"topic": "orders"}, nil).Body); after != before {
		t.Errorf("route changed to %s", after)
	}
}

// B157: a list holds the caller's own topics only, in its own names.
func TestTopicList_ownTopicsOnly(t *testing.T) {
	f := newFixture(t)
	f.call(policy.SystemKeyID, wire.RegisterBroker, brokerExt(), registerBody(t, "aaaaaaaa%orders", "bbbbbbbb%secret", "SCHEDULE_TOPIC_XXXX"))
	if r := f.call("slk_a", wire.GetAllTopicListFromNamesrv, nil, nil); string(r.Body) != `{"topicList":["orders"]}` {
		t.Errorf("got %d %s", r.Code, r.Body)
	}
	if r := f.call("", wire.GetAllTopicListFromNamesrv, nil, nil); r.Code != wire.NoPermission {
		t.Errorf("unsigned: %d %s", r.Code, r.Body)
	}
}

func TestRevokedKey_losesItsConnection(t *testing.T) {
	f := newFixture(t)
	f.call("slk_a", wire.GetRouteInfoByTopic, map[string]string{"topic": "x"}, nil)
	conn, err := f.client.Conn(t.Context(), f.addr)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	conn.OnClose(func() { close(closed) })
	k := f.snap.Keys["slk_a"]
	k.Revoked = true
	f.snap.Keys["slk_a"] = k
	f.apply(2)
	<-closed
	if r := f.call("slk_a", wire.GetRouteInfoByTopic, map[string]string{"topic": "x"}, nil); r.Code != wire.NoPermission || !strings.Contains(r.Remark, policy.CodeKeyRevoked) {
		t.Errorf("got %d %s", r.Code, r.Remark)
	}
}

func TestExpiredKey_losesItsConnection(t *testing.T) {
	f := newFixture(t)
	end := time.Now().Add(300 * time.Millisecond)
	k := f.snap.Keys["slk_a"]
	k.ExpiresAt = &end
	f.snap.Keys["slk_a"] = k
	f.apply(2)
	f.call("slk_a", wire.GetRouteInfoByTopic, map[string]string{"topic": "x"}, nil)
	conn, err := f.client.Conn(t.Context(), f.addr)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	conn.OnClose(func() { close(closed) })
	<-closed
}

func TestBrokerConnection_closedRemovesBroker(t *testing.T) {
	f := newFixture(t)
	f.call(policy.SystemKeyID, wire.RegisterBroker, brokerExt(), registerBody(t, "aaaaaaaa%orders"))
	if r := f.call(policy.SystemKeyID, wire.QueryDataVersion, brokerExt(), []byte(`{"counter":3,"stateVersion":0,"timestamp":5}`)); r.Ext.Value("changed") != "false" {
		t.Errorf("data version: %v %s", r.Ext, r.Body)
	}
	if r := f.call(policy.SystemKeyID, wire.GetBrokerMemberGroup, brokerExt(), nil); !strings.Contains(string(r.Body), `"0":"10.0.0.1:10911"`) {
		t.Errorf("member group: %s", r.Body)
	}
	own, err := remoting.NewClient(remoting.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	shared := f.client
	f.client = own
	f.call(policy.SystemKeyID, wire.RegisterBroker, brokerExt("brokerName", "broker-b", "brokerAddr", "10.0.0.2:10911"), registerBody(t, "aaaaaaaa%b"))
	f.client = shared
	own.Close()
	for { // the server sees the close when it reads next; each query goes through it too
		if r := f.call("slk_a", wire.GetRouteInfoByTopic, map[string]string{"topic": "b"}, nil); r.Code == wire.TopicNotExist {
			break
		}
	}
	if r := f.call("slk_a", wire.GetRouteInfoByTopic, map[string]string{"topic": "orders"}, nil); r.Code != wire.Success {
		t.Errorf("the other broker went too: %d", r.Code)
	}
}

func TestTable_history(t *testing.T) {
	now := time.Unix(1000, 0)
	tb := NewTable(time.Minute, func() time.Time { return now })
	topic := func(names ...string) map[string]wire.TopicConfig {
		m := map[string]wire.TopicConfig{}
		for _, n := range names {
			m[n] = wire.TopicConfig{TopicName: n, Perm: 6, ReadQueueNums: 2, WriteQueueNums: 2}
		}
		return m
	}
	has := func(name string, want bool) {
		t.Helper()
		if _, ok := tb.Route(name); ok != want {
			t.Errorf("route of %s: got %t, want %t", name, ok, want)
		}
	}
	tb.Register(Registration{Cluster: "c", BrokerName: "a", Addr: "1:1", Topics: topic("x", "y"), Full: true})
	tb.Register(Registration{Cluster: "c", BrokerName: "b", Addr: "2:1", Topics: topic("x")})
	tb.Register(Registration{Cluster: "c", BrokerName: "a", Addr: "1:1", Topics: topic("z")})
	has("y", true)
	has("z", true)
	if r, _ := tb.Route("x"); len(r.QueueDatas) != 2 || r.QueueDatas[0].BrokerName != "a" {
		t.Errorf("route of x: %+v", r)
	}
	tb.Register(Registration{Cluster: "c", BrokerName: "a", Addr: "1:1", Topics: topic("x"), Full: true})
	has("y", false)
	has("z", false)
	tb.Register(Registration{Cluster: "c", BrokerName: "a", Addr: "1:2", BrokerID: 1})
	if d, _ := tb.Member("a"); len(d.BrokerAddrs) != 2 {
		t.Errorf("member a: %+v", d)
	}
	now = now.Add(30 * time.Second)
	tb.Touch("c", "a", 0)
	now = now.Add(40 * time.Second)
	tb.Expire()
	if r, _ := tb.Route("x"); len(r.QueueDatas) != 1 || r.BrokerDatas[0].BrokerName != "a" || len(r.BrokerDatas[0].BrokerAddrs) != 1 {
		t.Errorf("after expiry: %+v", r)
	}
	tb.DeleteTopic("x")
	has("x", false)
	tb.Unregister("c", "a", 0)
	if got := tb.Topics(""); len(got) != 0 {
		t.Errorf("topics left: %v", got)
	}
}
