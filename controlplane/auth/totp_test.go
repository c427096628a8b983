package auth

import (
	"strings"
	"testing"
	"time"
)

// The vectors of RFC 6238, appendix B, cut to six digits.
func TestTOTP_vectorsOfTheRFC(t *testing.T) {
	secret := []byte("12345678901234567890")
	for unix, want := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		if got := totpAt(secret, unix/30); got != want {
			t.Errorf("%d: got %s, want %s", unix, got, want)
		}
	}
}

func TestTOTP_windowIsOneStepEachWay(t *testing.T) {
	secret, now := newTOTPSecret(), time.Unix(1_800_000_015, 0)
	current := now.Unix() / 30
	for off := int64(-3); off <= 3; off++ {
		step, ok := totpMatch(secret, totpAt(secret, current+off), now)
		if want := off >= -1 && off <= 1; ok != want || ok && step != current+off {
			t.Errorf("%d steps off: %v, step %d", off, ok, step-current)
		}
	}
	for _, bad := range []string{"", "12345", "1234567", "abcdef"} {
		if _, ok := totpMatch(secret, bad, now); ok {
			t.Errorf("%q fits", bad)
		}
	}
}

func TestTOTP_url(t *testing.T) {
	got := totpURL("Sluice", "ada+x@example.com", []byte("12345678901234567890"))
	if !strings.HasPrefix(got, "otpauth://totp/Sluice:ada+x@example.com?") || !strings.Contains(got, "secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ") || !strings.Contains(got, "issuer=Sluice") {
		t.Error(got)
	}
}
