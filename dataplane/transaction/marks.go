package transaction

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/sluicemq/sluice/dataplane/vfs"
)

// marks is the file transactions.log: how often producers were asked about a
// half message, and which ones were given up. RocketMQ has no such file: it
// appends the half message again instead.
//
//	header   magic "SLTRAN" | version u16 | zero u32 | crc32c of the 12 bytes u32
//	entry    offset in HalfTopic i64 | last check ms i64 | checks u16 | state u8 | zero u8 | crc32c of the 20 bytes u32
//
// All numbers are big-endian. state is 0 open, 1 given up, 2 ended: forget it.
// A later entry of an offset replaces an earlier one. An entry that is cut off
// or damaged ends the file: entries are written in order. Entries are written
// at the end of a tick. Those of open ones are not synced: after a power cut a
// producer may be asked once more. That one was given up, and that such a one has
// ended, is synced: nothing else tells it when progress has passed it.
//
// Upgrade: a new version reads the old one at open and writes the file anew.
// An unknown version is refused.
type marks struct {
	fs   vfs.FS
	path string
	f    vfs.File
	size int64
	live map[int64]mark // what the file says, with what is not written yet
	buf  []byte         // entries not written yet
	torn bool           // a write failed: the file must be written anew
	owed bool           // something of buf, or of the file, must be synced
}

// mark is one entry.
type mark struct {
	at     int64 // ms
	checks uint16
	state  uint8
}

const (
	marksMagic   = "SLTRAN"
	marksVersion = 1
	marksHeader  = 16
	markBytes    = 24

	markOpen    = 0
	markGivenUp = 1
	markEnded   = 2

	// spareMarks is how many entries the file may have over twice those that
	// count before it is written anew.
	spareMarks = 4096
)

var (
	castagnoli      = crc32.MakeTable(crc32.Castagnoli)
	errMarksVersion = errors.New("transaction marks of an unknown version")
)

func openMarks(fsys vfs.FS, dir string) (*marks, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	m := &marks{fs: fsys, path: filepath.Join(dir, "transactions.log"), live: map[int64]mark{}}
	data, err := vfs.ReadFile(fsys, m.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := m.parse(data); err != nil {
		return nil, err
	}
	return m, m.rewrite()
}

// parse reads what is whole; a file without a whole header is a new one.
func (m *marks) parse(data []byte) error {
	be := binary.BigEndian
	if len(data) < marksHeader || string(data[:6]) != marksMagic || be.Uint32(data[12:]) != crc32.Checksum(data[:12], castagnoli) {
		return nil
	}
	if v := be.Uint16(data[6:]); v != marksVersion {
		return fmt.Errorf("%w: %d, want %d", errMarksVersion, v, marksVersion)
	}
	for e := data[marksHeader:]; len(e) >= markBytes; e = e[markBytes:] {
		if be.Uint32(e[20:]) != crc32.Checksum(e[:20], castagnoli) {
			break
		}
		offset, k := int64(be.Uint64(e)), mark{int64(be.Uint64(e[8:])), be.Uint16(e[16:]), e[18]}
		if k.state == markEnded {
			delete(m.live, offset)
		} else {
			m.live[offset] = k
		}
	}
	return nil
}

func appendMark(dst []byte, offset int64, k mark) []byte {
	be, start := binary.BigEndian, len(dst)
	dst = be.AppendUint64(dst, uint64(offset))
	dst = be.AppendUint64(dst, uint64(k.at))
	dst = be.AppendUint16(dst, k.checks)
	dst = append(dst, k.state, 0)
	return be.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// set notes an entry; write brings it into the file.
func (m *marks) set(offset int64, k mark) {
	old, known := m.live[offset]
	if k.state == markGivenUp || known && old.state == markGivenUp {
		m.owed = true
	}
	if k.state == markEnded {
		if !known {
			return
		}
		delete(m.live, offset)
	} else {
		m.live[offset] = k
	}
	m.buf = appendMark(m.buf, offset, k)
}

// write brings what was set into the file, and what must be, onto the disk.
func (m *marks) write() error {
	if m.f == nil || len(m.buf) == 0 && !m.torn {
		return nil
	}
	if m.torn || (m.size+int64(len(m.buf)))/markBytes > int64(2*len(m.live)+spareMarks) {
		return m.rewrite()
	}
	if _, err := m.f.WriteAt(m.buf, m.size); err != nil {
		m.torn, m.buf = true, m.buf[:0]
		return fmt.Errorf("write transaction marks: %w", err)
	}
	if m.owed {
		if err := m.f.Sync(); err != nil {
			m.torn, m.buf = true, m.buf[:0]
			return fmt.Errorf("sync transaction marks: %w", err)
		}
		m.owed = false
	}
	m.size += int64(len(m.buf))
	m.buf = m.buf[:0]
	return nil
}

// rewrite makes a file of what counts and puts it in the place of the old one.
func (m *marks) rewrite() error {
	be := binary.BigEndian
	data := be.AppendUint32(be.AppendUint16([]byte(marksMagic), marksVersion), 0)
	data = be.AppendUint32(data, crc32.Checksum(data, castagnoli))
	for offset, k := range m.live {
		data = appendMark(data, offset, k)
	}
	f, err := m.fs.Create(m.path + ".tmp")
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = m.fs.Rename(m.path+".tmp", m.path)
	}
	if err == nil {
		err = m.fs.SyncDir(filepath.Dir(m.path))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write transaction marks anew: %w", err), f.Close())
	}
	old := m.f
	m.f, m.size, m.buf, m.torn, m.owed = f, int64(len(data)), m.buf[:0], false, false
	if old != nil {
		return old.Close()
	}
	return nil
}

func (m *marks) close() error {
	if m.f == nil {
		return nil
	}
	err := errors.Join(m.write(), m.f.Close())
	m.f = nil
	return err
}
