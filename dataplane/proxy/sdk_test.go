package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

// The official Go SDK runs in a child process, which is this test binary
// again: it never ends its own goroutines, and reads its settings at process
// start. The child asks the test for what only the server's side can do.

const (
	childVariable = "SLUICE_SDK_SCENARIO"
	asks          = "sluice asks: "
)

var scenarios = map[string]func(sdk){
	"simple": sdk.simple, "wrong secret": sdk.wrongSecret, "push": sdk.push, "restart": sdk.restart,
}

// runSDK runs a scenario against e and answers what it asks.
func runSDK(t *testing.T, e *env, scenario string, ssl bool, secret string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSDKChild$", "-test.v")
	cmd.Env = append(os.Environ(), childVariable+"="+scenario, "SLUICE_SDK_ENDPOINT="+e.addr, "SLUICE_SDK_SECRET="+secret,
		fmt.Sprint("rocketmq.client.enableSsl=", ssl), "rocketmq.client.logRoot="+t.TempDir(), "HOME="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		what, ok := strings.CutPrefix(line, asks)
		if !ok {
			said.WriteString(line + "\n")
			continue
		}
		switch verb, value, _ := strings.Cut(what, " "); verb {
		case "advance":
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			e.clock.advance(d)
		case "restart":
			e.kill()
		}
		if _, err := io.WriteString(in, "done\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s\nserver: %s", err, said.String(), e.logs.String())
	}
}

func TestSDK_simpleConsumerOverTLS(t *testing.T) {
	cfg, _ := certificate(t)
	e := newEnv(t, func(c *Config) { c.TLSMode, c.TLS, c.MaxPoll = TLSPermissive, cfg, 20*time.Second })
	runSDK(t, e, "simple", true, "secret-a")
}

func TestSDK_simpleConsumerOverPlaintext(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxPoll = 20 * time.Second })
	runSDK(t, e, "simple", false, "secret-a")
}

func TestSDK_wrongSecretIsRefused(t *testing.T) {
	e := newEnv(t)
	runSDK(t, e, "wrong secret", false, "guess")
}

func TestSDK_pushConsumer(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxPoll = 2 * time.Second })
	runSDK(t, e, "push", false, "secret-a")
}

// B108: clients that nobody touches receive again after a restart.
func TestSDK_receivesAgainAfterRestart_B108(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxPoll = 2 * time.Second })
	runSDK(t, e, "restart", false, "secret-a")
}

// TestSDKChild is the child; alone it does nothing.
func TestSDKChild(t *testing.T) {
	run := scenarios[os.Getenv(childVariable)]
	if run == nil {
		return
	}
	run(sdk{t: t, endpoint: os.Getenv("SLUICE_SDK_ENDPOINT"), secret: os.Getenv("SLUICE_SDK_SECRET"), answers: bufio.NewReader(os.Stdin)})
}

// sdk is the child's side.
type sdk struct {
	t        *testing.T
	endpoint string
	secret   string
	answers  *bufio.Reader
}

// ask has the test do something and returns when it is done.
func (s sdk) ask(what string) {
	s.t.Helper()
	fmt.Println("\n" + asks + what)
	if _, err := s.answers.ReadString('\n'); err != nil {
		s.t.Fatal(err)
	}
}

func (s sdk) config() *rmq.Config {
	return &rmq.Config{Endpoint: s.endpoint, ConsumerGroup: "g", Credentials: &credentials.SessionCredentials{AccessKey: "slk_a", AccessSecret: s.secret}}
}

func (s sdk) producer() (rmq.Producer, error) {
	p, err := rmq.NewProducer(s.config(), rmq.WithTopics("orders"))
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { _ = p.GracefulStop() })
	return p, nil
}

func (s sdk) mustProduce() rmq.Producer {
	s.t.Helper()
	p, err := s.producer()
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s sdk) send(p rmq.Producer, bodies ...string) {
	s.t.Helper()
	for _, body := range bodies {
		m := &rmq.Message{Topic: "orders", Body: []byte(body)}
		m.SetTag("blue")
		m.SetKeys("key-" + body)
		m.AddProperty("n", body)
		receipts, err := p.Send(context.Background(), m)
		if err != nil || len(receipts) != 1 || receipts[0].MessageID == "" {
			s.t.Fatalf("send %s: %v, %v", body, receipts, err)
		}
	}
}

