package message

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
)

// Positions of the fields in front of the first host. Hosts take 8 bytes
// (IPv4) or 20 (IPv6), so everything behind them moves:
//
//	 0 TOTALSIZE i32      20 QUEUEOFFSET i64     48   BORNHOST  B = 8 | 20
//	 4 MAGIC i32          28 PHYSICALOFFSET i64  48+B STORETIMESTAMP i64
//	 8 BODYCRC i32        36 SYSFLAG i32         56+B STOREHOST S = 8 | 20
//	12 QUEUEID i32        40 BORNTIMESTAMP i64   56+B+S RECONSUMETIMES i32
//	16 FLAG i32                                  60+B+S PREPAREDTXOFFSET i64
//
//	68+B+S BODYLEN i32, BODY, TOPICLEN i8 (v1) | i16 (v2), TOPIC, PROPLEN i16, PROPERTIES
const (
	posMagic          = 4
	posCRC            = 8
	posQueueID        = 12
	posFlag           = 16
	posQueueOffset    = 20
	posPhysicalOffset = 28
	posSysFlag        = 36
	posBornTimestamp  = 40
	posBornHost       = 48
)

var be = binary.BigEndian

// Fields is a record taken apart without allocation. Topic, Body and
// Properties are slices of the record.
type Fields struct {
	Size                      int32 // of the whole record
	BodyCRC                   uint32
	QueueID                   int32
	Flag                      int32
	QueueOffset               int64
	PhysicalOffset            int64
	SysFlag                   int32
	BornTimestamp             int64
	StoreTimestamp            int64
	ReconsumeTimes            int32
	PreparedTransactionOffset int64
	Body                      []byte
	Topic                     []byte
	Properties                []byte
}

// hostBytes is the length of a host whose address family is given by bit.
func hostBytes(sysFlag, bit int32) int {
	if sysFlag&bit != 0 {
		return 20
	}
	return 8
}

// Size returns the bytes that AppendRecord will add for m, or ErrTopic,
// ErrPropertiesTooLarge or ErrBodyTooLarge.
func Size(m *Message) (int, error) {
	if len(m.Topic) == 0 || len(m.Topic) > MaxTopicBytes {
		return 0, fmt.Errorf("topic of %d bytes: %w", len(m.Topic), ErrTopic)
	}
	if len(m.Properties) > MaxPropertiesBytes {
		return 0, fmt.Errorf("properties of %d bytes: %w", len(m.Properties), ErrPropertiesTooLarge)
	}
	if len(m.Body) > math.MaxInt32-MaxPropertiesBytes-1024 {
		return 0, fmt.Errorf("body of %d bytes: %w", len(m.Body), ErrBodyTooLarge)
	}
	n := MinRecordBytes + len(m.Body) + len(m.Topic) + len(m.Properties)
	if len(m.Topic) > MaxTopicBytesV1 {
		n++
	}
	if isV6(m.BornHost) {
		n += 12
	}
	if isV6(m.StoreHost) {
		n += 12
	}
	return n, nil
}

// AppendRecord adds the record of m to dst. The checksum is computed from the
// body and the two host bits of SysFlag from the hosts, whatever m says. The
// offsets and the store time are written as they stand in m; Patch changes
// them later. A topic of more than 127 bytes makes a version 2 record.
func AppendRecord(dst []byte, m *Message) ([]byte, error) {
	size, err := Size(m)
	if err != nil {
		return dst, err
	}
	sysFlag := m.SysFlag &^ (SysFlagBornHostV6 | SysFlagStoreHostV6)
	if isV6(m.BornHost) {
		sysFlag |= SysFlagBornHostV6
	}
	if isV6(m.StoreHost) {
		sysFlag |= SysFlagStoreHostV6
	}
	magic := MagicV1
	if len(m.Topic) > MaxTopicBytesV1 {
		magic = MagicV2
	}
	dst = be.AppendUint32(dst, uint32(size))
	dst = be.AppendUint32(dst, magic)
	dst = be.AppendUint32(dst, CRC(m.Body))
	dst = be.AppendUint32(dst, uint32(m.QueueID))
	dst = be.AppendUint32(dst, uint32(m.Flag))
	dst = be.AppendUint64(dst, uint64(m.QueueOffset))
	dst = be.AppendUint64(dst, uint64(m.PhysicalOffset))
	dst = be.AppendUint32(dst, uint32(sysFlag))
	dst = be.AppendUint64(dst, uint64(m.BornTimestamp))
	dst = appendHost(dst, m.BornHost)
	dst = be.AppendUint64(dst, uint64(m.StoreTimestamp))
	dst = appendHost(dst, m.StoreHost)
	dst = be.AppendUint32(dst, uint32(m.ReconsumeTimes))
	dst = be.AppendUint64(dst, uint64(m.PreparedTransactionOffset))
	dst = be.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	return appendTail(dst, magic, m.Topic, m.Properties), nil
}

