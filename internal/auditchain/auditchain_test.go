package auditchain

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

type kept struct {
	Event
	hash, previous string
}

func chain(n int) []kept {
	var out []kept
	var h Head
	for i := range n {
		e := Event{Sequence: int64(i + 1), ID: fmt.Sprint("evt_", i), At: time.UnixMilli(1_700_000_000_000 + int64(i)), ActorType: "user", ActorID: "usr_1",
			KeyID: "slk_1", SourceIP: "192.0.2.1", Action: "createTopic", TargetType: "topic", TargetID: "top_1", NamespaceID: "ns1", Decision: "allowed",
			Reason: "r", RequestID: "req_1"}
		if i%3 == 1 { // of each version some
			e.BeforeHash = "b"
		}
		if i%3 == 2 {
			e.Count, e.FirstAt = 7, time.UnixMilli(1_600_000_000_000)
		}
		next := h.Next(&e)
		out = append(out, kept{e, next.Hash, h.Hash})
		h = next
	}
	return out
}

func verify(events []kept, known ...Head) (Head, error) {
	v := NewVerifier(known...)
	for i := range events {
		if err := v.Add(&events[i].Event, events[i].hash, events[i].previous); err != nil {
			return Head{}, err
		}
	}
	return v.End()
}

func TestVerify_untouched(t *testing.T) {
	events := chain(10)
	h, err := verify(events, Head{3, events[2].hash}, Head{10, events[9].hash})
	if err != nil || h != (Head{10, events[9].hash}) {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := verify(events[4:]); err != nil {
		t.Errorf("a part: %v", err)
	}
	if h, err := verify(nil); err != nil || h != (Head{}) {
		t.Errorf("nothing: %+v, %v", h, err)
	}
}

// Every change of every field of every event is found, also when the hash of
// the event itself is made anew.
func TestVerify_findsEveryEdit(t *testing.T) {
	fields := reflect.TypeFor[Event]().NumField()
	for at := range 5 {
		for f := range fields {
			for _, rehash := range []bool{false, true} {
				events := chain(5)
				v := reflect.ValueOf(&events[at].Event).Elem().Field(f)
				switch v.Interface().(type) {
				case string:
					v.SetString(v.String() + "x")
				case int64:
					v.SetInt(v.Int() + 1)
				case time.Time:
					v.Set(reflect.ValueOf(v.Interface().(time.Time).Add(time.Millisecond)))
				default:
					t.Fatalf("a field of type %s", v.Type())
				}
				if rehash {
					events[at].hash = Head{int64(at), events[at].previous}.Next(&events[at].Event).Hash
				}
				// Who knows the head finds what was done to the newest event.
				h := Head{5, chain(5)[4].hash}
				var broken *BrokenError
				if _, err := verify(events, h); !errors.As(err, &broken) {
					t.Errorf("event %d, field %d, hashed anew %v: %v", at, f, rehash, err)
				}
			}
		}
	}
}

func TestVerify_findsRemovalMoveAndInsertion(t *testing.T) {
	head := Head{6, chain(6)[5].hash}
	for at := range 6 {
		for name, events := range map[string][]kept{
			"removed":  slices.Delete(chain(6), at, at+1),
			"twice":    slices.Insert(chain(6), at, chain(6)[at]),
			"cut here": chain(6)[:at],
		} {
			var broken *BrokenError
			if _, err := verify(events, head); !errors.As(err, &broken) {
				// The front may be missing: an export can begin anywhere.
				if name == "removed" && at == 0 {
					continue
				}
				t.Errorf("%s at %d: %v", name, at, err)
			}
		}
		if at > 0 {
			events := chain(6)
			events[at], events[at-1] = events[at-1], events[at]
			if _, err := verify(events); err == nil {
				t.Errorf("swapped at %d", at)
			}
		}
	}
}

// Fields cannot flow into each other.
func TestNext_fieldsHaveBorders(t *testing.T) {
	a, b := Event{Action: "ab", TargetType: "c"}, Event{Action: "a", TargetType: "bc"}
	if (Head{}).Next(&a) == (Head{}).Next(&b) {
		t.Error("two events share a hash")
	}
}

// What was written by an earlier version has the hash that it had then, and a
// count cannot be put in or left out.
func TestNext_versions(t *testing.T) {
	e := Event{ID: "evt_1", At: time.UnixMilli(1_700_000_000_000), ActorType: "user", ActorID: "usr_1", Action: "createTopic", TargetType: "topic", Decision: "allowed"}
	plain := (Head{}).Next(&e).Hash
	if want := "1cd45d91002ada77d1aa2ab189cbaa42ab24267efa5e83d044b0cc284d62b28e"; plain != want {
		t.Errorf("an event without fingerprints: %s", plain)
	}
	e.AfterHash = "a"
	prints := (Head{}).Next(&e).Hash
	if want := "40f427a6270c24136a35d07365eb8acbcf8ce18795d16a332b86367d06369c1b"; prints != want {
		t.Errorf("an event with fingerprints: %s", prints)
	}
	seen := map[string]bool{plain: true, prints: true}
	for _, c := range []struct {
		count int64
		first time.Time
	}{{1, time.Time{}}, {0, e.At}, {1, e.At}, {2, e.At}, {2, e.At.Add(time.Millisecond)}} {
		e.Count, e.FirstAt = c.count, c.first
		h := (Head{}).Next(&e).Hash
		if seen[h] {
			t.Errorf("count %d, first %v: the hash of another", c.count, c.first)
		}
		seen[h] = true
	}
}
