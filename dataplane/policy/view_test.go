package policy

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestView_names(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct{ name, physical, shown, code string }{
		{"orders", "aaaaaaaa%orders", "orders", ""},
		{"aaaaaaaa%orders", "aaaaaaaa%orders", "aaaaaaaa%orders", ""},
		{"%RETRY%g", "%RETRY%aaaaaaaa%g", "%RETRY%g", ""},
		{"%RETRY%aaaaaaaa%g", "%RETRY%aaaaaaaa%g", "%RETRY%aaaaaaaa%g", ""},
		{"%DLQ%g", "%DLQ%aaaaaaaa%g", "%DLQ%g", ""},
		{"bbbbbbbb%orders", "", "", CodeNamespaceMismatch},
		{"%RETRY%bbbbbbbb%g", "", "", CodeNamespaceMismatch},
		{"%orders", "", "", CodeNamespaceMismatch},
		{"aaaaaaaa%a%b", "", "", CodeNameInvalid}, // case B153
		{"aaaaaaaa%", "", "", CodeNameInvalid},
		{"", "", "", CodeNameInvalid},
		{"../../../x", "", "", CodeNameInvalid}, // case B143
		{"a/b", "", "", CodeNameInvalid},
		{"..", "", "", CodeNameInvalid},
		{"a\x00b", "", "", CodeNameInvalid},
		{"ordеrs", "", "", CodeNameInvalid}, // a Cyrillic letter
		{string(make([]byte, 10<<10)), "", "", CodeNameInvalid},
		{"TBW102", "", "", CodeNameReserved},
		{"rmq_sys_x", "", "", CodeNameReserved},
		{"%RETRY%TOOLS_CONSUMER", "", "", CodeNameReserved},
	} {
		t.Run(fmt.Sprintf("%.20q", c.name), func(t *testing.T) {
			v := f.view("slk_a", "")
			got, err := v.Topic(c.name, OperationSub)
			if c.code != "" {
				wantCode(t, err, c.code)
				return
			}
			if err != nil || got != c.physical {
				t.Fatalf("Topic = %q, %v; want %q", got, err, c.physical)
			}
			if shown := v.ShowTopic(got); shown != c.shown {
				t.Errorf("ShowTopic = %q, want %q", shown, c.shown)
			}
			if shown := v.ShowTopic("bbbbbbbb%orders"); shown != "" {
				t.Errorf("a foreign name is shown as %q", shown)
			}
		})
	}
}

// Case B156: one group name in two namespaces is two groups. Case B153: no two
// (namespace, name) pairs share a physical name.
func TestView_physicalNamesDoNotMeet(t *testing.T) {
	seen := map[string]string{}
	for _, ns := range []string{"aaaaaaaa", "aaaaaaab", "aaaaaaaabb", "11111111"} {
		for _, name := range []string{"a", "b", "ab", "1", "A", "-", "_"} {
			id := ns + " " + name
			physical := PhysicalName(ns, name)
			if other, ok := seen[physical]; ok {
				t.Errorf("%s and %s are both %s", id, other, physical)
			}
			seen[physical] = id
			if _, gotNS, gotName, ok := SplitPhysical(RetryPrefix + physical); !ok || gotNS != ns || gotName != name {
				t.Errorf("SplitPhysical(%q) = %q, %q", physical, gotNS, gotName)
			}
		}
	}
}

func TestIn_choosesTheNamespace(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct{ key, hint, want, code string }{
		{"slk_a", "", "aaaaaaaa", ""},
		{"slk_a", "aaaaaaaa", "aaaaaaaa", ""},
		{"slk_a", "bbbbbbbb", "", CodeNamespaceMismatch}, // case B151
		{"slk_a", "nowhere", "", CodeNamespaceMismatch},
		{"slk_two", "", "", CodeNamespaceRequired},
		{"slk_two", "aaaaaaab", "aaaaaaab", ""},
		{"slk_steal", "", "", CodePermissionDenied}, // a scope on another tenant's namespace holds nothing
		{"slk_steal", "bbbbbbbb", "", CodeNamespaceMismatch},
	} {
		v, err := f.principal(c.key).In(c.hint, testRemote)
		if c.code != "" {
			wantCode(t, err, c.code)
		} else if err != nil || v.NamespaceID() != c.want {
			t.Errorf("%s in %q: %v", c.key, c.hint, err)
		}
	}
	v, err := f.principal("slk_two").InOf("", testRemote, "orders", "%RETRY%aaaaaaab%g")
	if err != nil || v.NamespaceID() != "aaaaaaab" {
		t.Errorf("InOf by a prefixed name: %v", err)
	}
	f.delta(1, 2, &Delta{Namespaces: map[string]Namespace{"aaaaaaaa": {TenantID: "ten_a", Suspended: true}}, DropNamespaces: []string{"aaaaaaab"}})
	_, err = f.principal("slk_a").In("", testRemote)
	wantCode(t, err, CodeTenantSuspended)
}

