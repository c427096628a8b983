package main

import (
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// The path of a new user, from sign-up to the bill, with a kill -9 between.
func TestDemo(t *testing.T) {
	d := &demo{began: time.Now(), binary: testcluster.Binary(t)}
	if err := d.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}
