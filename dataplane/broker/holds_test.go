package broker

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
)

// A message that thousands of pulls wait for is not read for all of them at
// once; every pull is answered, and another namespace does not wait in line.
func TestHolds_answersFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolds(100_000, 100_000)
		var now, most, answered atomic.Int32
		block := make(chan struct{})
		const n = 500
		for range n {
			ok := h.add(&hold{queue: queueKey{"ns%t", 0}, ns: "ns", places: 1, wake: func() {
				if v := now.Add(1); v > most.Load() {
					most.Store(v)
				}
				<-block
				now.Add(-1)
				answered.Add(1)
			}}, time.Hour)
			if !ok {
				t.Fatal("no room")
			}
		}
		other := false
		h.add(&hold{queue: queueKey{"other%t", 0}, ns: "other", places: 1, wake: func() { other = true }}, time.Hour)
		h.arrived(store.Arrival{Topic: "ns%t", QueueID: 0, NextOffset: 1})
		synctest.Wait()
		if got := now.Load(); got != maxWaking {
			t.Errorf("%d pulls are answered at once, want %d", got, maxWaking)
		}
		h.arrived(store.Arrival{Topic: "other%t", QueueID: 0, NextOffset: 1})
		synctest.Wait()
		if !other {
			t.Error("another namespace waits in line")
		}
		h.mu.Lock()
		if h.count != n-maxWaking || h.byNS["ns"] != n-maxWaking {
			t.Errorf("%d places are taken while %d wait in line", h.count, n-maxWaking)
		}
		h.mu.Unlock()
		close(block)
		synctest.Wait()
		h.close()
		if answered.Load() != n || most.Load() != maxWaking || h.count != 0 || len(h.byNS)+len(h.waking)+len(h.line) != 0 {
			t.Errorf("%d answered, at most %d at once; left: %d places, %v %v %v", answered.Load(), most.Load(), h.count, h.byNS, h.waking, h.line)
		}
	})
}
