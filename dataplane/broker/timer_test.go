package broker

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// timerEnv is a broker over a store on one disk, whose clock a test moves and
// whose timers it drives by hand.
type timerEnv struct {
	*Broker
	t     testing.TB
	st    *store.Store
	disk  *vfs.Mem
	mu    sync.Mutex
	ms    int64
	stop  func()
	flush store.FlushMode
	seen  map[string]int64 // next offset by topic/queue
}

const timerStart = 1_800_000_000_000

func newTimerEnv(t testing.TB) *timerEnv {
	e := &timerEnv{t: t, ms: timerStart, flush: store.DefaultConfig().Flush, seen: map[string]int64{}}
	e.disk = vfs.NewMem(e.now)
	e.open()
	t.Cleanup(func() { e.stop() })
	for _, topic := range []string{topicA, "bbbbbbbb%orders"} {
		c := store.DefaultTopicConfig(topic)
		c.ReadQueueNums, c.WriteQueueNums = 2, 2
		if err := e.st.PutTopic(c); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func (e *timerEnv) now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.UnixMilli(e.ms)
}

func (e *timerEnv) set(ms int64) {
	e.mu.Lock()
	e.ms = ms
	e.mu.Unlock()
}

func (e *timerEnv) config() Config {
	cfg := testConfig()
	cfg.TimerDir, cfg.TimerLogBytes = "/store", 100*52+16
	return cfg
}

func (e *timerEnv) open(change ...func(*Config)) {
	e.t.Helper()
	sc := store.DefaultConfig()
	sc.Dir, sc.SegmentBytes, sc.QueueSegmentBytes, sc.Preallocate = "/store", 4<<20, 200_000, false
	sc.IndexSlots, sc.IndexEntries = 1000, 100_000
	sc.FlushInterval, sc.QueueFlush, sc.Checkpoint, sc.RetentionCheck = time.Hour, time.Hour, time.Hour, time.Hour
	sc.Flush = e.flush
	sc.StoreHost = netip.MustParseAddrPort("127.0.0.1:10911")
	s, err := store.Open(sc, store.Deps{FS: e.disk, Now: e.now})
	if err != nil {
		e.t.Fatal(err)
	}
	e.st = s
	cfg := e.config()
	for _, c := range change {
		c(&cfg)
	}
	if e.Broker, err = New(cfg, Deps{Store: s, FS: e.disk, Now: e.now, Logger: slog.New(slog.NewTextHandler(e.t.Output(), nil))}); err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	b := e.Broker
	e.stop = func() {
		_ = b.Close()
		cancel()
		<-done
		if err := s.Close(); err != nil {
			e.t.Errorf("close store: %v", err)
		}
	}
}

// restart stops cleanly and starts again.
func (e *timerEnv) restart(change ...func(*Config)) {
	e.t.Helper()
	e.stop()
	e.open(change...)
}

// crash goes on with the disk that a power cut would leave: with keep 1 what
// kill -9 leaves.
func (e *timerEnv) crash(keep float64, seed uint64, change ...func(*Config)) {
	e.t.Helper()
	clone := e.disk.CrashClone(keep, seed)
	e.stop()
	e.disk = clone
	e.open(change...)
}

// tick lets the timers work until they have seen everything that is stored,
// what they store themselves included.
func (e *timerEnv) tick() {
	e.t.Helper()
	for before := int64(-1); ; {
		_, end := e.st.CommitLogRange()
		if behind := e.timers.files && floorStep(e.now().UnixMilli()) < e.timers.read; end == before && !behind {
			return
		} else if behind {
			flushed(e) // it waits for that
		}
		before = end
		e.dispatched()
		e.timers.tick(e.t.Context())
	}
}

func (e *timerEnv) dispatched() {
	e.t.Helper()
	_, end := e.st.CommitLogRange()
	for e.st.Dispatched() < end {
		if e.t.Context().Err() != nil {
			e.t.Fatal("the store does not dispatch")
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// at sends a message that is wanted at a time.
func (e *timerEnv) at(topic, body string, ms int64) Sent {
	e.t.Helper()
	s, err := e.Send(e.t.Context(), caller, msg(topic, 0, body, message.KeyTimerDeliverMs, strconv.FormatInt(ms, 10), message.KeyUniqueKey, "id-"+body), -1)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// got returns the bodies that came to a topic since the last call.
func (e *timerEnv) got(topic string) (bodies []string) {
	e.t.Helper()
	e.dispatched()
	for queue := range int32(2) {
		key := topic + strconv.Itoa(int(queue))
		for {
			b, err := e.st.Read(topic, queue, e.seen[key], store.ReadOptions{MaxMessages: 1000})
			if err != nil {
				e.t.Fatal(err)
			}
			if b.Status == store.ReadNotFound || b.Status == store.ReadNoQueue {
				break
			}
			for _, rec := range b.Records {
				bodies = append(bodies, bodyOf(e.t, rec))
			}
			e.seen[key] = b.Next
			b.Release()
		}
	}
	return bodies
}

func (e *timerEnv) want(topic string, want ...string) {
	e.t.Helper()
	e.tick()
	if got := e.got(topic); !slices.Equal(got, want) {
		e.t.Errorf("at %d ms: %v arrived, want %v", e.now().UnixMilli()-timerStart, got, want)
	}
}

func TestTimer_deliversAtTheMillisecond(t *testing.T) {
	e := newTimerEnv(t)
	for _, ms := range []int64{1500, 1, 1000, 999, 1001, 2000, 86_400_000} {
		e.at(topicA, fmt.Sprint(ms), timerStart+ms)
	}
	e.want(topicA)
	for _, step := range []struct {
		ms   int64
		want []string
	}{
		{1, []string{"1"}}, {998, nil}, {999, []string{"999"}}, {1000, []string{"1000"}}, {1001, []string{"1001"}},
		{1499, nil}, {1500, []string{"1500"}}, {1999, nil}, {2000, []string{"2000"}}, {86_399_999, nil}, {86_400_000, []string{"86400000"}},
	} {
		e.set(timerStart + step.ms)
		e.want(topicA, step.want...)
	}
	if s := e.TimerStats(); s.Pending != 0 || s.Delivered != 7 || s.Late != 0 {
		t.Errorf("%+v", s)
	}
}

// model says what each topic must see.
type modelMessage struct {
	topic     string
	at        int64
	sentAt    int64
	cancelled bool
	came      int
}

// TestTimer_equalsAModel sends, takes back, moves the clock both ways, restarts
// and cuts the power in random order, and compares with a map: nothing is early,
// lost or delivered twice, and what was taken back in time never comes.
func TestTimer_equalsAModel(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { timerHistory(t, seed) })
	}
}

func timerHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	e := newTimerEnv(t)
	window := func(c *Config) { c.TimerWindow = time.Duration(10+seed*7) * time.Second }
	e.restart(window)
	model := map[string]*modelMessage{}
	topics := []string{topicA, "bbbbbbbb%orders"}
	powerCuts := 0
	look := func(step int) {
		e.tick()
		now := e.now().UnixMilli()
		for _, topic := range topics {
			for _, body := range e.got(topic) {
				m := model[body]
				if m == nil || m.topic != topic {
					t.Fatalf("seed %d step %d: %q came to %s", seed, step, body, topic)
				}
				if m.came++; m.came > 1 {
					t.Errorf("seed %d step %d: %q came %d times", seed, step, body, m.came)
				}
				if m.at > now {
					t.Errorf("seed %d step %d: %q came %d ms early", seed, step, body, m.at-now)
				}
				if m.cancelled {
					t.Errorf("seed %d step %d: %q was taken back and came", seed, step, body)
				}
			}
		}
		for body, m := range model {
			if m.at <= now && m.came == 0 && !m.cancelled {
				t.Errorf("seed %d step %d: %q is %d ms late", seed, step, body, now-m.at)
				m.came = 1
			}
		}
		if t.Failed() {
			t.Logf("%+v, slot at %d, clock at %d", e.TimerStats(), e.timers.read-timerStart, now-timerStart)
			t.FailNow()
		}
	}
	n := 0
	for step := range 400 {
		now := e.now().UnixMilli()
		switch op := rng.IntN(100); {
		case op < 45:
			for range rng.IntN(8) {
				n++
				body := fmt.Sprint("m", n)
				m := &modelMessage{topic: topics[rng.IntN(2)], sentAt: now, at: now + 1 + rng.Int64N([]int64{900, 3000, 60_000, 600_000}[rng.IntN(4)])}
				model[body] = m
				e.at(m.topic, body, m.at)
			}
		case op < 55: // take one back
			for _, body := range slices.Sorted(maps.Keys(model)) {
				m := model[body]
				if m.at > now && m.came == 0 && !m.cancelled && rng.IntN(4) == 0 {
					if _, err := e.Recall(t.Context(), m.topic, Recall{At: m.at, Unique: "id-" + body}); err != nil {
						t.Fatal(err)
					}
					m.cancelled = true
					break
				}
			}
		case op < 60: // a foreign namespace tries
			for body, m := range model {
				other := topics[0]
				if m.topic == other {
					other = topics[1]
				}
				if m.at > now {
					if _, err := e.Recall(t.Context(), other, Recall{At: m.at, Unique: m.topic + "+id-" + body}); err != nil {
						t.Fatal(err)
					}
				}
				break
			}
		case op < 85:
			e.set(now + rng.Int64N([]int64{5, 400, 3000, 20_000}[rng.IntN(4)]))
		case op < 88:
			e.set(now + rng.Int64N(200_000)) // forward
		case op < 91:
			e.set(now - rng.Int64N(50_000)) // back
		case op < 94:
			look(step)
			e.restart(window)
		case op < 97: // kill -9
			look(step)
			if rng.IntN(2) == 0 {
				e.set(now + rng.Int64N(1500))
			}
			e.crash(1, seed, window)
		default: // power cut: what was stored is made durable first, as with sync flush
			look(step)
			flushed(e)
			e.crash(0.5, seed*1000+uint64(step), window)
			powerCuts++
		}
		if rng.IntN(3) > 0 {
			look(step)
		}
	}
	for range 200 { // rolls go step by step
		e.set(e.now().UnixMilli() + 10_000)
		look(-1)
	}
	if s := e.TimerStats(); s.Pending != 0 {
		t.Errorf("seed %d: %d wait at the end: %+v", seed, s.Pending, s)
	}
}

// flushed returns when everything stored is on the disk, and nothing that comes
// later will be for that.
func flushed(e *timerEnv) {
	_, end := e.st.CommitLogRange()
	e.st.RequestSync()
	for e.st.Synced() < end {
		time.Sleep(100 * time.Microsecond)
	}
}

// A handle is the client's to write: what would be more than a key in a
// property is refused.
func TestRecall_handlesOfHostileClients(t *testing.T) {
	e := newEnv(t)
	for name, key := range map[string]string{
		"further properties": "\x02color\x01free\x02__SLUICE\x01slk_any,r", "a separator": "a\x01b", "none": "", "too long": strings.Repeat("k", maxRecallKey+1), "a line": "a\nb",
	} {
		handle := base64.URLEncoding.EncodeToString([]byte("v1 orders " + e.Config().Name + " 1900000000000 " + key))
		if r, err := e.ParseRecall(handle); CodeOf(err) != CodeBadRecall {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	handle := base64.URLEncoding.EncodeToString([]byte("v1 orders " + e.Config().Name + " 1900000000000 key with blanks"))
	if r, err := e.ParseRecall(handle); err != nil || r.Unique != "key with blanks" {
		t.Errorf("a good one: %+v, %v", r, err)
	}
}
