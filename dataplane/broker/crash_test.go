package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// TestReceive_powerCut cuts the power at random points of a history and checks
// the promise of the journal: what was stored durably and not acknowledged
// comes again; what was acknowledged before the journal's last sync does not.
func TestReceive_powerCut(t *testing.T) {
	for _, keep := range []float64{0, 0.5, 1} {
		for seed := range uint64(4) {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.NewMem(time.Now)
				e := &env{t: t, st: openStoreOn(t, disk), fs: disk}
				e.open(testConfig())
				e.putTopic(topicA, 2)
				e.putGroup(groupA)
				durable := map[string]bool{}
				for i := range 40 {
					m := msg(topicA, int32(i%2), fmt.Sprint(i))
					if _, err := e.st.Append(t.Context(), m, store.DurabilitySync); err != nil {
						t.Fatal(err)
					}
					durable[fmt.Sprint(i)] = true
				}
				e.readable(topicA, 0, 19)
				e.readable(topicA, 1, 19)
				acked, synced := map[string]bool{}, map[string]bool{}
				for i, r := range e.take(32, 10*time.Second) {
					if (i+int(seed))%3 != 0 {
						if err := e.Ack(groupA, topicA, r.Handle); err != nil {
							t.Fatal(err)
						}
						acked[bodyOf(t, r.Record)] = true
					}
					if i == 8+int(seed)*5 {
						if err := e.receives.journal.sync(); err != nil {
							t.Fatal(err)
						}
						for body := range acked {
							synced[body] = true
						}
					}
				}
				clone := disk.CrashClone(keep, seed)
				after := &env{t: t, st: openStoreOn(t, clone), fs: clone}
				after.open(testConfig())
				after.readable(topicA, 0, 19)
				after.readable(topicA, 1, 19)
				time.Sleep(11 * time.Second) // what was in flight becomes visible
				again := map[string]bool{}
				for {
					got := after.take(32, time.Hour)
					if len(got) == 0 {
						break
					}
					for _, r := range got {
						again[bodyOf(t, r.Record)] = true
					}
				}
				for body := range durable {
					if !acked[body] && !again[body] {
						t.Errorf("keep %v seed %d: message %s was lost", keep, seed, body)
					}
					if synced[body] && again[body] {
						t.Errorf("keep %v seed %d: message %s was acknowledged and synced, and came again", keep, seed, body)
					}
				}
			})
		}
	}
}
