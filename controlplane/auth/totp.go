package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6238 as authenticator apps read it
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"time"
)

// Time-based one-time passwords (RFC 6238) as every authenticator app makes
// them: SHA-1, six digits, steps of 30 seconds.
const (
	totpStep       = 30 * time.Second
	totpSecretSize = 20
	totpWindow     = 1 // steps by which a clock may be off, each way
)

func newTOTPSecret() []byte {
	b := make([]byte, totpSecretSize)
	_, _ = rand.Read(b)
	return b
}

func totpText(secret []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
}

// totpURL is what the app reads from a QR code.
func totpURL(issuer, account string, secret []byte) string {
	q := url.Values{"secret": {totpText(secret)}, "issuer": {issuer}, "algorithm": {"SHA1"}, "digits": {"6"}, "period": {"30"}}
	return "otpauth://totp/" + url.PathEscape(issuer+":"+account) + "?" + q.Encode()
}

func totpAt(secret []byte, step int64) string {
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step)) //nolint:gosec // time after 1970
	m := hmac.New(sha1.New, secret)
	m.Write(counter[:])
	sum := m.Sum(nil)
	at := sum[len(sum)-1] & 0x0f
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:at+4])&0x7fffffff%1_000_000)
}

// totpMatch finds the step around now whose code this is; all are compared.
func totpMatch(secret []byte, code string, now time.Time) (step int64, ok bool) {
	current := now.Unix() / int64(totpStep/time.Second)
	for s := current - totpWindow; s <= current+totpWindow; s++ {
		if subtle.ConstantTimeCompare([]byte(totpAt(secret, s)), []byte(code)) == 1 {
			step, ok = s, true
		}
	}
	return step, ok
}
