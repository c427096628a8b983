package queuelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"sync"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// BatchUnitBytes is the size of an entry of a batch consume queue.
const BatchUnitBytes = 46

// BatchUnit is one entry of a batch consume queue: a record that holds Count
// messages with the queue offsets from Base on.
//
//	0 OFFSET i64, 8 SIZE i32, 12 TAGSCODE i64, 20 STORETIME i64, 28 BASE i64, 36 COUNT i16, 38 COMPACTED i32, 42 zero i32
//
// COMPACTED is -1: no record has been compacted away.
type BatchUnit struct {
	Unit
	StoreTime int64
	Base      int64
	Count     int16
}

// Next is the queue offset behind the last message of the record.
func (u *BatchUnit) Next() int64 { return u.Base + int64(u.Count) }

func (u *BatchUnit) valid() bool { return u.Unit.valid() && u.Base >= 0 && u.Count > 0 }

func (u *BatchUnit) append(b []byte) []byte {
	b = u.Unit.append(b)
	b = binary.BigEndian.AppendUint64(b, uint64(u.StoreTime))
	b = binary.BigEndian.AppendUint64(b, uint64(u.Base))
	b = binary.BigEndian.AppendUint16(b, uint16(u.Count))
	return append(b, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
}

func decodeBatch(b []byte) BatchUnit {
	return BatchUnit{
		Unit: decode(b), StoreTime: int64(binary.BigEndian.Uint64(b[20:])),
		Base: int64(binary.BigEndian.Uint64(b[28:])), Count: int16(binary.BigEndian.Uint16(b[36:])),
	}
}

// Batch is the index of one queue whose records may hold several messages. Its
// units are numbered in the order of the commit log, so that a message is found
// by a search. Any goroutine may read at any time; writers exclude each other.
type Batch struct {
	cfg     Config
	dir     string
	handles handles

	writer sync.Mutex // held by whoever changes files, also during I/O
	named  bool       // the names of all files are on the disk; guarded by writer
	synced bool       // everything written is on the disk; guarded by writer

	mu    sync.RWMutex
	files []*file     // their first is a number of a unit; replaced, not changed
	first int64       // number of the first unit whose record is there
	next  int64       // number behind the last unit
	min   int64       // queue offset of unit first
	max   int64       // queue offset behind the last message
	end   int64       // commit log offset behind the newest record
	tail  []BatchUnit // not in a file yet
}

// OpenBatch loads the queue of a folder; a missing folder is an empty queue.
// The files have as many units as those of other queues. ErrDamaged when they
// do not fit together.
func OpenBatch(cfg Config, dir string) (*Batch, error) {
	q := &Batch{cfg: cfg, dir: dir, named: true, synced: true, handles: handles{fs: cfg.FS, limit: 16}}
	if err := q.load(); err != nil {
		return nil, fmt.Errorf("open batch consume queue %s: %w", dir, errors.Join(err, q.Close()))
	}
	return q, nil
}

func (q *Batch) fileBytes() int64 { return q.cfg.unitsPerFile() * BatchUnitBytes }

func (q *Batch) load() error {
	ok, err := vfs.Exists(q.cfg.FS, q.dir)
	if err != nil || !ok {
		return err
	}
	infos, err := q.cfg.FS.ReadDir(q.dir)
	if err != nil {
		return err
	}
	for _, info := range infos {
		pos, err := strconv.ParseInt(info.Name, 10, 64)
		if info.Dir || err != nil || len(info.Name) != 20 {
			continue
		}
		x := &file{first: pos / BatchUnitBytes, units: q.cfg.unitsPerFile(), name: filepath.Join(q.dir, info.Name)}
		n := len(q.files)
		if pos%q.fileBytes() != 0 || info.Size > q.fileBytes() || n > 0 && x.first != q.files[n-1].first+x.units {
			return fmt.Errorf("file %s of %d bytes is not the next of files of %d bytes: %w", info.Name, info.Size, q.fileBytes(), ErrDamaged)
		}
		if info.Size < q.fileBytes() {
			// Creation was interrupted.
			if err := q.resize(x, q.fileBytes()); err != nil {
				return err
			}
		}
		q.files = append(q.files, x)
	}
	if len(q.files) == 0 {
		return nil
	}
	q.first = q.files[0].first
	return q.findEnd()
}

// findEnd reads the last three files up to the first unit that is not good:
// offsets must grow, or it was not written whole. The rest is made zero.
func (q *Batch) findEnd() error {
	at := max(0, len(q.files)-3)
	q.next = q.files[at].first
	var last BatchUnit
	units := make([]BatchUnit, 0, 500)
	for whole := true; whole; {
		var err error
		if units, err = q.readUnits(units[:0], q.next, cap(units)); err != nil {
			return err
		}
		whole = len(units) > 0
		for _, u := range units {
			if whole = u.valid() && u.Offset >= last.Offset+int64(last.Size) && u.Base >= last.Next(); !whole {
				break
			}
			last = u
			q.next++
		}
	}
	return q.cutLocked(q.next)
}

// readUnits appends up to n units of one file.
func (q *Batch) readUnits(dst []BatchUnit, from int64, n int) ([]BatchUnit, error) {
	i := sort.Search(len(q.files), func(i int) bool { return q.files[i].first > from }) - 1
	if i < 0 || from >= q.files[i].first+q.files[i].units {
		return dst, nil
	}
	x := q.files[i]
	f, err := x.use(&q.handles)
	if err != nil {
		return dst, err
	}
	defer x.done()
	b := make([]byte, min(int64(n), x.first+x.units-from)*BatchUnitBytes)
	if _, err := f.ReadAt(b, (from-x.first)*BatchUnitBytes); err != nil {
		return dst, fmt.Errorf("read units at %d of %s: %w", from, x.name, err)
	}
	for ; len(b) > 0; b = b[BatchUnitBytes:] {
		dst = append(dst, decodeBatch(b))
	}
	return dst, nil
}

// unit returns the unit with a number in [first, next); it needs mu.
func (q *Batch) unitLocked(number int64) (BatchUnit, error) {
	if at := number - (q.next - int64(len(q.tail))); at >= 0 {
		return q.tail[at], nil
	}
	var buf [1]BatchUnit
	got, err := q.readUnits(buf[:0], number, 1)
	if err != nil || len(got) == 0 {
		return BatchUnit{}, errors.Join(err, fmt.Errorf("unit %d of %s: %w", number, q.dir, ErrDamaged))
	}
	return got[0], nil
}

// searchLocked returns the number of the first unit that makes is true, or
// next. Units in front of it must make it false.
func (q *Batch) searchLocked(is func(*BatchUnit) bool) (int64, error) {
	var failed error
	i := sort.Search(int(q.next-q.first), func(i int) bool {
		u, err := q.unitLocked(q.first + int64(i))
		failed = errors.Join(failed, err)
		return err != nil || is(&u)
	})
	return q.first + int64(i), failed
}

// Range returns the first queue offset and the one behind the last message.
func (q *Batch) Range() (min, max int64) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.min, q.max
}

