package queuelog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// A full disk makes one short error, however many queues cannot be written.
func TestFlush_errorsOfManyQueuesAreFew(t *testing.T) {
	ff := vfs.NewFaults(vfs.NewMem(nil))
	l := NewFiles(testConfig(ff), "/cq", "/directory")
	var queues []*Queue
	for id := range int32(100) {
		q, err := l.Open("T", id)
		if err != nil {
			t.Fatal(err)
		}
		q.Append(0, unit(0))
		queues = append(queues, q)
	}
	ff.Set(func(op vfs.Op, _ string) (int, error) {
		return 0, fmt.Errorf("injected: %w", vfs.ErrNoSpace)
	})
	err := l.Flush(queues)
	if !errors.Is(err, vfs.ErrNoSpace) || !strings.Contains(err.Error(), "97 more") || len(err.Error()) > 1000 {
		t.Errorf("%d characters: %.300v", len(err.Error()), err)
	}
}
