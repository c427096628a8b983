package message

import (
	"bytes"
	"strings"
	"testing"
)

// Statement 2: a topic of up to 127 bytes makes a version 1 record, a longer
// one a version 2 record, which is one byte longer for the length.
func TestAppendRecord_versionByLengthOfTopic(t *testing.T) {
	for _, tt := range []struct {
		topic, overhead int
		magic           uint32
	}{{1, 91, 0xDAA320A7}, {127, 91, 0xDAA320A7}, {128, 92, 0xDAA320AB}, {255, 92, 0xDAA320AB}} {
		m := golden()
		m.Topic = strings.Repeat("t", tt.topic)
		rec, err := AppendRecord(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if want := tt.overhead + len(m.Body) + tt.topic + len(m.Properties); len(rec) != want {
			t.Errorf("topic of %d bytes: record of %d, want %d", tt.topic, len(rec), want)
		}
		if _, magic, _ := Head(rec); uint32(magic) != tt.magic {
			t.Errorf("topic of %d bytes: magic %x, want %x", tt.topic, magic, tt.magic)
		}
	}
}

// Statement 5: every checksum leaves the top bit out.
func TestCRC_topBitIsClear(t *testing.T) {
	for i := range 1000 {
		if c := CRC(bytes.Repeat([]byte{byte(i)}, i)); c>>31 != 0 {
			t.Errorf("CRC of %d bytes: %x", i, c)
		}
	}
}

// Statement 11: the property checksum that RocketMQ can be told to write is in
// the properties like any other, for who reads them.
func TestProperties_checksumOfOthers(t *testing.T) {
	props := []byte("KEYS\x01k1\x02TAGS\x01TagA\x02__CRC32#\x017476117281\x02")
	if v, ok := GetProperty(props, KeyCRC32); !ok || v != "7476117281" {
		t.Errorf("checksum %q %v", v, ok)
	}
	m := golden()
	m.Properties = props
	rec, err := AppendRecord(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(rec); err != nil || len(rec) != 143 || !bytes.HasSuffix(rec, []byte("__CRC32#\x017476117281\x02")) {
		t.Errorf("record of %d bytes, %v: %q", len(rec), err, rec)
	}
}

// Statement 34: a key is hashed behind its topic, without a sign.
func TestKeyHash_golden(t *testing.T) {
	if got := KeyHash([]byte("TopicTest"), []byte("k1")); got != 2746024 {
		t.Errorf("TopicTest#k1: %d", got)
	}
	if h := StringHash("polygenelubricants"); h != -1<<31 || positive(h) != 0 {
		t.Errorf("the hash without an absolute value: %d, %d", h, positive(h))
	}
	if got := positive(-5); got != 5 {
		t.Errorf("-5: %d", got)
	}
}
