package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/dataplane/policy"
)

// metrics are the node's Prometheus metrics. Label values are bounded: namespace
// ids exist only for namespaces, codes come from a fixed list.
type metrics struct {
	registry prometheus.Registerer
	role     string
	refusals *prometheus.CounterVec
	messages *prometheus.CounterVec
	bytes    *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, role string) *metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &metrics{
		registry: registry, role: role,
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_refused_total", Help: "Requests refused by policy or limits.", ConstLabels: prometheus.Labels{"role": role},
		}, []string{"code"}),
	}
	registry.MustRegister(m.refusals)
	if role == "broker" {
		m.messages = prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_broker_messages_out_total", Help: "Messages handed to consumers.",
		}, []string{"namespace"})
		m.bytes = prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_broker_bytes_out_total", Help: "Stored bytes of messages handed to consumers.",
		}, []string{"namespace"})
		registry.MustRegister(m.messages, m.bytes)
	}
	return m
}

func (m *metrics) refused(code string) { m.refusals.WithLabelValues(code).Inc() }

func (m *metrics) delivered(namespaceID string, records [][]byte) {
	n := 0
	for _, r := range records {
		n += len(r)
	}
	m.messages.WithLabelValues(namespaceID).Add(float64(len(records)))
	m.bytes.WithLabelValues(namespaceID).Add(float64(n))
}

func (m *metrics) policyRevision(e *policy.Engine) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_policy_revision", Help: "Revision of the policy in force.", ConstLabels: prometheus.Labels{"role": m.role},
	}, func() float64 { return float64(e.Revision()) }))
}
