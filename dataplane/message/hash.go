package message

import (
	"bytes"
	"iter"
	"math"
	"unicode/utf8"
)

// StringHash is the Java hash of s: h = 31*h + c over the UTF-16 code units,
// in wrapping 32 bit arithmetic. Invalid UTF-8 counts as U+FFFD per byte.
func StringHash(s string) int32 {
	var h int32
	for _, r := range s {
		h = hashRune(h, r)
	}
	return h
}

// hashBytes is StringHash of the same text held as bytes, going on from h: 0
// at the start of a text.
func hashBytes(h int32, b []byte) int32 {
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
	return int64(hashBytes(0, tags))
}

// KeyHash is what the key index holds for a key of a topic: the absolute Java
// hash of `topic#key`, 0 for the one value that has none.
func KeyHash(topic, key []byte) int32 {
	return positive(hashBytes(hashRune(hashBytes(0, topic), '#'), key))
}

// tagKeyPrefix makes a key of a TAGS text.
const tagKeyPrefix = "T#"

// TagHash is KeyHash for the TAGS text of a message, which RocketMQ 5.5 indexes
// whole, behind a prefix.
func TagHash(topic, tags []byte) int32 {
	h := hashRune(hashBytes(0, topic), '#')
	for _, r := range tagKeyPrefix {
		h = hashRune(h, r)
	}
	return positive(hashBytes(h, tags))
}

func positive(h int32) int32 {
	switch {
	case h == math.MinInt32:
		return 0
	case h < 0:
		return -h
	}
	return h
}

// Words walks over the keys that an encoded property text has in KEYS: what is
// between blanks.
func Words(props []byte) iter.Seq[[]byte] {
	keys, _ := FindProperty(props, KeyKeys)
	return func(yield func([]byte) bool) {
		for word := range bytes.SplitSeq(keys, []byte{' '}) {
			if len(word) > 0 && !yield(word) {
				return
			}
		}
	}
}
