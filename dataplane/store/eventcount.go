package store

import (
	"maps"
	"reflect"
	"strings"
	"sync"

	"github.com/sluicemq/sluice/dataplane/commitlog"
)

// eventCounts counts events by their type.
type eventCounts struct {
	mu      sync.Mutex
	byName  map[string]uint64
	removed map[string]uint64 // bytes of commit log files that were removed, by reason
}

func (c *eventCounts) count(e Event) {
	name := eventName(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName == nil {
		c.byName, c.removed = map[string]uint64{}, map[string]uint64{}
	}
	c.byName[name]++
	if r, ok := e.(commitlog.SegmentRemoved); ok {
		c.removed[string(r.Reason)] += uint64(r.Bytes)
	}
}

func (c *eventCounts) snapshot() (byName, removed map[string]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byName), maps.Clone(c.removed)
}

// eventName is the name of an event's type in metrics: disk_changed for
// DiskChanged.
func eventName(e Event) string {
	var b strings.Builder
	for i, r := range reflect.TypeOf(e).Name() {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
