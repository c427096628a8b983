package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// kafkaPeer is one Kafka process, broker and controller. One message a request
// goes to it over as many connections as it has threads, since it takes one
// request of a connection at a time.
type kafkaPeer struct {
	kit
	sync       bool
	port       int
	controller int
	partitions int // that Produce has filled
}

func (p *kafkaPeer) Start(ctx context.Context, sync bool) (err error) {
	p.sync = sync
	if p.port, err = freePort(); err != nil {
		return err
	}
	if p.controller, err = freePort(); err != nil {
		return err
	}
	return p.script(ctx, "start.sh", "--run", p.run, "--port", fmt.Sprint(p.port), "--controller-port", fmt.Sprint(p.controller))
}

func (p *kafkaPeer) PID() int { return p.pid("kafka") }

func (p *kafkaPeer) Folder() string { return filepath.Join(p.run, "store") }

func (p *kafkaPeer) load(ctx context.Context, command string, args ...string) (measured, error) {
	addr := fmt.Sprint("127.0.0.1:", p.port)
	return load(ctx, p.PID(), filepath.Join(p.home, "load"), append([]string{command, "-addr", addr, "-partitions", fmt.Sprint(p.partitions)}, args...)...)
}

func (p *kafkaPeer) Produce(ctx context.Context, s shape) (measured, error) {
	if s.rate > 0 {
		return measured{}, errors.New("the load program of Kafka has no schedule")
	}
	args := []string{"-warmup", p.warm.String(), "-duration", s.seconds.String(), "-acks", "1"}
	if p.sync {
		args = append(args, "-flush-messages", "1")
	}
	p.partitions = 8
	switch {
	case s.batch > 1: // a complete client that fills batches as large as these
		p.partitions = 2
		args = append(args, "-conns", "2", "-window", "16384", "-batch", fmt.Sprint(s.batch*(1024+16)), "-linger", "5ms")
	case s.inFlight <= 64: // each connection waits for its message
		args = append(args, "-api", "raw", "-conns", fmt.Sprint(s.inFlight), "-window", "1")
	case p.sync:
		args = append(args, "-api", "raw", "-conns", "64", "-window", fmt.Sprint(s.inFlight/64))
	default:
		args = append(args, "-api", "raw", "-conns", "8", "-window", fmt.Sprint(s.inFlight/8))
	}
	return p.load(ctx, "produce", args...)
}

func (p *kafkaPeer) Consume(ctx context.Context, c consumption) (measured, error) {
	args := []string{"-conns", fmt.Sprint(p.partitions * c.readers), "-duration", c.seconds.String(), "-warmup", (p.warm / 2).String()}
	if !c.full {
		args = append(args, "-api", "raw")
	}
	if c.fetch > 0 {
		args = append(args, "-fetch", fmt.Sprint(c.fetch))
	}
	return p.load(ctx, "consume", args...)
}

func (p *kafkaPeer) Restart(context.Context, bool) (time.Duration, error) {
	return 0, errors.New("no row measures the start of Kafka")
}

func (p *kafkaPeer) Stop() error {
	err := p.script(context.Background(), "stop.sh", "--run", p.run, "--signal", "KILL")
	return errors.Join(err, os.RemoveAll(p.run))
}
