package keyindex

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// repairChunk is how many entries a repair reads at once.
const repairChunk = 16 << 10

// Repair makes the files fit to the commit log, which ends at logEnd; call it
// once, before Put and Find. After an unclean stop it checks the newest file
// and each one with entries younger than synced (store time in ms), keeps what
// is certain, and links the chains anew. The keys of the records from Resume
// on are then to be put.
func (x *Index) Repair(clean bool, synced, logEnd int64) error {
	for i, f := range x.files {
		last := i == len(x.files)-1
		if f.head.count > 1 && f.head.endOffset < logEnd && (clean || !last && f.head.end <= synced) {
			continue
		}
		whole, err := x.repair(f, last, logEnd)
		if err != nil {
			return fmt.Errorf("repair key index %s: %w", f.name, err)
		}
		if whole {
			continue
		}
		// Nothing behind a cut is certain.
		keep := i + 1
		if f.head.count == 1 {
			keep = i
		}
		if keep < len(x.files) {
			if err := x.drop(x.files[keep:], x.files[:keep]); err != nil {
				return err
			}
		}
		x.resume(keep > i)
		return nil
	}
	return nil
}

// resume sets done behind a cut: inside of the last file, or between two, when
// the last record may have had keys in the file that is gone.
func (x *Index) resume(inside bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch c := x.current(); {
	case c == nil:
		x.done = -1
	case inside:
		x.done = c.head.endOffset
	default:
		x.done = c.head.endOffset - 1
	}
}

// repair checks one file and cuts it in front of the last record that has good
// entries: a power cut may have left half of them. A file that is full, good
// to its end and not the last is whole and not cut.
func (x *Index) repair(f *file, last bool, logEnd int64) (whole bool, err error) {
	c := chains{f: f, newest: make([]int32, f.cfg.Slots), logEnd: logEnd}
	if err := c.link(); err != nil {
		return false, err
	}
	whole = !last && c.end == f.head.count && c.end == f.cfg.Entries
	if !whole {
		if err := c.cut(); err != nil {
			return false, err
		}
	}
	if err := c.writeSlots(); err != nil {
		return false, err
	}
	x.mu.Lock()
	f.head.usedSlots = c.used()
	f.written = f.head.count
	f.slots = map[int32]*slotPage{}
	x.mu.Unlock()
	if _, err := f.f.WriteAt(f.head.bytes(), 0); err != nil {
		return false, err
	}
	return whole, f.f.Sync()
}

// chains is the hash table of a file, made again from its entries.
type chains struct {
	f      *file
	newest []int32
	logEnd int64

	end        int32 // entries in front of it are good
	run, older int32 // first entries of the last two records in front of end
}

// link walks over the entries up to the first that cannot be.
func (c *chains) link() error {
	c.end, c.run, c.older = 1, 1, 1
	offset := int64(0)
	buf := make([]byte, min(repairChunk, int(c.f.cfg.Entries))*entryBytes)
	for c.end < c.f.head.count {
		b := buf[:min(len(buf), int(c.f.head.count-c.end)*entryBytes)]
		if _, err := c.f.f.ReadAt(b, c.f.cfg.entriesAt()+entryBytes*int64(c.end)); err != nil {
			return err
		}
		for ; len(b) > 0; b = b[entryBytes:] {
			e := decodeEntry(b)
			// What was never written is zero.
			if e == (entry{}) || e.hash < 0 || e.seconds < 0 || e.offset < offset || e.offset >= c.logEnd {
				return nil
			}
			slot := e.hash % c.f.cfg.Slots
			if e.previous != c.newest[slot] {
				return nil
			}
			c.newest[slot] = c.end
			if e.offset > offset {
				c.older, c.run, offset = c.run, c.end, e.offset
			}
			c.end++
		}
	}
	return nil
}

// cut drops the last good entry, which may be torn, and then the last record.
func (c *chains) cut() error {
	to := c.run
	if c.run == c.end-1 {
		to = c.older
	}
	f := c.f
	v := view{f: f, written: c.end}
	for n := c.end - 1; n >= to; n-- {
		e, err := v.entry(n)
		if err != nil {
			return err
		}
		c.newest[e.hash%f.cfg.Slots] = e.previous
	}
	head := header{count: to}
	if to > 1 {
		e, err := v.entry(to - 1)
		if err != nil {
			return err
		}
		head.begin, head.beginOffset, head.endOffset = f.head.begin, f.head.beginOffset, e.offset
		head.end = head.begin
		if to > 2 {
			head.end += 1000 * int64(e.seconds)
		}
	}
	f.head = head
	// What is behind must read as unused after the next power cut, too.
	if err := f.f.Truncate(f.cfg.entriesAt() + entryBytes*int64(to)); err != nil {
		return err
	}
	return f.f.Truncate(f.cfg.fileBytes())
}

// writeSlots writes the pages of the hash table that differ.
func (c *chains) writeSlots() error {
	old := make([]byte, slotBytes*pageSlots)
	for n := int32(0); n*pageSlots < c.f.cfg.Slots; n++ {
		slots := c.newest[n*pageSlots:][:c.f.pageLen(n)]
		b := make([]byte, 0, slotBytes*pageSlots)
		for _, v := range slots {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		old := old[:len(b)]
		if _, err := c.f.f.ReadAt(old, c.f.pageAt(n)); err != nil {
			return err
		}
		if bytes.Equal(old, b) {
			continue
		}
		if _, err := c.f.f.WriteAt(b, c.f.pageAt(n)); err != nil {
			return err
		}
	}
	return nil
}

func (c *chains) used() (n int32) {
	for _, v := range c.newest {
		if v != 0 {
			n++
		}
	}
	return n
}
