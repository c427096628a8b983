package tenant

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID names an object of any kind: a kind prefix and a part that is never
// reused. The ID of a namespace is shorter, because it is part of every
// physical topic name on brokers.
type ID = string

// Prefixes of ids, one per kind.
const (
	PrefixTenant         = "ten_"
	PrefixUser           = "usr_"
	PrefixServiceAccount = "sa_"
	PrefixKey            = "slk_"
	PrefixSecret         = "sls_"
	PrefixTopic          = "top_"
	PrefixGroup          = "grp_"
	PrefixSession        = "ses_"
	PrefixRule           = "acl_"
	PrefixInvitation     = "inv_"
	PrefixRole           = "rol_"
	PrefixBinding        = "rbd_"
)

const (
	base62        = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base36        = "0123456789abcdefghijklmnopqrstuvwxyz"
	keyIDRandom   = 20
	secretRandom  = 40
	secretSumSize = 6
)

// NewID makes a sortable id of the kind that prefix names.
func NewID(prefix string, now time.Time) ID {
	return prefix + ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()
}

// DerivedID makes the same id each time from the same time and seed.
func DerivedID(prefix string, at time.Time, seed string) ID {
	sum := sha256.Sum256([]byte(seed))
	return prefix + ulid.MustNew(ulid.Timestamp(at), bytes.NewReader(sum[:])).String()
}

// NewNamespaceID makes an id that matches [a-z0-9]{8,16} and begins with a
// letter.
func NewNamespaceID() ID { return "ns" + randomText(base36, 12) }

// NewKeyID makes the public half of an API key.
func NewKeyID() ID { return PrefixKey + randomText(base62, keyIDRandom) }

// NewSecret makes the private half of an API key: prefix, 40 random
// characters (238 bits) and 6 of checksum, so that a scanner can tell a leak
// from noise without asking anybody.
func NewSecret() string {
	body := PrefixSecret + randomText(base62, secretRandom)
	return body + secretSum(body)
}

// ValidSecret reports whether s has the form and checksum of a secret.
func ValidSecret(s string) bool {
	if len(s) != len(PrefixSecret)+secretRandom+secretSumSize || !strings.HasPrefix(s, PrefixSecret) {
		return false
	}
	body := s[:len(s)-secretSumSize]
	return secretSum(body) == s[len(body):]
}

func secretSum(body string) string {
	n := crc32.ChecksumIEEE([]byte(body))
	sum := make([]byte, secretSumSize)
	for i := secretSumSize - 1; i >= 0; i-- {
		sum[i] = base62[n%62]
		n /= 62
	}
	return string(sum)
}

// randomText draws n characters uniformly from alphabet; bytes that would
// bias the draw are thrown away.
func randomText(alphabet string, n int) string {
	limit := byte(256 / len(alphabet) * len(alphabet) & 0xff)
	out := make([]byte, 0, n)
	buf := make([]byte, n*2)
	for len(out) < n {
		_, _ = rand.Read(buf) // never fails: it stops the process instead
		for _, b := range buf {
			if limit != 0 && b >= limit {
				continue
			}
			out = append(out, alphabet[int(b)%len(alphabet)])
			if len(out) == n {
				break
			}
		}
	}
	return string(out)
}
