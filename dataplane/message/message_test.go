package message

import (
	"bytes"
	"encoding/hex"
	"errors"
	"maps"
	"math"
	"net/netip"
	"strings"
	"testing"
)

func golden() *Message {
	return &Message{
		Topic: "TopicTest", QueueID: 3, Body: []byte("Hello"),
		Properties:    []byte("KEYS\x01k1\x02TAGS\x01TagA\x02"),
		BornTimestamp: 1700000000000, BornHost: netip.MustParseAddrPort("10.1.2.3:40000"),
		StoreTimestamp: 1700000000123, StoreHost: netip.MustParseAddrPort("10.1.2.4:10911"),
		QueueOffset: 7, PhysicalOffset: 1024,
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const goldenV1 = `0000007b daa320a7 77d18982 00000003 00000000 0000000000000007 0000000000000400 00000000
	0000018bcfe56800 0a01020300009c40 0000018bcfe5687b 0a01020400002a9f 00000000 0000000000000000
	00000005 48656c6c6f 09 546f70696354657374 0012 4b455953016b310254414753015461674102`

func TestAppendRecord_golden(t *testing.T) {
	v6 := golden()
	v6.BornHost = netip.MustParseAddrPort("[2001:db8::1]:40000")
	v6.StoreHost = netip.MustParseAddrPort("[2001:db8::2]:10911")
	for _, tt := range []struct {
		name string
		m    *Message
		want string
	}{
		{"v1", golden(), goldenV1},
		{"ipv6", v6, `00000093 daa320a7 77d18982 00000003 00000000 0000000000000007 0000000000000400 00000030
			0000018bcfe56800 20010db8000000000000000000000001 00009c40 0000018bcfe5687b
			20010db8000000000000000000000002 00002a9f 00000000 0000000000000000
			00000005 48656c6c6f 09 546f70696354657374 0012 4b455953016b310254414753015461674102`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AppendRecord(nil, tt.m)
			if err != nil {
				t.Fatal(err)
			}
			if want := unhex(t, tt.want); !bytes.Equal(got, want) {
				t.Fatalf("got\n%x\nwant\n%x", got, want)
			}
			if n, err := Size(tt.m); n != len(got) || err != nil {
				t.Fatalf("Size = %d, %v; encoded %d", n, err, len(got))
			}
			back, err := Decode(got)
			if err != nil {
				t.Fatal(err)
			}
			again, err := AppendRecord(nil, &back)
			if err != nil || !bytes.Equal(again, got) {
				t.Fatalf("encoded again: %x, %v", again, err)
			}
			if back.BornHost != tt.m.BornHost || back.StoreHost != tt.m.StoreHost {
				t.Fatalf("hosts %v %v", back.BornHost, back.StoreHost)
			}
		})
	}
}

func TestPatch_equalsEncoding(t *testing.T) {
	for _, born := range []string{"10.1.2.3:40000", "[2001:db8::1]:40000"} {
		m := golden()
		m.BornHost = netip.MustParseAddrPort(born)
		want, _ := AppendRecord(nil, m)
		m.QueueOffset, m.PhysicalOffset, m.StoreTimestamp = 0, 0, 0
		got, _ := AppendRecord(nil, m)
		Patch(got, 7, 1024, 1700000000123)
		if !bytes.Equal(got, want) {
			t.Fatalf("%s: got\n%x\nwant\n%x", born, got, want)
		}
	}
}

// rewrite is Rewrite for a record that may be corrupt: then nothing is added.
func rewrite(dst, rec []byte, topic string, props []byte) []byte {
	f, err := Parse(rec)
	if err != nil {
		return dst
	}
	return Rewrite(dst, rec, &f, topic, func(dst []byte) []byte { return append(dst, props...) })
}

func TestVersion2_goldenAndRewrite(t *testing.T) {
	v1 := unhex(t, goldenV1)
	// The golden version 2 record has the short topic; we only ever read that.
	v2 := unhex(t, strings.Replace(strings.Replace(goldenV1, "0000007b daa320a7", "0000007c daa320ab", 1), "6c6f 09 ", "6c6f 0009 ", 1))
	m, err := Decode(v2)
	if err != nil || m.Topic != "TopicTest" {
		t.Fatalf("Decode v2: %q, %v", m.Topic, err)
	}
	if got := rewrite(nil, v2, "TopicTest", m.Properties); !bytes.Equal(got, v1) {
		t.Fatalf("rewrite to v1: %x", got)
	}
	long := "%RETRY%" + strings.Repeat("g", 200)
	m.Topic = long
	want, _ := AppendRecord(nil, &m)
	if got := rewrite([]byte("x"), v1, long, m.Properties); !bytes.Equal(got[1:], want) || got[0] != 'x' {
		t.Fatalf("rewrite to v2: %x", got)
	}
	if _, magic, _ := Head(want); magic != MagicV2 {
		t.Fatalf("magic %x", magic)
	}
	if got := rewrite(nil, v1, "", nil); got != nil {
		t.Fatal("rewrite to no topic")
	}
	if got := rewrite(nil, v1[:50], "T", nil); got != nil {
		t.Fatal("rewrite of half a record")
	}
}

func TestAppendRecord_limits(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Message)
		want error
	}{
		{"no topic", func(m *Message) { m.Topic = "" }, ErrTopic},
		{"topic 255", func(m *Message) { m.Topic = strings.Repeat("t", 255) }, nil},
		{"topic 256", func(m *Message) { m.Topic = strings.Repeat("t", 256) }, ErrTopic},
		{"properties 32767", func(m *Message) { m.Properties = make([]byte, 32767) }, nil},
		{"properties 32768", func(m *Message) { m.Properties = make([]byte, 32768) }, ErrPropertiesTooLarge},
		{"empty body", func(m *Message) { m.Body = nil }, nil},
		{"no hosts", func(m *Message) { m.BornHost, m.StoreHost = netip.AddrPort{}, netip.AddrPort{} }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := golden()
			tt.edit(m)
			rec, err := AppendRecord(nil, m)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			if back, err := Decode(rec); err != nil || back.Topic != m.Topic || !bytes.Equal(back.Body, m.Body) {
				t.Fatalf("back %v", err)
			}
		})
	}
}

