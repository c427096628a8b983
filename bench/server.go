package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// server is a message broker under load: ours or a peer. Its methods are called
// one at a time; Stop may be called whatever came before it.
type server interface {
	// Start starts it on an empty store, with every message synced before it is
	// acknowledged or with the files left to the system.
	Start(ctx context.Context, sync bool) error
	PID() int
	// Folder is where its store lies.
	Folder() string
	Produce(ctx context.Context, s shape) (measured, error)
	// Consume reads what Produce left in the store.
	Consume(ctx context.Context, c consumption) (measured, error)
	// Restart ends it as kill -9 does, empties its store if asked to, starts it,
	// and measures the time from then to the first message acknowledged.
	Restart(ctx context.Context, empty bool) (time.Duration, error)
	// Stop ends it and removes its store.
	Stop() error
}

// shape is a load of messages of 1 KiB.
type shape struct {
	inFlight int           // requests that wait for their acknowledgement
	batch    int           // messages of a request
	rate     int           // messages a second, on a schedule that waits for nobody; 0: as many as inFlight allows
	seconds  time.Duration // counted, after the server has warmed up
}

// consumption is a way to read what is stored.
type consumption struct {
	readers int           // of all of it each
	fetch   int           // bytes that a reader asks for at a time; 0: what is usual there
	full    bool          // with a complete client, where there is a choice
	once    bool          // from the first message to the last; else again and again
	seconds time.Duration // counted when not once
}

// Names of the servers, in the order in which they take their turns.
const (
	ours      = "ours"
	rocketMQ  = "rocketmq"
	jetStream = "jetstream"
	kafka     = "kafka"
	// rocketMQSigned is RocketMQ with its access control on, as ours always is. It
	// is a peer of no goal and measured when asked for.
	rocketMQSigned = "rocketmq-signed"
)

// kits are the folders of what each peer is started with; ours has none.
const kits = "bench/peers"

// broker makes a server by name; what a peer needs is set up the first time.
func (w *workplace) broker(ctx context.Context, name string) (server, error) {
	peer, _, signed := strings.Cut(name, "-")
	home, err := filepath.Abs(filepath.Join(".cache", "peers", peer))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(w.dir, name)
	generator, err := w.program(ctx, "rocketmq/load")
	if err != nil {
		return nil, err
	}
	profiles := w.profiles
	if profiles != "" {
		profiles = filepath.Join(profiles, w.row)
	}
	k := kit{dir: filepath.Join(kits, peer), home: home, run: dir, warm: w.warm}
	switch name {
	case ours:
		return &dataPlane{binary: w.binary, dir: dir, load: generator, profiles: profiles}, nil
	case rocketMQ, rocketMQSigned:
		return &rocketMQPeer{kit: k, load: generator, signed: signed}, w.setUp(ctx, k)
	case jetStream:
		return &jetStreamPeer{kit: k}, w.setUp(ctx, k)
	case kafka:
		return &kafkaPeer{kit: k}, w.setUp(ctx, k)
	}
	return nil, fmt.Errorf("no server is called %q: there are %s, %s, %s and %s beside ours", name, rocketMQ, rocketMQSigned, jetStream, kafka)
}

// program builds a load program that is a package of this module.
func (w *workplace) program(ctx context.Context, name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(w.dir, "bin", strings.ReplaceAll(name, "/", "-")))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, command(ctx, nil, "go", "build", "-o", path, "./"+filepath.Join(kits, name))
}

// setUp fetches and builds a peer, once a run.
func (w *workplace) setUp(ctx context.Context, k kit) error {
	if w.setup[k.dir] {
		return nil
	}
	if err := k.script(ctx, "setup.sh"); err != nil {
		return fmt.Errorf("set up %s: %w", k.dir, err)
	}
	w.setup[k.dir] = true
	return nil
}

// kit is the scripts of a peer.
type kit struct {
	dir  string        // of the scripts
	home string        // what setup.sh fetched and built
	run  string        // of one process: pid files, logs, store
	warm time.Duration // that a Java server needs
}

func (k *kit) script(ctx context.Context, name string, args ...string) error {
	return command(ctx, []string{"PEER_HOME=" + k.home}, filepath.Join(k.dir, name), args...)
}

// pid reads a pid file of the run folder.
func (k *kit) pid(name string) int {
	raw, err := os.ReadFile(filepath.Join(k.run, name+".pid"))
	if err != nil {
		return 0
	}
	var pid int
	_, _ = fmt.Sscan(string(raw), &pid) // 0 is no process
	return pid
}

// command runs a program; its output is part of the error when it fails. What
// it leaves running in the background may keep its output open.
func command(ctx context.Context, env []string, program string, args ...string) error {
	out, err := os.CreateTemp("", "sluice-bench-*.log")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(out.Close(), os.Remove(out.Name())) }()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w\n%s", program, err, said)
	}
	return nil
}

// freePort is a port of the loopback address that is free at the moment, with
// those at the offsets given.
func freePort(offsets ...int) (int, error) {
	for range 100 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := ln.Addr().(*net.TCPAddr).Port
		open := []net.Listener{ln}
		for _, o := range offsets {
			if also, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+o)); err == nil {
				open = append(open, also)
			}
		}
		for _, ln := range open {
			err = errors.Join(err, ln.Close())
		}
		if len(open) == 1+len(offsets) {
			return port, err
		}
	}
	return 0, errors.New("no free ports beside each other on 127.0.0.1")
}
