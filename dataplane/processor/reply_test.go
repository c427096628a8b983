package processor

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

func TestReply_reachesTheRequesterOfItsNamespaceOnly(t *testing.T) {
	e := newEnv(t)
	got := make(chan *wire.Frame, 10)
	join := func(key, id string, refuse bool) {
		t.Helper()
		c, err := remoting.NewClient(remoting.ClientOptions{Handler: remoting.HandlerFunc(func(_ context.Context, _ *remoting.Conn, f *wire.Frame) *wire.Frame {
			if f.Code != wire.PushReplyMessageToClient {
				return nil
			}
			if refuse {
				return f.Reply(wire.SystemError, "nobody waits for it")
			}
			got <- f
			return f.Reply(wire.Success, "")
		})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		body, err := json.Marshal(wire.Heartbeat{ClientID: id, Producers: []wire.ProducerData{{GroupName: "p"}}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.Invoke(t.Context(), e.addr, e.frame(key, wire.HeartBeat, nil, body)); err != nil || r.Code != wire.Success {
			t.Fatalf("heartbeat: %+v, %v", r, err)
		}
	}
	join("slk_a", "requester", false)
	join("slk_a", "deaf", true)
	send := func(key string, code int32, client, body string) *wire.Frame {
		h := wire.SendHeader{ProducerGroup: "p", Topic: "DefaultCluster_REPLY_TOPIC", DefaultTopic: "TBW102", BornTimestamp: 5, MaxReconsumeTimes: -1}
		var p []byte
		for _, kv := range [][2]string{{message.KeyCorrelationID, "c1"}, {message.KeyReplyToClient, client}, {message.KeyMessageType, "reply"}, {message.KeyTTL, "3000"}} {
			if kv[1] != "" {
				p = message.AppendProperty(p, kv[0], kv[1])
			}
		}
		h.Properties = string(p)
		r, err := e.client.Invoke(t.Context(), e.addr, e.frame(key, code, h.Fields(code).Map(), []byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, code := range []int32{wire.SendReplyMessage, wire.SendReplyMessageV2} {
		for _, body := range []string{"the answer", ""} {
			if r := send("slk_a", code, "requester", body); r.Code != wire.Success || r.Ext.Value("msgId") == "" {
				t.Fatalf("code %d: %d %s", code, r.Code, r.Remark)
			}
			f := <-got
			props := message.ParseProperties([]byte(f.Ext.Value("properties")))
			if string(f.Body) != body || props[message.KeyCorrelationID] != "c1" || props[message.KeyPushReplyTime] == "" || f.Ext.Value("bornHost") == "" || f.Ext.Value("storeTimestamp") == "" {
				t.Errorf("pushed %q with %v, %v", f.Body, f.Ext, props)
			}
		}
	}
	for name, r := range map[string]*wire.Frame{
		"foreign tenant": send("slk_b", wire.SendReplyMessageV2, "requester", "x"),
		"nobody":         send("slk_a", wire.SendReplyMessageV2, "nobody", "x"),
		"refused":        send("slk_a", wire.SendReplyMessageV2, "deaf", "x"),
		"no client":      send("slk_a", wire.SendReplyMessageV2, "", "x"),
	} {
		if r.Code == wire.Success || strings.Contains(r.Remark, nsA) {
			t.Errorf("%s: %d %s", name, r.Code, r.Remark)
		}
	}
	if _, top := e.st.QueueOffsets(policy.PhysicalName(nsA, "DefaultCluster_REPLY_TOPIC"), 0); top != 0 || len(got) != 0 {
		t.Errorf("stored %d, pushed %d more", top, len(got))
	}
}
