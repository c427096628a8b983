package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

type goldenFrame struct {
	Offset     int    `json:"offset"`
	Length     int    `json:"length"`
	Kind       string `json:"kind"`
	Serialize  string `json:"serialize"`
	BodyLength int    `json:"bodyLength"`
	Header     struct {
		Code      int32             `json:"code"`
		Language  any               `json:"language"`
		Version   int32             `json:"version"`
		Opaque    int32             `json:"opaque"`
		Flag      int32             `json:"flag"`
		Remark    string            `json:"remark"`
		ExtFields map[string]string `json:"extFields"`
	} `json:"header"`
}

func gunzip(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden calls fn for each recorded frame.
func golden(t testing.TB, fn func(name string, frame []byte, want goldenFrame)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.bin.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded frames: %v", err)
	}
	for _, path := range files {
		session := strings.TrimSuffix(filepath.Base(path), ".bin.gz")
		all := gunzip(t, session+".bin.gz")
		var frames []goldenFrame
		if err := json.Unmarshal(gunzip(t, session+".json.gz"), &frames); err != nil {
			t.Fatal(err)
		}
		for i, g := range frames {
			fn(fmt.Sprintf("%s/%d", session, i), all[g.Offset:g.Offset+g.Length], g)
		}
	}
}

func TestDecode_recordedFrames(t *testing.T) {
	n := 0
	golden(t, func(name string, frame []byte, want goldenFrame) {
		n++
		got, err := Decode(frame)
		if err != nil {
			if len(frame) < 12 || want.Header.Language == nil {
				return
			}
			t.Errorf("%s: %v: %q", name, err, frame)
			return
		}
		code := got.Code
		if whole, ok := popCodes[want.Header.Code]; ok && !got.IsResponse() && got.Serialize == SerializeCompact {
			if code != whole {
				t.Errorf("%s: code %d was not mapped back to %d", name, code, whole)
			}
			code = want.Header.Code
		}
		if code != want.Header.Code || got.Version != want.Header.Version || got.Opaque != want.Header.Opaque ||
			got.Flag != want.Header.Flag || got.Remark != want.Header.Remark || len(got.Body) != want.BodyLength {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		ext := got.Ext.Map()
		if len(ext)+len(want.Header.ExtFields) > 0 && !reflect.DeepEqual(ext, want.Header.ExtFields) {
			for k, v := range want.Header.ExtFields {
				if ext[k] != v && v != "" {
					t.Errorf("%s: field %s = %q, want %q", name, k, ext[k], v)
				}
			}
		}
		again, err := AppendFrame(nil, got)
		if err != nil {
			t.Errorf("%s: encode: %v", name, err)
			return
		}
		compareEncoding(t, name, got.Serialize, frame, again)
	})
	if n < 300 {
		t.Errorf("only %d recorded frames", n)
	}
}

// compareEncoding checks that a compact frame came back byte for byte, and a
// JSON frame as equal JSON with the same body.
func compareEncoding(t *testing.T, name string, s Serialize, want, got []byte) {
	t.Helper()
	if s == SerializeCompact {
		if !bytes.Equal(got, want) {
			a, _ := Decode(got)
			b, _ := Decode(want)
			// A repeated or empty field is not written again.
			if !reflect.DeepEqual(a.Ext.Map(), b.Ext.Map()) || !bytes.Equal(a.Body, b.Body) {
				t.Errorf("%s: compact frame changed:\n got %q\nwant %q", name, got, want)
			}
		}
		return
	}
	a, wantBody := jsonHeader(t, name, want)
	b, gotBody := jsonHeader(t, name, got)
	if _, ok := a["serializeTypeCurrentRPC"]; !ok {
		delete(b, "serializeTypeCurrentRPC")
	}
	if a["remark"] == "" || a["remark"] == nil {
		delete(a, "remark")
	}
	if fmt.Sprint(a["extFields"]) == "map[]" {
		delete(a, "extFields")
	}
	for k, v := range b { // hand-built frames leave out members that are zero
		if _, ok := a[k]; !ok && (fmt.Sprint(v) == "0" || k == "language") {
			delete(b, k)
		}
	}
	if !reflect.DeepEqual(a, b) || !bytes.Equal(gotBody, wantBody) {
		t.Errorf("%s: JSON frame changed:\n got %v\nwant %v", name, b, a)
	}
}

func jsonHeader(t *testing.T, name string, frame []byte) (header map[string]any, body []byte) {
	t.Helper()
	p, err := ParsePrefix(frame, 0)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := json.Unmarshal(frame[PrefixSize:PrefixSize+p.HeaderLen], &header); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return header, frame[PrefixSize+p.HeaderLen:]
}

func TestUnmarshal_recordedBodies(t *testing.T) {
	n := 0
	golden(t, func(name string, frame []byte, want goldenFrame) {
		f, err := Decode(frame)
		if err != nil || len(f.Body) == 0 || f.Body[0] != '{' {
			return
		}
		if _, err := Normalize(f.Body); err != nil {
			t.Errorf("%s: %v: %.200q", name, err, f.Body)
		}
		if f.Code == HeartBeat && !f.IsResponse() {
			var h Heartbeat
			if err := Unmarshal(f.Body, &h); err != nil || h.ClientID == "" {
				t.Errorf("%s: heartbeat %v %+v", name, err, h)
			}
			n++
		}
	})
	if n == 0 {
		t.Error("no heartbeat among the recorded frames")
	}
}
