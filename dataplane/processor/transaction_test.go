package processor

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// half sends a half message and returns the fields that end it.
func (e *env) half(key, topic, group, unique string) map[string]string {
	e.t.Helper()
	ext := sendExt(topic, 2, message.KeyTransactionPrepared, "true", message.KeyProducerGroup, group, message.KeyUniqueKey, unique)
	sent := e.sendHalf(key, ext)
	_, physical, err := message.ParseOffsetID(sent.Ext.Value("msgId"))
	if err != nil {
		e.t.Fatal(err)
	}
	if got := sent.Ext.Value("transactionId"); got != unique || sent.Ext.Value("queueId") != "2" {
		e.t.Errorf("half message: transaction %q, queue %s", got, sent.Ext.Value("queueId"))
	}
	return map[string]string{
		"producerGroup": group, "tranStateTableOffset": sent.Ext.Value("queueOffset"), "commitLogOffset": strconv.FormatInt(physical, 10), "msgId": unique, "transactionId": unique,
	}
}

// sendHalf sends what no queue of its topic gets.
func (e *env) sendHalf(key string, ext map[string]string) *wire.Frame {
	e.t.Helper()
	sent, err := e.client.Invoke(e.t.Context(), e.addr, e.frame(key, wire.SendMessageV2, ext, []byte("half of "+key)))
	if err != nil || sent.Code != wire.Success {
		e.t.Fatalf("half message: %+v, %v", sent, err)
	}
	return sent
}

func (e *env) end(key string, fields map[string]string, how string) *wire.Frame {
	e.t.Helper()
	fields["commitOrRollback"] = how
	return e.call(key, wire.EndTransaction, fields, nil)
}

func (e *env) pulledFrom(key string, queue int32) []message.Message {
	e.t.Helper()
	return e.records(e.call(key, wire.PullMessage, pullExt("g", "orders", queue, 0), nil).Body)
}

func TestTransaction_commitRollbackAndForeigners_B063(t *testing.T) {
	e := newEnv(t)
	a, b := e.half("slk_a", "orders", "p", "U1"), e.half("slk_a", "orders", "p", "U2")
	for _, foreign := range []struct{ key, group string }{{"slk_b", "p"}, {"slk_b", nsA + "%p"}, {"slk_a", "q"}, {"slk_a", nsB + "%p"}} {
		a["producerGroup"] = foreign.group
		if r := e.end(foreign.key, a, "8"); r.Code == wire.Success || strings.Contains(r.Remark, "U1") {
			t.Errorf("%+v ended it: %d %s", foreign, r.Code, r.Remark)
		}
	}
	a["producerGroup"] = "p"
	if r := e.end("slk_a", a, "7"); r.Code == wire.Success || !strings.Contains(r.Remark, "commitOrRollback") {
		t.Errorf("neither commit nor rollback: %d %s", r.Code, r.Remark)
	}
	for range 2 {
		for fields, how := range map[*map[string]string]string{&a: "8", &b: "12"} {
			if r := e.end("slk_a", *fields, how); r.Code != wire.Success {
				t.Errorf("end %s: %d %s", how, r.Code, r.Remark)
			}
		}
	}
	if r := e.end("slk_a", b, "8"); r.Code != 604 {
		t.Errorf("commit after the rollback: %d %s", r.Code, r.Remark)
	}
	got := e.pulledFrom("slk_a", 2)
	if len(got) != 1 || string(got[0].Body) != "half of slk_a" || got[0].Topic != "orders" {
		t.Fatalf("delivered %+v", got)
	}
	props := message.ParseProperties(got[0].Properties)
	if props[message.KeyProducerGroup] != "p" || props[message.KeyRealTopic] != "" || props[message.KeyUniqueKey] != "U1" {
		t.Errorf("properties %v", props)
	}
}

