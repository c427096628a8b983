//go:build !race

package node

import "testing"

// What a message may cost the whole process in memory, client included, on its
// way from the wire to the log and its queue, and from there to the wire. The
// race detector makes pools forget, so it cannot count allocations.
func TestMessages_allocationBudget(t *testing.T) {
	for name, c := range map[string]struct {
		bench  func(*testing.B)
		budget int64 // objects per request
	}{
		"a send of one message": {BenchmarkSendPipelined, 12},
		"a send of 32 messages": {BenchmarkSendBatches, 40},
		"a pull of 32 messages": {BenchmarkPullPipelined, 28},
	} {
		r := testing.Benchmark(c.bench)
		if r.N == 0 {
			t.Fatalf("%s: the benchmark failed", name)
		}
		if got := r.AllocsPerOp(); got > c.budget {
			t.Errorf("%s: %d objects, budget %d", name, got, c.budget)
		}
	}
}