// appendTail adds what follows the body.
func appendTail(dst []byte, magic uint32, topic string, properties []byte) []byte {
	dst = appendTopic(dst, magic, topic)
	dst = be.AppendUint16(dst, uint16(len(properties)))
	return append(dst, properties...)
}

func appendTopic(dst []byte, magic uint32, topic string) []byte {
	if magic == MagicV2 {
		dst = be.AppendUint16(dst, uint16(len(topic)))
	} else {
		dst = append(dst, byte(len(topic)))
	}
	return append(dst, topic...)
}

// Patch writes the fields that are known only when the record gets its place
// in the log. rec must be a record of AppendRecord.
func Patch(rec []byte, queueOffset, physicalOffset, storeTimestamp int64) {
	be.PutUint64(rec[posQueueOffset:], uint64(queueOffset))
	be.PutUint64(rec[posPhysicalOffset:], uint64(physicalOffset))
	born := hostBytes(int32(be.Uint32(rec[posSysFlag:])), SysFlagBornHostV6)
	be.PutUint64(rec[posBornHost+born:], uint64(storeTimestamp))
}

// PutQueue writes the queue id and the queue offset, which no checksum covers.
// rec must be a record.
func PutQueue(rec []byte, queueID int32, queueOffset int64) {
	be.PutUint32(rec[posQueueID:], uint32(queueID))
	be.PutUint64(rec[posQueueOffset:], uint64(queueOffset))
}

// Head returns TOTALSIZE and MAGIC of what starts at b; ok is false when b has
// less than 8 bytes. Nothing is checked.
func Head(b []byte) (size int32, magic uint32, ok bool) {
	if len(b) < 8 {
		return 0, 0, false
	}
	return int32(be.Uint32(b)), be.Uint32(b[posMagic:]), true
}

// TimeBytes is how much of a record StoreTime needs.
const TimeBytes = 76

// StoreTime returns the store time of the record that begins with b, which
// needs TimeBytes. ErrCorrupt when no record of that physical offset begins there.
func StoreTime(b []byte, physicalOffset int64) (int64, error) {
	size, magic, ok := Head(b)
	if !ok || len(b) < TimeBytes || size < MinRecordBytes || magic != MagicV1 && magic != MagicV2 ||
		int64(be.Uint64(b[posPhysicalOffset:])) != physicalOffset {
		return 0, fmt.Errorf("no record of offset %d: %w", physicalOffset, ErrCorrupt)
	}
	born := hostBytes(int32(be.Uint32(b[posSysFlag:])), SysFlagBornHostV6)
	return int64(be.Uint64(b[posBornHost+born:])), nil
}

// PutBlank writes the end-of-file marker {left, blank magic} to b.
func PutBlank(b []byte, left int32) {
	be.PutUint32(b, uint32(left))
	be.PutUint32(b[posMagic:], MagicBlank)
}

// Parse takes the record at the start of rec apart; rec may go on behind it.
// Lengths are checked against each other, the body's checksum is not: see
// Verify. The slices of the result alias rec. The error is ErrCorrupt.
func Parse(rec []byte) (Fields, error) {
	var f Fields
	size, magic, ok := Head(rec)
	switch {
	case !ok || size < MinRecordBytes:
		return f, fmt.Errorf("size %d: %w", size, ErrCorrupt)
	case magic != MagicV1 && magic != MagicV2:
		return f, fmt.Errorf("magic %08x: %w", magic, ErrCorrupt)
	case int64(size) > int64(len(rec)):
		return f, fmt.Errorf("size %d of %d bytes: %w", size, len(rec), ErrCorrupt)
	}
	rec = rec[:size:size]
	f.Size = size
	f.BodyCRC = be.Uint32(rec[posCRC:])
	f.QueueID = int32(be.Uint32(rec[posQueueID:]))
	f.Flag = int32(be.Uint32(rec[posFlag:]))
	f.QueueOffset = int64(be.Uint64(rec[posQueueOffset:]))
	f.PhysicalOffset = int64(be.Uint64(rec[posPhysicalOffset:]))
	f.SysFlag = int32(be.Uint32(rec[posSysFlag:]))
	f.BornTimestamp = int64(be.Uint64(rec[posBornTimestamp:]))
	born := hostBytes(f.SysFlag, SysFlagBornHostV6)
	hosts := born + hostBytes(f.SysFlag, SysFlagStoreHostV6)
	topicLenBytes := 1
	if magic == MagicV2 {
		topicLenBytes = 2
	}
	rest := int(size) - (72 + hosts + topicLenBytes + 2) // body + topic + properties
	if rest < 0 {
		return f, fmt.Errorf("size %d is less than its fields: %w", size, ErrCorrupt)
	}
	f.StoreTimestamp = int64(be.Uint64(rec[posBornHost+born:]))
	f.ReconsumeTimes = int32(be.Uint32(rec[56+hosts:]))
	f.PreparedTransactionOffset = int64(be.Uint64(rec[60+hosts:]))
	bodyLen := int32(be.Uint32(rec[68+hosts:]))
	if bodyLen < 0 || int(bodyLen) > rest {
		return f, fmt.Errorf("body length %d: %w", bodyLen, ErrCorrupt)
	}
	p := 72 + hosts
	f.Body = rec[p : p+int(bodyLen) : p+int(bodyLen)]
	p += int(bodyLen)
	rest -= int(bodyLen)
	topicLen := int(rec[p])
	if magic == MagicV2 {
		topicLen = int(int16(be.Uint16(rec[p:])))
	}
	if topicLen <= 0 || topicLen > rest || magic == MagicV1 && topicLen > MaxTopicBytesV1 {
		return f, fmt.Errorf("topic length %d: %w", topicLen, ErrCorrupt)
	}
	p += topicLenBytes
	f.Topic = rec[p : p+topicLen : p+topicLen]
	p += topicLen
	rest -= topicLen
	if propLen := int(int16(be.Uint16(rec[p:]))); propLen != rest {
		return f, fmt.Errorf("properties length %d where %d bytes are left: %w", propLen, rest, ErrCorrupt)
	}
	f.Properties = rec[p+2:]
	return f, nil
}