// End returns the commit log offset behind the newest record, 0 for none.
func (q *Batch) End() int64 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.end
}

// Append adds the entry of a record. It is readable at once and in a file
// after Flush.
func (q *Batch) Append(u BatchUnit) Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !u.valid():
		return Rejected
	case u.Offset+int64(u.Size) <= q.end || u.Base < q.max:
		return Repeated
	}
	outcome := Added
	if q.first == q.next {
		q.min = u.Base
	} else if u.Base > q.max {
		outcome = AddedGap
	}
	q.tail = append(q.tail, u)
	q.next++
	q.max, q.end = u.Next(), u.Offset+int64(u.Size)
	return outcome
}

// Read appends to dst the entry of the record that has the message at a queue
// offset, or else the next one there is, and up to n in all. It may give fewer
// than there are; at the end it gives none.
func (q *Batch) Read(dst []BatchUnit, from int64, n int) ([]BatchUnit, error) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	at, err := q.searchLocked(func(u *BatchUnit) bool { return u.Next() > from })
	if err != nil || at == q.next {
		return dst, err
	}
	filed := q.next - int64(len(q.tail))
	if at < filed {
		return q.readUnits(dst, at, int(min(int64(n), filed-at)))
	}
	return append(dst, q.tail[at-filed:][:min(int64(n), q.next-at)]...), nil
}

