package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// model is what a store must remember: a plain list of what was acknowledged.
type model struct {
	cfg    Config // of every store that is opened
	mu     sync.Mutex
	tried  map[string]bool // topic@queue/body of every append that was begun
	synced []modelMessage  // acknowledged with DurabilitySync
	logMin int64
	topics map[string]bool
	config int // last acknowledged value
	trying int // value being saved
}

type modelMessage struct {
	topic  string
	queue  int32
	offset int64
	phys   int64
	body   string
	key    string
}

// verify opens the disk that a power cut has left and compares.
func (m *model) verify(disk *vfs.Mem) error {
	s, err := Open(m.cfg, Deps{FS: disk})
	if err == nil {
		err = s.finishRebuild(context.Background())
	}
	if err != nil {
		return err
	}
	for _, w := range m.synced {
		if w.phys < m.logMin {
			continue
		}
		b, err := s.Read(w.topic, w.queue, w.offset, ReadOptions{MaxMessages: 1})
		if err != nil || b.Status != ReadFound {
			return fmt.Errorf("acknowledged message %.40v: %v, %v", w, b.Status, err)
		}
		if got, _ := message.Decode(b.Records[0]); string(got.Body) != w.body || got.QueueOffset != w.offset {
			return fmt.Errorf("acknowledged message %.40v became %.40q at %d", w, got.Body, got.QueueOffset)
		}
		b.Release()
	}
	if err := m.keys(s); err != nil {
		return err
	}
	offsets, err := m.continuous(s)
	if err != nil {
		return err
	}
	for topic := range m.topics {
		if _, ok := s.Topic(topic); !ok {
			return fmt.Errorf("topic %s is gone", topic)
		}
	}
	if data, err := s.LoadConfig("progress.json"); m.config > 0 {
		var v int
		if err != nil || json.Unmarshal(data, &v) != nil || v < m.config || v > m.trying {
			return fmt.Errorf("configuration %q, want %d to %d: %v", data, m.config, m.trying, err)
		}
	}
	before := queueUnits(s)
	if err := s.Close(); err != nil {
		return err
	}
	files := queueFiles(disk)
	// A clean start sees the same, and a rebuild of all queues gives the same bytes.
	for _, rebuild := range []bool{false, true} {
		if rebuild {
			for _, dir := range []string{filesFolder, pagesFolder} {
				if err := disk.RemoveAll("/store/" + dir); err != nil {
					return err
				}
			}
		}
		s, err := Open(m.cfg, Deps{FS: disk})
		if err == nil {
			err = s.finishRebuild(context.Background())
		}
		if err != nil {
			return err
		}
		if err := m.keys(s); err != nil {
			return fmt.Errorf("opened again, rebuild %v: %w", rebuild, err)
		}
		again, err := m.continuous(s)
		if err != nil {
			return fmt.Errorf("opened again, rebuild %v: %w", rebuild, err)
		}
		after := queueUnits(s)
		if err := s.Close(); err != nil {
			return err
		}
		if m.logMin == 0 && (after != before || fmt.Sprint(again) != fmt.Sprint(offsets)) {
			return fmt.Errorf("opened again, rebuild %v: queues differ\n%s\n%s", rebuild, before, after)
		}
		// How compact pages lie depends on history, the compatible files do not.
		if again := queueFiles(disk); m.logMin == 0 && m.cfg.QueueLayout == LayoutCompatible && again != files {
			return fmt.Errorf("opened again, rebuild %v: queue files differ\n%s\n%s", rebuild, files, again)
		}
	}
	return nil
}

// continuous reads all queues: each offset has its message, and nothing is
// there that nobody sent.
func (m *model) continuous(s *Store) (map[string]int64, error) {
	maxima := map[string]int64{}
	for _, q := range s.allQueues() {
		lo, hi := q.log.Range()
		if hi > 0 { // a crash may leave an empty folder
			maxima[fmt.Sprintf("%s@%d", q.topic, q.id)] = hi
		}
		for at := lo; at < hi; {
			b, err := s.Read(q.topic, q.id, at, ReadOptions{MaxMessages: 10})
			if err != nil || b.Status != ReadFound {
				return nil, fmt.Errorf("%s@%d at %d of %d to %d: %v, %v", q.topic, q.id, at, lo, hi, b.Status, err)
			}
			for _, rec := range b.Records {
				f, err := message.Verify(rec)
				if err != nil || f.QueueOffset != at || !m.tried[fmt.Sprintf("%s@%d/%s", q.topic, q.id, f.Body)] {
					return nil, fmt.Errorf("%s@%d at %d: offset %d, body %.20q, %v", q.topic, q.id, at, f.QueueOffset, f.Body, err)
				}
				at++
			}
			b.Release()
		}
	}
	return maxima, nil
}

