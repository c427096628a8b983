package denials

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/controldb"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/tenant"
)

var (
	testNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	secret  = []byte("0123456789abcdef0123456789abcdef")
)

// node is a broker's policy engine, asked without a network.
type node struct {
	*policy.Engine
	name string
}

func (n node) Name() string { return n.name }

func (n node) Denials(_ context.Context, ack string) (body []byte, signature string, err error) {
	return n.Engine.Denials(ack)
}

func newNode(t *testing.T, name string) node {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	e, err := policy.Open(policy.Config{Dir: t.TempDir(), Cluster: "c1", SystemSecret: secret, Trusted: []ed25519.PublicKey{public},
		Now: func() time.Time { return testNow }, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	raw, err := policy.SealSnapshot(private, "c1", 1, &policy.Snapshot{Keys: map[string]policy.Key{
		"slk_a": {Secret: "sa", TenantID: "ten_a", OwnerID: "usr_a"}, "slk_b": {Secret: "sb", TenantID: "ten_b", OwnerID: "sa_b"},
	}})
	must(t, err)
	_, err = e.Apply(raw)
	must(t, err)
	return node{e, name}
}

// refuse makes the node refuse a wrong signature.
func (n node) refuse(t *testing.T, key, from string) {
	t.Helper()
	addr := netip.MustParseAddr(from)
	ext := map[string]string{}
	policy.SignRemoting(ext, nil, key, []byte("wrong"))
	_, err := n.AuthenticateRemoting(policy.RemotingRequest{Fields: policy.FieldsOf(ext), Remote: addr})
	var r *policy.Refusal
	if !errors.As(err, &r) {
		t.Fatal(err)
	}
	n.Denied(r, addr, "req-"+from)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// events are all of a tenant, newest first, whose chain is intact.
func events(t *testing.T, a *controldb.Audit, tenantID tenant.ID) []controldb.AuditEvent {
	t.Helper()
	list, err := a.List(t.Context(), tenantID, controldb.AuditFilter{}, tenant.Page{Size: 1000})
	must(t, err)
	head, err := a.Verify(t.Context(), tenantID)
	if err != nil || head.Sequence != int64(len(list)) {
		t.Errorf("%d events, head %+v: %v", len(list), head, err)
	}
	return list
}

// broken is a log, and nodes, that fail at one step: as a process that dies there.
type broken struct {
	Log
	before, after bool
}

var errDied = errors.New("the process died")

func (b *broken) AppendOnce(ctx context.Context, tenantID tenant.ID, list ...controldb.AuditEvent) error {
	if b.before {
		return errDied
	}
	if err := b.Log.AppendOnce(ctx, tenantID, list...); err != nil || b.after {
		return errors.Join(err, errDied)
	}
	return nil
}

func newCollector(log Log, nodes ...Node) *Collector {
	return New(Config{Secret: secret, Now: func() time.Time { return testNow }, Logger: slog.New(slog.DiscardHandler)}, nodes, log)
}

// A denial is one event whatever dies between the pull and the acknowledgement,
// and however many collect at a time.
func TestCollect_onceWhateverDies(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		a := controldb.NewAudit(db)
		n, m := newNode(t, "broker"), newNode(t, "nameserver")
		for range 3 {
			n.refuse(t, "slk_a", "192.0.2.7")
		}
		n.refuse(t, "slk_b", "192.0.2.8")
		n.refuse(t, "slk_nobody", "192.0.2.9")
		m.refuse(t, "slk_a", "192.0.2.7")
		// Before anything is written, after the first tenant was, after all was but the
		// acknowledgement.
		for _, log := range []*broken{{Log: a, before: true}, {Log: a, after: true}, {Log: a, after: true}} {
			if err := newCollector(log, n, m).Collect(t.Context()); !errors.Is(err, errDied) {
				t.Errorf("it did not die: %v", err)
			}
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := newCollector(a, n, m).Collect(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		list := events(t, a, "ten_a")
		if len(list) != 2 {
			t.Fatalf("%+v", list)
		}
		one, three := list[0], list[1]
		if one.Count == 3 {
			one, three = three, one
		}
		want := controldb.AuditEvent{ID: three.ID, TenantID: "ten_a", At: testNow, ActorType: "user", ActorID: "usr_a", KeyID: "slk_a", SourceIP: "192.0.2.7",
			Action: "connect", TargetType: "api_key", TargetID: "slk_a", Denied: true, Reason: "unauthenticated", RequestID: "req-192.0.2.7", Count: 3, FirstAt: testNow,
			Sequence: three.Sequence, Hash: three.Hash, PreviousHash: three.PreviousHash}
		if three != want {
			t.Errorf("got  %+v\nwant %+v", three, want)
		}
		if one.Count != 1 {
			t.Errorf("of the name server: %+v", one)
		}
		if list := events(t, a, "ten_b"); len(list) != 1 || list[0].ActorType != "service_account" || list[0].ActorID != "sa_b" {
			t.Errorf("%+v", list)
		}
		must(t, newCollector(a, n, m).Collect(t.Context()))
		if len(events(t, a, "ten_a")) != 2 {
			t.Error("told again")
		}
	})
}

// A node that does not answer, or whose report was changed on its way, holds up
// no other.
func TestCollect_oneBadNode(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		a := controldb.NewAudit(db)
		bad, good := newNode(t, "bad"), newNode(t, "good")
		bad.refuse(t, "slk_a", "192.0.2.7")
		good.refuse(t, "slk_a", "192.0.2.7")
		if err := newCollector(a, forged{bad}, good).Collect(t.Context()); !errors.Is(err, ErrSignature) {
			t.Errorf("%v", err)
		}
		if list := events(t, a, "ten_a"); len(list) != 1 {
			t.Errorf("%+v", list)
		}
	})
}

type forged struct{ node }

func (f forged) Denials(ctx context.Context, ack string) (body []byte, signature string, err error) {
	body, signature, err = f.node.Denials(ctx, ack)
	return append(body, ' '), signature, err
}

// A flood of many kinds is few events, and says how many there were.
func TestCollect_floodIsFewEvents(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		a := controldb.NewAudit(db)
		n := newNode(t, "broker")
		for i := range 2000 {
			n.refuse(t, "slk_a", fmt.Sprint("10.0.", i/200, ".", i%200))
		}
		must(t, newCollector(a, n).Collect(t.Context()))
		list := events(t, a, "ten_a")
		var total int64
		others := 0
		for _, e := range list {
			total += e.Count
			if e.Reason == policy.CodeOthers && e.ActorType == "system" {
				others++
			}
		}
		if len(list) > 40 || total != 2000 || others != 1 {
			t.Errorf("%d events of %d refusals, %d of the others", len(list), total, others)
		}
	})
}
