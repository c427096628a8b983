package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicemq/sluice/dataplane/broker"
)

// transactionMetrics shows the broker's counts of transactions.
type transactionMetrics struct{ b *broker.Broker }

var (
	openTransactions    = describe("sluice_broker_open_transactions", "Half messages whose producer has not decided yet.")
	givenUpTransactions = describe("sluice_broker_given_up_transactions", "Half messages that nobody is asked about any more; they can still be committed or rolled back.")
	endedTransactions   = prometheus.NewDesc("sluice_broker_transactions_total", "Transactions by their end: committed, rolled_back, given_up (asked too often), lost (deleted by retention while open).", []string{"end"}, nil)
	transactionChecks   = describe("sluice_broker_transaction_checks_total", "Questions to producers about their transactions.")
	unreachedChecks     = describe("sluice_broker_transaction_checks_unreached_total", "Those for which no producer of the group was there.")
)

// Describe implements prometheus.Collector.
func (m transactionMetrics) Describe(ch chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(m, ch)
}

// Collect implements prometheus.Collector.
func (m transactionMetrics) Collect(ch chan<- prometheus.Metric) {
	c := m.b.TransactionCounts()
	ch <- prometheus.MustNewConstMetric(openTransactions, prometheus.GaugeValue, float64(c.Open))
	ch <- prometheus.MustNewConstMetric(givenUpTransactions, prometheus.GaugeValue, float64(c.GivenUpNow))
	for end, n := range map[string]int64{"committed": c.Committed, "rolled_back": c.RolledBack, "given_up": c.GivenUp, "lost": c.Lost} {
		ch <- prometheus.MustNewConstMetric(endedTransactions, prometheus.CounterValue, float64(n), end)
	}
	ch <- prometheus.MustNewConstMetric(transactionChecks, prometheus.CounterValue, float64(c.Checks))
	ch <- prometheus.MustNewConstMetric(unreachedChecks, prometheus.CounterValue, float64(c.Unreached))
}
