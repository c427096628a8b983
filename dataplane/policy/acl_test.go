package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// oracle is the order of evaluation in plain words: any rule that denies, else
// any that allows.
func oracle(rules []Rule, q *question) (deny, allow bool) {
	for _, r := range rules {
		if !slices.Contains(q.principals[:], r.Principal) || !slices.Contains(kindsOf(r.Resource), q.kind) {
			continue
		}
		if prefix, wild := strings.CutSuffix(r.Pattern, "*"); wild && !strings.HasPrefix(q.name, prefix) || !wild && r.Pattern != q.name {
			continue
		}
		if !slices.Contains(r.Operations, q.op.String()) || r.ExpiresAt != nil && !r.ExpiresAt.After(q.now()) {
			continue
		}
		inside := len(r.CIDRs) == 0
		for _, c := range r.CIDRs {
			inside = inside || netip.MustParsePrefix(c).Contains(q.remote)
		}
		if inside {
			deny, allow = deny || r.Deny, allow || !r.Deny
		}
	}
	return deny, allow
}

// Whatever rules there are, in whatever order: the look-up decides as a walk
// over all of them does.
func TestACL_decidesAsAWalkOverAllRules(t *testing.T) {
	pick := func(rng *rand.Rand, list ...string) string { return list[rng.IntN(len(list))] }
	denied, allowed, silent := 0, 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		now := testNow
		name := func() string {
			var b strings.Builder
			for range 1 + rng.IntN(4) {
				b.WriteString(pick(rng, "a", "b", "ab", "-"))
			}
			return b.String()
		}
		var rules []Rule
		for i := range rng.IntN(30) {
			r := Rule{
				ID: fmt.Sprint("acl_", i), Deny: rng.IntN(4) == 0, Principal: pick(rng, "slk_a", "sa_a", "*", "slk_b"),
				Resource: pick(rng, "topic", "group", "topic", "group", "namespace"), Pattern: pick(rng, name(), name()+"*", "*"),
			}
			if r.Resource == "namespace" {
				r.Pattern = "*"
			}
			for _, op := range []string{"PUB", "SUB", "MANAGE", "DESCRIBE"} {
				if rng.IntN(2) == 0 {
					r.Operations = append(r.Operations, op)
				}
			}
			if rng.IntN(5) == 0 {
				r.CIDRs = []string{pick(rng, "10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32")}
			}
			if rng.IntN(5) == 0 {
				at := now.Add(time.Duration(rng.IntN(3)-1) * time.Hour)
				r.ExpiresAt = &at
			}
			rules = append(rules, r)
		}
		a, err := compileACL(rules)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			q := question{
				principals: [3]string{"slk_a", pick(rng, "sa_a", ""), everyone}, kind: kindTopic, name: name(),
				op: []Operation{OperationPub, OperationSub, OperationManage, OperationDescribe}[rng.IntN(4)], now: func() time.Time { return now },
				remote: netip.MustParseAddr(pick(rng, "10.1.2.3", "192.0.2.9", "2001:db8::1", "203.0.113.5")),
			}
			if rng.IntN(2) == 0 {
				q.kind = kindGroup
			}
			deny, allow := oracle(rules, &q)
			r := a.decide(&q)
			if deny != (r != nil && r.deny) || !deny && allow != (r != nil) {
				t.Fatalf("seed %d: %+v: rule %+v, want deny %v, allow %v\n%+v", seed, q, r, deny, allow, rules)
			}
			switch {
			case deny:
				denied++
			case allow:
				allowed++
			default:
				silent++
			}
		}
	}
	if min(denied, allowed, silent) < 1000 {
		t.Errorf("hardly tested: %d denied, %d allowed, %d undecided", denied, allowed, silent)
	}
}

