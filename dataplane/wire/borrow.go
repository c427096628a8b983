package wire

import (
	"bytes"
	"encoding/binary"
	"unsafe"
)

// Borrower decodes frames without allocating: the frame and everything in it
// are valid until the next call, and only while nobody writes to the bytes that
// were decoded. The zero value is ready. It belongs to one goroutine.
type Borrower struct {
	frame Frame
	arena []byte
}

// keepArena is the largest memory for unescaped text that is kept.
const keepArena = 64 << 10

// Decode decodes a header; the frame's body is body itself.
func (d *Borrower) Decode(s Serialize, header, body []byte) (*Frame, error) {
	if d.arena = d.arena[:0]; cap(d.arena) > keepArena {
		d.arena = nil
	}
	ext := d.frame.Ext[:0]
	if cap(ext) > 64 {
		ext = nil
	}
	d.frame = Frame{Ext: ext, Body: body}
	if err := decodeHeader(&d.frame, s, unsafe.String(unsafe.SliceData(header), len(header)), &d.arena); err != nil {
		return nil, err
	}
	return &d.frame, nil
}

var jsonCode = []byte(`{"code":`)

// PeekCode returns the code of a header without decoding it; false for one that
// says it elsewhere than all clients do, or not at all.
func PeekCode(s Serialize, header []byte) (code int32, ok bool) {
	switch {
	case s == SerializeCompact && len(header) >= 2:
		return int32(int16(binary.BigEndian.Uint16(header))), true
	case s != SerializeJSON || !bytes.HasPrefix(header, jsonCode):
		return 0, false
	}
	for _, c := range header[len(jsonCode):] {
		if c < '0' || c > '9' || code > 1<<24 {
			return code, ok && (c == ',' || c == '}')
		}
		code, ok = code*10+int32(c-'0'), true
	}
	return 0, false
}