// SearchTime returns the first queue offset whose record was stored at ms or
// later, or the one behind the last message; before asks for the last one that
// was stored at ms or earlier, or the first of all.
func (q *Batch) SearchTime(ms int64, before bool) (int64, error) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	at, err := q.searchLocked(func(u *BatchUnit) bool { return u.StoreTime > ms || !before && u.StoreTime == ms })
	if err != nil || q.first == q.next {
		return q.max, err
	}
	switch {
	case before && at > q.first:
		u, err := q.unitLocked(at - 1)
		return u.Next() - 1, err
	case before:
		return q.min, nil
	case at == q.next:
		return q.max, nil
	}
	u, err := q.unitLocked(at)
	return u.Base, err
}

// Flush writes entries that are in memory only to the files.
func (q *Batch) Flush() error {
	q.writer.Lock()
	defer q.writer.Unlock()
	return q.flushLocked()
}

func (q *Batch) flushLocked() error {
	for {
		q.mu.RLock()
		tail := q.tail
		from := q.next - int64(len(tail))
		q.mu.RUnlock()
		if len(tail) == 0 {
			return nil
		}
		x, err := q.fileFor(from)
		if err != nil {
			return fmt.Errorf("batch consume queue %s: %w", q.dir, err)
		}
		n := min(int64(len(tail)), x.first+x.units-from)
		var b []byte
		for _, u := range tail[:n] {
			b = u.append(b)
		}
		f, err := x.use(&q.handles)
		if err == nil {
			_, err = f.WriteAt(b, (from-x.first)*BatchUnitBytes)
			x.done()
		}
		if err != nil {
			return fmt.Errorf("batch consume queue %s: %w", q.dir, err)
		}
		q.synced = false
		q.mu.Lock()
		q.tail = append([]BatchUnit(nil), q.tail[n:]...)
		q.mu.Unlock()
	}
}

// fileFor returns the file of a unit, made if it is the next one.
func (q *Batch) fileFor(number int64) (*file, error) {
	per := q.cfg.unitsPerFile()
	if n := len(q.files); n > 0 && number < q.files[n-1].first+per {
		return q.files[n-1], nil
	}
	if err := errors.Join(q.cfg.FS.MkdirAll(q.dir), q.syncNames()); err != nil {
		return nil, err
	}
	x := &file{first: number - number%per, units: per}
	x.name = filepath.Join(q.dir, fmt.Sprintf("%020d", x.first*BatchUnitBytes))
	f, err := q.cfg.FS.Create(x.name)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(q.fileBytes()), f.Close()); err != nil {
		return nil, err
	}
	q.named = false
	q.mu.Lock()
	q.files = append(append([]*file(nil), q.files...), x)
	q.mu.Unlock()
	return x, nil
}

