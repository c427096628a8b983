package wire

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
)

// BodyEncoding is the header field of a RegisterBroker whose body is deflated,
// as a broker with some ten thousand topics needs it: its table does not fit
// into a frame. The value is EncodingDeflate. RocketMQ's own field "compressed"
// means another format.
const (
	BodyEncoding    = "__SLUICE_ENCODING"
	EncodingDeflate = "deflate"
)

// ErrInflated means that a deflated body is damaged or too large.
var ErrInflated = errors.New("deflated body cannot be used")

// Deflate compresses a body.
func Deflate(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// Inflate undoes Deflate. A body of more than most bytes is ErrInflated, and no
// more memory than for that is taken.
func Inflate(b []byte, most int64) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), most+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInflated, err)
	}
	if int64(len(out)) > most {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrInflated, most)
	}
	return out, nil
}
