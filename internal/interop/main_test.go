package main

import (
	"os"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// Every official SDK sends, receives, acknowledges, and is refused with a wrong
// key; and case B108: its consumers receive again after a kill -9 of the server
// without being touched. With SLUICE_CASES_FULL=1 the server is also down for 90
// seconds, as it always is in `make interop`.
func TestInterop_andRestart_B108(t *testing.T) {
	binary := testcluster.Binary(t)
	if err := os.Chdir("../.."); err != nil { // the programs are named from the repository's root
		t.Fatal(err)
	}
	downtimes := []time.Duration{5 * time.Second}
	if os.Getenv("SLUICE_CASES_FULL") == "1" {
		downtimes = append(downtimes, 90*time.Second)
	}
	if err := run(t.Context(), binary, "*", downtimes); err != nil {
		t.Fatalf("not every row passed:\n%v", err)
	}
}
