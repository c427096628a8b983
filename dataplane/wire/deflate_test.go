package wire

import (
	"bytes"
	"errors"
	"testing"
)

func TestInflate_boundsAndDamage(t *testing.T) {
	body := bytes.Repeat([]byte(`{"topicName":"x"}`), 10_000)
	packed, err := Deflate(body)
	if err != nil || len(packed) > len(body)/20 {
		t.Fatalf("%d bytes of %d, %v", len(packed), len(body), err)
	}
	if got, err := Inflate(packed, int64(len(body))); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := Inflate(packed, int64(len(body))-1); !errors.Is(err, ErrInflated) {
		t.Errorf("one byte too much: %v", err)
	}
	for _, bad := range [][]byte{nil, packed[:len(packed)/2], body} {
		if _, err := Inflate(bad, 1<<20); !errors.Is(err, ErrInflated) {
			t.Errorf("%d bytes that are not whole: %v", len(bad), err)
		}
	}
}
