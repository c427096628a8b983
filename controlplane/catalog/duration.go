package catalog

import (
	"regexp"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

// Duration is a length of time as its owner wrote it, such as `72h` or
// `1h30m`: hours, minutes, seconds, milliseconds in this order. It is kept as
// text, so that it is shown the way it was sent.
type Duration string

var durationForm = regexp.MustCompile(`^(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?(?:([0-9]{1,9})ms)?$`)

// DurationOf writes a length of time in its largest whole unit.
func DurationOf(d time.Duration) Duration { return Duration(short(d)) }

// Parse returns the length; false for text that is no duration.
func (d Duration) Parse() (time.Duration, bool) {
	m := durationForm.FindStringSubmatch(string(d))
	if m == nil || d == "" {
		return 0, false
	}
	var sum time.Duration
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i+1], 10, 64)
		if err != nil || n > int64((1<<62)/unit) {
			return 0, false
		}
		sum += time.Duration(n) * unit
	}
	return sum, sum >= 0
}

// Std is the length of a Duration that was checked before; 0 otherwise.
func (d Duration) Std() time.Duration {
	v, _ := d.Parse()
	return v
}

func checkDuration(field string, d Duration, least, most time.Duration) error {
	v, ok := d.Parse()
	if !ok {
		return errs.Field(field, "%q is no duration; write it like 72h or 1h30m", string(d))
	}
	if v < least || v > most {
		e := errs.Field(field, "%s is %s; it must be %s to %s", field, string(d), short(least), short(most))
		e.Limit = short(least) + " to " + short(most)
		return e
	}
	return nil
}

func short(d time.Duration) string {
	switch {
	case d%time.Hour == 0 && d > 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0 && d > 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(int64(d/time.Millisecond), 10) + "ms"
}