// Verify is Parse plus the body's checksum.
func Verify(rec []byte) (Fields, error) {
	f, err := Parse(rec)
	if err != nil {
		return f, err
	}
	if got := CRC(f.Body); got != f.BodyCRC {
		return f, fmt.Errorf("body checksum %08x, stored %08x: %w", got, f.BodyCRC, ErrCorrupt)
	}
	return f, nil
}

// Decode reads the record at the start of rec. Body and Properties of the
// result alias rec; Topic is a copy. The checksum is not verified (Verify
// does). The error is ErrCorrupt.
func Decode(rec []byte) (Message, error) {
	f, err := Parse(rec)
	if err != nil {
		return Message{}, err
	}
	born := hostBytes(f.SysFlag, SysFlagBornHostV6)
	return Message{
		Topic: string(f.Topic), QueueID: f.QueueID, Flag: f.Flag, SysFlag: f.SysFlag,
		BornTimestamp: f.BornTimestamp, BornHost: host(rec[posBornHost:], born),
		StoreHost:      host(rec[56+born:], hostBytes(f.SysFlag, SysFlagStoreHostV6)),
		ReconsumeTimes: f.ReconsumeTimes, PreparedTransactionOffset: f.PreparedTransactionOffset,
		Body: f.Body, Properties: f.Properties, QueueOffset: f.QueueOffset,
		PhysicalOffset: f.PhysicalOffset, StoreTimestamp: f.StoreTimestamp, BodyCRC: f.BodyCRC,
	}, nil
}

// Rewrite adds to dst the record rec, which Parse took apart into f, with
// another topic and the properties that props adds: lengths, total size and (by
// the topic's length) the version follow, all other bytes stay. It adds nothing
// when the topic is empty or over MaxTopicBytes, or the properties are over
// MaxPropertiesBytes. dst and rec must not overlap.
func Rewrite(dst, rec []byte, f *Fields, topic string, props func(dst []byte) []byte) []byte {
	if topic == "" || len(topic) > MaxTopicBytes {
		return dst
	}
	magic := MagicV1
	if len(topic) > MaxTopicBytesV1 {
		magic = MagicV2
	}
	start := len(dst)
	bodyEnd := 72 + hostBytes(f.SysFlag, SysFlagBornHostV6) + hostBytes(f.SysFlag, SysFlagStoreHostV6) + len(f.Body)
	dst = append(dst, rec[:bodyEnd]...)
	dst = appendTopic(dst, magic, topic)
	dst = append(dst, 0, 0)
	at := len(dst)
	dst = props(dst)
	n := len(dst) - at
	if n > MaxPropertiesBytes {
		return dst[:start]
	}
	be.PutUint16(dst[at-2:], uint16(n))
	be.PutUint32(dst[start:], uint32(len(dst)-start))
	be.PutUint32(dst[start+posMagic:], magic)
	return dst
}

func isV6(a netip.AddrPort) bool { return a.Addr().Is6() && !a.Addr().Is4In6() }

// appendHost writes address and port (as i32); an invalid host becomes 0.0.0.0:0.
func appendHost(dst []byte, a netip.AddrPort) []byte {
	addr := a.Addr().Unmap()
	switch {
	case addr.Is6():
		b := addr.As16()
		dst = append(dst, b[:]...)
	case addr.Is4():
		b := addr.As4()
		dst = append(dst, b[:]...)
	default:
		dst = append(dst, 0, 0, 0, 0)
	}
	return be.AppendUint32(dst, uint32(a.Port()))
}

// host reads the n bytes of a host. A port outside of 16 bits is cut.
func host(b []byte, n int) netip.AddrPort {
	if n == 20 {
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b)), uint16(be.Uint32(b[16:])))
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b)), uint16(be.Uint32(b[4:])))
}
