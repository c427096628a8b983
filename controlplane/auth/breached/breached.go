// Package breached knows passwords that everybody tries first: a built-in list
// of the most common ones of public breaches, see README.md, and forms that
// need no list. It does no I/O and may be used by any number of goroutines.
package breached

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // a short name for an entry of a public list, no protection
	_ "embed"
	"sort"
	"strings"
	"unicode"
)

// list holds the first prefixBytes of the SHA-1 of each lower-case password,
// ascending, without separators. With 120,000 entries of 40 bits a password
// that is not on it is taken for one that is once in 9 million.
//
//go:embed list.bin
var list []byte

const (
	prefixBytes = 5
	minStem     = 5
	fewRunes    = 3
)

// Listed reports whether a password is on the list, whatever its case.
func Listed(password string) bool {
	sum := sha1.Sum([]byte(strings.ToLower(password))) //nolint:gosec // see the import
	want := sum[:prefixBytes]
	at := func(i int) []byte { return list[i*prefixBytes : (i+1)*prefixBytes] }
	n := len(list) / prefixBytes
	i := sort.Search(n, func(i int) bool { return bytes.Compare(at(i), want) >= 0 })
	return i < n && bytes.Equal(at(i), want)
}

// Weak reports whether a password is among those that are tried first: it is
// listed, or it is a listed one with digits and signs at its end, something
// listed or short repeated, a row of neighbours (`abcdefghij`), or made of no
// more than three different characters.
func Weak(password string) bool {
	if Listed(password) {
		return true
	}
	stem := strings.TrimRightFunc(password, func(r rune) bool { return !unicode.IsLetter(r) })
	if len(stem) >= minStem && Listed(stem) {
		return true
	}
	runes := []rune(strings.ToLower(password))
	return few(runes) || row(runes) || repeated(runes)
}

func few(runes []rune) bool {
	seen := map[rune]bool{}
	for _, r := range runes {
		seen[r] = true
	}
	return len(seen) <= fewRunes
}

func row(runes []rune) bool {
	if len(runes) < 2 {
		return true
	}
	step := runes[1] - runes[0]
	if step < -1 || step > 1 {
		return false
	}
	for i := 2; i < len(runes); i++ {
		if runes[i]-runes[i-1] != step {
			return false
		}
	}
	return true
}

// shortUnit is what may not be repeated to fill a password, listed or not.
const shortUnit = 6

func repeated(runes []rune) bool {
	for n := 1; n <= len(runes)/2; n++ {
		if len(runes)%n != 0 {
			continue
		}
		unit := string(runes[:n])
		if strings.Repeat(unit, len(runes)/n) == string(runes) {
			return n <= shortUnit || Listed(unit)
		}
	}
	return false
}
