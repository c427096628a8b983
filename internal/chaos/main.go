// Command chaos kills a broker over and over while messages are sent and pulled,
// and then compares what the broker has with what was acknowledged. It ends with
// 0 only if nothing was lost, changed, reordered or repeated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/internal/testcluster"
)

func main() {
	binary := flag.String("binary", "bin/sluice", "the binary to run")
	seconds := flag.Int("seconds", 120, "how long to send and kill")
	kills := flag.Int("kills", 50, "go on until there were so many kills")
	seed := flag.Uint64("seed", rand.Uint64(), "of the times between kills")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "sluice-chaos-")
	if err == nil {
		err = run(ctx, *binary, dir, time.Duration(*seconds)*time.Second, *kills, *seed, os.Stdout)
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		stop()
		os.Exit(1)
	}
}

const (
	topic   = "chaos"
	queues  = 8
	senders = 32
)

// run sends, pulls and kills for at least d and kills times, and checks.
func run(ctx context.Context, binary, dir string, d time.Duration, kills int, seed uint64, out io.Writer) error {
	fmt.Fprintf(out, "chaos: seed=%d\n", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	// Small files roll all the time; half of all runs keep queues in pages.
	layout := []string{"compatible", "compact"}[rnd.IntN(2)]
	plane, err := testcluster.StartDataPlane(ctx, binary, filepath.Join(dir, "data"), "SLUICE_STORE_QUEUE_LAYOUT="+layout)
	if err != nil {
		return err
	}
	defer plane.Close()
	if err := plane.Prepare(ctx, topic, queues); err != nil {
		return err
	}
	l := newLedger()
	work, cancel := context.WithCancel(ctx)
	g, work := errgroup.WithContext(work)
	for i := range senders {
		g.Go(func() error { return l.send(work, plane, i) })
	}
	for q := range int32(queues) {
		g.Go(func() error { return l.pull(work, plane, q) })
	}
	var starts []time.Duration
	end := time.Now().Add(d)
	for (time.Now().Before(end) || len(starts) < kills) && work.Err() == nil {
		pause(work, time.Duration(200+rnd.IntN(1500))*time.Millisecond)
		if err := plane.Broker.Kill(); err != nil {
			cancel()
			return errors.Join(err, g.Wait())
		}
		began := time.Now()
		if err := plane.Broker.Start(ctx); err != nil {
			cancel()
			return errors.Join(fmt.Errorf("after kill %d: %w", len(starts)+1, err), g.Wait())
		}
		starts = append(starts, time.Since(began))
	}
	pause(work, time.Second)
	cancel()
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	verdict, err := l.verify(ctx, plane)
	if err != nil {
		return err
	}
	slices.Sort(starts)
	fmt.Fprintf(out, "chaos: layout=%s kills=%d acknowledged=%d pulled=%d stored=%d lost=%d reordered=%d repeated=%d changed=%d start_p50=%v start_max=%v\n",
		layout, len(starts), len(l.acked), l.pulledCount(), verdict.stored, verdict.lost, verdict.reordered, verdict.repeated, verdict.changed,
		starts[len(starts)/2].Round(time.Millisecond), starts[len(starts)-1].Round(time.Millisecond))
	return verdict.err()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
