// Package wire is the remoting protocol as bytes: the frame, its two header
// encodings, request and response codes, typed headers and the JSON bodies.
//
// It owns the layout and its limits. It does not own sockets, time,
// permissions or stored records, and it imports nothing else of Sluice. All
// functions are safe for concurrent use on different values.
//
// A frame, all integers big-endian:
//
//	+----------------+---------------------------+----------+--------+
//	| total      i32 | header word            i32| header   | body   |
//	| 4+header+body  | type u8 | length     u24  | "length" | rest   |
//	+----------------+---------------------------+----------+--------+
//
// Header type 0 is one JSON object, type 1 the compact form drawn above
// appendCompactHeader. Decoders never panic, check every length against the
// bytes that are there before allocating, and stop at the limits below.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// Limits of one frame. A peer that passes one of them gets ErrMalformed or
// ErrTooLarge; nothing of the announced size is allocated first.
const (
	MaxFrame  = 16 << 20 // value of the total field
	MaxHeader = 1 << 20  // bytes of a header: 32,767 bytes of escaped properties fit five times
	MaxFields = 4096     // extension fields of one header
	MaxDepth  = 64       // nesting of JSON, headers and bodies

	// PrefixSize is the size of total and header word together.
	PrefixSize = 8

	// Version is the protocol version that our own frames carry (V5_3_0).
	Version = 473
)

// Errors of decoders, for errors.Is.
var (
	ErrMalformed = errors.New("malformed remoting frame")
	ErrTooLarge  = errors.New("remoting frame over the size limit")
)

// Serialize is the header encoding of a frame.
type Serialize uint8

// The two header encodings.
const (
	SerializeJSON    Serialize = 0
	SerializeCompact Serialize = 1 // "ROCKETMQ"
)

// Bits of Frame.Flag.
const (
	FlagResponse int32 = 1
	FlagOneWay   int32 = 2
)

// Frame is one request or response.
type Frame struct {
	Code      int32
	Language  Language
	Version   int32
	Opaque    int32
	Flag      int32
	Remark    string
	Ext       Fields
	Body      []byte
	Serialize Serialize
}

// IsResponse reports whether the frame answers a request of the receiver.
func (f *Frame) IsResponse() bool { return f.Flag&FlagResponse != 0 }

// IsOneWay reports whether the sender waits for no answer.
func (f *Frame) IsOneWay() bool { return f.Flag&FlagOneWay != 0 }

// Reply makes the response frame to f with the same opaque and encoding.
func (f *Frame) Reply(code int32, remark string) *Frame {
	return &Frame{
		Code: code, Remark: remark, Opaque: f.Opaque, Serialize: f.Serialize,
		Language: LanguageGo, Version: Version, Flag: FlagResponse,
	}
}

// Request makes a request frame in the JSON encoding; the connection that
// sends it sets the opaque.
func Request(code int32, body []byte) *Frame {
	return &Frame{Code: code, Language: LanguageGo, Version: Version, Body: body}
}

// Field is one extension field of a header.
type Field = struct{ Key, Value string }

// Fields are extension fields in the order of the wire.
type Fields []Field

// Lookup returns the last value of key: a header may repeat a field and the
// last one wins.
func (f Fields) Lookup(key string) (string, bool) {
	for i := len(f) - 1; i >= 0; i-- {
		if f[i].Key == key {
			return f[i].Value, true
		}
	}
	return "", false
}

// Value is Lookup without the difference between absent and empty.
func (f Fields) Value(key string) string {
	v, _ := f.Lookup(key)
	return v
}

// Map copies the fields into a map.
func (f Fields) Map() map[string]string {
	m := make(map[string]string, len(f))
	for _, e := range f {
		m[e.Key] = e.Value
	}
	return m
}

// Add appends a field.
func (f *Fields) Add(key, value string) { *f = append(*f, Field{key, value}) }

// AddInt appends a field holding a decimal number.
func (f *Fields) AddInt(key string, value int64) {
	*f = append(*f, Field{key, strconv.FormatInt(value, 10)})
}

// AddBool appends a field holding true or false.
func (f *Fields) AddBool(key string, value bool) {
	*f = append(*f, Field{key, strconv.FormatBool(value)})
}

// AddOptional appends a field unless its value is empty.
func (f *Fields) AddOptional(key, value string) {
	if value != "" {
		f.Add(key, value)
	}
}

// Prefix is what the first eight bytes of a frame announce.
type Prefix struct {
	HeaderLen int
	BodyLen   int
	Serialize Serialize
}

