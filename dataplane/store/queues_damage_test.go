package store

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// A page of the compact layout that is damaged while the store is open makes
// its queue one that is built anew: no message is lost, none is wrong, also
// when a start finds the damage.
func TestRead_damagedPageIsBuiltAnew(t *testing.T) {
	for _, reopened := range []bool{false, true} {
		t.Run(fmt.Sprint("reopened ", reopened), func(t *testing.T) {
			disk := vfs.NewMem(nil)
			cfg := testConfig()
			cfg.QueueLayout = LayoutCompact
			h := start(t, cfg, Deps{FS: disk})
			for i := range 120 {
				h.append(msg("aaaaaaaa%orders", 0, fmt.Sprint("m", i)))
			}
			h.append(msg("aaaaaaaa%other", 0, "last of the log"))
			h.await("aaaaaaaa%orders", 0, 120)
			h.await("aaaaaaaa%other", 0, 1)
			mustDo(t, h.saveProgress(true))
			mustDo(t, h.saveProgress(true)) // nothing stays in memory
			if reopened {
				h.stop()
				mustDo(t, h.Close())
			}
			name := "/store/sluice.queues/00000000000000000000"
			b, err := vfs.ReadFile(disk, name)
			mustDo(t, err)
			f, err := disk.Open(name)
			mustDo(t, err)
			_, err = f.WriteAt([]byte{b[1024+9] ^ 1}, 1024+9) // of the second page
			mustDo(t, err)
			if reopened {
				h = start(t, cfg, Deps{FS: disk})
			}
			got := 0
			for at := int64(0); at < 120; {
				r, err := h.Read("aaaaaaaa%orders", 0, at, ReadOptions{MaxMessages: 10})
				if errors.Is(err, ErrBuilding) {
					runtime.Gosched() // until the store has built it
					continue
				}
				mustDo(t, err)
				if r.Status != ReadFound {
					t.Fatalf("at %d: %v", at, r.Status)
				}
				got += len(r.Records)
				at = r.Next
				r.Release()
			}
			if all := bodies(t, h.Store, "aaaaaaaa%orders", 0); got != 120 || len(all) != 120 || all[60] != "m60" || all[119] != "m119" {
				t.Fatalf("%d messages, then %d", got, len(all))
			}
		})
	}
}
