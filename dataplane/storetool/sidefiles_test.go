package storetool

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/store"
)

func overwrite(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, dir, name, old, new string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || !strings.Contains(string(b), old) {
		t.Fatalf("%s: %q, %v", name, b, err)
	}
	overwrite(t, dir, name, strings.Replace(string(b), old, new, 1))
}

// Files beside the logs that are damaged or gone are named, each with what the
// next start does about it; that start agrees.
func TestVerify_namesSideFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string // name of the finding
		what   string // part of its text
	}{
		"checkpoint of random bytes":      {func(t *testing.T, dir string) { overwrite(t, dir, "checkpoint", strings.Repeat("\x13\xa7", 2048)) }, "checkpoint-damaged", "cannot be"},
		"checkpoint with another reached": {func(t *testing.T, dir string) { flip(t, dir, "checkpoint", 45) }, "checkpoint-damaged", "cannot be"},
		"checkpoint gone":                 {func(t *testing.T, dir string) { remove(t, dir, "checkpoint") }, "checkpoint-missing", "missing"},
		"format with a wrong sum": {func(t *testing.T, dir string) {
			replace(t, dir, "config/sluice.store.json", `"version":1`, `"version":7`)
		}, "config-damaged", "wrong checksum"},
		"format no JSON": {func(t *testing.T, dir string) { overwrite(t, dir, "config/sluice.store.json", "{") }, "config-damaged", "wrong checksum"},
		"topics gone": {func(t *testing.T, dir string) {
			remove(t, dir, "config/topics.json")
			remove(t, dir, "config/topics.json.bak")
		}, "topics-missing", "120 records"},
		"topics gone, not the copy": {func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "config/topics.json"), filepath.Join(dir, "config/topics.json.bak")); err != nil {
				t.Fatal(err)
			}
		}, "config-damaged", "it is missing; its copy, the version before, is good"},
		"topics damaged, no copy": {func(t *testing.T, dir string) {
			overwrite(t, dir, "config/topics.json", "x")
			remove(t, dir, "config/topics.json.bak")
		}, "config-damaged", "there is no copy"},
		"groups gone": {func(t *testing.T, dir string) {
			remove(t, dir, "config/subscriptionGroup.json")
			remove(t, dir, "config/subscriptionGroup.json.bak")
		}, "groups-missing", "%RETRY%g"},
		"terms of nonsense": {func(t *testing.T, dir string) { overwrite(t, dir, "epochFileCheckpoint", "nonsense") }, "terms-damaged", "first two lines"},
		"terms gone": {func(t *testing.T, dir string) {
			remove(t, dir, "epochFileCheckpoint")
			remove(t, dir, "epochFileCheckpoint.bak")
		}, "terms-missing", "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := ownStore(t)
			c.change(t, dir)
			before := fingerprint(t, dir)
			r := verify(t, dir)
			i := slices.IndexFunc(r.Faults, func(f Finding) bool { return f.Name == c.want && strings.Contains(f.What, c.what) })
			if i < 0 || len(r.Faults) != 1 || r.Faults[0].Fix == "" {
				t.Fatalf("found %v, want %s with %q", r.Faults, c.want, c.what)
			}
			if after := fingerprint(t, dir); after != before {
				t.Error("the folder has changed")
			}
			s, err := store.Open(Sizes{16 << 10, 1200, 8, 30}.config(dir), store.Deps{})
			if refuses := strings.Contains(r.Faults[0].Fix, "start refuses"); refuses != (err != nil) {
				t.Errorf("the fix is %q, and the start: %v", r.Faults[0].Fix, err)
			}
			if err == nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Compact queues without their directory are one finding, and the store does not
// change its layout.
func TestVerify_compactDirectoryMissing(t *testing.T) {
	dir, _ := ownStoreOf(t, store.LayoutCompact)
	remove(t, dir, "sluice.queues/directory")
	r := verify(t, dir)
	if names(r.Faults) != "queue-directory" || len(r.Dirty) > 0 {
		t.Errorf("%+v", r)
	}
	if s, err := Inspect(Options{Dir: dir}); err != nil || s.Layout != "compact" {
		t.Errorf("inspect: %+v, %v", s, err)
	}
	if done := repaired(t, dir); len(done.Faults) > 0 {
		t.Errorf("%+v", done)
	}
	if r := verify(t, dir); !r.Clean || len(r.Faults)+len(r.Dirty) > 0 || r.Units != 120 {
		t.Errorf("repaired: %+v", r)
	}
}

// A damaged page is one finding, with the messages that it has.
func TestVerify_compactPageDamaged(t *testing.T) {
	dir, _ := ownStoreOf(t, store.LayoutCompact)
	flip(t, dir, "sluice.queues/00000000000000000000", 5)
	r := verify(t, dir)
	if names(r.Faults) != "queue-page" || !strings.Contains(r.Faults[0].File, "messages 0 to 49") {
		t.Errorf("%+v", r.Faults)
	}
}

// A recorded folder that is ours by now and loses its newest record: what a
// repair leaves is good but for that.
func TestVerify_lostRecordOfARecordedFolder(t *testing.T) {
	dir := golden(t, "store-basic")
	repaired(t, dir)
	flip(t, dir, "commitlog/00000000000001048576", 450698+115)
	writeFile(t, dir, "abort")
	for _, want := range []string{"log-end-lost", ""} { // told by the repair that gives it up
		if done := repaired(t, dir); names(done.Faults) != want {
			t.Errorf("got %+v, want %q", done.Faults, want)
		}
	}
	r, err := Verify(t.Context(), Options{Dir: dir})
	if err != nil || len(r.Faults)+len(r.Dirty) > 0 || r.Records != 238 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A lost end of the log is the first thing that is said, and what follows from it
// is one finding for a queue.
func TestVerify_lostEndOfTheLog(t *testing.T) {
	for _, layout := range []store.QueueLayout{store.LayoutCompatible, store.LayoutCompact} {
		for _, unclean := range []bool{false, true} {
			for _, what := range []string{"file missing", "record damaged", "all gone"} {
				dir, records := ownStoreOf(t, layout)
				end := int64(0)
				switch last := records[len(records)-1].PhysicalOffset; what {
				case "file missing":
					remove(t, dir, "commitlog/00000000000000032768")
					end = 32768
				case "record damaged":
					flip(t, dir, "commitlog/00000000000000032768", last-32768+100)
					end = last
				case "all gone":
					for _, name := range []string{"00000000000000000000", "00000000000000016384", "00000000000000032768"} {
						remove(t, dir, "commitlog/"+name)
					}
				}
				if unclean {
					writeFile(t, dir, "abort")
				}
				r := verify(t, dir)
				if len(r.Faults) == 0 || r.Faults[0].Name != "log-end-lost" || len(r.Faults) > 6 || !strings.Contains(r.Faults[0].What, "messages are lost") {
					t.Errorf("%v, %s, unclean=%v: %d faults, %v; dirty %v", layout, what, unclean, len(r.Faults), r.Faults, r.Dirty)
					continue
				}
				lost := 0
				for _, a := range records {
					if a.PhysicalOffset >= end {
						lost++
					}
				}
				if _, rest, _ := strings.Cut(r.Faults[0].What, "; "); !strings.HasPrefix(rest, strconv.Itoa(lost)+" messages are lost") {
					t.Errorf("%v, %s, unclean=%v: %s; want %d", layout, what, unclean, r.Faults[0].What, lost)
				}
				repaired(t, dir)
				again := verify(t, dir)
				for _, f := range slices.Concat(again.Faults, again.Dirty) {
					if f.Name != "log-end-lost" && f.Name != "segment-missing" && f.Name != "messages-lost" {
						t.Errorf("%v, %s, unclean=%v, repaired: %v", layout, what, unclean, f)
					}
				}
			}
		}
	}
}
