// Package message is the codec of stored records: the bytes of one message in
// the commit log, which are also the bytes of a pull reply.
//
// It owns the record layout, the property text, the body of a batch request,
// offset message ids and the hashes over text. It does no I/O, keeps no state
// and imports nothing of ours; every function may be called at any time from
// any goroutine. FORMAT.md draws the bytes.
//
// Decoders never panic and never trust a length. Those that return slices of
// their input say so.
package message

import (
	"errors"
	"hash/crc32"
	"net/netip"
)

// Magic numbers of a record (second i32).
const (
	MagicV1    uint32 = 0xDAA320A7 // topic length in one byte
	MagicV2    uint32 = 0xDAA320AB // topic length in two bytes
	MagicBlank uint32 = 0xCBD43194 // end of a commit log file
)

// Bits of SysFlag.
const (
	SysFlagCompressed    int32 = 0x1
	SysFlagMultiTags     int32 = 0x2
	SysFlagPrepared      int32 = 0x4 // half message
	SysFlagCommit        int32 = 0x8
	SysFlagRollback      int32 = 0xC
	SysFlagTransaction   int32 = 0xC // mask of the three above
	SysFlagBornHostV6    int32 = 0x10
	SysFlagStoreHostV6   int32 = 0x20
	SysFlagNeedUnwrap    int32 = 0x40
	SysFlagInnerBatch    int32 = 0x80
	SysFlagCompressLZ4   int32 = 0x100
	SysFlagCompressZSTD  int32 = 0x200
	SysFlagCompressZLIB  int32 = 0x300
	SysFlagCompressTypes int32 = 0x700 // mask of the compression type
)

// Limits that the layout itself imposes.
const (
	MaxTopicBytes      = 255   // a topic is a folder name
	MaxTopicBytesV1    = 127   // longest topic of a version 1 record
	MaxPropertiesBytes = 32767 // i16
	BlankBytes         = 8     // size of the end-of-file marker
	MinRecordBytes     = 91    // record without body, topic and properties
)

// Errors that callers branch on; all of them survive wrapping.
var (
	// ErrCorrupt marks bytes that are no record (batch, id): a length that
	// lies, an unknown magic, a wrong checksum.
	ErrCorrupt = errors.New("corrupt record")
	// ErrTopic is returned for a topic that is empty or longer than MaxTopicBytes.
	ErrTopic = errors.New("topic must have 1 to 255 bytes")
	// ErrPropertiesTooLarge is returned for properties over MaxPropertiesBytes.
	ErrPropertiesTooLarge = errors.New("properties exceed 32767 bytes")
	// ErrBodyTooLarge is returned for a body that no record can hold.
	ErrBodyTooLarge = errors.New("body too large for a record")
)

// Message is one message with everything that is stored about it. The last
// four fields are set by Decode; a store gives its own values.
type Message struct {
	Topic                     string
	QueueID                   int32
	Flag                      int32 // opaque to us
	SysFlag                   int32
	BornTimestamp             int64 // ms
	BornHost                  netip.AddrPort
	StoreHost                 netip.AddrPort
	ReconsumeTimes            int32
	PreparedTransactionOffset int64
	Body                      []byte
	Properties                []byte // encoded: key 0x01 value 0x02 ...

	QueueOffset    int64
	PhysicalOffset int64
	StoreTimestamp int64 // ms
	BodyCRC        uint32
}

// Property returns a property of the message; see GetProperty.
func (m *Message) Property(key string) (string, bool) { return GetProperty(m.Properties, key) }

// CRC is the checksum of bodies: CRC-32 (IEEE) without its top bit.
func CRC(body []byte) uint32 { return crc32.ChecksumIEEE(body) & 0x7FFFFFFF }
