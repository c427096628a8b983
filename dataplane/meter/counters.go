package meter

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A counter file is two files with one random name, the incarnation. FORMAT.md
// draws them.
const (
	counterSuffix = ".counters"
	cellSuffix    = ".cells"

	counterMagic   = "SLCOUNT"
	counterVersion = 1
	slotBytes      = 128
	chunkSlots     = 8192
	chunkBytes     = slotBytes * chunkSlots
	slotCounters   = 14

	slotFree = 0
	slotUsed = 1
)

// slot is one cell in one minute, as it lies in the file. The first slot of a
// file is its header: magic and version in place of state and cell.
type slot struct {
	state    atomic.Uint32
	cell     uint32
	minute   int64
	counters [slotCounters]atomic.Uint64
}

// counterFile is the live counter file of this process.
type counterFile struct {
	incarnation string
	file        *os.File
	cells       *os.File

	mu      sync.RWMutex // readers add to current; writers change everything below
	minute  int64
	current map[Cell]*slot
	ids     map[Cell]uint32
	names   []Cell
	chunks  [][]slot
	maps    [][]byte
	free    []*slot
	closed  bool
}

var (
	errNotCounterFile = errors.New("not a counter file")
	errCounterVersion = errors.New("counter file of an unknown version")
	errClosed         = errors.New("meter is closed")
)

func createCounterFile(dir string, minute int64) (*counterFile, error) {
	id := make([]byte, 16)
	rand.Read(id)
	f := &counterFile{incarnation: hex.EncodeToString(id), minute: minute, current: map[Cell]*slot{}, ids: map[Cell]uint32{}}
	path := dir + "/" + f.incarnation
	var err error
	if f.cells, err = os.OpenFile(path+cellSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, fmt.Errorf("create cell file: %w", err)
	}
	if f.file, err = os.OpenFile(path+counterSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("create counter file: %w", err), f.cells.Close())
	}
	if err := f.grow(); err != nil {
		return nil, errors.Join(err, f.cells.Close(), f.file.Close())
	}
	header := f.maps[0][:slotBytes]
	copy(header, counterMagic)
	header[len(counterMagic)] = counterVersion
	f.free = f.free[:len(f.free)-1] // slot 0, which grow put last
	return f, nil
}

// grow maps another chunk. Its slots become free, the lowest one first in line.
func (f *counterFile) grow() error {
	at := int64(len(f.chunks)) * chunkBytes
	if err := f.file.Truncate(at + chunkBytes); err != nil {
		return fmt.Errorf("grow counter file: %w", err)
	}
	// Room is taken now: a full disk must be an error here, not a fault at the
	// first touch of a page.
	if err := unix.Fallocate(int(f.file.Fd()), 0, at, chunkBytes); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return errors.Join(fmt.Errorf("grow counter file: %w", err), f.file.Truncate(at))
	}
	mem, err := unix.Mmap(int(f.file.Fd()), at, chunkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map counter file: %w", err)
	}
	slots := unsafe.Slice((*slot)(unsafe.Pointer(&mem[0])), chunkSlots) // mem is page-aligned; slot has no pointers
	f.maps, f.chunks = append(f.maps, mem), append(f.chunks, slots)
	for i := len(slots) - 1; i >= 0; i-- {
		f.free = append(f.free, &slots[i])
	}
	return nil
}

// add counts v for cell in the current minute. Adders hold the read lock, so
// that no addition reaches a minute after rotate has left it.
func (f *counterFile) add(cell Cell, v *Values) error {
	f.mu.RLock()
	s := f.current[cell]
	if s == nil {
		f.mu.RUnlock()
		return f.addNew(cell, v)
	}
	s.add(v)
	f.mu.RUnlock()
	return nil
}

func (s *slot) add(v *Values) {
	for i, n := range v {
		if n != 0 {
			s.counters[i].Add(n)
		}
	}
}

func (f *counterFile) addNew(cell Cell, v *Values) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	s := f.current[cell]
	if s == nil {
		id, err := f.cellID(cell)
		if err != nil {
			return err
		}
		if len(f.free) == 0 {
			if err := f.grow(); err != nil {
				return err
			}
		}
		s = f.free[len(f.free)-1]
		f.free = f.free[:len(f.free)-1]
		s.cell, s.minute = id, f.minute
		for i := range s.counters {
			s.counters[i].Store(0)
		}
		s.state.Store(slotUsed) // last: a slot that is used is whole
		f.current[cell] = s
	}
	s.add(v)
	return nil
}

// cellID numbers a cell; the name is in the cell file before any slot refers
// to it.
func (f *counterFile) cellID(cell Cell) (uint32, error) {
	if id, ok := f.ids[cell]; ok {
		return id, nil
	}
	if _, err := f.cells.Write(appendCell(nil, cell)); err != nil {
		return 0, fmt.Errorf("write cell file: %w", err)
	}
	id := uint32(len(f.names))
	f.names = append(f.names, cell)
	f.ids[cell] = id
	return id, nil
}

// rotate makes minute the current one. Minutes never go back: after a clock
// step backwards counting goes on in the minute that was reached.
func (f *counterFile) rotate(minute int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if minute > f.minute {
		f.minute = minute
		f.current = make(map[Cell]*slot, len(f.current))
	}
}

