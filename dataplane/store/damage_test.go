package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

var ctx = context.Background()

// damageStore is a store that was stopped cleanly, and what is in it.
type damageStore struct {
	disk *vfs.Mem
	all  []modelMessage // by commit log offset
	seen *events        // of the stores that open opens
}

// newDamageStore makes a store of some 130 messages in 4 queues and 4 commit
// log files.
func newDamageStore(t *testing.T) *damageStore {
	t.Helper()
	return newDamageStoreOf(t, LayoutCompatible)
}

func newDamageStoreOf(t *testing.T, layout QueueLayout) *damageStore {
	t.Helper()
	cfg := testConfig()
	cfg.QueueLayout = layout
	return newDamageStoreWith(t, cfg)
}

func newDamageStoreWith(t *testing.T, cfg Config) *damageStore {
	t.Helper()
	now := time.UnixMilli(1_700_000_000_000)
	d := &damageStore{seen: &events{}, disk: vfs.NewMem(func() time.Time { return now })}
	s, err := Open(cfg, Deps{FS: d.disk, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"A", "B"} {
		if err := s.PutTopic(DefaultTopicConfig(topic)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 130 {
		now = now.Add(10 * time.Second)
		m := msg("AB"[i%2:i%2+1], int32(i/2%2), fmt.Sprintf("%d%s", i, strings.Repeat("b", 350)))
		m.Properties = message.AppendProperty(m.Properties, message.KeyKeys, fmt.Sprintf("k%d", i))
		a, err := s.Append(t.Context(), m, DurabilitySync)
		if err != nil {
			t.Fatal(err)
		}
		d.all = append(d.all, modelMessage{m.Topic, m.QueueID, a.QueueOffset, a.PhysicalOffset, string(m.Body), fmt.Sprintf("k%d", i)})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// later is a clock that stands a minute behind the newest message.
func later() time.Time { return time.UnixMilli(1_700_000_000_000).Add(time.Hour) }

// open opens a disk and returns what was logged; what happens comes to d.seen, too.
func (d *damageStore) open(disk vfs.FS, cfg Config) (*Store, string, error) {
	var log bytes.Buffer
	s, err := Open(cfg, Deps{FS: disk, Now: later, Logger: slog.New(slog.NewTextHandler(&log, nil)), Events: d.seen.add})
	return s, log.String(), err
}

// check reads every message and compares: those for which lost is true may be
// gone, no other, and none may be another message than it was. Then an append
// goes to the offset behind, and all that again after a clean stop.
func (d *damageStore) check(disk vfs.FS, cfg Config, lost func(m modelMessage) bool) (log string, err error) {
	s, log, err := d.open(disk, cfg)
	if err != nil {
		return log, err
	}
	if err := d.served(s, lost); err != nil {
		s.Close()
		return log, err
	}
	next := map[string]int64{}
	for _, m := range d.all {
		next[fmt.Sprint(m.topic, m.queue)] = m.offset + 1
	}
	if a, err := s.Append(ctx, msg("A", 0, "more"), DurabilitySync); err != nil || a.QueueOffset < next["A0"] && !lost(d.all[len(d.all)-2]) {
		s.Close()
		return log, fmt.Errorf("appended at %+v, want %d: %v", a, next["A0"], err)
	}
	if err := s.Close(); err != nil {
		return log, err
	}
	s, _, err = d.open(disk, cfg)
	if err != nil {
		return log, fmt.Errorf("opened again: %w", err)
	}
	defer s.Close()
	if err := d.served(s, lost); err != nil {
		return log, fmt.Errorf("opened again: %w", err)
	}
	return log, nil
}

// served is for a store that does not run.
func (d *damageStore) served(s *Store, lost func(m modelMessage) bool) error {
	if err := s.indexTo(ctx, s.visible()); err != nil {
		return err
	}
	return d.readable(s, lost)
}

func (d *damageStore) readable(s *Store, lost func(m modelMessage) bool) error {
	for _, m := range d.all {
		b, err := s.Read(m.topic, m.queue, m.offset, ReadOptions{MaxMessages: 1})
		if err != nil {
			return fmt.Errorf("%.30v: %w", m, err)
		}
		if b.Status != ReadFound {
			if !lost(m) {
				return fmt.Errorf("%.30v: %v", m, b.Status)
			}
			if b.Next <= m.offset && b.Status != ReadNotFound && b.Status != ReadOffsetTooBig && b.Status != ReadNoQueue {
				return fmt.Errorf("%.30v: %v, and no way on: next is %d", m, b.Status, b.Next)
			}
			continue
		}
		got, _ := message.Decode(b.Records[0])
		newest := m.phys == d.all[len(d.all)-1].phys // of its queue: nothing contradicts its offset
		if got.QueueOffset > m.offset && (string(got.Body) != m.body || newest) && lost(m) {
			continue // passed over
		}
		if string(got.Body) != m.body || got.PhysicalOffset != m.phys || got.QueueOffset != m.offset || got.QueueID != m.queue {
			return fmt.Errorf("%.30v became %.30q of queue %d at %d", m, got.Body, got.QueueID, got.QueueOffset)
		}
		b.Release()
		found, err := s.FindByKey(ctx, KeyQuery{Topic: m.topic, Key: m.key, To: math.MaxInt64, Max: MaxFound})
		if err != nil || len(found) != 1 && !lost(m) {
			return fmt.Errorf("key of %.30v: %d found, %v", m, len(found), err)
		}
	}
	return nil
}

func none(modelMessage) bool { return false }

// segment is a filter for the messages of one commit log file.
func segment(n int64) func(modelMessage) bool {
	return func(m modelMessage) bool { return m.phys/(16<<10) == n }
}

// file finds the first file of a folder.
func firstFile(disk *vfs.Mem, dir string) string {
	infos, err := disk.ReadDir(dir)
	if err != nil || len(infos) == 0 {
		return dir + "/none"
	}
	return path.Join(dir, infos[0].Name)
}

// damage changes a file.
type damage struct {
	name   string
	change func(disk *vfs.Mem, file string) error
}

var fileDamages = []damage{
	{"missing", func(disk *vfs.Mem, file string) error { return disk.Remove(file) }},
	{"empty", func(disk *vfs.Mem, file string) error { return truncate(disk, file, func(int64) int64 { return 0 }) }},
	{"short", func(disk *vfs.Mem, file string) error {
		return truncate(disk, file, func(n int64) int64 { return n / 3 })
	}},
	{"too long", func(disk *vfs.Mem, file string) error {
		return truncate(disk, file, func(n int64) int64 { return n + 20 })
	}},
	{"foreign", func(disk *vfs.Mem, file string) error {
		info, err := disk.Stat(file)
		if err != nil {
			return err
		}
		return vfs.WriteFile(disk, file, bytes.Repeat([]byte("\xfeno such thing\x00"), int(info.Size)/15+1)[:info.Size])
	}},
}

func truncate(disk *vfs.Mem, file string, size func(int64) int64) error {
	f, err := disk.Open(file)
	if err != nil {
		return err
	}
	n, err := f.Size()
	if err == nil {
		err = f.Truncate(size(n))
	}
	return errors.Join(err, f.Close())
}

// Every kind of file, damaged in every way, after a clean and an unclean stop:
// what Open says and what is served. A folder is refused only where going on
// would lose something.
func TestOpen_damagedFiles(t *testing.T) {
	d := newDamageStore(t)
	type want struct {
		err  error // of Open; nil opens
		told Event // an event of this type happens
		lost func(modelMessage) bool
	}
	fine := want{lost: none}
	all := func(w want) map[string]want {
		return map[string]want{"missing": w, "empty": w, "short": w, "too long": w, "foreign": w}
	}
	with := func(m map[string]want, name string, w want) map[string]want {
		m[name] = w
		return m
	}
	refused := want{err: errAny, lost: none}
	middle := want{lost: segment(1)}
	for _, c := range []struct {
		file string
		want map[string]want
	}{
		{"commitlog/00000000000000016384", map[string]want{
			"missing": {told: commitlog.SegmentsMissing{}, lost: segment(1)}, "empty": {told: commitlog.SegmentCompleted{}, lost: segment(1)},
			"short": {told: commitlog.SegmentCompleted{}, lost: segment(1)}, "too long": refused, "foreign": middle,
		}},
		{"commitlog/00000000000000000000", map[string]want{
			"missing": {lost: segment(0)}, "empty": {told: commitlog.SegmentCompleted{}, lost: segment(0)},
			"short": {told: commitlog.SegmentCompleted{}, lost: segment(0)}, "too long": refused, "foreign": {lost: segment(0)},
		}},
		{"consumequeue/A/0/00000000000000000000", all(fine)},
		{"checkpoint", all(fine)},
		{"queues.state", all(fine)},
		{"lock", all(fine)},
		{"sluice.index/first", all(fine)},
		{"config/sluice.indexKey.json", all(fine)},
		{"config/topics.json", with(all(fine), "too long", fine)},
		{"config/sluice.store.json", all(fine)},
	} {
		for _, how := range fileDamages {
			for _, unclean := range []bool{false, true} {
				w := c.want[how.name]
				t.Run(fmt.Sprintf("%s %s unclean=%v", c.file, how.name, unclean), func(t *testing.T) {
					disk := d.disk.CrashClone(1, 1)
					file := "/store/" + c.file
					if path.Base(file) == "first" {
						file = firstFile(disk, path.Dir(file))
					}
					if err := how.change(disk, file); err != nil {
						t.Fatal(err)
					}
					if unclean {
						if err := vfs.WriteFile(disk, "/store/abort", nil); err != nil {
							t.Fatal(err)
						}
					}
					before := queueFiles(disk)
					d.seen = &events{}
					log, err := d.check(disk, testConfig(), w.lost)
					if w.err == errAny && err != nil {
						if after := queueFiles(disk); after != before {
							t.Error("a refused folder has changed")
						}
						return
					}
					if c.file == "commitlog/00000000000000000000" && how.name == "missing" && !unclean {
						w.told = LogBegins{} // a kill may have come behind a look at old files
					}
					if !errors.Is(err, w.err) || w.told != nil && !d.seen.has(w.told) {
						t.Fatalf("%v, want %v; logged\n%s\nwant %T", err, w.err, log, w.told)
					}
				})
			}
		}
	}
}

// errAny stands for an error of Open that is not told apart from others.
var errAny = errors.New("any")

// One changed byte in a record, its queue entry or the index takes away that
// message at most, whether the queues are read or made anew.
func TestOpen_damagedBytes(t *testing.T) {
	d := newDamageStore(t)
	victim := d.all[41] // in the second file
	for _, mode := range []string{"clean", "unclean", "queues made anew", "last in its queue, made anew"} {
		m := victim
		if strings.HasPrefix(mode, "last") {
			m = d.all[len(d.all)-1]
		}
		segmentFile := fmt.Sprintf("/store/commitlog/%020d", m.phys/(16<<10)*(16<<10))
		unitFile := fmt.Sprintf("/store/consumequeue/%s/%d/%020d", m.topic, m.queue, m.offset/60*1200)
		type place struct {
			file string
			at   int64
			mask byte
		}
		var places []place
		for b := range int64(90) {
			if strings.Contains(mode, "anew") && b >= 12 && b < 16 {
				continue // another queue's message: no checksum covers that, and no entry contradicts
			}
			for _, mask := range []byte{0x01, 0x55} {
				places = append(places, place{segmentFile, m.phys%(16<<10) + b, mask})
			}
		}
		if !strings.Contains(mode, "anew") {
			for b := range int64(20) {
				places = append(places, place{unitFile, m.offset*20%1200 + b, 0x55})
			}
		}
		for b := range int64(40) {
			places = append(places, place{"index", b, 0x55})
		}
		for _, p := range places {
			disk := d.disk.CrashClone(1, 1)
			if p.file == "index" {
				p.file = firstFile(disk, "/store/sluice.index")
			}
			if err := flipByte(disk, p.file, p.at, p.mask); err != nil {
				t.Fatal(err)
			}
			var err error
			if mode != "clean" {
				err = vfs.WriteFile(disk, "/store/abort", nil)
			}
			if strings.Contains(mode, "anew") {
				err = errors.Join(err, disk.RemoveAll("/store/consumequeue"), disk.Remove("/store/queues.state"))
			}
			if err != nil {
				t.Fatal(err)
			}
			lost := func(x modelMessage) bool { return x.phys == m.phys }
			if strings.Contains(p.file, "sluice.index") {
				lost = none
			}
			if _, err := d.check(disk, testConfig(), lost); err != nil {
				t.Errorf("%s: byte %d of %s with %x: %v", mode, p.at, p.file, p.mask, err)
			}
		}
	}
}

func flipByte(disk vfs.FS, file string, at int64, mask byte) error {
	f, err := disk.Open(file)
	if err != nil {
		return err
	}
	var b [1]byte
	if _, err = f.ReadAt(b[:], at); err == nil {
		b[0] ^= mask
		_, err = f.WriteAt(b[:], at)
	}
	return errors.Join(err, f.Close())
}

// newest is the store time of the newest message.
func (d *damageStore) newest() int64 {
	return time.UnixMilli(1_700_000_000_000).Add(time.Duration(len(d.all)) * 10 * time.Second).UnixMilli()
}