func (q *Batch) syncNames() error {
	if q.named {
		return nil
	}
	topic := filepath.Dir(q.dir)
	for _, dir := range []string{q.dir, topic, filepath.Dir(topic), filepath.Dir(filepath.Dir(topic))} {
		if err := q.cfg.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	q.named = true
	return nil
}

// Sync flushes and makes all entries durable.
func (q *Batch) Sync() error {
	q.writer.Lock()
	defer q.writer.Unlock()
	if err := q.flushLocked(); err != nil || q.synced {
		return err
	}
	for _, x := range q.files[max(0, len(q.files)-2):] {
		if err := x.sync(&q.handles); err != nil {
			return fmt.Errorf("batch consume queue %s: %w", q.dir, err)
		}
	}
	if err := q.syncNames(); err != nil {
		return fmt.Errorf("batch consume queue %s: %w", q.dir, err)
	}
	q.synced = true
	return nil
}

// Truncate removes the entries of records that end behind the commit log
// offset end.
func (q *Batch) Truncate(end int64) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end <= end {
		return nil
	}
	cut, err := q.searchLocked(func(u *BatchUnit) bool { return u.Offset+int64(u.Size) > end })
	if err != nil {
		return err
	}
	return q.cutLocked(cut)
}

// cutLocked makes next the number behind the last unit, and everything behind
// it in the files zero. It needs writer and mu, or nobody else.
func (q *Batch) cutLocked(next int64) error {
	if filed := q.next - int64(len(q.tail)); next > filed {
		q.tail = q.tail[:next-filed]
	} else {
		q.tail = nil
		keep := len(q.files)
		for keep > 0 && q.files[keep-1].first >= next {
			keep--
			if err := q.files[keep].remove(&q.handles); err != nil {
				return err
			}
			q.named = false
		}
		q.files = append([]*file(nil), q.files[:keep]...)
		if keep > 0 {
			if err := q.resize(q.files[keep-1], (next-q.files[keep-1].first)*BatchUnitBytes); err != nil {
				return err
			}
			q.synced = false
		}
	}
	q.next = next
	q.min, q.max, q.end = 0, 0, 0
	if q.first >= q.next {
		q.first = q.next
		return nil
	}
	first, err := q.unitLocked(q.first)
	if err != nil {
		return err
	}
	last, err := q.unitLocked(q.next - 1)
	q.min, q.max, q.end = first.Base, last.Next(), last.Offset+int64(last.Size)
	return err
}

// resize cuts a file and makes it whole again with zeros.
func (q *Batch) resize(x *file, size int64) error {
	f, err := x.use(&q.handles)
	if err != nil {
		return err
	}
	defer x.done()
	if size < q.fileBytes() {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	return f.Truncate(q.fileBytes())
}

// Expire moves the first queue offset behind the records in front of the commit
// log's first offset, and removes files that hold no others, never the last.
func (q *Batch) Expire(logMin int64) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.mu.Lock()
	at, err := q.searchLocked(func(u *BatchUnit) bool { return u.Offset >= logMin })
	if err != nil || at == q.first {
		q.mu.Unlock()
		return err
	}
	q.first, q.min = at, q.max
	if at < q.next {
		var u BatchUnit
		u, err = q.unitLocked(at)
		q.min = u.Base
	}
	var gone []*file
	for len(q.files) > 1 && q.files[1].first <= at {
		gone = append(gone, q.files[0])
		q.files = append([]*file(nil), q.files[1:]...)
	}
	q.mu.Unlock()
	for _, x := range gone {
		err = errors.Join(err, x.remove(&q.handles))
	}
	if len(gone) > 0 {
		err = errors.Join(err, q.cfg.FS.SyncDir(q.dir))
	}
	return err
}

// Close flushes the queue and closes its files.
func (q *Batch) Close() error {
	q.writer.Lock()
	defer q.writer.Unlock()
	err := q.flushLocked()
	for _, x := range q.files {
		x.idle()
	}
	return err
}

// Reset deletes the files; the queue is as good as new.
func (q *Batch) Reset() error {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.mu.Lock()
	files := q.files
	q.files, q.tail = nil, nil
	q.first, q.next, q.min, q.max, q.end = 0, 0, 0, 0, 0
	q.named, q.synced = true, true
	q.mu.Unlock()
	for _, x := range files {
		x.idle()
	}
	return q.cfg.FS.RemoveAll(q.dir)
}
