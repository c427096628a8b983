package main

import (
	"os"
	"testing"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// Every official SDK sends, receives, acknowledges, and is refused with a wrong
// key.
func TestInterop(t *testing.T) {
	binary := testcluster.Binary(t)
	if err := os.Chdir("../.."); err != nil { // the programs are named from the repository's root
		t.Fatal(err)
	}
	ok, err := run(t.Context(), binary, "*")
	if err != nil || !ok {
		t.Fatalf("not every row passed: %v", err)
	}
}
