package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

// report asks for what was denied, as the control plane does.
func (f *fixture) report(ack string) DenialReport {
	f.t.Helper()
	body, signature, err := f.Denials(ack)
	if err != nil || signature != SignDenials(testSecret, body) || signature == SignDenials([]byte("another secret, long enough"), body) {
		f.t.Fatalf("signature %q, %v", signature, err)
	}
	var r DenialReport
	if err := json.Unmarshal(body, &r); err != nil {
		f.t.Fatal(err)
	}
	return r
}

// refused hands the error of a request to the engine as a front does.
func (f *fixture) refused(err error, id string) {
	f.t.Helper()
	var r *Refusal
	if !errors.As(err, &r) {
		f.t.Fatalf("%v is no refusal", err)
	}
	f.Denied(r, testRemote, id)
}

func TestDenials_eachKind(t *testing.T) {
	f := newFixture(t)
	past := testNow.Add(-time.Hour)
	k := f.snapshot.Keys["slk_a"]
	k.OwnerID = "usr_1"
	f.snapshot.Keys["slk_a"] = k
	f.snapshot.Keys["slk_old"] = Key{Secret: "secret-old", TenantID: "ten_a", ExpiresAt: &past, Scopes: []Scope{all("aaaaaaaa")}}
	f.snapshot.Keys["slk_off"] = Key{Secret: "secret-off", TenantID: "ten_a", Disabled: true, Scopes: []Scope{all("aaaaaaaa")}}
	f.snapshot.Keys["slk_empty"] = Key{TenantID: "ten_a", Scopes: []Scope{all("aaaaaaaa")}}
	f.snapshot.Namespaces["aaaaaaaa"] = Namespace{TenantID: "ten_a", ACL: []Rule{{ID: "acl_1", Deny: true, Principal: "slk_a", Resource: "topic", Pattern: "closed", Operations: []string{"PUB"}}}}
	f.apply(2)
	call := func(key, secret string) func() error {
		return func() error { _, err := f.call(key, secret); return err }
	}
	claims := jwt.MapClaims{"iss": "sluice", "aud": "data", "exp": testNow.Add(-time.Hour).Unix(), "iat": testNow.Add(-2 * time.Hour).Unix(), "jti": "jti_1", "key_id": "slk_a"}
	for _, c := range []struct {
		name string
		do   func() error
		want *Denial // nil: told to nobody
	}{
		{"wrong signature", call("slk_a", "wrong"), &Denial{TenantID: "ten_a", KeyID: "slk_a", OwnerID: "usr_1", Action: DeniedConnect, Kind: "api_key", Name: "slk_a", Code: CodeUnauthenticated}},
		{"wrong signature, gRPC", func() error {
			_, err := f.AuthenticateGRPC(GRPCRequest{Authorization: "MQv2-HMAC-SHA1 Credential=slk_b/x, SignedHeaders=x-mq-date-time, Signature=00", DateTime: "now", Remote: testRemote})
			return err
		}, &Denial{TenantID: "ten_b", KeyID: "slk_b", Action: DeniedConnect, Kind: "api_key", Name: "slk_b", Code: CodeUnauthenticated}},
		{"unknown key", call("slk_nobody", "x"), nil},
		{"no key", call("", "x"), nil},
		{"wrong signature as the system", call(SystemKeyID, "x"), nil},
		{"a key that may not sign any more", call("slk_empty", ""), &Denial{TenantID: "ten_a", KeyID: "slk_empty", Action: DeniedConnect, Kind: "api_key", Name: "slk_empty", Code: CodeUnauthenticated}},
		{"revoked", call("slk_dead", "secret-dead"), &Denial{TenantID: "ten_a", KeyID: "slk_dead", Action: DeniedConnect, Kind: "api_key", Name: "slk_dead", Code: CodeKeyRevoked}},
		{"disabled", call("slk_off", "secret-off"), &Denial{TenantID: "ten_a", KeyID: "slk_off", Action: DeniedConnect, Kind: "api_key", Name: "slk_off", Code: CodeKeyDisabled}},
		{"expired", call("slk_old", "secret-old"), &Denial{TenantID: "ten_a", KeyID: "slk_old", Action: DeniedConnect, Kind: "api_key", Name: "slk_old", Code: CodeKeyExpired}},
		{"address", call("slk_local", "secret-local"), &Denial{TenantID: "ten_a", KeyID: "slk_local", Action: DeniedConnect, Kind: "api_key", Name: "slk_local", Code: CodeAddressNotAllowed}},
		{"another tenant's namespace", func() error { _, err := f.principal("slk_a").In("bbbbbbbb", testRemote); return err },
			&Denial{TenantID: "ten_a", KeyID: "slk_a", OwnerID: "usr_1", Action: DeniedConnect, Kind: "namespace", Name: "bbbbbbbb", Code: CodeNamespaceMismatch}},
		{"a name in another tenant's namespace", func() error { _, err := f.view("slk_a", "").Topic("bbbbbbbb%orders", OperationSub); return err },
			&Denial{TenantID: "ten_a", KeyID: "slk_a", OwnerID: "usr_1", NamespaceID: "aaaaaaaa", Action: DeniedConnect, Kind: "namespace", Name: "bbbbbbbb", Code: CodeNamespaceMismatch}},
		{"no namespace at all", func() error { _, err := f.principal("slk_steal").In("", testRemote); return err },
			&Denial{TenantID: "ten_a", KeyID: "slk_steal", Action: DeniedConnect, Kind: "namespace", Code: CodePermissionDenied}},
		{"no permission", func() error { _, err := f.view("slk_narrow", "").Topic("secret", OperationPub); return err },
			&Denial{TenantID: "ten_a", KeyID: "slk_narrow", NamespaceID: "aaaaaaaa", Action: DeniedPublish, Kind: "topic", Name: "secret", Code: CodePermissionDenied}},
		{"no permission on a group", func() error { _, err := f.view("slk_narrow", "").Group("g2", OperationSub); return err },
			&Denial{TenantID: "ten_a", KeyID: "slk_narrow", NamespaceID: "aaaaaaaa", Action: DeniedSubscribe, Kind: "group", Name: "g2", Code: CodePermissionDenied}},
		{"a rule", func() error { _, err := f.view("slk_a", "").Topic("closed", OperationPub); return err },
			&Denial{TenantID: "ten_a", KeyID: "slk_a", OwnerID: "usr_1", NamespaceID: "aaaaaaaa", Action: DeniedPublish, Kind: "topic", Name: "closed", Code: CodePermissionDenied}},
		{"an operators' request", func() error { return f.principal("slk_b").RefuseRequest("17", "no") },
			&Denial{TenantID: "ten_b", KeyID: "slk_b", Action: DeniedManage, Kind: "request", Name: "17", Code: CodePermissionDenied}},
		{"a token that has expired", func() error {
			_, err := f.AuthenticateGRPC(GRPCRequest{Authorization: "Bearer " + f.token("k1", f.tokens, jwt.SigningMethodEdDSA, claims), Remote: testRemote})
			return err
		}, &Denial{TenantID: "ten_a", KeyID: "slk_a", OwnerID: "usr_1", Action: DeniedConnect, Kind: "api_key", Name: "slk_a", Code: CodeTokenInvalid}},
		{"a token that somebody else signed", func() error {
			_, err := f.AuthenticateGRPC(GRPCRequest{Authorization: "Bearer " + f.token("k1", f.signing, jwt.SigningMethodEdDSA, claims), Remote: testRemote})
			return err
		}, nil},
		{"a name that cannot be", func() error { _, err := f.view("slk_a", "").Topic("a b", OperationPub); return err }, nil},
		{"a reserved name", func() error { _, err := f.view("slk_a", "").Topic("TBW102", OperationPub); return err }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.refused(c.do(), "req-1")
			r := f.report("")
			defer f.report(r.ID)
			if c.want == nil {
				if len(r.Denials) != 0 {
					t.Errorf("told: %+v", r.Denials)
				}
				return
			}
			if len(r.Denials) != 1 || r.ID == "" {
				t.Fatalf("%+v", r)
			}
			got, want := r.Denials[0], *c.want
			if got.ID == "" || !got.First.Equal(testNow) || !got.Last.Equal(testNow) {
				t.Errorf("%+v", got)
			}
			want.ID, want.First, want.Last, want.Address, want.RequestID, want.Count = got.ID, got.First, got.Last, testRemote.String(), "req-1", 1
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
		f.denials = newDenials(f.cfg.Now)
	}
	if _, err := f.view("slk_a", "").Topic("orders", OperationPub); err != nil || len(f.report("").Denials) != 0 {
		t.Error("what is allowed is a denial", err)
	}
}

// A report comes again, as it was, until it is acknowledged; what was denied
// meanwhile comes in the next.
func TestDenials_untilAcknowledged(t *testing.T) {
	f := newFixture(t)
	deny := func(topic string) {
		_, err := f.view("slk_narrow", "").Topic(topic, OperationPub)
		f.refused(err, "")
	}
	if r := f.report(""); r.ID != "" {
		t.Errorf("before any: %+v", r)
	}
	deny("a")
	deny("a")
	first := f.report("")
	if len(first.Denials) != 1 || first.Denials[0].Count != 2 {
		t.Fatalf("%+v", first)
	}
	deny("b")
	for _, ack := range []string{"", "another"} {
		if again := f.report(ack); again.ID != first.ID || !slices.Equal(again.Denials, first.Denials) {
			t.Errorf("it comes again as %+v", again)
		}
	}
	second := f.report(first.ID)
	if len(second.Denials) != 1 || second.Denials[0].Name != "b" || second.Denials[0].ID == first.Denials[0].ID {
		t.Errorf("the next: %+v", second)
	}
	if late := f.report(first.ID); late.ID != second.ID {
		t.Errorf("a late acknowledgement of another one: %+v", late)
	}
	if r := f.report(second.ID); r.ID != "" || len(r.Denials) != 0 {
		t.Errorf("after all: %+v", r)
	}
}

// Names that clients make up neither fill the memory nor get into the log as
// they are.
func TestDenials_bounded(t *testing.T) {
	f := newFixture(t)
	for i := range 10_000 {
		_, err := f.principal("slk_a").In(fmt.Sprint("ns", i, strings.Repeat("é\x00\xff", 500)), netip.Addr{})
		f.refused(err, "")
	}
	f.refused(f.principal("slk_b").RefuseRequest("17", "no"), "")
	r := f.report("")
	var total int64
	for _, d := range r.Denials {
		if d.TenantID == "ten_a" {
			total += d.Count
		}
		if utf8.RuneCountInString(d.Name) > deniedName+1 || strings.ContainsRune(d.Name, 0) || !utf8.ValidString(d.Name) {
			t.Errorf("a name of %d bytes: %q", len(d.Name), d.Name)
		}
	}
	if len(r.Denials) != deniedKinds+2 || total != 10_000 {
		t.Errorf("%d kinds, %d in all", len(r.Denials), total)
	}
	if i := slices.IndexFunc(r.Denials, func(d Denial) bool { return d.Code == CodeOthers }); i < 0 || r.Denials[i].TenantID != "ten_a" || r.Denials[i].Count != 10_000-deniedKinds {
		t.Errorf("the others: %+v", r.Denials)
	}
}

func TestDenials_manyAtOnce(t *testing.T) {
	f := newFixture(t)
	views := []*View{f.view("slk_narrow", ""), f.view("slk_narrow", ""), f.view("slk_narrow", ""), f.view("slk_narrow", "")}
	var wg sync.WaitGroup
	done := make(chan struct{})
	var total int64
	pulled := make(chan struct{})
	go func() {
		defer close(pulled)
		ack := ""
		for end := false; ; {
			select {
			case <-done:
				end = true
			default:
			}
			r := f.report(ack)
			ack = r.ID
			for _, d := range r.Denials {
				total += d.Count
			}
			if end && r.ID == "" {
				return
			}
		}
	}()
	for _, v := range views {
		wg.Go(func() {
			for i := range 500 {
				_, err := v.Topic(fmt.Sprint("t", i%50), OperationPub)
				var r *Refusal
				if errors.As(err, &r) {
					f.Denied(r, testRemote, "")
				}
			}
		})
	}
	wg.Wait()
	close(done)
	<-pulled
	for _, c := range f.denials.tally.TakeAll() {
		total += c.Count
	}
	if total != 4*500 {
		t.Errorf("%d of 2000 were told", total)
	}
}

// What is allowed costs nothing.
func TestTopic_allowedCountsNothing(t *testing.T) {
	f := newFixture(t)
	v := f.view("slk_a", "")
	if _, err := v.Topic("orders", OperationPub); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		v.grants = 0
		if v.allow(kindTopic, "orders", OperationPub) != nil || v.p.admit(testRemote) != nil {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDenied(b *testing.B) {
	e := &Engine{denials: newDenials(time.Now)}
	p := &Principal{engine: e, id: "slk_1", tenant: "ten_1"}
	r := errUnauthenticated().by(p, nil, DeniedConnect, kindKey, p.id)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e.Denied(r, testRemote, "00000000-00000000")
		}
	})
}

