package storetool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// ownStore makes a small store of ours that was stopped cleanly, and returns
// its folder and the offsets of its records.
func ownStore(t *testing.T) (dir string, records []store.Appended) {
	t.Helper()
	return ownStoreOf(t, store.LayoutCompatible)
}

func ownStoreOf(t *testing.T, layout store.QueueLayout) (dir string, records []store.Appended) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	cfg := Sizes{16 << 10, 1200, 8, 30}.config(dir)
	cfg.QueueLayout = layout
	cfg.StoreHost = netip.MustParseAddrPort("10.1.2.4:10911")
	now := time.UnixMilli(1_700_000_000_000)
	s, err := store.Open(cfg, store.Deps{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"A", "%RETRY%g"} {
		if err := s.PutTopic(store.DefaultTopicConfig(topic)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.PutGroup(store.GroupConfig{GroupName: "g"}); err != nil {
		t.Fatal(err)
	}
	for i := range 120 {
		now = now.Add(10 * time.Second)
		m := &message.Message{
			Topic: "AB"[i%2 : i%2+1], QueueID: int32(i / 2 % 2), Body: []byte(fmt.Sprintf("%d%s", i, strings.Repeat("b", 300))),
			BornHost: netip.MustParseAddrPort("10.1.2.3:40000"), Properties: message.AppendProperty(nil, message.KeyKeys, fmt.Sprintf("k%d", i)),
		}
		a, err := s.Append(t.Context(), m, store.DurabilityAsync)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, a)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, records
}

func verify(t *testing.T, dir string) *Report {
	t.Helper()
	r, err := Verify(t.Context(), Options{Dir: dir, Sizes: Sizes{16 << 10, 1200, 8, 30}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only returns the name of the single file below a folder, or the first.
func first(t *testing.T, dir, sub string) string {
	t.Helper()
	infos, err := os.ReadDir(filepath.Join(dir, sub))
	if err != nil || len(infos) == 0 {
		t.Fatalf("%s: %v", sub, err)
	}
	return filepath.Join(sub, infos[0].Name())
}

// flip changes one byte of a file, and back.
func flip(t *testing.T, dir, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x55
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// Every byte of a record's head, of a queue entry and of an index header that
// was changed is named, with file and byte. The layout has no checksum over
// some fields of a record: those are listed here.
func TestVerify_namesEveryChangedByte(t *testing.T) {
	dir, records := ownStore(t)
	if r := verify(t, dir); !r.Clean || len(r.Faults)+len(r.Dirty)+len(r.Notes) > 0 || r.Records != 120 || r.Units != 120 {
		t.Fatalf("%+v", r)
	}
	segment, at := "commitlog/00000000000000000000", records[4].PhysicalOffset
	fields := []struct {
		name     string
		from, to int64
		want     string // finding, "" for none
	}{
		{"size", 0, 4, "record-damaged"}, {"magic", 4, 8, "record-damaged"}, {"body checksum", 8, 12, "record-damaged"},
		{"queue id", 12, 16, "queue-"}, {"flag", 16, 20, ""}, {"queue offset", 20, 28, "queue-"}, {"physical offset", 28, 36, "record-damaged"},
		{"system flag, upper part", 36, 39, ""}, {"system flag", 39, 40, "record-damaged"}, {"born time", 40, 48, ""}, {"born host", 48, 56, ""},
		{"store time", 56, 62, "index-entry"}, {"store time below 65 s", 62, 64, "*"}, {"store host", 64, 72, ""}, {"reconsume times", 72, 76, ""},
		{"prepared transaction offset", 76, 84, ""}, {"body length", 84, 88, "record-damaged"}, {"body", 88, 90, "record-damaged"},
	}
	for _, f := range fields {
		for b := f.from; b < f.to; b++ {
			checkFlip(t, dir, segment, at+b, "record, "+f.name, f.want)
		}
	}
	for b := range int64(20) {
		checkFlip(t, dir, "consumequeue/A/0/00000000000000000000", 20+b, "queue entry", "queue-entry")
	}
	index := first(t, dir, "sluice.index")
	for b := range int64(40) {
		checkFlip(t, dir, index, b, "index header", "index-")
	}
	for b := range int64(20) {
		checkFlip(t, dir, index, 40+8*4+20+b, "index entry", "index-")
	}
	checkFlip(t, dir, index, 40+3, "index slot", "index-")
	checkFlip(t, dir, "queues.state", 0, "queue states", "queue-states")
	checkFlip(t, dir, "config/topics.json", 0, "topics", "config-damaged")
	checkFlip(t, dir, "config/sluice.indexKey.json", 0, "secret of the index", "config-damaged")
	if r := verify(t, dir); len(r.Faults)+len(r.Dirty) > 0 {
		t.Fatalf("changed back: %+v", r)
	}
}

// The compact layout is verified like the other: each changed byte of a page
// in use and of the directory is named, and a repair makes it good.
func TestVerify_compactLayout(t *testing.T) {
	dir, _ := ownStoreOf(t, store.LayoutCompact)
	if r := verify(t, dir); !r.Clean || len(r.Faults)+len(r.Dirty)+len(r.Notes) > 0 || r.Records != 120 || r.Units != 120 || r.Queues != 4 {
		t.Fatalf("%+v", r)
	}
	pages := "sluice.queues/00000000000000000000"
	for b := range int64(44) {
		checkFlip(t, dir, pages, b, "page", "queue-")
	}
	for b := range int64(40) {
		checkFlip(t, dir, "sluice.queues/directory", b, "directory", "queue-")
	}
	flip(t, dir, pages, 30)
	if _, err := Repair(t.Context(), Options{Dir: dir}, RepairOptions{Rebuild: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, dir); len(r.Faults)+len(r.Dirty) > 0 || r.Units != 120 {
		t.Errorf("after the repair: %+v", r)
	}
	if s, err := Inspect(Options{Dir: dir}); err != nil || len(s.Queues) != 4 || s.Queues[0].To != 30 {
		t.Errorf("inspect: %+v, %v", s, err)
	}
}

// checkFlip wants a finding whose name begins with want ("*" for whatever).
func checkFlip(t *testing.T, dir, file string, at int64, what, want string) {
	t.Helper()
	flip(t, dir, file, at)
	defer flip(t, dir, file, at)
	r := verify(t, dir)
	for _, f := range r.Faults {
		if f.What == "" || f.Fix == "" || f.File == "" {
			t.Errorf("%s, byte %d: %+v", what, at, f)
		}
		if want != "" && strings.HasPrefix(f.Name, want) {
			return
		}
	}
	if want != "*" && (want != "" || len(r.Faults) > 0) {
		t.Errorf("%s, byte %d of %s: found %v, want %q", what, at, file, r.Faults, want)
	}
}

// Missing, empty, short, long and foreign files are named.
func TestVerify_namesFilesThatDoNotFit(t *testing.T) {
	const middle = "commitlog/00000000000000016384"
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string // first fault, or "dirty: " and the first of those
	}{
		"segment missing": {func(dir string) error { return os.Remove(filepath.Join(dir, middle)) }, "segment-missing"},
		"segment empty":   {func(dir string) error { return os.Truncate(filepath.Join(dir, middle), 0) }, "segment-short"},
		"segment short":   {func(dir string) error { return os.Truncate(filepath.Join(dir, middle), 5000) }, "segment-short"},
		"segment long":    {func(dir string) error { return os.Truncate(filepath.Join(dir, middle), 20000) }, "segment-size"},
		"segment foreign": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "commitlog/00000000000000000007"), []byte("x"), 0o600)
		}, "segment-size"},
		"last empty": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "commitlog/00000000000000049152"), nil, 0o600)
		}, "dirty: segment-incomplete"},
		"queue missing": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "consumequeue/A/1")) }, "queue-lacks"},
		"queue short": {func(dir string) error {
			return os.Truncate(filepath.Join(dir, "consumequeue/A/1/00000000000000000000"), 40)
		}, "queue-lacks"},
		"queue long": {func(dir string) error {
			return os.Truncate(filepath.Join(dir, "consumequeue/A/1/00000000000000000000"), 1220)
		}, "queue-file-size"},
		"index missing":    {func(dir string) error { return os.Remove(filepath.Join(dir, first(t, dir, "sluice.index"))) }, "index-lacks"},
		"index short":      {func(dir string) error { return os.Truncate(filepath.Join(dir, first(t, dir, "sluice.index")), 100) }, "index-file"},
		"checkpoint short": {func(dir string) error { return os.Truncate(filepath.Join(dir, "checkpoint"), 24) }, "checkpoint-size"},
		"topics empty":     {func(dir string) error { return os.Truncate(filepath.Join(dir, "config/topics.json"), 0) }, "config-damaged"},
		"abort there":      {func(dir string) error { return os.WriteFile(filepath.Join(dir, "abort"), nil, 0o600) }, "dirty: unclean-stop"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := ownStore(t)
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			r := verify(t, dir)
			got := ""
			if len(r.Faults) > 0 {
				got = r.Faults[0].Name
			} else if len(r.Dirty) > 0 {
				got = "dirty: " + r.Dirty[0].Name
			}
			if got != c.want && !strings.Contains(names(r.Faults), c.want) {
				t.Errorf("got %s, want %s: %+v", got, c.want, r)
			}
		})
	}
}

