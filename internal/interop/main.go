// Command interop runs every official SDK that this machine can install
// against a fresh Sluice and prints two tables: SDK by send, receive, ack, wrong
// key refused; and how soon consumers that run all the while receive again after
// the server was killed and came back. It ends with 0 only if everything passed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"time"

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
	ok := false
	if err == nil {
		ok, err = run(ctx, *binary, *rows, downtimes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
	}
	if err != nil || !ok {
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

// run prints the tables and reports whether all rows passed.
func run(ctx context.Context, binary, pattern string, downtimes []time.Duration) (bool, error) {
	dir, err := os.MkdirTemp("", "sluice-interop-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	server, err := testcluster.StartProcess(ctx, binary, filepath.Join(dir, "data"))
	if err != nil {
		return false, err
	}
	defer server.Close()
	account, err := testcluster.SignUp(ctx, server.URL(), server.Mails(), "interop@example.com", "Interop")
	if err != nil {
		return false, err
	}
	passed, err := eachAlone(ctx, server, account, pattern)
	if err != nil || len(downtimes) == 0 {
		return passed, err
	}
	again, err := restarts(ctx, server, account, pattern, downtimes)
	return passed && again, err
}

// eachAlone runs one SDK after the other.
func eachAlone(ctx context.Context, server *testcluster.Process, account *testcluster.Account, pattern string) (bool, error) {
	passed, failed := 0, 0
	fmt.Printf("%-22s %-5s %-8s %-5s %-18s %7s\n", "sdk", "send", "receive", "ack", "wrong key refused", "seconds")
	for _, s := range sdks() {
		if match, err := path.Match(pattern, s.name); err != nil {
			return false, fmt.Errorf("rows: %w", err)
		} else if !match {
			continue
		}
		began := time.Now()
		r := s.try(ctx, server, account)
		fmt.Printf("%-22s %-5s %-8s %-5s %-18s %7.1f\n", s.name, word(r.sent), word(r.received), word(r.acked), word(r.refused), time.Since(began).Seconds())
		if r.ok() {
			passed++
		} else {
			failed++
			fmt.Println(r.detail)
		}
	}
	fmt.Printf("interop: rows=%d passed=%d failed=%d\n", passed+failed, passed, failed)
	return failed == 0 && passed > 0, nil
}

func word(ok bool) string {
	if ok {
		return "ok"
	}
	return "FAIL"
}
