package broker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
)

func sql(t *testing.T, expression string) *Filter {
	t.Helper()
	f, err := ParseFilter("SQL92", expression)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// One message in a thousand comes with the first pulls, not one pull for every
// 32 messages that are passed over.
func TestPull_oneInAThousand(t *testing.T) {
	e := newEnv(t)
	for i := range 2001 {
		e.send(msg(topicA, 0, fmt.Sprint(i), "n", fmt.Sprint(i%1000)))
	}
	filter := sql(t, "n = 999")
	var got []string
	next, pulls := int64(0), 0
	for next < 2001 {
		out := e.pull(Pull{Group: groupA, Topic: topicA, Offset: next, Filter: filter})
		if out.err != nil || out.Next <= next {
			t.Fatalf("at %d: %+v", next, out)
		}
		for _, rec := range out.Records {
			got = append(got, bodyOf(t, rec))
		}
		next = out.Next
		out.Release()
		pulls++
	}
	if fmt.Sprint(got) != "[999 1999]" || pulls > 3 {
		t.Errorf("got %v in %d pulls", got, pulls)
	}
	if out := e.pull(Pull{Group: groupA, Topic: topicA, Filter: sql(t, "n > 5000")}); out.Status != PullSkipped || out.Next < 2000 {
		t.Errorf("nothing matches: %+v", out)
	}
}

// An expression that looks at large properties thousands of times does not keep a
// pull busy for ever: it answers with how far it got.
func TestPull_worksALimitedTime(t *testing.T) {
	e := newEnv(t)
	const n = 20
	for range n {
		e.send(msg(topicA, 0, "x", "b", strings.Repeat("a", 30_000)))
	}
	filter := sql(t, strings.TrimSuffix(strings.Repeat("a OR ", 3000), " OR "))
	began, next, pulls := time.Now(), int64(0), 0
	for ; next < n; pulls++ {
		out := e.pull(Pull{Group: groupA, Topic: topicA, Offset: next, Filter: filter})
		if out.err != nil || out.Status != PullSkipped || out.Next <= next {
			t.Fatalf("at %d: %+v", next, out)
		}
		next = out.Next
		out.Release()
	}
	if pulls != n {
		t.Errorf("%d pulls over %d messages of which each takes the work of a pull", pulls, n)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// A tag of equal hash is not handed out to pulls either.
func TestPull_tagOfEqualHash_B020(t *testing.T) {
	e := newEnv(t)
	for i := range 100 {
		e.send(msg(topicA, 0, "wanted", message.KeyTags, "Aa"))
		e.send(msg(topicA, 0, fmt.Sprint("foreign", i), message.KeyTags, "BB"))
	}
	filter, err := ParseFilter("TAG", "Aa")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for next := int64(0); next < 200; {
		out := e.pull(Pull{Group: groupA, Topic: topicA, Offset: next, Filter: filter})
		if out.err != nil || out.Next <= next {
			t.Fatalf("at %d: %+v", next, out)
		}
		for _, rec := range out.Records {
			seen++
			if body := bodyOf(t, rec); body != "wanted" {
				t.Errorf("got %s", body)
			}
		}
		next = out.Next
		out.Release()
	}
	if seen != 100 {
		t.Errorf("%d messages", seen)
	}
	// The same by receiving: the others are neither in flight nor come again.
	var handles []string
	for range 20 {
		got, err := e.Receive(t.Context(), Receive{Who: caller, Group: groupA, Topic: topicA, Filter: filter, Invisible: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			handles = append(handles, r.Handle)
		}
	}
	if len(handles) != 100 {
		t.Errorf("received %d messages", len(handles))
	}
	for _, h := range handles {
		if err := e.Ack(groupA, topicA, h); err != nil {
			t.Fatal(err)
		}
	}
	if next, found, err := e.Offset(groupA, topicA, 0, true); next != 200 || !found || err != nil {
		t.Errorf("progress stands at %d, %v, %v", next, found, err)
	}
}

// A parked pull waits on while what arrives is not for it, and tells at its end
// how far it has looked.
func TestPull_parkedBehindWhatItDoesNotWant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		answers := make(chan pulled, 1)
		park := func(offset int64) {
			e.Pull(Pull{Group: groupA, Topic: topicA, Offset: offset, Commit: -1, Hold: 15 * time.Second, Filter: sql(t, "n = 7")}, func(out Pulled, err error) { answers <- pulled{out, err} })
		}
		park(0)
		for i := range 5 {
			e.send(msg(topicA, 0, fmt.Sprint(i), "n", fmt.Sprint(i)))
			synctest.Wait()
		}
		if len(answers) != 0 {
			t.Fatalf("answered: %+v", <-answers)
		}
		begin := time.Now()
		if a := <-answers; a.Status != PullSkipped || a.Next != 5 || time.Since(begin) != 15*time.Second {
			t.Errorf("at the end of the hold: %+v after %v", a, time.Since(begin))
		}
		park(5)
		e.send(msg(topicA, 0, "mine", "n", "7"))
		if a := <-answers; a.Status != PullFound || len(a.Records) != 1 || a.Next != 6 {
			t.Errorf("got %+v", a)
		}
	})
}

func TestReceive_sqlFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		for i := range 100 {
			e.send(msg(topicA, int32(i%2), fmt.Sprint(i), "price", fmt.Sprint(i), OwnerKey, "forged"))
		}
		receive := func(expression string) []string {
			t.Helper()
			got, err := e.Receive(t.Context(), Receive{Who: caller, Group: groupA, Topic: topicA, Filter: sql(t, expression), Invisible: time.Minute, Wait: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return bodies(t, got)
		}
		if got := receive(OwnerKey + " IS NOT NULL"); len(got) != 0 {
			t.Errorf("an expression sees who is charged: %v", got)
		}
		e.send(msg(topicA, 0, "cheap", "price", "5"))
		e.send(msg(topicA, 0, "dear", "price", "50"))
		if got := receive("price > 20"); fmt.Sprint(got) != "[dear]" {
			t.Errorf("got %v", got)
		}
	})
}

// B025: a filter that is known from before a restart holds for pulls before
// the first heartbeat.
func TestSubscribed_sqlOverARestart_B025(t *testing.T) {
	e := newEnv(t)
	c := &Client{ID: "c", Protocol: ProtocolRemoting}
	const expression = "price > 20"
	if err := e.Heartbeat(c, nil, []Consumer{{Group: groupA, Subscriptions: []Subscription{
		{Topic: topicA, Expression: expression, ExpressionType: "SQL92", Version: 3, Filter: sql(t, expression)},
	}}}); err != nil {
		t.Fatal(err)
	}
	if err := e.saveProgress(); err != nil {
		t.Fatal(err)
	}
	e.restart()
	for i := range 10 {
		e.send(msg(topicA, 0, "cheap", "price", "10"))
		e.send(msg(topicA, 0, "dear", "price", fmt.Sprint(21+i)))
	}
	s, ok := e.Subscribed(groupA, topicA)
	if !ok || s.ExpressionType != "SQL92" {
		t.Fatalf("got %+v, %v", s, ok)
	}
	out := e.pull(Pull{Group: groupA, Topic: topicA, Filter: s.Filter})
	if out.err != nil || len(out.Records) != 10 {
		t.Fatalf("got %d records, %v", len(out.Records), out.err)
	}
	for _, rec := range out.Records {
		if body := bodyOf(t, rec); body != "dear" {
			t.Errorf("got %s", body)
		}
	}
}
