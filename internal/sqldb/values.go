package sqldb

import (
	"encoding/json"
	"fmt"
	"time"
)

// Times are stored as milliseconds since 1970, UTC, on both databases: exact,
// sortable, and the same bytes everywhere.

// Millis is t as stored.
func Millis(t time.Time) int64 { return t.UnixMilli() }

// Time is the stored ms.
func Time(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// MillisPtr is t as stored in a column that may be NULL.
func MillisPtr(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// TimePtr is the stored ms of a column that may be NULL.
func TimePtr(ms *int64) *time.Time {
	if ms == nil {
		return nil
	}
	t := Time(*ms)
	return &t
}

// JSON is v as stored in a text column.
func JSON(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode column: %w", err)
	}
	return string(b), nil
}

// FromJSON reads a text column into v; an empty column leaves v alone.
func FromJSON(text string, v any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("decode column: %w", err)
	}
	return nil
}
