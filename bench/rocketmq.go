package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// remotingLoad is the load generator of RocketMQ's protocol on one broker; ours
// and RocketMQ's get the same requests.
type remotingLoad struct {
	program string
	pid     int
	broker  []string // its address, and how to sign
}

func (l *remotingLoad) run(ctx context.Context, command string, args ...string) (measured, error) {
	return load(ctx, l.pid, l.program, append(append([]string{command}, l.broker...), args...)...)
}

// connections that the generator spreads requests in flight over.
const connections = 4

func (l *remotingLoad) produce(ctx context.Context, s shape, warm time.Duration) (measured, error) {
	conns := min(connections, s.inFlight)
	args := []string{"-conns", fmt.Sprint(conns), "-window", fmt.Sprint(s.inFlight / conns), "-batch", fmt.Sprint(s.batch), "-warmup", warm.String(), "-duration", s.seconds.String()}
	if s.rate > 0 {
		args = append(args, "-rate", fmt.Sprint(s.rate))
	}
	return l.run(ctx, "produce", args...)
}

func (l *remotingLoad) consume(ctx context.Context, c consumption, warm time.Duration) (measured, error) {
	args := []string{"-readers", fmt.Sprint(c.readers), "-conns", fmt.Sprint(c.readers)}
	if !c.once {
		args = append(args, "-warmup", warm.String(), "-duration", c.seconds.String())
	}
	return l.run(ctx, "pull", args...)
}

// ready is the time from a moment to the first message acknowledged.
func (l *remotingLoad) ready(ctx context.Context, since time.Time) (time.Duration, error) {
	m, err := l.run(ctx, "ready", "-since", fmt.Sprint(since.UnixMilli()))
	return time.Duration(m.Millis * float64(time.Millisecond)), err
}

// rocketMQPeer is a RocketMQ broker with its name server. It checks no signatures
// unless that is switched on, as with its users.
type rocketMQPeer struct {
	kit
	load   string
	signed bool
	sync   bool
	port   int
	name   int // port of the name server
}

// The first user of a RocketMQ that checks signatures.
const (
	peerKey    = "peeradmin"
	peerSecret = "peersecret"
)

func (p *rocketMQPeer) args() []string {
	flush := "async"
	if p.sync {
		flush = "sync"
	}
	acl := "off"
	if p.signed {
		acl = "on"
	}
	return []string{"--acl", acl, "--access-key", peerKey, "--secret-key", peerSecret, "--run", p.run, "--flush", flush, "--broker-port", fmt.Sprint(p.port), "--namesrv-port", fmt.Sprint(p.name)}
}

func (p *rocketMQPeer) Start(ctx context.Context, sync bool) (err error) {
	p.sync = sync
	if p.port, err = freePort(-2, 1); err != nil {
		return err
	}
	if p.name, err = freePort(); err != nil {
		return err
	}
	return p.script(ctx, "start.sh", p.args()...)
}

func (p *rocketMQPeer) PID() int { return p.pid("broker") }

func (p *rocketMQPeer) Folder() string { return filepath.Join(p.run, "store") }

func (p *rocketMQPeer) generator() *remotingLoad {
	broker := []string{"-broker", fmt.Sprint("127.0.0.1:", p.port)}
	if p.signed {
		broker = append(broker, "-access-key", peerKey, "-secret-key", peerSecret)
	}
	return &remotingLoad{p.load, p.PID(), broker}
}

func (p *rocketMQPeer) Produce(ctx context.Context, s shape) (measured, error) {
	return p.generator().produce(ctx, s, p.warm)
}

func (p *rocketMQPeer) Consume(ctx context.Context, c consumption) (measured, error) {
	return p.generator().consume(ctx, c, p.warm/2)
}

func (p *rocketMQPeer) Restart(ctx context.Context, empty bool) (took time.Duration, err error) {
	if err := p.script(ctx, "stop.sh", "--run", p.run, "--signal", "KILL", "broker"); err != nil {
		return 0, err
	}
	if empty {
		if err := os.RemoveAll(p.Folder()); err != nil {
			return 0, err
		}
	}
	began, started := time.Now(), make(chan error, 1)
	go func() { started <- p.script(ctx, "start.sh", append(p.args(), "--only", "broker")...) }()
	took, err = p.generator().ready(ctx, began)
	return took, errors.Join(err, <-started)
}

func (p *rocketMQPeer) Stop() error {
	err := p.script(context.Background(), "stop.sh", "--run", p.run, "--signal", "KILL")
	return errors.Join(err, os.RemoveAll(p.run))
}
