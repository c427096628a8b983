package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/dataplane/filter"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// duePerSecond is how many delayed messages become due in a second.
const duePerSecond = 5000

// delays measures how late delayed messages reach consumers that wait for
// them: from the time that the message was sent with to the time at which the
// consumer has it, on one clock.
func delays(ctx context.Context, w *workplace) (all []figure, err error) {
	p := &dataPlane{binary: w.binary, dir: filepath.Join(w.dir, "delays")}
	defer func() {
		if p.DataPlane != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := p.Start(ctx, false); err != nil {
		return nil, err
	}
	node, topic := p.System.At(p.Broker.Broker), policy.PhysicalName(testcluster.BareNamespace, bareTopic)
	n := duePerSecond * int(max(w.seconds/time.Second, 1))
	base, err := sendDelayed(ctx, node, topic, n)
	if err != nil {
		return nil, err
	}
	late, early, err := receiveDelayed(ctx, node, topic, n, base)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%d messages, %d due a second; max %.1f ms", n, duePerSecond, ms(quantile(late, 1)))
	return []figure{
		{Row: "semantics-delay p50 of being late", Unit: "ms", Ours: ms(quantile(late, 0.5)), Open: true, Note: note},
		{Row: "semantics-delay p99 of being late", Unit: "ms", Ours: ms(quantile(late, 0.99)), Goal: 100, Note: note},
		{Row: "semantics-delay early messages", Unit: "", Ours: float64(early), Goal: 0, Note: note},
	}, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// sendDelayed sends n messages that become due evenly from a moment on, before
// which all of them are stored. Their bodies are the due times in ms.
func sendDelayed(ctx context.Context, node mqclient.Node, topic string, n int) (base time.Time, err error) {
	const senders = 64
	base = time.Now().Add(10*time.Second + time.Duration(n)*time.Second/4000) // storing them takes less
	g, ctx := errgroup.WithContext(ctx)
	for s := range senders {
		g.Go(func() error {
			for i := s; i < n; i += senders {
				due := strconv.FormatInt(base.Add(time.Duration(i)*time.Second/duePerSecond).UnixMilli(), 10)
				_, err := node.Send(ctx, mqclient.SendRequest{
					Topic: topic, QueueID: int32(i % bareQueues), Body: []byte(due), Properties: message.AppendProperty(nil, message.KeyTimerDeliverMs, due), Born: time.Now(),
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return base, err
	}
	if time.Now().After(base) {
		return base, errors.New("the messages took longer to send than to become due: the machine is too slow for this row")
	}
	return base, nil
}

// receiveDelayed waits for all of them, a reader for each queue.
func receiveDelayed(ctx context.Context, node mqclient.Node, topic string, n int, base time.Time) (late []time.Duration, early int, err error) {
	ctx, cancel := context.WithDeadline(ctx, base.Add(time.Duration(n)*time.Second/duePerSecond+time.Minute))
	defer cancel()
	var mu sync.Mutex // guards late and early
	g, ctx := errgroup.WithContext(ctx)
	for queue := range int32(bareQueues) {
		g.Go(func() error {
			for next := int64(0); next < int64(n/bareQueues); {
				out, err := node.Pull(ctx, mqclient.PullRequest{Topic: topic, QueueID: queue, Offset: next, Hold: 5 * time.Second})
				if err != nil {
					return err
				}
				now := time.Now()
				mu.Lock()
				for i := range out.Messages {
					due, err := strconv.ParseInt(string(out.Messages[i].Body), 10, 64)
					if err != nil {
						mu.Unlock()
						return err
					}
					d := now.Sub(time.UnixMilli(due))
					if d < 0 {
						early++
					}
					late = append(late, max(d, 0))
				}
				mu.Unlock()
				next = out.Next
			}
			return nil
		})
	}
	err = g.Wait()
	return late, early, err
}

// filters measures how many messages an SQL92 filter of four terms looks at in
// a second, on one core.
func filters(context.Context, *workplace) ([]figure, error) {
	f, err := filter.Parse(filter.KindSQL, "price BETWEEN 10 AND 20 AND region IN ('north', 'south') AND title STARTSWITH 'x' AND vip = TRUE")
	if err != nil {
		return nil, err
	}
	var properties []byte
	for _, p := range [][2]string{{message.KeyUniqueKey, "7F000001000018B4AAC216E09E5A0000"}, {message.KeyWait, "true"}, {message.KeyTags, "TagA"},
		{"price", "15"}, {"region", "south"}, {"title", "xylophone"}, {"vip", "true"}} {
		properties = message.AppendProperty(properties, p[0], p[1])
	}
	if !f.Match(properties) {
		return nil, errors.New("the filter does not match its message")
	}
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.Match(properties)
		}
	})
	perSecond := float64(r.N) / r.T.Seconds()
	return []figure{
		{Row: "semantics-filter SQL92, 4 terms", Unit: "/s", Ours: perSecond, Goal: 2e6, More: true, Note: "all terms are looked at"},
		{Row: "semantics-filter allocations", Unit: "", Ours: float64(r.AllocsPerOp()), Goal: 0},
	}, nil
}
