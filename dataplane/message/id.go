package message

import (
	"encoding/hex"
	"fmt"
	"net/netip"
)

const upperHex = "0123456789ABCDEF"

// OffsetID is the message id that names a place: store host (4 or 16 bytes),
// port as i32, physical offset as i64, in upper-case hexadecimal.
func OffsetID(storeHost netip.AddrPort, physicalOffset int64) string {
	var text [56]byte
	return string(AppendOffsetID(text[:0], storeHost, physicalOffset))
}

// AppendOffsetID adds the OffsetID to dst.
func AppendOffsetID(dst []byte, storeHost netip.AddrPort, physicalOffset int64) []byte {
	var raw [28]byte
	for _, c := range be.AppendUint64(appendHost(raw[:0], storeHost), uint64(physicalOffset)) {
		dst = append(dst, upperHex[c>>4], upperHex[c&15])
	}
	return dst
}

// ParseOffsetID is the inverse of OffsetID; both cases of hexadecimal digits
// are read. The error is ErrCorrupt.
func ParseOffsetID(id string) (storeHost netip.AddrPort, physicalOffset int64, err error) {
	if len(id) != 32 && len(id) != 56 {
		return netip.AddrPort{}, 0, fmt.Errorf("offset id of %d characters: %w", len(id), ErrCorrupt)
	}
	var raw [28]byte
	n, err := hex.Decode(raw[:], []byte(id))
	if err != nil {
		return netip.AddrPort{}, 0, fmt.Errorf("offset id: %w", ErrCorrupt)
	}
	if port := be.Uint32(raw[n-12:]); port > 65535 {
		return netip.AddrPort{}, 0, fmt.Errorf("offset id: port %d: %w", port, ErrCorrupt)
	}
	return host(raw[:], n-8), int64(be.Uint64(raw[n-8:])), nil
}
