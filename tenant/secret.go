package tenant

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/sluicemq/sluice/internal/errs"
)

// What a secret that its owner brings must be.
const (
	minSecretBytes = 32
	maxSecretBytes = 128
	minSecretBits  = 128
)

var secretForm = regexp.MustCompile(`^[A-Za-z0-9_+/=.-]{32,128}$`)

// CheckSecret refuses a secret that somebody brings and that could be guessed.
// The error names field and limit and never holds the secret.
func CheckSecret(field, secret string) error {
	if n := len(secret); n < minSecretBytes || n > maxSecretBytes {
		e := errs.Field(field, "the secret has %d characters; it must have %d to %d", n, minSecretBytes, maxSecretBytes)
		e.Limit = fmt.Sprintf("%d to %d", minSecretBytes, maxSecretBytes)
		return e
	}
	if !secretForm.MatchString(secret) {
		return errs.Field(field, "the secret has characters other than A-Z a-z 0-9 _ - + / = .")
	}
	if strings.HasPrefix(secret, PrefixSecret) {
		return errs.Field(field, "%s begins the secrets that Sluice makes; bring one that begins otherwise", PrefixSecret)
	}
	if bits := secretBits(secret); bits < minSecretBits {
		e := errs.Field(field, "the secret is as easy to guess as %d random bits; use at least %d: more characters, without words, repetitions and sequences", int(bits), minSecretBits)
		e.Limit = fmt.Sprintf("%d bits", minSecretBits)
		return e.WithReason("secret_weak")
	}
	return nil
}

// secretBits estimates from below how many random bits a secret is worth. Each
// character counts as one drawn from the alphabet that the secret shows; a
// stretch that is a known word, a sequence, or was there before counts only
// for saying which stretch it is.
func secretBits(s string) float64 {
	letter := math.Log2(alphabet(s))
	lower := plain(s)
	bits := 0.0
	for i := 0; i < len(s); {
		if n := wordAt(lower[i:]); n > 0 {
			bits += math.Log2(float64(len(words))) + 1
			i += n
			continue
		}
		run := max(sequenceAt(lower[i:]), repeatAt(lower, i))
		if run < minRun {
			bits += letter
			i++
			continue
		}
		bits += min(float64(run)*letter, math.Log2(float64(len(s)))+math.Log2(float64(run))+1)
		i += run
	}
	return bits
}

// minRun is where a repetition or a sequence is no accident: among random
// characters shorter ones are found all the time.
const minRun = 4

// alphabet guesses how many characters the secret is drawn from: the classes
// that it uses, but not many more than it shows.
func alphabet(s string) float64 {
	classes := []struct {
		set  string
		size float64
		seen bool
	}{{"0123456789", 10, false}, {"abcdef", 6, false}, {"ghijklmnopqrstuvwxyz", 20, false}, {"ABCDEF", 6, false}, {"GHIJKLMNOPQRSTUVWXYZ", 20, false}, {"_-+/=.", 2, false}}
	distinct := map[byte]bool{}
	for i := range len(s) {
		distinct[s[i]] = true
		for j := range classes {
			classes[j].seen = classes[j].seen || strings.IndexByte(classes[j].set, s[i]) >= 0
		}
	}
	size := 0.0
	for _, c := range classes {
		if c.seen {
			size += c.size
		}
	}
	return max(2, min(size, 1.6*float64(len(distinct))))
}

// plain undoes the disguises that people put on words.
func plain(s string) string {
	return strings.NewReplacer("0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t").Replace(strings.ToLower(s))
}

// words are what people build secrets of; after plain.
var words = strings.Fields(`accesskey access admin aliyun apache api apikey apple azure banana bearer broker changeme cloud company consumer correct
	credential default demo develop development dragon example foobar google guest hello horse iloveyou key kafka letmein login master message monkey
	mysecret mysql namespace official passphrase passw0rd password passwort pass please private producer production prod public queue random redis
	rocketmq root sample secretkey secret secure server service sluice staging stage staple super supersecret system team temp tenant test testing
	token topic trustno user username welcome winter summer spring autumn january february march april june july august september october november december`)

// wordAt is the length of the longest known word that s begins with.
func wordAt(s string) int {
	n := 0
	for _, w := range words {
		if len(w) > n && len(w) >= minRun && strings.HasPrefix(s, w) {
			n = len(w)
		}
	}
	return n
}

// rows of keyboards, and the order of letters; after plain, so that digits are
// letters here.
var rows = []string{"abcdefghijklmnopqrstuvwxyz", "qwertyuiop", "qwertzuiop", "asdfghjkl", "zxcvbnm", "yxcvbnm", plain("01234567890")}

// sequenceAt is the length of the stretch at the start of s that runs along a
// row, in either direction, or is one character again and again.
func sequenceAt(s string) int {
	n := 1
	for n < len(s) && s[n] == s[0] {
		n++
	}
	for _, row := range rows {
		for _, r := range []string{row, reversed(row)} {
			if at := strings.IndexByte(r, s[0]); at >= 0 {
				n = max(n, common(s, r[at:]))
			}
		}
	}
	return n
}

func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// repeatAt is the length of the longest stretch from i on that s has had before.
func repeatAt(s string, i int) int {
	n := 0
	for j := range i {
		n = max(n, common(s[i:], s[j:]))
	}
	return n
}
