// Package keyfile makes small files that are written once, such as keys and
// tokens. It knows nothing of what is in them. Any number of processes may make
// the same file at the same time: one wins, all go on with its content.
package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadOrCreate returns the content of the file; where there is none it makes it
// with what content returns, for its owner only.
func ReadOrCreate(path string, content func() []byte) ([]byte, error) {
	data, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	data = content()
	err = Create(path, data, 0o600)
	if errors.Is(err, fs.ErrExist) { // another process was first
		return os.ReadFile(path)
	}
	return data, err
}

// Create makes a file that must not exist (else fs.ErrExist), and its folder if
// that is missing. A reader sees all of it or none, and so does a start after a
// power cut: file and folder are synced.
func Create(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil { // unlike rename, fails if path exists
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
