package broker

import (
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
)

func subscribe(t *testing.T, e *env, protocol byte, version int64, expression string) *Client {
	t.Helper()
	filter, err := ParseFilter("TAG", expression)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{ID: "c", Protocol: protocol}
	if err := e.Heartbeat(c, nil, []Consumer{{Group: groupA, Subscriptions: []Subscription{
		{Topic: topicA, Expression: expression, ExpressionType: "TAG", Version: version, Filter: filter},
	}}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// B108: pulls that rely on a heartbeat are served after a restart and after a
// lost connection, before the next heartbeat comes.
func TestSubscribed_overARestart_B108(t *testing.T) {
	e := newEnv(t)
	restart := func() {
		t.Helper()
		if err := e.saveProgress(); err != nil { // what Run does every few seconds
			t.Fatal(err)
		}
		e.restart()
	}
	if _, ok := e.Subscribed(groupA, topicA); ok {
		t.Error("a group that nobody was in has a subscription")
	}
	c := subscribe(t, e, ProtocolRemoting, 7, "red || blue")
	e.Disconnect(c)
	restart()
	for _, when := range []string{"after a restart", "after another member left"} {
		s, ok := e.Subscribed(groupA, topicA)
		if !ok || s.Version != 7 || s.Expression != "red || blue" || s.Filter == nil || !s.Filter.MatchCode(message.TagsCode("red")) || s.Filter.MatchCode(message.TagsCode("green")) {
			t.Fatalf("%s: %+v, %v", when, s, ok)
		}
		if _, ok := e.Subscribed(groupA, "aaaaaaaa%other"); ok {
			t.Error("a topic that nobody wanted has a subscription")
		}
		// What the other protocol wants comes with each of its requests.
		e.Disconnect(subscribe(t, e, ProtocolGRPC, 99, "*"))
	}
	e.Disconnect(subscribe(t, e, ProtocolRemoting, 8, "green"))
	restart()
	if s, ok := e.Subscribed(groupA, topicA); !ok || s.Version != 8 || s.Expression != "green" {
		t.Errorf("the newest subscription: %+v, %v", s, ok)
	}
	e.Disconnect(subscribe(t, e, ProtocolRemoting, 9, strings.Repeat("t", maxRememberedBytes)))
	if s, ok := e.Subscribed(groupA, topicA); ok {
		t.Errorf("more than may be remembered: %d bytes", len(s.Expression))
	}
	e.Disconnect(subscribe(t, e, ProtocolRemoting, 10, "green"))
	if err := e.DeleteGroup(t.Context(), groupA, true); err != nil {
		t.Fatal(err)
	}
	restart()
	if _, ok := e.Subscribed(groupA, topicA); ok {
		t.Error("a deleted group has a subscription")
	}
}
