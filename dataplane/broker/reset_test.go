package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/store"
)

func targets(queues []ResetQueue) string {
	var out []string
	for _, q := range queues {
		out = append(out, fmt.Sprintf("%d:%d>%d", q.QueueID, q.From, q.To))
	}
	return fmt.Sprint(out)
}

// Offline, in both directions, by time, offset, earliest and latest; the result
// is what the preview said.
func TestReset_offlineGroup_B116_B120(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var at [10]int64
		for i := range 10 {
			at[i] = e.now().UnixMilli()
			e.send(msg(topicA, 0, fmt.Sprint(i)))
			time.Sleep(time.Second) // of the test's own time
		}
		if err := e.CommitOffset(groupA, topicA, 0, 4); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			r    Reset
			want string
		}{
			{Reset{QueueID: -1, Offset: -1, Time: at[7]}, "[0:4>7 1:-1>0]"},
			{Reset{QueueID: -1, Offset: -1, Time: at[5] + 1}, "[0:7>6 1:0>0]"},
			{Reset{QueueID: -1, Offset: -1, Time: 0}, "[0:6>0 1:0>0]"},
			{Reset{QueueID: -1, Offset: -1, Time: -1}, "[0:0>10 1:0>0]"},
			{Reset{QueueID: 0, Offset: 3}, "[0:10>3]"},
			{Reset{QueueID: 0, Offset: 0, Time: 0}, "[0:3>0]"},
			{Reset{QueueID: -1, Offset: -1, Time: e.now().UnixMilli() + 1_000_000}, "[0:0>10 1:0>0]"},
		} {
			c.r.Group, c.r.Topic = groupA, topicA
			preview, err := e.PreviewReset(c.r)
			if err != nil || targets(preview) != c.want {
				t.Errorf("preview of %+v: %s, %v, want %s", c.r, targets(preview), err, c.want)
			}
			done, err := e.ResetOffsets(c.r)
			if err != nil || targets(done) != c.want {
				t.Errorf("%+v: %s, %v, want %s", c.r, targets(done), err, c.want)
			}
			if got, _, _ := e.Offset(groupA, topicA, 0, true); got != done[0].To {
				t.Errorf("%+v: offset is %d", c.r, got)
			}
		}
		for name, r := range map[string]Reset{
			"group":                 {Group: "aaaaaaaa%no", Topic: topicA, QueueID: -1, Offset: -1},
			"topic":                 {Group: groupA, Topic: "aaaaaaaa%no", QueueID: -1, Offset: -1},
			"queue":                 {Group: groupA, Topic: topicA, QueueID: 2, Offset: 0},
			"beyond":                {Group: groupA, Topic: topicA, QueueID: 0, Offset: 11},
			"offset for all queues": {Group: groupA, Topic: topicA, QueueID: -1, Offset: 5},
		} {
			if _, err := e.ResetOffsets(r); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
	})
}

// A queue without data left is at its end: no lag.
func TestReset_emptiedQueue_B118(t *testing.T) {
	e := newEnv(t)
	if _, err := e.ResetOffsets(Reset{Group: groupA, Topic: topicA, QueueID: -1, Offset: -1, Time: 5}); err != nil {
		t.Fatal(err)
	}
	stats, err := e.GroupStats(groupA, topicA)
	if err != nil || len(stats) != 2 || stats[0].Max != stats[0].Offset {
		t.Errorf("%+v, %v", stats, err)
	}
}

// A parked pull hears at once; what its consumer commits before that is from
// before, and does not count.
func TestReset_pullingMembers_B121(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.sendN(10)
		c := &Client{ID: "c", Protocol: ProtocolRemoting}
		if err := e.Heartbeat(c, nil, []Consumer{{Group: groupA, Subscriptions: []Subscription{{Topic: topicA, Expression: "*"}}}}); err != nil {
			t.Fatal(err)
		}
		answers := make(chan pulled, 1)
		e.Pull(Pull{Group: groupA, Topic: topicA, Offset: 10, Commit: 10, Hold: time.Minute}, func(out Pulled, err error) { answers <- pulled{out, err} })
		synctest.Wait()
		for range 5 { // in a row is one
			if _, err := e.ResetOffsets(Reset{Group: groupA, Topic: topicA, QueueID: -1, Offset: -1, Time: 0}); err != nil {
				t.Fatal(err)
			}
		}
		if a := <-answers; a.Status != PullOffsetMoved || a.Next != 0 {
			t.Errorf("the parked pull: %+v", a)
		}
		// The next reset: the commit comes before the pull.
		if _, err := e.ResetOffsets(Reset{Group: groupA, Topic: topicA, QueueID: 0, Offset: 3}); err != nil {
			t.Fatal(err)
		}
		if err := e.CommitOffset(groupA, topicA, 0, 9); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := e.Offset(groupA, topicA, 0, true); got != 3 {
			t.Errorf("a late commit moved the group to %d", got)
		}
		if out := e.pull(Pull{Group: groupA, Topic: topicA, Offset: 9, Commit: 9}); out.Status != PullOffsetMoved || out.Next != 3 {
			t.Errorf("the next pull: %+v", out)
		}
		out := e.pull(Pull{Group: groupA, Topic: topicA, Offset: 3, Commit: -1})
		if out.Status != PullFound || len(out.Records) != 7 {
			t.Errorf("after that: %+v", out)
		}
		out.Release()
		if err := e.CommitOffset(groupA, topicA, 0, 8); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := e.Offset(groupA, topicA, 0, true); got != 8 {
			t.Errorf("later commits count: %d", got)
		}
	})
}

