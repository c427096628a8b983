package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type consumeResult struct {
	Run string `json:"run"`
	target
	Ack      string  `json:"ack"`
	Batch    int     `json:"batch"`
	Messages int64   `json:"messages"`
	Seconds  float64 `json:"seconds"`
	PerSec   float64 `json:"msgs_per_s"`
	MiBPerS  float64 `json:"mib_per_s"`
	Unacked  int     `json:"ack_pending_after"`
	interval
}

// ackPolicies: "all" acknowledges the last message of each fetch, which is
// the nearest that JetStream has to committing an offset.
var ackPolicies = map[string]jetstream.AckPolicy{
	"none":     jetstream.AckNonePolicy,
	"explicit": jetstream.AckExplicitPolicy,
	"all":      jetstream.AckAllPolicy,
}

// consume reads every stream from its beginning with one pull consumer each,
// shared by the connections of that stream, until all are read.
func consume(args []string) (any, error) {
	r := consumeResult{Run: "consume"}
	fs := flag.NewFlagSet("consume", flag.ExitOnError)
	r.register(fs)
	fs.StringVar(&r.Ack, "ack", "none", "none, explicit (each message) or all (last of each fetch)")
	fs.IntVar(&r.Batch, "batch", 500, "messages per fetch")
	limit := fs.Duration("limit", 2*time.Minute, "longest time to read for")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	policy, ok := ackPolicies[r.Ack]
	if !ok {
		return nil, fmt.Errorf("unknown -ack %q", r.Ack)
	}

	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	var readers []*reader
	defer func() {
		for _, rd := range readers {
			rd.nc.Close()
		}
	}()
	left := make([]atomic.Int64, r.Streams)
	for i := range r.Conns {
		rd, err := openReader(ctx, r.URL, i%r.Streams, policy)
		if err != nil {
			return nil, err
		}
		readers = append(readers, rd)
		left[rd.stream].Store(int64(rd.cons.CachedInfo().NumPending))
	}

	began := time.Now()
	var fetchers sync.WaitGroup
	var failures errorBox
	for _, rd := range readers {
		fetchers.Go(func() { failures.add(rd.read(ctx, r.Batch, policy, &left[rd.stream])) })
	}
	fetchers.Wait()
	r.Seconds, r.interval = time.Since(began).Seconds(), since(began)

	var bytes int64
	for _, rd := range readers {
		r.Messages += rd.messages
		bytes += rd.bytes
	}
	for i := range min(r.Streams, r.Conns) {
		unacked, err := readers[i].remove()
		failures.add(err)
		r.Unacked += unacked
	}
	r.PerSec = round(float64(r.Messages)/r.Seconds, 0)
	r.MiBPerS = round(float64(bytes)/r.Seconds/(1<<20), 1)
	r.Seconds = round(r.Seconds, 3)
	return r, failures.err()
}

// reader fetches from one stream over one connection.
type reader struct {
	nc              *nats.Conn
	js              jetstream.JetStream
	cons            jetstream.Consumer
	stream          int
	messages, bytes int64
}

const consumerName = "load"

func openReader(ctx context.Context, url string, stream int, policy jetstream.AckPolicy) (*reader, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	cons, err := js.CreateOrUpdateConsumer(ctx, streamName(stream), jetstream.ConsumerConfig{
		Durable:       consumerName,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     policy,
		AckWait:       time.Minute,
		MaxAckPending: -1,
	})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &reader{nc: nc, js: js, cons: cons, stream: stream}, nil
}

// read fetches until the stream has nothing left for any of its readers.
func (r *reader) read(ctx context.Context, batch int, policy jetstream.AckPolicy, left *atomic.Int64) error {
	for left.Load() > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		fetched, err := r.cons.Fetch(batch, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		var last jetstream.Msg
		var n int64
		for msg := range fetched.Messages() {
			n++
			r.bytes += int64(len(msg.Data()))
			last = msg
			if policy == jetstream.AckExplicitPolicy {
				if err := msg.Ack(); err != nil {
					return err
				}
			}
			if left.Add(-1) == 0 {
				break // the rest of this fetch would only wait
			}
		}
		r.messages += n
		if err := fetched.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			return err
		}
		if policy == jetstream.AckAllPolicy && last != nil {
			if err := last.Ack(); err != nil {
				return err
			}
		}
	}
	return r.nc.Flush()
}

// remove deletes the consumer and returns what it still waited to be acked.
func (r *reader) remove() (unacked int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := r.cons.Info(ctx)
	if err != nil {
		return 0, err
	}
	return info.NumAckPending, r.js.DeleteConsumer(ctx, streamName(r.stream), consumerName)
}
