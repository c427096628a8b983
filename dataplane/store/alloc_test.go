//go:build !race

package store

import (
	"path/filepath"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// The race detector makes pools forget, so it cannot count allocations.
func TestAppend_allocations(t *testing.T) {
	cfg := testConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "store")
	cfg.SegmentBytes = 64 << 20
	s, err := Open(cfg, Deps{FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := benchMessage()
	if n := testing.AllocsPerRun(500, func() {
		if _, err := s.Append(t.Context(), m, DurabilityAsync); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Fatalf("%v allocations per append", n)
	}
}
