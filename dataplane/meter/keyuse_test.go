package meter

import "testing"

func TestKeyUses_toldUntilAcknowledged(t *testing.T) {
	var fresh []KeyUse
	next := func() []KeyUse {
		out := fresh
		fresh = nil
		return out
	}
	var k keyUses
	tell := func(sequence uint64, want ...int64) {
		t.Helper()
		got := k.report(next, sequence)
		if len(got) != len(want) {
			t.Fatalf("report %d tells %+v", sequence, got)
		}
		for i := range want {
			if got[i].At != want[i] {
				t.Errorf("report %d tells %+v, want times %v", sequence, got, want)
			}
		}
	}
	tell(1)
	fresh = []KeyUse{{KeyID: "a", At: 10}, {KeyID: "b", At: 11}}
	tell(2, 10, 11)
	tell(3, 10, 11) // the answer was lost
	k.ack(2)        // late: the uses of 3 are under way
	tell(4, 10, 11)
	fresh = []KeyUse{{KeyID: "a", At: 20}}
	k.ack(4)
	tell(5, 20)
	fresh = []KeyUse{{KeyID: "a", At: 30}}
	tell(6, 30)
	k.ack(6)
	k.ack(6)
	tell(7)
}
