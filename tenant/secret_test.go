package tenant

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/errs"
)

func TestCheckSecret(t *testing.T) {
	for name, c := range map[string]struct {
		secret string
		reason string // of the error; "" for none
	}{
		"base64 of 32 bytes":      {"q8Zr1vYt5XoKd3uLh7PwSg0cTjMeBnA9RfVxI2yGiEU=", ""},
		"hexadecimal of 24 bytes": {"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c", ""},
		"too short":               {"q8Zr1vYt5XoKd3uLh7PwSg0cTjMeBnA", "invalid"},
		"too long":                {strings.Repeat("q8Zr1vYt5XoKd3uL", 8) + "x", "invalid"},
		"blank":                   {"q8Zr1vYt5XoKd3uLh7PwSg0cTjMeBnA9 RfVxI2yG", "invalid"},
		"control character":       {"q8Zr1vYt5XoKd3uLh7PwSg0cTjMeBnA9\x00RfVxI2yG", "invalid"},
		"look-alike":              {"q8Zr1vYt5XoKd3uLh7PwSg0cTjMeBnА9RfVxI2yG", "invalid"},
		"one character":           {strings.Repeat("x", 64), "secret_weak"},
		"one block":               {strings.Repeat("q8Zr1vYt", 8), "secret_weak"},
		"alphabet":                {"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "secret_weak"},
		"keyboard":                {"qwertyuiopasdfghjklzxcvbnm1234567890", "secret_weak"},
		"words":                   {"correct-horse-battery-staple-correct-horse", "secret_weak"},
		"words in disguise":       {"P4ssw0rd_S3cr3t_Adm1n_R0ck3tMQ_Sluic3", "secret_weak"},
		"digits":                  {"48151623420112358132134558914429", "secret_weak"},
		"ours":                    {NewSecret(), "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckSecret("secret", c.secret)
			if c.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e, ok := err.(*errs.Error)
			if !ok {
				t.Fatalf("passes, worth %.0f bits", secretBits(c.secret))
			}
			got := e.Reason
			if got == "" {
				got = string(e.Code)
			}
			if got != c.reason || e.Field != "secret" || strings.Contains(e.Message, c.secret) {
				t.Errorf("got %s on %q: %s", got, e.Field, e.Message)
			}
		})
	}
}

func TestCheckSecret_randomOnesPass(t *testing.T) {
	refused := 0
	const tries = 2000
	for range tries {
		b := make([]byte, 24) // 192 bits, so that chance takes none below 128
		_, _ = rand.Read(b)
		for _, s := range []string{hex.EncodeToString(b), base64.StdEncoding.EncodeToString(b)} {
			if CheckSecret("secret", s) != nil {
				refused++
			}
		}
	}
	if refused > 0 {
		t.Errorf("%d of %d random secrets were refused", refused, 2*tries)
	}
}
