package node

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/meter"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// metrics are the node's Prometheus metrics. Label values are bounded: namespace
// ids exist only for namespaces, codes come from a fixed list.
type metrics struct {
	registry prometheus.Registerer
	role     string
	refusals *prometheus.CounterVec

	// Of a broker only.
	messagesIn, bytesIn   *prometheus.CounterVec
	messagesOut, bytesOut *prometheus.CounterVec
	last                  nsCounters // of stored, which one goroutine calls
}

// nsCounters are the counters of one namespace, which most records in a row
// share.
type nsCounters struct {
	namespace       string
	messages, bytes prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, role string) *metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &metrics{registry: registry, role: role, refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_refused_total", Help: "Requests refused by policy or limits.", ConstLabels: prometheus.Labels{"role": role},
	}, []string{"code"})}
	registry.MustRegister(m.refusals)
	if role != roleBroker {
		return m
	}
	byNamespace := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"namespace"})
		registry.MustRegister(c)
		return c
	}
	m.messagesIn = byNamespace("sluice_broker_messages_in_total", "Messages stored since the start, or since the last checkpoint of usage.")
	m.bytesIn = byNamespace("sluice_broker_bytes_in_total", "Stored bytes of these messages.")
	m.messagesOut = byNamespace("sluice_broker_messages_out_total", "Messages handed to consumers.")
	m.bytesOut = byNamespace("sluice_broker_bytes_out_total", "Stored bytes of messages handed to consumers.")
	return m
}

const (
	roleBroker  = "broker"
	roleNameSrv = "namesrv"
)

func (m *metrics) refused(code string) { m.refusals.WithLabelValues(code).Inc() }

// stored counts a record that a fold over the log sees.
func (m *metrics) stored(rec []byte) {
	f, err := message.Parse(rec)
	if err != nil {
		return
	}
	ns, ok := meter.SentIn(&f)
	if !ok {
		return
	}
	if ns != m.last.namespace || m.last.messages == nil {
		name := strings.Clone(ns)
		m.last = nsCounters{name, m.messagesIn.WithLabelValues(name), m.bytesIn.WithLabelValues(name)}
	}
	m.last.messages.Inc()
	m.last.bytes.Add(float64(len(rec)))
}

func (m *metrics) delivered(namespaceID string, records [][]byte) {
	n := 0
	for _, r := range records {
		n += len(r)
	}
	m.messagesOut.WithLabelValues(namespaceID).Add(float64(len(records)))
	m.bytesOut.WithLabelValues(namespaceID).Add(float64(n))
}

func (m *metrics) policyRevision(e *policy.Engine) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_policy_revision", Help: "Revision of the policy in force.", ConstLabels: prometheus.Labels{"role": m.role},
	}, func() float64 { return float64(e.Revision()) }))
}
