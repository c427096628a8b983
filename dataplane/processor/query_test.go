package processor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/wire"
)

func byKey(topic, key string, more ...string) map[string]string {
	ext := map[string]string{"topic": topic, "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": fmt.Sprint(int64(1) << 60)}
	for i := 0; i < len(more); i += 2 {
		ext[more[i]] = more[i+1]
	}
	return ext
}

func (e *env) sendKeyed(key, topic, uniqueID, keys, body string) {
	e.t.Helper()
	ext := sendExt(topic, 0)
	props := message.AppendProperty(nil, message.KeyUniqueKey, uniqueID)
	ext["i"] = string(message.AppendProperty(props, message.KeyKeys, keys))
	e.must(key, wire.SendMessageV2, ext, []byte(body))
}

// A message is found by its keys and its unique id as soon as it is sent, under
// the name that its tenant knows; by another tenant never, also where it uses
// the same names.
func TestQueryMessage_ownTopicsOnly(t *testing.T) {
	e := newEnv(t)
	e.sendKeyed("slk_a", "orders", "7F0000010000000000000001", "order 4711", "a1")
	e.sendKeyed("slk_a", "orders", "7F0000010000000000000002", "4711", "a2")
	e.sendKeyed("slk_b", "orders", "7F0000010000000000000001", "4711", "b1")
	for _, tc := range []struct {
		who  string
		ext  map[string]string
		want string
	}{
		{"slk_a", byKey("orders", "4711"), "a1 a2"},
		{"slk_a", byKey("orders", "order"), "a1"},
		{"slk_a", byKey("orders", "4711", "indexType", "K"), "a1 a2"},
		{"slk_a", byKey("orders", "4711", "maxNum", "1"), "a2"},
		{"slk_b", byKey("orders", "4711"), "b1"},
		{"slk_a", byKey("orders", "7F0000010000000000000001"), "a1"},
		{"slk_a", byKey("orders", "7F0000010000000000000001", "indexType", "U"), "a1"},
		// The client guesses the times from the id, by its own clock.
		{"slk_a", byKey("orders", "7F0000010000000000000001", "_UNIQUE_KEY_QUERY", "true", "endTimestamp", "1"), "a1"},
		// A place in the log is for the system alone.
		{"slk_a", byKey("orders", "4711", beforeField, "1"), "a1 a2"},
	} {
		r := e.must(tc.who, wire.QueryMessage, tc.ext, nil)
		var got []string
		for _, m := range e.records(r.Body) {
			if m.Topic != "orders" {
				t.Errorf("%s sees topic %q", tc.who, m.Topic)
			}
			got = append(got, string(m.Body))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s %v: %v, want %s", tc.who, tc.ext, got, tc.want)
		}
		for _, field := range []string{"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"} {
			if r.Ext.Value(field) == "" {
				t.Errorf("%s is missing in %v: Java clients need it", field, r.Ext)
			}
		}
	}
	for _, ext := range []map[string]string{
		byKey("orders", "none"), byKey("orders", "4711", "endTimestamp", "1"), byKey("orders", "4711", "indexType", "U"), byKey("orders", "4711", "indexType", "T"),
	} {
		if r := e.call("slk_a", wire.QueryMessage, ext, nil); r.Code != wire.QueryNotFound || len(r.Body) > 0 {
			t.Errorf("%v: %d %s", ext, r.Code, r.Remark)
		}
	}
	for _, ext := range []map[string]string{byKey(nsA+"%orders", "4711"), byKey(nsB+"%orders", "4711"), byKey("none", "4711")} {
		r := e.call("slk_b", wire.QueryMessage, ext, nil)
		if ext["topic"] != nsB+"%orders" && (r.Code == wire.Success || len(r.Body) > 0) {
			t.Errorf("%v by B: %d %s", ext, r.Code, r.Body)
		}
	}
	if r := e.call("slk_pub", wire.QueryMessage, byKey("orders", "4711"), nil); r.Code != wire.NoPermission {
		t.Errorf("a key that may only send: %d %s", r.Code, r.Remark)
	}
}

// B009: a question that was not understood is an error that names the field,
// never an empty success.
func TestQueryMessage_wrongFields_B009(t *testing.T) {
	e := newEnv(t)
	e.sendKeyed("slk_a", "orders", "7F0000010000000000000001", "4711", "a1")
	for field, change := range map[string]func(map[string]string){
		"beginTimestamp": func(m map[string]string) { delete(m, "beginTimestamp"); m["begin"] = "0" },
		"endTimestamp":   func(m map[string]string) { m["endTimestamp"] = "later" },
		"key":            func(m map[string]string) { m["key"] = "" },
		"maxNum":         func(m map[string]string) { m["maxNum"] = "0" },
		"indexType":      func(m map[string]string) { m["indexType"] = "X" },
	} {
		ext := byKey("orders", "4711")
		change(ext)
		if r := e.call("slk_a", wire.QueryMessage, ext, nil); r.Code == wire.Success || r.Code == wire.QueryNotFound || !strings.Contains(r.Remark, field) {
			t.Errorf("%s: %d %s", field, r.Code, r.Remark)
		}
	}
}
