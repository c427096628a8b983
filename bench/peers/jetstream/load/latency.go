package main

import (
	"errors"
	"flag"
	"slices"
	"sync"
	"syscall"
	"time"
)

type latencyResult struct {
	Run string `json:"run"`
	publisherConfig
	Rate     int     `json:"rate"`
	Messages int     `json:"messages"`
	PerSec   float64 `json:"msgs_per_s"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	P999     float64 `json:"p999_us"`
	Max      float64 `json:"max_us"`
	LateP50  float64 `json:"send_late_p50_us"`
	LateP99  float64 `json:"send_late_p99_us"`
	interval
}

// latency publishes on a fixed schedule that does not wait for the server.
// A message's latency runs from the time it was due, not from the time the
// client came round to sending it, so a stalled server cannot hide the
// messages that queued behind the stall.
func latency(args []string) (any, error) {
	r := latencyResult{Run: "latency"}
	fs := flag.NewFlagSet("latency", flag.ExitOnError)
	r.register(fs)
	fs.IntVar(&r.Rate, "rate", 1000, "messages per second over all connections")
	keep := fs.Bool("keep", false, "add to what the streams hold instead of starting empty")
	persist := fs.String("persist", "default", "persist mode of the streams: default or async")
	warmup := fs.Duration("warmup", 2*time.Second, "time before measuring starts")
	duration := fs.Duration("duration", 15*time.Second, "measured time")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}

	if err := createStreams(r.target, *persist, !*keep); err != nil {
		return nil, err
	}
	pubs, err := r.open()
	if err != nil {
		return nil, err
	}
	begin := time.Now().Add(10 * time.Millisecond)
	measureFrom, end := begin.Add(*warmup), begin.Add(*warmup+*duration)
	interval := time.Duration(float64(time.Second) * float64(r.Conns) / float64(r.Rate))

	lates := make([][]time.Duration, len(pubs))
	takes := make([][]time.Duration, len(pubs))
	var senders sync.WaitGroup
	var failures errorBox
	for i, p := range pubs {
		takes[i] = make([]time.Duration, 0, int(*duration/interval)+1)
		p.onAck = func(s *slot) { // one goroutine per connection runs this
			if !s.due.Before(measureFrom) {
				takes[i] = append(takes[i], time.Since(s.due))
			}
		}
		first := begin.Add(interval * time.Duration(i) / time.Duration(r.Conns))
		senders.Go(func() {
			var err error
			lates[i], err = p.sendOnSchedule(first, measureFrom, end, interval)
			failures.add(err)
		})
	}
	time.Sleep(time.Until(measureFrom))
	time.Sleep(time.Until(end))
	r.interval = since(measureFrom)
	senders.Wait()
	failures.add(finish(pubs))

	taken, late := sorted(takes), sorted(lates)
	if len(taken) == 0 {
		failures.add(errors.New("nothing was acknowledged"))
		return nil, failures.err()
	}
	r.Messages, r.PerSec = len(taken), round(float64(len(taken))/duration.Seconds(), 0)
	r.P50, r.P99, r.P999, r.Max = quantile(taken, 0.5), quantile(taken, 0.99), quantile(taken, 0.999), quantile(taken, 1)
	r.LateP50, r.LateP99 = quantile(late, 0.5), quantile(late, 0.99)
	return r, failures.err()
}

// sendOnSchedule sends one message per interval and returns how late each
// measured one was handed to the client library.
func (p *publisher) sendOnSchedule(first, measureFrom, end time.Time, interval time.Duration) ([]time.Duration, error) {
	var late []time.Duration
	for due := first; due.Before(end); due = due.Add(interval) {
		sleepUntil(due)
		s := <-p.free
		s.due = due
		if !due.Before(measureFrom) {
			late = append(late, time.Since(due))
		}
		if err := p.publish(s); err != nil {
			p.free <- s
			return late, err
		}
	}
	return late, nil
}

// sleepUntil sleeps in the kernel: the runtime's own timers may fire up to a
// millisecond late while the process is otherwise idle.
func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		ts := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&ts, nil) // an interrupted sleep goes round again
	}
}

func sorted(parts [][]time.Duration) []time.Duration {
	all := slices.Concat(parts...)
	slices.Sort(all)
	return all
}

// quantile returns the q-quantile of sorted durations in microseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	i := min(int(q*float64(len(sorted))), len(sorted)-1)
	return round(float64(sorted[i])/1e3, 1)
}
