package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/wire"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// A client may send to the retry topic of its group itself, as SDKs do when
// sending back failed: each is billed as a message in, none is free.
func TestUsage_sendsToARetryTopic(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("retries@example.com")
	send := remotingSend(t, key{c.Addresses, a.KeyID, a.Secret}, "%RETRY%hello-group")
	const n = 50
	for i := range n {
		must(t, send(fmt.Appendf(nil, "message %d", i), ""))
	}
	var u testcluster.Totals
	if err := testcluster.Eventually(t.Context(), 15*time.Second, func() (bool, error) {
		var err error
		u, err = a.Usage(t.Context(), "")
		return u.MessagesIn >= n, err
	}); err != nil || u.MessagesIn != n {
		t.Errorf("%d messages in, want %d: %v", u.MessagesIn, n, err)
	}
}

// A consumer that left is charged for nothing that arrives afterwards, although
// its last pulls are still waiting at the broker. It speaks for itself: an SDK
// may pull once more while it shuts down.
func TestUsage_aConsumerThatLeft(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("left@example.com")
	send := remotingSend(t, key{c.Addresses, a.KeyID, a.Secret}, "hello")
	client, err := mqclient.New(mqclient.Config{KeyID: a.KeyID, Secret: []byte(a.Secret)})
	must(t, err)
	consumer := client.At(c.Broker)
	beat, err := json.Marshal(wire.Heartbeat{ClientID: "left", Consumers: []wire.ConsumerData{{
		GroupName: "hello-group", ConsumeType: "CONSUME_PASSIVELY", MessageModel: "CLUSTERING", ConsumeFromWhere: "CONSUME_FROM_FIRST_OFFSET",
		Subscriptions: []wire.Subscription{{Topic: "hello", SubString: "*", ExpressionType: "TAG"}},
	}}})
	must(t, err)
	_, err = consumer.Call(t.Context(), wire.HeartBeat, nil, beat)
	must(t, err)

	got, ended := make(chan int32, 16), make(chan error, 16)
	pull := func(queue int32, offset int64) {
		h := wire.PullHeader{ConsumerGroup: "hello-group", Topic: "hello", QueueID: queue, QueueOffset: offset, MaxMessages: 32, Subscription: "*", ExpressionType: "TAG",
			SysFlag: wire.PullFlagSuspend | wire.PullFlagSubscription, SuspendTimeoutMillis: 15_000}
		resp, err := consumer.Call(t.Context(), wire.PullMessage, h.Fields().Map(), nil)
		if err == nil && resp.Code == wire.Success {
			got <- queue
		}
		ended <- err
	}
	const queues = 4
	for q := range int32(queues) {
		go pull(q, 0) // awaited below
	}
	must(t, send([]byte("seen"), ""))
	go pull(<-got, 1)                                    // awaited below
	_, err = consumer.MaxOffset(t.Context(), "hello", 0) // by now the broker has read the pulls
	must(t, errors.Join(err, client.Close()))
	for range queues + 1 {
		<-ended
	}
	awaitNobody(t, node(t, c, a), "hello-group")
	const n = 12 // some for every queue
	for range n {
		must(t, send([]byte("not seen"), ""))
	}
	var u testcluster.Totals
	must(t, testcluster.Eventually(t.Context(), 15*time.Second, func() (bool, error) {
		var err error
		u, err = a.Usage(t.Context(), "")
		return u.MessagesIn == n+1, err
	}))
	if u.MessagesOut != 1 {
		t.Errorf("%d messages out, want 1", u.MessagesOut)
	}
}

// awaitNobody waits until the broker counts no member of a group online.
func awaitNobody(t *testing.T, broker mqclient.Node, group string) {
	t.Helper()
	must(t, testcluster.Eventually(t.Context(), 15*time.Second, func() (bool, error) {
		online, err := broker.Consumers(t.Context(), group)
		return err == nil && len(online.Connections) == 0, err
	}))
}

// When a key was used on the message path shows at the key, whatever the
// protocol; one that was not used says so.
func TestKey_lastUsed(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("used@example.com")
	began := time.Now().Add(-time.Second)
	var made struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	scope := []map[string]any{{"namespace_id": a.NamespaceID, "permissions": []string{"PUB"}}}
	must(t, a.Do(t.Context(), "POST", "/v1/api-keys?wait=10s", map[string]any{"name": "idle", "scopes": scope}, nil))
	must(t, a.Do(t.Context(), "POST", "/v1/api-keys?wait=10s", map[string]any{"name": "busy", "scopes": scope}, &made))
	must(t, grpcSend(t, key{c.Addresses, made.ID, made.Secret}, "hello")([]byte("x"), ""))
	must(t, testcluster.Eventually(t.Context(), 60*time.Second, func() (bool, error) {
		var page struct {
			Items []struct {
				Name       string     `json:"name"`
				LastUsedAt *time.Time `json:"last_used_at"`
			} `json:"items"`
		}
		err := a.Do(t.Context(), "GET", "/v1/api-keys", nil, &page)
		found := false
		for _, k := range page.Items {
			switch {
			case k.Name == "idle" && k.LastUsedAt != nil:
				return false, fmt.Errorf("the idle key was used at %v", k.LastUsedAt)
			case k.Name == "busy" && k.LastUsedAt != nil:
				found = !k.LastUsedAt.Before(began) && !k.LastUsedAt.After(time.Now())
			}
		}
		return found, err
	}))
}
