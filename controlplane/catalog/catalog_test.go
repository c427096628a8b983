package catalog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

func TestDuration(t *testing.T) {
	for text, want := range map[Duration]time.Duration{
		"72h": 72 * time.Hour, "1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond, "1h2m3s4ms": time.Hour + 2*time.Minute + 3*time.Second + 4*time.Millisecond, "0s": 0,
	} {
		if got, ok := text.Parse(); !ok || got != want {
			t.Errorf("%s: got %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []Duration{"", "h", "1d", "30m1h", "-1h", "1.5h", "999999999h", "1h 2m"} {
		if got, ok := text.Parse(); ok {
			t.Errorf("%q passes as %v", text, got)
		}
	}
}

func FuzzDuration(f *testing.F) {
	f.Add("1h30m")
	f.Fuzz(func(t *testing.T, s string) {
		if d, ok := Duration(s).Parse(); ok && d < 0 {
			t.Errorf("%q is %v", s, d)
		}
	})
}

// Names that are paths, hold the separator of namespaces or belong to RocketMQ.
func TestNames_B143_B153(t *testing.T) {
	for _, good := range []string{"a", "orders-1", "A_b", "111", strings.Repeat("x", 100)} {
		if err := CheckTopicName(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for name, reason := range map[string]string{
		"": "name_invalid", "a%b": "name_invalid", "../x": "name_invalid", "a b": "name_invalid", "a\x00": "name_invalid", strings.Repeat("x", 101): "name_invalid",
		"ордера": "name_invalid", "TBW102": "name_reserved", "rmq_sys_trace": "name_reserved", "SCHEDULE_TOPIC_XXXX": "name_reserved", "CID_RMQ_SYS_X": "name_reserved",
	} {
		var e *errs.Error
		if err := CheckTopicName(name); !errors.As(err, &e) || e.Reason != reason || e.Field != "name" {
			t.Errorf("%q: got %v, want %s", name, err, reason)
		}
	}
}

func TestRetry_schedule(t *testing.T) {
	for name, c := range map[string]struct {
		retry Retry
		want  []time.Duration
	}{
		"fixed":       {Retry{Strategy: RetryFixed, Delays: []Duration{"7s"}}, []time.Duration{7 * time.Second}},
		"exponential": {Retry{Strategy: RetryExponential, Delays: []Duration{"1s", "5s"}}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second}},
		"custom":      {Retry{Strategy: RetryCustom, Delays: []Duration{"1s", "1m"}}, []time.Duration{time.Second, time.Minute}},
		"same":        {Retry{Strategy: RetryExponential, Delays: []Duration{"5s", "5s"}}, []time.Duration{5 * time.Second}},
	} {
		got := c.retry.Schedule()
		if len(got) != len(c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: got %v, want %v", name, got, c.want)
			}
		}
	}
	long := Retry{Strategy: RetryExponential, Delays: []Duration{"1ms", "24h"}}.Schedule()
	if len(long) > 65 || long[len(long)-1] != 24*time.Hour {
		t.Errorf("long: %v", long)
	}
}
