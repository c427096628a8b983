package processor

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

func heartbeat(t testing.TB, id, group, topic, tags string) []byte {
	t.Helper()
	body, err := json.Marshal(wire.Heartbeat{
		ClientID: id, Producers: []wire.ProducerData{{GroupName: "p"}},
		Consumers: []wire.ConsumerData{{
			GroupName: group, ConsumeType: "CONSUME_PASSIVELY", MessageModel: "CLUSTERING", ConsumeFromWhere: "CONSUME_FROM_FIRST_OFFSET",
			Subscriptions: []wire.Subscription{{Topic: topic, SubString: tags, ExpressionType: "TAG", SubVersion: 7}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestNames_areTheClientsOwn(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct{ topic, group string }{{"orders", "g"}, {nsA + "%orders", nsA + "%g"}} {
		sent := e.must("slk_a", wire.SendMessageV2, sendExt(c.topic, 0, "RETRY_TOPIC", c.topic, "PGROUP", c.group, "__SLUICE", "forged", "k", "v"), []byte("x"))
		offset, err := strconv.ParseInt(sent.Ext.Value("queueOffset"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got := e.records(e.must("slk_a", wire.PullMessage, pullExt(c.group, c.topic, 0, offset), nil).Body)
		if len(got) != 1 || got[0].Topic != c.topic {
			t.Fatalf("client that says %s: got %+v", c.topic, got)
		}
		for key, want := range map[string]string{"RETRY_TOPIC": c.topic, "PGROUP": c.group, "k": "v", "__SLUICE": ""} {
			if v, _ := got[0].Property(key); v != want {
				t.Errorf("client that says %s: %s = %q, want %q", c.topic, key, v, want)
			}
		}
		// The system sees what is stored.
		stored := e.records(e.must(policy.SystemKeyID, wire.PullMessage, pullExt("any", nsA+"%orders", 0, offset), nil).Body)
		for key, want := range map[string]string{"RETRY_TOPIC": nsA + "%orders", "PGROUP": nsA + "%g", "__SLUICE": "slk_a,r"} {
			if v, _ := stored[0].Property(key); v != want {
				t.Errorf("stored %s = %q, want %q", key, v, want)
			}
		}
	}
}

func TestAdmission_refusalsSayNothingOfOthers(t *testing.T) {
	e := newEnv(t)
	for name, c := range map[string]struct {
		key, topic string
		secret     string
		code       int32
		want       string
	}{
		"unsigned":         {topic: "orders", code: wire.NoPermission, want: policy.CodeUnauthenticated},
		"wrong secret":     {key: "slk_a", topic: "orders", secret: "guess", code: wire.NoPermission, want: policy.CodeUnauthenticated},
		"no such key":      {key: "slk_none", topic: "orders", secret: "guess", code: wire.NoPermission, want: policy.CodeUnauthenticated},
		"foreign topic":    {key: "slk_a", topic: nsB + "%orders", code: wire.NoPermission, want: policy.CodeNamespaceMismatch},
		"no such ns":       {key: "slk_a", topic: "cccccccc%orders", code: wire.NoPermission, want: policy.CodeNamespaceMismatch},
		"foreign retry":    {key: "slk_a", topic: "%RETRY%" + nsB + "%g", code: wire.NoPermission, want: policy.CodeNamespaceMismatch},
		"no permission":    {key: "slk_pub", topic: "other", code: wire.NoPermission, want: policy.CodePermissionDenied},
		"missing topic":    {key: "slk_a", topic: "none", code: wire.TopicNotExist, want: "topic_not_found"},
		"system topic":     {key: "slk_a", topic: "SCHEDULE_TOPIC_XXXX", code: wire.InvalidParameter, want: policy.CodeNameReserved},
		"template topic":   {key: "slk_a", topic: "TBW102", code: wire.InvalidParameter, want: policy.CodeNameReserved},
		"path":             {key: "slk_a", topic: "../../../x", code: wire.InvalidParameter, want: policy.CodeNameInvalid}, // B143
		"slash":            {key: "slk_a", topic: "a/b", code: wire.InvalidParameter, want: policy.CodeNameInvalid},
		"dots":             {key: "slk_a", topic: "..", code: wire.InvalidParameter, want: policy.CodeNameInvalid},
		"zero byte":        {key: "slk_a", topic: "a\x00b", code: wire.InvalidParameter, want: policy.CodeNameInvalid},
		"10 KB":            {key: "slk_a", topic: strings.Repeat("x", 10<<10), code: wire.InvalidParameter, want: policy.CodeNameInvalid},
		"path as a retry":  {key: "slk_a", topic: "%RETRY%../x", code: wire.InvalidParameter, want: policy.CodeNameInvalid},
		"double namespace": {key: "slk_a", topic: nsA + "%" + nsB + "%orders", code: wire.InvalidParameter, want: policy.CodeNameInvalid},
	} {
		ext := sendExt(c.topic, 0)
		if c.key != "" {
			secret := e.secret(c.key)
			if c.secret != "" {
				secret = []byte(c.secret)
			}
			policy.SignRemoting(ext, []byte("x"), c.key, secret)
		}
		r := e.call("", wire.SendMessageV2, ext, []byte("x"))
		if r.Code != c.code || !strings.HasPrefix(r.Remark, "[SLUICE:"+c.want+"] ") || !strings.Contains(r.Remark, "request_id=") {
			t.Errorf("%s: got %d %s, want %d %s", name, r.Code, r.Remark, c.code, c.want)
		}
		if strings.Contains(r.Remark, nsA+"%") && c.key != "slk_a" {
			t.Errorf("%s: the text shows a physical name: %s", name, r.Remark)
		}
	}
	if r := e.call("slk_a", 12345, nil, nil); r.Code != wire.RequestCodeNotSupported {
		t.Errorf("unknown code: %d %s", r.Code, r.Remark)
	}
	if r := e.call("", 12345, nil, nil); r.Code != wire.NoPermission {
		t.Errorf("unknown code, unsigned: %d %s", r.Code, r.Remark)
	}
}

// B007: the four offset fields are in every pull answer, also when they are 0.
func TestPull_answersAlwaysHaveOffsets(t *testing.T) {
	e := newEnv(t)
	e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0, "TAGS", "a"), []byte("x"))
	filtered := pullExt("g", "orders", 0, 0)
	filtered["subscription"] = "zzz"
	e.must("slk_a", wire.PullMessage, pullExt("g", "orders", 0, 0), nil) // it can be read now
	for name, c := range map[string]struct {
		ext        map[string]string
		code       int32
		next, most string
	}{
		"filled":   {pullExt("g", "orders", 0, 0), wire.Success, "1", "1"},
		"at end":   {pullExt("g", "orders", 0, 1), wire.PullNotFound, "1", "1"},
		"empty":    {pullExt("g", "orders", 1, 0), wire.PullNotFound, "0", "0"},
		"beyond":   {pullExt("g", "orders", 0, 50), wire.PullOffsetMoved, "1", "1"},
		"filtered": {filtered, wire.PullRetryImmediately, "1", "1"},
	} {
		c.ext["sysFlag"] = strconv.Itoa(int(wire.PullFlagSubscription))
		for _, code := range []int32{wire.PullMessage, wire.LitePullMessage} {
			r := e.call("slk_a", code, c.ext, nil)
			want := map[string]string{"suggestWhichBrokerId": "0", "nextBeginOffset": c.next, "minOffset": "0", "maxOffset": c.most}
			if r.Code != c.code || !maps.Equal(r.Ext.Map(), want) {
				t.Errorf("%s: got %d %v %s, want %d %v", name, r.Code, r.Ext, r.Remark, c.code, want)
			}
		}
	}
}

func TestPull_filterOfTheHeartbeat(t *testing.T) {
	e := newEnv(t)
	ext := pullExt("g", "orders", 0, 0)
	ext["sysFlag"] = "0"
	if r := e.call("slk_a", wire.PullMessage, ext, nil); r.Code != wire.SubscriptionNotExist {
		t.Errorf("before the heartbeat: %d %s", r.Code, r.Remark)
	}
	e.must("slk_a", wire.HeartBeat, nil, heartbeat(t, "c1", "g", "orders", "a || b"))
	for i := range 4 {
		e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0, "TAGS", string(rune('a'+i))), []byte("x"))
	}
	if got := e.records(e.must("slk_a", wire.PullMessage, ext, nil).Body); len(got) != 2 {
		t.Errorf("%d records pass the heartbeat's filter", len(got))
	}
	ext["subVersion"] = "8"
	if r := e.call("slk_a", wire.PullMessage, ext, nil); r.Code != wire.SubscriptionNotLatest {
		t.Errorf("newer subscription: %d %s", r.Code, r.Remark)
	}
	ext = pullExt("g", "orders", 0, 0)
	ext["expressionType"], ext["subscription"] = "SQL92", "a > 1 +"
	if r := e.call("slk_a", wire.PullMessage, ext, nil); r.Code != wire.SubscriptionParseFailed {
		t.Errorf("SQL92: %d %s", r.Code, r.Remark)
	}
}

// B008: both header encodings have the same effect and are answered in kind; a
// missing required field is named.
func TestHeaders_bothEncodingsAndMissingFields(t *testing.T) {
	e := newEnv(t)
	long := wire.SendHeader{ProducerGroup: "p", Topic: "orders", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, MaxReconsumeTimes: -1}
	offset := map[string]string{"consumerGroup": "g", "topic": "orders", "queueId": "0"}
	commit := maps.Clone(offset)
	commit["commitOffset"] = "0"
	queue := map[string]string{"topic": "orders", "queueId": "0"}
	byTime := maps.Clone(queue)
	byTime["timestamp"] = "1"
	batch, err := message.AppendBatchEntry(nil, message.BatchEntry{Body: []byte("b")})
	if err != nil {
		t.Fatal(err)
	}
	optional := map[string]bool{"i": true, "j": true, "k": true, "l": true, "m": true, "subscription": true, "expressionType": true}
	for _, c := range []struct {
		code int32
		ext  map[string]string
		body []byte
	}{
		{wire.SendMessage, long.Fields(wire.SendMessage).Map(), []byte("x")},
		{wire.SendMessageV2, sendExt("orders", 0), []byte("x")},
		{wire.SendBatchMessage, sendExt("orders", 0), batch},
		{wire.PullMessage, pullExt("g", "orders", 0, 0), nil},
		{wire.LitePullMessage, pullExt("g", "orders", 0, 0), nil},
		{wire.QueryConsumerOffset, offset, nil},
		{wire.UpdateConsumerOffset, commit, nil},
		{wire.GetMaxOffset, queue, nil},
		{wire.GetMinOffset, queue, nil},
		{wire.GetEarliestMsgStoreTime, queue, nil},
		{wire.SearchOffsetByTimestamp, byTime, nil},
		{wire.UnregisterClient, map[string]string{"clientID": "c"}, nil},
	} {
		for _, enc := range []wire.Serialize{wire.SerializeJSON, wire.SerializeCompact} {
			f := e.frame("slk_a", c.code, c.ext, c.body)
			f.Serialize = enc
			r, err := e.client.Invoke(t.Context(), e.addr, f)
			if err != nil || r.Code != wire.Success || r.Serialize != enc {
				t.Errorf("code %d encoding %d: %+v, %v", c.code, enc, r, err)
			}
		}
		for field := range c.ext {
			if optional[field] || c.code == wire.SendMessage && (field == "reconsumeTimes" || field == "unitMode" || field == "batch") {
				continue
			}
			without := maps.Clone(c.ext)
			delete(without, field)
			if r := e.call("slk_a", c.code, without, c.body); r.Code != wire.SystemError || !strings.Contains(r.Remark, strconv.Quote(field)) {
				t.Errorf("code %d without %s: %d %s", c.code, field, r.Code, r.Remark)
			}
			wrong := maps.Clone(c.ext)
			wrong[field] = "\x01not a number"
			if r := e.call("slk_a", c.code, wrong, c.body); r.Code == wire.Success && field != "a" && field != "c" && field != "clientID" && field != "defaultTopic" {
				t.Errorf("code %d with a wrong %s was accepted", c.code, field)
			}
		}
	}
}

// B010: 32,767 bytes of properties come back byte for byte, one more is
// refused, and a batch with one such message leaves nothing behind.
func TestSend_propertiesAtAndOverTheLimit(t *testing.T) {
	e := newEnv(t)
	value := func(n int) string { return strings.Repeat("v", n-len("k")-2) }
	e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0, "k", value(32767)), []byte("x"))
	got := e.records(e.must("slk_a", wire.PullMessage, pullExt("g", "orders", 0, 0), nil).Body)
	if v, _ := got[0].Property("k"); len(got) != 1 || v != value(32767) || len(got[0].Properties) != 32767 {
		t.Errorf("%d bytes of properties came back", len(got[0].Properties))
	}
	if r := e.call("slk_a", wire.SendMessageV2, sendExt("orders", 0, "k", value(32768)), []byte("x")); r.Code != wire.MessageIllegal {
		t.Errorf("over the limit: %d %s", r.Code, r.Remark)
	}
	var body []byte
	for i := range 3 {
		var err error
		props := message.AppendProperty(nil, "k", value([]int{10, 32767, 10}[i]))
		if i == 1 {
			props = append(props, 'x', 1, 'y', 2)
		}
		body, err = message.AppendBatchEntry(body, message.BatchEntry{Body: []byte("b"), Properties: props[:min(len(props), 32767)]})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The second member names 32,770 bytes: as an unsigned length of its own.
	at := strings.Index(string(body[40:]), "\x7f\xff") + 40
	body[at], body[at+1] = 0x80, 0x02
	if r := e.call("slk_a", wire.SendBatchMessage, sendExt("orders", 0), body); r.Code != wire.MessageIllegal {
		t.Errorf("batch: %d %s", r.Code, r.Remark)
	}
	if r := e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("next")); r.Ext.Value("queueOffset") != "1" {
		t.Errorf("next message at %s", r.Ext.Value("queueOffset"))
	}
}

// B011: an empty body is stored and delivered as an empty body.
func TestSend_emptyBody(t *testing.T) {
	e := newEnv(t)
	for _, code := range []int32{wire.SendMessageV2, wire.SendBatchMessage} {
		var body []byte
		if code == wire.SendBatchMessage {
			body, _ = message.AppendBatchEntry(nil, message.BatchEntry{})
		}
		e.must("slk_a", code, sendExt("orders", 0), body)
	}
	got := e.records(e.must("slk_a", wire.PullMessage, pullExt("g", "orders", 0, 0), nil).Body)
	if len(got) != 2 || len(got[0].Body) != 0 || len(got[1].Body) != 0 {
		t.Errorf("got %d records", len(got))
	}
}

// B048: a time that is too far ahead is refused, and the refusal names property,
// value and limit.
func TestSend_refusesDelaysThatAreNone_B048(t *testing.T) {
	e := newEnv(t)
	for _, props := range [][]string{{"DELAY", "x", "1 to 18"}, {"TIMER_DELIVER_MS", "99999999999999", broker.DelayText(broker.MaxDelay)}, {"TIMER_DELAY_SEC", "31536001", "365 days"}, {"TIMER_DELAY_MS", "1.5", "whole number"}} {
		r := e.call("slk_a", wire.SendMessageV2, sendExt("orders", 0, props[:2]...), []byte("x"))
		if r.Code != wire.MessageIllegal || !strings.Contains(r.Remark, props[0]) || !strings.Contains(r.Remark, props[1]) || !strings.Contains(r.Remark, props[2]) {
			t.Errorf("%v: %d %s", props, r.Code, r.Remark)
		}
	}
}

// No tenant reads or writes the topic in which messages of all tenants wait.
func TestTimerTopic_isNobodys(t *testing.T) {
	e := newEnv(t)
	e.must("slk_b", wire.SendMessageV2, sendExt("orders", 0, "TIMER_DELAY_SEC", "3600"), []byte("secret"))
	for _, topic := range []string{"rmq_sys_wheel_timer", nsA + "%rmq_sys_wheel_timer"} {
		for code, ext := range map[int32]map[string]string{wire.PullMessage: pullExt("g", topic, 0, 0), wire.SendMessageV2: sendExt(topic, 0)} {
			if r := e.call("slk_a", code, ext, []byte("x")); r.Code == wire.Success || strings.Contains(string(r.Body), "secret") {
				t.Errorf("code %d to %s: %d %s", code, topic, r.Code, r.Remark)
			}
		}
	}
}

// A delayed message is taken back by the handle of its send, once its topic is
// the caller's own and its time has not come.
func TestRecall_takesBackOwnMessages(t *testing.T) {
	e := newEnv(t)
	at := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	sent := e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0, "TIMER_DELIVER_MS", at, "UNIQ_KEY", "k1"), []byte("x"))
	handle := sent.Ext.Value("recallHandle")
	if handle == "" {
		t.Fatalf("no recall handle in %v", sent.Ext)
	}
	if plain := e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("x")); plain.Ext.Value("recallHandle") != "" {
		t.Error("a message that does not wait has a recall handle")
	}
	recall := func(key, topic, handle string) *wire.Frame {
		return e.call(key, wire.RecallMessage, map[string]string{"topic": topic, "recallHandle": handle}, nil)
	}
	if r := recall("slk_a", "orders", handle); r.Code != wire.Success || r.Ext.Value("msgId") != "k1" {
		t.Errorf("recall: %d %s %v", r.Code, r.Remark, r.Ext)
	}
	past := base64.URLEncoding.EncodeToString([]byte("v1 orders " + e.core.Config().Name + " 5 k1"))
	other := base64.URLEncoding.EncodeToString([]byte("v1 orders elsewhere 5 k1"))
	for name, c := range map[string]struct {
		topic, handle string
		code          int32
	}{
		"no handle": {"orders", "", wire.SystemError}, "broken": {"orders", "h", 604}, "past": {"orders", past, 604}, "other broker": {"orders", other, 604}, "no topic": {"none", handle, 604},
	} {
		if r := recall("slk_a", c.topic, c.handle); r.Code != c.code {
			t.Errorf("%s: %d %s, want %d", name, r.Code, r.Remark, c.code)
		}
	}
}

