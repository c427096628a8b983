package tally

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

type thing struct{ owner, name string }

func newTally(now *time.Time, perOwner, total int) *Tally[thing] {
	return New(Config[thing]{
		Owner: func(k thing) string { return k.owner }, Others: func(k thing) thing { return thing{k.owner, "others"} },
		PerOwner: perOwner, Total: total, Now: func() time.Time { return *now },
	})
}

func TestTally_sameThingIsOneEntry(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	c := newTally(&now, 4, 100)
	first := now
	for i := range 3 {
		c.Add(thing{"a", "x"}, fmt.Sprint("req_", i))
		now = now.Add(time.Second)
	}
	c.Add(thing{"b", "x"}, "req_b")
	got := c.Take()
	if len(got) != 2 || got[0] != (Counted[thing]{thing{"a", "x"}, 3, first, first.Add(2 * time.Second), "req_2"}) || got[1].Count != 1 {
		t.Errorf("%+v", got)
	}
	if got := c.Take(); len(got) != 0 {
		t.Errorf("told twice: %+v", got)
	}
}

// What goes on is told after pauses that double; nothing is lost between them.
func TestTally_whatGoesOnIsToldLessAndLessOften(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	c := newTally(&now, 4, 100)
	var told int
	var sum, added int64
	for range 3600 { // an hour, once a second
		c.Add(thing{"a", "x"}, "")
		added++
		for _, e := range c.Take() {
			told++
			sum += e.Count
		}
		now = now.Add(time.Second)
	}
	if told < 12 || told > 24 {
		t.Errorf("told %d times in an hour", told)
	}
	for _, e := range c.TakeAll() {
		sum += e.Count
	}
	if sum != added {
		t.Errorf("told of %d, there were %d", sum, added)
	}
	now = now.Add(lastPause)
	c.Take()
	if len(c.entries)+len(c.owned) != 0 {
		t.Errorf("after a while %d entries are kept, of %d owners", len(c.entries), len(c.owned))
	}
	c.Add(thing{"a", "x"}, "")
	if len(c.Take()) != 1 {
		t.Error("after a while it is not as new")
	}
}

// However many different things one owner causes, entries and what is told are
// bounded, all is counted, and other owners are told theirs.
func TestTally_oneOwnerIsBounded(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	c := newTally(&now, 4, 100)
	var told int
	var sum int64
	const n = 100_000
	for i := range n {
		c.Add(thing{"a", fmt.Sprint(i)}, "")
		if i%1000 == 0 {
			now = now.Add(time.Second) // 100 s in all
			for _, e := range c.Take() {
				told++
				sum += e.Count
			}
		}
		if len(c.entries) > 5 {
			t.Fatalf("%d entries", len(c.entries))
		}
	}
	c.Add(thing{"b", "x"}, "")
	for _, e := range c.TakeAll() {
		if e.Key.owner == "a" {
			sum += e.Count
		} else if e.Key.name != "x" {
			t.Errorf("%+v", e)
		}
	}
	if told > 20 || sum != n {
		t.Errorf("told %d times of %d, there were %d", told, sum, n)
	}
}

func TestTally_allOwnersAreBounded(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	c := newTally(&now, 4, 10)
	for i := range 100 {
		c.Add(thing{fmt.Sprint(i), "x"}, "")
	}
	if got := c.Take(); len(got) != 10 {
		t.Errorf("%d entries", len(got))
	}
	if n := c.Dropped(); n != 90 || c.Dropped() != 0 {
		t.Errorf("%d were dropped", n)
	}
}

func TestTally_manyAtOnce(t *testing.T) {
	c := New(Config[thing]{Owner: func(k thing) string { return k.owner }, Others: func(k thing) thing { return thing{k.owner, "others"} }, PerOwner: 4, Total: 100, Now: time.Now})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var sum int64
	take := func(list []Counted[thing]) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range list {
			sum += e.Count
		}
	}
	for w := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				c.Add(thing{"a", fmt.Sprint(w, i%3)}, "")
				if i%50 == 0 {
					take(c.Take())
				}
			}
		})
	}
	wg.Wait()
	take(c.TakeAll())
	if sum != 8000 {
		t.Errorf("counted %d", sum)
	}
}