// Every header field's corruption is its own failure.
func TestVerify_corruption(t *testing.T) {
	rec := unhex(t, goldenV1)
	for _, tt := range []struct {
		name string
		pos  int
		val  string
	}{
		{"size zero", 0, "00000000"}, {"size negative", 0, "ffffffff"}, {"size short", 0, "0000005a"}, {"size long", 0, "0000007c"},
		{"size less", 0, "0000007a"}, {"magic", 4, "00000000"}, {"blank magic", 4, "cbd43194"}, {"version", 4, "daa320ab"}, {"checksum", 8, "77d18983"},
		{"born host bit", 36, "00000010"}, {"store host bit", 36, "00000020"},
		{"body length", 84, "00000004"}, {"body length negative", 84, "80000000"}, {"body length huge", 84, "7fffffff"},
		{"body", 88, "58"}, {"topic length", 93, "08"}, {"topic length zero", 93, "00"}, {"topic length signed", 93, "89"},
		{"properties length", 103, "0011"}, {"properties length negative", 103, "8012"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := bytes.Clone(rec)
			copy(b[tt.pos:], unhex(t, tt.val))
			if _, err := Verify(b); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("got %v", err)
			}
		})
	}
	for n := range rec {
		if _, err := Parse(rec[:n:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("prefix of %d bytes: %v", n, err)
		}
	}
	if f, err := Verify(append(bytes.Clone(rec), 1, 2, 3)); err != nil || int(f.Size) != len(rec) {
		t.Fatalf("followed by more: %v", err)
	}
}

func TestHashes_golden(t *testing.T) {
	for s, want := range map[string]int64{
		"TagA": 2598919, "TagB": 2598920, "标签": 857175, "😀": 1772899, "": 0,
		"polygenelubricants": math.MinInt32, "TopicTest#k1": 2746024,
	} {
		if got := TagsCode(s); got != want {
			t.Errorf("TagsCode(%q) = %d, want %d", s, got, want)
		}
		if got := TagsCodeOf([]byte("A\x01b\x02TAGS\x01" + s + "\x02")); got != want {
			t.Errorf("TagsCodeOf(%q) = %d, want %d", s, got, want)
		}
	}
	if got := CRC([]byte("Hello")); got != 0x77d18982 {
		t.Errorf("CRC %x", got)
	}
	if got := CRC([]byte("a")); got != 1756872259 {
		t.Errorf("CRC %d", got)
	}
	if CRC(nil) != 0 {
		t.Error("CRC of nothing")
	}
}