// B115: impossible offsets are refused, and of another tenant nothing moves.
func TestUpdateOffset_refusesImpossible(t *testing.T) {
	e := newEnv(t)
	for range 5 {
		e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("x"))
	}
	commit := func(topic string, queue int, offset int64) int32 {
		return e.call("slk_a", wire.UpdateConsumerOffset, map[string]string{
			"consumerGroup": "g", "topic": topic, "queueId": strconv.Itoa(queue), "commitOffset": strconv.FormatInt(offset, 10),
		}, nil).Code
	}
	for name, got := range map[string]int32{
		"negative": commit("orders", 0, -1), "over the end": commit("orders", 0, 105), "queue": commit("orders", 999, 0),
		"foreign": commit(nsB+"%orders", 0, 0), "unknown topic": commit("none", 0, 0),
	} {
		if got == wire.Success {
			t.Errorf("%s was accepted", name)
		}
	}
	if got := commit("orders", 0, 5); got != wire.Success {
		t.Errorf("the end: %d", got)
	}
	pull := pullExt("g", "orders", 0, 0)
	pull["sysFlag"], pull["commitOffset"] = "5", "-1"
	e.must("slk_a", wire.PullMessage, pull, nil)
	r := e.must("slk_a", wire.QueryConsumerOffset, map[string]string{"consumerGroup": "g", "topic": "orders", "queueId": "0"}, nil)
	if r.Ext.Value("offset") != "5" {
		t.Errorf("offset %s", r.Ext.Value("offset"))
	}
	if r := e.call("slk_b", wire.QueryConsumerOffset, map[string]string{"consumerGroup": "g", "topic": "orders", "queueId": "0", "setZeroIfNotFound": "false"}, nil); r.Code != wire.QueryNotFound {
		t.Errorf("the other tenant's group of that name: %d %v", r.Code, r.Ext)
	}
}

