package broker

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"sync/atomic"
)

// keySeed and keyCounter make unique keys for messages whose client sent none.
var (
	keySeed    = rand.Uint64()
	keyCounter atomic.Uint64
)

// newUniqueKey returns 32 upper-case hex digits, the length of the keys that
// clients make.
func newUniqueKey() string {
	var b [16]byte
	n := keyCounter.Add(1)
	for i := range 8 {
		b[i] = byte(keySeed >> (8 * i))
		b[15-i] = byte(n >> (8 * i))
	}
	return strings.ToUpper(hex.EncodeToString(b[:]))
}
