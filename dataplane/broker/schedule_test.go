package broker

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// levelEnv is an env whose core is stopped and started by hand.
type levelEnv struct {
	*env
	stop func()
}

func newLevelEnv(t *testing.T) *levelEnv {
	e := &levelEnv{env: &env{t: t, st: openStore(t), fs: vfs.NewMem(time.Now)}}
	e.start()
	e.putTopic(topicA, 1)
	return e
}

func (e *levelEnv) start() {
	e.open(testConfig())
	b := e.Broker
	ctx, cancel := context.WithCancel(e.t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	e.stop = func() { cancel(); <-done }
}

// arrived counts by body what came to topicA.
func (e *levelEnv) arrived() map[string]int {
	e.t.Helper()
	synctest.Wait()
	got := map[string]int{}
	for offset := int64(0); ; {
		b, err := e.st.Read(topicA, 0, offset, store.ReadOptions{MaxMessages: 1000})
		if err != nil {
			e.t.Fatal(err)
		}
		if b.Status != store.ReadFound {
			return got
		}
		for _, rec := range b.Records {
			got[bodyOf(e.t, rec)]++
		}
		offset = b.Next
		b.Release()
	}
}

func (e *levelEnv) delayed(n, level int, prefix string) {
	e.t.Helper()
	for i := range n {
		if _, err := e.Send(e.t.Context(), caller, msg(topicA, 0, fmt.Sprint(prefix, i), message.KeyDelay, strconv.Itoa(level)), -1); err != nil {
			e.t.Fatal(err)
		}
	}
}

// A clean stop while a level is delivered repeats nothing; kill -9 repeats what
// was delivered since the last save, and loses nothing.
func TestSchedule_aStopRepeatsNothing_B041(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprint("clean ", clean), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newLevelEnv(t)
				for i := range 20 {
					e.delayed(50, 2, fmt.Sprint(i, "-"))
					time.Sleep(300 * time.Millisecond)
				}
				if n := len(e.arrived()); n == 0 || n == 1000 {
					t.Fatalf("%d came before the stop", n)
				}
				e.stop()
				if clean {
					if err := e.Close(); err != nil {
						t.Fatal(err)
					}
				}
				e.start()
				time.Sleep(6 * time.Second)
				got := e.arrived()
				if len(got) != 1000 {
					t.Errorf("%d of 1000 came", len(got))
				}
				for body, n := range got {
					if n > 2 || clean && n > 1 {
						t.Errorf("%s came %d times", body, n)
					}
				}
				e.stop()
			})
		})
	}
}

// A saved place outside of the level's queue is corrected: what waits and what
// is sent then comes.
func TestSchedule_aWrongPlaceIsCorrected_B042(t *testing.T) {
	for _, place := range []string{"-7", "999999"} {
		t.Run(place, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newLevelEnv(t)
				e.delayed(3, 2, "old")
				time.Sleep(time.Second)
				e.stop()
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				if err := e.st.SaveConfig(scheduleFile, []byte(`{"offsetTable":{"2":`+place+`}}`)); err != nil {
					t.Fatal(err)
				}
				e.start()
				e.delayed(3, 2, "new")
				time.Sleep(6 * time.Second)
				got := e.arrived()
				for _, body := range []string{"old0", "old1", "old2", "new0", "new1", "new2"} {
					if got[body] != 1 {
						t.Errorf("%s came %d times", body, got[body])
					}
				}
				e.stop()
			})
		})
	}
}

// A message that was stored while the clock was an hour ahead waits its level
// from the moment that this is seen, and does not hold up those behind it.
func TestSchedule_aStoreTimeInTheFuture_B049(t *testing.T) {
	e := newTimerEnv(t)
	level := func(body string) {
		if _, err := e.Send(t.Context(), caller, msg(topicA, 0, body, message.KeyDelay, "1"), -1); err != nil {
			t.Fatal(err)
		}
	}
	e.set(timerStart + 3_600_000)
	level("ahead")
	e.set(timerStart)
	for _, c := range []struct {
		ms   int64
		want int
	}{{0, 0}, {500, 0}, {999, 0}, {1000, 1}} {
		e.set(timerStart + c.ms)
		e.dispatched()
		if _, err := e.schedule.deliver(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := e.got(topicA); len(got) != c.want {
			t.Errorf("at %d ms: %v", c.ms, got)
		}
	}
}
