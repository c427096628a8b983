package transaction

import (
	"errors"
	"testing"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
)

// A body may hold a whole record that names the place where it lies, and in it
// the offset of somebody else's half message. It ends nothing.
func TestEnd_recordInsideABodyIsNoHalfMessage(t *testing.T) {
	for _, how := range []Resolution{Commit, Rollback} {
		e := newEnv(t)
		victim := e.send("victim")
		const foreign = "bbbbbbbb%mine"
		forged := message.Message{
			Topic: HalfTopic, QueueOffset: victim.HalfOffset, Body: []byte("forged"), StoreTimestamp: e.ms.Load(), BornTimestamp: e.ms.Load(), BornHost: host, StoreHost: host,
		}
		for _, p := range [][2]string{{message.KeyUniqueKey, "F"}, {message.KeyProducerGroup, "bbbbbbbb%p"}, {message.KeyRealTopic, foreign}, {message.KeyRealQueueID, "0"}} {
			forged.Properties = message.AppendProperty(forged.Properties, p[0], p[1])
		}
		send := func() (physical, next int64) {
			body, err := message.AppendRecord(nil, &forged)
			if err != nil {
				t.Fatal(err)
			}
			m := &message.Message{Topic: foreign, Body: body, BornTimestamp: e.ms.Load(), BornHost: host, StoreHost: host}
			a, err := e.st.Append(t.Context(), m, store.DurabilityDefault)
			if err != nil {
				t.Fatal(err)
			}
			size, err := message.Size(m)
			if err != nil {
				t.Fatal(err)
			}
			return a.PhysicalOffset, a.PhysicalOffset + int64(size)
		}
		_, next := send()
		forged.PhysicalOffset = next + bodyAt
		if at, _ := send(); at != next {
			t.Fatalf("the message lies at %d, not at %d", at, next)
		}
		if _, err := e.st.ReadAt(forged.PhysicalOffset); err != nil {
			t.Fatalf("the forged record does not read as one: %v", err)
		}
		x := End{HalfOffset: -1, PhysicalOffset: forged.PhysicalOffset, Group: "bbbbbbbb%p"}
		if err := e.end(x, how); !errors.Is(err, ErrUnknown) {
			t.Errorf("end by a forged record: %v, want %v", err, ErrUnknown)
		}
		if err := e.Resume(t.Context(), x); !errors.Is(err, ErrUnknown) {
			t.Errorf("resume by a forged record: %v, want %v", err, ErrUnknown)
		}
		if err := e.end(victim, Commit); err != nil {
			t.Errorf("the victim's commit: %v", err)
		}
		e.wantBodies(topicA, 1, "victim")
	}
}

// bodyAt is where the body of a record with hosts of 4 bytes begins.
const bodyAt = 4*5 + 8*2 + 4 + 8 + 8 + 8 + 8 + 4 + 8 + 4
