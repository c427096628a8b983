package main

import (
	"flag"
	"sync"
	"time"
)

type produceResult struct {
	Run string `json:"run"`
	publisherConfig
	Persist  string  `json:"persist"`
	Messages int64   `json:"messages"`
	Seconds  float64 `json:"seconds"`
	PerSec   float64 `json:"msgs_per_s"`
	MiBPerS  float64 `json:"mib_per_s"`
	interval
}

// produce keeps the window of every connection full and counts PubAcks.
func produce(args []string) (any, error) {
	r := produceResult{Run: "produce"}
	fs := flag.NewFlagSet("produce", flag.ExitOnError)
	r.register(fs)
	fs.StringVar(&r.Persist, "persist", "default", "persist mode of the streams: default or async")
	keep := fs.Bool("keep", false, "add to what the streams hold instead of starting empty")
	warmup := fs.Duration("warmup", 2*time.Second, "time before counting starts")
	duration := fs.Duration("duration", 10*time.Second, "counted time")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}

	if err := createStreams(r.target, r.Persist, !*keep); err != nil {
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

func (c *publisherConfig) register(fs *flag.FlagSet) {
	c.target.register(fs)
	fs.StringVar(&c.API, "api", "jetstream", "client API: jetstream (official async publish) or core (cheaper for the client)")
	fs.IntVar(&c.Window, "window", 256, "messages in flight per connection")
	fs.IntVar(&c.Size, "size", 1024, "bytes per message")
}

func (p *publisher) sendUntil(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
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
