package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

func TestReceive_handsOutOnceAndAckEnds(t *testing.T) {
	e := newEnv(t)
	e.sendN(5)
	first := e.take(3, time.Minute)
	rest := e.take(10, time.Minute)
	if got := bodies(t, append(first, rest...)); !slices.Equal(got, []string{"m0", "m1", "m2", "m3", "m4"}) {
		t.Fatalf("got %v", got)
	}
	for _, r := range slices.Concat(first, rest) {
		if r.Attempt != 1 {
			t.Errorf("attempt %d", r.Attempt)
		}
	}
	// The group's offset is the oldest message that is not acknowledged.
	for i, want := range []struct {
		ack    int
		offset int64
	}{{2, 0}, {0, 1}, {1, 3}, {4, 3}, {3, 5}} {
		all := slices.Concat(first, rest)
		if err := e.Ack(groupA, topicA, all[want.ack].Handle); err != nil {
			t.Fatal(err)
		}
		if offset, _, _ := e.Offset(groupA, topicA, 0, true); offset != want.offset {
			t.Errorf("step %d: offset %d, want %d", i, offset, want.offset)
		}
	}
	if err := e.Ack(groupA, topicA, first[0].Handle); err != nil {
		t.Errorf("second acknowledgement: %v", err)
	}
	if got := e.take(10, time.Minute); len(got) != 0 {
		t.Errorf("received again: %v", bodies(t, got))
	}
}

func TestReceive_handlesOfOthersAreRefused(t *testing.T) {
	e := newEnv(t)
	e.putGroup("aaaaaaaa%other")
	e.putTopic("bbbbbbbb%orders", 2)
	e.sendN(1)
	got := e.take(1, time.Minute)
	for name, try := range map[string]func() error{
		"other group": func() error { return e.Ack("aaaaaaaa%other", topicA, got[0].Handle) },
		"other topic": func() error { return e.Ack(groupA, "bbbbbbbb%orders", got[0].Handle) },
		"garbage":     func() error { return e.Ack(groupA, topicA, "garbage") },
		"empty":       func() error { return e.Ack(groupA, topicA, "") },
		"invented":    func() error { return e.Ack(groupA, topicA, handle(0, &lease{offset: got[0].Offset, nonce: 1})) },
		"beyond":      func() error { return e.Ack(groupA, topicA, handle(0, &lease{offset: 99, nonce: 1})) },
	} {
		if err := try(); CodeOf(err) != CodeBadReceipt {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReceive_comesBackWhenTimeRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.send(msg(topicA, 0, "x"))
		old := e.take(1, 10*time.Second)
		begin := time.Now()
		// A waiting receiver is woken by the time, not by an arrival.
		again, err := e.Receive(t.Context(), Receive{Group: groupA, Topic: topicA, Invisible: 10 * time.Second, Wait: 20 * time.Second})
		if err != nil || len(again) != 1 || again[0].Attempt != 2 {
			t.Fatalf("got %+v, %v", again, err)
		}
		if waited := time.Since(begin); waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("waited %v", waited)
		}
		if err := e.Ack(groupA, topicA, old[0].Handle); CodeOf(err) != CodeBadReceipt {
			t.Errorf("handle of the earlier delivery: %v", err)
		}
		// Prolonged: it does not come at the old time.
		h, err := e.ChangeInvisible(groupA, topicA, again[0].Handle, time.Minute)
		if err != nil || h != again[0].Handle {
			t.Fatalf("change: %q, %v", h, err)
		}
		time.Sleep(30 * time.Second)
		if got := e.take(1, time.Second); len(got) != 0 {
			t.Errorf("came back too early")
		}
		if _, err := e.ChangeInvisible(groupA, topicA, h, 0); err != nil {
			t.Fatal(err)
		}
		if got := e.take(1, time.Second); len(got) != 1 || got[0].Attempt != 3 {
			t.Errorf("after change to 0: %+v", got)
		}
	})
}

