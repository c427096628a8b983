package store

import (
	"encoding/binary"
	"math"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// allFiles lists the files below a folder in order.
func allFiles(fsys vfs.FS, dir string) []string {
	infos, _ := fsys.ReadDir(dir)
	var out []string
	for _, info := range infos {
		if name := path.Join(dir, info.Name); info.Dir {
			out = append(out, allFiles(fsys, name)...)
		} else {
			out = append(out, name)
		}
	}
	return out
}

// spoil damages a folder as script says, six bytes a step: file, what, place,
// value. It never fails: a step that cannot be done is none.
func spoil(disk *vfs.Mem, script []byte) {
	for ; len(script) >= 6; script = script[6:] {
		files := allFiles(disk, "/store")
		file := files[int(script[0])%len(files)]
		at, value := int64(binary.BigEndian.Uint16(script[2:])), script[4:6]
		f, err := disk.Open(file)
		if err != nil {
			continue
		}
		size, _ := f.Size()
		switch script[1] % 8 {
		case 0, 1, 2:
			_ = flipByte(disk, file, at%max(size, 1), value[0])
		case 3:
			_, _ = f.WriteAt(value, at%max(size, 1))
		case 4:
			_ = f.Truncate(at % (size + 1))
		case 5:
			_ = f.Truncate(size + at)
		case 6:
			_ = disk.Remove(file)
		case 7: // the content of another file
			if b, err := vfs.ReadFile(disk, files[int(value[0])%len(files)]); err == nil {
				_ = vfs.WriteFile(disk, file, b)
			}
		}
		f.Close()
	}
}

// maxFuzzBytes is what a start on a damaged folder of some 100 KiB may
// allocate in all.
const maxFuzzBytes = 64 << 20

// Whatever happens to the files of a folder, a start neither panics nor takes
// memory for lengths that no file has, and no message is served that was never
// sent.
func FuzzOpen_damagedFolder(f *testing.F) {
	for _, seed := range []string{
		"", "X0Z000", // the size of a queue entry becomes 800 MB "\x00\x00\x00\x10\x55\x00", "\x01\x06\x00\x00\x00\x00", "\x02\x04\x10\x00\x00\x00", "\x03\x05\x00\x07\x00\x00", "\x04\x07\x00\x00\x01\x00",
		"\x05\x03\x00\x24\x7f\xff\x06\x03\x00\x28\x7f\xff", "\x08\x06\x00\x00\x00\x00\x00\x04\x00\x05\x00\x00\x0a\x00\x00\x18\xff\x00",
	} {
		f.Add([]byte(seed), false, false)
		f.Add([]byte(seed), true, false)
		f.Add([]byte(seed), true, true)
	}
	var stores [2]*damageStore
	sent := map[string]bool{}
	f.Fuzz(func(t *testing.T, script []byte, unclean, compact bool) {
		layout := LayoutCompatible
		if compact {
			layout = LayoutCompact
		}
		d := stores[layout]
		if d == nil {
			d = newDamageStoreOf(t, layout)
			stores[layout] = d
			for _, m := range d.all {
				sent[m.topic+m.body] = true
			}
		}
		disk := d.disk.CrashClone(1, 1)
		if unclean {
			if err := vfs.WriteFile(disk, "/store/abort", nil); err != nil {
				t.Fatal(err)
			}
		}
		spoil(disk, script[:min(len(script), 60)])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cfg := testConfig()
		cfg.QueueLayout = layout
		s, _, err := d.open(disk, cfg)
		if err == nil {
			defer s.Close()
			serveOnly(t, s, sent)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > maxFuzzBytes {
			t.Errorf("%d bytes were allocated", n)
		}
	})
}

// serveOnly reads all queues and looks for all keys.
func serveOnly(t *testing.T, s *Store, sent map[string]bool) {
	t.Helper()
	for _, q := range s.allQueues() {
		at, hi := q.log.Range()
		for steps := 0; at < hi && steps < 2000; steps++ {
			b, err := s.Read(q.topic, q.id, at, ReadOptions{})
			if err != nil {
				break // a damaged page says so
			}
			for _, rec := range b.Records {
				m, err := message.Decode(rec)
				if err != nil || !sent[m.Topic+string(m.Body)] && strings.Contains("AB", m.Topic) {
					t.Fatalf("%s queue %d at %d: a message that nobody sent: %.60v, %v", q.topic, q.id, at, m, err)
				}
			}
			if b.Next <= at {
				t.Fatalf("%s queue %d at %d: %v goes on at %d", q.topic, q.id, at, b.Status, b.Next)
			}
			at = b.Next
			b.Release()
		}
	}
	if err := s.indexTo(ctx, s.visible()); err != nil {
		return
	}
	for _, key := range []string{"k1", "k41", "k129"} {
		for _, topic := range []string{"A", "B"} {
			found, err := s.FindByKey(ctx, KeyQuery{Topic: topic, Key: key, To: math.MaxInt64, Max: MaxFound})
			for _, rec := range found {
				if m, derr := message.Decode(rec); err != nil || derr != nil || !sent[m.Topic+string(m.Body)] {
					t.Fatalf("key %s: a message that nobody sent: %.60v, %v", key, m, derr)
				}
			}
		}
	}
}
