package storetool

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"testing"

	"github.com/sluicemq/sluice/dataplane/store"
)

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(os.DirFS(dir), name)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A converted store has no fault, in either layout, and back its queue files
// are what they were. A recorded folder of a RocketMQ broker is converted, too.
func TestConvert_thereAndBack(t *testing.T) {
	own, _ := ownStore(t)
	for name, dir := range map[string]string{"own": own, "recorded": golden(t, "store-basic")} {
		want := contents(t, dir+"/consumequeue")
		for _, to := range []store.QueueLayout{store.LayoutCompact, store.LayoutCompatible} {
			calls := 0
			if err := Convert(Options{Dir: dir}, to, func(int, int) { calls++ }); err != nil || calls == 0 {
				t.Fatalf("%s to %s: %v, %d calls", name, to, err, calls)
			}
			if r, err := Verify(t.Context(), Options{Dir: dir}); err != nil || len(r.Faults) != 0 || r.Units == 0 {
				t.Errorf("%s in the %s layout: %+v, %v", name, to, r, err)
			}
		}
		if got := contents(t, dir+"/consumequeue"); !maps.Equal(got, want) {
			t.Errorf("%s: queue files differ after the way there and back", name)
		}
	}
	if err := Convert(Options{Dir: t.TempDir()}, store.LayoutCompact, nil); !errors.Is(err, ErrNoStore) {
		t.Errorf("an empty folder: %v", err)
	}
}
