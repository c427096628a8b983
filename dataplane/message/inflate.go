package message

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
)

// Inflate unpacks gzip or zlib data, told apart by their first bytes.
// ErrBodyTooLarge when that gives more than limit bytes.
func Inflate(packed []byte, limit int64) ([]byte, error) {
	var r io.Reader
	var err error
	if bytes.HasPrefix(packed, []byte{0x1f, 0x8b}) {
		r, err = gzip.NewReader(bytes.NewReader(packed))
	} else {
		r, err = zlib.NewReader(bytes.NewReader(packed))
	}
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(plain)) > limit {
		return nil, fmt.Errorf("unpacked it has more than %d bytes: %w", limit, ErrBodyTooLarge)
	}
	return plain, nil
}

// PlainBody returns the body as its producer wrote it: clients of the remoting
// protocol compress what has more than 4 KiB. ok is false for the body as it is
// stored, when it was packed in another way than zlib, is damaged, or has more
// than limit bytes.
func (m *Message) PlainBody(limit int64) (body []byte, ok bool) {
	if m.SysFlag&SysFlagCompressed == 0 {
		return m.Body, true
	}
	if t := m.SysFlag & SysFlagCompressTypes; t == 0 || t == SysFlagCompressZLIB {
		if plain, err := Inflate(m.Body, limit); err == nil {
			return plain, true
		}
	}
	return m.Body, false
}