// keys looks for every acknowledged message by its key.
func (m *model) keys(s *Store) error {
	ctx := context.Background()
	if err := s.indexTo(ctx, s.visible()); err != nil {
		return err
	}
	for _, w := range m.synced {
		if w.phys < m.logMin {
			continue
		}
		found, err := s.FindByKey(ctx, KeyQuery{Topic: w.topic, Key: w.key, To: math.MaxInt64, Max: MaxFound})
		if err != nil || len(found) != 1 {
			return fmt.Errorf("key %s of acknowledged message %.40v: %d found, %v", w.key, w, len(found), err)
		}
		if got, _ := message.Decode(found[0]); got.PhysicalOffset != w.phys || string(got.Body) != w.body {
			return fmt.Errorf("key %s gives another message: %.40v", w.key, got)
		}
	}
	return nil
}

// queueUnits describes all queues that have messages, with their units.
func queueUnits(s *Store) string {
	var all []string
	for _, q := range s.allQueues() {
		lo, hi := q.log.Range()
		if hi == 0 {
			continue
		}
		text := fmt.Sprintf("%s@%d %d", q.topic, q.id, lo)
		for at := lo; at < hi; at++ {
			u, ok, err := q.log.At(at)
			text += fmt.Sprintf(" %v %v %v", u, ok, err)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// queueFiles describes all consume queue files with their bytes.
func queueFiles(disk *vfs.Mem) string {
	var out strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		infos, _ := disk.ReadDir(dir)
		for _, info := range infos {
			name := dir + "/" + info.Name
			if info.Dir {
				walk(name)
				continue
			}
			b, _ := vfs.ReadFile(disk, name)
			fmt.Fprintf(&out, "%s %d %x\n", name, len(b), bytes.TrimRight(b, "\x00"))
		}
	}
	walk("/store/consumequeue")
	return out.String()
}

// crashSeeds is how many random histories the crash test has in each layout.
const crashSeeds = 14

// Each operation of a random history that changes the disk is a crash point:
// after a power cut there, which keeps none, all or some of the sectors, sizes
// and names that were not synced, in any order, everything acknowledged with a
// sync is there by offset and by key, offsets are continuous and the queues
// are those of a rebuild. So also right behind the roll of a file and in front
// of the dispatch.
func TestStore_crashAtEveryStep_B029_B030(t *testing.T) {
	seeds := uint64(crashSeeds)
	if underRace || testing.Short() {
		seeds = 2
	}
	var points atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d crash points in %d histories, seeds 0 to %d", points.Load(), 2*seeds, seeds-1)
		if n := points.Load(); n < 10_000 && !t.Failed() && seeds == crashSeeds {
			t.Errorf("only %d crash points", n)
		}
	})
	for seed := range seeds {
		for _, layout := range []QueueLayout{LayoutCompatible, LayoutCompact} {
			t.Run(fmt.Sprintf("seed=%d/%s", seed, layout), func(t *testing.T) {
				t.Parallel()
				points.Add(int64(crashRun(t, seed, layout)))
			})
		}
	}
}

// crashConfig varies what shapes files and the order of syncs.
func crashConfig(seed uint64, layout QueueLayout) Config {
	rng := rand.New(rand.NewPCG(seed, 21))
	cfg := testConfig()
	cfg.QueueLayout = layout
	cfg.SegmentBytes = []int64{16 << 10, 12 << 10, 40 << 10}[rng.IntN(3)]
	cfg.QueueSegmentBytes = []int64{1200, 400, 5000}[rng.IntN(3)]
	cfg.IndexEntries = []int32{30, 12, 200}[rng.IntN(3)]
	cfg.IndexCompatible = rng.IntN(3) == 0
	cfg.Flush = []FlushMode{FlushAsync, FlushAsync, FlushSync, FlushQuorum}[rng.IntN(4)]
	if rng.IntN(2) == 0 {
		cfg.RebuildBehind = 1
	}
	return cfg
}

