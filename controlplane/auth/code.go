package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/big"
	"time"

	"github.com/sluicemq/sluice/tenant"
)

// Purposes of mail codes.
const (
	purposeSignUp    = "sign_up"
	purposeReset     = "reset"
	purposeEmail     = "email"      // to change the address to this one
	purposeEmailUndo = "email_undo" // to change it back to this one
)

// undoTTL is how long a change of the mail address can be undone.
const undoTTL = 7 * 24 * time.Hour

// long reports whether codes of a purpose are too long to be guessed. They
// live for days, and wrong tries do not count: a stranger must not be able to
// use up the tries of the owner.
func long(purpose string) bool { return purpose == purposeEmailUndo }

func (s *Service) ttl(purpose string) time.Duration {
	if long(purpose) {
		return undoTTL
	}
	return s.cfg.CodeTTL
}

const (
	prefixCode = "cod_"
	codeTries  = 5
	// At most so many mails to one address in an hour, and so many codes
	// that work side by side.
	mailsPerHour = 6
)

// newCode makes six digits, or for days 130 bits.
func newCode(purpose string) string {
	if long(purpose) {
		return rand.Text()
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic("auth: random source failed: " + err.Error())
	}
	return fmt.Sprintf("%06d", n)
}

// hashCode is keyed, since six digits alone are found by trying.
func (s *Service) hashCode(id tenant.ID, code string) []byte {
	m := hmac.New(sha256.New, s.pepper)
	m.Write([]byte(id + ":" + code))
	return m.Sum(nil)
}

// issueCode makes a code and stores it; false when the address has had its
// share of mails in this hour.
func (s *Service) issueCode(ctx context.Context, email, purpose string, payload []byte) (code string, ok bool, err error) {
	now := s.time()
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		recent, err := s.d.Store.Codes(ctx, email, purpose, now.Add(-time.Hour))
		if err != nil {
			return err
		}
		if ok = len(recent) < mailsPerHour; !ok {
			return nil
		}
		c := Code{ID: tenant.NewID(prefixCode, now), Email: email, Purpose: purpose, Payload: string(payload),
			CreatedAt: now, ExpiresAt: now.Add(s.ttl(purpose))}
		code = newCode(purpose)
		c.Hash = s.hashCode(c.ID, code)
		return s.d.Store.AddCode(ctx, c)
	})
	return code, ok, err
}

var errBadCode = unauthenticated("code_invalid", "the code is wrong, has expired or was used; ask for a new one")

// takeCode finds the code among those of the address that still work and
// uses it up. A wrong one counts against all of them. The attempt is counted
// in a transaction of its own, so that a failure of the caller does not give
// it back.
func (s *Service) takeCode(ctx context.Context, email, purpose, code string) (Code, error) {
	var hit *Code
	err := s.d.Store.InTx(ctx, func(ctx context.Context) error {
		hit = nil
		now := s.time()
		codes, err := s.d.Store.Codes(ctx, email, purpose, now.Add(-s.ttl(purpose)))
		if err != nil {
			return err
		}
		var ids []tenant.ID
		for i, c := range codes {
			if c.Tries >= codeTries || !now.Before(c.ExpiresAt) {
				continue
			}
			ids = append(ids, c.ID)
			if hmac.Equal(c.Hash, s.hashCode(c.ID, code)) {
				hit = &codes[i]
			}
		}
		if hit != nil || len(ids) == 0 || long(purpose) {
			return nil
		}
		return s.d.Store.CountTry(ctx, ids)
	})
	if err != nil {
		return Code{}, err
	}
	if hit == nil {
		return Code{}, errBadCode
	}
	return *hit, nil
}

// spend uses the code up in the transaction that does what it is for: of two
// requests with the same code only one goes on.
func (s *Service) spend(ctx context.Context, c Code) error {
	done, err := s.d.Store.DeleteCode(ctx, c.ID)
	if err != nil {
		return err
	}
	if !done {
		return errBadCode
	}
	return s.d.Store.DeleteCodes(ctx, c.Email, c.Purpose)
}
