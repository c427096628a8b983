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

	"github.com/sluicemq/sluice/dataplane/message"
)

// UnitBytes is the size of a unit.
const UnitBytes = 20

// blankSize marks a unit that stands for no message.
const blankSize = math.MaxInt32

// keepUnits is how many of the newest units stay in memory after they were written.
const keepUnits = 512

// slowUnits is how many units a queue must get between two flushes for its
// newest ones to stay in memory.
const slowUnits = 64

// ErrDamaged means that what a queue has on the disk does not fit together; it
// has to be built again from the commit log.
var ErrDamaged = errors.New("consume queue damaged")

// ErrSize means that a file of a queue has another size or name than the
// configuration allows: that is wrong, or the file is.
var ErrSize = errors.New("consume queue file of another size")

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

// storage keeps the units of one queue on the disk. Units are named by their
// queue offset; ranges that were not written must not be read. read may be
// called at any time, everything else by one goroutine at a time.
type storage interface {
	grain() int64 // the first unit's offset is a multiple of it
	first() int64 // first unit that is kept, -1 for none
	// read appends up to n units to dst; it may give fewer, and gives none when
	// the first was dropped meanwhile.
	read(dst []Unit, from int64, n int) ([]Unit, error)
	write(from int64, b []byte) error
	sync(from int64) error   // makes units from there on durable
	cut(max int64) error     // forgets units from max on
	drop(before int64) error // may forget units in front of before
	rest()                   // gives back what only speeds up
	clear() error            // forgets all

	// note lists the pages in use for the directory: their place among the
	// queue's pages and their numbers; those in front of place from are in it
	// already.
	note() (first int64, list []uint32, from int64)
	noted() // what note gave last is in the directory, durably
}

// Queue is the index of one queue. Offsets in its methods are queue offsets,
// that is numbers of units.
type Queue struct {
	topic string
	id    int32
	on    storage
	reach int64 // a message may be so far ahead of the end

	writer sync.Mutex // held by whoever changes files, also during I/O; Append does without
	number uint32     // in the directory
	known  bool       // to the directory; guarded by writer
	noting bool       // put into the directory's next frame; guarded by writer

	mu        sync.RWMutex
	active    bool // something was appended since the last Sync
	removed   bool
	synced    int64 // units in front of it are on the disk
	min       int64
	minOffset int64 // commit log offset of the unit at min, -1 when not known
	max       int64
	end       int64 // commit log offset behind the newest record
	written   int64 // units in front of it are in the files
	wrote     int64 // commit log offset behind the newest of them
	tail      []byte
	tailBase  int64 // first unit in tail; <= written
}

// String names the queue for errors.
func (q *Queue) String() string { return fmt.Sprintf("consume queue %s/%d", q.topic, q.id) }

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

// CopyFrom fills a new queue with the units of another one, written but not
// synced. Nobody else may use either. A queue without a message left keeps its
// next offset.
func (q *Queue) CopyFrom(from *Queue) error {
	lo, hi := from.Range()
	if first := from.on.first(); lo == hi && first >= 0 && first < hi {
		lo = hi - 1 // expired, but it is there and holds the place
	}
	units := make([]Unit, 0, 800)
	for at := lo; at < hi; at += int64(len(units)) {
		var err error
		if units, err = from.Read(units[:0], at, cap(units)); err != nil {
			return err
		}
		if len(units) == 0 {
			return fmt.Errorf("%s has %d to %d, but nothing at %d: %w", from, lo, hi, at, ErrDamaged)
		}
		for i, u := range units {
			if u.Blank() {
				continue
			}
			if outcome := q.Append(at+int64(i), u); outcome != Added && outcome != AddedGap {
				return fmt.Errorf("%s has an impossible entry %+v at %d: %w", from, u, at+int64(i), ErrDamaged)
			}
		}
		if err := q.Flush(); err != nil {
			return err
		}
	}
	return q.StandIn(hi, from.End())
}

// standInUnits is how many blank units gather in memory.
const standInUnits = 1 << 16

// StandIn has blank units up to next take the place of messages that are gone,
// written but not synced; the newest of them ended at the commit log offset end,
// and the next message comes behind that. One that has as many stays as it is.
func (q *Queue) StandIn(next, end int64) error {
	for {
		_, hi := q.Range()
		if hi > 0 && hi >= next {
			return q.Flush()
		}
		step := next
		if hi > 0 {
			step = min(next, hi+standInUnits)
		}
		q.standIn(step, end)
		if err := q.Flush(); err != nil {
			return err
		}
		if step == next {
			return nil
		}
	}
}