// What was not acknowledged when a process ended is told by the next one, as it
// was; also by one after that, if the next was killed.
func TestDenials_survivePlannedEnds(t *testing.T) {
	f := newFixture(t)
	deny := func(topic string) {
		_, err := f.view("slk_narrow", "").Topic(topic, OperationPub)
		f.refused(err, "")
	}
	deny("a")
	told := f.report("")
	deny("a") // soon after: it waits
	deny("b")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.dir, denialsName)
	for range 2 { // the first of them is killed
		f.reopen()
		f.snapshot.Issuer += "x"
		f.apply(f.Revision() + 1)
		r := f.report("")
		if len(r.Denials) != 3 || !slices.Contains(r.Denials, told.Denials[0]) {
			t.Errorf("%+v", r.Denials)
		}
	}
	f.report(f.report("").ID)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file stays although all was told")
	}

	deny("c")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range raw {
		if at%7 != 0 && at > 80 {
			continue
		}
		bad := slices.Clone(raw)
		bad[at] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := loadDenials(f.dir, testSecret); err == nil {
			t.Errorf("byte %d changed: %+v", at, list)
		}
	}
	for n := range 90 {
		if err := os.WriteFile(path, raw[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadDenials(f.dir, testSecret); err == nil {
			t.Errorf("cut at %d", n)
		}
	}
}
