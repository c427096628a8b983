package storetool

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Timer files that contradict each other are named; the recorded ones, of the
// same folder as store-basic, do not.
func TestVerify_timerFiles(t *testing.T) {
	dir := golden(t, "store-basic")
	out, err := exec.Command("tar", "xzf", "../timerlog/testdata/store-basic-timer.tar.gz", "-C", filepath.Dir(dir)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	check := func() *Report {
		r, err := Verify(t.Context(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := check(); len(r.Faults)+len(r.Dirty) > 0 {
		t.Errorf("as recorded: %+v %+v", r.Faults, r.Dirty)
	}
	const lastUnitOfASlot = 922987*32 + 23
	flip(t, dir, "timerwheel", lastUnitOfASlot)
	if r := check(); len(r.Faults) != 1 || r.Faults[0].Name != "timer-files" || r.Faults[0].File != "timerwheel" || r.Faults[0].Offset != 922987*32 {
		t.Errorf("a slot changed: %+v", r.Faults)
	}
	if err := os.WriteFile(filepath.Join(dir, "abort"), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if r := check(); len(r.Faults) != 0 || len(r.Dirty) == 0 {
		t.Errorf("after an unclean stop: %+v %+v", r.Faults, r.Dirty)
	}
}
