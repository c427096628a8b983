package proxy

import (
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// delayed makes a message for a time of its own.
func delayed(topic, body string, at time.Time) *v2.Message {
	m := msg(topic, body)
	m.SystemProperties.MessageType, m.SystemProperties.DeliveryTimestamp = v2.MessageType_DELAY, timestamppb.New(at)
	return m
}

// A message with a delivery timestamp comes then, not before, and says so; one
// whose time is over comes at once.
func TestSend_deliveryTimestamp_B044(t *testing.T) {
	e := newEnv(t)
	e.topic(nsA+"%delay", "DELAY")
	c := e.client("slk_a")
	want(t, c.send(delayed("delay", "past", time.Now().Add(-time.Hour))).GetStatus(), v2.Code_OK)
	if got := c.take("delay", "g", 1); string(got[0].GetBody()) != "past" {
		t.Errorf("got %v", got)
	}
	due := time.Now().Add(1300 * time.Millisecond)
	resp := c.send(delayed("delay", "later", due))
	want(t, resp.GetStatus(), v2.Code_OK)
	if resp.GetEntries()[0].GetRecallHandle() == "" {
		t.Error("the answer has no recall handle")
	}
	got := c.take("delay", "g", 1)
	now, p := time.Now(), got[0].GetSystemProperties()
	if string(got[0].GetBody()) != "later" || now.Before(due) {
		t.Errorf("got %q %v before its time", got[0].GetBody(), due.Sub(now))
	}
	if shown := p.GetDeliveryTimestamp().AsTime(); p.GetMessageType() != v2.MessageType_DELAY || shown.Before(due) || shown.Sub(due) >= time.Millisecond {
		t.Errorf("type %v, delivery timestamp %v, want %v", p.GetMessageType(), shown, due)
	}
}

// A message is taken back by the handle of its send.
func TestRecall_beforeTheTime(t *testing.T) {
	e := newEnv(t)
	e.topic(nsA+"%delay", "DELAY")
	e.topic(nsA+"%delay2", "DELAY")
	c := e.client("slk_a")
	due := time.Now().Add(1500 * time.Millisecond)
	m := delayed("delay", "x", due)
	handle := c.send(m).GetEntries()[0].GetRecallHandle()
	want(t, c.send(delayed("delay", "y", due.Add(10*time.Millisecond))).GetStatus(), v2.Code_OK)
	recall := func(topic, handle string) *v2.RecallMessageResponse {
		t.Helper()
		resp, err := c.RecallMessage(c.ctx(), &v2.RecallMessageRequest{Topic: named(topic), RecallHandle: handle})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	want(t, recall("delay2", handle).GetStatus(), v2.Code_BAD_REQUEST)
	want(t, recall("delay", "h").GetStatus(), v2.Code_BAD_REQUEST)
	want(t, recall("none", handle).GetStatus(), v2.Code_TOPIC_NOT_FOUND)
	resp := recall("delay", handle)
	want(t, resp.GetStatus(), v2.Code_OK)
	if resp.GetMessageId() != m.GetSystemProperties().GetMessageId() {
		t.Errorf("message id %q", resp.GetMessageId())
	}
	if got := c.take("delay", "g", 1); string(got[0].GetBody()) != "y" {
		t.Errorf("got %q, want what was not taken back", got[0].GetBody())
	}
	want(t, recall("delay", handle).GetStatus(), v2.Code_MESSAGE_NOT_FOUND)
}
