package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What clients of one namespace say in heartbeats is bounded together, and
// takes nothing from another namespace; what ended gives its room back.
func TestMembers_oneNamespaceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		cfg := testConfig()
		cfg.MaxMemberBytes = 64 << 10
		e.open(cfg)
		e.putGroup("bbbbbbbb%g")
		e.run()
		flood := &Client{ID: "flood"}
		beat := func(c *Client, round int) error {
			var producers []string
			for i := range 1000 {
				producers = append(producers, fmt.Sprintf("aaaaaaaa%%p-%d-%d", round, i))
			}
			long := strings.Repeat("t", 100_000)
			return e.Heartbeat(c, producers, []Consumer{{Group: groupA, Subscriptions: []Subscription{{Topic: topicA, Expression: long}}}})
		}
		for round := range 5 {
			if err := beat(flood, round); CodeOf(err) != CodeBusy {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if n := len(e.members.producers); n > 64<<10/entryBytes {
			t.Errorf("%d producer groups were kept", n)
		}
		if _, ok := e.Members(groupA); ok {
			t.Error("the long subscription was kept")
		}
		if err := e.Heartbeat(&Client{ID: "b"}, []string{"bbbbbbbb%p"}, []Consumer{{Group: "bbbbbbbb%g"}}); err != nil {
			t.Errorf("the other namespace: %v", err)
		}
		good := &Client{ID: "good"}
		if err := e.Heartbeat(good, nil, []Consumer{{Group: groupA}}); CodeOf(err) != CodeBusy {
			t.Errorf("while it is full: %v", err)
		}
		e.Disconnect(flood)
		for range 3 { // again and again takes no more room
			if err := e.Heartbeat(good, []string{"aaaaaaaa%p"}, []Consumer{{Group: groupA}}); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		}
		e.Unregister(good, "aaaaaaaa%p", groupA)
		time.Sleep(3 * time.Minute) // the other namespace's client expires
		synctest.Wait()
		if len(e.members.used)+len(e.members.held)+len(e.members.producers)+len(e.members.consumers) != 0 {
			t.Errorf("left over: %v %v", e.members.used, e.members.held)
		}
	})
}

// One namespace cannot take all places for parked pulls and waiting receives,
// neither by their number nor by their size.
func TestParked_oneNamespaceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		cfg := testConfig()
		cfg.MaxParkedOfOne = 10
		e.open(cfg)
		e.putTopic("bbbbbbbb%orders", 1)
		e.putGroup("bbbbbbbb%g")
		park := func(ns string, retained int) (answered chan struct{}) {
			answered = make(chan struct{})
			p := Pull{Who: Caller{NamespaceID: ns}, Group: ns + "%g", Topic: ns + "%orders", Commit: -1, Hold: 15 * time.Second, Retained: retained}
			e.Pull(p, func(Pulled, error) { close(answered) })
			return answered
		}
		parked := func(answered chan struct{}) bool {
			synctest.Wait()
			select {
			case <-answered:
				return false
			default:
				return true
			}
		}
		if parked(park("aaaaaaaa", 1<<20)) {
			t.Error("a pull that keeps a megabyte was parked")
		}
		for i := range 10 {
			if !parked(park("aaaaaaaa", 100)) {
				t.Errorf("pull %d was not parked", i)
			}
		}
		if parked(park("aaaaaaaa", 100)) {
			t.Error("one more was parked")
		}
		if !parked(park("bbbbbbbb", 100)) {
			t.Error("the other namespace has no place")
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if len(e.holds.byNS) != 0 || e.holds.count != 0 {
			t.Errorf("left over: %v, %d", e.holds.byNS, e.holds.count)
		}

		receive := func(ns string) error {
			_, err := e.Receive(t.Context(), Receive{Who: Caller{NamespaceID: ns}, Group: ns + "%g", Topic: ns + "%orders", Invisible: time.Minute, Wait: 15 * time.Second})
			return err
		}
		large := sql(t, strings.TrimSuffix(strings.Repeat("a = 'x' OR ", 500), " OR "))
		if _, err := e.Receive(t.Context(), Receive{Who: Caller{NamespaceID: "aaaaaaaa"}, Group: "aaaaaaaa%g", Topic: "aaaaaaaa%orders", Invisible: time.Minute, Wait: 15 * time.Second, Filter: large}); CodeOf(err) != CodeTooManyPolls {
			t.Errorf("a receiver with a filter of %d bytes: %v", large.Bytes(), err)
		}
		errs := make(chan error, 11)
		for range 10 {
			go func() { errs <- receive("aaaaaaaa") }()
		}
		synctest.Wait()
		if err := receive("aaaaaaaa"); CodeOf(err) != CodeTooManyPolls {
			t.Errorf("one more receiver: %v", err)
		}
		if err := receive("bbbbbbbb"); err != nil {
			t.Errorf("the other namespace's receiver: %v", err)
		}
		for range 10 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if len(e.receives.byNS) != 0 {
			t.Errorf("left over: %v", e.receives.byNS)
		}
	})
}
