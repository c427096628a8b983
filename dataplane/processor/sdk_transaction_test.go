//go:build !race

package processor

import (
	"fmt"
	"sync"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"github.com/sluicemq/sluice/dataplane/broker"
)

// deciding is a producer's side of transactions: some decide at once, some when
// they are asked.
type deciding struct {
	mu    sync.Mutex
	asked map[string]int
}

func (d *deciding) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	switch m.Body[0] {
	case 'c':
		return primitive.CommitMessageState
	case 'r':
		return primitive.RollbackMessageState
	}
	return primitive.UnkonwnState
}

func (d *deciding) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[string(m.Body)]++
	switch {
	case m.Body[1] == 'c' && d.asked[string(m.Body)] > 1: // the second time
		return primitive.CommitMessageState
	case m.Body[1] == 'r':
		return primitive.RollbackMessageState
	}
	return primitive.UnkonwnState
}

func TestSDK_transactions(t *testing.T) {
	e := newEnv(t, func(c *broker.Config) { c.Transactions.First, c.Transactions.Period = time.Second, time.Second })
	for _, s := range []sdk{{e, "slk_a", ""}, {e, "slk_b", nsB}} {
		in := newInbox(t)
		s.consumer("tc", "g", "orders", "*", in.listen("c"))
		d := &deciding{asked: map[string]int{}}
		opts := []producer.Option{
			producer.WithNameServer([]string{s.ns}), producer.WithGroupName("tp"), producer.WithInstanceName(s.key + "tp"), producer.WithCredentials(s.credentials()), producer.WithRetry(0),
		}
		if s.namespace != "" {
			opts = append(opts, producer.WithNamespace(s.namespace))
		}
		p, err := rocketmq.NewTransactionProducer(d, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Shutdown() })
		for i := range 5 {
			for _, kind := range []string{"c", "r", "uc", "ur"} {
				r, err := p.SendMessageInTransaction(t.Context(), message1("orders", fmt.Sprint(kind, i), "t"))
				if err != nil || r.Status != primitive.SendOK {
					t.Fatalf("%s%d: %+v, %v", kind, i, r, err)
				}
			}
		}
		in.wait("10 committed messages", func() bool { return len(in.seen) >= 10 })
		for body, n := range in.seen {
			if n != 1 || body[0] == 'r' || body[:2] == "ur" {
				t.Errorf("%s came %d times", body, n)
			}
		}
		d.mu.Lock()
		for body := range d.asked {
			if body[0] != 'u' {
				t.Errorf("asked about %s, which was decided", body)
			}
		}
		d.mu.Unlock()
	}
}
