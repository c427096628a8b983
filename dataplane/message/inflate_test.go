package message

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"testing"
)

func packed(t *testing.T, w io.WriteCloser, out *bytes.Buffer, plain []byte) []byte {
	t.Helper()
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A body is plain up to the limit, never cut; what cannot be unpacked stays as
// it is.
func TestPlainBody(t *testing.T) {
	plain := bytes.Repeat([]byte("body "), 1000)
	var z, g bytes.Buffer
	zlibBody, gzipBody := packed(t, zlib.NewWriter(&z), &z, plain), packed(t, gzip.NewWriter(&g), &g, plain)
	for name, tc := range map[string]struct {
		body    []byte
		sysFlag int32
		limit   int64
		want    []byte
		ok      bool
	}{
		"not compressed":   {plain, 0, 10, plain, true},
		"zlib of 4.x":      {zlibBody, SysFlagCompressed, 5000, plain, true},
		"zlib of 5.x":      {zlibBody, SysFlagCompressed | SysFlagCompressZLIB, 5000, plain, true},
		"gzip":             {gzipBody, SysFlagCompressed, 5000, plain, true},
		"one byte more":    {zlibBody, SysFlagCompressed, 4999, zlibBody, false},
		"lz4":              {zlibBody, SysFlagCompressed | SysFlagCompressLZ4, 5000, zlibBody, false},
		"half of it":       {zlibBody[:len(zlibBody)/2], SysFlagCompressed, 5000, zlibBody[:len(zlibBody)/2], false},
		"label on nothing": {nil, SysFlagCompressed, 5000, nil, false},
	} {
		got, ok := (&Message{Body: tc.body, SysFlag: tc.sysFlag}).PlainBody(tc.limit)
		if ok != tc.ok || !bytes.Equal(got, tc.want) {
			t.Errorf("%s: %d bytes, %v; want %d, %v", name, len(got), ok, len(tc.want), tc.ok)
		}
	}
	if _, err := Inflate(zlibBody, 4999); !errors.Is(err, ErrBodyTooLarge) {
		t.Errorf("one byte over the limit: %v", err)
	}
}
