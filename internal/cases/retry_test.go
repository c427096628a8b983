package cases

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

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
// its last pulls are still waiting at the broker.
func TestUsage_aConsumerThatLeft(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("left@example.com")
	k := key{c.Addresses, a.KeyID, a.Secret}
	send := remotingSend(t, k, "hello")
	got := make(chan string, 16)
	stop := k.remotingConsumer(t, "hello", "hello-group", func(_ context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
		got <- string(m.Body)
		return consumer.ConsumeSuccess
	})
	must(t, send([]byte("seen"), ""))
	<-got
	stop()
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
