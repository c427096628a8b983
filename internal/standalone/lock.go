package standalone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dataLock keeps a second process off the data folder. It goes with the
// process, however that ends.
type dataLock struct{ f *os.File }

// errLocked is returned for a folder that another process holds.
var errLocked = errors.New("another process uses it")

func lockData(dir string) (*dataLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data %s: %w: stop it, or choose another folder with --data", dir, err), f.Close())
	}
	return &dataLock{f}, nil
}

func (l *dataLock) release() error { return l.f.Close() }
