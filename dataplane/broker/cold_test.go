package broker

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
)

// heldStore tells a group a few times that it reads too much that is far behind.
type heldStore struct {
	Store
	left atomic.Int32
	from int64 // offset
}

func (s *heldStore) Read(topic string, queue int32, offset int64, o store.ReadOptions) (store.Batch, error) {
	if o.Group == groupA && offset >= s.from && s.left.Add(-1) >= 0 {
		return store.Batch{Status: store.ReadLater, Next: offset, Max: 3, Wait: time.Millisecond}, nil
	}
	return s.Store.Read(topic, queue, offset, o)
}

// Who is told to read later waits, and then gets what he asked for.
func TestPull_waitsForTheColdBudget(t *testing.T) {
	e := newEnv(t)
	e.sendN(3)
	held := &heldStore{Store: e.st}
	e.st = held
	e.restart()
	for name, f := range map[string]string{"all": "*", "SQL": "TAGS IS NULL"} {
		kind := "TAG"
		if name == "SQL" {
			kind = "SQL92"
		}
		filter, err := ParseFilter(kind, f)
		if err != nil {
			t.Fatal(err)
		}
		held.left.Store(3)
		done := make(chan Pulled, 1)
		e.Pull(Pull{Who: caller, Group: groupA, Topic: topicA, Commit: -1, Hold: 10 * time.Second, Filter: filter}, func(out Pulled, err error) {
			if err != nil {
				t.Error(err)
			}
			done <- out
		})
		if out := <-done; out.Status != PullFound || len(out.Records) != 3 || held.left.Load() >= 0 {
			t.Errorf("%s: status %d, %d records, %d times left", name, out.Status, len(out.Records), held.left.Load())
		}
	}
	held.left.Store(1 << 20)
	done := make(chan Pulled, 1)
	e.Pull(Pull{Who: caller, Group: groupA, Topic: topicA, Commit: -1, Hold: 20 * time.Millisecond}, func(out Pulled, err error) {
		if err != nil {
			t.Error(err)
		}
		done <- out
	})
	if out := <-done; out.Status != PullNone || out.Next != 0 {
		t.Errorf("over the hold: status %d, next %d", out.Status, out.Next)
	}
}

// A search for messages that a filter takes does not begin again where the budget
// ended it.
func TestPull_keepsWhatTheFilterWentOver(t *testing.T) {
	e := newEnv(t)
	e.sendN(3)
	held := &heldStore{Store: e.st, from: 2}
	e.st = held
	e.restart()
	held.left.Store(1 << 20)
	filter, err := ParseFilter("SQL92", "colour = 'red'")
	if err != nil {
		t.Fatal(err)
	}
	e.Pull(Pull{Who: caller, Group: groupA, Topic: topicA, Commit: -1, MaxMessages: 1, Filter: filter}, func(out Pulled, err error) {
		if err != nil || out.Status != PullSkipped || out.Next != 2 {
			t.Errorf("status %d, next %d, %v; want %d, 2", out.Status, out.Next, err, PullSkipped)
		}
	})
}

func TestReceive_waitsForTheColdBudget(t *testing.T) {
	e := newEnv(t)
	e.sendN(3)
	held := &heldStore{Store: e.st}
	e.st = held
	e.restart()
	held.left.Store(5)
	out, err := e.Receive(t.Context(), Receive{Who: caller, Group: groupA, Topic: topicA, Invisible: time.Minute, Wait: 10 * time.Second})
	if err != nil || len(out) != 3 || held.left.Load() >= 0 {
		t.Errorf("%d messages, %v, %d times left", len(out), err, held.left.Load())
	}
}