// B140: broker settings are not reachable by requests.
func TestBrokerConfig_refused(t *testing.T) {
	e := newEnv(t)
	settings := []byte("filterServerNums=1\nrocketmqHome=/tmp/x;touch /tmp/y\nstorePathRootDir=/tmp/z\nbrokerConfigPath=/tmp/w\n")
	for _, key := range []string{"", "slk_a", policy.SystemKeyID} {
		if r := e.call(key, wire.UpdateBrokerConfig, nil, settings); r.Code != wire.NoPermission {
			t.Errorf("update by %q: %d %s", key, r.Code, r.Remark)
		}
	}
	for _, code := range []int32{wire.GetBrokerConfig, wire.GetBrokerRuntimeInfo, wire.GetAllConsumerOffset, wire.UpdateAndCreateTopic, wire.DeleteTopicInBroker,
		wire.UpdateAndCreateGroup, wire.DeleteGroup, wire.ApplyPolicy, wire.GetPolicyStatus, wire.PullUsage, wire.AckUsage, wire.PullDenials, wire.ListTransactions, wire.SettleTransaction} {
		if r := e.call("slk_a", code, nil, nil); r.Code != wire.NoPermission || len(r.Body) > 0 {
			t.Errorf("code %d by a tenant: %d %s", code, r.Code, r.Remark)
		}
	}
	if r := e.must(policy.SystemKeyID, wire.GetBrokerConfig, nil, nil); strings.Contains(string(r.Body), string(systemSecret)) {
		t.Error("the settings show a secret")
	}
}

