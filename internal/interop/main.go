// Command interop runs every official SDK that this machine can install
// against a fresh Sluice and prints three tables: SDK by send, receive, ack, wrong
// key refused; SDK by kinds of messages; and how soon consumers that run all the while receive again after
// the server was killed and came back. The row "handover" gives a store folder to
// a real RocketMQ and takes it back, the row "mqadmin" has a tenant use RocketMQ's
// stock tool. It ends with 0 only if everything passed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/interop/handover"
	"github.com/sluicemq/sluice/internal/testcluster"
)

func main() {
	rows := flag.String("rows", "*", "pattern of the rows to run, such as 'java-*'")
	binary := flag.String("binary", "bin/sluice", "the binary to run against")
	down := flag.String("down", "5s,90s", "how long the server is down while consumers run, joined by commas; empty: never")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	downtimes, err := durations(*down)
	if err == nil {
		err = handOver(ctx, *rows)
	}
	if err == nil && *rows != handoverRow {
		err = run(ctx, *binary, *rows, downtimes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		stop()
		os.Exit(1)
	}
}

func durations(text string) ([]time.Duration, error) {
	var out []time.Duration
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		d, err := time.ParseDuration(part)
		if err != nil {
			return nil, fmt.Errorf("down: %w", err)
		}
		out = append(out, d)
	}
	return out, nil
}

// handoverRow is the row in which a store folder goes to a real RocketMQ and
// back.
const handoverRow = "handover"

func handOver(ctx context.Context, pattern string) error {
	if match, err := path.Match(pattern, handoverRow); err != nil || !match {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-handover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := handover.Run(ctx, "bench/peers/rocketmq", dir, os.Stdout); err != nil {
		return fmt.Errorf("%s: %w", handoverRow, err)
	}
	return nil
}

// run prints the tables. The error names each row that did not pass and says why.
func run(ctx context.Context, binary, pattern string, downtimes []time.Duration) error {
	dir, err := os.MkdirTemp("", "sluice-interop-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := testcluster.StartProcess(ctx, binary, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer server.Close()
	account, err := testcluster.SignUp(ctx, server.URL(), server.Mails(), "interop@example.com", "Interop")
	if err != nil {
		return err
	}
	err = eachAlone(ctx, server, account, pattern)
	if ctx.Err() == nil {
		err = errors.Join(err, eachFeature(ctx, server, account, pattern), mqadmin(ctx, server, account, pattern))
	}
	if len(downtimes) == 0 || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, restarts(ctx, server, account, pattern, downtimes))
}

// eachAlone runs one SDK after the other.
func eachAlone(ctx context.Context, server *testcluster.Process, account *testcluster.Account, pattern string) error {
	passed := 0
	var failed []error
	fmt.Printf("%-22s %-5s %-8s %-5s %-18s %7s\n", "sdk", "send", "receive", "ack", "wrong key refused", "seconds")
	for _, s := range sdks() {
		if match, err := path.Match(pattern, s.name); err != nil {
			return fmt.Errorf("rows: %w", err)
		} else if !match {
			continue
		}
		began := time.Now()
		r := s.try(ctx, server, account)
		line := fmt.Sprintf("%-22s %-5s %-8s %-5s %-18s %7.1f", s.name, word(r.sent), word(r.received), word(r.acked), word(r.refused), time.Since(began).Seconds())
		fmt.Println(line)
		if r.ok() {
			passed++
		} else {
			failed = append(failed, fmt.Errorf("%s\n%s", line, r.detail))
		}
	}
	fmt.Printf("interop: rows=%d passed=%d failed=%d\n", passed+len(failed), passed, len(failed))
	if passed == 0 && pattern != mqadminRow {
		failed = append(failed, errors.New("no row passed"))
	}
	return errors.Join(failed...)
}

func word(ok bool) string {
	if ok {
		return "ok"
	}
	return "FAIL"
}
