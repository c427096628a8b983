//go:build !race

package commitlog

import (
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// The race detector makes pools forget, so it cannot count allocations.
func TestAppend_allocations(t *testing.T) {
	l, err := Open(Config{Dir: t.TempDir() + "/log", SegmentBytes: 64 << 20, FlushInterval: time.Hour}, testDeps(vfs.OS()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Recover(Recovery{}); err != nil {
		t.Fatal(err)
	}
	l.Start()
	defer l.Close()
	var seq Sequence
	r := request(&seq, 1, 1024)
	if n := testing.AllocsPerRun(500, func() {
		if err := l.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Fatalf("%v allocations per append", n)
	}
}
