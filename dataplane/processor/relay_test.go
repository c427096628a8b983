package processor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// What tools ask a consumer goes to that consumer, in its own names; to those
// of the group only, and only for who may look at the group.
func TestRelay_reachesTheConsumer(t *testing.T) {
	e := newEnv(t)
	e.putGroup(nsA + "%other")
	asked := make(chan *wire.Frame, 10)
	c, err := remoting.NewClient(remoting.ClientOptions{Handler: remoting.HandlerFunc(func(_ context.Context, _ *remoting.Conn, f *wire.Frame) *wire.Frame {
		if f.Code == wire.NotifyConsumerIDsChanged {
			return nil
		}
		asked <- f
		r := f.Reply(wire.Success, "")
		r.Body = []byte("told")
		return r
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if r, err := c.Invoke(t.Context(), e.addr, e.frame("slk_a", wire.HeartBeat, nil, heartbeat(t, "c1", nsA+"%g", nsA+"%orders", "*"))); err != nil || r.Code != wire.Success {
		t.Fatalf("heartbeat: %+v, %v", r, err)
	}
	info := map[string]string{"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"}
	r := e.must("slk_a", wire.GetConsumerRunningInfo, info, nil)
	f := <-asked
	if string(r.Body) != "told" || f.Ext.Value("consumerGroup") != nsA+"%g" || f.Ext.Value("clientId") != "c1" || f.Ext.Value("jstackEnable") != "true" {
		t.Errorf("answer %q, asked %v", r.Body, f.Ext)
	}
	sent := e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("look at me"))
	direct := map[string]string{"consumerGroup": "g", "clientId": "c1", "msgId": sent.Ext.Value("msgId")}
	e.must("slk_a", wire.ConsumeMessageDirectly, direct, nil)
	f = <-asked
	if got := e.records(f.Body); len(got) != 1 || string(got[0].Body) != "look at me" || f.Ext.Value("brokerName") == "" {
		t.Errorf("consumes %+v, %v", got, f.Ext)
	}
	foreign := e.must("slk_b", wire.SendMessageV2, sendExt("orders", 0), []byte("secret"))
	for name, bad := range map[string]*wire.Frame{
		"foreign tenant":  e.call("slk_b", wire.GetConsumerRunningInfo, info, nil),
		"publisher":       e.call("slk_pub", wire.GetConsumerRunningInfo, info, nil),
		"another client":  e.call("slk_a", wire.GetConsumerRunningInfo, map[string]string{"consumerGroup": "g", "clientId": "c2"}, nil),
		"another group":   e.call("slk_a", wire.GetConsumerRunningInfo, map[string]string{"consumerGroup": "other", "clientId": "c1"}, nil),
		"foreign message": e.call("slk_a", wire.ConsumeMessageDirectly, map[string]string{"consumerGroup": "g", "clientId": "c1", "msgId": foreign.Ext.Value("msgId")}, nil),
		"no message":      e.call("slk_a", wire.ConsumeMessageDirectly, map[string]string{"consumerGroup": "g", "clientId": "c1", "msgId": "x"}, nil),
	} {
		if bad.Code == wire.Success || strings.Contains(fmt.Sprint(bad), "secret") {
			t.Errorf("%s: %d %s", name, bad.Code, bad.Remark)
		}
	}
	if len(asked) != 0 {
		t.Errorf("asked once more: %v", (<-asked).Ext)
	}
	c.Close()
	for e.call("slk_a", wire.GetConsumerRunningInfo, info, nil).Code == wire.Success {
		t.Error("a consumer that has left was asked")
	}
}

// The group of the stock tools reads without being there.
func TestPull_byTheStockTools(t *testing.T) {
	e := newEnv(t)
	e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("x"))
	e.must("slk_a", wire.PullMessage, pullExt("g", "orders", 0, 0), nil)
	r := e.must("slk_a", wire.PullMessage, pullExt(toolsGroup, "orders", 0, 0), nil)
	if got := e.records(r.Body); len(got) != 1 {
		t.Errorf("%d messages", len(got))
	}
	if r := e.call("slk_pub", wire.PullMessage, pullExt(toolsGroup, "orders", 0, 0), nil); r.Code != wire.NoPermission {
		t.Errorf("a key that may only publish: %d %s", r.Code, r.Remark)
	}
	if r := e.call("slk_b", wire.PullMessage, pullExt(toolsGroup, nsA+"%orders", 0, 0), nil); r.Code == wire.Success {
		t.Error("a foreign tenant reads")
	}
	span := e.must("slk_a", wire.QueryConsumeTimeSpan, map[string]string{"group": "g", "topic": "orders"}, nil)
	if text := string(span.Body); !strings.Contains(text, `"consumeTimeSpanSet":[{`) || !strings.Contains(text, `"topic":"orders"`) || strings.Contains(text, nsA) {
		t.Errorf("time span: %s", text)
	}
}
