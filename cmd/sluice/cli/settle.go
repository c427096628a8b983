package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
)

const (
	longestWait = 60 * time.Second // that one request may ask for
	pollEvery   = time.Second
)

func (a *app) dry() *bool {
	if !a.dryRun {
		return nil
	}
	return ptr(true)
}

// waitParam is the part of --wait that the request itself waits.
func (a *app) waitParam() *string {
	if a.wait <= 0 || a.dryRun {
		return nil
	}
	return ptr(fmt.Sprintf("%ds", int(min(a.wait, longestWait).Round(time.Second)/time.Second)))
}

// settle keeps --wait: it asks again until brokers have the change, and fails
// when they refuse it or the time is over.
func (a *app) settle(ctx context.Context, started time.Time, what string, status api.ResourceStatus, read func(context.Context) (api.ResourceStatus, error)) error {
	if a.wait <= 0 || a.dryRun {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, a.wait-a.Now().Sub(started))
	defer cancel()
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	for {
		switch status.Phase {
		case api.Ready:
			return nil
		case api.Failed:
			return &Error{Exit: exitFailed, What: what + " was kept, but brokers could not take it", Why: deref(status.Reason)}
		}
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return doing("wait for "+what, ctx.Err())
			}
			return &Error{Exit: exitTimedOut, What: fmt.Sprintf("%s is not ready after %s", what, a.wait), Why: deref(status.Reason),
				Fix: "The change is kept; look again later, or wait longer with --wait=5m."}
		case <-timer.C:
			timer.Reset(pollEvery)
		}
		latest, err := read(waiting)
		if err != nil && waiting.Err() == nil {
			return doing("wait for "+what, err)
		}
		if err == nil {
			status = latest
		}
	}
}
