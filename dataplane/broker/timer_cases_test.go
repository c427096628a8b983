package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Of 100 messages due at once one is for a topic that was deleted: it is dropped
// and counted, the others come once.
func TestTimer_aDeletedTopicStopsNobody_B043(t *testing.T) {
	e := newTimerEnv(t)
	gone := "aaaaaaaa%gone"
	if err := e.st.PutTopic(store.DefaultTopicConfig(gone)); err != nil {
		t.Fatal(err)
	}
	for i := range 99 {
		e.at(topicA, fmt.Sprint(i), timerStart+5000)
		if i == 50 {
			e.at(gone, "lost", timerStart+5000)
		}
	}
	e.want(topicA)
	if err := e.st.DeleteTopic(gone); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		e.set(e.now().UnixMilli() + 5000)
		e.tick()
	}
	if got := e.got(topicA); len(got) != 99 {
		t.Errorf("%d messages came, want 99", len(got))
	}
	if s := e.TimerStats(); s.Dropped[dropTopic] != 1 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
}

// All three properties and their precedence; nobody listens until later.
func TestTimer_everyProperty_B044_B056(t *testing.T) {
	e := newTimerEnv(t)
	abs := strconv.Itoa(timerStart + 5000)
	for _, props := range [][]string{
		{"sec", message.KeyTimerDelaySec, "3"}, {"ms", message.KeyTimerDelayMs, "1500"}, {"at", message.KeyTimerDeliverMs, abs},
		{"sec first", message.KeyTimerDeliverMs, abs, message.KeyTimerDelayMs, "1500", message.KeyTimerDelaySec, "2"},
		{"ms second", message.KeyTimerDeliverMs, abs, message.KeyTimerDelayMs, "2500"},
		{"past", message.KeyTimerDelaySec, "-5"},
	} {
		if _, err := e.Send(t.Context(), caller, msg(topicA, 0, props[0], props[1:]...), -1); err != nil {
			t.Fatal(err)
		}
	}
	e.want(topicA, "past")
	for _, step := range []struct {
		ms   int64
		want []string
	}{{1500, []string{"ms"}}, {2000, []string{"sec first"}}, {2500, []string{"ms second"}}, {3000, []string{"sec"}}} {
		e.set(timerStart + step.ms - 1)
		e.want(topicA)
		e.set(timerStart + step.ms)
		e.want(topicA, step.want...)
	}
	e.set(timerStart + 65_000)
	e.tick()
	e.restart()
	e.want(topicA, "at")
}

