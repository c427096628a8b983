package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// feature is a kind of message or of consuming that the programs have a mode
// for.
type feature struct {
	mode      string // of the program
	topicType string
	remoting  bool // only for SDKs of the remoting protocol
}

func features() []feature {
	return []feature{
		{mode: "tx", topicType: "TRANSACTION"},      // commit and rollback
		{mode: "txcheck", topicType: "TRANSACTION"}, // the producer is asked
		{mode: "delay", topicType: "DELAY"},
		{mode: "fifo", topicType: "NORMAL", remoting: true},
	}
}

// eachFeature runs every feature by every SDK that has it, those of one SDK at
// the same time, and prints a table.
func eachFeature(ctx context.Context, server *testcluster.Process, account *testcluster.Account, pattern string) error {
	var failed []error
	fmt.Printf("\n%-22s", "sdk")
	for _, f := range features() {
		fmt.Printf(" %-8s", f.mode)
	}
	fmt.Println(" seconds")
	for _, s := range sdks() {
		if match, err := path.Match(pattern, s.name); err != nil {
			return fmt.Errorf("rows: %w", err)
		} else if !match || s.tls {
			continue
		}
		began := time.Now()
		errs := s.tryFeatures(ctx, server, account)
		fmt.Printf("%-22s", s.name)
		for i, f := range features() {
			switch {
			case f.remoting && s.grpc:
				fmt.Printf(" %-8s", "-")
			default:
				fmt.Printf(" %-8s", word(errs[i] == nil))
			}
		}
		fmt.Printf(" %.1f\n", time.Since(began).Seconds())
		failed = append(failed, errs...)
	}
	return errors.Join(failed...)
}

// tryFeatures returns what went wrong with each feature; nil also for those
// that the SDK does not have.
func (s sdk) tryFeatures(ctx context.Context, server *testcluster.Process, a *testcluster.Account) []error {
	errs := make([]error, len(features()))
	var wg sync.WaitGroup
	for i, f := range features() {
		if f.remoting && s.grpc {
			continue
		}
		wg.Go(func() {
			if err := s.tryFeature(ctx, server, a, f); err != nil {
				errs[i] = fmt.Errorf("%s %s: %w", s.name, f.mode, err)
			}
		})
	}
	wg.Wait()
	return errs
}

func (s sdk) tryFeature(ctx context.Context, server *testcluster.Process, a *testcluster.Account, f feature) error {
	out, err := s.folder(ctx)
	if err != nil {
		return err
	}
	topic := "interop-" + f.mode + "-" + strings.ReplaceAll(s.name, ".", "-")
	if err := errors.Join(a.CreateTopicOf(ctx, topic, f.topicType), a.CreateGroup(ctx, topic)); err != nil {
		return err
	}
	if code, text := s.start(ctx, server, out, topic, a.KeyID, a.Secret, "RMQ_MODE="+f.mode); code != 0 {
		return errors.New(text)
	}
	return nil
}
