// Package api is the contract of the HTTP API: openapi.yaml and the Go types
// generated from it.
package api

import (
	"fmt"
	"time"
)

// timestampLayout is RFC 3339 with exactly three digits of milliseconds.
const timestampLayout = "2006-01-02T15:04:05.000Z07:00"

// Timestamp is a point in time as the API writes it: UTC, always with
// milliseconds. It reads any RFC 3339 time.
type Timestamp struct{ time.Time }

// NewTimestamp cuts t to what the API can show, so that a value compares
// equal after a round trip.
func NewTimestamp(t time.Time) Timestamp {
	return Timestamp{t.UTC().Truncate(time.Millisecond)}
}

// String returns the time as the API writes it.
func (t Timestamp) String() string { return t.UTC().Format(timestampLayout) }

// MarshalText implements encoding.TextMarshaler.
func (t Timestamp) MarshalText() ([]byte, error) {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("year %d is outside RFC 3339", y)
	}
	return []byte(t.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Timestamp) UnmarshalText(text []byte) error {
	parsed, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("%q is not an RFC 3339 time", text)
	}
	t.Time = parsed.UTC()
	return nil
}

// MarshalJSON implements json.Marshaler; without it the embedded time's
// method would drop trailing zeros.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	text, err := t.MarshalText()
	if err != nil {
		return nil, err
	}
	return append(append([]byte{'"'}, text...), '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler; null leaves the value alone.
func (t *Timestamp) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	if len(data) < 2 || data[0] != '"' || data[len(data)-1] != '"' {
		return fmt.Errorf("%s is not a time: a string in RFC 3339 is needed", data)
	}
	return t.UnmarshalText(data[1 : len(data)-1])
}
