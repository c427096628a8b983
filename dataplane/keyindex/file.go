package keyindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

const (
	headerBytes = 40
	slotBytes   = 4
	entryBytes  = 20
	pageSlots   = 1024 // slots that are read and written together
)

// header is the begin of a file:
//
//	0 BEGIN i64, 8 END i64, 16 BEGINOFFSET i64, 24 ENDOFFSET i64, 32 SLOTS i32, 36 COUNT i32
type header struct {
	begin, end             int64 // store times of the first and the newest entry in ms
	beginOffset, endOffset int64 // their records in the commit log
	usedSlots              int32
	count                  int32 // number of the next entry; the first is 1
}

func (h header) bytes() []byte {
	b := make([]byte, 0, headerBytes)
	for _, v := range []int64{h.begin, h.end, h.beginOffset, h.endOffset} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(h.usedSlots))
	return binary.BigEndian.AppendUint32(b, uint32(h.count))
}

func decodeHeader(b []byte) header {
	i64 := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	return header{
		begin: i64(0), end: i64(8), beginOffset: i64(16), endOffset: i64(24),
		usedSlots: int32(binary.BigEndian.Uint32(b[32:])), count: int32(binary.BigEndian.Uint32(b[36:])),
	}
}

// entry is one key of one record:
//
//	0 HASH i32, 4 OFFSET i64, 12 SECONDS i32, 16 PREVIOUS i32
type entry struct {
	hash     int32
	offset   int64 // of the record in the commit log
	seconds  int32 // store time behind the header's begin
	previous int32 // entry of the same slot, 0 for none
}

func (e entry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(e.hash))
	b = binary.BigEndian.AppendUint64(b, uint64(e.offset))
	b = binary.BigEndian.AppendUint32(b, uint32(e.seconds))
	return binary.BigEndian.AppendUint32(b, uint32(e.previous))
}

func decodeEntry(b []byte) entry {
	return entry{
		hash: int32(binary.BigEndian.Uint32(b)), offset: int64(binary.BigEndian.Uint64(b[4:])),
		seconds: int32(binary.BigEndian.Uint32(b[12:])), previous: int32(binary.BigEndian.Uint32(b[16:])),
	}
}

// slotPage is a part of the hash table in memory.
type slotPage struct {
	newest [pageSlots]int32 // entry of each slot
	dirty  bool
}

// file is one index file. The slots that were touched, and entries that were
// not written yet, are in memory; the writer alone changes them.
type file struct {
	cfg     Config
	name    string
	path    string
	f       vfs.File
	head    header
	headed  bool  // head is in the file
	written int32 // entries in front of it are in the file
	tail    []byte
	slots   map[int32]*slotPage // by number of the page
}

func (c Config) entriesAt() int64 { return headerBytes + slotBytes*int64(c.Slots) }

// fileBytes is the size of every file.
func (c Config) fileBytes() int64 { return c.entriesAt() + entryBytes*int64(c.Entries) }

func newFile(cfg Config, name string) *file {
	return &file{cfg: cfg, name: name, path: filepath.Join(cfg.Dir, name), slots: map[int32]*slotPage{}}
}

// openFile loads a file. One that is too short, or whose header is not one,
// comes back empty, for Repair to remove.
func openFile(cfg Config, name string) (*file, error) {
	x := newFile(cfg, name)
	var err error
	if x.f, err = cfg.FS.Open(x.path); err != nil {
		return nil, err
	}
	size, err := x.f.Size()
	if err == nil && size > cfg.fileBytes() {
		err = fmt.Errorf("file %s of %d bytes: it was made with other sizes, ours has %d: %w", name, size, cfg.fileBytes(), ErrDamaged)
	}
	if err == nil && size >= headerBytes {
		b := make([]byte, headerBytes)
		if _, err = x.f.ReadAt(b, 0); err == nil {
			x.head = decodeHeader(b)
		}
	}
	if err != nil {
		return nil, errors.Join(err, x.f.Close())
	}
	if h := x.head; size < cfg.fileBytes() || h.count < 1 || h.count > cfg.Entries || h.begin < 0 || h.end < 0 || h.beginOffset < 0 || h.endOffset < 0 {
		x.head = header{count: 1}
	}
	x.written, x.headed = x.head.count, true
	return x, nil
}

// createFile makes a file whose name is durable.
func createFile(cfg Config, name string, head header) (*file, error) {
	x := newFile(cfg, name)
	x.head, x.written = head, head.count
	var err error
	if x.f, err = cfg.FS.Create(x.path); err != nil {
		return nil, err
	}
	if err = x.f.Truncate(cfg.fileBytes()); err == nil {
		err = cfg.FS.SyncDir(cfg.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, x.f.Close(), cfg.FS.Remove(x.path))
	}
	return x, nil
}

