package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/sluicemq/sluice/controlplane/auth/breached"
	"github.com/sluicemq/sluice/internal/errs"
)

// PasswordCost is the cost of one Argon2id hash.
type PasswordCost struct {
	MemoryKiB uint32
	Passes    uint32
}

// DefaultPasswordCost is 19 MiB and two passes.
var DefaultPasswordCost = PasswordCost{MemoryKiB: 19 << 10, Passes: 2}

const (
	saltSize, hashSize       = 16, 32
	minPassword, maxPassword = 10, 128
)

// hasher hashes passwords, on half of the processors at most, so that a flood of
// tries leaves the others to everybody else, and fairly: see queue.
type hasher struct {
	cost  PasswordCost
	queue *queue
	done  func() // called for each hash
	dummy string // what unknown users are compared with
}

func newHasher(cost PasswordCost, done func()) *hasher {
	h := &hasher{cost: cost, done: done, queue: newQueue(max(1, runtime.GOMAXPROCS(0)/2))}
	h.dummy = h.encode(make([]byte, saltSize), make([]byte, hashSize))
	return h
}

// hash = $argon2id$v=19$m=19456,t=2,p=1$salt$hash
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt)
	sum, err := h.key(ctx, password, salt, h.cost.Passes, h.cost.MemoryKiB, 1)
	if err != nil {
		return "", err
	}
	return h.encode(salt, sum), nil
}

// key is the costly part. It has the queue's slot for no longer than it works.
func (h *hasher) key(ctx context.Context, password string, salt []byte, passes, memory uint32, threads uint8) ([]byte, error) {
	if err := h.queue.enter(ctx); err != nil {
		return nil, err
	}
	defer h.done()
	defer h.queue.leave()
	return argon2.IDKey([]byte(password), salt, passes, memory, threads, hashSize), nil
}

func (h *hasher) encode(salt, sum []byte) string {
	b := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, h.cost.MemoryKiB, h.cost.Passes, b.EncodeToString(salt), b.EncodeToString(sum))
}

var errHashForm = errors.New("stored password hash has an unknown form")

// verify compares in time that depends on neither. An empty stored hash is
// compared as well, and never fits.
func (h *hasher) verify(ctx context.Context, stored, password string) (bool, error) {
	known := stored != ""
	if !known {
		stored = h.dummy
	}
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, errHashForm
	}
	var version int
	var memory, passes uint32
	var threads uint8
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return false, errHashForm
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads); err != nil || passes == 0 || threads == 0 {
		return false, errHashForm
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, errHashForm
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(want) != hashSize {
		return false, errHashForm
	}
	got, err := h.key(ctx, password, salt, passes, memory, threads)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1 && known, nil
}

// productName is among the first things that are tried.
const productName = "sluice"

// minOwnWord is the length from which the first part of a mail address may not
// be in the password: shorter ones are in many words.
const minOwnWord = 4

// checkPassword checks a new password for the account of a mail address: its
// length, and that it is none of those that are tried first. There are no
// rules on kinds of characters (NIST SP 800-63B).
func checkPassword(password, email string) error {
	if n := utf8.RuneCountInString(password); n < minPassword || n > maxPassword {
		e := errs.Field("password", "the password has %d characters; it must have %d to %d", n, minPassword, maxPassword)
		e.Limit = fmt.Sprintf("%d to %d", minPassword, maxPassword)
		return e
	}
	if breached.Weak(password) {
		return errs.Field("password", "this password is among those that are tried first; take one that nobody else has, such as four words that do not belong together").WithReason("password_common")
	}
	lower := strings.ToLower(password)
	own, _, _ := strings.Cut(email, "@")
	if strings.Contains(lower, productName) || (utf8.RuneCountInString(own) >= minOwnWord && strings.Contains(lower, own)) {
		return errs.Field("password", "the password holds your mail address or the name of this product, which are tried first").WithReason("password_guessable")
	}
	return nil
}