// A level wins over a time, and is not changed by it.
func TestTimer_aLevelWins(t *testing.T) {
	e := newTimerEnv(t)
	m := msg(topicA, 1, "x", message.KeyTimerDelaySec, "3", message.KeyDelay, "99")
	if _, err := e.Send(t.Context(), caller, m, -1); err != nil {
		t.Fatal(err)
	}
	if m.Topic != ScheduleTopic || m.QueueID != 17 {
		t.Errorf("it waits in %s queue %d", m.Topic, m.QueueID)
	}
	for key, want := range map[string]string{message.KeyDelay: "18", message.KeyTimerDelaySec: "", message.KeyRealTopic: topicA, message.KeyRealQueueID: "1"} {
		if got, _ := message.GetProperty(m.Properties, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// Whole seconds and a millisecond beside them, with kill -9 in between: none is
// early, none is lost, none comes twice.
func TestTimer_atTheEdgeOfASecond_B045(t *testing.T) {
	e := newTimerEnv(t)
	want := map[string]int64{}
	for i := range int64(90) {
		ms := timerStart + 2000 + i/9*1000 + i%3 - 1
		body := fmt.Sprint(i)
		want[body] = ms
		e.at(topicA, body, ms)
	}
	seen := map[string]int{}
	for ms := int64(timerStart); ms < timerStart+12_500; ms += 100 + ms%7 {
		e.set(ms)
		e.tick()
		for _, body := range e.got(topicA) {
			if seen[body]++; want[body] > ms {
				t.Errorf("%s came %d ms early", body, want[body]-ms)
			}
		}
		if ms%13 == 0 {
			e.crash(1, uint64(ms))
		}
	}
	for body := range want {
		if seen[body] != 1 {
			t.Errorf("%s came %d times", body, seen[body])
		}
	}
}

// The limit is what is configured, to the second, and the refusal says it.
func TestTimer_theLimitHolds_B047_B048(t *testing.T) {
	const day = 24 * time.Hour
	e := newTimerEnv(t)
	for _, c := range []struct {
		limit time.Duration
		text  string
	}{{day, "1 day"}, {25 * day, "25 days"}, {40 * day, "40 days"}, {365 * day, "365 days"}, {90 * time.Minute, "1h30m0s"}} {
		e.restart(func(cfg *Config) { cfg.MaxDelay = c.limit })
		send := func(ms int64) error {
			_, err := e.Send(t.Context(), caller, msg(topicA, 0, "x", message.KeyTimerDeliverMs, strconv.FormatInt(ms, 10)), -1)
			return err
		}
		if err := send(timerStart + c.limit.Milliseconds() - 1000); err != nil {
			t.Errorf("%s less a second: %v", c.text, err)
		}
		err := send(timerStart + c.limit.Milliseconds() + 1000)
		refusal, _ := err.(*Error)
		if refusal == nil || refusal.Code != CodeIllegalDelay || refusal.Limit != c.text || !strings.Contains(refusal.Text, message.KeyTimerDeliverMs) {
			t.Errorf("%s and a second: %v", c.text, err)
		}
	}
	cfg := testConfig()
	if cfg.MaxDelay = MaxDelay + 1; cfg.Validate() == nil {
		t.Error("a limit above the longest one was taken")
	}
}

// The clock goes back five minutes, forward ten, and back: each comes once, not
// before its time.
func TestTimer_clockSteps_B049(t *testing.T) {
	e := newTimerEnv(t)
	const minute = 60_000
	for i := range int64(100) {
		e.at(topicA, fmt.Sprint(i), timerStart+10*minute+i*1000)
	}
	e.tick()
	n := 0
	for _, c := range []struct {
		ms   int64
		want int
	}{{-5 * minute, 0}, {5 * minute, 0}, {10*minute + 49_000, 50}, {0, 50}, {10*minute + 20_000, 50}, {11 * minute, 61}, {20 * minute, 100}, {-minute, 100}, {30 * minute, 100}} {
		e.set(timerStart + c.ms)
		e.tick()
		if n += len(e.got(topicA)); n != c.want {
			t.Errorf("at %d s: %d came, want %d", c.ms/1000, n, c.want)
		}
	}
	if s := e.TimerStats(); s.Dropped[dropLost] != 0 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
}

// The clock was a year ahead for a minute; afterwards the broker starts, delivers
// what is sent then, and a year later what was sent before.
func TestTimer_aYearAhead_B050(t *testing.T) {
	e := newTimerEnv(t)
	const year = 365 * 86_400_000
	e.set(timerStart + year)
	e.at(topicA, "ahead", timerStart+year+90_000)
	e.tick()
	e.set(timerStart + year + 60_000)
	e.want(topicA)
	e.restart()
	e.set(timerStart)
	e.restart()
	e.at(topicA, "now", timerStart+5000)
	e.want(topicA)
	e.set(timerStart + 5000)
	e.want(topicA, "now")
	e.restart()
	for day := int64(1); day < 365; day += 7 { // more than a turn of the wheel
		e.set(timerStart + day*86_400_000)
		e.want(topicA)
	}
	e.set(timerStart + year + 89_999)
	e.want(topicA)
	e.set(timerStart + year + 90_000)
	e.want(topicA, "ahead")
}

// Messages that wait longer than the window are written again once for each
// window, whatever restarts there are, and come once.
func TestTimer_oneRollForEachWindow_B051(t *testing.T) {
	e := newTimerEnv(t)
	window := func(c *Config) { c.TimerWindow = time.Minute }
	e.restart(window)
	const n, due = 200, 600_000
	for i := range n {
		e.at(topicA, fmt.Sprint(i), timerStart+due)
	}
	for ms := int64(0); ms < due; ms += 5000 {
		e.set(timerStart + ms)
		e.want(topicA)
		switch ms {
		case 100_000, 200_000:
			e.restart(window)
		case 300_000:
			e.crash(1, 1, window)
		}
	}
	// 600 s are nine windows and a rest of one: n records each.
	if _, written := e.st.QueueOffsets(TimerTopic, 0); written > n*(1+11) || written < n*8 {
		t.Errorf("%d records were written for %d messages", written, n)
	}
	e.set(timerStart + due)
	e.tick()
	if got := e.got(topicA); len(got) != n {
		t.Errorf("%d came, want %d", len(got), n)
	}
}

// More messages are due in one second than are kept in memory: they come in
// order, and those of another tenant among them.
func TestTimer_aBigBunch_B053(t *testing.T) {
	e := newTimerEnv(t)
	e.timers.kept = 64
	const other = "bbbbbbbb%orders"
	var want []string
	for i := range 2000 {
		ms := timerStart + 10_000 + int64(i*7%1000)
		e.at(topicA, fmt.Sprintf("%d-%d", ms, i), ms)
		want = append(want, fmt.Sprintf("%d-%d", ms, i))
		if i%200 == 0 {
			e.at(other, fmt.Sprint("trickle", i), ms)
		}
	}
	slices.SortStableFunc(want, func(a, b string) int { return strings.Compare(a[:13], b[:13]) })
	e.tick()
	e.set(timerStart + 10_500)
	e.tick()
	first, trickle := e.got(topicA), e.got(other)
	if len(first) != 1002 || len(trickle) != 6 {
		t.Errorf("in the middle of the second: %d and %d came", len(first), len(trickle))
	}
	e.set(timerStart + 11_000)
	e.tick()
	if got := append(first, e.got(topicA)...); !slices.Equal(got, want) {
		t.Errorf("%d came, want %d in the order of their times", len(got), len(want))
	}
	if got := append(trickle, e.got(other)...); len(got) != 10 {
		t.Errorf("%d of the other tenant came", len(got))
	}
}

// A restart delivers nothing before its time.
func TestTimer_aRestartIsNotEarly_B054(t *testing.T) {
	for name, restart := range map[string]func(*timerEnv){"clean": func(e *timerEnv) { e.restart() }, "kill -9": func(e *timerEnv) { e.crash(1, 1) }} {
		t.Run(name, func(t *testing.T) {
			e := newTimerEnv(t)
			for i := range 10 {
				e.at(topicA, fmt.Sprint(i), timerStart+600_000)
			}
			e.tick()
			e.set(timerStart + 60_000)
			restart(e)
			for ms := int64(60_000); ms < 600_000; ms += 20_000 {
				e.set(timerStart + ms)
				e.want(topicA)
			}
			e.set(timerStart + 600_000)
			e.tick()
			if got := e.got(topicA); len(got) != 10 {
				t.Errorf("%v came", got)
			}
		})
	}
}

// A pull that waits on a silent broker gets the message when it is due, driven
// by cron as in production.
func TestTimer_wakesAWaitingPull_B055(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run()
		answers := make(chan time.Time, 1)
		e.Pull(Pull{Group: groupA, Topic: topicA, QueueID: 0, Hold: 20 * time.Second}, func(out Pulled, err error) {
			if err != nil || len(out.Records) != 1 {
				t.Errorf("%+v, %v", out, err)
			}
			answers <- time.Now()
			out.Release()
		})
		due := time.Now().Add(5*time.Second + 3*time.Millisecond)
		m := msg(topicA, 0, "x", message.KeyTimerDeliverMs, strconv.FormatInt(due.UnixMilli(), 10))
		if _, err := e.Send(t.Context(), caller, m, -1); err != nil {
			t.Fatal(err)
		}
		if at := <-answers; at.Before(due) || at.Sub(due) > 50*time.Millisecond {
			t.Errorf("it came %v after its time", at.Sub(due))
		}
	})
}

// The commit log loses its tail, and other messages take the places that the
// wheel still knows: each comes once, to its own topic, and the loss is counted.
func TestTimer_otherRecordsInThePlace_B057(t *testing.T) {
	e := newTimerEnv(t)
	e.flush = store.FlushAsync
	e.restart()
	e.at(topicA, "kept", timerStart+20_000)
	e.tick()
	flushed(e)
	for i := range 20 { // these are in the page cache only, their units on the disk
		e.at(topicA, fmt.Sprintf("l%02d", i), timerStart+10_000+int64(i)*500)
	}
	e.tick()
	e.set(timerStart + 2000)
	e.tick()
	if e.timers.saved.LastTimerQueueOffset != 21 {
		t.Fatalf("checkpoint %+v", e.timers.saved)
	}
	e.crash(0, 1)
	var want []string
	for i := range 20 { // of the same size, to another topic of the same length, for other times
		body := fmt.Sprintf("n%02d", i)
		e.at("bbbbbbbb%orders", body, timerStart+10_250+int64(i)*500)
		want = append(want, body)
	}
	e.tick()
	for ms := int64(2000); ms <= 25_000; ms += 500 {
		e.set(timerStart + ms)
		e.tick()
	}
	if got := e.got("bbbbbbbb%orders"); !slices.Equal(got, want) {
		t.Errorf("new messages: %v", got)
	}
	if got := e.got(topicA); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("old messages: %v", got)
	}
	if s := e.TimerStats(); s.Dropped[dropLost] != 20 || s.Retried != 0 {
		t.Errorf("%+v", s)
	}
}

