// Package queuelog is the index of one queue: for each message, in queue
// order, a unit of 20 bytes that says where its record is in the commit log.
//
// It owns the files of a queue folder. Everything in them can be made again
// from the commit log, so nothing is synced before a reply; Sync tells when a
// recovery need not look further back. FORMAT.md describes the files.
//
// Any goroutine may read at any time; writers exclude each other.
package queuelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"
	"sync"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// UnitBytes is the size of a unit.
const UnitBytes = 20

// blankSize marks a unit that stands for no message.
const blankSize = math.MaxInt32

// keepUnits is how many of the newest units stay in memory after they were written.
const keepUnits = 512

// ErrDamaged means that the files of a queue do not fit together; delete the
// folder and build it again.
var ErrDamaged = errors.New("consume queue damaged")

// Unit is one entry:
//
//	0 OFFSET i64, 8 SIZE i32, 12 TAGSCODE i64
type Unit struct {
	Offset   int64 // of the record in the commit log
	Size     int32 // of the record
	TagsCode int64
}

var blank = Unit{Size: blankSize}

// Blank reports that the unit stands for no message: it fills a queue in
// front of its first message, or the place of one that was lost.
func (u Unit) Blank() bool { return u == blank }

// valid reports that the unit is more than unused space.
func (u Unit) valid() bool { return u.Offset >= 0 && u.Size > 0 }

func (u Unit) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(u.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Size))
	return binary.BigEndian.AppendUint64(b, uint64(u.TagsCode))
}

func decode(b []byte) Unit {
	return Unit{
		Offset: int64(binary.BigEndian.Uint64(b)), Size: int32(binary.BigEndian.Uint32(b[8:])),
		TagsCode: int64(binary.BigEndian.Uint64(b[12:])),
	}
}

// Config shapes the queues of a store; FileBytes is part of the data.
type Config struct {
	FileBytes int64 // rounded up to whole units
	FS        vfs.FS
	// Clean says that the last stop was clean: files are units up to the first
	// unused one and zero behind it. Otherwise the newest files are checked.
	Clean bool
}

func (c Config) unitsPerFile() int64 { return (c.FileBytes + UnitBytes - 1) / UnitBytes }

// Queue is the index of one queue. Offsets in its methods are queue offsets,
// that is numbers of units.
type Queue struct {
	cfg Config
	dir string

	writer sync.Mutex // held by whoever changes files, also during I/O; Append does without
	named  bool       // the names of all files are on the disk; guarded by writer

	mu       sync.RWMutex
	synced   int64 // units in front of it are on the disk
	active   bool  // something was appended since the last Sync
	removed  bool
	files    []*file // sorted; replaced, not changed
	min      int64
	max      int64
	written  int64 // units in front of it are in the files
	tail     []byte
	tailBase int64 // first unit in tail; <= written
	end      int64 // commit log offset behind the newest record
}

// Open loads the queue of a folder and finds its end; a missing folder is an
// empty queue. ErrDamaged when the files do not fit together.
func Open(cfg Config, dir string) (*Queue, error) {
	q := &Queue{cfg: cfg, dir: dir, named: true}
	if err := q.load(); err != nil {
		q.Close()
		return nil, fmt.Errorf("open consume queue %s: %w", dir, err)
	}
	return q, nil
}

// Range returns the first offset and the one behind the last message.
func (q *Queue) Range() (min, max int64) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.min, q.max
}

// End returns the commit log offset behind the newest record of the queue, 0
// for none.
func (q *Queue) End() int64 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.end
}

// Last returns the newest message of the queue, false for none.
func (q *Queue) Last() (Unit, bool, error) {
	first := q.firstUnit()
	_, hi := q.Range()
	for at := hi - 1; at >= first; at-- {
		if u, ok, err := q.At(at); err != nil || ok {
			return u, ok, err
		}
	}
	return Unit{}, false, nil
}

// Outcome says what Append did.
type Outcome uint8

