// Package testcluster gives tests the whole system: in the test's own process,
// or as a process of the real binary that can be killed. Nothing in it is
// faked; each has a folder and free ports of its own.
package testcluster

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/standalone"
)

// Cluster is a standalone in the test's process.
type Cluster struct {
	standalone.Addresses
	Data string

	t       testing.TB
	options []Option
	stop    func()
}

// Option changes the settings of a Cluster before it starts.
type Option func(*standalone.Config, *standalone.Deps)

// WithConsole serves a console.
func WithConsole(files fs.FS) Option {
	return func(_ *standalone.Config, d *standalone.Deps) { d.Console = files }
}

// With changes settings.
func With(change func(*standalone.Config)) Option {
	return func(c *standalone.Config, _ *standalone.Deps) { change(c) }
}

// Start starts a Cluster; the test ends it.
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	c := &Cluster{Data: filepath.Join(t.TempDir(), "data"), t: t, options: options}
	c.start(options)
	t.Cleanup(c.Stop)
	return c
}

func (c *Cluster) start(options []Option) {
	c.t.Helper()
	cfg := standalone.Default()
	cfg.Data, cfg.ReadyFile = c.Data, filepath.Join(filepath.Dir(c.Data), "ready.json")
	cfg.HTTP, cfg.Admin, cfg.NameSrv, cfg.Broker, cfg.GRPC = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.CollectInterval = time.Second
	cfg.SegmentBytes = 64 << 20
	must := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.t.Fatal(err)
		}
	}
	must(os.Remove(cfg.ReadyFile))
	deps := standalone.Deps{Now: time.Now, Logger: slog.New(slog.NewTextHandler(logWriter{c.t}, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for _, o := range options {
		o(cfg, &deps)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := standalone.New(ctx, standalone.RoleAll, cfg, deps)
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c.Addresses = s.Addresses()
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("standalone ended with: %v", err)
		}
	}
	err = Eventually(ctx, 30*time.Second, func() (bool, error) {
		_, err := os.Stat(cfg.ReadyFile)
		return err == nil, err
	})
	if err != nil {
		c.t.Fatalf("standalone is not ready: %v", err)
	}
}

// Stop ends the cluster; an end that is not clean fails the test.
func (c *Cluster) Stop() { c.stop() }

// URL is the base of its HTTP API.
func (c *Cluster) URL() string { return "http://" + c.HTTP }

// SignUp makes a tenant.
func (c *Cluster) SignUp(email string) *Account {
	c.t.Helper()
	a, err := SignUp(context.Background(), c.URL(), filepath.Join(c.Data, "mail"), email, "Tenant of "+email)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// logWriter brings the log to the test's output.
type logWriter struct{ t testing.TB }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p))
	return len(p), nil
}

// Restart ends the cluster cleanly and starts it again on its folder and ports.
func (c *Cluster) Restart() {
	c.t.Helper()
	c.Stop()
	a := c.Addresses
	c.start(append(c.options, With(func(cfg *standalone.Config) {
		cfg.HTTP, cfg.Admin, cfg.NameSrv, cfg.Broker, cfg.GRPC = a.HTTP, a.Admin, a.NameSrv, a.Broker, a.GRPC
	})))
}
