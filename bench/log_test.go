package main

import (
	"strings"
	"testing"
	"time"
)

func TestCompare_goalIsTheStrictest(t *testing.T) {
	got := results{ours: {PerSecond: 300}, rocketMQ: {PerSecond: 90}, jetStream: {PerSecond: 220}}
	for name, tc := range map[string]struct {
		more bool
		want times
		goal float64
		open bool
		met  bool
	}{
		"a multiple":           {true, times{rocketMQ: 3}, 270, false, true},
		"the larger multiple":  {true, times{rocketMQ: 3, jetStream: 1.5}, 330, false, false},
		"the smaller share":    {false, times{rocketMQ: 4, jetStream: 1}, 220, false, false},
		"met by what is there": {true, times{rocketMQ: 1, kafka: 1}, 90, false, false},
		"none":                 {true, nil, 0, true, false},
		"of a peer left out":   {true, times{kafka: 1}, 0, true, false},
	} {
		f := compare("row", "/s", got, perSecond, tc.more, tc.want)
		f.judge()
		if f.Goal != tc.goal || f.Open != tc.open || f.Met != tc.met {
			t.Errorf("%s: goal %v, open %v, met %v; want %v, %v, %v", name, f.Goal, f.Open, f.Met, tc.goal, tc.open, tc.met)
		}
	}
	if f := compare("row", "/s", got, perSecond, true, times{kafka: 1}); !strings.Contains(f.Note, "kafka was not measured") {
		t.Errorf("the note %q does not say that a peer is missing", f.Note)
	}
}

func TestCompare_tellsOfOtherWork(t *testing.T) {
	f := compare("row", "/s", results{ours: {Other: 0.1}, rocketMQ: {Other: 0.7}}, perSecond, true, nil)
	if want := "cores of other work beside rocketmq 0.7"; f.Note != want {
		t.Errorf("the note is %q, want %q", f.Note, want)
	}
}

func TestAt_isTheReadingNextToATime(t *testing.T) {
	begin := time.UnixMilli(1_700_000_000_000)
	var all []reading
	for i := range 5 {
		all = append(all, reading{time: begin.Add(time.Duration(i) * 20 * time.Millisecond), server: time.Duration(i)})
	}
	for ms, want := range map[int64]time.Duration{-50: 0, 0: 0, 1: 1, 40: 2, 79: 4, 500: 4} {
		if got := at(all, begin.UnixMilli()+ms).server; got != want {
			t.Errorf("after %d ms: reading %d, want %d", ms, got, want)
		}
	}
}

func TestLoad_failureSaysWhatTheProgramSaid(t *testing.T) {
	_, err := load(t.Context(), 0, "sh", "-c", "echo broken >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the error is %v", err)
	}
}
