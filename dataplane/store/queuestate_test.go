package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// A queue whose files are gone although the commit log has its records is
// built anew, and does not begin at 0 again. That is seen at a start after a
// clean stop and after a kill, for whole queues and for their first files.
func TestOpen_lostQueueFilesAreMissed(t *testing.T) {
	const n = 150 // queue files hold 60 units
	dir := "/store/consumequeue/aaaaaaaa%orders/0"
	damages := map[string]func(t *testing.T, fsys vfs.FS){
		"folder gone": func(t *testing.T, fsys vfs.FS) { mustDo(t, fsys.RemoveAll(dir)) },
		"topic gone":  func(t *testing.T, fsys vfs.FS) { mustDo(t, fsys.RemoveAll("/store/consumequeue/aaaaaaaa%orders")) },
		"all zeros": func(t *testing.T, fsys vfs.FS) {
			for _, f := range list(t, fsys, dir) {
				overwrite(t, fsys, dir+"/"+f, make([]byte, 1200))
			}
		},
		"all empty": func(t *testing.T, fsys vfs.FS) {
			for _, f := range list(t, fsys, dir) {
				overwrite(t, fsys, dir+"/"+f, nil)
			}
		},
		"first file gone": func(t *testing.T, fsys vfs.FS) { mustDo(t, fsys.Remove(dir+"/"+list(t, fsys, dir)[0])) },
		"last file gone": func(t *testing.T, fsys vfs.FS) {
			files := list(t, fsys, dir)
			mustDo(t, fsys.Remove(dir+"/"+files[len(files)-1]))
		},
		"state file damaged": func(t *testing.T, fsys vfs.FS) {
			overwrite(t, fsys, "/store/"+directoryFile, []byte("nonsense"))
		},
	}
	for name, damage := range damages {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " clean ", clean), func(t *testing.T) {
				disk := vfs.NewMem(nil)
				h := start(t, testConfig(), Deps{FS: disk})
				for i := range n {
					h.append(msg("aaaaaaaa%orders", 0, fmt.Sprint("m", i)))
				}
				h.append(msg("aaaaaaaa%other", 0, "last of the log")) // else the newest record would tell
				h.await("aaaaaaaa%orders", 0, n)
				h.await("aaaaaaaa%other", 0, 1)
				h.stop()
				want := bodies(t, h.Store, "aaaaaaaa%orders", 0)
				mustDo(t, h.saveProgress(true))
				mustDo(t, h.Close())
				if !clean {
					mustDo(t, vfs.WriteFile(disk, "/store/abort", []byte("1")))
				}
				damage(t, disk)

				h = start(t, testConfig(), Deps{FS: disk})
				if got := bodies(t, h.Store, "aaaaaaaa%orders", 0); len(got) != n || !slices.Equal(got, want) {
					t.Fatalf("%d of %d messages are there", len(got), n)
				}
				if a := h.append(msg("aaaaaaaa%orders", 0, "next")); a.QueueOffset != n {
					t.Errorf("the next message has offset %d", a.QueueOffset)
				}
			})
		}
	}
}

// What retention and a deleted topic took is not missed.
func TestOpen_expiredQueuesAreNotMissed(t *testing.T) {
	disk := vfs.NewMem(nil)
	h := start(t, testConfig(), Deps{FS: disk})
	mustDo(t, h.PutTopic(DefaultTopicConfig("aaaaaaaa%gone")))
	for i := range 100 {
		h.append(msg("aaaaaaaa%gone", 0, fmt.Sprint("m", i)))
	}
	h.await("aaaaaaaa%gone", 0, 100)
	mustDo(t, h.saveProgress(true))
	mustDo(t, h.DeleteTopic("aaaaaaaa%gone"))
	h.stop()
	mustDo(t, h.Close())
	h = start(t, testConfig(), Deps{FS: disk})
	if got := bodies(t, h.Store, "aaaaaaaa%gone", 0); len(got) != 0 {
		t.Errorf("%d messages of a deleted topic are back", len(got))
	}
	if a := h.append(msg("aaaaaaaa%gone", 0, "first")); a.QueueOffset != 0 {
		t.Errorf("the first message of the new topic has offset %d", a.QueueOffset)
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	infos, err := fsys.ReadDir(dir)
	mustDo(t, err)
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}
