package storetool

import (
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Layout says how queues lie on the disk.
type Layout = store.QueueLayout

// ParseLayout returns the layout with the name: compatible or compact.
func ParseLayout(name string) (Layout, error) { return store.ParseQueueLayout(name) }

// Convert gives the queues of a stopped store another layout; progress is told
// how many of how many queues are done. A store that has the layout stays as it
// is. Errors: ErrNoStore, and those of store.ConvertQueues.
func Convert(o Options, to Layout, progress func(done, total int)) error {
	f, err := openFolder(&o, false)
	if err != nil {
		return err
	}
	cfg := f.cfg
	if err := f.close(); err != nil {
		return err
	}
	return store.ConvertQueues(cfg, store.Deps{FS: vfs.OS()}, to, progress)
}
