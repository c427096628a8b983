package transaction

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

func TestEnd_commitAndRollback(t *testing.T) {
	e := newEnv(t)
	a, b, open := e.send("a"), e.send("b"), e.send("open")
	e.wantBodies(topicA, 1)
	for range 2 { // again is the same
		if err := errors.Join(e.end(a, Commit), e.end(b, Rollback), e.end(open, Unknown)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(e.end(a, Rollback)); !errors.Is(err, ErrEnded) {
		t.Errorf("rollback after the commit: %v", err)
	}
	if err := e.end(b, Commit); !errors.Is(err, ErrEnded) {
		t.Errorf("commit after the rollback: %v", err)
	}
	e.wantBodies(topicA, 1, "a")
	e.wantBodies(HalfTopic, 0, "a", "b", "open")
	e.wantBodies(OpTopic, 0, fmt.Sprint(a.HalfOffset, ","), fmt.Sprint(b.HalfOffset, ","))
	e.tick()
	if got := []int64{e.live[HalfTopic], e.live[OpTopic]}; !slices.Equal(got, []int64{2, 2}) {
		t.Errorf("progress is %v", got)
	}
}

// The records are those of RocketMQ: statements 56 and 57 of the format.
func TestRecords_areRocketMQs(t *testing.T) {
	e := newEnv(t)
	x := e.send("a", message.KeyTags, "t")
	if err := e.end(x, Commit); err != nil {
		t.Fatal(err)
	}
	e.settle()
	one := func(topic string, queue int32) message.Message {
		t.Helper()
		b, err := e.st.Read(topic, queue, 0, store.ReadOptions{})
		if err != nil || len(b.Records) != 1 {
			t.Fatalf("%s: %v, %d records", topic, err, len(b.Records))
		}
		defer b.Release()
		m, err := message.Decode(slices.Clone(b.Records[0]))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	half, done, op := one(HalfTopic, 0), one(topicA, 1), one(OpTopic, 0)
	if half.SysFlag&message.SysFlagTransaction != 0 || property(&half, message.KeyRealTopic) != topicA || property(&half, message.KeyRealQueueID) != "1" || property(&half, message.KeyTransactionID) != "a" {
		t.Errorf("half message: sysFlag %d, %q", half.SysFlag, half.Properties)
	}
	if done.SysFlag&message.SysFlagTransaction != message.SysFlagCommit || done.PreparedTransactionOffset != half.PhysicalOffset || property(&done, message.KeyRealTopic) != "" ||
		property(&done, message.KeyTransactionPrepared) != "true" || property(&done, message.KeyProducerGroup) != groupA || property(&done, message.KeyTags) != "t" {
		t.Errorf("committed message: sysFlag %d, prepared %d, %q", done.SysFlag, done.PreparedTransactionOffset, done.Properties)
	}
	if property(&op, message.KeyTags) != "d" || string(op.Body) != "0," {
		t.Errorf("op: %q %q", op.Body, op.Properties)
	}
}

func TestEnd_refusesWhatIsNotTheCallers_B063(t *testing.T) {
	e := newEnv(t)
	x := e.send("a")
	denied := errors.New("denied")
	for name, c := range map[string]struct {
		change func(*End)
		want   error
	}{
		"another group": {func(e *End) { e.Group = "bbbbbbbb%p" }, ErrUnknown},
		"another place": {func(e *End) { e.HalfOffset++ }, ErrUnknown},
		"no record":     {func(e *End) { e.PhysicalOffset++ }, ErrUnknown},
		"beyond":        {func(e *End) { e.PhysicalOffset = 1 << 40 }, ErrUnknown},
		"negative":      {func(e *End) { e.PhysicalOffset = -1 }, ErrUnknown},
		"another key":   {func(e *End) { e.UniqueKey = "b" }, ErrUnknown},
		"not allowed":   {func(e *End) { e.Allow = func(string) error { return denied } }, denied},
	} {
		y := x
		c.change(&y)
		for _, r := range []Resolution{Commit, Rollback, Unknown} {
			if err := e.end(y, r); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := e.Resume(t.Context(), y); !errors.Is(err, c.want) {
			t.Errorf("resume %s: %v", name, err)
		}
	}
	if err := e.end(End{HalfOffset: -1, PhysicalOffset: x.PhysicalOffset, UniqueKey: "a"}, Commit); err != nil {
		t.Fatal(err)
	}
	e.settle()
	done, err := e.st.Read(topicA, 1, 0, store.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := message.Parse(done.Records[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := e.end(End{HalfOffset: -1, PhysicalOffset: f.PhysicalOffset}, Commit); !errors.Is(err, ErrUnknown) {
		t.Errorf("a message that is no half message: %v", err)
	}
	done.Release()
}

// First after its time, then at each period, so often and not more; then it is
// kept where people find it, and may still be decided.
func TestChecks_timesAndNumber_B058_B062(t *testing.T) {
	e := newEnv(t)
	x, patient := e.send("a"), e.send("patient", message.KeyCheckImmunityTime, "60")
	counts := map[string][]time.Duration{}
	began := e.now()
	for range 400 {
		e.asked = nil
		e.advance(time.Second)
		for _, c := range e.asked {
			counts[c.UniqueKey] = append(counts[c.UniqueKey], e.now().Sub(began))
			if c.Group != groupA || c.Topic != topicA || c.Count != len(counts[c.UniqueKey]) {
				t.Errorf("asked %+v", c)
			}
			m, err := c.Message()
			if err != nil || m.Topic != topicA || m.QueueID != 1 || string(m.Body) != c.UniqueKey || property(m, message.KeyRealTopic) != "" {
				t.Errorf("message of the check: %+v, %v", m, err)
			}
		}
	}
	want := map[string][]time.Duration{"a": {6 * time.Second, 36 * time.Second, 66 * time.Second}, "patient": {60 * time.Second, 90 * time.Second, 120 * time.Second}}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("asked at %v, want %v", counts, want)
	}
	e.wantBodies(HalfTopic, 0, "a", "patient") // it does not grow by checks
	e.wantBodies(GivenUpTopic, 0, "a", "patient")
	list, next, err := e.List(t.Context(), "aaaaaaaa", topicA, 0, 10)
	if err != nil || next != -1 || len(list) != 2 || list[0].State != StateGivenUp || list[0].Checks != 3 || list[0].NextCheck != 0 || list[0].UniqueKey != "a" {
		t.Errorf("list: %+v, %d, %v", list, next, err)
	}
	if list, _, _ := e.List(t.Context(), "bbbbbbbb", "", 0, 10); len(list) != 0 {
		t.Errorf("another namespace sees %+v", list)
	}
	e.crash()
	if err := errors.Join(e.end(x, Commit), e.end(patient, Rollback)); err != nil {
		t.Errorf("late answers: %v", err)
	}
	e.wantBodies(topicA, 1, "a")
	if c := e.Counts(); c.Open != 0 || c.GivenUpNow != 0 {
		t.Errorf("counts: %+v", c)
	}
}

func TestChecks_notForEndedOnes_B059(t *testing.T) {
	e := newEnv(t)
	for i := range 500 {
		x := e.send(fmt.Sprint(i))
		if err := e.end(x, []Resolution{Commit, Rollback}[i%2]); err != nil {
			t.Fatal(err)
		}
		if i == 250 {
			e.save()
		}
	}
	e.crash()
	for range 60 {
		e.advance(2 * time.Second)
	}
	if len(e.asked) != 0 {
		t.Errorf("asked about %d ended transactions", len(e.asked))
	}
	if got := e.bodies(topicA, 1); len(got) != 250 {
		t.Errorf("%d messages", len(got))
	}
}

func TestEnd_afterChecks_B060(t *testing.T) {
	e := newEnv(t)
	x := e.send("a")
	e.advance(10 * time.Second)
	e.advance(30 * time.Second)
	if len(e.asked) != 2 {
		t.Fatalf("asked %d times", len(e.asked))
	}
	if err := e.end(x, Commit); err != nil {
		t.Fatal(err)
	}
	e.advance(time.Hour)
	if len(e.asked) != 2 {
		t.Errorf("asked after the end")
	}
	e.wantBodies(topicA, 1, "a")
}

// What is wrong with one keeps nothing from the others.
func TestChecks_badOnesKeepNothing_B061(t *testing.T) {
	e := newEnv(t)
	gone := e.send("gone")
	bad, err := e.st.Append(t.Context(), &message.Message{Topic: HalfTopic, Body: []byte("bad"), Properties: []byte("\x02\x02x"), BornHost: host, StoreHost: host}, store.DurabilityDefault)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		e.send(fmt.Sprint("good", i))
	}
	e.gone[topicA] = true
	e.asked = nil
	e.advance(6 * time.Second)
	if len(e.asked) != 0 {
		t.Errorf("asked about a topic that is gone")
	}
	if got := e.bodies(GivenUpTopic, 0); len(got) != 102 || !slices.Contains(got, "gone") || !slices.Contains(got, "bad") {
		t.Errorf("given up: %d", len(got))
	}
	if err := e.end(gone, Rollback); err != nil {
		t.Errorf("rollback of what was given up: %v", err)
	}
	if err := e.end(End{PhysicalOffset: bad.PhysicalOffset, HalfOffset: bad.QueueOffset}, Rollback); err != nil {
		t.Errorf("rollback of a bad one: %v", err)
	}
}

// Nobody there: the log does not grow by rounds, and they end.
func TestChecks_nobodyThere_B068(t *testing.T) {
	e := newEnv(t)
	e.answer = Nobody
	for i := range 300 {
		e.send(fmt.Sprint(i))
	}
	_, before := e.st.CommitLogRange()
	for range 90 { // the last check is due, the giving up is not
		e.advance(time.Second)
	}
	if _, after := e.st.CommitLogRange(); after != before {
		t.Errorf("the log grew by %d bytes", after-before)
	}
	for range 600 {
		e.advance(time.Second)
	}
	if got := e.bodies(GivenUpTopic, 0); len(got) != 300 || len(e.asked) != 900 {
		t.Errorf("given up %d, asked %d", len(got), len(e.asked))
	}
}

func TestChecks_busyProducersAreNotCounted(t *testing.T) {
	e := newEnv(t)
	e.send("a")
	e.answer = Busy
	for range 100 {
		e.advance(time.Second)
	}
	e.answer, e.asked = Asked, nil
	for range 200 {
		e.advance(time.Second)
	}
	if len(e.asked) != 3 || e.asked[0].Count != 1 {
		t.Errorf("asked %d times", len(e.asked))
	}
}

func TestResume_beginsAgain(t *testing.T) {
	e := newEnv(t)
	x := e.send("a")
	for range 200 {
		e.advance(time.Second)
	}
	if err := e.Resume(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	e.asked = nil
	for range 200 {
		e.advance(time.Second)
	}
	if len(e.asked) != 3 {
		t.Errorf("asked %d times", len(e.asked))
	}
	if err := e.end(x, Rollback); err != nil {
		t.Fatal(err)
	}
	if err := e.Resume(t.Context(), x); !errors.Is(err, ErrEnded) {
		t.Errorf("resume of an ended one: %v", err)
	}
}

func TestSend_bound(t *testing.T) {
	e := newEnv(t)
	e.cfg.MaxOpen = 5
	e.start()
	var last End
	for i := range 5 {
		last = e.send(fmt.Sprint(i))
	}
	e.tick()
	m := &message.Message{Topic: topicA, BornHost: host, StoreHost: host}
	if _, err := e.Send(t.Context(), m); !errors.Is(err, ErrTooMany) {
		t.Errorf("over the bound: %v", err)
	}
	if err := e.end(last, Rollback); err != nil {
		t.Fatal(err)
	}
	e.send("room again")
}

// A delivery that failed may be tried again, and one of which nobody knows
// whether it is stored is not stored twice.
func TestEnd_deliveryFails(t *testing.T) {
	e := newEnv(t)
	x := e.send("a")
	broken := errors.New("disk full")
	e.deliver = func(m *message.Message) error { return broken }
	if err := e.end(x, Commit); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	e.deliver = func(m *message.Message) error { // stored, but its sync failed
		if _, err := e.st.Append(context.Background(), m, store.DurabilityDefault); err != nil {
			return err
		}
		return broken
	}
	if err := e.end(x, Commit); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	e.deliver = nil
	if err := e.end(x, Commit); err != nil {
		t.Fatal(err)
	}
	e.wantBodies(topicA, 1, "a")
}

// A random history against a model that only remembers what was decided. Each
// crash forgets everything since a random save.
func TestModel_randomHistories(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { history(t, seed) })
	}
}

type modelled struct {
	End
	key      string
	sent     time.Time
	decided  Resolution
	asked    int
	immunity time.Duration
}

func history(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	e := newEnv(t)
	crashed := errors.New("crashed")
	var all []*modelled
	byKey := map[string]*modelled{}
	ask := func() {
		for _, c := range e.asked {
			m := byKey[c.UniqueKey]
			m.asked++
			if m.decided != Unknown {
				t.Errorf("asked about %s, which has ended", m.key)
			}
			if age := e.now().Sub(m.sent); age < m.immunity {
				t.Errorf("asked about %s at the age of %v", m.key, age)
			}
		}
		e.asked = nil
	}
	for step := range 400 {
		switch n := rnd.IntN(100); {
		case n < 40:
			m := &modelled{key: fmt.Sprint("k", step), sent: e.now(), immunity: e.cfg.First}
			if rnd.IntN(4) == 0 {
				m.immunity = 50 * time.Second
				m.End = e.send(m.key, message.KeyCheckImmunityTime, "50")
			} else {
				m.End = e.send(m.key)
			}
			all, byKey[m.key] = append(all, m), m
		case n < 75 && len(all) > 0:
			m := all[rnd.IntN(len(all))]
			r := []Resolution{Commit, Rollback}[rnd.IntN(2)]
			die := rnd.IntN(4) == 0 && m.decided == Unknown && r == Commit
			if die { // between the delivery and the record that says so
				e.deliver = func(d *message.Message) error {
					if _, err := e.st.Append(context.Background(), d, store.DurabilityDefault); err != nil {
						return err
					}
					return crashed
				}
			}
			err := e.end(m.End, r)
			e.deliver = nil
			switch {
			case die:
				if !errors.Is(err, crashed) {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
				m.decided = Commit
				e.crash()
			case m.decided == Unknown || m.decided == r:
				m.decided = r
				if err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			case !errors.Is(err, ErrEnded):
				t.Fatalf("seed %d step %d: %s was decided %d, then %d: %v", seed, step, m.key, m.decided, r, err)
			}
		case n < 95:
			e.advance(time.Duration(rnd.IntN(20_000)) * time.Millisecond)
			ask()
		case n < 97:
			e.save()
		default:
			e.crash()
			ask()
		}
	}
	for range 20 {
		e.advance(30 * time.Second)
		ask()
	}
	var want []string
	for _, m := range all {
		if m.decided == Commit {
			want = append(want, m.key)
		} else if m.decided == Unknown && m.asked < e.cfg.Checks {
			t.Errorf("seed %d: %s was asked about %d times", seed, m.key, m.asked)
		}
	}
	got := e.bodies(topicA, 1)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("seed %d: delivered %v, want %v", seed, got, want)
	}
	open := 0
	for from := int64(0); from >= 0; {
		list, next, err := e.List(t.Context(), "aaaaaaaa", "", from, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if m := byKey[i.UniqueKey]; m.decided != Unknown || i.State != StateGivenUp {
				t.Errorf("seed %d: listed %+v", seed, i)
			}
		}
		open, from = open+len(list), next
	}
	if n := len(all) - countDecided(all); open != n {
		t.Errorf("seed %d: %d listed, want %d", seed, open, n)
	}
}

func countDecided(all []*modelled) (n int) {
	for _, m := range all {
		if m.decided != Unknown {
			n++
		}
	}
	return n
}

// Every byte of the marks file that is damaged or cut off ends it there, and
// what is whole in front of it counts.
func TestMarks_damage(t *testing.T) {
	fs := vfs.NewMem(time.Now)
	m, err := openMarks(fs, "/b")
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		m.set(i, mark{at: 10 + i, checks: uint16(i), state: markOpen})
	}
	m.set(0, mark{state: markEnded})
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	data, err := vfs.ReadFile(fs, m.path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 0x55
		for _, d := range [][]byte{bad, data[:i]} {
			r := &marks{live: map[int64]mark{}}
			if err := r.parse(d); err != nil {
				t.Fatal(err)
			}
			for offset, k := range r.live {
				if k != (mark{at: 10 + offset, checks: uint16(offset)}) {
					t.Errorf("byte %d: mark %d is %+v", i, offset, k)
				}
			}
			if i < marksHeader && len(r.live) != 0 {
				t.Errorf("byte %d of the header: %v", i, r.live)
			}
		}
	}
	newer := slices.Clone(data)
	newer[7]++
	copy(newer[12:], appendMark(nil, 0, mark{})[:4])
	header := newer[:12]
	sum := crcOf(header)
	copy(newer[12:16], sum)
	if err := (&marks{live: map[int64]mark{}}).parse(newer); !errors.Is(err, errMarksVersion) {
		t.Errorf("a newer version: %v", err)
	}
}

// A clock that was ahead and is set back keeps nobody from being asked, whether
// the process goes on or begins anew, before the first check or behind it.
func TestChecks_clockIsSetBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, checked := range []bool{false, true} {
			e := newEnv(t)
			e.send("a")
			e.tick()
			if checked {
				e.advance(6 * time.Second)
			}
			before := len(e.asked)
			e.ms.Add(-(10 * time.Hour).Milliseconds())
			if restart {
				e.save()
				e.crash()
			} else {
				e.tick()
			}
			e.send("b") // gets the store time of the newest message
			e.tick()
			e.advance(6 * time.Second)
			if got := len(e.asked) - before; got != 2 && !checked || got < 1 {
				t.Errorf("restart %v, checked %v: asked %d times after the first time", restart, checked, got)
			}
			e.advance(30 * time.Second)
			e.advance(30 * time.Second)
			if got := len(e.asked) - before; got < 4 {
				t.Errorf("restart %v, checked %v: asked %d times in a minute", restart, checked, got)
			}
		}
	}
}

// The committed message may have an earlier store time than the half message.
func TestEnd_repeatedBehindAClockThatWasSetBack(t *testing.T) {
	e := newEnv(t)
	x, y := e.send("a"), e.send("b")
	e.ms.Add(-time.Hour.Milliseconds())
	e.send("now the store sees it")
	e.advance(2 * time.Minute) // so long it waits for the clock
	for range 2 {
		if err := e.end(x, Commit); err != nil {
			t.Errorf("commit: %v", err)
		}
		e.settle()
	}
	if err := e.end(x, Rollback); !errors.Is(err, ErrEnded) {
		t.Errorf("rollback of what was committed: %v", err)
	}
	if err := e.end(y, Commit); err != nil {
		t.Fatal(err)
	}
	e.crash() // nothing was saved: all is looked at again
	e.advance(time.Minute)
	e.wantBodies(topicA, 1, "a", "b")
}

// What was given up is known by its mark only, since progress is behind it: a
// power cut must not take the mark, or the late decision is refused. Nor may it
// take the mark that such a one has ended, or it can end the other way.
func TestMarks_ofGivenUpOnesSurviveAPowerCut(t *testing.T) {
	e := newEnv(t)
	if err := e.fs.SyncDir("/"); err != nil { // the folder is there already
		t.Fatal(err)
	}
	late, rolledBack := e.send("late"), e.send("rolled back")
	e.advance(6 * time.Second)
	for range e.cfg.Checks {
		e.advance(30 * time.Second)
	}
	if n := e.Counts().GivenUpNow; n != 2 {
		t.Fatalf("%d given up, want 2", n)
	}
	if err := e.end(rolledBack, Rollback); err != nil {
		t.Fatal(err)
	}
	e.tick()
	e.save()
	if e.saved[HalfTopic] != 2 {
		t.Fatalf("progress %v", e.saved)
	}
	e.fs = e.fs.(*vfs.Mem).CrashClone(0, 1) // of the marks; the store goes on
	e.crash()
	if err := e.end(late, Commit); err != nil {
		t.Errorf("late commit after a power cut: %v", err)
	}
	if err := e.end(rolledBack, Commit); !errors.Is(err, ErrEnded) {
		t.Errorf("commit after the rollback and a power cut: %v", err)
	}
	e.wantBodies(topicA, 1, "late")
}

func TestOpProgress_passesWholeChunksOnly(t *testing.T) {
	var p opProgress
	for i := range int64(3 * chunkRecords) {
		p.add(i, i)
	}
	for first, want := range map[int64]int64{0: 0, 1: 0, chunkRecords: chunkRecords, chunkRecords + 5: chunkRecords, 3 * chunkRecords: 3 * chunkRecords} {
		q := p
		q.chunks = slices.Clone(p.chunks)
		if got := q.pass(first); got != want {
			t.Errorf("first open %d: needs records from %d, want %d", first, got, want)
		}
	}
}
