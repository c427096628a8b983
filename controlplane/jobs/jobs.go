// Package jobs is the cron table of the control plane: name, schedule,
// function. It has no logic of its own: each function is a claim on rows that
// are due, so that running it late, twice, or on two replicas does no harm.
package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// Job is one line of the table.
type Job struct {
	Name     string
	Schedule string // as robfig/cron reads it, seconds allowed: "@every 10s", "0 3 * * *"
	Timeout  time.Duration
	Run      func(ctx context.Context) error
	AtStart  bool // run once before the first tick
}

// Observer is told how each run went; nil err means well.
type Observer func(job string, took time.Duration, err error)

// Table is a set of jobs. Run runs it.
type Table struct {
	jobs    []Job
	specs   []cron.Schedule
	log     *slog.Logger
	observe Observer
}

var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// New checks the table. A schedule that cannot be read, or a name that occurs
// twice, is an error.
func New(list []Job, log *slog.Logger, observe Observer) (*Table, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if observe == nil {
		observe = func(string, time.Duration, error) {}
	}
	t := &Table{jobs: list, log: log, observe: observe}
	seen := map[string]bool{}
	for _, j := range list {
		if seen[j.Name] || j.Name == "" {
			return nil, fmt.Errorf("job %q: the name is empty or occurs twice", j.Name)
		}
		seen[j.Name] = true
		spec, err := parser.Parse(j.Schedule)
		if err != nil {
			return nil, fmt.Errorf("job %s: schedule %q: %w", j.Name, j.Schedule, err)
		}
		t.specs = append(t.specs, spec)
	}
	return t, nil
}

// Run runs the jobs until ctx ends, and returns once all of them have
// stopped. A job that still runs when its next turn comes misses that turn.
func (t *Table) Run(ctx context.Context) error {
	c := cron.New(cron.WithParser(parser), cron.WithLocation(time.UTC))
	var starting sync.WaitGroup
	for i, j := range t.jobs {
		once := cron.NewChain(cron.SkipIfStillRunning(cron.DiscardLogger)).Then(cron.FuncJob(func() { t.once(ctx, j) }))
		c.Schedule(t.specs[i], once)
		if j.AtStart {
			starting.Go(once.Run)
		}
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	starting.Wait()
	return nil
}

func (t *Table) once(ctx context.Context, j Job) {
	if ctx.Err() != nil {
		return
	}
	timeout := j.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	run, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	begin := time.Now()
	err := safely(run, j.Run)
	took := time.Since(begin)
	t.observe(j.Name, took, err)
	if err != nil && ctx.Err() == nil {
		t.log.Error("job failed", "job", j.Name, "took", took, "err", err)
	}
}

// safely turns a panic into an error: one broken job must not stop the rest.
func safely(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return run(ctx)
}
