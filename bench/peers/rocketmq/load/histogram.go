package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are at most 1/64 wide, relative to the value.
type histogram struct {
	counts [64 * 64]int64
	n      int64
	max    time.Duration
}

func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 64 {
		return int(v)
	}
	shift := bits.Len64(v) - 7 // v>>shift is in [64, 128)
	return shift*64 + int(v>>shift)
}

// upper is the largest duration in bucket b.
func upper(b int) time.Duration {
	if b < 128 {
		return time.Duration(b)
	}
	shift := b/64 - 1
	return time.Duration((uint64(b%64)+65)<<shift - 1)
}

func (h *histogram) record(d time.Duration) {
	h.counts[bucket(d)]++
	h.n++
	h.max = max(h.max, d)
}

func (h *histogram) add(o *histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// quantile returns the duration that at least the share q of the values does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(q*float64(h.n) + 0.999999)
	for b, c := range h.counts {
		if rank -= c; rank <= 0 && h.n > 0 {
			return min(upper(b), h.max)
		}
	}
	return h.max
}

// latencies is how a histogram is printed, in microseconds.
type latencies struct {
	P50  int64 `json:"p50_us"`
	P99  int64 `json:"p99_us"`
	P999 int64 `json:"p999_us"`
	Max  int64 `json:"max_us"`
}

func (h *histogram) latencies() latencies {
	return latencies{
		P50: h.quantile(0.50).Microseconds(), P99: h.quantile(0.99).Microseconds(),
		P999: h.quantile(0.999).Microseconds(), Max: h.max.Microseconds(),
	}
}

// interval is the counted time in Unix milliseconds, so that whoever watches the
// server can tell what it used meanwhile.
type interval struct {
	From int64 `json:"from_ms"`
	To   int64 `json:"to_ms"`
}

func between(from, to time.Time) interval { return interval{from.UnixMilli(), to.UnixMilli()} }