// The outcomes.
const (
	Added    Outcome = iota
	Repeated         // the message is in the queue already
	AddedGap         // added behind blank units: messages in front of it are missing
	Rejected         // the offset is negative or more than a file ahead
)

// Append adds the unit of the message with the given queue offset. The first
// message of a queue may have any offset. The unit is readable at once and in
// a file after Flush.
func (q *Queue) Append(index int64, u Unit) Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	empty := len(q.files) == 0 && q.max == 0 && len(q.tail) == 0
	switch {
	case index < 0 || !empty && index-q.max > q.cfg.unitsPerFile():
		return Rejected
	case u.Offset+int64(u.Size) <= q.end || index < q.max || q.removed:
		return Repeated
	}
	outcome := Added
	if empty && index > 0 {
		// The files in front of the first message never exist.
		q.max = index - index%q.cfg.unitsPerFile()
		q.written, q.tailBase, q.synced = q.max, q.max, q.max
		q.min = index
	} else if index > q.max {
		outcome = AddedGap
	}
	for q.max < index {
		q.tail = blank.append(q.tail)
		q.max++
	}
	q.tail = u.append(q.tail)
	q.max++
	q.end = u.Offset + int64(u.Size)
	q.active = true
	return outcome
}

// Repair makes the unit at index, which must be in the queue, equal to u. It
// reports whether that changed anything.
func (q *Queue) Repair(index int64, u Unit) (bool, error) {
	q.writer.Lock()
	defer q.writer.Unlock()
	if _, hi := q.Range(); index < q.firstUnit() || index >= hi {
		return false, nil
	}
	var buf [1]Unit
	got, err := q.Read(buf[:0], index, 1)
	if err != nil || len(got) == 1 && got[0] == u {
		return false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if index == q.max-1 {
		q.end = u.Offset + int64(u.Size)
	}
	if index >= q.tailBase {
		u.append(q.tail[(index-q.tailBase)*UnitBytes:][:0])
	}
	if index < q.written {
		q.synced = min(q.synced, index)
		return true, q.writeFileLocked(index, u.append(nil))
	}
	return true, nil
}

// Read appends up to n units from offset from on to dst. It may give fewer
// than there are: then ask again. At the end it gives none.
func (q *Queue) Read(dst []Unit, from int64, n int) ([]Unit, error) {
	q.mu.RLock()
	if from < 0 || from >= q.max {
		q.mu.RUnlock()
		return dst, nil
	}
	if from >= q.tailBase {
		b := q.tail[(from-q.tailBase)*UnitBytes:]
		for ; n > 0 && len(b) > 0; n-- {
			dst = append(dst, decode(b))
			b = b[UnitBytes:]
		}
		q.mu.RUnlock()
		return dst, nil
	}
	n = int(min(int64(n), q.tailBase-from))
	f := q.fileOf(from)
	q.mu.RUnlock()
	if f == nil {
		return dst, nil
	}
	return f.read(q.cfg.FS, dst, from, n)
}

// At returns the unit at an offset; false when the queue does not have it or
// it is blank.
func (q *Queue) At(index int64) (Unit, bool, error) {
	var buf [1]Unit
	got, err := q.Read(buf[:0], index, 1)
	if err != nil || len(got) == 0 {
		return Unit{}, false, err
	}
	return got[0], got[0].valid() && !got[0].Blank(), nil
}

// Search returns the first offset in [min, max) whose message makes is true,
// or max. Messages in front of it must make it false; blank units count like
// the next message.
func (q *Queue) Search(is func(Unit) (bool, error)) (int64, error) {
	lo, hi := q.Range()
	return q.search(lo, hi, is)
}

func (q *Queue) search(lo, hi int64, is func(Unit) (bool, error)) (int64, error) {
	var failed error
	i := sort.Search(int(hi-lo), func(i int) bool {
		for at := lo + int64(i); at < hi && failed == nil; at++ {
			u, ok, err := q.At(at)
			if err != nil {
				failed = err
				return true
			}
			if !ok {
				continue
			}
			yes, err := is(u)
			failed = err
			return yes
		}
		return true
	})
	return lo + int64(i), failed
}

// Flush writes units that are in memory only to the files.
func (q *Queue) Flush() error {
	q.writer.Lock()
	defer q.writer.Unlock()
	return q.flushLocked()
}

// flushLocked needs writer. The I/O is done without mu, so readers go on.
func (q *Queue) flushLocked() error {
	q.mu.RLock()
	from, to := q.written, q.max
	b := q.tail[(from-q.tailBase)*UnitBytes:]
	q.mu.RUnlock()
	per := q.cfg.unitsPerFile()
	for from < to {
		f, err := q.fileFor(from)
		if err != nil {
			return fmt.Errorf("consume queue %s: %w", q.dir, err)
		}
		n := min(to-from, f.first+per-from)
		if err := f.write(q.cfg.FS, from, b[:n*UnitBytes]); err != nil {
			return fmt.Errorf("consume queue %s: %w", q.dir, err)
		}
		b, from = b[n*UnitBytes:], from+n
		q.mu.Lock()
		q.written = from
		q.mu.Unlock()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if drop := q.max - q.tailBase - keepUnits; drop > keepUnits {
		q.tail = append([]byte(nil), q.tail[drop*UnitBytes:]...)
		q.tailBase += drop
	}
	return nil
}

// Sync flushes and makes all units durable. A queue without appends since the
// last Sync gives its memory and files back.
func (q *Queue) Sync() error {
	q.writer.Lock()
	defer q.writer.Unlock()
	if err := q.flushLocked(); err != nil {
		return err
	}
	q.mu.RLock()
	synced, written, active := q.synced, q.written, q.active
	q.mu.RUnlock()
	if synced < written {
		for _, f := range q.files {
			if f.first+q.cfg.unitsPerFile() > synced {
				if err := f.sync(q.cfg.FS); err != nil {
					return fmt.Errorf("consume queue %s: %w", q.dir, err)
				}
			}
		}
	}
	if len(q.files) > 0 {
		if err := q.syncNames(); err != nil {
			return fmt.Errorf("consume queue %s: %w", q.dir, err)
		}
	}
	q.mu.Lock()
	q.synced = written
	q.active = false
	if !active && q.written == q.max {
		q.tail, q.tailBase = nil, q.max
	}
	q.mu.Unlock()
	if !active {
		for _, f := range q.files {
			f.idle()
		}
	}
	return nil
}

// Unsynced reports that a Sync would have something to do.
func (q *Queue) Unsynced() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.synced < q.max || q.active || len(q.tail) > 0
}

// Truncate removes the units of records at or behind the commit log offset end.
func (q *Queue) Truncate(end int64) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	if q.End() <= end {
		return nil
	}
	lo := q.firstUnit()
	_, hi := q.Range()
	cut, err := q.search(lo, hi, func(u Unit) (bool, error) { return u.Offset+int64(u.Size) > end, nil })
	if err == nil {
		err = q.truncateLocked(cut)
	}
	if err != nil {
		return fmt.Errorf("truncate consume queue %s: %w", q.dir, err)
	}
	return nil
}

