package message

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func FuzzDecode(f *testing.F) {
	rec, _ := hex.DecodeString(strings.Join(strings.Fields(goldenV1), ""))
	f.Add(rec, "T", []byte("A\x01b\x02"))
	f.Add(rec[:90], strings.Repeat("t", 200), []byte{})
	f.Fuzz(func(t *testing.T, rec []byte, topic string, props []byte) {
		before := bytes.Clone(rec)
		m, err := Decode(rec)
		if out := rewrite(nil, rec, topic, props); (len(out) > 0) != (err == nil && topic != "" && len(topic) <= MaxTopicBytes && len(props) <= MaxPropertiesBytes) {
			t.Fatalf("Rewrite gave %d bytes, Decode %v", len(out), err)
		} else if len(out) > 0 {
			back, err := Decode(out)
			if err != nil || back.Topic != topic || !bytes.Equal(back.Properties, props) || !bytes.Equal(back.Body, m.Body) || back.BodyCRC != m.BodyCRC || back.SysFlag != m.SysFlag {
				t.Fatalf("rewritten record: %+v, %v", back, err)
			}
		}
		if err == nil && m.BornHost.Addr().Is4In6() == false && m.StoreHost.Addr().Is4In6() == false {
			again, err := AppendRecord(nil, &m)
			if err != nil {
				t.Fatalf("cannot encode what was decoded: %v", err)
			}
			back, err := Decode(again)
			if err != nil || back.Topic != m.Topic || !bytes.Equal(back.Body, m.Body) || back.SysFlag != m.SysFlag {
				t.Fatalf("second round: %+v, %v", back, err)
			}
		}
		if !bytes.Equal(before, rec) {
			t.Fatal("input was changed")
		}
	})
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte("A\x01b\x02C\x01\x02\x01d\x02E\x01f\x02X\x01y"), "A")
	f.Add([]byte("\x02\x02\x01\x01"), "")
	f.Fuzz(func(t *testing.T, props []byte, key string) {
		m := ParseProperties(props)
		got, ok := GetProperty(props, key)
		if want, in := m[key]; ok != in || got != want {
			t.Fatalf("GetProperty %q %v, map %q %v", got, ok, want, in)
		}
		again := ParseProperties(AppendProperties(nil, m))
		if len(again) != len(m) {
			t.Fatalf("%v became %v", m, again)
		}
		if out := ParseProperties(AppendPropertiesWithout(nil, props, key)); key != "" && len(out) != len(m)-btoi(ok) {
			t.Fatalf("without %q: %v of %v", key, out, m)
		}
		if TagsCodeOf(props) != TagsCode(m[KeyTags]) {
			t.Fatal("two hashes for one text")
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func FuzzDecodeBatch(f *testing.F) {
	body, _ := AppendBatchEntry(nil, BatchEntry{Flag: 1, Body: []byte("b"), Properties: []byte("A\x01b")})
	f.Add(body)
	f.Add(append(body, body...))
	f.Fuzz(func(t *testing.T, body []byte) {
		entries, err := DecodeBatch(body)
		if err != nil {
			return
		}
		n := 0
		for _, e := range entries {
			n += batchEntryBytes + len(e.Body) + len(e.Properties)
		}
		if n != len(body) {
			t.Fatalf("entries cover %d of %d bytes", n, len(body))
		}
	})
}

func FuzzParseOffsetID(f *testing.F) {
	f.Add("0A01020400002A9F0000000000000400")
	f.Fuzz(func(t *testing.T, id string) {
		host, off, err := ParseOffsetID(id)
		if err == nil && !host.Addr().Is4In6() && OffsetID(host, off) != strings.ToUpper(id) {
			t.Fatalf("%s became %s", id, OffsetID(host, off))
		}
	})
}

// FindProperty says the same as a walk over all properties.
func FuzzFindProperty(f *testing.F) {
	f.Add([]byte("A\x01b\x02C\x01\x02\x01d\x02E\x01f\x02X\x01y"), "E")
	f.Add([]byte("KEYS\x01KEYS\x01a\x02KEYS\x01b\x02"), "KEYS")
	f.Add([]byte("AAA\x01x\x02AA\x01y"), "AA")
	f.Fuzz(func(t *testing.T, props []byte, key string) {
		if key == "" || strings.ContainsAny(key, "\x01\x02") {
			return
		}
		var want []byte
		found := false
		for k, v := range Properties(props) {
			if string(k) == key {
				want, found = v, true
			}
		}
		got, ok := FindProperty(props, key)
		if ok != found || !bytes.Equal(got, want) {
			t.Fatalf("%q in %q is %q, %v; a walk gives %q, %v", key, props, got, ok, want, found)
		}
	})
}
