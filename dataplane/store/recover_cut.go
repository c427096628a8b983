package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sluicemq/sluice/dataplane/commitlog"
	"github.com/sluicemq/sluice/dataplane/vfs"
)

// cutFolder keeps copies of what is cut off the commit log.
const cutFolder = "sluice.cut"

// maxCutBytes is how much that folder may hold before no more is added.
const maxCutBytes = 1 << 30

// keepCut says where this start puts copies of what it cuts off: in a folder of
// its own, named by the time.
func (s *Store) keepCut() (commitlog.Keep, error) {
	used, err := s.treeBytes(s.path(cutFolder))
	if err != nil {
		return commitlog.Keep{}, err
	}
	name := s.now().UTC().Format("20060102T150405Z")
	for n := 1; ; n++ {
		dir := name
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", name, n)
		}
		there, err := vfs.Exists(s.fs, s.path(cutFolder, dir))
		if err != nil {
			return commitlog.Keep{}, err
		}
		if !there {
			return commitlog.Keep{Dir: s.path(cutFolder, dir, "commitlog"), Bytes: max(0, maxCutBytes-used)}, nil
		}
	}
}

// treeBytes is the size of all files in a folder; 0 when it is not there.
func (s *Store) treeBytes(dir string) (total int64, err error) {
	infos, err := s.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, info := range infos {
		n := info.Size
		if info.Dir {
			if n, err = s.treeBytes(filepath.Join(dir, info.Name)); err != nil {
				return 0, err
			}
		}
		total += n
	}
	return total, err
}
