package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// The end of the commit log was synced and is gone: a file is missing, cut or
// damaged, or all are. A start says what is lost, gives no queue offset and no
// commit log offset again, says of the lost messages that they were removed, and
// serves the rest; so does each start after it.
func TestOpen_lostEndOfTheLog(t *testing.T) {
	const lastFile = "/store/commitlog/00000000000000049152"
	last := func(d *damageStore) modelMessage { return d.all[len(d.all)-1] }
	damages := map[string]struct {
		lost   func(d *damageStore) func(modelMessage) bool
		change func(t *testing.T, d *damageStore, disk *vfs.Mem)
	}{
		"last file missing": {func(*damageStore) func(modelMessage) bool { return segment(3) }, func(t *testing.T, _ *damageStore, disk *vfs.Mem) {
			mustDo(t, disk.Remove(lastFile))
		}},
		"last file empty": {func(*damageStore) func(modelMessage) bool { return segment(3) }, func(t *testing.T, _ *damageStore, disk *vfs.Mem) {
			mustDo(t, truncate(disk, lastFile, func(int64) int64 { return 0 }))
		}},
		"last record damaged": {func(d *damageStore) func(modelMessage) bool {
			return func(m modelMessage) bool { return m.phys == last(d).phys }
		}, func(t *testing.T, d *damageStore, disk *vfs.Mem) {
			mustDo(t, flipByte(disk, lastFile, last(d).phys%(16<<10)+100, 0x55))
		}},
		"all files gone": {func(*damageStore) func(modelMessage) bool { return func(modelMessage) bool { return true } }, func(t *testing.T, _ *damageStore, disk *vfs.Mem) {
			mustDo(t, disk.RemoveAll("/store/commitlog"))
		}},
	}
	for name, c := range damages {
		for _, layout := range []QueueLayout{LayoutCompatible, LayoutCompact} {
			for _, unclean := range []bool{false, true} {
				for _, queuesGone := range []bool{false, true} {
					if queuesGone && layout == LayoutCompact {
						continue // the directory is among them
					}
					t.Run(fmt.Sprintf("%s %v unclean=%v queues gone=%v", name, layout, unclean, queuesGone), func(t *testing.T) {
						d := newDamageStoreOf(t, layout)
						c.change(t, d, d.disk)
						if unclean {
							mustDo(t, vfs.WriteFile(d.disk, "/store/abort", nil))
						}
						if queuesGone {
							mustDo(t, d.disk.RemoveAll("/store/"+filesFolder))
						}
						d.checkLostEnd(t, layout, c.lost(d))
					})
				}
			}
		}
	}
}

