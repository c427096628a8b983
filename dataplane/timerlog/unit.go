package timerlog

import (
	"encoding/binary"
	"fmt"
)

const (
	// UnitBytes is the length of a unit.
	UnitBytes = 52
	// markerBytes is the length of the end marker of a full file.
	markerBytes = 16
	// markerMagic is that of the commit log's blank record.
	markerMagic = 0xCBD43194
)

// Kinds of a unit, bits of Unit.Magic.
const (
	MagicDefault int32 = 1 // every unit
	MagicRoll    int32 = 2 // goes back to the timer topic when its slot comes
	MagicDelete  int32 = 4 // takes another message of its slot back
)

// Unit is one waiting message:
//
//	 0 SIZE i32 (52)          4 PREVIOUS i64          12 MAGIC i32
//	16 WRITETIME i64         24 DELAY i32             28 OFFSET i64
//	36 RECORDSIZE i32        40 TOPICHASH i32         44 WANTED i64
type Unit struct {
	Previous  int64 // position of the unit in front of it in its slot, -1 for none
	Magic     int32
	WriteTime int64 // when it entered the wheel, ms, a multiple of the precision
	Delay     int32 // from WriteTime to its slot, ms
	Offset    int64 // of its record in the commit log
	Size      int32 // of the record, bytes
	TopicHash int32 // Java hash of the topic that it is for, 0 for none
	Wanted    int64 // when its sender wants it, ms; 0 in units of RocketMQ, which keeps these bytes free
}

// Due is the time of the unit's slot in ms.
func (u Unit) Due() int64 { return u.WriteTime + int64(u.Delay) }

// AppendUnit appends the bytes of u to b.
func AppendUnit(b []byte, u Unit) []byte {
	b = binary.BigEndian.AppendUint32(b, UnitBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(u.Previous))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Magic))
	b = binary.BigEndian.AppendUint64(b, uint64(u.WriteTime))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Delay))
	b = binary.BigEndian.AppendUint64(b, uint64(u.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Size))
	b = binary.BigEndian.AppendUint32(b, uint32(u.TopicHash))
	return binary.BigEndian.AppendUint64(b, uint64(u.Wanted))
}

// DecodeUnit reads the unit at position pos from the begin of b. The error is
// ErrDamaged when b is shorter than a unit or no unit at pos can be so. A Wanted that is
// negative says nothing and becomes 0.
func DecodeUnit(b []byte, pos int64) (Unit, error) {
	if len(b) < UnitBytes {
		return Unit{}, fmt.Errorf("timer unit at %d has %d bytes, not %d: %w", pos, len(b), UnitBytes, ErrDamaged)
	}
	i32 := func(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
	i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	u := Unit{Previous: i64(4), Magic: i32(12), WriteTime: i64(16), Delay: i32(24), Offset: i64(28), Size: i32(36), TopicHash: i32(40), Wanted: max(i64(44), 0)}
	var field string
	var value int64
	switch {
	case i32(0) != UnitBytes:
		field, value = "size", int64(i32(0))
	case u.Previous < -1 || u.Previous >= pos:
		field, value = "previous", u.Previous
	case u.Magic|0xF != 0xF || u.Magic&MagicDefault == 0:
		field, value = "magic", int64(u.Magic)
	case u.WriteTime <= 0:
		field, value = "write time", u.WriteTime
	case u.Offset < 0:
		field, value = "commit log offset", u.Offset
	case u.Size <= 0:
		field, value = "record size", int64(u.Size)
	default:
		return u, nil
	}
	return Unit{}, fmt.Errorf("timer unit at %d: %s is %d: %w", pos, field, value, ErrDamaged)
}

// appendMarker appends the marker that closes a file of which left bytes, the
// marker included, are not used:
//
//	0 LEFT i32   4 i64 (0)   12 MAGIC i32 (0xCBD43194)
func appendMarker(b []byte, left int64) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(left))
	b = binary.BigEndian.AppendUint64(b, 0)
	return binary.BigEndian.AppendUint32(b, markerMagic)
}

func isMarker(b []byte, left int64) bool {
	return len(b) >= markerBytes && int64(binary.BigEndian.Uint32(b)) == left && binary.BigEndian.Uint32(b[12:]) == markerMagic
}
