package timerlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

const (
	// CheckpointBytes is how much of the file is used; brokers send each other
	// just that.
	CheckpointBytes = 56
	// checkpointFileBytes is the length of the file.
	checkpointFileBytes = 4096
)

// Checkpoint is the content of config/timercheck, in this order, 8 bytes each.
type Checkpoint struct {
	LastReadTimeMs         int64 // slots in front of this time have been delivered
	LastTimerLogFlushPos   int64 // the timer log is durable up to there
	LastTimerQueueOffset   int64 // next message of the timer topic's queue to take in
	MasterTimerQueueOffset int64 // the same of the group's master
	StateVersion           int64 // data version, three parts
	Timestamp              int64 // ms
	Counter                int64
}

func (c *Checkpoint) fields() [7]*int64 {
	return [...]*int64{&c.LastReadTimeMs, &c.LastTimerLogFlushPos, &c.LastTimerQueueOffset, &c.MasterTimerQueueOffset, &c.StateVersion, &c.Timestamp, &c.Counter}
}

// AppendCheckpoint appends the 56 bytes of c to b.
func AppendCheckpoint(b []byte, c Checkpoint) []byte {
	for _, v := range c.fields() {
		b = binary.BigEndian.AppendUint64(b, uint64(*v))
	}
	return b
}

// DecodeCheckpoint reads a checkpoint from the begin of b. The error is
// ErrDamaged when b is too short or a number is negative.
func DecodeCheckpoint(b []byte) (Checkpoint, error) {
	var c Checkpoint
	if len(b) < CheckpointBytes {
		return c, fmt.Errorf("timer checkpoint has %d bytes, not %d: %w", len(b), CheckpointBytes, ErrDamaged)
	}
	for i, v := range c.fields() {
		if *v = int64(binary.BigEndian.Uint64(b[8*i:])); *v < 0 {
			return Checkpoint{}, fmt.Errorf("timer checkpoint: number %d of 7 is %d, it cannot be negative: %w", i+1, *v, ErrDamaged)
		}
	}
	return c, nil
}

// ReadCheckpoint reads a file; a missing or empty one gives zeros.
func ReadCheckpoint(fsys vfs.FS, name string) (Checkpoint, error) {
	b, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 {
		return Checkpoint{}, nil
	}
	if err != nil {
		return Checkpoint{}, err
	}
	return DecodeCheckpoint(b)
}

// Write puts the checkpoint in place of the file's, durably. It lies in one
// sector, so that a power cut leaves the old one or the new one.
func (c Checkpoint) Write(fsys vfs.FS, name string) error {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(name)
	}
	if err != nil {
		return err
	}
	if err = f.Truncate(checkpointFileBytes); err == nil {
		_, err = f.WriteAt(AppendCheckpoint(nil, c), 0)
	}
	if err == nil {
		err = errors.Join(f.Sync(), fsys.SyncDir(filepath.Dir(name)))
	}
	return errors.Join(err, f.Close())
}
