package keyindex

import (
	"encoding/binary"
	"fmt"
)

// Fault is something in the files that cannot be.
type Fault struct {
	File   string // name
	Offset int64  // byte in the file
	What   string
	// Newest and End say where it lies: an unclean stop may leave such a
	// thing in the newest file, and behind the time of the checkpoint.
	Newest bool
	End    int64 // store time of the file's newest entry in ms
}

// Entry is one key of one record, and where it stands.
type Entry struct {
	File      string
	At        int64 // byte in the file
	Hash      int32
	Offset    int64 // of the record in the commit log
	Seconds   int32 // store time of the record behind Base, cut to 0 or more
	Base      int64 // ms, 0 when Seconds is always 0
	Begin     int64 // store time that the header gives the file's first entry
	End       int64 // store time that the header gives the file's newest entry
	First     bool  // of its file
	Last      bool  // of its file
	NewestOne bool  // its file is the newest
}

// Checker walks over all entries of an index, oldest first, and checks what
// the files say of themselves. Call it between Open and Repair.
type Checker struct {
	x      *Index
	report func(Fault)
	file   int   // of the next entry
	next   int32 // number of the next entry, 0 when the file was not begun
	base   int64 // of the next entry's seconds
	last   int64 // record of the entry in front
	newest []int32
	buf    []byte
	bufAt  int32 // entry that stands at buf[0]
}

// Check returns a checker that calls report for every fault.
func (x *Index) Check(report func(Fault)) *Checker {
	return &Checker{x: x, report: report, newest: make([]int32, x.cfg.Slots)}
}

// Next returns the next entry, false behind the last one.
func (c *Checker) Next() (Entry, bool, error) {
	for c.file < len(c.x.files) {
		f := c.x.files[c.file]
		if c.next == 0 {
			if err := c.begin(f); err != nil {
				return Entry{}, false, fmt.Errorf("key index %s: %w", f.name, err)
			}
		}
		if c.next < f.head.count {
			e, err := c.entry(f)
			if err != nil {
				return Entry{}, false, fmt.Errorf("key index %s: %w", f.name, err)
			}
			return e, true, nil
		}
		if err := c.end(f); err != nil {
			return Entry{}, false, fmt.Errorf("key index %s: %w", f.name, err)
		}
		c.file, c.next = c.file+1, 0
	}
	return Entry{}, false, nil
}

func (c *Checker) fault(f *file, at int64, format string, args ...any) {
	c.report(Fault{File: f.name, Offset: at, What: fmt.Sprintf(format, args...), Newest: c.file == len(c.x.files)-1, End: f.head.end})
}

// begin checks size and header.
func (c *Checker) begin(f *file) error {
	c.next, c.buf, c.base = 1, nil, 0
	clear(c.newest)
	size, err := f.f.Size()
	if err != nil {
		return err
	}
	if want := f.cfg.fileBytes(); size != want {
		c.fault(f, size, "the file has %d bytes, files of %d slots and %d entries have %d", size, f.cfg.Slots, f.cfg.Entries, want)
		return nil
	}
	b := make([]byte, headerBytes)
	if _, err := f.f.ReadAt(b, 0); err != nil {
		return err
	}
	if raw := decodeHeader(b); raw != f.head {
		c.fault(f, 0, "the header cannot be: begin %d, end %d, begin offset %d, end offset %d, %d slots, next entry %d of %d",
			raw.begin, raw.end, raw.beginOffset, raw.endOffset, raw.usedSlots, raw.count, f.cfg.Entries)
	}
	if c.file > 0 {
		c.base = c.x.files[c.file-1].head.end
	}
	return nil
}

// entry reads and checks the next entry.
func (c *Checker) entry(f *file) (Entry, error) {
	if c.buf == nil || int(c.next-c.bufAt+1)*entryBytes > len(c.buf) {
		c.bufAt, c.buf = c.next, make([]byte, min(repairChunk, int(f.head.count-c.next))*entryBytes)
		if _, err := f.f.ReadAt(c.buf, f.cfg.entriesAt()+entryBytes*int64(c.next)); err != nil {
			return Entry{}, err
		}
	}
	e := decodeEntry(c.buf[int(c.next-c.bufAt)*entryBytes:])
	at := f.cfg.entriesAt() + entryBytes*int64(c.next)
	if e.hash < 0 || e.offset < 0 {
		c.fault(f, at, "entry %d has hash %d and record %d", c.next, e.hash, e.offset)
		e.hash = max(e.hash, 0)
	}
	if e.offset < c.last {
		c.fault(f, at+4, "entry %d is of the record at %d, the one in front of it of the record at %d", c.next, e.offset, c.last)
	}
	slot := e.hash % f.cfg.Slots
	if e.previous != c.newest[slot] {
		c.fault(f, at+16, "entry %d names entry %d as the one before it in slot %d, which is entry %d", c.next, e.previous, slot, c.newest[slot])
	}
	c.newest[slot] = c.next
	if c.next == 1 && e.offset != f.head.beginOffset {
		c.fault(f, 16, "the header says that the first record is at %d, entry 1 says %d", f.head.beginOffset, e.offset)
	}
	last := c.next == f.head.count-1
	if last && e.offset != f.head.endOffset {
		c.fault(f, 24, "the header says that the newest record is at %d, entry %d says %d", f.head.endOffset, c.next, e.offset)
	}
	out := Entry{
		File: f.name, At: at, Hash: e.hash, Offset: e.offset, Seconds: e.seconds, Base: c.base, Begin: f.head.begin, End: f.head.end,
		First: c.next == 1, Last: last, NewestOne: c.file == len(c.x.files)-1,
	}
	c.last, c.base = max(e.offset, c.last), f.head.begin
	c.next++
	return out, nil
}

// end compares the hash table with the entries.
func (c *Checker) end(f *file) error {
	if size, err := f.f.Size(); err != nil || size != f.cfg.fileBytes() {
		return err
	}
	var used int32
	buf := make([]byte, slotBytes*pageSlots)
	for n := int32(0); n*pageSlots < f.cfg.Slots; n++ {
		b := buf[:slotBytes*f.pageLen(n)]
		if _, err := f.f.ReadAt(b, f.pageAt(n)); err != nil {
			return err
		}
		for i := range len(b) / slotBytes {
			slot := int(n)*pageSlots + i
			if c.newest[slot] != 0 {
				used++
			}
			if v := int32(binary.BigEndian.Uint32(b[slotBytes*i:])); v != c.newest[slot] {
				c.fault(f, f.pageAt(n)+int64(slotBytes*i), "slot %d names entry %d, the newest of its chain is entry %d", slot, v, c.newest[slot])
			}
		}
	}
	if used != f.head.usedSlots {
		c.fault(f, 32, "the header says that %d slots are used, %d are", f.head.usedSlots, used)
	}
	return nil
}
