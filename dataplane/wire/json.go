package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// scanner reads the JSON that clients send: strict JSON plus what fastjson
// writes, bare words as object keys. The first mistake poisons it.
type scanner struct {
	s   string
	i   int
	err error
	// arena, if set, is where unescaped text goes; the strings made from it are
	// valid as long as nobody writes to it again.
	arena *[]byte
}

func (p *scanner) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: JSON at byte %d: %s", ErrMalformed, p.i, fmt.Sprintf(format, args...))
	}
	p.i = len(p.s)
}

// peek skips white space and returns the next byte, 0 at the end.
func (p *scanner) peek() byte {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; c {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return c
		}
	}
	return 0
}

func (p *scanner) expect(c byte) bool {
	if p.peek() != c {
		p.fail("want %q", c)
		return false
	}
	p.i++
	return true
}

// more steps over the separator in a list closed by end. It reports whether
// another element follows; first says that none was read yet.
func (p *scanner) more(end byte, first bool) bool {
	if p.err != nil {
		return false
	}
	switch c := p.peek(); {
	case c == end:
		p.i++
		return false
	case first:
		return true
	case c == ',':
		p.i++
		return true
	default:
		p.fail("want ',' or %q", end)
		return false
	}
}

// text reads a quoted string. Without escapes it is a part of the input.
func (p *scanner) text() string {
	if !p.expect('"') {
		return ""
	}
	start := p.i
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case '"':
			out := p.s[start:p.i]
			p.i++
			return out
		case '\\':
			return p.escaped(start)
		}
		p.i++
	}
	p.fail("string without end")
	return ""
}

func (p *scanner) escaped(start int) string {
	var own []byte
	b := &own
	if p.arena != nil {
		b = p.arena
	} else {
		own = make([]byte, 0, p.i-start+16)
	}
	from := len(*b)
	*b = append(*b, p.s[start:p.i]...)
	for p.i < len(p.s) {
		c := p.s[p.i]
		p.i++
		switch {
		case c == '"':
			out := (*b)[from:]
			return unsafe.String(unsafe.SliceData(out), len(out))
		case c != '\\':
			*b = append(*b, c)
			continue
		case p.i == len(p.s):
			p.fail("string without end")
			return ""
		}
		c = p.s[p.i]
		p.i++
		switch c {
		case '"', '\\', '/', '\'':
			*b = append(*b, c)
		case 'b':
			*b = append(*b, '\b')
		case 'f':
			*b = append(*b, '\f')
		case 'n':
			*b = append(*b, '\n')
		case 'r':
			*b = append(*b, '\r')
		case 't':
			*b = append(*b, '\t')
		case 'u':
			r := p.hex4()
			if utf16.IsSurrogate(r) {
				second := rune(-1)
				if strings.HasPrefix(p.s[p.i:], `\u`) {
					p.i += 2
					second = p.hex4()
				}
				r = utf16.DecodeRune(r, second)
			}
			*b = utf8.AppendRune(*b, r)
		default:
			p.fail("escape \\%c", c)
		}
		if p.err != nil {
			return ""
		}
	}
	p.fail("string without end")
	return ""
}

func (p *scanner) hex4() rune {
	if len(p.s)-p.i < 4 {
		p.fail("short \\u escape")
		return 0
	}
	var r rune
	for _, c := range []byte(p.s[p.i : p.i+4]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			p.fail("bad \\u escape")
			return 0
		}
		r = r<<4 | rune(c)
	}
	p.i += 4
	return r
}