// checkLostEnd opens the store three times: nothing is appended the first time.
func (d *damageStore) checkLostEnd(t *testing.T, layout QueueLayout, lost func(modelMessage) bool) {
	t.Helper()
	cfg := testConfig()
	cfg.QueueLayout = layout
	count, first := 0, int64(-1)
	for _, m := range d.all {
		if lost(m) {
			if count++; first < 0 {
				first = m.phys
			}
		}
	}
	end := d.all[len(d.all)-1].phys
	for round := range 3 {
		s, log, err := d.open(d.disk, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("lost_from=%d", first); round == 0 && (!strings.Contains(log, want) || !strings.Contains(log, fmt.Sprintf("messages=%d", count)) || strings.Count(log, "lost_from") != 1) {
			t.Errorf("logged\n%s\nwant %s and %d messages", log, want, count)
		}
		if round == 2 && strings.Contains(log, "lost_from") {
			t.Errorf("a message is behind the lost ones, and still:\n%s", log)
		}
		if err := d.served(s, lost); err != nil {
			t.Error(err)
		}
		for _, m := range d.all {
			b, err := s.Read(m.topic, m.queue, m.offset, ReadOptions{MaxMessages: 1})
			switch {
			case !lost(m):
				if err != nil || b.Status != ReadFound {
					t.Fatalf("round %d: %.30v: %v, %v", round, m, b.Status, err)
				}
			case err == nil && b.Status == ReadFound:
				// Passed over, for what was appended behind.
				if got, _ := message.Decode(b.Records[0]); string(got.Body) != "more" {
					t.Fatalf("round %d: the lost %.30v is %.30q of offset %d", round, m, got.Body, got.QueueOffset)
				}
			case err != nil || b.Status != ReadRemoved && b.Status != ReadOffsetTooSmall || b.Next <= m.offset:
				t.Fatalf("round %d: the lost %.30v is read as %v, next %d, %v", round, m, b.Status, b.Next, err)
			}
			b.Release()
		}
		if round == 1 {
			for i := len(d.all) - 4; i < len(d.all); i++ {
				m := d.all[i]
				got, err := s.Append(t.Context(), msg(m.topic, m.queue, "more"), DurabilitySync)
				if err != nil || got.QueueOffset != m.offset+1 || got.PhysicalOffset <= end {
					t.Errorf("appended behind %.30v: %+v, %v", m, got, err)
				}
			}
		}
		mustDo(t, s.Close())
	}
	s, _, err := d.open(d.disk, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := d.all[len(d.all)-1]
	b, err := s.Read(m.topic, m.queue, m.offset+1, ReadOptions{MaxMessages: 1})
	if err != nil || b.Status != ReadFound {
		t.Fatalf("the message behind the lost ones: %v, %v", b.Status, err)
	}
	if got, _ := message.Decode(b.Records[0]); string(got.Body) != "more" {
		t.Errorf("the message behind the lost ones is %q", got.Body)
	}
	b.Release()
}

// A file that is brought back after a start without it heals everything.
func TestOpen_lostFileIsBroughtBack(t *testing.T) {
	const lastFile = "/store/commitlog/00000000000000049152"
	for _, layout := range []QueueLayout{LayoutCompatible, LayoutCompact} {
		d := newDamageStoreOf(t, layout)
		cfg := testConfig()
		cfg.QueueLayout = layout
		was, err := vfs.ReadFile(d.disk, lastFile)
		mustDo(t, err)
		mustDo(t, d.disk.Remove(lastFile))
		s, _, err := d.open(d.disk, cfg)
		mustDo(t, err)
		if _, err := s.Append(t.Context(), msg("A", 0, "more"), DurabilitySync); err != nil {
			t.Fatal(err)
		}
		mustDo(t, s.Close())
		mustDo(t, vfs.WriteFile(d.disk, lastFile, was))
		s, _, err = d.open(d.disk, cfg)
		mustDo(t, err)
		if err := d.served(s, none); err != nil {
			t.Errorf("%v: %v", layout, err)
		}
		mustDo(t, s.Close())
	}
}

// Queues that are built behind the start keep their next offsets, too, also when
// nothing is appended before the next one.
func TestOpen_lostEndAndQueuesBuiltBehind(t *testing.T) {
	d := newDamageStore(t)
	mustDo(t, d.disk.Remove("/store/commitlog/00000000000000049152"))
	mustDo(t, d.disk.RemoveAll("/store/"+filesFolder))
	cfg := testConfig()
	cfg.RebuildBehind = 1
	for round := range 3 {
		s, log, err := d.open(d.disk, cfg)
		mustDo(t, err)
		if behind := s.rebuilding.Load() != nil; behind != (round == 0) {
			t.Errorf("round %d: built behind the start: %v\n%s", round, behind, log)
		}
		mustDo(t, s.finishRebuild(ctx))
		if err := d.served(s, segment(3)); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		for _, m := range d.all[len(d.all)-4:] {
			if _, next := s.QueueOffsets(m.topic, m.queue); next != m.offset+1 {
				t.Errorf("round %d: %s queue %d ends at %d, want %d", round, m.topic, m.queue, next, m.offset+1)
			}
		}
		mustDo(t, s.Close())
	}
}

// A damaged place in front of the end that was synced is no torn tail, whatever
// the times say: after a clock that was ahead they say nothing.
func TestOpen_damagedInFrontOfWhatWasSynced(t *testing.T) {
	d := newDamageStore(t)
	b, err := vfs.ReadFile(d.disk, "/store/checkpoint")
	mustDo(t, err)
	copy(b, make([]byte, 16))
	mustDo(t, vfs.WriteFile(d.disk, "/store/checkpoint", b))
	mustDo(t, vfs.WriteFile(d.disk, "/store/abort", nil))
	victim := d.all[50]
	mustDo(t, flipByte(d.disk, fmt.Sprintf("/store/commitlog/%020d", victim.phys/(16<<10)*(16<<10)), victim.phys%(16<<10)+100, 0x55))
	if log, err := d.check(d.disk, testConfig(), func(m modelMessage) bool { return m.phys == victim.phys }); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}

// A checkpoint of random bytes is not believed, and written anew.
func TestOpen_damagedCheckpoint(t *testing.T) {
	for name, change := range map[string]func(b []byte){
		"random":                  func(b []byte) { copy(b, strings.Repeat("\x5a\x13\xfe", 1400)) },
		"reached has another bit": func(b []byte) { b[42] ^= 1 },
		"behind the values":       func(b []byte) { b[4000] = 1 },
	} {
		d := newDamageStore(t)
		b, err := vfs.ReadFile(d.disk, "/store/checkpoint")
		mustDo(t, err)
		change(b)
		mustDo(t, vfs.WriteFile(d.disk, "/store/checkpoint", b))
		if log, err := d.check(d.disk, testConfig(), none); err != nil || !strings.Contains(log, "checkpoint damaged") || strings.Contains(log, "lost_from") {
			t.Errorf("%s: %v, %s", name, err, log)
		}
		s, log, err := d.open(d.disk, testConfig())
		if err != nil || strings.Contains(log, "checkpoint damaged") {
			t.Fatalf("%s, opened again: %v, %s", name, err, log)
		}
		mustDo(t, s.Close())
	}
}

// What a start cuts off the commit log is kept.
func TestOpen_keepsWhatItCuts(t *testing.T) {
	d := newDamageStore(t)
	const file = "/store/commitlog/00000000000000032768"
	was, err := vfs.ReadFile(d.disk, file)
	mustDo(t, err)
	// Not noted as synced, a damaged record in the third file, a kill.
	mustDo(t, d.disk.Remove("/store/checkpoint"))
	mustDo(t, d.disk.RemoveAll("/store/"+filesFolder))
	mustDo(t, d.disk.Remove("/store/"+directoryFile))
	mustDo(t, vfs.WriteFile(d.disk, "/store/abort", nil))
	victim := d.all[0]
	for _, m := range d.all {
		if m.phys/(16<<10) == 2 {
			victim = m
		}
	}
	mustDo(t, flipByte(d.disk, file, victim.phys%(16<<10)+100, 0x55))
	s, log, err := d.open(d.disk, testConfig())
	mustDo(t, err)
	mustDo(t, s.Close())
	dir := "/store/" + cutFolder + "/" + later().UTC().Format("20060102T150405Z") + "/commitlog"
	names := list(t, d.disk, dir)
	if len(names) != 2 || names[0] != fmt.Sprintf("%020d", victim.phys) || names[1] != "00000000000000049152" {
		t.Fatalf("kept %v, cut at %d; logged\n%s", names, victim.phys, log)
	}
	kept, err := vfs.ReadFile(d.disk, dir+"/"+names[0])
	mustDo(t, err)
	want := was[victim.phys%(16<<10):]
	want[100] ^= 0x55
	if string(kept) != strings.TrimRight(string(want), "\x00") || !strings.Contains(log, dir+"/"+names[0]) {
		t.Errorf("kept %d bytes, logged\n%s", len(kept), log)
	}
	// A folder that is full gets no more.
	if k, err := s.keepCut(); err != nil || k.Dir == dir || k.Bytes >= maxCutBytes {
		t.Errorf("%+v, %v", k, err)
	}
}
