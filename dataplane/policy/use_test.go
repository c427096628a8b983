package policy

import (
	"testing"
	"time"
)

func TestUses_lastOneOfEachKey(t *testing.T) {
	f := newFixture(t)
	use := func(key, topic string, op Operation) {
		t.Helper()
		if _, err := f.view(key, "aaaaaaaa").Topic(topic, op); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.Uses(); len(got) != 0 {
		t.Errorf("before any use: %+v", got)
	}
	use("slk_a", "orders", OperationPub)
	use("slk_a", "bills", OperationSub) // too soon to be noted
	use("slk_two", "orders", OperationSub)
	got := f.Uses()
	if len(got) != 2 || got[0].KeyID != "slk_a" || got[0].TenantID != "ten_a" || got[0].Topic != "orders" || got[0].Operation != OperationPub || !got[0].At.Equal(f.now) || !got[0].Remote.IsValid() {
		t.Errorf("uses: %+v", got)
	}
	if got := f.Uses(); len(got) != 0 {
		t.Errorf("told twice: %+v", got)
	}
	if _, err := f.view("slk_narrow", "").Topic("secret", OperationPub); err == nil || len(f.Uses()) != 0 {
		t.Error("a refusal counts as use")
	}
	f.now = f.now.Add(noteTopicEvery)
	use("slk_a", "bills", OperationSub)
	f.apply(2) // a policy that leaves the key as it is
	k := f.snapshot.Keys["slk_a"]
	k.AllowedCIDRs = []string{"0.0.0.0/0", "::/0"}
	f.snapshot.Keys["slk_a"] = k
	f.apply(3) // one that changes it
	if got := f.Uses(); len(got) != 1 || got[0].Topic != "bills" {
		t.Errorf("uses are lost with a new policy: %+v", got)
	}
	f.now = f.now.Add(time.Second)
	use("slk_a", "orders", OperationSub)
	if got := f.Uses(); len(got) != 0 {
		t.Errorf("a new policy made a use be noted too soon: %+v", got)
	}
}
