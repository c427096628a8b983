package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/dataplane/broker"
)

// timerMetrics shows what waits for a time of its own. It has no labels of
// tenants: how much waits for each topic is told to those who ask for it.
type timerMetrics struct{ b *broker.Broker }

var (
	timersPending   = describe("sluice_timer_pending_messages", "Messages that wait for a time of their own.")
	timersNext      = describe("sluice_timer_next_due_seconds", "When there is something to do for them, in seconds since 1970; 0 when nothing waits.")
	timersDelivered = describe("sluice_timer_delivered_total", "Messages delivered at a time of their own.")
	timersLate      = describe("sluice_timer_late_total", "Of these, more than 100 ms behind their time.")
	timersRolled    = describe("sluice_timer_rolled_total", "Waiting messages that were written again since they wait long.")
	timersRetried   = describe("sluice_timer_retried_total", "Deliveries that failed and were tried again.")
	timersDropped   = prometheus.NewDesc("sluice_timer_dropped_total", "Messages that were not delivered: cancelled, known (delivered before a crash), topic (deleted), lost (their record is gone), refused, illegal.", []string{"reason"}, nil)
)

// Describe implements prometheus.Collector.
func (m timerMetrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m timerMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.b.TimerStats()
	next := 0.0
	if !s.NextDue.IsZero() {
		next = float64(s.NextDue.UnixMilli()) / 1000
	}
	ch <- prometheus.MustNewConstMetric(timersPending, prometheus.GaugeValue, float64(s.Pending))
	ch <- prometheus.MustNewConstMetric(timersNext, prometheus.GaugeValue, next)
	for _, c := range []struct {
		desc *prometheus.Desc
		n    int64
	}{{timersDelivered, s.Delivered}, {timersLate, s.Late}, {timersRolled, s.Rolled}, {timersRetried, s.Retried}} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.n))
	}
	for why, n := range s.Dropped {
		ch <- prometheus.MustNewConstMetric(timersDropped, prometheus.CounterValue, float64(n), why)
	}
}
