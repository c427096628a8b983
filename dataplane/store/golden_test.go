package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/queuelog"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

type manifest struct {
	MaxOffsets map[string]int64 `json:"maxOffsets"`
	CommitLog  struct {
		MaxOffset    int64 `json:"maxOffset"`
		BlankRecords []struct {
			Position int64
			Left     int32
		} `json:"blankRecords"`
		Records []struct {
			PhysicalOffset, QueueOffset, BornTimestamp, StoreTimestamp, PreparedTransactionOffset, TagsCode int64
			Size, QueueID, Flag, SysFlag, ReconsumeTimes                                                    int32
			BodyCRC                                                                                         uint32
			BornHost, StoreHost, BodySha256, Topic, PropertyText, OffsetMsgID                               string
			Properties                                                                                      map[string]string
		}
	} `json:"commitLog"`
	ConsumeQueues []struct {
		Topic   string
		QueueID int32
		Files   []string
		Units   [][3]int64
	} `json:"consumeQueues"`
	RecoveredByRealBroker []struct {
		Variant, Note string
		Patch         []struct {
			File, Hex, Delete string
			Offset            int64
		}
		AfterStart struct {
			Records            int
			CommitLogMaxOffset int64
			QueueMaxOffsets    map[string]int64
		}
	}
}

