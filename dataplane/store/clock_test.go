package store

import (
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Behind a place where the clock was ten years ahead, nobody who looks for a
// time misses a message, keys are found, and a crash loses nothing.
func TestStore_clockWasAhead(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	mem := vfs.NewMem(nil)
	s, err := Open(testConfig(), Deps{FS: mem, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	type stored struct {
		at  time.Time // by the right clock
		key string
	}
	var all []stored
	start, ahead := now, 10*365*24*time.Hour
	for i := range 200 {
		right := start.Add(time.Duration(i) * 10 * time.Second)
		if now = right; i >= 60 && i < 90 {
			now = right.Add(ahead)
		}
		m := msg("T", 0, "x")
		key := "k" + string(rune('0'+i))
		m.Properties = message.AppendProperty(m.Properties, message.KeyKeys, key)
		a, err := s.Append(ctx, m, DurabilitySync)
		if err != nil || a.QueueOffset != int64(i) {
			t.Fatal(a, err)
		}
		all = append(all, stored{right, key})
	}
	check := func(s *Store) {
		t.Helper()
		for i, m := range all {
			if at, err := s.OffsetByTime("T", 0, m.at.UnixMilli(), BoundaryLower); err != nil || at > int64(i) || i < 60 && at != int64(i) || at < min(int64(i), 60) {
				t.Fatalf("looking for the time of message %d finds %d, %v", i, at, err)
			}
			if i >= 60 && i < 100 {
				continue // its time is wrong
			}
			found, err := s.FindByKey(ctx, KeyQuery{Topic: "T", Key: m.key, From: m.at.UnixMilli(), To: m.at.UnixMilli(), Max: 8})
			if err != nil || len(found) != 1 {
				t.Fatalf("key of message %d: %d found, %v", i, len(found), err)
			}
		}
	}
	if err := s.dispatch(ctx, s.visible()); err != nil {
		t.Fatal(err)
	}
	if err := s.indexTo(ctx, s.visible()); err != nil {
		t.Fatal(err)
	}
	check(s)
	crashed := mem.CrashClone(0, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(testConfig(), Deps{FS: mem, Now: clock}); err != nil {
		t.Fatal(err)
	}
	if err := s.indexTo(ctx, s.visible()); err != nil {
		t.Fatal(err)
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	seen := &events{}
	s, err = Open(testConfig(), Deps{FS: crashed, Now: clock, Events: seen.add})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.indexTo(ctx, s.visible()); err != nil {
		t.Fatal(err)
	}
	check(s)
	if err := s.retain(); err != nil {
		t.Fatal(err)
	}
	if wrong := of[ClockWrong](seen); len(wrong) > 0 {
		t.Errorf("the clock is right, and called wrong: %+v", wrong)
	}
	if a, err := s.Append(ctx, msg("T", 0, "x"), DurabilitySync); err != nil || a.StoreTimestamp != now.UnixMilli() || a.QueueOffset != int64(len(all)) {
		t.Errorf("%+v, %v", a, err)
	}
}

// Damage around the place where the clock was set back takes along one message,
// as it does elsewhere: what is behind it is known to have been synced.
func TestStore_damageWhereTheClockWentBack(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	mem := vfs.NewMem(nil)
	s, err := Open(testConfig(), Deps{FS: mem, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	var places []int64
	start := now
	for i := range 60 {
		if now = start.Add(time.Duration(i) * 5 * time.Second); i >= 15 && i < 25 {
			now = now.Add(10 * 365 * 24 * time.Hour)
		}
		a, err := s.Append(ctx, msg("T", 0, "x"), DurabilitySync)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, a.PhysicalOffset)
	}
	if err := s.saveProgress(false); err != nil {
		t.Fatal(err)
	}
	for i := range len(places) - 1 {
		disk := mem.CrashClone(0, 1)
		if err := flipByte(disk, "/store/commitlog/00000000000000000000", places[i]+8, 0x55); err != nil {
			t.Fatal(err)
		}
		s, err := Open(testConfig(), Deps{FS: disk, Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(bodies(t, s, "T", 0)); got != len(places)-1 {
			t.Errorf("with message %d damaged %d of %d are served", i, got, len(places)-1)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