// Wheel, log and checkpoint are lost or damaged: all is made anew from the
// messages, and what was delivered is known.
func TestTimer_filesAreMadeAnew(t *testing.T) {
	for name, spoil := range map[string]func(*timerEnv) error{
		"wheel lost":         func(e *timerEnv) error { return e.disk.Remove("/store/timerwheel") },
		"log lost":           func(e *timerEnv) error { return e.disk.RemoveAll("/store/timerlog") },
		"checkpoint damaged": func(e *timerEnv) error { return vfs.WriteFile(e.disk, "/store/config/timercheck", []byte{0x80, 0, 0}) },
		"all lost": func(e *timerEnv) error {
			for _, name := range []string{"timerwheel", "timerlog", "config/timercheck"} {
				if err := e.disk.RemoveAll("/store/" + name); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTimerEnv(t)
			for i := range 10 {
				e.at(topicA, fmt.Sprint(i), timerStart+int64(i+1)*1000)
			}
			e.tick()
			e.set(timerStart + 5500)
			e.want(topicA, "0", "1", "2", "3", "4")
			e.stop()
			if err := spoil(e); err != nil {
				t.Fatal(err)
			}
			e.open()
			e.want(topicA)
			e.set(timerStart + 10_000)
			e.want(topicA, "5", "6", "7", "8", "9")
		})
	}
}

// Pending messages and the next time of a topic can be asked for.
func TestTimer_topicsAreCounted(t *testing.T) {
	e := newTimerEnv(t)
	for i := range int64(30) {
		e.at(topicA, fmt.Sprint(i), timerStart+5500+i*100)
	}
	e.at("bbbbbbbb%orders", "far", timerStart+86_400_000*40)
	e.tick()
	for _, c := range []struct{ now, pending, next int64 }{{0, 30, 5500}, {5600, 28, 5700}, {9000, 0, 0}} {
		e.set(timerStart + c.now)
		e.tick()
		got, err := e.TimerTopics([]string{topicA, "bbbbbbbb%orders", "aaaaaaaa%none"})
		if err != nil {
			t.Fatal(err)
		}
		want := TimerTopicStats{}
		if c.pending > 0 {
			want = TimerTopicStats{c.pending, time.UnixMilli(timerStart + c.next)}
		}
		if got[topicA] != want || got["bbbbbbbb%orders"] != (TimerTopicStats{1, time.UnixMilli(timerStart + 86_400_000*40)}) {
			t.Errorf("at %d ms: %+v", c.now, got)
		}
		e.restart()
	}
}
