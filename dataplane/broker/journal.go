package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// journal is the file receive.log: what happened to received messages, so that
// a restart neither loses nor repeats what was acknowledged.
//
//	header   magic "SLRECV" | version u16 | crc32c of both u32
//	entry    length u32 | crc32c of payload u32 | payload
//	payload  queue id u32 | kind u8 | ...
//	  1 name   group length u16 | group | topic length u16 | topic | queue i32
//	  2 state  next i64 | base i64 | dropped u32 | offset i64 ... |
//	           set u32 | { offset i64 | attempt i32 | nonce u64 | visible at i64 } ...
//	  3 clear  next i64 | base i64
//	  4 gone
//
// The queue id is a number of this file; entry 1 says which queue it is.
// Entry 2 gives the new position of a queue, the in-flight messages that
// ended and those that began or changed. A tail that is cut or damaged ends
// the file: entries are written in order, so nothing after it was promised.
//
// An entry is written (not synced) before the call that caused it returns: it
// survives the process. Sync runs once a second: a power cut makes messages
// come again that were received in that second, never fewer.
//
// Upgrade: a new version reads the old one at open and compacts at once, which
// writes the new header. An unknown version is refused.
type journal struct {
	fs   vfs.FS
	path string

	mu      sync.Mutex
	cond    *sync.Cond
	f       vfs.File
	size    int64
	buf     []byte // entries not written yet
	tail    []byte // while compacting: all entries since it began
	tailing bool
	seq     int64 // bytes ever added
	done    int64 // bytes ever written
	writing bool  // one caller writes for all
	dirty   bool  // written, not synced
	err     error // the first write error; the journal is over then
}

const (
	journalMagic   = "SLRECV"
	journalVersion = 1
	journalHeader  = 12
)

var (
	castagnoli        = crc32.MakeTable(crc32.Castagnoli)
	errJournalVersion = errors.New("receive journal of an unknown version")
)

// maxEntry bounds an entry at open; a longer length is damage.
const maxEntry = 16 << 20

