package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
)

func TestTimestampAlwaysShowsMilliseconds(t *testing.T) {
	east := time.FixedZone("", 8*3600)
	for _, c := range []struct {
		in   time.Time
		want string
	}{
		{time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC), `"2026-09-01T08:00:00.000Z"`},
		{time.Date(2026, 9, 1, 8, 0, 0, 120999999, time.UTC), `"2026-09-01T08:00:00.120Z"`},
		{time.Date(2026, 9, 1, 16, 0, 0, 1e6, east), `"2026-09-01T08:00:00.001Z"`},
	} {
		got, err := json.Marshal(api.NewTimestamp(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("Marshal(%v) = %s, %v; want %s", c.in, got, err, c.want)
		}
		var back api.Timestamp
		if err := json.Unmarshal(got, &back); err != nil || !back.Equal(api.NewTimestamp(c.in).Time) {
			t.Errorf("Unmarshal(%s) = %v, %v", got, back, err)
		}
	}
}

func TestTimestampRefusesWhatIsNoTime(t *testing.T) {
	for _, in := range []string{`"yesterday"`, `12`, `""`, `{}`, `"2026-13-01T00:00:00Z"`} {
		var ts api.Timestamp
		if err := json.Unmarshal([]byte(in), &ts); err == nil {
			t.Errorf("Unmarshal(%s) = %v; want an error", in, ts)
		}
	}
	if _, err := json.Marshal(api.Timestamp{Time: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Error("year 12000 was written")
	}
}
