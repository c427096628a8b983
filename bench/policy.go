package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sluicemq/sluice/dataplane/policy"
)

const (
	manyTenants    = 10_000
	rulesEach      = 100 // 1,000,000 in all
	policyCluster  = "c"
	policyRevision = 1
)

// largest is the policy of the largest cluster: a million rules over ten
// thousand tenants with a key each.
func largest() *policy.Snapshot {
	s := &policy.Snapshot{Keys: map[string]policy.Key{}, Namespaces: map[string]policy.Namespace{}}
	for n := range manyTenants {
		p := policy.Namespace{TenantID: fmt.Sprint("ten_", n)}
		for i := range rulesEach {
			r := policy.Rule{ID: fmt.Sprintf("acl_%d_%d", n, i), Deny: i%10 == 9, Principal: fmt.Sprint("slk_", n), Resource: "topic",
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
		s.Namespaces[namespaceOf(n)] = p
		s.Keys[fmt.Sprint("slk_", n)] = policy.Key{Secret: secretOf(n), TenantID: p.TenantID, OwnerID: fmt.Sprint("sa_", n), Scopes: []policy.Scope{
			{NamespaceID: namespaceOf(n), Permissions: []string{"PUB"}, Topics: []string{"logs-*"}},
		}}
	}
	return s
}

func namespaceOf(n int) string { return fmt.Sprintf("ns%08d", n) }
func secretOf(n int) string    { return fmt.Sprintf("sls_%032d", n) }

type engine struct {
	*policy.Engine
	key ed25519.PrivateKey
}

func openEngine(dir string) (*engine, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	e, err := policy.Open(policy.Config{Dir: dir, Cluster: policyCluster, SystemSecret: make([]byte, 32), Trusted: []ed25519.PublicKey{public}, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	return &engine{e, private}, err
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// policySize applies the largest policy and changes of it, as brokers do.
func policySize(_ context.Context, w *workplace) ([]figure, error) {
	e, err := openEngine(filepath.Join(w.dir, "policy"))
	if err != nil {
		return nil, err
	}
	before := heap()
	sealed, err := policy.SealSnapshot(e.key, policyCluster, policyRevision, largest())
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if _, err := e.Apply(sealed); err != nil {
		return nil, err
	}
	whole := time.Since(begin)
	size := len(sealed)
	sealed = nil
	held := (heap() - before) / (1 << 30)

	var deltas []time.Duration
	for i := range 50 {
		n := rand.IntN(manyTenants)
		p := policy.Namespace{TenantID: fmt.Sprint("ten_", n)}
		for j := range rulesEach {
			p.ACL = append(p.ACL, policy.Rule{ID: fmt.Sprint("acl_", i, "_", j), Principal: "*", Resource: "topic", Pattern: fmt.Sprint("t", j), Operations: []string{"PUB"}})
		}
		at := uint64(policyRevision + i)
		sealed, err := policy.SealDelta(e.key, policyCluster, at, at+1, &policy.Delta{Namespaces: map[string]policy.Namespace{namespaceOf(n): p}})
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if _, err := e.Apply(sealed); err != nil {
			return nil, err
		}
		deltas = append(deltas, time.Since(begin))
	}
	runtime.KeepAlive(e)
	return []figure{
		{Row: "access/policy full snapshot applied", Ours: whole.Seconds(), Unit: "s", Goal: 5, Note: fmt.Sprintf("%d MiB sealed, 1,000,000 rules", size>>20)},
		{Row: "access/policy delta applied, p99", Ours: quantile(deltas, 0.99).Seconds(), Unit: "s", Goal: 1},
		{Row: "access/policy memory for 1,000,000 rules", Ours: held, Unit: "GiB", Goal: 1},
	}, nil
}

// decisions measures one authorisation: of a tenant that the caches of the
// processor know, and of another one each time.
func decisions(_ context.Context, w *workplace) ([]figure, error) {
	e, err := openEngine(filepath.Join(w.dir, "decisions"))
	if err != nil {
		return nil, err
	}
	sealed, err := policy.SealSnapshot(e.key, policyCluster, policyRevision, largest())
	if err != nil {
		return nil, err
	}
	if _, err := e.Apply(sealed); err != nil {
		return nil, err
	}
	views := make([]*policy.View, manyTenants)
	for n := range views {
		ext := map[string]string{}
		policy.SignRemoting(ext, nil, fmt.Sprint("slk_", n), []byte(secretOf(n)))
		p, err := e.AuthenticateRemoting(policy.RemotingRequest{Fields: policy.FieldsOf(ext), Remote: netip.MustParseAddr("10.0.0.1")})
		if err != nil {
			return nil, err
		}
		if views[n], err = p.In("", netip.MustParseAddr("10.0.0.1")); err != nil {
			return nil, err
		}
		if _, err := views[n].Topic("orders-41-eu", policy.OperationPub); err != nil {
			return nil, err
		}
	}
	var wrong error
	decide := func(next func(i int) *policy.View) testing.BenchmarkResult {
		return testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if err := next(i).Still(); err != nil { // the key lives, the namespace is open, a rule or scope allows it
					wrong = err
				}
			}
		})
	}
	order := rand.Perm(manyTenants)
	hot := decide(func(int) *policy.View { return views[0] })
	cold := decide(func(i int) *policy.View { return views[order[i%manyTenants]] })
	return []figure{
		{Row: "access/decisions one tenant", Ours: float64(hot.NsPerOp()), Unit: "ns", Goal: 1000},
		{Row: "access/decisions another tenant each time", Ours: float64(cold.NsPerOp()), Unit: "ns", Goal: 1000, Note: "10,000 tenants in random order"},
		{Row: "access/decisions allocations", Ours: float64(hot.AllocsPerOp() + cold.AllocsPerOp()), Unit: "", Goal: 0},
	}, wrong
}