// A rule gives what the scopes do not, takes what they give, and can be taken
// back; what waits hears of it.
func TestView_rules(t *testing.T) {
	f := newFixture(t)
	revision := f.Revision()
	set := func(rules ...Rule) {
		t.Helper()
		ns := f.snapshot.Namespaces["aaaaaaaa"]
		ns.ACL = rules
		f.snapshot.Namespaces["aaaaaaaa"] = ns
		revision++
		f.apply(revision)
	}
	waiting := f.view("slk_a", "")
	if _, err := waiting.Topic("orders", OperationSub); err != nil || waiting.Still() != nil {
		t.Fatal(err, waiting.Still())
	}
	set(Rule{ID: "acl_1", Deny: true, Principal: "slk_a", Resource: "topic", Pattern: "ord*", Operations: []string{"SUB"}})
	wantCode(t, waiting.Still(), CodePermissionDenied)
	_, err := f.view("slk_a", "").Topic("orders", OperationSub)
	wantCode(t, err, CodePermissionDenied)
	if !strings.Contains(err.Error(), "acl_1") {
		t.Errorf("the refusal does not name the rule: %v", err)
	}
	if _, err := f.view("slk_a", "").Topic("orders", OperationPub); err != nil {
		t.Errorf("another operation: %v", err)
	}
	// Rules of one namespace say nothing of another.
	if _, err := f.view("slk_b", "").Topic("orders", OperationSub); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	set(Rule{ID: "acl_2", Deny: true, Principal: "*", Resource: "topic", Pattern: "*", Operations: []string{"SUB"}, CIDRs: []string{"203.0.113.0/24"}})
	if waiting.Still() != nil {
		t.Errorf("a rule for other addresses: %v", waiting.Still())
	}
	set()
	if waiting.Still() != nil {
		t.Errorf("without rules: %v", waiting.Still())
	}
}

// A Judge says what brokers do: for a key without a scope in the namespace, too,
// for which no rule opens the door.
func TestJudge_decidesAsViewsDo(t *testing.T) {
	rules := []Rule{
		{ID: "acl_1", Principal: "*", Resource: "namespace", Pattern: "*", Operations: []string{"DESCRIBE"}},
		{ID: "acl_2", Deny: true, Principal: "usr_1", Resource: "topic", Pattern: "pay*", Operations: []string{"PUB"}},
	}
	j, err := NewJudge("aaaaaaaa", rules)
	if err != nil {
		t.Fatal(err)
	}
	here := Key{TenantID: "tnt_a", Scopes: []Scope{{NamespaceID: "aaaaaaaa", Permissions: []string{"PUB"}, Topics: []string{"*"}}}}
	elsewhere := Key{TenantID: "tnt_a", Scopes: []Scope{{NamespaceID: "bbbbbbbb", Permissions: []string{"PUB"}, Topics: []string{"*"}}}}
	owned := here
	owned.OwnerID = "usr_1"
	for _, c := range []struct {
		name, by string
		q        Question
		allowed  bool
	}{
		{"scope", DecidedByScope, Question{KeyID: "slk_1", Key: here, Operation: "PUB"}, true},
		{"rule for everything", DecidedByRule, Question{KeyID: "slk_1", Key: here, Operation: "DESCRIBE"}, true},
		{"nothing", DecidedByDefault, Question{KeyID: "slk_1", Key: here, Operation: "SUB"}, false},
		{"no scope here", DecidedByDefault, Question{KeyID: "slk_1", Key: elsewhere, Operation: "DESCRIBE"}, false},
		{"no scope here, a role", DecidedByRule, Question{KeyID: "slk_1", Key: elsewhere, Operation: "DESCRIBE", Role: true}, true},
		{"rule for the owner", DecidedByRule, Question{KeyID: "slk_1", Key: owned, Operation: "PUB"}, false},
		{"rule for the owner over the key's role", DecidedByRule, Question{KeyID: "slk_1", Key: owned, Operation: "PUB", Role: true}, false},
		{"person", DecidedByRole, Question{PersonID: "usr_2", Role: true, Operation: "PUB"}, true},
		{"person denied", DecidedByRule, Question{PersonID: "usr_1", Role: true, Operation: "PUB"}, false},
		{"person without a role", DecidedByDefault, Question{PersonID: "usr_2", Operation: "PUB"}, false},
	} {
		c.q.Resource, c.q.Name, c.q.Remote, c.q.Now = "topic", "payments", netip.MustParseAddr("10.0.0.1"), testNow
		if d, err := j.Decide(c.q); err != nil || d.Allowed != c.allowed || d.DecidedBy != c.by || d.Reason == "" {
			t.Errorf("%s: %+v, %v", c.name, d, err)
		}
	}
	if _, err := NewJudge("aaaaaaaa", []Rule{{ID: "acl_3", Principal: "*", Resource: "namespace", Pattern: "a*", Operations: []string{"PUB"}}}); err == nil {
		t.Error("a rule for a part of the namespace passes")
	}
}