// openJournal reads the file, calls apply for each payload, and cuts off a
// damaged tail. payload is valid during the call.
func openJournal(fsys vfs.FS, dir string, apply func(payload []byte) error) (*journal, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	j := &journal{fs: fsys, path: filepath.Join(dir, "receive.log")}
	j.cond = sync.NewCond(&j.mu)
	f, err := fsys.Open(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, j.create()
	}
	if err != nil {
		return nil, err
	}
	data, err := vfs.ReadFile(fsys, j.path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	good, err := replay(data, apply)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if good == 0 { // not even a header: the file was being made
		if err := f.Close(); err != nil {
			return nil, err
		}
		return j, j.create()
	}
	if err := f.Truncate(int64(good)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	j.f, j.size = f, int64(good)
	return j, nil
}

// replay walks over the file's bytes and returns how many are good.
func replay(data []byte, apply func([]byte) error) (good int, err error) {
	if len(data) < journalHeader || string(data[:6]) != journalMagic ||
		crc32.Checksum(data[:8], castagnoli) != binary.BigEndian.Uint32(data[8:]) {
		return 0, nil
	}
	if v := binary.BigEndian.Uint16(data[6:]); v != journalVersion {
		return 0, fmt.Errorf("%w: %d, want %d", errJournalVersion, v, journalVersion)
	}
	good = journalHeader
	for len(data)-good >= 8 {
		n := int(binary.BigEndian.Uint32(data[good:]))
		if n > maxEntry || n > len(data)-good-8 {
			break
		}
		payload := data[good+8 : good+8+n]
		if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(data[good+4:]) || apply(payload) != nil {
			break
		}
		good += 8 + n
	}
	return good, nil
}

func header() []byte {
	b := append(make([]byte, 0, journalHeader), journalMagic...)
	b = binary.BigEndian.AppendUint16(b, journalVersion)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (j *journal) create() error {
	f, err := j.fs.Create(j.path)
	if err != nil {
		return err
	}
	h := header()
	if _, err := f.WriteAt(h, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	dir := filepath.Dir(j.path)
	for _, name := range []string{dir, filepath.Dir(dir)} { // the file in its folder, and the folder
		if err := j.fs.SyncDir(name); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	j.f, j.size = f, int64(len(h))
	return nil
}

// add puts an entry in line and returns what to wait for. It does no I/O, so
// callers may hold the lock that orders their entries.
func (j *journal) add(payload []byte) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := len(j.buf)
	j.buf = appendEntry(j.buf, payload)
	if j.tailing {
		j.tail = append(j.tail, j.buf[before:]...)
	}
	j.seq += int64(len(j.buf) - before)
	return j.seq
}

func appendEntry(dst, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(payload, castagnoli))
	return append(dst, payload...)
}

// wait returns when everything up to seq is in the file. The first caller that
// finds nobody writing writes for all who came meanwhile.
func (j *journal) wait(seq int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.done < seq && j.err == nil {
		if j.writing {
			j.cond.Wait()
			continue
		}
		j.writing = true
		batch, upTo, at, f := j.buf, j.seq, j.size, j.f
		j.buf = nil
		j.mu.Unlock()
		_, err := f.WriteAt(batch, at)
		j.mu.Lock()
		j.writing = false
		if err != nil {
			j.err = fmt.Errorf("write receive journal: %w", err)
		} else {
			j.size += int64(len(batch))
			j.done, j.dirty = upTo, true
		}
		j.cond.Broadcast()
	}
	return j.err
}

// sync makes what is written durable.
func (j *journal) sync() error {
	j.mu.Lock()
	f, dirty := j.f, j.dirty
	j.dirty = false
	j.mu.Unlock()
	if !dirty {
		return nil
	}
	return f.Sync()
}

// length returns the size of the file.
func (j *journal) length() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// compact replaces the file by snapshot's entries and whatever was added since
// it was called. The two overlap; entries may be replayed over a later state,
// because the last entry about anything is in the tail.
func (j *journal) compact(snapshot func() []byte) error {
	j.mu.Lock()
	j.tail, j.tailing = nil, true
	j.mu.Unlock()
	next := j.path + ".new"
	f, err := j.fs.Create(next)
	if err != nil {
		return j.abandon(nil, err)
	}
	content := append(header(), snapshot()...)
	if _, err := f.WriteAt(content, 0); err != nil {
		return j.abandon(f, err)
	}
	if err := f.Sync(); err != nil {
		return j.abandon(f, err)
	}
	j.mu.Lock()
	for j.writing {
		j.cond.Wait()
	}
	j.writing = true
	rest, upTo := j.tail, j.seq
	waitingFor := j.buf // also in rest
	j.tail, j.tailing, j.buf = nil, false, nil
	j.mu.Unlock()
	swapped, err := j.swap(f, next, rest, int64(len(content)))
	j.mu.Lock()
	old := j.f
	if swapped {
		j.f, j.size, j.done = f, int64(len(content)+len(rest)), upTo
	} else {
		j.buf = append(waitingFor, j.buf...)
	}
	j.writing = false
	j.cond.Broadcast()
	j.mu.Unlock()
	if !swapped {
		return errors.Join(err, f.Close())
	}
	return errors.Join(err, old.Close())
}

// swap puts the new file in the old one's place; swapped says that the name
// has changed, whatever came after.
func (j *journal) swap(f vfs.File, name string, rest []byte, at int64) (swapped bool, err error) {
	if len(rest) > 0 {
		if _, err := f.WriteAt(rest, at); err != nil {
			return false, err
		}
		if err := f.Sync(); err != nil {
			return false, err
		}
	}
	if err := j.fs.Rename(name, j.path); err != nil {
		return false, err
	}
	return true, j.fs.SyncDir(filepath.Dir(j.path))
}

func (j *journal) abandon(f vfs.File, err error) error {
	j.mu.Lock()
	j.tail, j.tailing = nil, false
	j.mu.Unlock()
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	return fmt.Errorf("compact receive journal: %w", err)
}

func (j *journal) close() error {
	j.mu.Lock()
	seq := j.seq
	j.mu.Unlock()
	return errors.Join(j.wait(seq), j.sync(), j.f.Close())
}
