// Package storetool examines and repairs the folder of a store that no broker
// has open: Inspect says what is there, Verify reads all of it and names what
// is wrong, Export gives messages out, Repair does what a start would do and
// keeps what it cuts off.
//
// Inspect, Verify and Export change no byte: they read through an overlay that
// keeps changes in memory. All but Inspect hold the lock of the folder, so
// that no broker starts meanwhile. Folders of RocketMQ brokers are as good as
// ours. Each function is used by one goroutine.
package storetool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// Options say which folder is meant and how.
type Options struct {
	Dir   string
	Sizes Sizes // zero members are found out
	// Progress is told how many of how many bytes of the commit log were read;
	// nil for nobody.
	Progress func(done, total int64)

	fs vfs.FS // nil for vfs.ReadOnly; tests look at others
}

func (o *Options) progress(done, total int64) {
	if o.Progress != nil {
		o.Progress(done, total)
	}
}

// ErrNoStore means that a folder holds nothing of a store.
var ErrNoStore = errors.New("no store is there")

// folder is an opened folder.
type folder struct {
	base  vfs.FS // as it lies there
	fs    *vfs.Overlay
	lock  io.Closer
	cfg   store.Config
	sizes Sizes
	made  store.Format // zero when nothing says it
	view  *store.View
}

// openFolder looks at a folder through an overlay; locked keeps brokers away
// until close.
func openFolder(o *Options, locked bool) (*folder, error) {
	base := o.fs
	if base == nil {
		base = vfs.ReadOnly()
	}
	f := &folder{base: base, fs: vfs.NewOverlay(base)}
	err := f.open(o, locked)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *folder) open(o *Options, locked bool) error {
	info, err := f.fs.Stat(filepath.Join(o.Dir, "commitlog"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Dir {
		return fmt.Errorf("%s has no folder commitlog: %w", o.Dir, ErrNoStore)
	}
	if err != nil {
		return err
	}
	if locked {
		f.lock, err = f.fs.Lock(filepath.Join(o.Dir, "lock"), nil)
		if errors.Is(err, vfs.ErrLocked) {
			return fmt.Errorf("%s is used by a running broker: stop it first: %w", o.Dir, store.ErrLocked)
		}
		if err != nil {
			return err
		}
	}
	format, err := store.ReadFormat(f.fs, o.Dir)
	if err != nil {
		return err
	}
	if f.made = format; format.Version > 0 {
		o.Sizes = o.Sizes.or(format)
	}
	if f.sizes, err = findSizes(f.fs, o.Dir, o.Sizes); err != nil {
		return err
	}
	f.cfg = f.sizes.config(o.Dir)
	if f.cfg.QueueLayout, err = store.ReadQueueLayout(f.fs, o.Dir, store.LayoutCompatible); err != nil {
		return err
	}
	if f.cfg.IndexCompatible, err = vfs.Exists(f.fs, filepath.Join(o.Dir, "index")); err != nil {
		return err
	}
	return f.cfg.Validate()
}

// look opens the view, which needs a commit log that opens.
func (f *folder) look() (err error) {
	f.view, err = store.OpenView(f.cfg, store.Deps{FS: f.fs})
	return err
}

func (f *folder) close() error {
	var errs []error
	if f.view != nil {
		errs = append(errs, f.view.Close())
	}
	errs = append(errs, f.fs.Close())
	if f.lock != nil {
		errs = append(errs, f.lock.Close())
	}
	return errors.Join(errs...)
}

func (f *folder) path(elem ...string) string {
	return filepath.Join(append([]string{f.cfg.Dir}, elem...)...)
}

// list is ReadDir, with nothing for a missing folder.
func (f *folder) list(elem ...string) ([]vfs.Info, error) {
	infos, err := f.fs.ReadDir(f.path(elem...))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return infos, err
}