func TestReceive_waitsForArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		got := make(chan []Received, 1)
		go func() {
			f, _ := ParseFilter("TAG", "want")
			r, err := e.Receive(t.Context(), Receive{Group: groupA, Topic: topicA, Invisible: time.Minute, Wait: time.Minute, Filter: f})
			if err != nil {
				t.Error(err)
			}
			got <- r
		}()
		synctest.Wait()
		e.send(msg(topicA, 1, "other", message.KeyTags, "no"))
		synctest.Wait()
		e.send(msg(topicA, 1, "mine", message.KeyTags, "want"))
		if r := <-got; len(r) != 1 || bodyOf(t, r[0].Record) != "mine" {
			t.Errorf("got %v", bodies(t, r))
		}
		if r, err := e.Receive(t.Context(), Receive{Group: groupA, Topic: topicA, Invisible: time.Minute, Wait: 5 * time.Second}); err != nil || len(r) != 0 {
			t.Errorf("nothing there: %v, %v", r, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := e.Receive(ctx, Receive{Group: groupA, Topic: topicA, Invisible: time.Minute, Wait: time.Minute})
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestReceive_attemptsUsedUpGoToDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		g := store.DefaultGroupConfig(groupA)
		g.RetryMaxTimes = 2
		if err := e.PutGroup(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		e.send(msg(topicA, 0, "poison", message.KeyUniqueKey, "U1"))
		for attempt := range int32(3) {
			if got := e.take(1, time.Second); len(got) != 1 || got[0].Attempt != attempt+1 {
				t.Fatalf("attempt %d: %+v", attempt+1, got)
			}
			time.Sleep(time.Second)
		}
		if got := e.take(1, time.Second); len(got) != 0 {
			t.Fatalf("delivered a fourth time")
		}
		e.readable(DLQTopic(groupA), 0, 0)
		dead, err := e.Receive(t.Context(), Receive{Group: groupA, Topic: DLQTopic(groupA), Invisible: time.Second})
		if err != nil || len(dead) != 1 || bodyOf(t, dead[0].Record) != "poison" {
			t.Fatalf("dead letters: %v, %v", dead, err)
		}
		m, _ := message.Decode(dead[0].Record)
		for key, want := range map[string]string{message.KeyDLQOriginTopic: topicA, message.KeyDLQOriginMessageID: "U1", OwnerKey: ""} {
			if v, _ := m.Property(key); v != want {
				t.Errorf("%s = %q, want %q", key, v, want)
			}
		}
	})
}

func TestReceive_giveBackDoesNotCount(t *testing.T) {
	e := newEnv(t)
	e.sendN(1)
	got := e.take(1, time.Minute)
	if err := e.GiveBack(groupA, topicA, got[0].Handle); err != nil {
		t.Fatal(err)
	}
	if again := e.take(1, time.Minute); len(again) != 1 || again[0].Attempt != 1 {
		t.Errorf("got %+v", again)
	}
}

func TestReceive_limitsInFlight(t *testing.T) {
	e := newEnv(t)
	cfg := testConfig()
	cfg.MaxInFlight = 4
	e.open(cfg)
	e.sendN(10)
	if got := e.take(10, time.Minute); len(got) != 4 {
		t.Fatalf("%d in flight", len(got))
	}
	if got := e.take(10, time.Minute); len(got) != 0 {
		t.Errorf("%d more", len(got))
	}
}

// B097: after kill -9 no acknowledged message comes again, in-flight ones do,
// and handles from before go on working.
func TestReceive_restartKeepsPlaceAndFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.sendN(100)
		acked := map[string]bool{}
		for round := range 30 {
			got := e.take(7, 10*time.Second)
			for i, r := range got {
				if acked[bodyOf(t, r.Record)] {
					t.Fatalf("round %d: %s was acknowledged and came again", round, bodyOf(t, r.Record))
				}
				if i == 3 {
					e.restart() // handles of this round were given before
				}
				if i%3 == 0 || round > 20 {
					if err := e.Ack(groupA, topicA, r.Handle); err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
					acked[bodyOf(t, r.Record)] = true
				}
			}
			time.Sleep(10 * time.Second)
			e.restart()
		}
		for {
			got := e.take(32, 10*time.Second)
			if len(got) == 0 {
				break
			}
			for _, r := range got {
				if err := e.Ack(groupA, topicA, r.Handle); err != nil {
					t.Fatal(err)
				}
				acked[bodyOf(t, r.Record)] = true
			}
		}
		if len(acked) != 100 {
			t.Errorf("%d of 100 were ever acknowledged", len(acked))
		}
	})
}

func TestReceive_followsOffsetsOfOthers(t *testing.T) {
	e := newEnv(t)
	e.sendN(10)
	e.take(2, time.Minute)
	if err := e.CommitOffset(groupA, topicA, 0, 6); err != nil { // a pull consumer went on
		t.Fatal(err)
	}
	if got := bodies(t, e.take(2, time.Minute)); !slices.Equal(got, []string{"m6", "m7"}) {
		t.Errorf("after a commit: %v", got)
	}
	if err := e.CommitOffset(groupA, topicA, 0, 1); err != nil { // a reset
		t.Fatal(err)
	}
	if got := bodies(t, e.take(2, time.Minute)); !slices.Equal(got, []string{"m1", "m2"}) {
		t.Errorf("after a reset: %v", got)
	}
}

func TestReceive_admitRefusesAndNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.sendN(1)
		asked := 0
		begin := time.Now()
		got, err := e.Receive(t.Context(), Receive{Group: groupA, Topic: topicA, Invisible: time.Minute, Wait: 10 * time.Second, Admit: func(int) time.Duration {
			if asked++; asked == 1 {
				return 2 * time.Second
			}
			return 0
		}})
		if err != nil || len(got) != 1 || got[0].Attempt != 1 || time.Since(begin) < 2*time.Second {
			t.Errorf("got %+v, %v after %v", got, err, time.Since(begin))
		}
	})
}

