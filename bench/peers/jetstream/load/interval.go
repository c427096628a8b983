package main

import (
	"strconv"
	"time"
)

// interval is the counted time in Unix milliseconds, so that whoever watches the
// server can tell what it used meanwhile.
type interval struct {
	From int64 `json:"from_ms"`
	To   int64 `json:"to_ms"`
}

func since(began time.Time) interval { return interval{began.UnixMilli(), time.Now().UnixMilli()} }

func round(v float64, digits int) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'f', digits, 64), 64)
	return r
}
