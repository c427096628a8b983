package commitlog

import (
	"errors"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// What was written an hour after the last message lags from the last sync on,
// not from the last message.
func TestFlushLag_growsWithASyncThatDoesNotCome(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	ff := vfs.NewFaults(vfs.NewMem(nil))
	l, _ := openEvents(t, ff, Config{}, func() time.Time { return now })
	lag := func(want time.Duration) {
		t.Helper()
		if got := l.FlushLag(now); got != want {
			t.Errorf("lag is %v, want %v", got, want)
		}
	}
	mustAppend(t, l, request(nil, 1, 10))
	now = now.Add(time.Second)
	lag(time.Second)
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	lag(0)
	now = now.Add(time.Hour)
	if err := l.flush(); err != nil { // each interval, also when there is nothing
		t.Fatal(err)
	}
	now = now.Add(time.Millisecond)
	mustAppend(t, l, request(nil, 1, 10))
	lag(time.Millisecond)
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		if op == vfs.OpSync {
			return 0, errors.New("injected")
		}
		return 0, nil
	})
	if err := l.flush(); err == nil {
		t.Fatal("the sync did not fail")
	}
	now = now.Add(time.Minute)
	lag(time.Minute + time.Millisecond)
}