// word reads a run of characters that can stand unquoted: a number, true,
// false, null or a bare key.
func (p *scanner) word() string {
	p.peek()
	start := p.i
	for p.i < len(p.s) {
		c := p.s[p.i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			c == '-' || c == '+' || c == '.' || c == '_' || c == '$' {
			p.i++
			continue
		}
		break
	}
	if start == p.i {
		p.fail("want a value")
	}
	return p.s[start:p.i]
}

func (p *scanner) key() string {
	if p.peek() == '"' {
		return p.text()
	}
	return p.word()
}

// scalar reads a string, number, boolean or null as text; ok is false for
// null.
func (p *scanner) scalar() (value string, ok bool) {
	switch p.peek() {
	case '"':
		return p.text(), true
	case '{', '[':
		p.fail("want a text, found an object or list")
		return "", false
	}
	w := p.word()
	if w == "null" {
		return "", false
	}
	if !isLiteral(w) {
		p.fail("bare word %.20q", w)
	}
	return w, true
}

// integer reads a number, also one in quotes, that fits in 32 bits.
func (p *scanner) integer(key string) int32 {
	w, ok := p.scalar()
	if !ok || p.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(w, 10, 64)
	if err != nil || n > math.MaxInt32 || n < math.MinInt32 {
		p.fail("%s is not a 32-bit integer", key)
		return 0
	}
	return int32(n)
}

// skip passes over any value.
func (p *scanner) skip(depth int) {
	if depth > MaxDepth {
		p.fail("nested deeper than %d", MaxDepth)
		return
	}
	switch p.peek() {
	case '{':
		p.i++
		for first := true; p.more('}', first); first = false {
			p.key()
			if p.expect(':') {
				p.skip(depth + 1)
			}
		}
	case '[':
		p.i++
		for first := true; p.more(']', first); first = false {
			p.skip(depth + 1)
		}
	default:
		p.scalar()
	}
}

func isLiteral(w string) bool {
	if w == "true" || w == "false" || w == "null" {
		return true
	}
	i := 0
	if i < len(w) && w[i] == '-' {
		i++
	}
	if i >= len(w) || w[i] < '0' || w[i] > '9' {
		return false
	}
	_, err := strconv.ParseFloat(w, 64)
	return err == nil || strings.ContainsAny(w, "eE") // out of range is still a number
}

// decodeJSONHeader reads the header object. Unknown keys are ignored, numbers
// may come as strings, and field values as any scalar.
func decodeJSONHeader(f *Frame, s string, arena *[]byte) error {
	p := scanner{s: s, arena: arena}
	if p.expect('{') {
		for first := true; p.more('}', first); first = false {
			key := p.key()
			if !p.expect(':') {
				break
			}
			decodeJSONMember(&p, f, key)
		}
	}
	if p.err == nil && p.peek() != 0 {
		p.fail("bytes after the header")
	}
	return p.err
}

func decodeJSONMember(p *scanner, f *Frame, key string) {
	switch key {
	case "code":
		f.Code = p.integer(key)
	case "version":
		f.Version = p.integer(key)
	case "opaque":
		f.Opaque = p.integer(key)
	case "flag":
		f.Flag = p.integer(key)
	case "remark":
		f.Remark, _ = p.scalar()
	case "language":
		if c := p.peek(); c >= '0' && c <= '9' {
			n := p.integer(key)
			if n >= int32(len(languageNames)) {
				p.fail("language number %d", n)
			}
			f.Language = Language(n)
			return
		}
		if name, ok := p.scalar(); ok {
			f.Language = languageOf(name)
		}
	case "extFields":
		decodeJSONFields(p, f)
	default:
		p.skip(1)
	}
}

func decodeJSONFields(p *scanner, f *Frame) {
	if p.peek() != '{' {
		if _, ok := p.scalar(); ok {
			p.fail("extFields is not an object")
		}
		return
	}
	p.i++
	if f.Ext = f.Ext[:0]; f.Ext == nil {
		f.Ext = make(Fields, 0, 16)
	}
	for first := true; p.more('}', first); first = false {
		key := p.key()
		if !p.expect(':') {
			return
		}
		value, ok := p.scalar()
		if !ok {
			continue
		}
		if len(f.Ext) == MaxFields {
			p.fail("over %d fields", MaxFields)
			return
		}
		f.Ext = append(f.Ext, Field{key, value})
	}
}

// appendJSONHeader writes keys in alphabetical order and without white space,
// as the reference does. Every field value is a string.
func appendJSONHeader(dst []byte, f *Frame) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(f.Code), 10)
	if len(f.Ext) > 0 {
		dst = append(dst, `,"extFields":{`...)
		for i, e := range f.Ext {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendQuoted(dst, e.Key)
			dst = append(dst, ':')
			dst = appendQuoted(dst, e.Value)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"flag":`...)
	dst = strconv.AppendInt(dst, int64(f.Flag), 10)
	dst = append(dst, `,"language":"`...)
	dst = append(dst, f.Language.String()...)
	dst = append(dst, `","opaque":`...)
	dst = strconv.AppendInt(dst, int64(f.Opaque), 10)
	if f.Remark != "" {
		dst = append(dst, `,"remark":`...)
		dst = appendQuoted(dst, f.Remark)
	}
	dst = append(dst, `,"serializeTypeCurrentRPC":"JSON","version":`...)
	dst = strconv.AppendInt(dst, int64(f.Version), 10)
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, as a header is text.
func appendQuoted(dst []byte, s string) []byte {
	if plain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// plain reports whether s is ASCII that a JSON string holds as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
