package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun_ticksSurvivesFailuresAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, failures := map[string]int{}, 0
		table, err := New([]Job{
			{Name: "good", Schedule: "@every 10s", AtStart: true, Run: func(context.Context) error { runs["good"]++; return nil }},
			{Name: "bad", Schedule: "@every 10s", Run: func(context.Context) error { runs["bad"]++; return errors.New("no") }},
		}, nil, func(_ string, _ time.Duration, err error) {
			if err != nil {
				failures++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- table.Run(ctx) }()
		time.Sleep(35 * time.Second) // the clock of the bubble
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if runs["good"] != 4 || runs["bad"] != 3 || failures != 3 {
			t.Errorf("runs %v, failures %d", runs, failures)
		}
	})
}

func TestOnce_panicIsAnError(t *testing.T) {
	var got error
	table, err := New([]Job{{Name: "p", Schedule: "@every 1h", Run: func(context.Context) error { panic("boom") }}}, nil, func(_ string, _ time.Duration, err error) { got = err })
	if err != nil {
		t.Fatal(err)
	}
	table.once(t.Context(), table.jobs[0])
	if got == nil {
		t.Error("the panic was lost")
	}
}

func TestNew_refusesBadTables(t *testing.T) {
	ok := func(context.Context) error { return nil }
	for name, list := range map[string][]Job{
		"twice":    {{Name: "a", Schedule: "@every 1s", Run: ok}, {Name: "a", Schedule: "@every 1s", Run: ok}},
		"no name":  {{Schedule: "@every 1s", Run: ok}},
		"schedule": {{Name: "a", Schedule: "sometimes", Run: ok}},
	} {
		if _, err := New(list, nil, nil); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	p := Purges{RotateKeys: ok, Tokens: ok, Erase: ok, Reseal: ok, Fingerprints: ok, Idempotency: ok, Auth: func(context.Context, time.Time) error { return nil }, Outbox: func(context.Context, time.Duration) error { return nil }, Now: time.Now}
	if _, err := New(Control(p), nil, nil); err != nil {
		t.Error(err)
	}
}