// firstUnit is the first unit that is in a file or in memory.
func (q *Queue) firstUnit() int64 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if len(q.files) > 0 {
		return q.files[0].first
	}
	return q.tailBase
}

// truncateLocked makes max the end of the queue; it needs writer. Files are
// never left without a unit.
func (q *Queue) truncateLocked(max int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if max >= q.tailBase {
		q.tail = q.tail[:(max-q.tailBase)*UnitBytes]
	} else {
		q.tail, q.tailBase = nil, max
	}
	q.max, q.written, q.synced = max, min(q.written, max), min(q.synced, max)
	q.min = min(q.min, max)
	keep := len(q.files)
	for keep > 0 && q.files[keep-1].first >= q.written {
		keep--
		if err := q.files[keep].remove(q.cfg.FS); err != nil {
			return err
		}
		q.named = false
	}
	q.files = append([]*file(nil), q.files[:keep]...)
	if keep > 0 {
		if err := q.files[keep-1].clear(q.cfg.FS, q.written); err != nil {
			return err
		}
	}
	return q.findEndLocked()
}

// findEndLocked sets end from the newest unit that is not blank.
func (q *Queue) findEndLocked() error {
	q.end = 0
	first := q.tailBase
	if len(q.files) > 0 {
		first = q.files[0].first
	}
	for i := q.max - 1; i >= first; i-- {
		var buf [1]Unit
		got := buf[:0]
		var err error
		if i >= q.tailBase {
			got = append(got, decode(q.tail[(i-q.tailBase)*UnitBytes:]))
		} else if f := q.fileOf(i); f != nil {
			if got, err = f.read(q.cfg.FS, got, i, 1); err != nil {
				return err
			}
		}
		if len(got) == 1 && got[0].valid() && !got[0].Blank() {
			q.end = got[0].Offset + int64(got[0].Size)
			return nil
		}
	}
	return nil
}

