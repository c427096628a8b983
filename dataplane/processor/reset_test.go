package processor

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/wire"
)

// The stock tool's reset of a group, of an online one too: the answer is what
// it reads, the next pull is told where to go on.
func TestReset_byTheStockTool(t *testing.T) {
	e := newEnv(t)
	for range 5 {
		e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("x"))
	}
	e.must("slk_a", wire.PullMessage, pullExt("g", "orders", 0, 4), nil) // all can be read now
	e.must("slk_a", wire.HeartBeat, nil, heartbeat(t, "c1", "g", "orders", "*"))
	commit := map[string]string{"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "5"}
	e.must("slk_a", wire.UpdateConsumerOffset, commit, nil)
	preview, err := e.system.At(e.addr).ResetOffsets(t.Context(), nsA+"%g", nsA+"%orders", -1, -1, time.UnixMilli(0), true)
	if err != nil || len(preview) != 4 || preview[0] != (wire.ResetQueue{BrokerName: "broker-a", QueueID: 0, From: 5, To: 0, Min: 0, Max: 5}) || preview[1].From != -1 {
		t.Errorf("preview: %+v, %v", preview, err)
	}
	reset := map[string]string{"topic": "orders", "group": "g", "timestamp": "0", "isForce": "true", "queueId": "-1", "offset": "-1"}
	r := e.must("slk_a", wire.InvokeBrokerToResetOffset, reset, nil)
	if want := `{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:0,`; !strings.HasPrefix(string(r.Body), want) {
		t.Errorf("answer %s, want %s", r.Body, want)
	}
	e.must("slk_a", wire.UpdateConsumerOffset, commit, nil) // from before: does not count
	if r := e.call("slk_a", wire.PullMessage, pullExt("g", "orders", 0, 5), nil); r.Code != wire.PullOffsetMoved || r.Ext.Value("nextBeginOffset") != "0" {
		t.Errorf("the next pull: %d %v", r.Code, r.Ext)
	}
	if r := e.must("slk_a", wire.QueryConsumerOffset, map[string]string{"consumerGroup": "g", "topic": "orders", "queueId": "0"}, nil); r.Ext.Value("offset") != "0" {
		t.Errorf("the group's place: %v", r.Ext)
	}
	for field, value := range map[string]string{"queueId": "-2", "offset": "-2", "timestamp": "-2"} {
		bad := map[string]string{"topic": "orders", "group": "g", field: value}
		if r := e.call("slk_a", wire.InvokeBrokerToResetOffset, bad, nil); r.Code == wire.Success || !strings.Contains(r.Remark, field) {
			t.Errorf("%s %s: %d %s", field, value, r.Code, r.Remark)
		}
	}
	e.putGroup(nsA + "%copy")
	e.must("slk_a", wire.UpdateConsumerOffset, map[string]string{"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "3"}, nil)
	e.must("slk_a", wire.CloneGroupOffset, map[string]string{"srcGroup": "g", "destGroup": "copy", "offline": "false"}, nil)
	if r := e.must("slk_a", wire.QueryConsumerOffset, map[string]string{"consumerGroup": "copy", "topic": "orders", "queueId": "0"}, nil); r.Ext.Value("offset") != "3" {
		t.Errorf("the copy's place: %v", r.Ext)
	}
	if r := e.must("slk_a", wire.QueryTopicsByConsumer, map[string]string{"group": "g"}, nil); string(r.Body) != `{"topicList":["orders"]}` {
		t.Errorf("topics of the group: %s", r.Body)
	}
	if r := e.must("slk_a", wire.QuerySubscriptionByConsumer, map[string]string{"group": "g", "topic": "orders"}, nil); !strings.Contains(string(r.Body), `"subString":"*"`) || strings.Contains(string(r.Body), nsA) {
		t.Errorf("subscription: %s", r.Body)
	}
}