func TestView_permissions(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		name string
		op   Operation
		ok   bool
	}{
		{"orders", OperationPub, true}, {"orders-eu", OperationPub, true}, {"order", OperationPub, false},
		{"orders", OperationSub, true}, {"orders-eu", OperationSub, false}, {"orders", OperationManage, false},
		{"%RETRY%g1", OperationSub, true}, {"%RETRY%g1", OperationPub, true}, {"%RETRY%g2", OperationPub, false}, {"%DLQ%g1", OperationManage, false},
	} {
		_, err := f.view("slk_narrow", "").Topic(c.name, c.op)
		if (err == nil) != c.ok {
			t.Errorf("%s on %s: %v, want allowed=%v", c.op, c.name, err, c.ok)
		}
	}
	if _, err := f.view("slk_narrow", "").Group("g2", OperationSub); err == nil {
		t.Error("SUB on group g2 passed")
	}
	if _, err := f.view("slk_narrow", "").TopicAny("orders-eu", OperationSub, OperationPub); err != nil {
		t.Errorf("PUB or SUB on orders-eu: %v", err)
	}
}

func TestView_system(t *testing.T) {
	f := newFixture(t)
	v, err := f.System().In("whatever", testRemote)
	if err != nil || !v.System() {
		t.Fatal(err)
	}
	if got, err := v.Topic("bbbbbbbb%orders", OperationManage); err != nil || got != "bbbbbbbb%orders" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := v.Topic("../x", OperationManage); err == nil {
		t.Error("the system may name a path")
	}
}

