package testcluster

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Binary builds the real binary for a test and returns its path. The tests of
// a package share the build cache, so that only the first build takes time.
func Binary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	cmd := exec.Command("go", "build", "-o", path, "github.com/sluicemq/sluice/cmd/sluice")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build sluice: %v\n%s", err, out)
	}
	return path
}
