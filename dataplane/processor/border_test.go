package processor

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// TestEveryCode_foreignNamesGainNothing sends every request code, signed by
// tenant A, with every field that names something pointing at tenant B: by
// physical name, by namespace hint, by place in the log. Nothing succeeds,
// nothing of B is shown, nothing of B changes.
func TestEveryCode_foreignNamesGainNothing(t *testing.T) {
	e := newEnv(t)
	const secret = "only for B"
	sent := e.must("slk_b", wire.SendMessageV2, sendExt("orders", 0, "KEYS", "k1"), []byte(secret))
	e.must("slk_b", wire.HeartBeat, nil, heartbeat(t, "client-of-b", "g", "orders", "*"))
	e.must("slk_b", wire.UpdateConsumerOffset, map[string]string{"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "1"}, nil)
	_, place, err := message.ParseOffsetID(sent.Ext.Value("msgId"))
	if err != nil {
		t.Fatal(err)
	}
	state := func() string {
		var b strings.Builder
		for _, c := range []struct {
			code int32
			ext  map[string]string
		}{
			{wire.GetAllTopicConfig, nil}, {wire.GetAllGroupConfig, nil},
			{wire.GetConsumeStats, map[string]string{"consumerGroup": "g"}},
			{wire.GetTopicStatsInfo, map[string]string{"topic": "orders"}},
			{wire.GetConsumerListByGroup, map[string]string{"consumerGroup": "g"}},
		} {
			b.Write(e.must("slk_b", c.code, c.ext, nil).Body)
		}
		return b.String()
	}
	before := state()

	numbers := map[string]string{
		"queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "5", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
		"offset": strconv.FormatInt(place, 10), "commitLogOffset": strconv.FormatInt(place, 10), "tranStateTableOffset": "0", "commitOrRollback": "8",
		"delayLevel": "-1", "timestamp": "0", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "99999999999999", "key": "k1", "isForce": "true",
		"subscription": "*", "expressionType": "TAG", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "bornTimestamp": "1", "flag": "0",
		"readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false", "cleanOffset": "true",
		"c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "msgId": sent.Ext.Value("msgId"), "offsetMsgId": sent.Ext.Value("msgId"),
		"sequence": "1", "clientID": "client-of-b", "clientId": "client-of-b", "invisibleTime": "1000", "pollTime": "0", "bornTime": "0", "initMode": "0",
		"extraInfo": "0 0 0 0 0 broker-a 0 0", "brokerName": "broker-a", "clusterName": "c1", "brokerAddr": e.addr, "topicSeq": "0", "groupSeq": "0",
	}
	named := func(topic, group string) map[string]string {
		ext := maps.Clone(numbers)
		for _, k := range []string{"topic", "b", "originTopic"} {
			ext[k] = topic
		}
		for _, k := range []string{"consumerGroup", "group", "groupName", "producerGroup", "a", "srcGroup", "destGroup", "compareGroup", "filterGroups"} {
			ext[k] = group
		}
		return ext
	}
	hinted := named("orders", "g")
	hinted["ns"], hinted["nsd"] = nsB, "true"
	tries := []map[string]string{
		named(nsB+"%orders", nsB+"%g"), named("%RETRY%"+nsB+"%g", nsB+"%g"), named("%DLQ%"+nsB+"%g", nsB+"%g"), hinted,
		named("orders", nsB+"%g"), named(nsB+"%orders", "g"),
	}
	bodies := [][]byte{
		nil,
		heartbeat(t, "client-of-b", nsB+"%g", nsB+"%orders", "*"),
		[]byte(`{"clientId":"x","consumerGroup":"` + nsB + `%g","mqSet":[{"brokerName":"broker-a","queueId":0,"topic":"` + nsB + `%orders"}]}`),
		[]byte(`{"clientId":"x","group":"` + nsB + `%g","subscriptionData":{"topic":"` + nsB + `%orders","subString":"*"}}`),
		[]byte(`{"groupName":"` + nsB + `%g","retryMaxTimes":0}`),
	}
	codes := []int32{1500, 30001, 30002, 30010, 30011, 30012, 30020, 30021}
	for c := range int32(1000) {
		codes = append(codes, c)
	}
	for c := int32(3001); c <= 3010; c++ {
		codes = append(codes, c)
	}
	for c := int32(200050); c <= 200056; c++ {
		codes = append(codes, c)
	}
	// Answers that depend on A's own things only, whatever the fields say.
	own := map[int32]bool{wire.GetAllTopicConfig: true, wire.GetAllGroupConfig: true}
	for _, code := range codes {
		known := e.proc.table[code].serve != nil
		for i, ext := range tries {
			for j, body := range bodies {
				if !known && (i > 0 || j > 0) {
					continue // all unknown codes take the same way
				}
				r := e.call("slk_a", code, ext, body)
				if text := string(r.Body) + r.Remark; strings.Contains(text, secret) || strings.Contains(text, "client-of-b") || strings.Contains(string(r.Body), nsB) {
					t.Errorf("code %d try %d body %d shows: %d %s", code, i, j, r.Code, text)
				}
				empty := code == wire.HeartBeat && j > 1 // those bodies name no group of a heartbeat
				if i < 4 && r.Code == wire.Success && !own[code] && !empty {
					t.Errorf("code %d try %d body %d succeeded: %v %s", code, i, j, r.Ext, r.Body)
				}
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("B's things changed:\n%s\n%s", before, after)
	}
}
