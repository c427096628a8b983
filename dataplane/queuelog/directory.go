package queuelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// A directory is a file that says what every queue of a store holds on the
// disk. It grows by what changed at each sync and is written anew when most of
// it is outdated; its size and the work follow the changes, not the queues.
//
//	file   = header | frames
//	header = "SLQDIR" 0x00 0x01 | page bytes u32 | pages of a file u32 | CRC u32
//	frame  = "SLQF" | sequence u64 | store time i64 | next queue number u32
//	       | payload length u32 | CRC u32 | payload
//	payload = records, each one of
//	  0x01 | queue number u32 | queue id i32 | topic length u16 | topic
//	  0x02 | queue number u32 | low i64 | offset of low i64 | next i64 | end i64
//	       | first page i64 | page list valid in front of i64 | pages u32 | page numbers u32...
//	  0x03 | queue number u32
//
// 0x01 makes a queue known, 0x02 tells what it holds from now on, 0x03 forgets
// it. CRCs (IEEE) are over everything in front of them in header or frame, and
// over the payload. Sequences begin at 1 and grow by one. The first bad frame
// is the end: a crash leaves one when it interrupts a sync. Whether a good one
// was lost tells the store time, see loadDirectory.
const (
	directoryMagic  = "SLQDIR\x00\x01"
	directoryHeader = 20
	frameMagic      = "SLQF"
	frameHeader     = 32
	framePayload    = 1 << 20 // a frame is closed when it has so many bytes

	recordQueue  = 1
	recordState  = 2
	recordForget = 3

	stateBytes = 1 + 4 + 6*8 + 4 // of a state record without page numbers
)

// ErrDirectory means that the directory of the queues is damaged, older than
// it must be, or of another version.
var ErrDirectory = errors.New("queue directory damaged")

// entry is what the directory says about a queue.
type entry struct {
	topic     string
	id        int32
	number    uint32
	low       int64 // first offset
	lowOffset int64 // commit log offset of the unit there, -1 when not known
	next      int64 // units in front of it are on the disk; -1 when the queue has to be built again
	end       int64 // commit log offset behind the newest of them
	firstPage int64 // place of pages[0] among the queue's pages
	pages     []uint32
}

// directory is the open file. It is not safe for concurrent use.
type directory struct {
	fs     vfs.FS
	name   string
	header []byte

	f        vfs.File
	size     int64
	fresh    int64 // size after it was written anew
	sequence uint64
	time     int64         // store time of the last frame
	numbers  atomic.Uint32 // next queue number; the only member that others may use meanwhile

	buf []byte // records of the frame that is being made
}

func newDirectory(fsys vfs.FS, name string, pageBytes, pagesPerFile uint32) *directory {
	b := binary.BigEndian.AppendUint32([]byte(directoryMagic), pageBytes)
	b = binary.BigEndian.AppendUint32(b, pagesPerFile)
	return &directory{fs: fsys, name: name, header: binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))}
}

