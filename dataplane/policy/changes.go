package policy

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// policy.log holds the changes since the snapshot in policy.bin, so that a
// change costs its own size and not that of the whole policy:
//
//	+-----------------+                    the file
//	| "SLPOLOG" 0x01  |
//	+-----------------+-------+-----------------------------------------------+
//	| length, 4, big endian   | nonce, 12, then AES-256-GCM of a change       |  each record
//	+-------------------------+-----------------------------------------------+
//
// The length counts what follows it, and is authenticated together with the
// eight bytes in front of the file. A change is the JSON of loggedChange. Those
// whose revision the snapshot has are passed over; the rest follow each other by
// base and revision. A record that is torn ends the log: a process that died
// while it wrote one had not answered yet. One that is damaged and has others
// behind it makes the policy unreadable.
const (
	logName      = "policy.log"
	logMagic     = "SLPOLOG\x01"
	logLength    = 4
	logMinRoom   = 4 << 20 // the log may grow to this size, or a quarter of the snapshot
	logMaxRecord = MaxEnvelopeBytes
)

var (
	errLogGap     = errors.New("changes of the policy are missing")
	errLogDamaged = errors.New("policy log is damaged")
	errLogTorn    = errors.New("the last change in the policy log is cut off")
)

type loggedChange struct {
	Base     uint64          `json:"base"`
	Revision uint64          `json:"revision"`
	Delta    json.RawMessage `json:"delta"`
}

// record is where a change lies in the log.
type record struct {
	revision uint64
	end      int64
}

// changes is the log. What it holds of the file is true as long as nobody else
// writes the file: one process has the folder.
type changes struct {
	mu      sync.Mutex
	file    *os.File
	records []record
	folding sync.WaitGroup // a snapshot that is written in the background
	busy    bool
	whole   int64 // bytes of the snapshot on disk
}

func (c *changes) end() int64 {
	if n := len(c.records); n > 0 {
		return c.records[n-1].end
	}
	return int64(len(logMagic))
}