// golden unpacks a recorded store and returns its folder and manifest.
func golden(t *testing.T, name string) (string, *manifest) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	zr, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.NewDecoder(zr).Decode(&m); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/" + name + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if zr, err = gzip.NewReader(f); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return filepath.Join(dir, name), &m
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
				if err = os.WriteFile(path, data, 0o640); err == nil {
					err = os.Chtimes(path, h.ModTime, h.ModTime)
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func openGolden(t *testing.T, dir string) *Store {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Dir, cfg.SegmentBytes, cfg.QueueSegmentBytes, cfg.Preallocate = dir, 1<<20, 2000, false
	cfg.IndexSlots, cfg.IndexEntries, cfg.IndexCompatible = 100, 200, true
	s, err := Open(cfg, Deps{FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// files returns the content of all files below dir/sub.
func files(t *testing.T, dir, sub string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(filepath.Join(dir, sub), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(dir, path)
			out[rel] = string(b)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}

func sameFiles(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("file %s differs: %d bytes, want %d", name, len(got[name]), len(want[name]))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("file %s is new", name)
		}
	}
}

// checkRecords compares every record of the commit log with the manifest and
// encodes it again.
func checkRecords(t *testing.T, s *Store, m *manifest) {
	t.Helper()
	sc := s.clog.Scan(0, m.CommitLog.MaxOffset)
	for i, want := range m.CommitLog.Records {
		off, _, rec, err := sc.Next()
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		if _, err := message.Verify(rec); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		got, err := message.Decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(got.Body)
		if off != want.PhysicalOffset || got.PhysicalOffset != off || int32(len(rec)) != want.Size || got.QueueID != want.QueueID ||
			got.Flag != want.Flag || got.QueueOffset != want.QueueOffset || got.SysFlag != want.SysFlag || got.BodyCRC != want.BodyCRC ||
			got.BornTimestamp != want.BornTimestamp || got.StoreTimestamp != want.StoreTimestamp || got.BornHost.String() != want.BornHost ||
			got.StoreHost.String() != want.StoreHost || got.ReconsumeTimes != want.ReconsumeTimes || got.Topic != want.Topic ||
			got.PreparedTransactionOffset != want.PreparedTransactionOffset || hex.EncodeToString(sum[:]) != want.BodySha256 ||
			string(got.Properties) != want.PropertyText || message.TagsCodeOf(got.Properties) != want.TagsCode {
			t.Errorf("record %d: got %+v, want %+v", i, got, want)
		}
		if !maps.Equal(message.ParseProperties(got.Properties), want.Properties) {
			t.Errorf("record %d: properties %q, want %v", i, got.Properties, want.Properties)
		}
		if id := message.OffsetID(got.StoreHost, off); id != want.OffsetMsgID {
			t.Errorf("record %d: id %s, want %s", i, id, want.OffsetMsgID)
		}
		if again, err := message.AppendRecord(nil, &got); err != nil || !bytes.Equal(again, rec) {
			t.Errorf("record %d: encoded again it differs, %v", i, err)
		}
	}
	if _, _, _, err := sc.Next(); err != io.EOF {
		t.Errorf("behind the last record: %v", err)
	}
	for _, b := range m.CommitLog.BlankRecords {
		var head [8]byte
		if err := s.clog.ReadAt(head[:], b.Position); err != nil {
			t.Fatal(err)
		}
		if left, magic, _ := message.Head(head[:]); left != b.Left || magic != message.MagicBlank {
			t.Errorf("marker at %d: %d %x", b.Position, left, magic)
		}
	}
}

func checkQueues(t *testing.T, s *Store, m *manifest) {
	t.Helper()
	for _, want := range m.ConsumeQueues {
		q := s.findQueue(want.Topic, want.QueueID)
		if q == nil {
			t.Errorf("queue %s@%d is missing", want.Topic, want.QueueID)
			continue
		}
		for i, w := range want.Units {
			u, ok, err := q.log.At(int64(i))
			if err != nil || !ok || u != (queuelog.Unit{Offset: w[0], Size: int32(w[1]), TagsCode: w[2]}) {
				t.Errorf("unit %d of %s@%d: %+v %v %v, want %v", i, want.Topic, want.QueueID, u, ok, err, w)
			}
		}
		if _, hi := q.log.Range(); hi != int64(len(want.Units)) {
			t.Errorf("queue %s@%d has %d units, want %d", want.Topic, want.QueueID, hi, len(want.Units))
		}
	}
}

func maxOffsets(s *Store) map[string]int64 {
	got := map[string]int64{}
	for _, q := range s.allQueues() {
		_, got[fmt.Sprintf("%s@%d", q.topic, q.id)] = q.log.Range()
	}
	return got
}

// checkKeys looks for every record by its unique key, its keys and its tags.
func checkKeys(t *testing.T, s *Store, m *manifest) {
	t.Helper()
	if err := s.indexTo(t.Context(), s.visible()); err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, want := range m.CommitLog.Records {
		if want.SysFlag&message.SysFlagTransaction == message.SysFlagRollback {
			continue
		}
		queries := []KeyQuery{{Key: want.Properties[message.KeyUniqueKey], Kind: KeyUnique}, {Key: want.Properties[message.KeyTags], Kind: KeyTag}}
		for key := range strings.SplitSeq(want.Properties[message.KeyKeys], " ") {
			queries = append(queries, KeyQuery{Key: key, Kind: KeyWord}, KeyQuery{Key: key})
		}
		for _, q := range queries {
			if q.Key == "" {
				continue
			}
			looked++
			q.Topic, q.From, q.To, q.Before, q.Max = want.Topic, want.StoreTimestamp, want.StoreTimestamp, want.PhysicalOffset+1, 1
			got, err := s.FindByKey(t.Context(), q)
			if err != nil || len(got) != 1 {
				t.Fatalf("%+v: %d found, %v", q, len(got), err)
			}
			if f, _ := message.Parse(got[0]); f.PhysicalOffset != want.PhysicalOffset {
				t.Errorf("%+v: record %d, want %d", q, f.PhysicalOffset, want.PhysicalOffset)
			}
		}
	}
	if looked < len(m.CommitLog.Records) {
		t.Errorf("only %d looks for %d records", looked, len(m.CommitLog.Records))
	}
}

// The recorded key index is what we make of the recorded commit log, byte for
// byte but for the names, which are times.
func TestGolden_index(t *testing.T) {
	for _, name := range []string{"store-basic", "store-lmq"} {
		t.Run(name, func(t *testing.T) {
			dir, m := golden(t, name)
			content := func() (out []string) {
				all := files(t, dir, "index")
				for _, file := range slices.Sorted(maps.Keys(all)) {
					out = append(out, all[file])
				}
				return out
			}
			want := content()
			if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
				t.Fatal(err)
			}
			s := openGolden(t, dir)
			checkKeys(t, s, m)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			got := content()
			if len(want) == 0 || len(got) != len(want) {
				t.Fatalf("%d files, want %d", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("file %d differs", i)
				}
			}
		})
	}
}

// A recorded store opens, has every record, unit and key, and is not changed.
func TestGolden_basic(t *testing.T) {
	dir, m := golden(t, "store-basic")
	logs, queues, index := files(t, dir, "commitlog"), files(t, dir, "consumequeue"), files(t, dir, "index")
	s := openGolden(t, dir)
	checkRecords(t, s, m)
	checkQueues(t, s, m)
	checkKeys(t, s, m)
	if got := maxOffsets(s); !maps.Equal(got, m.MaxOffsets) {
		t.Errorf("max offsets %v, want %v", got, m.MaxOffsets)
	}
	if _, max := s.CommitLogRange(); max != m.CommitLog.MaxOffset {
		t.Errorf("commit log ends at %d, want %d", max, m.CommitLog.MaxOffset)
	}
	if c, ok := s.Topic("GoldenFifo"); !ok || c.Attributes[AttributeMessageType] != "FIFO" || c.WriteQueueNums != 2 || s.TopicsVersion().Counter != 21 {
		t.Errorf("topic %+v %v, version %+v", c, ok, s.TopicsVersion())
	}
	if g, ok := s.Group("GoldenRetryCG"); !ok || g.RetryMaxTimes == 0 || g.GroupRetryPolicy.Type == "" {
		t.Errorf("group %+v %v", g, ok)
	}
	var offsets struct {
		OffsetTable map[string]map[int32]int64 `json:"offsetTable"`
	}
	data, err := s.LoadConfig("consumerOffset.json") // has unquoted keys
	if err != nil || json.Unmarshal(data, &offsets) != nil || len(offsets.OffsetTable) == 0 {
		t.Errorf("consumer offsets %v, %v", offsets, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, files(t, dir, "commitlog"), logs)
	sameFiles(t, files(t, dir, "consumequeue"), queues)
	sameFiles(t, files(t, dir, "index"), index)
}

// Queues built from the recorded commit log have the recorded bytes, with and
// without a clean stop.
func TestGolden_rebuild(t *testing.T) {
	for _, name := range []string{"store-basic", "store-dirty"} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/clean=%v", name, clean), func(t *testing.T) {
				dir, _ := golden(t, name)
				queues := files(t, dir, "consumequeue")
				if name == "store-dirty" {
					// Its own queues are behind: let us complete them first.
					if err := openGolden(t, dir).Close(); err != nil {
						t.Fatal(err)
					}
					queues = files(t, dir, "consumequeue")
				}
				if err := os.RemoveAll(filepath.Join(dir, "consumequeue")); err != nil {
					t.Fatal(err)
				}
				if !clean {
					if err := os.WriteFile(filepath.Join(dir, "abort"), nil, 0o640); err != nil {
						t.Fatal(err)
					}
				}
				if err := openGolden(t, dir).Close(); err != nil {
					t.Fatal(err)
				}
				sameFiles(t, files(t, dir, "consumequeue"), queues)
			})
		}
	}
}