// What a repair cuts off the commit log is kept.
func TestRepair_keepsWhatItCuts(t *testing.T) {
	dir, records := ownStore(t)
	last := records[len(records)-1]
	segment := fmt.Sprintf("commitlog/%020d", last.PhysicalOffset/(16<<10)*(16<<10))
	at := last.PhysicalOffset % (16 << 10)
	whole, err := os.ReadFile(filepath.Join(dir, segment))
	if err != nil {
		t.Fatal(err)
	}
	flip(t, dir, segment, at+100) // in its body
	if r := verify(t, dir); names(r.Faults) == "" {
		t.Fatalf("%+v", r)
	}
	done, err := Repair(t.Context(), Options{Dir: dir}, RepairOptions{Rebuild: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	kept := ""
	for _, c := range done.Changes {
		if c.Copy != "" {
			kept += c.Copy
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, kept))
	if err != nil || len(b) > int(last.Size) || len(b) < int(last.Size)-1 || string(b[:100]) != string(whole[at:at+100]) {
		t.Fatalf("%s: %d bytes, %v; %+v", kept, len(b), err, done)
	}
	if r := verify(t, dir); len(r.Faults)+len(r.Dirty) > 0 || r.Records != 119 {
		t.Errorf("after the repair: %+v", r)
	}
}

// A folder that another process has open is only looked at.
func TestStoretool_refusesAFolderInUse(t *testing.T) {
	if dir := os.Getenv("STORETOOL_HOLD"); dir != "" {
		s, err := store.Open(Sizes{16 << 10, 1200, 8, 30}.config(dir), store.Deps{})
		fmt.Println("opened", err)
		io.Copy(io.Discard, os.Stdin) // until the other one has seen enough
		s.Close()
		return
	}
	dir, _ := ownStore(t)
	holder := exec.Command(os.Args[0], "-test.run=TestStoretool_refusesAFolderInUse")
	holder.Env = append(os.Environ(), "STORETOOL_HOLD="+dir)
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "opened <nil>\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	o := Options{Dir: dir}
	_, verr := Verify(t.Context(), o)
	_, eerr := Export(t.Context(), o, ExportFilter{Queue: -1}, io.Discard)
	_, rerr := Repair(t.Context(), o, RepairOptions{DryRun: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	for what, err := range map[string]error{"verify": verr, "export": eerr, "repair": rerr} {
		if !errors.Is(err, store.ErrLocked) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s, err := Inspect(o); err != nil || s.State != StateInUse || len(s.Queues) != 4 {
		t.Errorf("inspect: %+v, %v", s, err)
	}
	in.Close()
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, dir); !r.Clean || len(r.Faults) > 0 {
		t.Errorf("afterwards: %+v", r)
	}
	if _, err := Verify(t.Context(), Options{Dir: filepath.Join(dir, "nowhere")}); !errors.Is(err, ErrNoStore) {
		t.Errorf("no folder: %v", err)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// writeFile makes an empty file.
func writeFile(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// repaired repairs a folder.
func repaired(t *testing.T, dir string) *Repaired {
	t.Helper()
	done, err := Repair(t.Context(), Options{Dir: dir}, RepairOptions{Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return done
}
