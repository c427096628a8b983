package storetool

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// golden unpacks a store that was recorded from a real RocketMQ broker and
// returns its folder; see ../store/testdata/README.md.
func golden(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open("../store/testdata/" + name + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return filepath.Join(dir, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o750)
		} else {
			var data []byte
			if data, err = io.ReadAll(tr); err == nil {
				err = os.WriteFile(path, data, 0o640)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fingerprint describes every file of a folder with content and times.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		all[path] = fmt.Sprint(len(b), info.ModTime(), hex.EncodeToString(sum[:]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintln(&out, name, all[name])
	}
	return out.String()
}

// What a real broker has written is found good, by the sizes that the files
// have, and not a byte of it changes. The killed one is dirty, not damaged.
func TestVerify_recordedFolders(t *testing.T) {
	for name, want := range map[string]struct {
		clean                bool
		records, units, keys int64
		dirty                string
	}{
		"store-basic": {true, 239, 239, 659, ""},
		"store-lmq":   {true, 8, 12, 16, ""},
		"store-dirty": {false, 85, 60, 180, "unclean-stop queue-behind queue-behind queue-behind queue-behind index-behind"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := golden(t, name)
			before := fingerprint(t, dir)
			var last int64
			r, err := Verify(t.Context(), Options{Dir: dir, Progress: func(done, total int64) {
				if done < last || done > total {
					t.Errorf("progress %d of %d after %d", done, total, last)
				}
				last = done
			}})
			if err != nil {
				t.Fatal(err)
			}
			if after := fingerprint(t, dir); after != before {
				t.Errorf("the folder has changed:\n%s\n%s", before, after)
			}
			if r.Sizes != (Sizes{1 << 20, 2000, 100, 200}) {
				t.Errorf("sizes %+v", r.Sizes)
			}
			if r.Clean != want.clean || r.Records != want.records || r.Units != want.units || r.Keys != want.keys || len(r.Faults) > 0 || names(r.Dirty) != want.dirty || last == 0 {
				t.Errorf("got %+v, want %+v", r, want)
			}
		})
	}
}

func names(list []Finding) string {
	var all []string
	for _, f := range list {
		all = append(all, f.Name)
	}
	return strings.Join(all, " ")
}

// Every message of the recorded folder is exported, with and without limits.
func TestExport_recordedFolder(t *testing.T) {
	dir := golden(t, "store-basic")
	export := func(f ExportFilter) (lines []Exported) {
		t.Helper()
		var out bytes.Buffer
		r, err := Export(t.Context(), Options{Dir: dir}, f, &out)
		if err != nil || r.Damaged > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		for d := json.NewDecoder(&out); d.More(); {
			var e Exported
			if err := d.Decode(&e); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, e)
		}
		if int64(len(lines)) != r.Messages {
			t.Errorf("%d lines, %d told", len(lines), r.Messages)
		}
		return lines
	}
	all := export(ExportFilter{Queue: -1})
	if len(all) != 239 { // 239 entries are in the queues
		t.Fatalf("%d messages", len(all))
	}
	for _, f := range []ExportFilter{
		{Topic: all[0].Topic, Queue: -1}, {Topic: all[0].Topic, Queue: 1}, {Queue: -1, From: all[100].StoreTimestamp}, {Queue: -1, To: all[100].StoreTimestamp},
		{Queue: -1, From: all[238].StoreTimestamp},
	} {
		var want []Exported
		for _, e := range all {
			if (f.Topic == "" || e.Topic == f.Topic) && (f.Queue < 0 || e.Queue == f.Queue) && e.StoreTimestamp >= f.From && (f.To == 0 || e.StoreTimestamp < f.To) {
				want = append(want, e)
			}
		}
		if got := export(f); len(want) == 0 || len(want) == len(all) || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %d messages, want %d", f, len(got), len(want))
		}
	}
}

// Inspect tells the ranges that the manifest of the recorded folder has.
func TestInspect_recordedFolder(t *testing.T) {
	dir := golden(t, "store-dirty")
	before := fingerprint(t, dir)
	s, err := Inspect(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if fingerprint(t, dir) != before {
		t.Error("the folder has changed")
	}
	if s.State != StateUnclean || len(s.Segments) != 2 || s.Segments[0].FirstTime == 0 || len(s.Queues) != 4 || s.Queues[3] != (QueueRange{"GoldenBurst", 3, 0, 15, 16028, 1, false}) ||
		len(s.Index) != 1 || s.Index[0].Keys != 180 || s.Checkpoint.CommitLog == 0 {
		t.Errorf("%+v", s)
	}
}

// A dry run tells what the repair then does, and the repaired folder is clean.
func TestRepair_recordedFolder(t *testing.T) {
	for _, rebuild := range []bool{false, true} {
		dir := golden(t, "store-dirty")
		before := fingerprint(t, dir)
		o := RepairOptions{DryRun: true, Rebuild: rebuild, Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) }, Logger: slog.New(slog.DiscardHandler)}
		dry, err := Repair(t.Context(), Options{Dir: dir}, o)
		if err != nil || len(dry.Changes) == 0 || fingerprint(t, dir) != before {
			t.Fatalf("dry run: %+v, %v", dry, err)
		}
		o.DryRun = false
		done, err := Repair(t.Context(), Options{Dir: dir}, o)
		if err != nil || len(done.Changes) != len(dry.Changes) {
			t.Fatalf("%+v, %v; the dry run said %+v", done, err, dry)
		}
		r, err := Verify(t.Context(), Options{Dir: dir})
		if err != nil || !r.Clean || len(r.Dirty)+len(r.Faults) > 0 || r.Records != 85 || r.Units != 85 || r.Keys != 255 {
			t.Errorf("rebuild %v: %+v, %v", rebuild, r, err)
		}
	}
}
