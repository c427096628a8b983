package policy

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"testing"
)

// Every signed frame that official clients sent to a real broker verifies with
// the secret of its access key, and with no other.
func TestSignedRemoting_recordedFrames(t *testing.T) {
	secrets := map[string]string{"RocketMQ-golden": "12345678-golden", "golden-limited": "limited-secret"}
	for _, name := range []string{"java4-acl", "java5-acl", "go-acl"} {
		t.Run(name, func(t *testing.T) {
			raw := readGzip(t, "testdata/"+name+".bin.gz")
			signed := 0
			for len(raw) > 0 {
				total := int(binary.BigEndian.Uint32(raw))
				header := int(binary.BigEndian.Uint32(raw[4:]) & 0xffffff)
				frame := raw[8 : 4+total]
				raw = raw[4+total:]
				var h struct {
					Flag      int               `json:"flag"`
					ExtFields map[string]string `json:"extFields"`
				}
				if err := json.Unmarshal(frame[:header], &h); err != nil || h.Flag&1 != 0 || h.ExtFields["Signature"] == "" {
					continue
				}
				signed++
				r := RemotingRequest{Fields: FieldsOf(h.ExtFields), Body: frame[header:]}
				secret, ok := secrets[h.ExtFields["AccessKey"]]
				if !ok {
					t.Fatalf("unknown access key in frame: %v", h.ExtFields)
				}
				if p := (&Principal{secret: []byte(secret)}); !p.signedRemoting(&r) {
					t.Errorf("frame %d does not verify: %v", signed, h.ExtFields)
				}
				if p := (&Principal{secret: []byte(secret + "x")}); p.signedRemoting(&r) {
					t.Errorf("frame %d verifies with another secret", signed)
				}
			}
			if signed < 20 {
				t.Errorf("only %d signed frames seen", signed)
			}
		})
	}
}

func readGzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
