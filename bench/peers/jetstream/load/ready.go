package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type readyResult struct {
	Run      string  `json:"run"`
	Messages uint64  `json:"messages"` // in the stream when it was opened
	MS       float64 `json:"ms"`
}

// ready tries until a message is acknowledged, and tells how long after -since
// that was.
func ready(args []string) (any, error) {
	r := readyResult{Run: "ready"}
	fs := flag.NewFlagSet("ready", flag.ExitOnError)
	url := fs.String("url", nats.DefaultURL, "server URL")
	from := fs.Int64("since", time.Now().UnixMilli(), "Unix time in milliseconds to count from")
	limit := fs.Duration("timeout", time.Minute, "give up after this time")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	nc, err := connectWhenUp(ctx, *url)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	ack, err := firstAck(ctx, js)
	if err != nil {
		return nil, err
	}
	r.MS, r.Messages = round(float64(time.Since(time.UnixMilli(*from)))/1e6, 1), ack.Sequence-1
	return r, nil
}

func connectWhenUp(ctx context.Context, url string) (*nats.Conn, error) {
	for {
		nc, err := nats.Connect(url)
		if err == nil {
			return nc, nil
		}
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		time.Sleep(time.Millisecond)
	}
}

// firstAck publishes one message, creating the stream if there is none, and
// asks again while JetStream is not up.
func firstAck(ctx context.Context, js jetstream.JetStream) (*jetstream.PubAck, error) {
	name := streamName(0)
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		ack, err := js.Publish(try, name, make([]byte, 1024), jetstream.WithRetryAttempts(0))
		if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
			_, err = js.CreateStream(try, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage})
		}
		cancel()
		if err == nil && ack != nil {
			return ack, nil
		}
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}
