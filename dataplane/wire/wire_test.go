package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func frameOf(serialize byte, header, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(serialize)<<24|uint32(len(header)))
	return append(append(b, header...), body...)
}

// B001: lengths that lie are refused before anything is allocated.
func TestParsePrefix_refusesLyingLengths(t *testing.T) {
	for _, c := range []struct {
		name        string
		total, word uint32
		want        error
	}{
		{"huge", 0x7FFFFFFF, 0, ErrTooLarge},
		{"minus one", 0xFFFFFFFF, 0, ErrMalformed},
		{"zero", 0, 0, ErrMalformed},
		{"three", 3, 0, ErrMalformed},
		{"header longer than frame", 64, 0x00FFFFFF, ErrMalformed},
		{"header over its limit", MaxFrame, MaxHeader + 1, ErrTooLarge},
		{"unknown serialize type", 64, 9<<24 | 10, ErrMalformed},
	} {
		b := binary.BigEndian.AppendUint32(nil, c.total)
		b = binary.BigEndian.AppendUint32(b, c.word)
		if _, err := ParsePrefix(b, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := ParsePrefix([]byte{0, 0, 0}, 0); !errors.Is(err, ErrMalformed) {
		t.Errorf("short prefix: %v", err)
	}
}

// B002: malformed headers are errors, never a panic.
func TestDecode_refusesMalformedHeaders(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	for name, frame := range map[string][]byte{
		"no header":             frameOf(0, "", ""),
		"two bytes":             frameOf(0, "{}"[:1]+" ", ""),
		"null":                  frameOf(0, "null", ""),
		"list":                  frameOf(0, "[]", ""),
		"string":                frameOf(0, `"x"`, ""),
		"200 levels":            frameOf(0, `{"x":`+nested+`}`, ""),
		"opaque as text":        frameOf(0, `{"code":10,"opaque":"abc"}`, ""),
		"code as 1e99":          frameOf(0, `{"code":1e99,"opaque":1}`, ""),
		"extFields as list":     frameOf(0, `{"code":10,"opaque":1,"extFields":[1]}`, ""),
		"field as object":       frameOf(0, `{"code":10,"opaque":1,"extFields":{"a":{}}}`, ""),
		"language number":       frameOf(0, `{"code":10,"language":300}`, ""),
		"unfinished string":     frameOf(0, `{"code":10,"remark":"abc`, ""),
		"bad escape":            frameOf(0, `{"remark":"\q"}`, ""),
		"short unicode escape":  frameOf(0, `{"remark":"\u12"}`, ""),
		"trailing bytes":        frameOf(0, `{"code":10}x`, ""),
		"missing comma":         frameOf(0, `{"code":10 "flag":1}`, ""),
		"compact two bytes":     frameOf(1, "ab", ""),
		"compact remark length": frameOf(1, "\x00\x0a\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff", ""),
		"compact block length":  frameOf(1, "\x00\x0a\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", ""),
		"compact value length":  frameOf(1, "\x00\x0a\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x01a\x7f\xff\xff\xff", ""),
		"compact rest":          frameOf(1, "\x00\x0a\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00x", ""),
	} {
		if f, err := Decode(frame); err == nil {
			t.Errorf("%s: decoded as %+v", name, f)
		} else if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: error without class: %v", name, err)
		}
	}
}

func TestDecode_tolerantHeaders(t *testing.T) {
	f, err := Decode(frameOf(0, ` { "code":"10" , unknown : [1,{"a":null}], "language":"KLINGON","opaque":7,
		"extFields":{"n":5,"b":true,"z":null,"s":"a\u00e9\ud83d\ude00\u0001\/"},"remark":null}`, "body"))
	if err != nil {
		t.Fatal(err)
	}
	want := Fields{{"n", "5"}, {"b", "true"}, {"s", "aé😀\x01/"}}
	if f.Code != 10 || f.Opaque != 7 || f.Language != LanguageUnknown || !reflect.DeepEqual(f.Ext, want) || string(f.Body) != "body" {
		t.Errorf("got %+v", f)
	}
}

func TestFrame_roundTripsInBothEncodings(t *testing.T) {
	for _, s := range []Serialize{SerializeJSON, SerializeCompact} {
		want := &Frame{
			Code: 310, Language: LanguageGo, Version: 317, Opaque: -5, Flag: 2, Remark: "a \"b\" \\ \n é",
			Ext: Fields{{"a", "g"}, {"i", "TAGS\x01a\x02KEYS\x01k\x02"}}, Body: []byte{0, 1, 2}, Serialize: s,
		}
		b, err := AppendFrame([]byte("x"), want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b[1:])
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("serialize %d: got %+v, want %+v", s, got, want)
		}
	}
}

