package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Records are read by their places; a place that is none, or that another
// record has, takes no other with it.
func TestReadPlaces_leavesOutWhatIsNone(t *testing.T) {
	cfg := testConfig()
	s, err := Open(cfg, Deps{FS: vfs.NewMem(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var places []Place
	for i := range 5 {
		a, err := s.Append(t.Context(), &message.Message{Topic: "t", Body: []byte(fmt.Sprint(i))}, DurabilityDefault)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, Place{a.PhysicalOffset, a.Size})
	}
	end := places[4].Offset + int64(places[4].Size)
	asked := []Place{{-1, 100}, {places[0].Offset, places[0].Size + 1}, places[0], {places[1].Offset + 1, places[1].Size}, places[2], places[4], {end, 100}, {end + 1<<40, 100}, {0, 1 << 30}, {0, -1}}
	b, err := s.ReadPlaces(asked)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	got := ""
	for _, rec := range b.Records {
		f, err := message.Parse(rec)
		if err != nil {
			t.Fatal(err)
		}
		got += string(f.Body)
	}
	if got != "024" {
		t.Errorf("records %q, want 0, 2 and 4", got)
	}
	if now := time.Now().UnixMilli(); s.NewestStoreTime() < now-60_000 || s.NewestStoreTime() > now+60_000 {
		t.Errorf("newest store time %d", s.NewestStoreTime())
	}
}

// What is needed stays although it is old; when nobody needs it any more it
// goes.
func TestRetain_keepsWhatIsNeeded(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	cfg := testConfig()
	cfg.Retention, cfg.DeleteHours = time.Hour, nil
	s, err := Open(cfg, Deps{FS: vfs.NewMem(clock), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fill := func(segments int64) {
		for _, first := s.CommitLogRange(); ; {
			if _, end := s.CommitLogRange(); end >= first+segments*cfg.SegmentBytes {
				break
			}
			if _, err := s.Append(t.Context(), &message.Message{Topic: "t", Body: make([]byte, 1000)}, DurabilityDefault); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.dispatch(t.Context(), s.clog.Written()); err != nil {
			t.Fatal(err)
		}
	}
	fill(3)
	needed := cfg.SegmentBytes + 5
	s.OnRetain(func() int64 { return needed })
	now = now.Add(2 * time.Hour)
	fill(1)
	for _, want := range []int64{cfg.SegmentBytes, 3 * cfg.SegmentBytes} {
		if err := s.retain(); err != nil {
			t.Fatal(err)
		}
		if first, _ := s.CommitLogRange(); first != want {
			t.Errorf("needed from %d on: the log begins at %d, want %d", needed, first, want)
		}
		needed = 1 << 40
	}
}