// B155: a place in the log is no way around the tenant border.
func TestByLogOffset_foreignRecordsDoNotExist(t *testing.T) {
	e := newEnv(t)
	place := func(key string) int64 {
		r := e.must(key, wire.SendMessageV2, sendExt("orders", 0), []byte("of "+key))
		_, offset, err := message.ParseOffsetID(r.Ext.Value("msgId"))
		if err != nil {
			t.Fatal(err)
		}
		return offset
	}
	own, foreign := place("slk_a"), place("slk_b")
	r := e.must("slk_a", wire.ViewMessageByID, map[string]string{"offset": strconv.FormatInt(own, 10)}, nil)
	if got := e.records(r.Body); len(got) != 1 || got[0].Topic != "orders" || string(got[0].Body) != "of slk_a" {
		t.Errorf("own record: %+v", got)
	}
	var texts []string
	for _, offset := range []int64{foreign, foreign + 5, own + 1, 1 << 40, -1} {
		r := e.call("slk_a", wire.ViewMessageByID, map[string]string{"offset": strconv.FormatInt(offset, 10)}, nil)
		if r.Code != wire.SystemError || len(r.Body) > 0 {
			t.Errorf("view %d: %d %s", offset, r.Code, r.Remark)
		}
		text, _, _ := strings.Cut(r.Remark, "request_id")
		texts = append(texts, text)
		r = e.call("slk_a", wire.ConsumerSendMsgBack, map[string]string{"group": "g", "offset": strconv.FormatInt(offset, 10), "delayLevel": "-1"}, nil)
		if r.Code == wire.Success {
			t.Errorf("send back %d was accepted", offset)
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("a foreign record differs from none: %q, %q", texts[0], texts[1])
	}
	for _, group := range []string{nsB + "%g", "../g"} {
		if r := e.call("slk_a", wire.ConsumerSendMsgBack, map[string]string{"group": group, "offset": strconv.FormatInt(own, 10), "delayLevel": "0"}, nil); r.Code == wire.Success {
			t.Errorf("send back for group %s was accepted", group)
		}
	}
	for _, code := range []int32{wire.EndTransaction, wire.ResumeCheckHalfMessage} {
		if r := e.call("slk_a", code, map[string]string{"commitLogOffset": strconv.FormatInt(foreign, 10)}, nil); r.Code == wire.Success {
			t.Errorf("code %d was accepted", code)
		}
	}
	if r := e.must("slk_a", wire.ConsumerSendMsgBack, map[string]string{"group": "g", "offset": strconv.FormatInt(own, 10), "delayLevel": "-1"}, nil); r.Code != wire.Success {
		t.Error("own record could not be sent back")
	}
	dead := e.records(e.must("slk_a", wire.PullMessage, pullExt("g", "%DLQ%g", 0, 0), nil).Body)
	if len(dead) != 1 || dead[0].Topic != "%DLQ%g" {
		t.Errorf("dead letters: %+v", dead)
	}
	if v, _ := dead[0].Property("RETRY_TOPIC"); v != "orders" {
		t.Errorf("RETRY_TOPIC = %q", v)
	}
}

// B156: groups of one name in two namespaces have nothing in common.
func TestGroups_sameNameInTwoNamespaces(t *testing.T) {
	e := newEnv(t)
	e.must("slk_a", wire.HeartBeat, nil, heartbeat(t, "client-a", "g", "orders", "*"))
	if r := e.call("slk_b", wire.GetConsumerListByGroup, map[string]string{"consumerGroup": "g"}, nil); r.Code == wire.Success {
		t.Errorf("B sees A's members: %s", r.Body)
	}
	e.must("slk_b", wire.HeartBeat, nil, heartbeat(t, "client-b", "g", "orders", "*"))
	for key, want := range map[string]string{"slk_a": `{"consumerIdList":["client-a"]}`, "slk_b": `{"consumerIdList":["client-b"]}`} {
		if r := e.must(key, wire.GetConsumerListByGroup, map[string]string{"consumerGroup": "g"}, nil); string(r.Body) != want {
			t.Errorf("%s: %s", key, r.Body)
		}
	}
	for range 3 {
		e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("a"))
	}
	e.must("slk_b", wire.SendMessageV2, sendExt("orders", 0), []byte("b"))
	e.must("slk_a", wire.UpdateConsumerOffset, map[string]string{"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "3"}, nil)
	if r := e.must("slk_b", wire.QueryConsumerOffset, map[string]string{"consumerGroup": "g", "topic": "orders", "queueId": "0"}, nil); r.Ext.Value("offset") != "0" {
		t.Errorf("B's offset: %s", r.Ext.Value("offset"))
	}
	lock := []byte(`{"clientId":"x","consumerGroup":"g","mqSet":[{"brokerName":"broker-a","queueId":0,"topic":"orders"}]}`)
	for _, key := range []string{"slk_a", "slk_b"} {
		if r := e.must(key, wire.LockBatchMQ, nil, lock); string(r.Body) != `{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"orders"}]}` {
			t.Errorf("lock by %s: %s", key, r.Body)
		}
	}
	if err := e.system.At(e.addr).DeleteGroup(t.Context(), nsA+"%g", true); err != nil {
		t.Fatal(err)
	}
	if r := e.must("slk_b", wire.GetConsumeStats, map[string]string{"consumerGroup": "g", "topic": "orders"}, nil); !strings.Contains(string(r.Body), `"brokerOffset":1`) {
		t.Errorf("B's progress after A's group went: %s", r.Body)
	}
}

// B157: lists hold the caller's own objects only.
func TestLists_ownObjectsOnly(t *testing.T) {
	e := newEnv(t)
	e.putTopic(nsB+"%secret", 1)
	e.putGroup(nsB + "%secretgroup")
	e.must("slk_b", wire.HeartBeat, nil, heartbeat(t, "client-b", "g", "orders", "*"))
	for _, c := range []struct {
		code int32
		ext  map[string]string
	}{
		{wire.GetAllTopicConfig, nil}, {wire.GetAllGroupConfig, nil}, {wire.GetAllConsumerOffset, nil}, {wire.GetAllDelayOffset, nil},
		{wire.GetConsumerConnectionList, map[string]string{"consumerGroup": nsB + "%g"}},
		{wire.GetConsumerConnectionList, map[string]string{"consumerGroup": "g"}},
		{wire.GetConsumerListByGroup, map[string]string{"consumerGroup": nsB + "%g"}},
		{wire.GetProducerConnectionList, map[string]string{"producerGroup": "p"}},
		{wire.GetProducerConnectionList, map[string]string{"producerGroup": nsB + "%p"}},
		{wire.GetConsumeStats, map[string]string{"consumerGroup": nsB + "%g"}},
		{wire.GetTopicStatsInfo, map[string]string{"topic": nsB + "%orders"}},
		{wire.GetTopicConfig, map[string]string{"topic": nsB + "%orders"}},
		{wire.GetGroupConfig, map[string]string{"group": nsB + "%g"}},
		{wire.QueryTopicConsumeByWho, map[string]string{"topic": "orders"}},
		{wire.QueryTopicConsumeByWho, map[string]string{"topic": nsB + "%orders"}},
		{wire.GetConsumerRunningInfo, map[string]string{"consumerGroup": nsB + "%g", "clientId": "client-b"}},
		{314, map[string]string{"srcGroup": nsB + "%g", "destGroup": "g"}},
		{wire.InvokeBrokerToResetOffset, map[string]string{"topic": nsB + "%orders", "group": nsB + "%g", "timestamp": "0", "isForce": "true"}},
		{wire.QueryMessage, map[string]string{"topic": nsB + "%orders", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9"}},
	} {
		r := e.call("slk_a", c.code, c.ext, nil)
		if text := string(r.Body) + r.Remark; strings.Contains(text, "secret") || strings.Contains(text, "client-b") || strings.Contains(string(r.Body), nsB) {
			t.Errorf("code %d %v: %d %s", c.code, c.ext, r.Code, text)
		}
		if strings.Contains(fmt.Sprint(c.ext), nsB) && r.Code == wire.Success {
			t.Errorf("code %d %v was accepted", c.code, c.ext)
		}
	}
	var topics wire.TopicConfigs
	if err := wire.Unmarshal(e.must("slk_a", wire.GetAllTopicConfig, nil, nil).Body, &topics); err != nil {
		t.Fatal(err)
	}
	if len(topics.Topics) != 2 || topics.Topics["orders"].TopicName != "orders" || topics.Topics["%RETRY%g"].TopicName != "%RETRY%g" || topics.DataVersion != (wire.DataVersion{}) {
		t.Errorf("own topics: %+v", topics)
	}
}

func TestNotify_membersHearOfChanges(t *testing.T) {
	e := newEnv(t)
	pushed := make(chan string, 16)
	join := func(id, group string) *remoting.Client {
		c, err := remoting.NewClient(remoting.ClientOptions{Handler: pushHandler(func(f *wire.Frame) {
			pushed <- id + " " + f.Ext.Value("consumerGroup")
		})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		r, err := c.Invoke(t.Context(), e.addr, e.frame("slk_a", wire.HeartBeat, nil, heartbeat(t, id, group, "orders", "*")))
		if err != nil || r.Code != wire.Success {
			t.Fatalf("heartbeat of %s: %+v, %v", id, r, err)
		}
		return c
	}
	join("one", "g")
	if got := <-pushed; got != "one g" {
		t.Errorf("own join: %q", got)
	}
	two := join("two", nsA+"%g")
	seen := map[string]bool{<-pushed: true, <-pushed: true}
	if !seen["one g"] || !seen["two "+nsA+"%g"] {
		t.Errorf("second join: %v", seen)
	}
	two.Close()
	if got := <-pushed; got != "one g" {
		t.Errorf("leave by a closed connection: %q", got)
	}
	ids := e.core.ConsumerIDs(nsA + "%g")
	if len(ids) != 1 || ids[0] != "one" {
		t.Errorf("members: %v", ids)
	}
	// A gRPC member of the same group owns no queues: members that divide
	// queues among themselves must not leave any to it.
	err := e.core.Heartbeat(&broker.Client{ID: "grpc", Protocol: broker.ProtocolGRPC}, nil, []broker.Consumer{{Group: nsA + "%g", MessageModel: "CLUSTERING"}})
	if err != nil {
		t.Fatal(err)
	}
	r := e.must("slk_a", wire.GetConsumerListByGroup, map[string]string{"consumerGroup": "g"}, nil)
	var list wire.ConsumerList
	if err := json.Unmarshal(r.Body, &list); err != nil || len(list.ConsumerIDs) != 1 || list.ConsumerIDs[0] != "one" {
		t.Errorf("who divides the queues: %s, %v", r.Body, err)
	}
}

// A rule that takes a topic away ends the pull that is parked on it, at once;
// the connection stays.
func TestRule_endsParkedPulls(t *testing.T) {
	e := newEnv(t)
	parked := pullExt("g", "orders", 1, 0)
	parked["sysFlag"], parked["suspendTimeoutMillis"] = "6", "30000"
	answered := make(chan *wire.Frame, 1)
	pull := e.frame("slk_a", wire.PullMessage, parked, nil)
	go func() {
		r, err := e.client.Invoke(t.Context(), e.addr, pull)
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	ns := e.snap.Namespaces[nsA]
	ns.ACL = []policy.Rule{{ID: "acl_7", Deny: true, Principal: "slk_a", Resource: "topic", Pattern: "orders", Operations: []string{"SUB"}}}
	e.snap.Namespaces[nsA] = ns
	e.apply()
	if r := <-answered; r.Code != wire.NoPermission || !strings.Contains(r.Remark, "acl_7") {
		t.Errorf("the parked pull: %d %s", r.Code, r.Remark)
	}
	e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("sending goes on"))
}

// A revoked key loses its connections, with the pulls that are parked there.
func TestRevokedKey_closesConnections(t *testing.T) {
	e := newEnv(t)
	parked := pullExt("g", "orders", 1, 0)
	parked["sysFlag"], parked["suspendTimeoutMillis"] = "6", "30000"
	ended := make(chan error, 1)
	e.must("slk_a", wire.HeartBeat, nil, heartbeat(t, "c", "g", "orders", "*"))
	pull := e.frame("slk_a", wire.PullMessage, parked, nil)
	go func() {
		r, err := e.client.Invoke(t.Context(), e.addr, pull)
		if err == nil && r.Code == wire.NoPermission {
			err = remoting.ErrClosed
		}
		ended <- err
	}()
	k := e.snap.Keys["slk_a"]
	k.Revoked = true
	e.snap.Keys["slk_a"] = k
	e.apply()
	if err := <-ended; err == nil {
		t.Error("the parked pull was answered")
	}
	if r := e.call("slk_a", wire.HeartBeat, nil, heartbeat(t, "c", "g", "orders", "*")); r.Code != wire.NoPermission || !strings.Contains(r.Remark, policy.CodeKeyRevoked) {
		t.Errorf("after revocation: %d %s", r.Code, r.Remark)
	}
}

// A key whose time is over loses its connections too, although nobody changed
// the policy.
func TestExpiredKey_closesConnections(t *testing.T) {
	e := newEnv(t)
	end := time.Now().Add(300 * time.Millisecond)
	k := e.snap.Keys["slk_a"]
	k.ExpiresAt = &end
	e.snap.Keys["slk_a"] = k
	e.apply()
	e.must("slk_a", wire.HeartBeat, nil, heartbeat(t, "c", "g", "orders", "*"))
	conn, err := e.client.Conn(t.Context(), e.addr)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	conn.OnClose(func() { close(closed) })
	<-closed
	if r := e.call("slk_a", wire.HeartBeat, nil, heartbeat(t, "c", "g", "orders", "*")); !strings.Contains(r.Remark, policy.CodeKeyExpired) {
		t.Errorf("after its time: %d %s", r.Code, r.Remark)
	}
}

func TestRates_refuseSendsWithNumbers(t *testing.T) {
	e := newEnv(t)
	ns := e.snap.Namespaces[nsA]
	ns.Limits.SendMessagesPerSecond = 1
	e.snap.Namespaces[nsA] = ns
	e.apply()
	for range 100 {
		r := e.call("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("x"))
		if r.Code == wire.Success {
			continue
		}
		for _, part := range []string{"[SLUICE:rate_limited]", "limit=1 messages/s", "retry_after_ms=", "request_id="} {
			if r.Code != wire.SystemBusy || !strings.Contains(r.Remark, part) {
				t.Fatalf("refusal %d %s lacks %s", r.Code, r.Remark, part)
			}
		}
		return
	}
	t.Error("a hundred messages passed a rate of one a second")
}

func TestHeartbeat_badNamesAreRefused(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct{ group, topic string }{{"../g", "orders"}, {"g", "a/b"}, {nsB + "%g", "orders"}, {"g", nsB + "%orders"}, {"none", "orders"}} {
		if r := e.call("slk_a", wire.HeartBeat, nil, heartbeat(t, "c", c.group, c.topic, "*")); r.Code == wire.Success {
			t.Errorf("group %q topic %q were accepted", c.group, c.topic)
		}
	}
	for _, body := range []string{"", "null", "[]", "{", `{"clientID":""}`, `{"clientID":5}`, strings.Repeat("[", 100000)} {
		if r := e.call("slk_a", wire.HeartBeat, nil, []byte(body)); r.Code != wire.SystemError {
			t.Errorf("body %.20q: %d %s", body, r.Code, r.Remark)
		}
	}
}

// Only messages may be large: a large body of any other request is refused
// before it is decoded, and is not kept while a pull waits.
func TestRequests_onlyMessagesMayBeLarge(t *testing.T) {
	e := newEnv(t)
	large := make([]byte, maxControlBody+1)
	for _, code := range []int32{wire.HeartBeat, wire.LockBatchMQ, wire.CheckClientConfig, wire.PullMessage, wire.GetMaxOffset} {
		if r := e.call("slk_a", code, pullExt("g", "orders", 0, 0), large); r.Code != wire.InvalidParameter || !strings.Contains(r.Remark, "[SLUICE:body_too_large]") {
			t.Errorf("code %d: %d %s", code, r.Code, r.Remark)
		}
	}
	e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), large)
}