func TestDecode_restoresTruncatedPopCodes(t *testing.T) {
	for _, code := range []int32{PopMessage, AckMessage, PeekMessage, ChangeMessageInvisibleTime, Notification,
		PollingInfo, PopRollback, BatchAckMessage, ApplyPolicy} {
		b, err := AppendFrame(nil, &Frame{Code: code, Serialize: SerializeCompact})
		if err != nil {
			t.Fatal(err)
		}
		f, err := Decode(b)
		if err != nil || f.Code != code {
			t.Errorf("code %d came back as %v, %v", code, f, err)
		}
	}
}

func TestAppendFrame_limits(t *testing.T) {
	if _, err := AppendFrame(nil, &Frame{Body: make([]byte, MaxFrame)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("body: %v", err)
	}
	out, err := AppendFrame([]byte("kept"), &Frame{Remark: strings.Repeat("x", MaxHeader+1)})
	if !errors.Is(err, ErrTooLarge) || string(out) != "kept" {
		t.Errorf("header: %v, %q", err, out)
	}
}

// B008: a missing or wrong field is named, in the form that was sent.
func TestParseHeaders_nameTheField(t *testing.T) {
	full := SendHeader{ProducerGroup: "p", Topic: "t", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, MaxReconsumeTimes: -1}
	for _, code := range []int32{SendMessage, SendMessageV2, SendBatchMessage} {
		fields := full.Fields(code)
		if got, err := ParseSendHeader(&Frame{Code: code, Ext: fields}); err != nil || got != full {
			t.Fatalf("code %d: %+v, %v", code, got, err)
		}
		for i := range 8 {
			without := append(append(Fields{}, fields[:i]...), fields[i+1:]...)
			_, err := ParseSendHeader(&Frame{Code: code, Ext: without})
			var fe *FieldError
			if !errors.As(err, &fe) || fe.Field != fields[i].Key {
				t.Errorf("code %d without %q: %v", code, fields[i].Key, err)
			}
		}
	}
	pull := PullHeader{ConsumerGroup: "g", Topic: "t", Subscription: "*", ExpressionType: "TAG"}
	fields := pull.Fields()
	if got, err := ParsePullHeader(&Frame{Ext: fields}); err != nil || got != pull {
		t.Fatalf("pull: %+v, %v", got, err)
	}
	for i, field := range fields {
		if field.Key == "subscription" || field.Key == "expressionType" {
			continue
		}
		without := append(append(Fields{}, fields[:i]...), fields[i+1:]...)
		_, err := ParsePullHeader(&Frame{Ext: without})
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != field.Key {
			t.Errorf("pull without %q: %v", field.Key, err)
		}
	}
	r := ReadFields(Fields{{"n", "x"}, {"b", "maybe"}})
	if r.Int64("n"); r.Err() == nil || !strings.Contains(r.Err().Error(), `"n"`) {
		t.Errorf("bad number: %v", r.Err())
	}
}

func TestNormalize_tolerantBodies(t *testing.T) {
	for in, want := range map[string]string{
		`{0:"a",1:"b"}`:              `{"0":"a","1":"b"}`,
		`{ "a" : [1, 2.5e3,null ] }`: `{"a":[1,2.5e3,null]}`,
		`{"offsetTable":{{"brokerName":"b","queueId":0}:5}}`: `{"offsetTable":{"{\"brokerName\":\"b\",\"queueId\":0}":5}}`,
	} {
		got, err := Normalize([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "{", `{"a"}`, `{a:b}`, `[1`, `{{{"a":1}:2}:3}`, strings.Repeat("[", 100000), `{"a":1}}`, "01x"} {
		if got, err := Normalize([]byte(in)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.30s: got %s, %v", in, got, err)
		}
	}
}

func TestInt_readsStrings(t *testing.T) {
	var s Subscription
	if err := Unmarshal([]byte(`{"topic":"t","codeSet":["97"],"subVersion":"17000000000000000"}`), &s); err != nil || s.SubVersion != 17000000000000000 {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := Unmarshal([]byte(`{"subVersion":"x"}`), &s); !errors.Is(err, ErrMalformed) {
		t.Errorf("bad number: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	golden(f, func(_ string, frame []byte, _ goldenFrame) { f.Add(frame) })
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := Decode(b)
		if err != nil {
			return
		}
		again, err := AppendFrame(nil, frame)
		if errors.Is(err, ErrTooLarge) {
			return
		}
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("decode what was encoded: %v", err)
		}
		if back.Opaque != frame.Opaque || !bytes.Equal(back.Body, frame.Body) {
			t.Fatalf("got %+v, want %+v", back, frame)
		}
	})
}

func FuzzNormalize(f *testing.F) {
	f.Add([]byte(`{0:"a",{"b":1}:[null,true,"\ud83d"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := Normalize(b)
		if err != nil {
			return
		}
		again, err := Normalize(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("not stable: %q -> %q, %v", out, again, err)
		}
	})
}

func BenchmarkDecodeSend(b *testing.B) {
	h := SendHeader{ProducerGroup: "p", Topic: "t", DefaultTopic: "TBW102", Properties: "UNIQ_KEY\x01AC1E0A2B00011F\x02TAGS\x01a\x02"}
	frame, _ := AppendFrame(nil, &Frame{Code: SendMessageV2, Ext: h.Fields(SendMessageV2), Body: make([]byte, 1024)})
	b.ReportAllocs()
	for b.Loop() {
		f, err := Decode(frame)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := ParseSendHeader(f); err != nil {
			b.Fatal(err)
		}
	}
}

// A borrowed frame says the same as one that owns its strings, whatever was
// decoded before it.
func FuzzBorrower(f *testing.F) {
	f.Add(uint8(0), []byte(`{"code":310,"extFields":{"a":"x\u0001\"y","b":"2"},"flag":0,"language":"JAVA","opaque":7,"version":1}`), []byte("body"))
	f.Add(uint8(0), []byte(`{"opaque":1,"code":11,"remark":"\n"}`), []byte(nil))
	compact, err := appendCompactHeader(nil, &Frame{Code: 10, Ext: Fields{{"k", "v"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(1), compact, []byte("b"))
	var d Borrower
	f.Fuzz(func(t *testing.T, s uint8, header, body []byte) {
		want, wantErr := DecodeHeader(Serialize(s), header)
		got, gotErr := d.Decode(Serialize(s), header, body)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("borrowed: %v, owned: %v", gotErr, wantErr)
		}
		if wantErr != nil {
			return
		}
		want.Body = body
		if len(want.Ext) == 0 && len(got.Ext) == 0 {
			want.Ext = got.Ext
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("borrowed %+v, owned %+v", got, want)
		}
		if code, ok := PeekCode(Serialize(s), header); ok && s == 0 && code != want.Code {
			// A header may say its code twice: the last one counts.
			if bytes.Count(header, []byte("code")) < 2 {
				t.Fatalf("peeked code %d, decoded %d", code, want.Code)
			}
		}
	})
}
