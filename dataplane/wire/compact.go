package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The compact header:
//
//	+----------+---------+-------------+------------+----------+
//	| code i16 | lang u8 | version i16 | opaque i32 | flag i32 |
//	+----------+---------+-------------+------------+----------+
//	| remark length i32 | remark | block length i32 | block    |
//	+-------------------+--------+------------------+----------+
//	block = { key length i16 | key | value length i32 | value } ...
//
// Entries without key or value are left out. Codes over 32,767 arrive with
// their low 16 bits only; popCodes maps them back.
func appendCompactHeader(dst []byte, f *Frame) ([]byte, error) {
	dst = binary.BigEndian.AppendUint16(dst, uint16(f.Code))
	dst = append(dst, byte(f.Language))
	dst = binary.BigEndian.AppendUint16(dst, uint16(f.Version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.Opaque))
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.Flag))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Remark)))
	dst = append(dst, f.Remark...)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for _, e := range f.Ext {
		if e.Key == "" || e.Value == "" {
			continue
		}
		if len(e.Key) > math.MaxInt16 {
			return nil, fmt.Errorf("%w: field name of %d bytes", ErrTooLarge, len(e.Key))
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(e.Key)))
		dst = append(dst, e.Key...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Value)))
		dst = append(dst, e.Value...)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst, nil
}

func decodeCompactHeader(f *Frame, s string) error {
	r := reader{s: s}
	f.Code = int32(r.i16())
	f.Language = Language(r.u8())
	f.Version = int32(r.i16())
	f.Opaque = r.i32()
	f.Flag = r.i32()
	f.Remark = r.take(int(r.i32()))
	block := reader{s: r.take(int(r.i32()))}
	if r.err != nil {
		return r.err
	}
	if len(r.s) > 0 {
		return fmt.Errorf("%w: %d bytes after the compact header", ErrMalformed, len(r.s))
	}
	if f.Ext = f.Ext[:0]; len(block.s) > 0 && f.Ext == nil {
		f.Ext = make(Fields, 0, 16)
	}
	for len(block.s) > 0 {
		key := block.take(int(block.i16()))
		value := block.take(int(block.i32()))
		if block.err != nil {
			return block.err
		}
		if key == "" || value == "" {
			continue
		}
		if len(f.Ext) == MaxFields {
			return fmt.Errorf("%w: over %d fields", ErrTooLarge, MaxFields)
		}
		f.Ext = append(f.Ext, Field{key, value})
	}
	if !f.IsResponse() {
		if whole, ok := popCodes[f.Code]; ok {
			f.Code = whole
		}
	}
	return nil
}

// popCodes maps a truncated request code to the code that was meant.
var popCodes = map[int32]int32{
	3442: PopMessage,
	3443: AckMessage,
	3444: PeekMessage,
	3445: ChangeMessageInvisibleTime,
	3446: Notification,
	3447: PollingInfo,
	3448: PopRollback,
	3543: BatchAckMessage,
}