func TestProperties_golden(t *testing.T) {
	props := []byte("A\x01b\x02C\x01\x02\x01d\x02E\x01f\x02X\x01y")
	want := map[string]string{"A": "b", "E": "f", "X": "y"}
	if got := ParseProperties(props); !maps.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	for k, v := range want {
		if got, ok := GetProperty(props, k); !ok || got != v {
			t.Errorf("%s: %q %v", k, got, ok)
		}
	}
	for _, k := range []string{"C", "", "D", "b"} {
		if v, ok := GetProperty(props, k); ok {
			t.Errorf("%q = %q", k, v)
		}
	}
	if got := AppendProperty([]byte("X\x01y"), "Z", "1"); string(got) != "X\x01y\x02Z\x011\x02" {
		t.Errorf("appended %q", got)
	}
	if got := AppendProperties(nil, want); string(got) != "A\x01b\x02E\x01f\x02X\x01y\x02" {
		t.Errorf("encoded %q", got)
	}
	if got := AppendPropertiesWithout(nil, props, "E", "A"); string(got) != "X\x01y\x02" {
		t.Errorf("without %q", got)
	}
	if got, _ := GetProperty([]byte("A\x011\x02A\x012"), "A"); got != "2" {
		t.Errorf("last of two: %q", got)
	}
	if got, _ := GetProperty([]byte("A\x011\x012"), "A"); got != "1\x012" {
		t.Errorf("separator in value: %q", got)
	}
}

func TestOffsetID_golden(t *testing.T) {
	for id, host := range map[string]string{
		"0A01020400002A9F0000000000000400":                         "10.1.2.4:10911",
		"20010DB800000000000000000000000200002A9F0000000000000400": "[2001:db8::2]:10911",
	} {
		a := netip.MustParseAddrPort(host)
		if got := OffsetID(a, 1024); got != id {
			t.Errorf("got %s, want %s", got, id)
		}
		back, off, err := ParseOffsetID(strings.ToLower(id))
		if err != nil || back != a || off != 1024 {
			t.Errorf("back %v %d %v", back, off, err)
		}
	}
	for _, bad := range []string{"", "0A", strings.Repeat("Z", 32), strings.Repeat("F", 32), strings.Repeat("0", 57)} {
		if _, _, err := ParseOffsetID(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestDecodeBatch(t *testing.T) {
	want := []BatchEntry{
		{Flag: 1, Body: []byte("one"), Properties: []byte("TAGS\x01A\x02")},
		{Body: nil, Properties: nil}, // an empty body is a message
		{Flag: -1, Body: []byte("three")},
	}
	var body []byte
	var err error
	for _, e := range want {
		if body, err = AppendBatchEntry(body, e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := DecodeBatch(body)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d entries, %v", len(got), err)
	}
	for i, e := range want {
		if g := got[i]; g.Flag != e.Flag || !bytes.Equal(g.Body, e.Body) || !bytes.Equal(g.Properties, e.Properties) {
			t.Errorf("entry %d: %+v", i, g)
		}
	}
	for n := range body {
		if n == 3+22+7 || n == 3+22+7+22 {
			continue // a whole number of entries
		}
		if _, err := DecodeBatch(body[:n:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("prefix of %d bytes: %v", n, err)
		}
	}
}

func TestAppendRecord_allocations(t *testing.T) {
	m := golden()
	buf := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { buf, _ = AppendRecord(buf[:0], m) }); n != 0 {
		t.Errorf("AppendRecord allocates %v times", n)
	}
	var sink int64
	if n := testing.AllocsPerRun(100, func() {
		f, _ := Verify(buf)
		sink += TagsCodeOf(f.Properties)
	}); n != 0 {
		t.Errorf("Verify and TagsCodeOf allocate %v times", n)
	}
	out := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { out = rewrite(out[:0], buf, "T", m.Properties) }); n != 0 {
		t.Errorf("Rewrite allocates %v times", n)
	}
}