// read returns the cells of all minutes, and the first minute that is still
// open.
func (f *counterFile) read() (cells map[int64]map[Cell]Values, open int64) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	cells = map[int64]map[Cell]Values{}
	if f.closed {
		return cells, f.minute
	}
	for i, chunk := range f.chunks {
		for j := range chunk {
			if i == 0 && j == 0 { // header
				continue
			}
			if s := &chunk[j]; s.state.Load() == slotUsed {
				put(cells, s.minute, f.names[s.cell], s.values())
			}
		}
	}
	return cells, f.minute
}

func (s *slot) values() Values {
	var v Values
	for i := range v {
		v[i] = s.counters[i].Load()
	}
	return v
}

func put(cells map[int64]map[Cell]Values, minute int64, cell Cell, v Values) {
	if cells[minute] == nil {
		cells[minute] = map[Cell]Values{}
	}
	cells[minute][cell] = v
}

// drop frees the slots of all minutes up to and including through.
func (f *counterFile) drop(through int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, chunk := range f.chunks {
		for j := range chunk {
			if i == 0 && j == 0 {
				continue
			}
			if s := &chunk[j]; s.state.Load() == slotUsed && s.minute <= through && s.minute < f.minute {
				s.state.Store(slotFree)
				f.free = append(f.free, s)
			}
		}
	}
}

// sync bounds what a power failure can lose: names first, then counters.
func (f *counterFile) sync() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return nil
	}
	if err := f.cells.Sync(); err != nil {
		return err
	}
	for _, mem := range f.maps {
		if err := unix.Msync(mem, unix.MS_ASYNC); err != nil {
			return err
		}
	}
	return nil
}

func (f *counterFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var errs []error
	for _, mem := range f.maps {
		errs = append(errs, unix.Msync(mem, unix.MS_SYNC), unix.Munmap(mem))
	}
	f.current, f.chunks, f.maps, f.free = nil, nil, nil, nil
	return errors.Join(append(errs, f.cells.Sync(), f.cells.Close(), f.file.Close())...)
}

// appendCell encodes an entry of the cell file: length, body, CRC-32 of the
// body. The body is class, protocol, and four strings with their lengths.
func appendCell(dst []byte, c Cell) []byte {
	body := []byte{c.Class, c.Protocol}
	for _, s := range []string{c.NamespaceID, c.Topic, c.Group, c.KeyID} {
		body = binary.BigEndian.AppendUint16(body, uint16(len(s)))
		body = append(body, s...)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(body)))
	dst = append(dst, body...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(body))
}

var errCellEntry = errors.New("damaged entry in a cell file")

// readCell reads one entry; io.EOF ends the file, also within an entry that a
// power failure cut.
func readCell(r *bufio.Reader) (Cell, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return Cell{}, io.EOF
	}
	raw := make([]byte, int(binary.BigEndian.Uint16(size[:]))+4)
	if _, err := io.ReadFull(r, raw); err != nil {
		return Cell{}, io.EOF
	}
	body := raw[:len(raw)-4]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(raw[len(body):]) || len(body) < 2 {
		return Cell{}, errCellEntry
	}
	c := Cell{Class: body[0], Protocol: body[1]}
	body = body[2:]
	for _, field := range []*string{&c.NamespaceID, &c.Topic, &c.Group, &c.KeyID} {
		if len(body) < 2 || len(body)-2 < int(binary.BigEndian.Uint16(body)) {
			return Cell{}, errCellEntry
		}
		n := int(binary.BigEndian.Uint16(body))
		*field, body = string(body[2:2+n]), body[2+n:]
	}
	return c, nil
}

// deadFile is the counter file of a process that is gone. All its minutes are
// sealed; it goes away when they are acknowledged.
type deadFile struct {
	incarnation string
	path        string
	cells       map[int64]map[Cell]Values
	last        int64
}

// adopt reads a counter file that no process writes any more.
func adopt(path string) (*deadFile, error) {
	base := strings.TrimSuffix(path, counterSuffix)
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(raw) < slotBytes || string(raw[:len(counterMagic)]) != counterMagic {
		return nil, errNotCounterFile
	}
	if raw[len(counterMagic)] != counterVersion {
		return nil, errCounterVersion
	}
	names, err := readCells(base + cellSuffix)
	if err != nil {
		return nil, err
	}
	d := &deadFile{incarnation: base[strings.LastIndexByte(base, '/')+1:], path: base, cells: map[int64]map[Cell]Values{}}
	for at := slotBytes; at+slotBytes <= len(raw); at += slotBytes {
		s := raw[at : at+slotBytes]
		cell := binary.NativeEndian.Uint32(s[4:])
		if binary.NativeEndian.Uint32(s) != slotUsed || int(cell) >= len(names) {
			continue
		}
		minute := int64(binary.NativeEndian.Uint64(s[8:]))
		var v Values
		for i := range v {
			v[i] = binary.NativeEndian.Uint64(s[16+8*i:])
		}
		put(d.cells, minute, names[cell], v)
		d.last = max(d.last, minute)
	}
	return d, nil
}

func readCells(path string) ([]Cell, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []Cell
	for r := bufio.NewReader(f); ; {
		c, err := readCell(r)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		names = append(names, c)
	}
}

func (d *deadFile) remove() error {
	return errors.Join(os.Remove(d.path+counterSuffix), os.Remove(d.path+cellSuffix))
}