func (s sdk) simple() {
	p := s.mustProduce()
	consumer, err := rmq.NewSimpleConsumer(s.config(), rmq.WithSimpleAwaitDuration(2*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{"orders": rmq.NewFilterExpression("blue || red")}))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := consumer.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = consumer.GracefulStop() })
	var sent []string
	for i := range 10 {
		sent = append(sent, fmt.Sprint(i))
	}
	s.send(p, sent...)
	receive := func(n int) []*rmq.MessageView {
		var out []*rmq.MessageView
		for deadline := time.Now().Add(30 * time.Second); len(out) < n && time.Now().Before(deadline); {
			got, err := consumer.Receive(context.Background(), 16, 20*time.Second)
			var status *rmq.ErrRpcStatus
			if err != nil && !(errors.As(err, &status) && status.GetCode() == 40401) {
				s.t.Fatalf("receive: %v", err)
			}
			out = append(out, got...)
		}
		if len(out) != n {
			s.t.Fatalf("received %d messages, want %d", len(out), n)
		}
		return out
	}
	got := receive(10)
	var bodies []string
	for _, m := range got {
		bodies = append(bodies, string(m.GetBody()))
		if m.GetTopic() != "orders" || m.GetTag() == nil || *m.GetTag() != "blue" || len(m.GetKeys()) != 1 || m.GetProperties()["n"] != string(m.GetBody()) || m.GetDeliveryAttempt() != 1 {
			s.t.Errorf("message %s came as topic %s, keys %v, properties %v, attempt %d", m.GetBody(), m.GetTopic(), m.GetKeys(), m.GetProperties(), m.GetDeliveryAttempt())
		}
	}
	slices.Sort(bodies)
	if !slices.Equal(bodies, sent) {
		s.t.Errorf("received %v, sent %v", bodies, sent)
	}
	for _, m := range got[2:] {
		if err := consumer.Ack(context.Background(), m); err != nil {
			s.t.Errorf("ack: %v", err)
		}
	}
	// One is sent back, one is forgotten: both come again.
	if err := consumer.ChangeInvisibleDuration(got[0], 10*time.Second); err != nil {
		s.t.Errorf("change: %v", err)
	}
	s.ask("advance 11s")
	back := receive(1)[0]
	if back.GetMessageId() != got[0].GetMessageId() || back.GetDeliveryAttempt() != 2 {
		s.t.Errorf("after the nack: id %s, attempt %d; want %s, 2", back.GetMessageId(), back.GetDeliveryAttempt(), got[0].GetMessageId())
	}
	if err := consumer.Ack(context.Background(), back); err != nil {
		s.t.Errorf("ack: %v", err)
	}
	s.ask("advance 20s")
	forgotten := receive(1)[0]
	if forgotten.GetMessageId() != got[1].GetMessageId() || forgotten.GetDeliveryAttempt() != 2 {
		s.t.Errorf("after the invisible time: id %s, attempt %d; want %s, 2", forgotten.GetMessageId(), forgotten.GetDeliveryAttempt(), got[1].GetMessageId())
	}
	if err := consumer.Ack(context.Background(), forgotten); err != nil {
		s.t.Errorf("ack: %v", err)
	}
	s.ask("advance 1h")
	if more, err := consumer.Receive(context.Background(), 16, 20*time.Second); len(more) > 0 || err == nil {
		s.t.Errorf("%d messages come again, err %v", len(more), err)
	}
}

func (s sdk) wrongSecret() {
	_, err := s.producer()
	if err == nil || !strings.Contains(err.Error(), "UNAUTHORIZED") || !strings.Contains(err.Error(), "[SLUICE:unauthenticated]") {
		s.t.Errorf("start with a wrong secret: %v", err)
	}
}

// inbox is what a push consumer got.
type inbox struct {
	mu    sync.Mutex
	count map[string]int
	fail  map[string]bool // fails at its first delivery
	news  chan struct{}
}

func (b *inbox) consume(m *rmq.MessageView) rmq.ConsumerResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	body := string(m.GetBody())
	b.count[body]++
	select {
	case b.news <- struct{}{}:
	default:
	}
	if b.fail[body] && b.count[body] == 1 {
		return rmq.FAILURE
	}
	return rmq.SUCCESS
}

func (b *inbox) await(t *testing.T, expected map[string]int, within time.Duration) {
	t.Helper()
	limit := time.After(within)
	for {
		b.mu.Lock()
		ok := true
		for body, n := range expected {
			ok = ok && b.count[body] >= n
		}
		state := fmt.Sprint(b.count)
		b.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-b.news:
		case <-limit:
			t.Fatalf("received %s, want %v", state, expected)
		}
	}
}

func (s sdk) pushConsumer(b *inbox) {
	s.t.Helper()
	consumer, err := rmq.NewPushConsumer(s.config(), rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{"orders": rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: b.consume}))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := consumer.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = consumer.GracefulStop() })
}

func (s sdk) push() {
	b := &inbox{count: map[string]int{}, fail: map[string]bool{"2": true}, news: make(chan struct{}, 1)}
	s.pushConsumer(b)
	s.send(s.mustProduce(), "1", "2", "3")
	b.await(s.t, map[string]int{"1": 1, "2": 2, "3": 1}, 30*time.Second) // the failed one comes again
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count["1"] != 1 || b.count["3"] != 1 {
		s.t.Errorf("acknowledged messages came again: %v", b.count)
	}
}

func (s sdk) restart() {
	b := &inbox{count: map[string]int{}, news: make(chan struct{}, 1)}
	s.pushConsumer(b)
	p := s.mustProduce()
	s.send(p, "before")
	b.await(s.t, map[string]int{"before": 1}, 30*time.Second)
	s.ask("restart")
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, err := p.Send(context.Background(), &rmq.Message{Topic: "orders", Body: []byte("after")})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the producer does not recover: %v", err)
		}
	}
	b.await(s.t, map[string]int{"after": 1}, 30*time.Second)
}
