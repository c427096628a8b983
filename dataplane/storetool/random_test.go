package storetool

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// memoryStore makes a store of ours in memory and returns the bodies of its
// messages by topic, queue and offset.
func memoryStore(t *testing.T, layout store.QueueLayout) (*vfs.Mem, store.Config, map[string]string) {
	t.Helper()
	now := time.UnixMilli(1_700_000_000_000)
	mem := vfs.NewMem(func() time.Time { return now })
	cfg := Sizes{16 << 10, 1200, 8, 60}.config("/store")
	cfg.QueueLayout = layout
	s, err := store.Open(cfg, store.Deps{FS: mem, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutTopic(store.DefaultTopicConfig("A")); err != nil {
		t.Fatal(err)
	}
	sent := map[string]string{}
	for i := range 120 {
		now = now.Add(10 * time.Second)
		m := &message.Message{
			Topic: "AB"[i%2 : i%2+1], QueueID: int32(i / 2 % 2), Body: []byte(fmt.Sprintf("%d%s", i, strings.Repeat("b", 300))),
			Properties: message.AppendProperty(nil, message.KeyKeys, fmt.Sprintf("k%d", i)),
		}
		a, err := s.Append(t.Context(), m, store.DurabilityAsync)
		if err != nil {
			t.Fatal(err)
		}
		sent[fmt.Sprint(m.Topic, m.QueueID, "@", a.QueueOffset)] = string(m.Body)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return mem, cfg, sent
}

// walk lists all files below a folder.
func walk(fsys vfs.FS, dir string) (out []string) {
	infos, _ := fsys.ReadDir(dir)
	for _, info := range infos {
		if name := path.Join(dir, info.Name); info.Dir {
			out = append(out, walk(fsys, name)...)
		} else {
			out = append(out, name)
		}
	}
	return out
}

// spoilOnce changes something in one file, mostly a byte where it matters.
func spoilOnce(t *testing.T, rng *rand.Rand, mem *vfs.Mem) string {
	t.Helper()
	files := walk(mem, "/store")
	name := files[rng.IntN(len(files))]
	f, err := mem.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, _ := f.Size()
	var did string
	switch kind := rng.IntN(12); {
	case kind == 0:
		did, err = "removed", mem.Remove(name)
	case kind == 1:
		to := rng.Int64N(size + 100)
		did, err = fmt.Sprintf("cut to %d", to), f.Truncate(to)
	default:
		var b [1]byte
		at := rng.Int64N(max(size, 1))
		if kind < 8 {
			at = rng.Int64N(min(max(size, 1), 2000))
		}
		_, _ = f.ReadAt(b[:], at)
		b[0] ^= byte(1 + rng.IntN(255))
		did = fmt.Sprintf("byte %d", at)
		_, err = f.WriteAt(b[:], at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name + " " + did
}

// Verify reads whatever it is given to its end; and of a folder that it finds
// good every message is served.
func TestVerify_goodMeansServed(t *testing.T) {
	for _, layout := range []store.QueueLayout{store.LayoutCompatible, store.LayoutCompact} {
		mem, cfg, sent := memoryStore(t, layout)
		good := 0
		for seed := range uint64(400) {
			rng := rand.New(rand.NewPCG(seed, 5))
			disk := mem.CrashClone(1, 1)
			var did []string
			for range 1 + rng.IntN(2) {
				did = append(did, spoilOnce(t, rng, disk))
			}
			r, err := Verify(t.Context(), Options{Dir: "/store", Sizes: Sizes{16 << 10, 1200, 8, 60}, fs: disk})
			if err != nil {
				t.Errorf("seed %d: %v: %v", seed, did, err)
				continue
			}
			if len(r.Faults) > 0 {
				continue
			}
			good++
			if err := serves(t, disk, cfg, sent); err != nil {
				t.Errorf("seed %d: %v: found good, %v", seed, did, err)
			}
		}
		if good < 20 || good > 380 {
			t.Errorf("%d of 400 were good", good)
		}
	}
}

func serves(t *testing.T, disk *vfs.Mem, cfg store.Config, sent map[string]string) error {
	t.Helper()
	s, err := store.Open(cfg, store.Deps{FS: disk})
	if err != nil {
		return err
	}
	defer s.Close()
	got := 0
	for _, topic := range []string{"A", "B"} {
		for queue := range int32(2) {
			for at := int64(0); at < 30; {
				b, err := s.Read(topic, queue, at, store.ReadOptions{})
				if err != nil || b.Status != store.ReadFound {
					return fmt.Errorf("%s queue %d at %d: %v, %v", topic, queue, at, b.Status, err)
				}
				for i, rec := range b.Records {
					m, err := message.Decode(rec)
					if want := sent[fmt.Sprint(topic, queue, "@", at+int64(i))]; err != nil || string(m.Body) != want {
						return fmt.Errorf("%s queue %d at %d: %.20q, want %.20q, %v", topic, queue, at+int64(i), m.Body, want, err)
					}
					got++
				}
				at = b.Next
				b.Release()
			}
		}
	}
	if got != len(sent) {
		return fmt.Errorf("%d of %d messages", got, len(sent))
	}
	return nil
}
