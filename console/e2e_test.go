package console_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/sluicemq/sluice/console"
	"github.com/sluicemq/sluice/internal/testcluster"
)

// A real Chromium walks through the built console against the whole system.
func TestConsole_inTheBrowser(t *testing.T) {
	if os.Getenv("SLUICE_TEST_CHROMIUM") == "" {
		t.Fatal("SLUICE_TEST_CHROMIUM is not set: run the tests with scripts/test-services.sh")
	}
	files, err := console.FS()
	if err != nil {
		t.Fatal(err)
	}
	c := testcluster.Start(t, testcluster.WithConsole(files))
	cmd := exec.CommandContext(t.Context(), "node", "e2e/console.e2e.mjs")
	cmd.Env = append(os.Environ(), "SLUICE_URL="+c.URL())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
