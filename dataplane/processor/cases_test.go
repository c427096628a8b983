package processor

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// pulled are all messages of queue 0 of orders, as a client gets them.
func (e *env) pulled(key string) []message.Message {
	e.t.Helper()
	end, err := strconv.ParseInt(e.must(key, wire.GetMaxOffset, map[string]string{"topic": "orders", "queueId": "0"}, nil).Ext.Value("offset"), 10, 64)
	if err != nil {
		e.t.Fatal(err)
	}
	var out []message.Message
	for int64(len(out)) < end {
		out = append(out, e.records(e.must(key, wire.PullMessage, pullExt("g", "orders", 0, int64(len(out))), nil).Body)...)
	}
	return out
}

// Each message of a batch has its own properties, key, tag and flag, and a value
// that holds the separators never becomes another property.
func TestSendBatch_keepsEachMessagesProperties_B022(t *testing.T) {
	e := newEnv(t)
	var body []byte
	for i := range 10 {
		props := message.AppendProperty(nil, message.KeyTags, fmt.Sprint("tag", i))
		props = message.AppendProperty(props, message.KeyKeys, fmt.Sprint("key", i))
		props = message.AppendProperty(props, "own", fmt.Sprint("value", i))
		props = append(props, "odd\x01a\x01b\x02c\x02"...) // "c" has no value: it is no property
		var err error
		body, err = message.AppendBatchEntry(body, message.BatchEntry{Flag: int32(i), Body: fmt.Appendf(nil, "b%d", i), Properties: props})
		if err != nil {
			t.Fatal(err)
		}
	}
	e.must("slk_a", wire.SendBatchMessage, sendExt("orders", 0), body)
	got := e.pulled("slk_a")
	if len(got) != 10 {
		t.Fatalf("%d messages", len(got))
	}
	for i, m := range got {
		props := message.ParseProperties(m.Properties)
		want := map[string]string{message.KeyTags: fmt.Sprint("tag", i), message.KeyKeys: fmt.Sprint("key", i), "own": fmt.Sprint("value", i), "odd": "a\x01b"}
		if string(m.Body) != fmt.Sprint("b", i) || m.Flag != int32(i) || fmt.Sprint(props) != fmt.Sprint(want) {
			t.Errorf("message %d: body %q, flag %d, properties %q", i, m.Body, m.Flag, props)
		}
	}
}

// Two messages with one unique id are both stored and handed out, and the query
// by that id gives both.
func TestSend_oneIDTwice_B024(t *testing.T) {
	e := newEnv(t)
	const id = "7F0000010000000000000007"
	e.sendKeyed("slk_a", "orders", id, "k", "first")
	e.sendKeyed("slk_a", "orders", id, "k", "second")
	bodies := func(ms []message.Message) (out []string) {
		for _, m := range ms {
			out = append(out, string(m.Body))
		}
		return out
	}
	want := []string{"first", "second"}
	if got := bodies(e.pulled("slk_a")); !slices.Equal(got, want) {
		t.Errorf("handed out %q", got)
	}
	found := e.must("slk_a", wire.QueryMessage, byKey("orders", id, "indexType", "U"), nil)
	if got := bodies(e.records(found.Body)); !slices.Equal(got, want) {
		t.Errorf("found by id %q", got)
	}
}

// A property that names further queues makes none, whatever it says.
func TestSend_multiDispatchMakesNoQueue_B027(t *testing.T) {
	e := newEnv(t)
	for _, names := range []string{"%LMQ%a/1", "%LMQ%../../x", "%LMQ%a,%LMQ%b", ",", "orders"} {
		ext := sendExt("orders", 0, message.KeyMultiDispatch, names)
		if r := e.call("slk_a", wire.SendMessageV2, ext, []byte("x")); r.Code != wire.MessageIllegal {
			t.Errorf("%q: %d %s", names, r.Code, r.Remark)
		}
		for name := range map[string]bool{"%LMQ%a": true, "%LMQ%b": true, "%LMQ%a/1": true} {
			if _, top := e.st.QueueOffsets(name, 0); top != 0 {
				t.Errorf("%q made queue %s", names, name)
			}
		}
	}
	if _, top := e.st.QueueOffsets(policy.PhysicalName(nsA, "orders"), 0); top != 0 {
		t.Errorf("%d messages were stored", top)
	}
}
