// Command demo does what a new user does, against a fresh standalone of the
// real binary: sign up, read the mail, get a key, send and receive through the
// official Go SDKs of both protocols, live through a kill -9, and read the
// usage. It prints each step with its time, and ends with 0 only if every
// number agrees to the message.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	d := &demo{began: time.Now(), binary: "bin/sluice"}
	if err := d.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo: failed:", err)
		stop()
		os.Exit(1)
	}
}

// demo carries what later steps need of earlier ones.
type demo struct {
	began    time.Time
	binary   string
	dir      string
	server   *testcluster.Process
	account  *testcluster.Account
	sent     int // stored, as the SDKs were told or a look-up settled
	received int // handed to a consumer
	billed   int // messages that the usage has as sent; as received, they are the same number
}

// step runs one step and prints its time.
func (d *demo) step(what string, do func() (string, error)) error {
	began := time.Now()
	note, err := do()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Printf("%8.3fs  %-58s %s\n", time.Since(began).Seconds(), what, note)
	return nil
}

const (
	perSDK    = 1000 // messages through each SDK
	maxRate   = 2000 // messages for the rate figure
	topicRuns = 25   // topics for the time from create to first message
)

func (d *demo) run(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "sluice-demo-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	defer func() {
		if d.server == nil {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, d.server.LogTail())
		}
		_ = d.server.Close() // the folder goes anyway
	}()
	for _, s := range []struct {
		what string
		do   func() (string, error)
	}{
		{"start standalone, cold", func() (string, error) { return d.start(ctx) }},
		{"sign up, read the mail, enter the code", func() (string, error) { return d.signUp(ctx) }},
		{"first message, console to tail", func() (string, error) { return d.firstMessage(ctx) }},
		{fmt.Sprintf("%d topics, created by API, each used by an SDK at once", topicRuns), func() (string, error) { return d.topics(ctx) }},
		{"one consumer reads all of these topics", func() (string, error) { return d.sweep(ctx) }},
		{fmt.Sprintf("%d messages through the Go remoting SDK", perSDK), func() (string, error) { return d.exchange(ctx, remoting{}) }},
		{fmt.Sprintf("%d messages through the Go gRPC SDK", perSDK), func() (string, error) { return d.exchange(ctx, grpc{}) }},
		{"rate: 1 KiB messages through the Go remoting SDK", func() (string, error) { return d.rate(ctx, remoting{}) }},
		{"rate: 1 KiB messages through the Go gRPC SDK", func() (string, error) { return d.rate(ctx, grpc{}) }},
		{"kill -9 in the middle of sending, start again", func() (string, error) { return d.kill(ctx) }},
		{"warm restart", func() (string, error) { return d.restart(ctx) }},
		{"sluice topic list", func() (string, error) { return d.topicList(ctx) }},
		{"usage agrees with what was sent and received", func() (string, error) { return d.usage(ctx) }},
	} {
		if err := d.step(s.what, s.do); err != nil {
			return err
		}
	}
	if err := d.server.Stop(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	fmt.Printf("%8.3fs  in all\n", time.Since(d.began).Seconds())
	fmt.Printf("demo: ok sent=%d received=%d billed=%d\n", d.sent, d.received, d.billed)
	return nil
}

func (d *demo) start(ctx context.Context) (string, error) {
	var err error
	d.server, err = testcluster.StartProcess(ctx, d.binary, filepath.Join(d.dir, "data"), "SLUICE_USAGE_COLLECT_INTERVAL=2s")
	return "", err
}

func (d *demo) signUp(ctx context.Context) (string, error) {
	var err error
	d.account, err = testcluster.SignUp(ctx, d.server.URL(), d.server.Mails(), "you@example.com", "Demo")
	if err != nil {
		return "", err
	}
	return "namespace " + d.account.NamespaceID + ", key " + d.account.KeyID, nil
}

// restart measures a warm start and the idle process.
func (d *demo) restart(ctx context.Context) (string, error) {
	if err := d.server.Stop(); err != nil {
		return "", err
	}
	began := time.Now()
	if err := d.server.Start(ctx); err != nil {
		return "", err
	}
	ready := time.Since(began)
	select { // idle for a moment, so that the figure is the one at rest
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(5 * time.Second):
	}
	resident, err := d.server.Resident()
	return fmt.Sprintf("ready after %d ms (goal 1000), idle %d MiB resident (goal 150)", ready.Milliseconds(), resident>>20), err
}

func (d *demo) topicList(ctx context.Context) (string, error) {
	var times []time.Duration
	var text []byte
	for range 5 {
		began := time.Now()
		cmd := exec.CommandContext(ctx, d.binary, "topic", "list", "-o", "name", "--namespace", d.account.NamespaceID)
		cmd.Env = append(os.Environ(), "SLUICE_ENDPOINT="+d.server.URL(), "SLUICE_TOKEN="+d.account.Token, "HOME="+d.dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		text = out
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	if !strings.Contains(string(text), "hello") {
		return "", fmt.Errorf("topic hello is not in the list:\n%s", text)
	}
	return fmt.Sprintf("median %d ms (goal 100)", times[len(times)/2].Milliseconds()), nil
}

// usage waits until the bill has everything and compares.
func (d *demo) usage(ctx context.Context) (string, error) {
	var got testcluster.Totals
	err := testcluster.Eventually(ctx, 30*time.Second, func() (bool, error) {
		var err error
		got, err = d.account.Usage(ctx, "")
		return err == nil && got.MessagesIn >= int64(d.sent) && got.MessagesOut >= int64(d.received), err
	})
	if err != nil || got.MessagesIn != int64(d.sent) || got.MessagesOut != int64(d.received) {
		return "", fmt.Errorf("sent %d, billed %d; received %d, billed %d: %w", d.sent, got.MessagesIn, d.received, got.MessagesOut, err)
	}
	if d.billed = int(got.MessagesIn); d.sent != d.received {
		return "", fmt.Errorf("sent %d, received %d", d.sent, d.received)
	}
	var costs struct {
		Currency string `json:"currency"`
		Total    string `json:"total"`
	}
	if err := d.account.Do(ctx, "GET", "/v1/costs", nil, &costs); err != nil {
		return "", err
	}
	return fmt.Sprintf("in %d, out %d, costs %s cents %s", got.MessagesIn, got.MessagesOut, costs.Total, costs.Currency), nil
}
