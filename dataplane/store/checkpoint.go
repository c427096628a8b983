package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// checkpointBytes is the size of the checkpoint file:
//
//	0 PHYSIC i64, 8 LOGICS i64, 16 INDEX i64, 24 MASTERFLUSHED i64, 32 CONFIRM i64, 40 REACHED i64, 48 SYNCED i64, 56 CRC u32, zeros
//
// The last three are ours; others leave them as they are. So the CRC (IEEE) covers
// REACHED and SYNCED only; it is zero where none was written.
const checkpointBytes = 4096

// checkpoint tells a recovery what it need not look at. All values are times
// in ms, but the last four, which are commit log offsets.
type checkpoint struct {
	mu     sync.Mutex
	fs     vfs.FS
	name   string
	file   vfs.File
	values checkpointValues

	damaged bool // the file is to be written anew
}

var errCheckpoint = errors.New("checkpoint damaged")

type checkpointValues struct {
	physic        int64 // store time up to which the commit log was synced
	logics        int64 // store time up to which the queues were synced
	index         int64 // store time up to which the key index was synced
	masterFlushed int64 // kept for other readers of the folder
	confirm       int64 // start of the last record that the last recovery found
	reached       int64 // start of a record: it and all in front of it are synced, in the commit log and in the queues
	synced        int64 // end of the commit log that was synced
}

// load reads the file; a missing or short one is zeros. So is a damaged one, for
// which the error is errCheckpoint: then it is not known what was synced.
func (c *checkpoint) load(fsys vfs.FS, name string) error {
	c.fs, c.name = fsys, name
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	b = append(b, make([]byte, 60)...)
	sum := binary.BigEndian.Uint32(b[56:])
	if len(bytes.TrimLeft(b[60:], "\x00")) > 0 || sum != 0 && sum != crc32.ChecksumIEEE(b[40:56]) {
		c.damaged = true
		return fmt.Errorf("%s: %w", name, errCheckpoint)
	}
	get := func(i int) int64 { return max(0, int64(binary.BigEndian.Uint64(b[i:]))) }
	c.values = checkpointValues{get(0), get(8), get(16), get(24), get(32), get(40), get(48)}
	return nil
}

func (c *checkpoint) get() checkpointValues {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values
}

// update changes the values and makes the file durable if they differ. The
// values stand in one sector, so a crash leaves the old or the new ones.
func (c *checkpoint) update(change func(*checkpointValues)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.values
	change(&v)
	if v == c.values && c.file != nil {
		return nil
	}
	if c.file == nil {
		if err := c.openLocked(); err != nil {
			return err
		}
	}
	b := make([]byte, 0, 60)
	for _, x := range []int64{v.physic, v.logics, v.index, v.masterFlushed, v.confirm, v.reached, v.synced} {
		b = binary.BigEndian.AppendUint64(b, uint64(x))
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[40:56]))
	if _, err := c.file.WriteAt(b, 0); err != nil {
		return err
	}
	if err := c.file.Sync(); err != nil {
		return err
	}
	c.values = v
	return nil
}

func (c *checkpoint) openLocked() error {
	f, err := c.fs.Open(c.name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = c.fs.Create(c.name)
	}
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil && size != checkpointBytes || c.damaged {
		// Emptied first: what follows the values has to be zero.
		err = errors.Join(err, f.Truncate(0), f.Truncate(checkpointBytes))
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = c.fs.SyncDir(filepath.Dir(c.name))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	c.file = f
	return nil
}

func (c *checkpoint) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return nil
	}
	f := c.file
	c.file = nil
	return f.Close()
}
