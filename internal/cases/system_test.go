package cases

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	rmq "github.com/apache/rocketmq-clients/golang/v5"

	"github.com/sluicemq/sluice/internal/testcluster"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Case B004: under many producers of both protocols and long polls beside them,
// every stored body is the one that was sent, also after a restart.
func TestBodies_keepTheirBytes(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("bodies@example.com")
	k := key{c.Addresses, a.KeyID, a.Secret}
	must(t, errors.Join(a.CreateTopic(t.Context(), "bodies"), a.CreateGroup(t.Context(), "first"), a.CreateGroup(t.Context(), "second")))
	for range 8 { // long polls on the same connections' port, all the while
		k.remotingConsumer(t, "hello", "hello-group", func(context.Context, *primitive.MessageExt) consumer.ConsumeResult { return consumer.ConsumeSuccess })
	}
	const producers, each = 32, 12
	var wg sync.WaitGroup
	for p := range producers {
		rnd := rand.New(rand.NewPCG(uint64(p), 4))
		send := remotingSend(t, k, "bodies")
		if p%2 == 0 {
			send = grpcSend(t, k, "bodies")
		}
		wg.Go(func() {
			for range each {
				body := make([]byte, 1+rnd.IntN(200<<10))
				for i := range body {
					body[i] = byte(rnd.Uint32())
				}
				sum := sha256.Sum256(body)
				if err := send(body, hex.EncodeToString(sum[:])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	check := func(group string) {
		t.Helper()
		var mu sync.Mutex
		seen, all := map[string]bool{}, make(chan struct{})
		stop := k.remotingConsumer(t, "bodies", group, func(_ context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
			sum := sha256.Sum256(m.Body)
			mu.Lock()
			defer mu.Unlock()
			if got := hex.EncodeToString(sum[:]); got != m.GetProperty("sum") {
				t.Errorf("message %s: digest %s, property %s", m.MsgId, got, m.GetProperty("sum"))
			}
			if before := len(seen); !seen[m.GetProperty("sum")] {
				seen[m.GetProperty("sum")] = true
				if before+1 == producers*each {
					close(all)
				}
			}
			return consumer.ConsumeSuccess
		})
		defer stop()
		select {
		case <-all:
		case <-time.After(60 * time.Second):
			mu.Lock()
			t.Errorf("%d of %d bodies came", len(seen), producers*each)
			mu.Unlock()
		}
	}
	check("first")
	c.Restart()
	check("second")
}

func remotingSend(t *testing.T, k key, topic string) func(body []byte, sum string) error {
	p := k.remotingProducer(t)
	return func(body []byte, sum string) error {
		m := primitive.NewMessage(topic, body)
		if sum != "" {
			m.WithProperty("sum", sum)
		}
		_, err := p.SendSync(context.Background(), m)
		return err
	}
}

func grpcSend(t *testing.T, k key, topic string) func(body []byte, sum string) error {
	p := k.grpcProducer(t, topic)
	return func(body []byte, sum string) error {
		m := &rmq.Message{Topic: topic, Body: body}
		if sum != "" {
			m.AddProperty("sum", sum)
		}
		_, err := p.Send(context.Background(), m)
		return err
	}
}

// Case B036: what was answered OK exists after the process was killed within
// 100 ms of the answer, every time.
func TestKill_forgetsNothingThatWasAnswered(t *testing.T) {
	server, err := testcluster.StartProcess(t.Context(), testcluster.Binary(t), filepath.Join(t.TempDir(), "data"))
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	a, err := testcluster.SignUp(t.Context(), server.URL(), server.Mails(), "kill@example.com", "Kill")
	must(t, err)
	ctx := t.Context()
	rounds := 12
	if full() {
		rounds = 50
	}
	for round := range rounds {
		name := fmt.Sprint("round-", round)
		must(t, errors.Join(a.CreateTopic(ctx, name), a.CreateGroup(ctx, name)))
		var made struct {
			ID string `json:"id"`
		}
		must(t, a.Do(ctx, "POST", "/v1/api-keys", map[string]any{"name": name, "scopes": []map[string]any{{"namespace_id": a.NamespaceID, "permissions": []string{"PUB"}}}}, &made))
		var sent struct {
			MessageID string `json:"message_id"`
		}
		must(t, a.Do(ctx, "POST", "/v1/namespaces/"+a.NamespaceID+"/topics/"+name+"/messages", map[string]any{"body": name}, &sent))
		must(t, server.Kill())
		must(t, server.Start(ctx))
		for past := range round + 1 {
			name := fmt.Sprint("round-", past)
			base := "/v1/namespaces/" + a.NamespaceID
			must(t, a.Do(ctx, "GET", base+"/topics/"+name, nil, nil))
			must(t, a.Do(ctx, "GET", base+"/groups/"+name, nil, nil))
			var page struct {
				Items []struct {
					Body string `json:"body"`
				} `json:"items"`
			}
			must(t, a.Do(ctx, "GET", base+"/topics/"+name+"/messages", nil, &page))
			if len(page.Items) != 1 || page.Items[0].Body != name {
				t.Fatalf("after kill %d: topic %s holds %v", round, name, page.Items)
			}
		}
		must(t, a.Do(ctx, "GET", "/v1/api-keys/"+made.ID, nil, nil))
		must(t, a.Do(ctx, "DELETE", "/v1/api-keys/"+made.ID, nil, nil)) // a plan has fewer keys than rounds
	}
}

// Case B154: a retried message comes back under the name that the application
// knows, and its group is never seen with a namespace.
func TestRetry_showsBareNames(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("retry@example.com")
	k := key{c.Addresses, a.KeyID, a.Secret}
	got := make(chan *primitive.MessageExt, 8)
	k.remotingConsumer(t, "hello", "hello-group", func(ctx context.Context, m *primitive.MessageExt) consumer.ConsumeResult {
		got <- m
		if m.ReconsumeTimes == 0 {
			cc, _ := primitive.GetConcurrentlyCtx(ctx)
			cc.DelayLevelWhenNextConsume = 1
			return consumer.ConsumeRetryLater
		}
		return consumer.ConsumeSuccess
	})
	must(t, remotingSend(t, k, "hello")([]byte("again"), ""))
	for attempt := range int32(2) {
		select {
		case m := <-got:
			if m.ReconsumeTimes != attempt || m.Topic != "hello" || string(m.Body) != "again" {
				t.Errorf("attempt %d: topic %q, attempt %d, body %q", attempt, m.Topic, m.ReconsumeTimes, m.Body)
			}
			for name, value := range m.GetProperties() {
				if strings.Contains(value, a.NamespaceID) || strings.HasPrefix(name, "__SLUICE") {
					t.Errorf("attempt %d shows %s=%s", attempt, name, value)
				}
			}
		case <-time.After(40 * time.Second):
			t.Fatalf("attempt %d did not come", attempt)
		}
	}
}

// A revoked key is refused at the next request, and connections and polls that
// are open end.
func TestRevoke_endsWhatIsOpen(t *testing.T) {
	c := testcluster.Start(t)
	a := c.SignUp("revoke@example.com")
	var made struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	must(t, a.Do(t.Context(), "POST", "/v1/api-keys?wait=10s", map[string]any{"name": "short-lived",
		"scopes": []map[string]any{{"namespace_id": a.NamespaceID, "permissions": []string{"PUB", "SUB"}}}}, &made))
	k := key{c.Addresses, made.ID, made.Secret}
	overRemoting, overGRPC := remotingSend(t, k, "hello"), grpcSend(t, k, "hello")
	must(t, errors.Join(overRemoting([]byte("1"), ""), overGRPC([]byte("2"), "")))
	simple := k.grpcConsumer(t, "hello", "hello-group")
	parked := make(chan error, 1)
	go func() { // nothing is left to receive after these two: the poll parks
		for {
			if _, err := simple.Receive(context.Background(), 16, 30*time.Second); err != nil && !strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
				parked <- err
				return
			}
		}
	}()
	must(t, a.Do(t.Context(), "POST", "/v1/api-keys/"+made.ID+"/actions/revoke?wait=10s", nil, nil))
	for name, send := range map[string]func([]byte, string) error{"remoting": overRemoting, "grpc": overGRPC} {
		err := send([]byte("3"), "")
		if err == nil {
			t.Errorf("%s: a send with a revoked key passed", name)
		} else if name == "grpc" && !strings.Contains(err.Error(), "key_revoked") { // the other client asks for a route first, and hides why it gets none
			t.Errorf("%s: the owner of the key is not told that it was revoked: %v", name, err)
		}
	}
	select {
	case <-parked:
	case <-time.After(10 * time.Second):
		t.Error("a poll with a revoked key goes on")
	}
	own := key{c.Addresses, a.KeyID, a.Secret}
	must(t, remotingSend(t, own, "hello")([]byte("4"), "")) // the tenant's other key works
}
