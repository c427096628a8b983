package proxy

import (
	"fmt"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

// B097: a group's position survives kills; nothing old is delivered again but
// what was in flight.
func TestRestart_keepsPosition_B097(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	const n = 60
	for i := range n {
		c.mustSend("orders", fmt.Sprint(i))
	}
	acked := map[string]bool{}
	for round := range 6 {
		req := poll("orders", "g")
		req.BatchSize = 10
		status, messages := c.receive(req)
		want(t, status, v2.Code_OK)
		for i, m := range messages {
			if body := string(m.GetBody()); acked[body] {
				t.Fatalf("round %d: message %s comes again although it was acknowledged", round, body)
			}
			if i == 0 {
				continue // stays in flight over the kill
			}
			want(t, c.ack("orders", "g", m).GetStatus(), v2.Code_OK)
			acked[string(m.GetBody())] = true
		}
		e.kill()
		c = e.client("slk_a")
		if len(messages) > 0 {
			// Handles are good after the restart.
			want(t, c.ack("orders", "g", messages[0]).GetStatus(), v2.Code_OK)
			acked[string(messages[0].GetBody())] = true
		}
	}
	for len(acked) < n {
		status, messages := c.receive(poll("orders", "g"))
		if status.GetCode() != v2.Code_OK {
			t.Fatalf("%d of %d messages came, then %v", len(acked), n, status)
		}
		for _, m := range messages {
			if acked[string(m.GetBody())] {
				t.Fatalf("message %s comes again", m.GetBody())
			}
			want(t, c.ack("orders", "g", m).GetStatus(), v2.Code_OK)
			acked[string(m.GetBody())] = true
		}
	}
	e.clock.advance(time.Hour)
	c.none("orders", "g")
}

// B108: after a restart a client that says nothing about itself, and has no
// telemetry stream, is served by what its group says; the order of an ordered
// group is never guessed away.
func TestRestart_servesWithoutTelemetry_B108(t *testing.T) {
	e := newEnv(t)
	c := e.client("slk_a")
	ts := c.telemetry(consumerSettings("g", v2.ClientType_PUSH_CONSUMER, "orders"))
	if _, err := ts.Recv(); err != nil {
		t.Fatal(err)
	}
	c.mustSend("orders", "before")
	_, got := c.receive(pushPoll("orders", "g"))
	if len(got) != 1 {
		t.Fatalf("got %d messages", len(got))
	}
	e.kill()
	for err := error(nil); err == nil; {
		_, err = ts.Recv()
	}
	again := e.client("slk_a")
	want(t, again.ack("orders", "g", got[0]).GetStatus(), v2.Code_OK)
	again.mustSend("orders", "after")
	status, messages := again.receive(pushPoll("orders", "g"))
	want(t, status, v2.Code_OK)
	if b := bodies(messages); len(b) != 1 || b[0] != "after" {
		t.Errorf("got %q", b)
	}
	hb, err := again.Heartbeat(again.ctx(), &v2.HeartbeatRequest{Group: named("g"), ClientType: v2.ClientType_PUSH_CONSUMER})
	if err != nil {
		t.Fatal(err)
	}
	want(t, hb.GetStatus(), v2.Code_OK)
	status, _ = again.receive(pushPoll("orders", "unknown-group"))
	want(t, status, v2.Code_CONSUMER_GROUP_NOT_FOUND)
}
