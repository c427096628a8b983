package errs

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClip_cutsBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 5, ""},
		{"hello", 5, "hello"},
		{"hello!", 5, "hello…"},
		{"привет", 5, "пр…"},
		{"привет", 6, "при…"},
		{"a😀b", 4, "a…"},
		{"a😀b", 5, "a😀…"},
		{"😀", 2, "…"},
		{strings.Repeat("\x80", 10), 8, strings.Repeat("\x80", 4) + "…"}, // no text at all: still bounded
	} {
		got := Clip(c.text, c.limit)
		if got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
		if utf8.ValidString(c.text) && !utf8.ValidString(got) {
			t.Errorf("Clip(%q, %d) = %q cuts a character", c.text, c.limit, got)
		}
	}
}
