package queuelog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"
)

// PageBytes is the size of a page:
//
//	"SLQP" | queue number u32 | first unit i64 | zero u32 | CRC u32 | 50 units
//
// The CRC (IEEE) is over the 20 bytes in front of it. Page n of a queue holds
// its units from 50 n on; which page of which file that is, the directory
// says. Units outside of the range that the directory gives mean nothing.
const (
	PageBytes  = 1024
	pageMagic  = "SLQP"
	pageHeader = 24
	pageUnits  = (PageBytes - pageHeader) / UnitBytes
)

func appendPageHeader(b []byte, number uint32, first int64) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(append(b, pageMagic...), number)
	b = binary.BigEndian.AppendUint64(b, uint64(first))
	b = append(b, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[at:]))
}

// pageTable is the list of a queue's pages. What readers have is not changed.
type pageTable struct {
	first int64 // place of list[0]
	list  []uint32
}

func (t *pageTable) end() int64 { return t.first + int64(len(t.list)) }

// at returns the page at a place; false when it is not there.
func (t *pageTable) at(place int64) (uint32, bool) {
	if place < t.first || place >= t.end() {
		return 0, false
	}
	return t.list[place-t.first], true
}

// pageList keeps the units of a queue in pages of the shared files.
type pageList struct {
	l      *Pages
	number uint32
	kept   int64 // places in front of it are in the directory
	noting int64 // the same, as soon as its next frame is durable
	table  atomic.Pointer[pageTable]
}

var noPages = &pageTable{}

func (x *pageList) now() *pageTable {
	if t := x.table.Load(); t != nil {
		return t
	}
	return noPages
}

func (x *pageList) grain() int64 { return pageUnits }

func (x *pageList) first() int64 {
	if t := x.now(); len(t.list) > 0 {
		return t.first * pageUnits
	}
	return -1
}

func (x *pageList) read(dst []Unit, from int64, n int) ([]Unit, error) {
	place := from / pageUnits
	page, ok := x.now().at(place)
	if !ok {
		return dst, nil
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	skip := from % pageUnits
	n = int(min(int64(n), pageUnits-skip))
	b := (*buf)[:pageHeader+(int(skip)+n)*UnitBytes]
	if err := x.l.readPage(b, page); err != nil {
		return dst, fmt.Errorf("read units at %d: %w", from, err)
	}
	var want [pageHeader]byte
	head := appendPageHeader(want[:0], x.number, place*pageUnits)
	if string(b[:pageHeader]) != string(head) {
		if again, ok := x.now().at(place); !ok || again != page {
			return dst, nil
		}
		return dst, fmt.Errorf("page %d of the queue files has header %x, want %x: %w", page, b[:pageHeader], head, ErrDamaged)
	}
	n0 := len(dst)
	for b = b[pageHeader+skip*UnitBytes:]; len(b) > 0; b = b[UnitBytes:] {
		dst = append(dst, decode(b))
	}
	// A page that was given back while it was read may be another queue's by
	// now: that takes longer than the list needs to change, so this look tells.
	if again, ok := x.now().at(place); !ok || again != page {
		return dst[:n0], nil
	}
	return dst, nil
}

func (x *pageList) write(from int64, b []byte) error {
	for len(b) > 0 {
		place, skip := from/pageUnits, from%pageUnits
		n := min(int64(len(b))/UnitBytes, pageUnits-skip)
		part := b[:n*UnitBytes]
		var err error
		if page, ok := x.now().at(place); ok {
			err = x.l.writePage(page, pageHeader+skip*UnitBytes, part)
		} else {
			err = x.add(place, skip, part)
		}
		if err != nil {
			return err
		}
		b, from = b[n*UnitBytes:], from+n
	}
	return nil
}

// add takes a free page for the place behind the last one and fills it.
func (x *pageList) add(place, skip int64, units []byte) error {
	t := *x.now()
	if len(t.list) == 0 {
		t = pageTable{first: place}
		x.lower(place)
	}
	if place != t.end() {
		return fmt.Errorf("page %d of queue %d does not follow page %d: %w", place, x.number, t.end(), ErrDamaged)
	}
	page, err := x.l.take()
	if err != nil {
		return err
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b := appendPageHeader((*buf)[:0], x.number, place*pageUnits)
	b = append(b, make([]byte, skip*UnitBytes)...)
	if err := x.l.writePage(page, 0, append(b, units...)); err != nil {
		x.l.free([]uint32{page}) // nothing knows it yet
		return err
	}
	// Readers of the old table do not look behind its end.
	t.list = append(t.list, page)
	x.table.Store(&t)
	return nil
}

func (x *pageList) sync(int64) error { return x.l.syncFiles() }

func (x *pageList) rest() {}

func (x *pageList) cut(end int64) error {
	t := *x.now()
	keep := max(0, (end+pageUnits-1)/pageUnits-t.first)
	if keep >= int64(len(t.list)) {
		return nil
	}
	x.l.release(x, t.list[keep:])
	x.lower(t.first + keep)
	// A copy: what is added must not show in the tables that readers have.
	x.table.Store(&pageTable{first: t.first, list: append([]uint32(nil), t.list[:keep]...)})
	return nil
}

func (x *pageList) drop(before int64) error {
	t := *x.now()
	n := min(before/pageUnits-t.first, int64(len(t.list)))
	if n <= 0 {
		return nil
	}
	x.l.release(x, t.list[:n])
	next := &pageTable{first: t.first + n, list: t.list[n:]}
	if cap(next.list) > 4*len(next.list) {
		next.list = append([]uint32(nil), next.list...)
	}
	x.table.Store(next)
	return nil
}

func (x *pageList) clear() error {
	x.l.release(x, x.now().list)
	x.table.Store(nil)
	x.lower(0)
	return nil
}

// lower says that pages from place on are not those of the directory.
func (x *pageList) lower(place int64) {
	x.kept, x.noting = min(x.kept, place), min(x.noting, place)
}

func (x *pageList) note() (first int64, list []uint32, from int64) {
	t := x.now()
	x.noting = t.end()
	x.l.leave(x)
	return t.first, t.list, max(x.kept, t.first)
}

func (x *pageList) noted() { x.kept = x.noting }
