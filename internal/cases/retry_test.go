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