// ParsePrefix checks the first PrefixSize bytes of a frame. A frame whose
// total is over maxFrame (MaxFrame when 0) is refused with ErrTooLarge.
func ParsePrefix(b []byte, maxFrame int) (Prefix, error) {
	if len(b) < PrefixSize {
		return Prefix{}, fmt.Errorf("%w: %d bytes of prefix, want %d", ErrMalformed, len(b), PrefixSize)
	}
	if maxFrame <= 0 {
		maxFrame = MaxFrame
	}
	total := int64(int32(binary.BigEndian.Uint32(b)))
	word := binary.BigEndian.Uint32(b[4:])
	headerLen := int64(word & 0xFFFFFF)
	switch {
	case total < 4:
		return Prefix{}, fmt.Errorf("%w: total length %d", ErrMalformed, total)
	case total > int64(maxFrame):
		return Prefix{}, fmt.Errorf("%w: total length %d, limit %d", ErrTooLarge, total, maxFrame)
	case headerLen > total-4:
		return Prefix{}, fmt.Errorf("%w: header length %d in a frame of %d", ErrMalformed, headerLen, total)
	case headerLen > MaxHeader:
		return Prefix{}, fmt.Errorf("%w: header length %d, limit %d", ErrTooLarge, headerLen, MaxHeader)
	case word>>24 > uint32(SerializeCompact):
		return Prefix{}, fmt.Errorf("%w: serialize type %d", ErrMalformed, word>>24)
	}
	return Prefix{HeaderLen: int(headerLen), BodyLen: int(total - 4 - headerLen), Serialize: Serialize(word >> 24)}, nil
}

// DecodeHeader decodes a header in the given encoding. The frame owns all its
// strings; it does not alias b.
func DecodeHeader(s Serialize, b []byte) (*Frame, error) {
	f := &Frame{}
	if err := decodeHeader(f, s, string(b), nil); err != nil {
		return nil, err
	}
	return f, nil
}

func decodeHeader(f *Frame, s Serialize, text string, arena *[]byte) error {
	f.Serialize = s
	switch s {
	case SerializeJSON:
		return decodeJSONHeader(f, text, arena)
	case SerializeCompact:
		return decodeCompactHeader(f, text)
	}
	return fmt.Errorf("%w: serialize type %d", ErrMalformed, s)
}

// Decode decodes one whole frame, which must fill b exactly. The body aliases
// b; everything else is copied.
func Decode(b []byte) (*Frame, error) {
	p, err := ParsePrefix(b, 0)
	if err != nil {
		return nil, err
	}
	if len(b) != PrefixSize+p.HeaderLen+p.BodyLen {
		return nil, fmt.Errorf("%w: %d bytes for a frame of %d", ErrMalformed, len(b), PrefixSize+p.HeaderLen+p.BodyLen)
	}
	f, err := DecodeHeader(p.Serialize, b[PrefixSize:PrefixSize+p.HeaderLen])
	if err != nil {
		return nil, err
	}
	if p.BodyLen > 0 {
		f.Body = b[PrefixSize+p.HeaderLen:]
	}
	return f, nil
}

// AppendFrame appends the encoded frame to dst. It fails with ErrTooLarge
// when the frame would pass MaxFrame or its header MaxHeader, and then
// returns dst unchanged.
func AppendFrame(dst []byte, f *Frame) ([]byte, error) {
	start := len(dst)
	out := append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	switch f.Serialize {
	case SerializeJSON:
		out = appendJSONHeader(out, f)
	case SerializeCompact:
		var err error
		if out, err = appendCompactHeader(out, f); err != nil {
			return dst, err
		}
	default:
		return dst, fmt.Errorf("%w: serialize type %d", ErrMalformed, f.Serialize)
	}
	headerLen := len(out) - start - PrefixSize
	total := 4 + headerLen + len(f.Body)
	if headerLen > MaxHeader || total > MaxFrame {
		return dst, fmt.Errorf("%w: header %d, total %d", ErrTooLarge, headerLen, total)
	}
	binary.BigEndian.PutUint32(out[start:], uint32(total))
	binary.BigEndian.PutUint32(out[start+4:], uint32(f.Serialize)<<24|uint32(headerLen))
	return append(out, f.Body...), nil
}

// reader reads big-endian values from the front of a text. The first short
// read poisons it: every later read returns zero, and err tells.
type reader struct {
	s   string
	err error
}

func (r *reader) take(n int) string {
	if r.err != nil {
		return ""
	}
	if n < 0 || n > len(r.s) {
		r.err = fmt.Errorf("%w: field of %d bytes, %d left", ErrMalformed, n, len(r.s))
		r.s = ""
		return ""
	}
	out := r.s[:n]
	r.s = r.s[n:]
	return out
}

func (r *reader) u8() uint8 {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) i16() int16 {
	if b := r.take(2); len(b) == 2 {
		return int16(uint16(b[0])<<8 | uint16(b[1]))
	}
	return 0
}

func (r *reader) i32() int32 {
	if b := r.take(4); len(b) == 4 {
		return int32(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]))
	}
	return 0
}
