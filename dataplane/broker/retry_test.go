package broker

import (
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
)

// B010: a message whose properties fill the limit can still be sent back: it
// comes again, and ends among the dead letters.
func TestSendBack_propertiesAtTheLimit_B010(t *testing.T) {
	e := newEnv(t)
	m := msg(topicA, 0, "full")
	m.Properties = message.AppendProperty(nil, "k", strings.Repeat("v", message.MaxPropertiesBytes-3))
	sent := e.send(m)
	back := SendBack{Group: groupA, Offset: sent.PhysicalOffset, MaxReconsume: 1, Allowed: func(string) bool { return true }}
	if err := e.SendBack(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	e.readable(RetryTopic(groupA), 0, 0)
	out := e.pull(Pull{Group: groupA, Topic: RetryTopic(groupA), Commit: -1})
	if len(out.Records) != 1 {
		t.Fatalf("retry topic: %+v", out)
	}
	again, err := message.Decode(out.Records[0])
	if err != nil || again.ReconsumeTimes != 1 || len(again.Properties) < message.MaxPropertiesBytes-200 {
		t.Fatalf("retried: %+v, %v", again.ReconsumeTimes, err)
	}
	back.Offset = again.PhysicalOffset
	if err := e.SendBack(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	e.readable(DLQTopic(groupA), 0, 0)
}

// A zero byte in properties is the sender's fault and told as that.
func TestSend_zeroInProperties(t *testing.T) {
	e := newEnv(t)
	m := msg(topicA, 0, "x")
	m.Properties = []byte("k\x01a\x00b\x02")
	if _, err := e.Send(t.Context(), Caller{}, m, -1); CodeOf(err) != CodeIllegalMessage {
		t.Errorf("got %v", err)
	}
	e.send(msg(topicA, 0, "y"))
}
