package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// jetStreamPeer is a NATS server with one stream in files. It is loaded with the
// bare client, which leaves more of the machine to the server than the complete one.
type jetStreamPeer struct {
	kit
	sync bool
	port int
	cmd  *exec.Cmd
}

func (p *jetStreamPeer) Start(ctx context.Context, sync bool) (err error) {
	p.sync = sync
	if p.port, err = freePort(); err != nil {
		return err
	}
	_, err = p.launch(ctx)
	return err
}

// launch returns the time to the first message acknowledged.
func (p *jetStreamPeer) launch(ctx context.Context) (time.Duration, error) {
	every := "2m" // its default
	if p.sync {
		every = "always"
	}
	began := time.Now()
	p.cmd = exec.Command(filepath.Join(p.home, "server"), "-store", p.run, "-port", fmt.Sprint(p.port), "-sync", every)
	if err := p.cmd.Start(); err != nil {
		return 0, err
	}
	m, err := p.load(ctx, "ready", "-since", fmt.Sprint(began.UnixMilli()))
	return time.Duration(m.Millis * float64(time.Millisecond)), err
}

func (p *jetStreamPeer) load(ctx context.Context, command string, args ...string) (measured, error) {
	url := fmt.Sprintf("nats://127.0.0.1:%d", p.port)
	return load(ctx, p.PID(), filepath.Join(p.home, "load"), append([]string{command, "-url", url}, args...)...)
}

func (p *jetStreamPeer) PID() int { return p.cmd.Process.Pid }

func (p *jetStreamPeer) Folder() string { return p.run }

func (p *jetStreamPeer) Produce(ctx context.Context, s shape) (measured, error) {
	if s.batch > 1 {
		return measured{}, errors.New("JetStream's clients have no batches")
	}
	conns := min(connections, s.inFlight)
	args := []string{"-api", "core", "-conns", fmt.Sprint(conns), "-window", fmt.Sprint(s.inFlight / conns), "-warmup", "2s", "-duration", s.seconds.String()}
	if s.rate > 0 {
		return p.load(ctx, "latency", append(args, "-rate", fmt.Sprint(s.rate))...)
	}
	return p.load(ctx, "produce", args...)
}

func (p *jetStreamPeer) Consume(ctx context.Context, c consumption) (measured, error) {
	return p.load(ctx, "consume", "-ack", "none", "-conns", fmt.Sprint(c.readers))
}

func (p *jetStreamPeer) Restart(ctx context.Context, empty bool) (time.Duration, error) {
	if err := p.kill(); err != nil {
		return 0, err
	}
	if empty {
		if err := os.RemoveAll(p.run); err != nil {
			return 0, err
		}
	}
	return p.launch(ctx)
}

func (p *jetStreamPeer) kill() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = p.cmd.Wait() // killed
	return nil
}

func (p *jetStreamPeer) Stop() error { return errors.Join(p.kill(), os.RemoveAll(p.run)) }