// slotPage returns the page of a slot, from the file if it is not in memory. mu
// guards the pages against those who look; only the one who puts calls it.
func (x *file) slotPage(mu *sync.RWMutex, slot int32) (*slotPage, error) {
	n := slot / pageSlots
	if p := x.slots[n]; p != nil {
		return p, nil
	}
	p := &slotPage{}
	if x.head.count > 1 {
		b := make([]byte, slotBytes*x.pageLen(n))
		if _, err := x.f.ReadAt(b, x.pageAt(n)); err != nil {
			return nil, err
		}
		for i := range len(b) / slotBytes {
			p.newest[i] = int32(binary.BigEndian.Uint32(b[slotBytes*i:]))
		}
	}
	mu.Lock()
	x.slots[n] = p
	mu.Unlock()
	return p, nil
}

func (x *file) pageAt(n int32) int64 { return headerBytes + slotBytes*pageSlots*int64(n) }

// pageLen is the number of slots of a page: the last one may be short.
func (x *file) pageLen(n int32) int { return int(min(pageSlots, x.cfg.Slots-n*pageSlots)) }

// put adds an entry whose slot is in page.
func (x *file) put(page *slotPage, hash int32, offset, storeTime int64) {
	h := &x.head
	newest := &page.newest[hash%x.cfg.Slots%pageSlots]
	if *newest <= 0 || *newest >= h.count {
		*newest = 0
		h.usedSlots++
	}
	var seconds int64
	if h.begin > 0 {
		seconds = min(max((storeTime-h.begin)/1000, 0), math.MaxInt32)
	}
	x.tail = entry{hash: hash, offset: offset, seconds: int32(seconds), previous: *newest}.append(x.tail)
	*newest = h.count
	page.dirty = true
	if h.count == 1 {
		h.begin, h.beginOffset = storeTime, offset
	}
	h.end, h.endOffset = storeTime, offset
	h.count++
	x.headed = false
}

// flush writes entries, with slots these, too, then the header.
func (x *file) flush(mu *sync.RWMutex, slots bool) error {
	if len(x.tail) > 0 {
		if _, err := x.f.WriteAt(x.tail, x.cfg.entriesAt()+entryBytes*int64(x.written)); err != nil {
			return err
		}
		mu.Lock()
		x.written = x.head.count
		x.tail = nil // readers may still have the old one
		mu.Unlock()
	}
	b := make([]byte, 0, slotBytes*pageSlots)
	for n, p := range x.slots {
		if !p.dirty || !slots {
			continue
		}
		b = b[:0]
		for _, v := range p.newest[:x.pageLen(n)] {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		if _, err := x.f.WriteAt(b, x.pageAt(n)); err != nil {
			return err
		}
		p.dirty = false
	}
	if x.headed {
		return nil
	}
	if _, err := x.f.WriteAt(x.head.bytes(), 0); err != nil {
		return err
	}
	x.headed = true
	return nil
}

// view is one chain of a file as it was at one moment.
type view struct {
	f       *file
	head    header
	written int32
	tail    []byte
	first   int32 // newest entry of the chain
}

func (x *file) look(mu *sync.RWMutex, slot int32) (view, error) {
	mu.RLock()
	v := view{f: x, head: x.head, written: x.written, tail: x.tail}
	page := x.slots[slot/pageSlots]
	if page != nil {
		v.first = page.newest[slot%pageSlots]
	}
	mu.RUnlock()
	if page != nil || v.head.count <= 1 {
		return v, nil
	}
	// A slot that is not in memory has no entry that is not in the file.
	var b [slotBytes]byte
	if _, err := x.f.ReadAt(b[:], headerBytes+slotBytes*int64(slot)); err != nil {
		return v, err
	}
	v.first = int32(binary.BigEndian.Uint32(b[:]))
	return v, nil
}

func (v view) entry(n int32) (entry, error) {
	if n >= v.written {
		return decodeEntry(v.tail[entryBytes*(n-v.written):]), nil
	}
	var b [entryBytes]byte
	if _, err := v.f.f.ReadAt(b[:], v.f.cfg.entriesAt()+entryBytes*int64(n)); err != nil {
		return entry{}, err
	}
	return decodeEntry(b[:]), nil
}

// within tells whether the record of entry n may have been stored between two
// times. The first entry of a file does not know its own: it counts from the
// end of the file in front.
func (v view) within(n int32, e entry, from, to int64) bool {
	t := v.head.begin + 1000*int64(e.seconds)
	return n == 1 || t <= to && t > from-1000
}