// Expire removes files whose records are all in front of the commit log's
// first offset, never the last one, and moves the queue's first offset.
func (q *Queue) Expire(logMin int64) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	for len(q.files) > 1 {
		last, err := q.lastOffset(q.files[0])
		if err != nil {
			return fmt.Errorf("expire consume queue %s: %w", q.dir, err)
		}
		if last >= logMin || q.files[1].first > q.written {
			break
		}
		q.mu.Lock()
		first := q.files[0]
		q.files = append([]*file(nil), q.files[1:]...)
		q.min = max(q.min, q.files[0].first)
		q.mu.Unlock()
		if err := first.remove(q.cfg.FS); err != nil {
			return fmt.Errorf("expire consume queue %s: %w", q.dir, err)
		}
		if err := q.cfg.FS.SyncDir(q.dir); err != nil {
			return fmt.Errorf("expire consume queue %s: %w", q.dir, err)
		}
	}
	_, hi := q.Range()
	from, err := q.search(q.firstUnit(), hi, func(u Unit) (bool, error) { return u.Offset >= logMin, nil })
	if err != nil {
		return fmt.Errorf("expire consume queue %s: %w", q.dir, err)
	}
	// The search stops at blank units in front of the message it means.
	for from < hi {
		if u, ok, err := q.At(from); err != nil {
			return fmt.Errorf("expire consume queue %s: %w", q.dir, err)
		} else if ok && u.Offset >= logMin {
			break
		}
		from++
	}
	q.mu.Lock()
	q.min = from
	q.mu.Unlock()
	return nil
}

// lastOffset returns the commit log offset of the last message in a full file, -1 for none.
func (q *Queue) lastOffset(f *file) (int64, error) {
	for at := f.first + f.units - 1; at >= f.first; at-- {
		if u, ok, err := q.At(at); err != nil || ok {
			return u.Offset, err
		}
	}
	return -1, nil
}

// Close flushes the queue and closes its files. The error is that of Flush.
func (q *Queue) Close() error {
	q.writer.Lock()
	defer q.writer.Unlock()
	err := q.flushLocked()
	for _, f := range q.files {
		f.idle()
	}
	return err
}

// Reset deletes the files; the queue is as good as new.
func (q *Queue) Reset() error { return q.drop(false) }

// Remove deletes the files for good: later appends are ignored.
func (q *Queue) Remove() error { return q.drop(true) }

func (q *Queue) drop(forever bool) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.mu.Lock()
	files := q.files
	q.files, q.tail = nil, nil
	q.min, q.max, q.written, q.tailBase, q.end, q.synced, q.active = 0, 0, 0, 0, 0, 0, false
	q.removed = forever
	q.mu.Unlock()
	q.named = true
	for _, f := range files {
		f.idle()
	}
	return q.cfg.FS.RemoveAll(q.dir)
}
