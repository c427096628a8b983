package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// history runs the operations of a seed on a store with the given options and
// tells what a user sees: nothing of that may depend on the options. All
// appends are synced, so it does not depend on power cuts either.
func history(t *testing.T, seed uint64, cfg Config) string {
	t.Helper()
	var ms atomic.Int64
	ms.Store(1_700_000_000_000)
	clock := func() time.Time { return time.UnixMilli(ms.Load()) }
	disk := vfs.NewMem(clock)
	var out strings.Builder
	open := func() *Store {
		s, err := Open(cfg, Deps{FS: disk, Now: clock})
		if err == nil {
			err = s.finishRebuild(ctx)
		}
		if err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, cfg, err)
		}
		return s
	}
	s := open()
	defer func() { s.Close() }()
	rng := rand.New(rand.NewPCG(seed, 77))
	see := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	for n := range 250 {
		ms.Add(1000)
		topic, queue := fmt.Sprintf("T%d", rng.IntN(3)), int32(rng.IntN(2))
		switch kind := rng.IntN(30); {
		case kind < 14:
			var batch []*message.Message
			for i := range 1 + rng.IntN(3) {
				m := msg(topic, queue, fmt.Sprintf("%d.%d%s", n, i, strings.Repeat("b", rng.IntN(1500))))
				m.Properties = message.AppendProperty(m.Properties, message.KeyKeys, fmt.Sprintf("k%d", n%40))
				batch = append(batch, m)
			}
			got, err := s.AppendBatch(ctx, batch, DurabilitySync)
			see("append %s %d: %v", topic, queue, err)
			for _, a := range got {
				see("  %d %d", a.QueueOffset, a.StoreTimestamp)
			}
		case kind < 20:
			if err := s.dispatch(ctx, s.visible()); err != nil {
				t.Fatal(err)
			}
			lo, hi := s.QueueOffsets(topic, queue)
			at := rng.Int64N(hi + 2)
			b, err := s.Read(topic, queue, at, ReadOptions{MaxMessages: 1 + rng.IntN(5)})
			see("read %s %d at %d of %d to %d: %v %v, next %d", topic, queue, at, lo, hi, b.Status, err, b.Next)
			for _, rec := range b.Records {
				m, err := message.Decode(rec)
				see("  %d %.12s %d %v", m.QueueOffset, m.Body, m.StoreTimestamp, err)
			}
			b.Release()
		case kind < 22:
			if err := s.indexTo(ctx, s.visible()); err != nil {
				t.Fatal(err)
			}
			found, err := s.FindByKey(ctx, KeyQuery{Topic: topic, Key: fmt.Sprintf("k%d", rng.IntN(40)), To: math.MaxInt64, Max: 5})
			see("find in %s: %v", topic, err)
			for _, rec := range found {
				m, _ := message.Decode(rec)
				see("  %d@%d %.12s", m.QueueOffset, m.QueueID, m.Body)
			}
		case kind < 23:
			at, err := s.OffsetByTime(topic, queue, ms.Load()-rng.Int64N(200_000), Boundary(rng.IntN(2)))
			if s.Dispatched() == s.visible() {
				see("by time: %d %v", at, err)
			}
		case kind < 25:
			if err := s.saveProgress(rng.IntN(2) == 0); err != nil {
				t.Fatal(err)
			}
		case kind < 26:
			see("put %s: %v", topic, s.PutTopic(DefaultTopicConfig(topic)))
		case kind < 27 && n > 50:
			see("delete %s: %v", topic, s.DeleteTopic(topic))
		case kind < 28:
			see("restart: %v", s.Close())
			s = open()
		case kind < 29:
			crashed := disk.CrashClone(0, seed)
			s.Close()
			disk = crashed
			s = open()
		default:
			if err := s.retain(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out.String()
}

// The same operations look the same to a user whatever the sizes, the layout
// of the queues, the flush mode and the index are.
func TestStore_optionsDoNotMatter(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			want := ""
			for variant := range uint64(6) {
				rng := rand.New(rand.NewPCG(seed, variant))
				cfg := crashConfig(seed*10+variant, QueueLayout(rng.IntN(2)))
				cfg.Preallocate = rng.IntN(2) == 0
				cfg.IndexSlots = []int32{1, 8, 100}[rng.IntN(3)]
				got := history(t, seed, cfg)
				if want == "" {
					want = got
				}
				if got != want {
					a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
					for i := range a {
						if i >= len(b) || a[i] != b[i] {
							t.Fatalf("variant %d, %+v: line %d is %q, the first one had %q", variant, cfg, i, a[i], b[min(i, len(b)-1)])
						}
					}
				}
			}
			if strings.Count(want, "\n") < 200 {
				t.Errorf("only %d lines", strings.Count(want, "\n"))
			}
		})
	}
}
