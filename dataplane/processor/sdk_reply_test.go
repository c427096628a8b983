//go:build !race

package processor

import (
	"context"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// A request is answered with a reply that reaches the requester, with the
// official client on both sides.
func TestSDK_requestAndReply(t *testing.T) {
	e := newEnv(t)
	for _, s := range []sdk{{e, "slk_a", ""}, {e, "slk_b", nsB}} {
		replier, replied := s.producer("replier"), make(chan error, 10)
		// One client of the SDK: the consumer's first heartbeat tells of both.
		requester := s.producer("rr")
		s.consumer("rr", "g", "orders", "*", func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, m := range ms {
				reply, err := consumer.CreateReplyMessage(m, []byte("x\x01the answer\x02"))
				if err == nil {
					_, err = replier.SendSync(ctx, reply)
				}
				replied <- err
			}
			return consumer.ConsumeSuccess, nil
		})
		answer, err := requester.Request(t.Context(), 20*time.Second, message1("orders", "the question", ""))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-replied; err != nil {
			t.Errorf("reply: %v", err)
		}
		// This client sends a reply's text as properties.
		if got := answer.GetProperty("x"); got != "the answer" {
			t.Errorf("answer %q: %+v", got, answer)
		}
	}
}
