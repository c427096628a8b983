package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

const (
	firstMessage = 90 * time.Second // until a consumer that just started has its first message
	recovery     = 30 * time.Second // from when the server is there again until a consumer receives
)

// restarts is case B108: consumers of all SDKs keep running while the server is
// killed, is down for each of the times, and comes back; nobody touches them.
// It prints how many seconds after the server was there again each received.
//
// All must within 30 seconds and what the SDK itself waits; a row over 30
// seconds has a mark.
func restarts(ctx context.Context, server *testcluster.Process, a *testcluster.Account, pattern string, downtimes []time.Duration) error {
	var cs consumers
	defer func() {
		for _, c := range cs {
			c.end()
		}
	}()
	for _, s := range sdks() {
		if match, err := path.Match(pattern, s.name); err != nil {
			return fmt.Errorf("rows: %w", err)
		} else if !match || s.tls {
			continue
		}
		for _, mode := range s.consumes {
			c, err := s.subscribe(ctx, server, a, mode)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			cs = append(cs, c)
		}
	}
	if err := cs.round(ctx, a, "first", time.Now(), func(*subscriber) time.Duration { return firstMessage }); err != nil {
		return err
	}
	header := fmt.Sprintf("\n%-30s %-10s", "consumer over kill -9", "first")
	for n, down := range downtimes {
		header += fmt.Sprintf(" %-10s", fmt.Sprintf("down %.0f s", down.Seconds()))
		killed := time.Now()
		if err := server.Kill(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(down):
		}
		if err := server.Start(ctx); err != nil {
			return err
		}
		back := time.Now()
		limit := func(c *subscriber) time.Duration { return recovery + c.ownWait(back.Sub(killed)) }
		if err := cs.round(ctx, a, fmt.Sprintf("restart-%d", n+1), back, limit); err != nil {
			return err
		}
	}
	fmt.Println(header)
	return cs.print()
}

type consumers []*subscriber

// round sends each consumer a message and waits for all, each until its limit
// after began.
func (cs consumers) round(ctx context.Context, a *testcluster.Account, key string, began time.Time, limit func(*subscriber) time.Duration) error {
	for _, c := range cs {
		if err := c.send(ctx, a, key); err != nil {
			return err
		}
	}
	for _, c := range cs {
		at, err := c.await(ctx, key, time.Until(began.Add(limit(c))))
		if err != nil {
			c.detail = fmt.Sprintf("%s: %s: %v\n%s", c.name, key, err, c.text())
			c.results = append(c.results, "FAIL")
			continue
		}
		mark := ""
		if took := at.Sub(began); key != "first" && took > recovery {
			mark, c.late = " *", true
		}
		c.results = append(c.results, fmt.Sprintf("%.1f s%s", at.Sub(began).Seconds(), mark))
	}
	return nil
}

// print prints the rows. The error names those that did not pass and says why.
func (cs consumers) print() error {
	var failed []error
	late := false
	for _, c := range cs {
		fmt.Printf("%-30s", c.name)
		for _, r := range c.results {
			fmt.Printf(" %-10s", r)
		}
		fmt.Println()
		late = late || c.late
		if c.detail != "" {
			failed = append(failed, errors.New(c.detail))
		}
	}
	if late {
		fmt.Printf("* over %.0f s: the SDK waited by itself, see %s/README.md\n", recovery.Seconds(), clientsDir)
	}
	fmt.Printf("interop: consumers=%d recovered=%d failed=%d\n", len(cs), len(cs)-len(failed), len(failed))
	return errors.Join(failed...)
}

// ownWait is how long the SDK may wait for reasons of its own after the server
// was down for a time.
func (c *subscriber) ownWait(down time.Duration) time.Duration {
	if c.grpc {
		return longestBackoff(down)
	}
	return 0
}

// longestBackoff is how far away the next connect of a gRPC channel with the
// default parameters (the gRPC document "Connection Backoff Protocol") can be,
// when its peer has been down for a time: 1 s, growing by 1.6 to at most 120 s,
// each 20 % shorter or longer. The Java, Node, Python and Go SDKs set no others.
func longestBackoff(down time.Duration) time.Duration {
	const first, most, growth, jitter = time.Second, 2 * time.Minute, 1.6, 0.2
	step, tried := float64(first), 0.0
	for tried += step * (1 - jitter); tried < float64(down); tried += step * (1 - jitter) {
		step = min(step*growth, float64(most))
	}
	return time.Duration(step * (1 + jitter))
}

// subscriber is a running consumer of an SDK with a topic and a group of its
// own.
type subscriber struct {
	name, topic string
	grpc        bool
	results     []string
	late        bool   // a result is over the time of recovery
	detail      string // why it failed
	cmd         *exec.Cmd
	read        chan struct{} // closed when the output has ended

	mu      sync.Mutex
	got     map[string]time.Time
	changed chan struct{} // closed and replaced at each message
	lines   []string      // the end of the output
}

const keptLines = 40

func (s sdk) subscribe(ctx context.Context, server *testcluster.Process, a *testcluster.Account, mode string) (*subscriber, error) {
	out, err := filepath.Abs(filepath.Join(".cache/clients", s.name))
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, out); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	topic := "restart-" + strings.ReplaceAll(s.name, ".", "-") + "-" + mode
	if err := errors.Join(a.CreateTopic(ctx, topic), a.CreateGroup(ctx, topic)); err != nil {
		return nil, err
	}
	c := &subscriber{name: s.name + " " + mode, topic: topic, grpc: s.grpc, read: make(chan struct{}), got: map[string]time.Time{}, changed: make(chan struct{})}
	c.cmd = s.command(ctx, server, out, topic, a.KeyID, a.Secret, "RMQ_MODE="+mode)
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.cmd.Stderr = c.cmd.Stdout
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the program's output; awaited by end
		defer close(c.read)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			c.take(lines.Text())
		}
	}()
	return c, nil
}

func (c *subscriber) take(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key, ok := strings.CutPrefix(line, "got "); ok {
		if _, again := c.got[key]; !again {
			c.got[key] = time.Now()
		}
		close(c.changed)
		c.changed = make(chan struct{})
	}
	if c.lines = append(c.lines, time.Now().Format(time.TimeOnly)+" "+line); len(c.lines) > keptLines {
		c.lines = c.lines[1:]
	}
}

// send stores a message for the consumer.
func (c *subscriber) send(ctx context.Context, a *testcluster.Account, key string) error {
	return a.Do(ctx, "POST", "/v1/namespaces/"+a.NamespaceID+"/topics/"+c.topic+"/messages", map[string]any{"body": key, "tag": "smoke", "keys": []string{key}}, nil)
}

var errNotReceived = errors.New("not received in time")

// await waits for a message and returns when it came.
func (c *subscriber) await(ctx context.Context, key string, limit time.Duration) (time.Time, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		c.mu.Lock()
		at, ok := c.got[key]
		changed := c.changed
		c.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-changed:
		case <-c.read:
			return time.Time{}, errors.New("the program ended")
		case <-timer.C:
			return time.Time{}, errNotReceived
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

func (c *subscriber) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

func (c *subscriber) end() {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	<-c.read
	_ = c.cmd.Wait()
}