// The rules of a snapshot are compiled once: a change elsewhere leaves them.
func TestApply_keepsCompiledRules(t *testing.T) {
	f := newFixture(t)
	ns := f.snapshot.Namespaces["aaaaaaaa"]
	ns.ACL = []Rule{{ID: "acl_1", Principal: "*", Resource: "topic", Pattern: "x", Operations: []string{"PUB"}}}
	f.snapshot.Namespaces["aaaaaaaa"] = ns
	revision := f.Revision() + 1
	f.apply(revision)
	before := f.current.Load().namespaces["aaaaaaaa"].acl.Load()
	raw, err := SealDelta(f.signing, "c1", revision, revision+1, &Delta{Namespaces: map[string]Namespace{"bbbbbbbb": {TenantID: "ten_b"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Apply(raw); err != nil {
		t.Fatal(err)
	}
	if after := f.current.Load().namespaces["aaaaaaaa"].acl.Load(); after != before || len(after.rules) != 1 {
		t.Error("the rules were compiled again")
	}
}

// manyRules is the policy of the largest cluster: 1,000,000 rules over 10,000
// tenants, one key each.
func manyRules(tenants, rules int) *Snapshot {
	s := &Snapshot{Keys: map[string]Key{}, Namespaces: map[string]Namespace{}}
	for n := range tenants {
		ns := fmt.Sprintf("ns%08d", n)
		p := Namespace{TenantID: fmt.Sprint("ten_", n)}
		for i := range rules {
			r := Rule{ID: fmt.Sprintf("acl_%d_%d", n, i), Deny: i%10 == 9, Principal: fmt.Sprint("slk_", n), Resource: "topic",
				Pattern: fmt.Sprintf("orders-%d", i), Operations: []string{"PUB", "SUB"}}
			switch i % 4 {
			case 1:
				r.Pattern += "-*"
			case 2:
				r.Principal = "*"
			case 3:
				r.Resource, r.Principal = "group", fmt.Sprint("sa_", n)
			}
			p.ACL = append(p.ACL, r)
		}
		s.Namespaces[ns] = p
		s.Keys[fmt.Sprint("slk_", n)] = Key{Secret: "secret", TenantID: p.TenantID, OwnerID: fmt.Sprint("sa_", n), Scopes: []Scope{
			{NamespaceID: ns, Permissions: []string{"PUB"}, Topics: []string{"logs-*"}},
		}}
	}
	return s
}

func TestDecide_allocatesNothing(t *testing.T) {
	f := newFixture(t)
	f.snapshot = manyRules(3, 100)
	f.apply(f.Revision() + 1)
	v := f.view("slk_1", "")
	if n := testing.AllocsPerRun(100, func() {
		v.grants = 0
		if ok, _ := v.decide(kindTopic, "orders-41-eu", OperationPub); !ok {
			t.Error("refused")
		}
		if ok, _ := v.decide(kindTopic, "logs-1", OperationPub); !ok {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	e := &Engine{}
	e.cfg.Now = time.Now
	s := manyRules(10_000, 100)
	c := compile(e, 1, s, nil)
	names := []string{"orders-40", "orders-41-eu", "orders-99-x", "logs-1", "none"}
	views := make([]*View, 10_000)
	for n := range views {
		var err error
		if views[n], err = c.principals[fmt.Sprint("slk_", n)].In("", testRemote); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	runtime.GC() // not in the middle of what is measured
	b.ResetTimer()
	for n := range b.N {
		views[n*7919%len(views)].decide(kindTopic, names[n%len(names)], OperationPub)
	}
}

// Longer names than any are matched by nothing, and rules about them are no
// error.
func TestACL_longNames(t *testing.T) {
	long := strings.Repeat("x", longestName+1)
	a, err := compileACL([]Rule{
		{ID: "long", Principal: "*", Resource: "topic", Pattern: long, Operations: []string{"PUB"}},
		{ID: "prefix", Principal: "*", Resource: "topic", Pattern: long + "*", Operations: []string{"PUB"}},
		{ID: "most", Principal: "*", Resource: "topic", Pattern: long[1:] + "*", Operations: []string{"PUB"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	q := question{principals: [3]string{"", "", everyone}, kind: kindTopic, op: OperationPub, now: time.Now}
	for name, want := range map[string]bool{long: false, long[1:]: true, long[2:]: false, "": false} {
		if q.name = name; (a.decide(&q) != nil) != want {
			t.Errorf("a name of %d bytes: allowed %v", len(name), !want)
		}
	}
}
