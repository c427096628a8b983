package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// Statement 48: a sender that does not wait is not made to.
func TestDurability_ofWait(t *testing.T) {
	for wait, want := range map[string]store.Durability{"false": store.DurabilityAsync, "true": store.DurabilityDefault, "": store.DurabilityDefault} {
		m := msg(topicA, 0, "x", message.KeyWait, wait)
		if wait == "" {
			m = msg(topicA, 0, "x")
		}
		if got := durability(m); got != want {
			t.Errorf("WAIT %q: %v, want %v", wait, got, want)
		}
	}
}

// Statement 51: a delayed message waits in the queue of its level less one, and
// the copy that is delivered still says where it was.
func TestSchedule_copyKeepsItsProperties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run()
		s := e.send(msg(topicA, 0, "x"))
		own := func(string) bool { return true }
		if err := e.SendBack(t.Context(), SendBack{Group: groupA, Offset: s.PhysicalOffset, DelayLevel: 3, MaxReconsume: -1, Allowed: own}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		out := e.pull(Pull{Group: groupA, Topic: RetryTopic(groupA)})
		if len(out.Records) != 1 {
			t.Fatalf("delivered: %+v", out)
		}
		if _, next := e.store.QueueOffsets(ScheduleTopic, 2); next != 1 {
			t.Errorf("queue 2 of the schedule topic has %d messages", next)
		}
		m, err := message.Decode(out.Records[0])
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{message.KeyDelay: "3", message.KeyRealTopic: RetryTopic(groupA), message.KeyRealQueueID: "0"} {
			if got, _ := m.Property(key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	})
}