// crashRun returns the number of crash points.
func crashRun(t *testing.T, seed uint64, layout QueueLayout) (steps int) {
	now := time.UnixMilli(1_700_000_000_000)
	var clock sync.Mutex
	mem := vfs.NewMem(func() time.Time { clock.Lock(); defer clock.Unlock(); return now })
	if err := mem.MkdirAll("/store"); err != nil {
		t.Fatal(err)
	}
	if err := mem.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	ff := vfs.NewFaults(mem)
	cfg := crashConfig(seed, layout)
	m := &model{cfg: cfg, tried: map[string]bool{}, topics: map[string]bool{}}
	failed := false
	ff.Set(func(op vfs.Op, name string) (int, error) {
		if op == vfs.OpRead || op == vfs.OpOpen || op == vfs.OpLock {
			return 0, nil
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if failed {
			return 0, nil
		}
		steps++
		keep := []float64{0, 0.6, 1, 0.3}[(seed+uint64(steps))%4]
		if err := m.verify(mem.CrashClone(keep, seed*1_000_000+uint64(steps))); err != nil {
			t.Errorf("seed %d step %d (%s %s) keep %v: %v", seed, steps, op, name, keep, err)
			failed = true
		}
		return 0, nil
	})
	cfg.Retention = time.Hour
	s, err := Open(cfg, Deps{FS: ff, Now: func() time.Time { clock.Lock(); defer clock.Unlock(); return now }})
	if err != nil {
		t.Fatal(err)
	}
	d := &dispatcher{s: s, scan: s.clog.Scan(0, 0)}
	rng := rand.New(rand.NewPCG(seed, 9))
	for n := 0; n < 90 && !failed; n++ {
		clock.Lock()
		now = now.Add(5 * time.Second)
		clock.Unlock()
		switch rng.IntN(12) {
		case 0:
			err = d.dispatch(t.Context(), s.visible())
		case 1:
			if err = d.dispatch(t.Context(), s.visible()); err == nil {
				err = d.flush()
			}
		case 2:
			if err = s.saveProgress(rng.IntN(2) == 0); err == nil {
				err = s.indexTo(t.Context(), s.visible())
			}
		case 3:
			c := DefaultTopicConfig(fmt.Sprintf("T%d", rng.IntN(5)))
			if err = s.PutTopic(c); err == nil {
				m.mu.Lock()
				m.topics[c.TopicName] = true
				m.mu.Unlock()
			}
		case 4:
			m.mu.Lock()
			m.trying++
			v := m.trying
			m.mu.Unlock()
			if err = s.SaveConfig("progress.json", fmt.Appendf(nil, "%d", v)); err == nil {
				m.mu.Lock()
				m.config = v
				m.mu.Unlock()
			}
		case 5:
			if n > 60 && seed%5 == 2 {
				clock.Lock()
				now = now.Add(2 * time.Hour)
				clock.Unlock()
				m.mu.Lock()
				m.logMin = 1 << 40 // until it is known
				m.mu.Unlock()
				err = s.retain()
				m.mu.Lock()
				m.logMin, _ = s.CommitLogRange()
				m.mu.Unlock()
			}
		case 6:
			if n > 20 && rng.IntN(3) == 0 {
				err = m.deleteTopic(s, fmt.Sprintf("T%d", rng.IntN(2)))
			}
		default:
			err = m.append(t.Context(), s, rng, n)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// deleteTopic: what was appended until then may be gone as soon as the call
// begins, and must be gone when it ends.
func (m *model) deleteTopic(s *Store, topic string) error {
	m.mu.Lock()
	m.synced = slices.DeleteFunc(m.synced, func(w modelMessage) bool { return w.topic == topic })
	delete(m.topics, topic)
	m.mu.Unlock()
	if err := s.DeleteTopic(topic); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.tried, func(body string, _ bool) bool { return strings.HasPrefix(body, topic+"@") })
	return nil
}

func (m *model) append(ctx context.Context, s *Store, rng *rand.Rand, n int) error {
	topic, queue := fmt.Sprintf("T%d", rng.IntN(2)), int32(rng.IntN(2))
	var ms []*message.Message
	m.mu.Lock()
	for i := range 1 + rng.IntN(3) {
		body := fmt.Sprintf("%d.%d.%s", n, i, strings.Repeat("b", rng.IntN(1500)))
		m.tried[fmt.Sprintf("%s@%d/%s", topic, queue, body)] = true
		x := msg(topic, queue, body)
		x.Properties = message.AppendProperty(x.Properties, message.KeyKeys, fmt.Sprintf("all k%d.%d", n, i))
		ms = append(ms, x)
	}
	m.mu.Unlock()
	d := Durability(1 + rng.IntN(2))
	got, err := s.AppendBatch(ctx, ms, d)
	if err != nil {
		return err
	}
	if d == DurabilitySync {
		m.mu.Lock()
		for i, a := range got {
			m.synced = append(m.synced, modelMessage{topic, queue, a.QueueOffset, a.PhysicalOffset, string(ms[i].Body), fmt.Sprintf("k%d.%d", n, i)})
		}
		m.mu.Unlock()
	}
	return nil
}