// load reads the file; a missing one gives fs.ErrNotExist. notBefore is the
// store time up to which the queues are known to be in it: a directory that
// ends earlier has lost frames, and is ErrDirectory like a damaged one. A bad
// end is cut off.
func (d *directory) load(notBefore int64) (entries, error) {
	f, err := d.fs.Open(d.name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	all, err := d.replay(f, size)
	if err == nil {
		err = d.reaches(notBefore)
	}
	if err == nil && d.size < size {
		if err = f.Truncate(d.size); err == nil {
			err = f.Sync()
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	d.f = f
	return all, nil
}

// replay applies the good frames and sets size, sequence, time and numbers.
func (d *directory) replay(f vfs.File, size int64) (entries, error) {
	head := make([]byte, directoryHeader)
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(head) != string(d.header) {
		return nil, fmt.Errorf("header of %s is %x, want %x: %w", d.name, head, d.header, ErrDirectory)
	}
	var all entries
	d.size, d.sequence, d.time = directoryHeader, 0, 0
	head = make([]byte, frameHeader)
	var payload []byte
	for d.size+frameHeader <= size {
		if _, err := f.ReadAt(head, d.size); err != nil {
			return nil, err
		}
		n := int64(binary.BigEndian.Uint32(head[24:]))
		if string(head[:4]) != frameMagic || binary.BigEndian.Uint64(head[4:]) != d.sequence+1 || d.size+frameHeader+n > size {
			break
		}
		if int64(cap(payload)) < n {
			payload = make([]byte, n)
		}
		payload = payload[:n]
		if n > 0 {
			if _, err := f.ReadAt(payload, d.size+frameHeader); err != nil {
				return nil, err
			}
		}
		if crc32.Update(crc32.ChecksumIEEE(head[:28]), crc32.IEEETable, payload) != binary.BigEndian.Uint32(head[28:]) {
			break
		}
		if err := all.apply(payload); err != nil {
			return nil, fmt.Errorf("frame %d of %s: %w", d.sequence+1, d.name, err)
		}
		d.sequence++
		d.time = int64(binary.BigEndian.Uint64(head[12:]))
		d.numbers.Store(binary.BigEndian.Uint32(head[20:]))
		d.size += frameHeader + n
	}
	d.fresh = d.size
	return all, nil
}

// entries are the queues of a directory by number, nil where there is none.
// Numbers are given out one by one.
type entries []*entry

// maxNumber bounds what a directory may have us allocate.
const maxNumber = 1 << 28

// apply does what the records of a frame say.
func (all *entries) apply(b []byte) error {
	for len(b) > 0 {
		if len(b) < 5 {
			return ErrDirectory
		}
		kind, number := b[0], binary.BigEndian.Uint32(b[1:])
		var used int
		switch kind {
		case recordQueue:
			if len(b) < 11 || len(b) < 11+int(binary.BigEndian.Uint16(b[9:])) {
				return ErrDirectory
			}
			used = 11 + int(binary.BigEndian.Uint16(b[9:]))
			if number >= maxNumber {
				return fmt.Errorf("queue number %d, at most %d can be: %w", number, maxNumber-1, ErrDirectory)
			}
			if n := int(number) + 1 - len(*all); n > 0 {
				*all = append(*all, make(entries, n)...)
			}
			(*all)[number] = &entry{topic: string(b[11:used]), id: int32(binary.BigEndian.Uint32(b[5:])), number: number}
		case recordState:
			e := all.of(number)
			if e == nil || len(b) < stateBytes {
				return ErrDirectory
			}
			count := int64(binary.BigEndian.Uint32(b[stateBytes-4:]))
			if int64(len(b)-stateBytes) < 4*count {
				return ErrDirectory
			}
			used = stateBytes + int(4*count)
			if !e.update(b[5:used]) {
				return ErrDirectory
			}
		case recordForget:
			if all.of(number) != nil {
				(*all)[number] = nil
			}
			used = 5
		default:
			return ErrDirectory
		}
		b = b[used:]
	}
	return nil
}

func (all *entries) of(number uint32) *entry {
	if int64(number) >= int64(len(*all)) {
		return nil
	}
	return (*all)[number]
}

// update takes a state record behind its queue number; false when it does not fit.
func (e *entry) update(b []byte) bool {
	var n [6]int64
	for i := range n {
		n[i] = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	e.low, e.lowOffset, e.next, e.end = n[0], n[1], n[2], n[3]
	first, from := n[4], n[5]
	keep := from - e.firstPage
	if keep < 0 || keep > int64(len(e.pages)) {
		e.firstPage, e.pages, keep = from, nil, 0
	}
	if first < e.firstPage {
		return false
	}
	e.pages = e.pages[:keep]
	for b = b[6*8+4:]; len(b) > 0; b = b[4:] {
		e.pages = append(e.pages, binary.BigEndian.Uint32(b))
	}
	drop := min(first-e.firstPage, int64(len(e.pages)))
	e.pages, e.firstPage = e.pages[drop:], first
	return true
}

// create begins a new file with the entries, in place of whatever is there.
func (d *directory) create(all entries) error {
	fresh := &directory{fs: d.fs, name: d.name, header: d.header, time: d.time}
	fresh.numbers.Store(d.numbers.Load())
	tmp := d.name + ".tmp"
	f, err := d.fs.Create(tmp)
	if err != nil {
		return err
	}
	fresh.f, fresh.size = f, directoryHeader
	_, err = f.WriteAt(d.header, 0)
	for _, e := range all {
		if err == nil && e != nil {
			fresh.put(e, false, e.firstPage)
			err = fresh.writeFull()
		}
	}
	if err == nil {
		err = fresh.commit(d.time)
	}
	if err == nil {
		err = errors.Join(d.fs.Rename(tmp, d.name), d.fs.SyncDir(filepath.Dir(d.name)))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", d.name, err), f.Close())
	}
	err = d.close()
	d.f, d.size, d.fresh, d.sequence, d.buf = fresh.f, fresh.size, fresh.size, fresh.sequence, nil
	return err
}

// put adds what a queue holds to the next frame. Pages in front of place from
// are in the directory already.
func (d *directory) put(e *entry, known bool, from int64) {
	b := d.buf
	if !known {
		b = binary.BigEndian.AppendUint32(append(b, recordQueue), e.number)
		b = binary.BigEndian.AppendUint32(b, uint32(e.id))
		b = binary.BigEndian.AppendUint16(b, uint16(len(e.topic)))
		b = append(b, e.topic...)
	}
	b = binary.BigEndian.AppendUint32(append(b, recordState), e.number)
	for _, n := range []int64{e.low, e.lowOffset, e.next, e.end, e.firstPage, from} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	pages := e.pages[min(max(from-e.firstPage, 0), int64(len(e.pages))):]
	b = binary.BigEndian.AppendUint32(b, uint32(len(pages)))
	for _, p := range pages {
		b = binary.BigEndian.AppendUint32(b, p)
	}
	d.buf = b
}

// forget adds to the next frame that a queue is gone.
func (d *directory) forget(number uint32) {
	d.buf = binary.BigEndian.AppendUint32(append(d.buf, recordForget), number)
}

// writeFull writes a frame when enough has been collected. Only commit gives a
// frame a new store time: one that came through alone claims nothing.
func (d *directory) writeFull() error {
	if len(d.buf) < framePayload {
		return nil
	}
	return d.writeFrame(d.time)
}

// writeFrame writes what was put. After an error that is kept, and the next
// frame has it, at the same place.
func (d *directory) writeFrame(time int64) error {
	b := binary.BigEndian.AppendUint64([]byte(frameMagic), d.sequence+1)
	b = binary.BigEndian.AppendUint64(b, uint64(time))
	b = binary.BigEndian.AppendUint32(b, d.numbers.Load())
	b = binary.BigEndian.AppendUint32(b, uint32(len(d.buf)))
	b = binary.BigEndian.AppendUint32(b, crc32.Update(crc32.ChecksumIEEE(b), crc32.IEEETable, d.buf))
	if _, err := d.f.WriteAt(d.buf, d.size+frameHeader); err != nil {
		return err
	}
	if _, err := d.f.WriteAt(b, d.size); err != nil {
		return err
	}
	d.size += int64(frameHeader + len(d.buf))
	d.sequence++
	d.time = time
	d.buf = d.buf[:0]
	return nil
}

// commit makes everything put since the last commit durable.
func (d *directory) commit(time int64) error {
	if err := d.writeFrame(time); err != nil {
		return err
	}
	return d.sync()
}

// sync makes the frames that were written durable.
func (d *directory) sync() error {
	if cap(d.buf) > 2*framePayload {
		d.buf = nil
	}
	return d.f.Sync()
}

// shorten writes the file anew when most of it is outdated.
func (d *directory) shorten() error {
	if d.size < 2*d.fresh+framePayload {
		return nil
	}
	again := &directory{name: d.name, header: d.header}
	all, err := again.replay(d.f, d.size)
	if err != nil {
		return err
	}
	if again.size != d.size {
		return fmt.Errorf("%s is good up to byte %d of %d: %w", d.name, again.size, d.size, ErrDirectory)
	}
	return d.create(all)
}

// unchanged reports that a commit would add nothing.
func (d *directory) unchanged(time int64) bool { return len(d.buf) == 0 && time <= d.time }

func (d *directory) close() error {
	if d.f == nil {
		return nil
	}
	f := d.f
	d.f = nil
	return f.Close()
}

// CheckDirectory reports whether the directory file of the compatible layout
// can be used; nothing is changed, and a missing one is fine. Errors: as Load
// gives them.
func CheckDirectory(fsys vfs.FS, name string, notBefore int64) error {
	d := newDirectory(fsys, name, 0, 0)
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if _, err := d.replay(f, size); err != nil {
		return err
	}
	return d.reaches(notBefore)
}

// reaches is ErrDirectory when frames were lost.
func (d *directory) reaches(notBefore int64) error {
	if d.time >= notBefore {
		return nil
	}
	return fmt.Errorf("%s ends at store time %d and must reach %d: %w", d.name, d.time, notBefore, ErrDirectory)
}
