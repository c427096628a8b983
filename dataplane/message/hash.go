package message

import "unicode/utf8"

// StringHash is the Java hash of s: h = 31*h + c over the UTF-16 code units,
// in wrapping 32 bit arithmetic. Invalid UTF-8 counts as U+FFFD per byte.
func StringHash(s string) int32 {
	var h int32
	for _, r := range s {
		h = hashRune(h, r)
	}
	return h
}

// hashBytes is StringHash of the same text held as bytes.
func hashBytes(b []byte) int32 {
	var h int32
	for len(b) > 0 {
		if c := b[0]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			b = b[1:]
			continue
		}
		r, n := utf8.DecodeRune(b)
		h = hashRune(h, r)
		b = b[n:]
	}
	return h
}

func hashRune(h int32, r rune) int32 {
	if r < 0x10000 {
		return 31*h + r
	}
	r -= 0x10000
	h = 31*h + (0xD800 + r>>10)
	return 31*h + (0xDC00 + r&0x3FF)
}

// TagsCode is what a consume queue holds for a TAGS text: its Java hash, sign
// extended; 0 for none. The text is not split.
func TagsCode(tags string) int64 { return int64(StringHash(tags)) }

// TagsCodeOf is TagsCode of the TAGS entry of an encoded property text.
func TagsCodeOf(props []byte) int64 {
	tags, _ := FindProperty(props, KeyTags)
	return int64(hashBytes(tags))
}