// TestReceive_model compares with a dumb model over random histories with
// restarts: every message is delivered until it is acknowledged, and never
// after.
func TestReceive_model(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			e := newEnv(t)
			acked, sent := map[string]bool{}, 0
			type held struct {
				body, handle string
				until        time.Time
			}
			var flight []held
			for step := range 300 {
				switch rnd.IntN(6) {
				case 0, 1:
					e.send(msg(topicA, int32(rnd.IntN(2)), fmt.Sprint(sent)))
					sent++
				case 2, 3:
					invisible := time.Duration(1+rnd.IntN(20)) * time.Second
					for _, r := range e.take(1+rnd.IntN(5), invisible) {
						body := bodyOf(t, r.Record)
						if acked[body] {
							t.Fatalf("seed %d step %d: %s came after its acknowledgement", seed, step, body)
						}
						for _, h := range flight {
							if h.body == body && time.Now().Before(h.until) {
								t.Fatalf("seed %d step %d: %s came while in flight", seed, step, body)
							}
						}
						flight = append(flight, held{body, r.Handle, time.Now().Add(invisible)})
					}
				case 4:
					if len(flight) > 0 {
						i := rnd.IntN(len(flight))
						h := flight[i]
						err := e.Ack(groupA, topicA, h.handle)
						if err == nil {
							acked[h.body] = true
						} else if time.Now().Before(h.until) {
							t.Fatalf("seed %d step %d: acknowledgement in time refused: %v", seed, step, err)
						}
						flight = slices.Delete(flight, i, i+1)
					}
				case 5:
					if rnd.IntN(3) == 0 {
						e.restart()
					} else {
						time.Sleep(time.Duration(rnd.IntN(5000)) * time.Millisecond)
					}
				}
			}
			time.Sleep(time.Minute)
			for {
				got := e.take(32, time.Minute)
				if len(got) == 0 {
					break
				}
				for _, r := range got {
					acked[bodyOf(t, r.Record)] = true
				}
			}
			if len(acked) != sent {
				t.Errorf("seed %d: %d of %d messages were seen", seed, len(acked), sent)
			}
		})
	}
}

func TestJournal_cutOrDamagedTailIsDropped(t *testing.T) {
	e := newEnv(t)
	e.sendN(4)
	got := e.take(4, time.Minute)
	for _, r := range got[:2] {
		if err := e.Ack(groupA, topicA, r.Handle); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := vfs.ReadFile(e.fs, "/broker/receive.log")
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		disk := vfs.NewMem(time.Now)
		write(t, disk, whole[:cut])
		j, err := openJournal(disk, "/broker", func([]byte) error { return nil })
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		j.close()
		damaged := slices.Clone(whole)
		damaged[cut] ^= 0xFF
		write(t, disk, damaged)
		table := map[uint32]*progress{}
		j, err = openJournal(disk, "/broker", func(p []byte) error { return applyEntry(table, p) })
		if err != nil {
			t.Fatalf("damage at %d: %v", cut, err)
		}
		j.close()
	}
	future := append([]byte(journalMagic), 0, 9, 0, 0, 0, 0)
	h := append(future[:8:8], header()[8:]...)
	disk := vfs.NewMem(time.Now)
	copyCRC(h)
	write(t, disk, h)
	if _, err := openJournal(disk, "/broker", func([]byte) error { return nil }); !errors.Is(err, errJournalVersion) {
		t.Errorf("future version: %v", err)
	}
}

func TestJournal_compactKeepsEverything(t *testing.T) {
	e := newEnv(t)
	e.sendN(20)
	got := e.take(20, time.Minute)
	for i, r := range got {
		if i == 10 {
			if err := e.receives.journal.compact(e.receives.snapshot); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 0 {
			if err := e.Ack(groupA, topicA, r.Handle); err != nil {
				t.Fatal(err)
			}
		}
	}
	e.restart()
	if n := e.receives.inFlight(groupA, topicA, 0); n != 10 {
		t.Errorf("%d in flight after restart, want 10", n)
	}
	for i, r := range got {
		if i%2 == 1 {
			if err := e.Ack(groupA, topicA, r.Handle); err != nil {
				t.Errorf("message %d: %v", i, err)
			}
		}
	}
	if offset, _, _ := e.Offset(groupA, topicA, 0, true); offset != 20 {
		t.Errorf("offset %d", offset)
	}
}

func FuzzJournalEntry(f *testing.F) {
	p := newProgress(1, groupTopic{"g", "t"}, 0)
	f.Add(p.appendName(nil), p.appendState(nil, []int64{1}, []*lease{{offset: 2, attempt: 1, nonce: 3, visibleAt: 4}}))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		table := map[uint32]*progress{}
		_ = applyEntry(table, a)
		_ = applyEntry(table, b)
	})
}

func write(t *testing.T, disk vfs.FS, data []byte) {
	t.Helper()
	if err := disk.MkdirAll("/broker"); err != nil {
		t.Fatal(err)
	}
	f, err := disk.Create("/broker/receive.log")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// copyCRC makes a header with any version valid otherwise.
func copyCRC(h []byte) {
	binary.BigEndian.PutUint32(h[8:], crc32.Checksum(h[:8], castagnoli))
}
