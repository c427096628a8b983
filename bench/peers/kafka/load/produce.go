package main

import (
	"flag"
	"sync"
	"time"
)

type produceResult struct {
	Run string `json:"run"`
	publisherConfig
	Messages int64   `json:"messages"`
	Seconds  float64 `json:"seconds"`
	PerSec   float64 `json:"msgs_per_s"`
	MiBPerS  float64 `json:"mib_per_s"`
	interval
}

// produce keeps the window of every connection full and counts
// acknowledgements.
func produce(args []string) (any, error) {
	r := produceResult{Run: "produce"}
	fs := flag.NewFlagSet("produce", flag.ExitOnError)
	r.register(fs)
	warmup := fs.Duration("warmup", 2*time.Second, "time before counting starts")
	duration := fs.Duration("duration", 10*time.Second, "counted time")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}

	pubs, err := r.open()
	if err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	var senders sync.WaitGroup
	var failures errorBox
	for _, p := range pubs {
		senders.Go(func() { failures.add(p.sendUntil(stop)) })
	}
	time.Sleep(*warmup)
	before, began := acked(pubs), time.Now()
	time.Sleep(*duration)
	r.Messages, r.Seconds = acked(pubs)-before, time.Since(began).Seconds()
	r.interval = since(began)
	close(stop)
	senders.Wait()
	failures.add(finish(pubs))

	r.PerSec = round(float64(r.Messages)/r.Seconds, 0)
	r.MiBPerS = round(float64(r.Messages)*float64(r.Size)/r.Seconds/(1<<20), 1)
	r.Seconds = round(r.Seconds, 3)
	return r, failures.err()
}

// sendUntil publishes whenever a slot is free, and flushes before it waits.
func (p *publisher) sendUntil(stop <-chan struct{}) error {
	for {
		if len(p.free) == 0 {
			if err := p.flush(); err != nil {
				return err
			}
		}
		select {
		case <-stop:
			return p.flush()
		case s := <-p.free:
			if err := p.publish(s); err != nil {
				p.free <- s
				return err
			}
		}
	}
}

func acked(pubs []*publisher) (n int64) {
	for _, p := range pubs {
		n += p.acked.Load()
	}
	return n
}
