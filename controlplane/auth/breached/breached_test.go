package breached

import (
	"bytes"
	"fmt"
	"testing"
)

func TestList_isSortedAndWhole(t *testing.T) {
	n := len(list) / prefixBytes
	if len(list)%prefixBytes != 0 || n < 100_000 {
		t.Fatalf("%d bytes", len(list))
	}
	for i := 1; i < n; i++ {
		if bytes.Compare(list[(i-1)*prefixBytes:i*prefixBytes], list[i*prefixBytes:(i+1)*prefixBytes]) >= 0 {
			t.Fatalf("entry %d is not above the one before", i)
		}
	}
}

func TestWeak(t *testing.T) {
	for password, want := range map[string]bool{
		"qwertyuiop": true, "1q2w3e4r5t": true, "Basketball": true, "password123": true, "1qaz2wsx3edc": true,
		"Password2026!": true, "sunshine....": true, "PASSWORD!!": true,
		"passwordpassword": true, "xk9xk9xk9xk9": true, "aaaaaaaaaaaa": true, "ababababab1": true, "abcdefghijkl": true, "zyxwvutsrqp": true, "23456789:;": true,
		"correct horse battery": false, "a new long password": false, "vermilion tide under glass": false, "Tq7#fK2!zPwe": false, "长城外古道边芳草碧连天": false,
		"horsebatteryhorsebattery": false,
	} {
		if got := Weak(password); got != want {
			t.Errorf("%s: got %v, want %v", password, got, want)
		}
	}
}

// A false alarm needs 40 equal bits: among 200,000 made-up passwords there is none.
func TestListed_raisesNoFalseAlarm(t *testing.T) {
	for i := range 200_000 {
		if p := fmt.Sprintf("made up %d and long enough", i); Listed(p) {
			t.Errorf("%q is on the list", p)
		}
	}
}
