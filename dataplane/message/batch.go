package message

import "fmt"

// batchEntryBytes is the size of a batch element without body and properties:
//
//	0 SIZE i32, 4 MAGIC i32 (0), 8 CRC i32 (0), 12 FLAG i32,
//	16 BODYLEN i32, BODY, PROPLEN i16, PROPERTIES
const batchEntryBytes = 22

// BatchEntry is one message inside the body of a batch request (code 320).
type BatchEntry struct {
	Flag       int32
	Body       []byte
	Properties []byte
}

// DecodeBatch splits the body of a batch request. Body and Properties of the
// entries alias body. A length that does not fit, bytes left over, or an empty
// batch is ErrCorrupt, with the index of the entry in the text.
func DecodeBatch(body []byte) ([]BatchEntry, error) {
	if len(body) < batchEntryBytes {
		return nil, fmt.Errorf("batch of %d bytes: %w", len(body), ErrCorrupt)
	}
	entries := make([]BatchEntry, 0, min(len(body)/int(max(batchEntryBytes, int32(be.Uint32(body))))+1, 1024))
	for len(body) > 0 {
		if len(body) < batchEntryBytes {
			return nil, fmt.Errorf("batch entry %d: %d bytes left: %w", len(entries), len(body), ErrCorrupt)
		}
		size := int32(be.Uint32(body))
		if size < batchEntryBytes || int64(size) > int64(len(body)) {
			return nil, fmt.Errorf("batch entry %d: size %d of %d bytes: %w", len(entries), size, len(body), ErrCorrupt)
		}
		rec := body[:size:size]
		body = body[size:]
		rest := int64(size) - batchEntryBytes
		bodyLen := int64(int32(be.Uint32(rec[16:])))
		if bodyLen < 0 || bodyLen > rest {
			return nil, fmt.Errorf("batch entry %d: body length %d: %w", len(entries), bodyLen, ErrCorrupt)
		}
		p := 20 + bodyLen
		if propLen := int64(int16(be.Uint16(rec[p:]))); propLen != rest-bodyLen {
			return nil, fmt.Errorf("batch entry %d: properties length %d: %w", len(entries), propLen, ErrCorrupt)
		}
		entries = append(entries, BatchEntry{
			Flag: int32(be.Uint32(rec[12:])), Body: rec[20:p:p], Properties: rec[p+2:],
		})
	}
	return entries, nil
}

// AppendBatchEntry adds the encoding of e to a batch body; it returns
// ErrPropertiesTooLarge when the properties cannot be expressed.
func AppendBatchEntry(dst []byte, e BatchEntry) ([]byte, error) {
	if len(e.Properties) > MaxPropertiesBytes {
		return dst, fmt.Errorf("properties of %d bytes: %w", len(e.Properties), ErrPropertiesTooLarge)
	}
	dst = be.AppendUint32(dst, uint32(batchEntryBytes+len(e.Body)+len(e.Properties)))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = be.AppendUint32(dst, uint32(e.Flag))
	dst = be.AppendUint32(dst, uint32(len(e.Body)))
	dst = append(dst, e.Body...)
	dst = be.AppendUint16(dst, uint16(len(e.Properties)))
	return append(dst, e.Properties...), nil
}