// standIn has blank units up to next take the place of messages that are gone;
// the newest ended at the commit log offset end.
func (q *Queue) standIn(next, end int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.max >= next {
		return
	}
	if q.max == 0 {
		q.max = (next - 1) - (next-1)%q.on.grain()
		q.written, q.tailBase, q.synced, q.min = q.max, q.max, q.max, next
	}
	for ; q.max < next; q.max++ {
		q.tail = blank.append(q.tail)
	}
	q.end, q.active = end, true
}

// First returns the commit log offset of the first record, -1 when it is not
// known or there is none.
func (q *Queue) First() int64 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.minOffset
}

// Last returns the newest message of the queue, false for none.
func (q *Queue) Last() (Unit, bool, error) {
	lo, hi := q.Range()
	for at := hi - 1; at >= lo; at-- {
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
	// Rejected: the offset is negative, or so far ahead that the messages in
	// front of it would fill more than a file and more than the part of the
	// commit log between the newest record and this one.
	Rejected
)

// Append adds the unit of the message with the given queue offset. The first
// message of a queue may have any offset. The unit is readable at once and in
// a file after Flush.
func (q *Queue) Append(index int64, u Unit) Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case index < 0 || q.max > 0 && index-q.max > max(q.reach, (u.Offset-q.end)/message.MinRecordBytes):
		return Rejected
	case u.Offset+int64(u.Size) <= q.end || index < q.max || q.removed:
		return Repeated
	}
	outcome := Added
	if q.max == 0 && index > 0 {
		// What is in front of the first message never exists.
		q.max = index - index%q.on.grain()
		q.written, q.tailBase, q.synced = q.max, q.max, q.max
		q.min = index
	} else if index > q.max {
		outcome = AddedGap
	}
	for q.max < index {
		q.tail = blank.append(q.tail)
		q.max++
	}
	if index == q.min {
		q.minOffset = u.Offset
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
	if lo, hi := q.Range(); index < lo || index >= hi {
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
	if index == q.written-1 {
		q.wrote = u.Offset + int64(u.Size)
	}
	if index == q.min {
		q.minOffset = u.Offset
	}
	if index >= q.tailBase {
		u.append(q.tail[(index-q.tailBase)*UnitBytes:][:0])
	}
	if index < q.written {
		q.synced = min(q.synced, index)
		return true, q.on.write(index, u.append(nil))
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
	q.mu.RUnlock()
	return q.on.read(dst, from, n)
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
	from, to, end := q.written, q.max, q.end
	b := q.tail[(from-q.tailBase)*UnitBytes:]
	q.mu.RUnlock()
	if from == to {
		return nil
	}
	if err := q.on.write(from, b); err != nil {
		return fmt.Errorf("write %s: %w", q, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.written, q.wrote = to, end
	switch kept := q.max - q.tailBase; {
	case to-from < slowUnits && q.max == to:
		q.tail, q.tailBase = nil, to
	case kept > 2*keepUnits:
		drop := min(kept-keepUnits, to-q.tailBase)
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
	synced, written := q.synced, q.written
	q.mu.RUnlock()
	if synced < written {
		if err := q.on.sync(synced); err != nil {
			return fmt.Errorf("sync %s: %w", q, err)
		}
	}
	q.settleLocked(written)
	return nil
}

func (q *Queue) settle(synced int64) {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.settleLocked(synced)
}

// settleLocked takes note that units in front of synced are durable; it needs writer.
func (q *Queue) settleLocked(synced int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.synced = synced
	if !q.active && q.written == q.max {
		q.tail, q.tailBase = nil, q.max
	}
	if len(q.tail) == 0 {
		q.on.rest()
	}
	q.active = false
}

// note puts what was written into the directory's next frame, and returns the
// offset behind it.
func (q *Queue) note(d *directory) int64 {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.mu.RLock()
	e := entry{topic: q.topic, id: q.id, number: q.number, low: q.min, lowOffset: q.minOffset, next: q.written, end: q.wrote}
	removed := q.removed
	q.mu.RUnlock()
	if removed || !q.known && e.next == 0 {
		return e.next
	}
	var from int64
	e.firstPage, e.pages, from = q.on.note()
	d.put(&e, q.known, from)
	q.noting = true
	return e.next
}

// noted takes note that the frame is durable.
func (q *Queue) noted() {
	q.writer.Lock()
	defer q.writer.Unlock()
	if q.noting {
		q.known, q.noting = true, false
		q.on.noted()
	}
}

// Unsynced reports that a Sync would have something to do or to give back.
func (q *Queue) Unsynced() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.synced < q.max || q.active || len(q.tail) > 0
}

// Truncate removes the units of records at or behind the commit log offset
// end. It reports whether there were any.
func (q *Queue) Truncate(end int64) (bool, error) {
	q.writer.Lock()
	defer q.writer.Unlock()
	if q.End() <= end {
		return false, nil
	}
	lo, hi := q.Range()
	cut, err := q.search(lo, hi, func(u Unit) (bool, error) { return u.Offset+int64(u.Size) > end, nil })
	if err == nil {
		err = q.truncateLocked(cut)
	}
	if err != nil {
		return true, fmt.Errorf("truncate %s: %w", q, err)
	}
	return true, nil
}

// truncateLocked makes max the end of the queue; it needs writer.
func (q *Queue) truncateLocked(max int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if max >= q.tailBase {
		q.tail = q.tail[:(max-q.tailBase)*UnitBytes]
	} else {
		q.tail, q.tailBase = nil, max
	}
	q.max, q.written, q.synced = max, min(q.written, max), min(q.synced, max)
	if q.min >= max {
		q.min, q.minOffset = max, -1
	}
	if err := q.on.cut(q.written); err != nil {
		return err
	}
	return q.findEndLocked()
}

// findEndLocked sets end from the newest unit that is not blank.
func (q *Queue) findEndLocked() error {
	q.end, q.wrote = 0, 0
	for i := q.max - 1; i >= q.min && q.end == 0; i-- {
		var buf [1]Unit
		got := buf[:0]
		var err error
		if i >= q.tailBase {
			got = append(got, decode(q.tail[(i-q.tailBase)*UnitBytes:]))
		} else if got, err = q.on.read(got, i, 1); err != nil {
			return err
		}
		if len(got) == 1 && got[0].valid() && !got[0].Blank() {
			q.end = got[0].Offset + int64(got[0].Size)
		}
	}
	if q.written == q.max {
		q.wrote = q.end
	}
	return nil
}

// Expire moves the queue's first offset behind the records in front of the
// commit log's first offset, and gives back files that hold no others. It
// reports whether anything changed. A queue whose first record is still there
// costs nothing.
func (q *Queue) Expire(logMin int64) (bool, error) {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.mu.RLock()
	lo, hi, offset := q.min, q.max, q.minOffset
	q.mu.RUnlock()
	if lo == hi || offset >= logMin {
		return false, nil
	}
	from, err := q.search(lo, hi, func(u Unit) (bool, error) { return u.Offset >= logMin, nil })
	offset = -1
	// The search stops at blank units in front of the message it means.
	for ; err == nil && from < hi; from++ {
		var u Unit
		var ok bool
		if u, ok, err = q.At(from); ok && u.Offset >= logMin {
			offset = u.Offset
			break
		}
	}
	if err != nil {
		return false, fmt.Errorf("expire %s: %w", q, err)
	}
	q.mu.Lock()
	q.min, q.minOffset = from, offset
	before := min(from, q.written)
	q.mu.Unlock()
	if err := q.on.drop(before); err != nil {
		return true, fmt.Errorf("expire %s: %w", q, err)
	}
	return true, nil
}

// Close flushes the queue and closes its files. The error is that of Flush.
func (q *Queue) Close() error {
	q.writer.Lock()
	defer q.writer.Unlock()
	err := q.flushLocked()
	q.on.rest()
	return err
}

// Reset forgets everything; the queue is as good as new. One that was removed
// stays so: its place may be another's by now.
func (q *Queue) Reset() error { return q.clear(false) }

// Remove forgets everything for good: later appends are ignored.
func (q *Queue) Remove() error { return q.clear(true) }

func (q *Queue) clear(forever bool) error {
	q.writer.Lock()
	defer q.writer.Unlock()
	q.mu.Lock()
	if q.removed && !forever {
		q.mu.Unlock()
		return nil
	}
	q.tail = nil
	q.min, q.max, q.written, q.tailBase, q.synced, q.active = 0, 0, 0, 0, 0, false
	q.minOffset, q.end, q.wrote = -1, 0, 0
	q.removed = forever
	q.mu.Unlock()
	return q.on.clear()
}
