package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/internal/testcluster"
)

const (
	bareTopic  = "load" // the group's name, too
	bareQueues = 8
)

// dataPlane is a bare data plane of ours: requests are signed, as those of all
// users are, and have no limits.
type dataPlane struct {
	binary string
	dir    string
	load   string // the load generator

	profiles string // folder for a processor profile of each load; "": none
	profiled int    // loads so far

	*testcluster.DataPlane // nil before Start
}

// Start implements server.
func (p *dataPlane) Start(ctx context.Context, sync bool) (err error) {
	var env []string
	if sync {
		env = append(env, "SLUICE_STORE_FLUSH=sync")
	}
	if p.DataPlane, err = testcluster.StartDataPlane(ctx, p.binary, p.dir, env...); err != nil {
		return err
	}
	return p.prepare(ctx)
}

// prepare makes the topic and the group.
func (p *dataPlane) prepare(ctx context.Context) error {
	return p.Prepare(ctx, bareTopic, bareQueues)
}

// PID implements server.
func (p *dataPlane) PID() int { return p.Broker.PID }

// Folder implements server.
func (p *dataPlane) Folder() string { return p.path("store") }

func (p *dataPlane) generator() *remotingLoad {
	return &remotingLoad{p.load, p.PID(), []string{"-broker", p.Broker.Broker, "-access-key", testcluster.BareKey, "-secret-key", testcluster.BareSecret, "-create=false"}}
}

// warm is long enough for caches to fill; nothing is compiled on the way.
const warm = 2 * time.Second

// Produce implements server.
func (p *dataPlane) Produce(ctx context.Context, s shape) (measured, error) {
	return p.profile(ctx, "produce", s.seconds, func() (measured, error) { return p.generator().produce(ctx, s, warm) })
}

// Consume implements server.
func (p *dataPlane) Consume(ctx context.Context, c consumption) (measured, error) {
	return p.profile(ctx, "consume", c.seconds, func() (measured, error) { return p.generator().consume(ctx, c, warm) })
}

// profile keeps a processor profile of the counted time of a load, for a row that
// is not met to say where the time goes.
func (p *dataPlane) profile(ctx context.Context, name string, seconds time.Duration, run func() (measured, error)) (m measured, err error) {
	if p.profiles == "" || seconds < time.Second {
		return run()
	}
	p.profiled++
	kept := make(chan error, 1)
	go func() {
		kept <- p.keepProfile(ctx, filepath.Join(p.profiles, fmt.Sprintf("%s-%d.pprof", name, p.profiled)), seconds)
	}()
	m, err = run()
	return m, errors.Join(err, <-kept)
}

func (p *dataPlane) keepProfile(ctx context.Context, path string, seconds time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(warm):
	}
	token, err := os.ReadFile(filepath.Join(p.Broker.Data, "operator.token"))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.Broker.Admin, int(seconds/time.Second)), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(p.profiles, 0o755), os.WriteFile(path, raw, 0o644))
}

// Restart implements server. Of an empty store's first message its topic is a part.
func (p *dataPlane) Restart(ctx context.Context, empty bool) (took time.Duration, err error) {
	if err := p.Broker.Kill(); err != nil {
		return 0, err
	}
	if empty {
		for _, name := range []string{"store", "meter", "core"} {
			if err := os.RemoveAll(p.path(name)); err != nil {
				return 0, err
			}
		}
	}
	began := time.Now()
	var both errgroup.Group
	both.Go(func() error { return p.Broker.Start(ctx) })
	both.Go(func() error {
		if empty {
			fine := func(err error) bool { return err == nil }
			if _, err := until(ctx, func() error { return p.prepare(ctx) }, fine); err != nil {
				return err
			}
		}
		took, err = p.generator().ready(ctx, began)
		return err
	})
	return took, both.Wait()
}

// path is a folder of the broker's data.
func (p *dataPlane) path(name string) string { return filepath.Join(p.dir, "broker", "broker", name) }

// Stop implements server.
func (p *dataPlane) Stop() error {
	var err error
	if p.DataPlane != nil {
		err = p.Close()
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// serve runs a bare data plane until ctx ends, and says how to load it and where
// its profile is.
func serve(ctx context.Context, out io.Writer, binary, dir string) (err error) {
	p := &dataPlane{binary: binary, dir: dir}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := p.Start(ctx, os.Getenv("SLUICE_STORE_FLUSH") == "sync"); err != nil {
		return err
	}
	for _, word := range p.generator().broker {
		fmt.Fprint(out, word, " ")
	}
	fmt.Fprintf(out, "\npid %d\nprofile: http://%s/debug/pprof/profile?seconds=10 with the token of %s\n", p.PID(), p.Broker.Admin, filepath.Join(p.Broker.Data, "operator.token"))
	<-ctx.Done()
	return nil
}
