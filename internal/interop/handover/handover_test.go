package handover

import (
	"os"
	"testing"
)

// A folder goes from ours to a real RocketMQ and back three times, over clean
// stops and a kill, and nothing is lost or changed.
func TestHandover_toRocketMQAndBack(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chdir("../../.."); err != nil { // the scripts are named from the repository's root
		t.Fatal(err)
	}
	if err := Run(t.Context(), "bench/peers/rocketmq", dir, t.Output()); err != nil {
		t.Fatal(err)
	}
}
