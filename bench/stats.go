package main

import (
	"slices"
	"time"
)

// quantile is the smallest value that a share q of all does not pass.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	i := int(q * float64(len(sorted)))
	return sorted[min(i, len(sorted)-1)]
}