// openLog opens the file, or makes it. With c.mu.
func (f *file) openLog() error {
	c := &f.changes
	if c.file != nil {
		return nil
	}
	w, err := os.OpenFile(filepath.Join(f.dir, logName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open policy log: %w", err)
	}
	if len(c.records) == 0 {
		_, err = w.WriteAt([]byte(logMagic), 0)
		err = errors.Join(err, w.Truncate(int64(len(logMagic))), w.Sync(), syncDir(f.dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("begin policy log: %w", err), w.Close())
	}
	c.file = w
	return nil
}

// append is durable when it returns. When the log has become long, a snapshot
// of next is written in the background.
func (f *file) append(env *envelope, next *Snapshot) error {
	plain, err := json.Marshal(loggedChange{env.Base, env.Revision, env.Payload})
	if err != nil {
		return fmt.Errorf("encode change of policy: %w", err)
	}
	c := &f.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := f.openLog(); err != nil {
		return err
	}
	raw := f.sealRecord(plain)
	at := c.end()
	if _, err := c.file.WriteAt(raw, at); err != nil {
		return fmt.Errorf("write change of policy: %w", err)
	}
	if err := errors.Join(c.file.Truncate(at+int64(len(raw))), c.file.Sync()); err != nil { // what a torn record left
		return fmt.Errorf("write change of policy: %w", err)
	}
	c.records = append(c.records, record{env.Revision, at + int64(len(raw))})
	if c.end() > max(logMinRoom, c.whole/4) && !c.busy {
		c.busy = true
		c.folding.Go(func() { f.fold(env.Revision, next) })
	}
	return nil
}

func (f *file) sealRecord(plain []byte) []byte {
	n := f.aead.NonceSize() + len(plain) + f.aead.Overhead()
	raw := binary.BigEndian.AppendUint32(make([]byte, 0, logLength+n), uint32(n)) //nolint:gosec // an envelope has at most MaxEnvelopeBytes
	nonce := make([]byte, f.aead.NonceSize())
	rand.Read(nonce)
	raw = append(raw, nonce...)
	return f.aead.Seal(raw, nonce, plain, append([]byte(logMagic), raw[:logLength]...))
}

// fold writes a snapshot and shortens the log. What fails is tried again with
// the next change: the log is longer than it should be, and complete.
func (f *file) fold(revision uint64, s *Snapshot) {
	defer func() {
		f.changes.mu.Lock()
		f.changes.busy = false
		f.changes.mu.Unlock()
	}()
	if text, err := json.Marshal(s); err == nil {
		_ = f.save(revision, text)
	}
}

// close waits for what is written in the background.
func (f *file) close() error {
	c := &f.changes
	c.folding.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}

// forget takes the changes up to a revision out of the log.
func (f *file) forget(revision uint64) error {
	c := &f.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := f.openLog(); err != nil { // which empties a log without a record that counts
		return err
	}
	kept := len(c.records)
	for kept > 0 && c.records[kept-1].revision > revision {
		kept--
	}
	if kept == 0 {
		return nil
	}
	from, end := c.records[kept-1].end, c.end()
	tail := make([]byte, end-from)
	if _, err := c.file.ReadAt(tail, from); err != nil {
		return fmt.Errorf("shorten policy log: %w", err)
	}
	path := filepath.Join(f.dir, logName)
	if err := writeSynced(path+".new", append([]byte(logMagic), tail...)); err != nil {
		return fmt.Errorf("shorten policy log: %w", err)
	}
	if err := errors.Join(os.Rename(path+".new", path), syncDir(f.dir)); err != nil {
		return fmt.Errorf("shorten policy log: %w", err)
	}
	_ = c.file.Close() // of a file that is gone
	c.file = nil
	c.records = slices.Clone(c.records[kept:])
	for i := range c.records {
		c.records[i].end -= from - int64(len(logMagic))
	}
	return nil
}

// replay applies the logged changes to the snapshot that was loaded. The error
// says where it had to stop.
func (f *file) replay(state *savedState) error {
	path := filepath.Join(f.dir, logName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(raw) < len(logMagic) || string(raw[:len(logMagic)]) != logMagic {
		return fmt.Errorf("%s: %w", path, errNotPolicyFile)
	}
	c := &f.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := len(logMagic); at < len(raw); {
		change, n, err := f.openRecord(raw[at:])
		if errors.Is(err, errLogDamaged) && at+n == len(raw) {
			err = errLogTorn
		}
		if err != nil {
			return fmt.Errorf("%s at byte %d: %w", path, at, err)
		}
		at += n
		if change.Revision > state.Revision {
			if change.Base != state.Revision {
				return fmt.Errorf("%s: %w: at revision %d, the next is from %d", path, errLogGap, state.Revision, change.Base)
			}
			var d Delta
			if err := json.Unmarshal(change.Delta, &d); err != nil {
				return fmt.Errorf("%s at byte %d: %w", path, at, err)
			}
			state.Revision, state.Snapshot = change.Revision, state.Snapshot.apply(&d)
		}
		c.records = append(c.records, record{change.Revision, int64(at)})
	}
	return nil
}

// openRecord reads the first record of raw and tells how many bytes it has, also
// when it is damaged.
func (f *file) openRecord(raw []byte) (loggedChange, int, error) {
	var change loggedChange
	if len(raw) < logLength {
		return change, len(raw), errLogDamaged
	}
	n := int(binary.BigEndian.Uint32(raw))
	if n > logMaxRecord || n > len(raw)-logLength || n < f.aead.NonceSize() {
		return change, len(raw), errLogDamaged
	}
	sealed := raw[logLength : logLength+n]
	plain, err := f.aead.Open(nil, sealed[:f.aead.NonceSize()], sealed[f.aead.NonceSize():], append([]byte(logMagic), raw[:logLength]...))
	if err != nil {
		return change, logLength + n, errLogDamaged
	}
	if err := json.Unmarshal(plain, &change); err != nil {
		return change, logLength + n, fmt.Errorf("%w: %w", errLogDamaged, err)
	}
	return change, logLength + n, nil
}