// A check goes to a member of the producer group whose key may publish to the
// topic, as the client calls things; never to others.
func TestTransaction_checkGoesToTheRightOnes_B065(t *testing.T) {
	e := newEnv(t, func(c *broker.Config) {
		c.Transactions.First, c.Transactions.Period = time.Millisecond, time.Second
	})
	e.snap.Keys["slk_other"] = policy.Key{Secret: "secret-other", TenantID: "ten_a", Scopes: []policy.Scope{{NamespaceID: nsA, Permissions: []string{"PUB", "SUB"}, Topics: []string{"another"}}}}
	e.apply()
	asked := make(chan *wire.Frame, 100)
	join := func(key, id, group string, to chan *wire.Frame) *remoting.Client {
		t.Helper()
		c, err := remoting.NewClient(remoting.ClientOptions{Handler: pushHandler(func(f *wire.Frame) {
			if f.Code == wire.CheckTransactionState {
				if to == nil {
					t.Errorf("%s was asked: %v", id, f.Ext)
					return
				}
				to <- f
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		body, err := json.Marshal(wire.Heartbeat{ClientID: id, Producers: []wire.ProducerData{{GroupName: group}}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.Invoke(t.Context(), e.addr, e.frame(key, wire.HeartBeat, nil, body)); err != nil || r.Code != wire.Success {
			t.Fatalf("heartbeat of %s: %+v, %v", id, r, err)
		}
		return c
	}
	join("slk_b", "foreign", "p", nil)
	join("slk_a", "another group", "q", nil)
	join("slk_other", "may not publish", "p", nil)
	first := join("slk_a", "first", "p", asked)
	fields := e.half("slk_a", "orders", "p", "U1")
	check := <-asked
	got := e.records(check.Body)
	if len(got) != 1 || got[0].Topic != "orders" || got[0].QueueID != 2 || string(got[0].Body) != "half of slk_a" {
		t.Fatalf("asked about %+v", got)
	}
	if group, _ := got[0].Property(message.KeyProducerGroup); group != "p" {
		t.Errorf("group %q: the client looks for its own", group)
	}
	for field, want := range map[string]string{"topic": "orders", "msgId": "U1", "transactionId": "U1", "tranStateTableOffset": fields["tranStateTableOffset"], "commitLogOffset": fields["commitLogOffset"]} {
		if check.Ext.Value(field) != want {
			t.Errorf("field %s is %q, want %q", field, check.Ext.Value(field), want)
		}
	}
	first.Close() // a new one of the group, with the namespace in its names, is asked instead
	second := make(chan *wire.Frame, 100)
	join("slk_a", "second", nsA+"%p", second)
	check = <-second
	if got := e.records(check.Body); got[0].Topic != nsA+"%orders" {
		t.Errorf("topic %q for a client that speaks with its namespace", got[0].Topic)
	}
	if r := e.end("slk_a", fields, "8"); r.Code != wire.Success {
		t.Errorf("commit: %d %s", r.Code, r.Remark)
	}
}

func TestTransaction_resumeByOffsetID(t *testing.T) {
	e := newEnv(t)
	sent := e.sendHalf("slk_a", sendExt("orders", 0, message.KeyTransactionPrepared, "true", message.KeyProducerGroup, "p"))
	resume := map[string]string{"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "msgId": sent.Ext.Value("msgId")}
	if r := e.call("slk_b", wire.ResumeCheckHalfMessage, resume, nil); r.Code == wire.Success {
		t.Error("a foreign tenant resumed it")
	}
	e.must("slk_a", wire.ResumeCheckHalfMessage, resume, nil)
	normal := e.must("slk_a", wire.SendMessageV2, sendExt("orders", 0), []byte("x"))
	for _, id := range []string{normal.Ext.Value("msgId"), "xyz"} {
		if r := e.call("slk_a", wire.ResumeCheckHalfMessage, map[string]string{"msgId": id}, nil); r.Code == wire.Success {
			t.Errorf("%q is no half message", id)
		}
	}
}
