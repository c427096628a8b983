package commitlog

import (
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// A clock that was ten years ahead for a while spoils the store times of that
// while, and not those of the next ten years.
func TestAppend_clockGoesBack(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	l, seen := openEvents(t, vfs.NewMem(nil), Config{}, func() time.Time { return now })
	stored := func() time.Time {
		return time.UnixMilli(mustAppend(t, l, request(nil, 1, 10)).StoreTimestamp)
	}
	seen.take()
	first := now
	if got := stored(); !got.Equal(now) {
		t.Fatalf("stored at %v, want %v", got, now)
	}
	now = first.Add(-clockStep + time.Millisecond)
	for range 3 { // a small step is waited for, as long as it takes
		if got := stored(); !got.Equal(first) {
			t.Fatalf("a clock a little behind: stored at %v, want %v", got, first)
		}
		now = now.Add(time.Millisecond / 10)
	}
	seen.take()

	right := first.Add(time.Hour)
	ahead := right.Add(10 * 365 * 24 * time.Hour)
	if now = ahead; !stored().Equal(ahead) {
		t.Fatal("a clock ahead is not followed")
	}
	seen.take()
	now = right
	for range 6 {
		if got := stored(); !got.Equal(ahead) {
			t.Fatalf("%v after the step: stored at %v, want %v", now.Sub(right), got, ahead)
		}
		now = now.Add(clockPatience / 6)
	}
	wantEvents(t, seen, ClockSetBack{right, ahead})
	if now = right.Add(clockPatience); !stored().Equal(now) {
		t.Fatal("a clock that stays is not followed")
	}
	got := seen.take()
	if f, ok := got[0].(ClockFollowed); len(got) != 1 || !ok || !f.Now.Equal(now) || !f.Newest.Equal(ahead) {
		t.Errorf("happened %+v", got)
	}
	if now = now.Add(time.Second); !stored().Equal(now) {
		t.Error("store times do not go on with the clock")
	}
	wantEvents(t, seen)
}

// A glitch that is over soon leaves no trace.
func TestAppend_clockGoesBackAndForth(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	l, _ := openEvents(t, vfs.NewMem(nil), Config{}, func() time.Time { return now })
	start, newest := now, int64(0)
	for i := range 20 {
		if now = start.Add(time.Duration(i) * time.Second); i%5 == 2 {
			now = now.Add(-24 * time.Hour)
		}
		if i == 19 {
			now = now.Add(clockPatience) // and is not counted with the next
		}
		r := mustAppend(t, l, request(nil, 1, 10))
		if r.StoreTimestamp < newest {
			t.Fatalf("record %d is older than the one in front", i)
		}
		newest = r.StoreTimestamp
	}
}
