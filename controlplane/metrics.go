package controlplane

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/controlplane/fleet"
	"github.com/sluicemq/sluice/controlplane/httpapi"
	"github.com/sluicemq/sluice/controlplane/jobs"
)

func registry(r prometheus.Registerer) prometheus.Registerer {
	if r == nil {
		return prometheus.NewRegistry()
	}
	return r
}

func httpMetrics(r prometheus.Registerer) httpapi.Observer {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_http_request_seconds", Help: "Time of HTTP requests by route of the contract.", Buckets: prometheus.DefBuckets,
	}, []string{"route", "status"})
	registry(r).MustRegister(h)
	return func(route string, status int, took time.Duration) {
		h.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
	}
}

// hashMetric counts password hashes, which cost more than all else in a
// sign-in.
func hashMetric(r prometheus.Registerer) func() {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_auth_password_hashes_total", Help: "Passwords that were hashed, for sign-ups, sign-ins and changes."})
	registry(r).MustRegister(c)
	return c.Inc
}

// completeMetric shows how old the usage is that is final, when asked.
func completeMetric(r prometheus.Registerer, completeThrough func(context.Context) (time.Time, error)) {
	registry(r).MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_usage_complete_through_seconds", Help: "Unix time before which all usage is final; 0 when it cannot be read.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		t, err := completeThrough(ctx)
		if err != nil {
			return 0
		}
		return float64(t.Unix())
	}))
}

func fleetMetrics(r prometheus.Registerer) func(fleet.Event) {
	drift := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_fleet_drift_total", Help: "Differences found on nodes and repaired."})
	quarantined := prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_fleet_quarantined_total", Help: "Unknown objects found on brokers and left alone."})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_fleet_failures_total", Help: "Calls to nodes that failed."}, []string{"node"})
	registry(r).MustRegister(drift, quarantined, failures)
	return func(e fleet.Event) {
		switch e.Kind {
		case fleet.EventDrift:
			drift.Inc()
		case fleet.EventQuarantine:
			quarantined.Inc()
		case fleet.EventFailure:
			failures.WithLabelValues(e.Node).Inc()
		case fleet.EventPolicy: // the node's own metric tells
		}
	}
}

func jobMetrics(r prometheus.Registerer) jobs.Observer {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_job_seconds", Help: "Time of cron jobs.", Buckets: prometheus.DefBuckets,
	}, []string{"job", "outcome"})
	registry(r).MustRegister(h)
	return func(job string, took time.Duration, err error) {
		outcome := "ok"
		if err != nil {
			outcome = "failed"
		}
		h.WithLabelValues(job, outcome).Observe(took.Seconds())
	}
}