func TestProperties_mapBothWays(t *testing.T) {
	f := newFixture(t)
	bare := f.view("slk_a", "")
	stored := "TAGS\x01a\x02RETRY_TOPIC\x01aaaaaaaa%orders\x02__SLUICE\x01slk_a,r\x02PGROUP\x01bbbbbbbb%p\x02k\x01v\x02"
	if got, want := string(ShowProperties(bare, []byte(stored))), "TAGS\x01a\x02RETRY_TOPIC\x01orders\x02k\x01v\x02"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	sent := "RETRY_TOPIC\x01orders\x02__SLUICE_X\x01forged\x02REAL_TOPIC\x01bbbbbbbb%x\x02PGROUP\x01p"
	if got, want := string(StoreProperties(bare, []byte(sent))), "RETRY_TOPIC\x01aaaaaaaa%orders\x02PGROUP\x01aaaaaaaa%p\x02"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	same := []byte("a\x01b\x02c\x01d")
	if got := ShowProperties(bare, same); &got[0] != &same[0] {
		t.Error("unchanged properties were copied")
	}
	bare.SetPrefixed(true)
	if got := string(ShowProperties(bare, []byte("RETRY_TOPIC\x01aaaaaaaa%orders\x02"))); got != "RETRY_TOPIC\x01aaaaaaaa%orders\x02" {
		t.Errorf("a client that speaks the namespace got %q", got)
	}
	if got := ShowProperties(bare, []byte("__SLUICE\x01x\x02")); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

func FuzzShowProperties(fz *testing.F) {
	fz.Add([]byte("TAGS\x01a\x02RETRY_TOPIC\x01aaaaaaaa%orders\x02__SLUICE\x01x\x02"))
	fz.Add([]byte("\x02\x02\x01\x01"))
	fz.Fuzz(func(t *testing.T, props []byte) {
		v := &View{p: &Principal{engine: &Engine{cfg: Config{Now: time.Now}}, use: &lastUse{}}, ns: &namespace{id: "aaaaaaaa"}}
		out := ShowProperties(v, props)
		again := ShowProperties(v, out)
		if string(again) != string(out) && len(again) > len(out) {
			t.Errorf("second pass grew: %q -> %q", out, again)
		}
	})
}

func TestRates_limitAndRecover(t *testing.T) {
	f := newFixture(t)
	f.delta(1, 2, &Delta{Namespaces: map[string]Namespace{"aaaaaaaa": {
		TenantID: "ten_a", Limits: Limits{SendMessagesPerSecond: 100},
		Topics: map[string]Topic{"orders": {SendMessagesPerSecond: 10}},
	}}})
	v := f.view("slk_a", "")
	send := func(topic string) error {
		if _, err := v.Topic(topic, OperationPub); err != nil {
			t.Fatal(err)
		}
		return v.TakeSend(1, 10)
	}
	passed := 0
	for range 20 {
		for range 1000 {
			if send("other") == nil {
				passed++
			}
		}
		f.now = f.now.Add(50 * time.Millisecond)
	}
	if passed < 95 || passed > 106 {
		t.Errorf("%d messages passed in 1 s at 100/s", passed)
	}
	f.now = f.now.Add(time.Second)
	if err := send("orders"); err != nil {
		t.Fatal(err)
	}
	err := send("orders")
	wantCode(t, err, CodeRateLimited)
	if r := err.(*Refusal); r.RetryAfter <= 0 || r.RetryAfter > 100*time.Millisecond || r.Limit != "10 messages/s" {
		t.Errorf("refusal %+v", r)
	}
	if err := send("other"); err != nil {
		t.Errorf("another topic of the namespace: %v", err)
	}
	if err := f.view("slk_b", "").TakeSend(1_000_000, 1<<40); err != nil {
		t.Errorf("another namespace without a limit: %v", err)
	}
}

// What is given back may be taken again at once, by namespace and by topic.
func TestRates_returnedIsNotSpent(t *testing.T) {
	f := newFixture(t)
	f.delta(1, 2, &Delta{Namespaces: map[string]Namespace{"aaaaaaaa": {
		TenantID: "ten_a", Limits: Limits{SendMessagesPerSecond: 1, SendBytesPerSecond: 10, RequestsPerSecond: 1},
		Topics: map[string]Topic{"orders": {SendMessagesPerSecond: 1}},
	}}})
	v := f.view("slk_a", "")
	if _, err := v.Topic("orders", OperationPub); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := errors.Join(v.TakeRequest(), v.TakeSend(1, 10)); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		v.ReturnSend(1, 10)
		v.ReturnRequest()
	}
	if err := errors.Join(v.TakeRequest(), v.TakeSend(1, 10)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, v.TakeRequest(), CodeRateLimited)
	wantCode(t, v.TakeSend(1, 10), CodeRateLimited)
}

func TestRates_clockSteppedBackForgetsTheDebt(t *testing.T) {
	var b bucket
	b.rate.Store(10)
	if wait := b.take(testNow, 10); wait != 0 {
		t.Fatal(wait)
	}
	if wait := b.take(testNow.Add(-24*time.Hour), 1); wait != 0 {
		t.Errorf("after a step of a day back the bucket wants %v", wait)
	}
}

func TestRates_concurrentTakesNeverExceed(t *testing.T) {
	var b bucket
	b.rate.Store(1000)
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 8 {
		wg.Go(func() {
			n := 0
			for range 500 {
				if b.take(testNow, 1) == 0 {
					n++
				}
			}
			mu.Lock()
			total += n
			mu.Unlock()
		})
	}
	wg.Wait()
	if total != 51 { // 50 ms worth, and one that goes into debt
		t.Errorf("%d passed at one instant, want 51", total)
	}
}

func BenchmarkAdmission(b *testing.B) {
	v := &View{p: &Principal{engine: &Engine{cfg: Config{Now: time.Now}}, use: &lastUse{}}, ns: &namespace{id: "aaaaaaaa"}}
	v.p.scopes = []scope{{ns: v.ns, ops: OperationPub, topics: []string{"*"}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Topic("orders", OperationPub); err != nil {
			b.Fatal(err)
		}
	}
}
