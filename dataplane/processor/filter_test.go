package processor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// A bad expression is refused where a client says it first, with the place of
// the fault; a good one that no message can satisfy costs nothing but itself.
func TestFilter_badExpressions_B026(t *testing.T) {
	e := newEnv(t)
	for expression, want := range map[string]string{
		"":                                    "empty",
		"a/b > 1":                             "at character 2",
		"nofunction(a) = 1":                   "at character 11",
		"a = '" + strings.Repeat("x", 64<<10): "at most 16384",
		strings.Repeat("(", 2000) + "a = 1" + strings.Repeat(")", 2000): "inside each other",
		"a = 'open":         "closing quote",
		"a between 3 and 1": "lower bound",
		"a > 'text'":        "compare numbers",
	} {
		sub := wire.Subscription{Topic: "orders", SubString: expression, ExpressionType: "SQL92", SubVersion: 7}
		beat, err := json.Marshal(wire.Heartbeat{ClientID: "c", Consumers: []wire.ConsumerData{{
			GroupName: "g", ConsumeType: "CONSUME_PASSIVELY", MessageModel: "CLUSTERING", ConsumeFromWhere: "CONSUME_FROM_FIRST_OFFSET", Subscriptions: []wire.Subscription{sub},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		check, err := json.Marshal(map[string]any{"clientId": "c", "group": "g", "subscriptionData": sub})
		if err != nil {
			t.Fatal(err)
		}
		pull := pullExt("g", "orders", 0, 0)
		pull["expressionType"], pull["subscription"] = "SQL92", expression
		for name, r := range map[string]*wire.Frame{
			"heartbeat": e.call("slk_a", wire.HeartBeat, nil, beat),
			"check":     e.call("slk_a", wire.CheckClientConfig, nil, check),
			"pull":      e.call("slk_a", wire.PullMessage, pull, nil),
		} {
			if name == "pull" && len(expression) > 1<<15 {
				continue // longer than a header value may be
			}
			if r.Code != wire.SubscriptionParseFailed || !strings.Contains(r.Remark, want) || len(r.Remark) > 400 {
				t.Errorf("%s with %.30q: %d %s, want %q", name, expression, r.Code, r.Remark, want)
			}
		}
	}
	e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0, "text", "abc"), []byte("x"))
	for _, expression := range []string{"missing > 1", "text > 1", "text = 5"} {
		pull := pullExt("g", "orders", 0, 0)
		pull["expressionType"], pull["subscription"] = "SQL92", expression
		if r := e.call("slk_a", wire.PullMessage, pull, nil); r.Code != wire.PullRetryImmediately || r.Ext.Value("nextBeginOffset") != "1" {
			t.Errorf("%s: %d %s %v", expression, r.Code, r.Remark, r.Ext)
		}
	}
}

// A parked pull keeps its own filter: it takes places for that, too, and without
// them it is answered at once.
func TestFilter_ofAParkedPullIsCounted(t *testing.T) {
	e := newEnv(t, func(c *broker.Config) { c.MaxParkedOfOne = 20 })
	pull := pullExt("g", "orders", 3, 0)
	pull["expressionType"], pull["subscription"] = "SQL92", strings.TrimSuffix(strings.Repeat("a OR ", 3000), " OR ")
	began := time.Now()
	if r := e.call("slk_a", wire.PullMessage, pull, nil); r.Code != wire.PullNotFound {
		t.Errorf("%d %s", r.Code, r.Remark)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("parked for %v", took)
	}
}

// The tag's hash is Java's: 32 bits over UTF-16, whatever the tag.
func TestFilter_tagsOfEveryKind_B021(t *testing.T) {
	e := newEnv(t)
	tags := []string{"polygenelubricants", strings.Repeat("t", 300), "标签", "a😀b", strings.Repeat("A", 5000)}
	for i, tag := range tags {
		e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0, message.KeyTags, tag), []byte(fmt.Sprint(i)))
	}
	for i, tag := range tags {
		pull := pullExt("g", "orders", 0, 0)
		pull["subscription"] = tag
		r := e.must("slk_a", wire.PullMessage, pull, nil)
		got := e.records(r.Body)
		if len(got) != 1 || string(got[0].Body) != fmt.Sprint(i) {
			t.Errorf("tag %.20q: %d messages", tag, len(got))
		}
	}
}
