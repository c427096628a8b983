package storetool

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
)

func exported(t *testing.T, b *bytes.Buffer) (lines []Exported) {
	t.Helper()
	for d := json.NewDecoder(b); d.More(); {
		var e Exported
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, e)
	}
	return lines
}

// Records that hold several messages and the messages of light queues are
// exported, and a topic that is not there is an error that names those that were
// meant. Four records say that they are in %LMQ%q1; the broker has left out the
// third one, which names a queue without an offset.
func TestExport_batchAndLightQueues(t *testing.T) {
	dir := golden(t, "store-lmq")
	for _, c := range []struct {
		topic           string
		queue           int32
		lines, messages int64
	}{{"", -1, 8, 20}, {"GoldenBcq", -1, 4, 16}, {"GoldenBcq", 1, 2, -1}, {"%LMQ%q1", -1, 4, 4}, {"%LMQ%q1", 0, 4, 4}} {
		var out bytes.Buffer
		r, err := Export(t.Context(), Options{Dir: dir}, ExportFilter{Topic: c.topic, Queue: c.queue}, &out)
		lines := exported(t, &out)
		sum := int64(0)
		for _, l := range lines {
			sum += int64(l.Messages)
			if l.Topic == "GoldenBcq" {
				if _, err := message.DecodeBatch(l.Body); err != nil && l.Messages > 1 {
					t.Errorf("the body of a batch: %v", err)
				}
			}
		}
		if err != nil || int64(len(lines)) != r.Records || sum != r.Messages || r.Records != c.lines && c.messages >= 0 || c.messages >= 0 && sum != c.messages || r.LeftOut() != 0 {
			t.Errorf("%+v: %+v, %d lines of %d messages, %v", c, r, len(lines), sum, err)
		}
	}
	if _, err := Export(t.Context(), Options{Dir: dir}, ExportFilter{Topic: "bcq", Queue: -1}, &bytes.Buffer{}); !errors.Is(err, ErrNoTopic) || strings.Contains(err.Error(), "namespace in front") {
		t.Errorf("a topic that is not there: %v", err)
	}
	for _, ask := range []string{"q1", "goldenbcq", "ns%GoldenBcq"} {
		_, err := Export(t.Context(), Options{Dir: dir}, ExportFilter{Topic: ask, Queue: -1}, &bytes.Buffer{})
		if !errors.Is(err, ErrNoTopic) || !strings.Contains(err.Error(), `"%LMQ%q1"`) && !strings.Contains(err.Error(), `"GoldenBcq"`) {
			t.Errorf("%s: %v", ask, err)
		}
	}
	s, err := Inspect(Options{Dir: dir})
	batches := 0
	for _, q := range s.Queues {
		if q.Batch {
			batches++
			if q.Topic != "GoldenBcq" || q.To <= q.From || q.Newest < 0 {
				t.Errorf("%+v", q)
			}
		}
	}
	if err != nil || batches != 2 || s.Layout != "compatible" {
		t.Errorf("inspect: %+v, %v", s, err)
	}
}

// The copy of what a repair has cut off is listed and can be exported.
func TestExport_cut(t *testing.T) {
	dir, records := ownStore(t)
	victim := records[len(records)-5]
	flip(t, dir, "commitlog/00000000000000032768", victim.PhysicalOffset-32768+100)
	for _, name := range []string{"checkpoint", "queues.state", "consumequeue", "sluice.index"} {
		remove(t, dir, name)
	}
	writeFile(t, dir, "abort")
	repaired(t, dir)
	s, err := Inspect(Options{Dir: dir})
	if err != nil || len(s.Cut) != 1 || s.Cut[0].From != victim.PhysicalOffset || s.Cut[0].Records != 4 {
		t.Fatalf("%+v, %v", s, err)
	}
	var out bytes.Buffer
	r, err := ExportCut(filepath.Join(dir, s.Cut[0].File), &out)
	lines := exported(t, &out)
	if err != nil || r.Records != 4 || len(lines) != 4 || lines[3].PhysicalOffset != records[len(records)-1].PhysicalOffset {
		t.Errorf("%+v, %v", lines, err)
	}
}