// A consumer with much to do does not pull for a long time, and commits: the reset
// waits for it, and no longer than for one that is gone.
func TestReset_waitsForAConsumerThatIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.sendN(10)
		c := &Client{ID: "c", Protocol: ProtocolRemoting}
		if err := e.Heartbeat(c, nil, []Consumer{{Group: groupA, Subscriptions: []Subscription{{Topic: topicA, Expression: "*"}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.ResetOffsets(Reset{Group: groupA, Topic: topicA, QueueID: 0, Offset: 10}); err != nil {
			t.Fatal(err)
		}
		commit := func(offset, want int64) {
			t.Helper()
			if err := e.CommitOffset(groupA, topicA, 0, offset); err != nil {
				t.Fatal(err)
			}
			if got, _, _ := e.Offset(groupA, topicA, 0, true); got != want {
				t.Errorf("after a commit of %d the group is at %d, want %d", offset, got, want)
			}
		}
		for i := range int64(60) {
			time.Sleep(5 * time.Second)
			commit(i/10, 10)
		}
		if out := e.pull(Pull{Group: groupA, Topic: topicA, Offset: 6, Commit: 6}); out.Status != PullOffsetMoved || out.Next != 10 {
			t.Errorf("the next pull: %+v", out)
		}
		if _, err := e.ResetOffsets(Reset{Group: groupA, Topic: topicA, QueueID: 0, Offset: 2}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(resetTime + time.Second)
		commit(7, 7)
	})
}

// Messages in flight do not count any more, and their acknowledgements do not
// move the group back; also to the very place where it stands.
func TestReset_receivingMembers_B119(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.sendN(10)
		first := e.take(5, time.Hour)
		if len(first) != 5 {
			t.Fatalf("received %d", len(first))
		}
		for _, r := range first[1:] { // 0 stays in flight: the group's offset is 0
			if err := e.Ack(groupA, topicA, r.Handle); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.ResetOffsets(Reset{Group: groupA, Topic: topicA, QueueID: 0, Offset: 0}); err != nil {
			t.Fatal(err)
		}
		if err := e.Ack(groupA, topicA, first[0].Handle); CodeOf(err) != CodeBadReceipt {
			t.Errorf("an acknowledgement from before: %v", err)
		}
		if got := bodies(t, e.take(32, time.Hour)); len(got) != 10 || got[0] != "m0" {
			t.Errorf("after the reset back: %v", got)
		}
		done := make(chan []Received, 1)
		go func() {
			got, err := e.Receive(t.Context(), Receive{Who: caller, Group: groupA, Topic: topicA, Invisible: time.Hour, Wait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			done <- got
		}()
		synctest.Wait()
		if _, err := e.ResetOffsets(Reset{Group: groupA, Topic: topicA, QueueID: 0, Offset: 8}); err != nil {
			t.Fatal(err)
		}
		if got := bodies(t, <-done); fmt.Sprint(got) != "[m8 m9]" {
			t.Errorf("a waiting receiver got %v", got)
		}
		if err := e.saveProgress(); err != nil {
			t.Fatal(err)
		}
		e.restart()
		if _, err := e.ResetOffsets(Reset{Group: groupA, Topic: topicA, QueueID: -1, Offset: -1, Time: -1}); err != nil {
			t.Fatal(err)
		}
		if got := e.take(32, time.Hour); len(got) != 0 {
			t.Errorf("after the reset to the end: %v", bodies(t, got))
		}
	})
}

func TestClone_givesTheSamePlaces(t *testing.T) {
	e := newEnv(t)
	e.sendN(10)
	other := "aaaaaaaa%other"
	if err := e.PutGroup(t.Context(), store.DefaultGroupConfig(other)); err != nil {
		t.Fatal(err)
	}
	if err := e.CommitOffset(groupA, topicA, 0, 7); err != nil {
		t.Fatal(err)
	}
	if err := e.CloneOffsets(groupA, other, topicA); err != nil {
		t.Fatal(err)
	}
	if got, found, _ := e.Offset(other, topicA, 0, true); got != 7 || !found {
		t.Errorf("offset %d, %v", got, found)
	}
	if _, found, _ := e.Offset(other, topicA, 1, true); found {
		t.Error("a queue without a place got one")
	}
	if err := e.CloneOffsets(groupA, "aaaaaaaa%none", topicA); CodeOf(err) != CodeGroupNotFound {
		t.Errorf("to nobody: %v", err)
	}
}
