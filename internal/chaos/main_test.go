package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// A short run of what make chaos does for longer.
func TestChaos_nothingAcknowledgedIsLost_B030(t *testing.T) {
	if err := run(t.Context(), testcluster.Binary(t), t.TempDir(), 10*time.Second, 6, rand.Uint64(), t.Output()); err != nil {
		t.Fatal(err)
	}
}