// What the real broker recovers from a killed store, we recover; where we
// mean to do better the difference is listed here.
func TestGolden_dirtyVariants(t *testing.T) {
	better := map[string]struct {
		records int
		max     string
	}{
		// Properties that the power cut took are noticed: no message without them.
		"torn": {84, "map[GoldenBurst@0:21 GoldenBurst@1:21 GoldenBurst@2:21 GoldenBurst@3:21]"},
		// The record that begins where the queues end gets its entry.
		"noabort": {85, "map[GoldenBurst@0:22 GoldenBurst@1:21 GoldenBurst@2:21 GoldenBurst@3:21]"},
	}
	_, m := golden(t, "store-dirty")
	if len(m.RecoveredByRealBroker) != 7 {
		t.Fatalf("%d variants", len(m.RecoveredByRealBroker))
	}
	for _, v := range m.RecoveredByRealBroker {
		t.Run(v.Variant, func(t *testing.T) {
			dir, m := golden(t, "store-dirty")
			for _, p := range v.Patch {
				var err error
				if p.Delete != "" {
					err = os.RemoveAll(filepath.Join(dir, p.Delete))
				} else {
					var f *os.File
					if f, err = os.OpenFile(filepath.Join(dir, p.File), os.O_RDWR, 0); err == nil {
						b, _ := hex.DecodeString(p.Hex)
						_, err = f.WriteAt(b, p.Offset)
						f.Close()
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			wantRecords, wantMax := v.AfterStart.Records, fmt.Sprint(v.AfterStart.QueueMaxOffsets)
			if b, ok := better[v.Variant]; ok {
				wantRecords, wantMax = b.records, b.max
			}
			s := openGolden(t, dir)
			for range 2 {
				sc := s.clog.Scan(s.CommitLogRange())
				n := 0
				for ; ; n++ {
					if _, _, _, err := sc.Next(); err == io.EOF {
						break
					} else if err != nil {
						t.Fatal(err)
					}
				}
				if got := fmt.Sprint(maxOffsets(s)); n != wantRecords || got != wantMax {
					t.Fatalf("%d records, %s; want %d, %s", n, got, wantRecords, wantMax)
				}
				for _, q := range s.allQueues() {
					if _, hi := q.log.Range(); int64(len(bodies(t, s, q.topic, q.id))) != hi {
						t.Errorf("queue %s@%d cannot be read", q.topic, q.id)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openGolden(t, dir)
			}
			m.CommitLog.Records = m.CommitLog.Records[:wantRecords]
			_, m.CommitLog.MaxOffset = s.CommitLogRange()
			checkRecords(t, s, m)
			checkKeys(t, s, m)
		})
	}
}

// Light queues load as they are. Batch consume queues are served and kept as
// the broker wrote them, and built anew with the same bytes; appends to such a
// topic are refused.
func TestGolden_lmq(t *testing.T) {
	dir, m := golden(t, "store-lmq")
	queues, batches := files(t, dir, "consumequeue"), files(t, dir, batchFolder)
	if len(batches) != 2 {
		t.Fatalf("batch queue files %v", slices.Collect(maps.Keys(batches)))
	}
	check := func(s *Store) {
		t.Helper()
		checkRecords(t, s, m)
		checkQueues(t, s, m)
		got := maxOffsets(s)
		for k, q := range s.allBatches() {
			_, got[fmt.Sprintf("%s@%d", k.topic, k.id)] = q.Range()
		}
		if !maps.Equal(got, m.MaxOffsets) {
			t.Errorf("max offsets %v, want %v", got, m.MaxOffsets)
		}
		checkBatches(t, s)
	}
	s := openGolden(t, dir)
	check(s)
	if _, err := s.Append(t.Context(), msg("GoldenBcq", 0, "x"), DurabilityDefault); !errors.Is(err, ErrUnsupported) {
		t.Errorf("append to a batch queue: %v", err)
	}
	mustDo(t, s.Close())
	sameFiles(t, files(t, dir, "consumequeue"), queues)
	sameFiles(t, files(t, dir, batchFolder), batches)

	for what, damage := range map[string]func() error{
		"gone": func() error { return os.RemoveAll(filepath.Join(dir, batchFolder)) },
		"cut short": func() error {
			return os.Truncate(filepath.Join(dir, batchFolder, "GoldenBcq", "0", "00000000000000000000"), 60)
		},
		"too long": func() error {
			return os.Truncate(filepath.Join(dir, batchFolder, "GoldenBcq", "0", "00000000000000000000"), 1<<20)
		},
	} {
		mustDo(t, damage())
		mustDo(t, os.WriteFile(filepath.Join(dir, "abort"), []byte("1"), 0o600))
		mustDo(t, os.Truncate(filepath.Join(dir, "checkpoint"), 0)) // the whole log is looked at
		s = openGolden(t, dir)
		check(s)
		mustDo(t, s.Close())
		t.Log(what)
		sameFiles(t, files(t, dir, batchFolder), batches)
	}
}

// checkBatches reads the recorded batch consume queues from every offset.
func checkBatches(t *testing.T, s *Store) {
	t.Helper()
	type record struct{ base, next, phys int64 }
	want := map[int32][]record{0: {{0, 4, 1316}, {4, 10, 3010}, {10, 11, 4052}}, 1: {{0, 5, 2098}}}
	for id, records := range want {
		for _, r := range records {
			for at := r.base; at < r.next; at++ {
				b, err := s.Read("GoldenBcq", id, at, ReadOptions{MaxMessages: 1})
				if err != nil || b.Status != ReadFound || len(b.Records) != 1 || b.Next != r.next {
					t.Fatalf("queue %d message %d: %v, %v, %d records, next %d", id, at, b.Status, err, len(b.Records), b.Next)
				}
				if f, err := message.Verify(b.Records[0]); err != nil || f.PhysicalOffset != r.phys || f.QueueOffset != r.base {
					t.Fatalf("queue %d message %d: record at %d with offset %d, %v", id, at, f.PhysicalOffset, f.QueueOffset, err)
				}
				b.Release()
			}
		}
		last := records[len(records)-1]
		b, err := s.Read("GoldenBcq", id, 0, ReadOptions{})
		if err != nil || len(b.Records) != len(records) || b.Next != last.next {
			t.Fatalf("queue %d: %d records, next %d, %v", id, len(b.Records), b.Next, err)
		}
		b.Release()
		if b, err := s.Read("GoldenBcq", id, last.next, ReadOptions{}); err != nil || b.Status != ReadNotFound {
			t.Fatalf("queue %d at the end: %v, %v", id, b.Status, err)
		}
		if lo, hi := s.QueueOffsets("GoldenBcq", id); lo != 0 || hi != last.next {
			t.Fatalf("queue %d has %d to %d", id, lo, hi)
		}
	}
}
