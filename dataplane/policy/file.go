package policy

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// policy.bin is one sealed snapshot:
//
//	+---------------+-----------+----------------------------------------+
//	| "SLPOLIC" 0x01| nonce, 12 | AES-256-GCM of the JSON of savedState  |
//	+---------------+-----------+----------------------------------------+
//
// The eight bytes in front are authenticated as additional data. It is
// replaced by rename; the file before stays as policy.bin.bak and is read when
// a crash left no policy.bin. A file that is damaged or of an unknown version is
// refused, never guessed, and no older one stands in for it, which may let in who
// was revoked since: everybody is refused until the control plane has pushed the
// policy again. What changed since is in policy.log; see changes.go.
const (
	fileName    = "policy.bin"
	fileMagic   = "SLPOLIC"
	fileVersion = 1
	headerBytes = len(fileMagic) + 1
)

var (
	errNotPolicyFile  = errors.New("not a policy file")
	errPolicyVersion  = errors.New("policy file of an unknown version")
	errPolicyTampered = errors.New("policy file is damaged or sealed with another secret")
)

type savedState struct {
	Revision uint64    `json:"revision"`
	Snapshot *Snapshot `json:"snapshot"`
}

// file keeps a snapshot on disk, and the changes since.
type file struct {
	dir     string
	aead    cipher.AEAD
	changes changes

	saving sync.Mutex
	saved  uint64 // revision of the snapshot on disk; guarded by saving
}

func newFile(dir string, key []byte) (*file, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("policy file key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("policy file key: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make policy folder: %w", err)
	}
	return &file{dir: dir, aead: aead}, nil
}

// load returns nil without an error when there is no file yet. An error with a
// state says that the last change was cut off; without one, that changes are
// missing which were in force.
func (f *file) load() (*savedState, error) {
	state, err := f.loadSnapshot()
	if state != nil && err == nil {
		err = f.replay(state)
	}
	if err != nil && !errors.Is(err, errLogTorn) {
		f.saved, f.changes.whole, f.changes.records = 0, 0, nil // nobody else has the file yet
		return nil, err
	}
	return state, err
}

func (f *file) loadSnapshot() (*savedState, error) {
	path := filepath.Join(f.dir, fileName)
	state, err := f.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		state, err = f.read(path + ".bak")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return state, err
}

func (f *file) read(path string) (*savedState, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	state, err := f.open(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.saved, f.changes.whole = state.Revision, int64(len(raw)) // nobody else has the file yet
	return state, nil
}

func (f *file) open(raw []byte) (*savedState, error) {
	nonceEnd := headerBytes + f.aead.NonceSize()
	if len(raw) < nonceEnd || string(raw[:len(fileMagic)]) != fileMagic {
		return nil, errNotPolicyFile
	}
	if raw[len(fileMagic)] != fileVersion {
		return nil, errPolicyVersion
	}
	plain, err := f.aead.Open(nil, raw[headerBytes:nonceEnd], raw[nonceEnd:], raw[:headerBytes])
	if err != nil {
		return nil, errPolicyTampered
	}
	var state savedState
	if err := json.Unmarshal(plain, &state); err != nil {
		return nil, fmt.Errorf("decode policy: %w", err)
	}
	if state.Snapshot == nil {
		return nil, errNotPolicyFile
	}
	return &state, nil
}

// save replaces the snapshot and forgets the changes up to its revision. It is
// durable when it returns: file and folder are synced.
func (f *file) save(revision uint64, snapshot []byte) error {
	f.saving.Lock()
	defer f.saving.Unlock()
	if revision <= f.saved {
		return nil // a newer one came while this one was made
	}
	if err := f.saveSnapshot(revision, snapshot); err != nil {
		return err
	}
	f.saved = revision
	f.changes.mu.Lock()
	f.changes.whole = int64(len(snapshot))
	f.changes.mu.Unlock()
	return f.forget(revision)
}

func (f *file) saveSnapshot(revision uint64, snapshot []byte) error {
	plain := fmt.Appendf(make([]byte, 0, len(snapshot)+64), `{"revision":%d,"snapshot":`, revision) // as savedState
	plain = append(append(plain, snapshot...), '}')
	raw := make([]byte, 0, headerBytes+f.aead.NonceSize()+len(plain)+f.aead.Overhead())
	raw = append(append(raw, fileMagic...), fileVersion)
	nonce := make([]byte, f.aead.NonceSize())
	rand.Read(nonce)
	raw = append(raw, nonce...)
	raw = f.aead.Seal(raw, nonce, plain, raw[:headerBytes])

	path := filepath.Join(f.dir, fileName)
	if err := writeSynced(path+".new", raw); err != nil {
		return fmt.Errorf("write policy: %w", err)
	}
	if err := os.Rename(path, path+".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep previous policy: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("replace policy: %w", err)
	}
	return syncDir(f.dir)
}

func writeSynced(path string, data []byte) error {
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return errors.Join(err, w.Sync(), w.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
