package billingdb

import (
	"context"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/billing"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
)

var testNow = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// onBoth runs a test on SQLite and on MariaDB, each in a database of its own.
func onBoth(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		clock := testNow
		test(t, New(db, func() time.Time { clock = clock.Add(time.Millisecond); return clock }))
	})
}

func cell(n int) billing.Cell {
	return billing.Cell{NamespaceID: "nsaaaaaa", Topic: fmt.Sprint("t", n%3), Group: fmt.Sprint("g", n%2), APIKeyID: "slk_1",
		Class: billing.ClassNormal, Protocol: billing.ProtocolGRPC}
}

func rollAll(t *testing.T, s *Store) {
	t.Helper()
	for {
		n, err := s.Rollup(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func sum(t *testing.T, s *Store, q billing.UsageQuery) billing.Quantities {
	t.Helper()
	records, err := s.Usage(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	out := billing.Quantities{}
	for _, r := range records {
		out.Add(r.Quantities)
	}
	return out
}

// Reports of growing values, repeated, shuffled and partly lost, give the same
// tables as each final value once; every level has the same sums.
func TestMerge_anyOrderGivesTheFinalValues(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		rnd := mathrand.New(mathrand.NewPCG(1, 2))
		type report struct {
			source string
			cells  []MinuteCell
		}
		var reports []report
		want := map[string]*big.Int{"ten_a": new(big.Int), "ten_b": new(big.Int)}
		first := minuteOf(testNow) - 2000 // over hours, days and a month's edge
		for src := range 3 {
			for range 12 {
				minute := first + int64(rnd.IntN(2500))*7 + int64(src) // sources share cells, never a (source, minute) twice
				tenantID := []string{"ten_a", "ten_b"}[rnd.IntN(2)]
				n := rnd.IntN(6)
				final := uint64(0)
				for range 4 {
					final += uint64(rnd.IntN(1 << 30))
					reports = append(reports, report{fmt.Sprint("source", src, minute), []MinuteCell{{Minute: minute, TenantID: tenantID, Cell: cell(n),
						Counts: map[billing.Counter]uint64{billing.MessagesIn: final, billing.StoredByteMillis: final << 28}}}})
				}
				want[tenantID].Add(want[tenantID], new(big.Int).SetUint64(final))
			}
		}
		order := append(append([]report{}, reports...), reports...)
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i, r := range order {
			if err := s.Merge(t.Context(), Source{ID: r.source, Broker: "b", Kind: "process"}, r.cells); err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 {
				rollAll(t, s)
			}
		}
		rollAll(t, s)
		for tenantID, n := range want {
			for _, grain := range []billing.Grain{billing.GrainMinute, billing.GrainHour, billing.GrainDay, billing.GrainMonth} {
				got := sum(t, s, billing.UsageQuery{TenantID: tenantID, Grain: grain, From: testNow.AddDate(0, -2, 0), To: testNow.AddDate(0, 2, 0)})
				if got.Of(billing.MessagesIn).Cmp(n) != 0 {
					t.Errorf("%s by %s: %s, want %s", tenantID, grain, got.Of(billing.MessagesIn), n)
				}
				if new(big.Int).Rsh(got.Of(billing.StoredByteMillis), 28).Cmp(n) != 0 {
					t.Errorf("%s by %s: integral %s", tenantID, grain, got.Of(billing.StoredByteMillis))
				}
			}
		}
	})
}

func TestMerge_concurrentCollectors(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		var wg sync.WaitGroup
		minute := minuteOf(testNow)
		for w := range 4 {
			st := New(s.db, func() time.Time { return testNow.Add(time.Duration(w) * time.Hour) })
			wg.Go(func() {
				for i := range 15 {
					err := st.Merge(t.Context(), Source{ID: "s", Broker: "b", Kind: "log", SealedThrough: int64(i)}, []MinuteCell{
						{Minute: minute, TenantID: "ten_a", Cell: cell(0), Counts: map[billing.Counter]uint64{billing.BytesIn: uint64(i)}},
						{Minute: minute + 1, TenantID: "ten_a", Cell: cell(1), Counts: map[billing.Counter]uint64{billing.BytesIn: uint64(2 * i)}},
					})
					if err != nil {
						t.Error(err)
					}
					if _, err := st.Rollup(t.Context(), 5); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		rollAll(t, s)
		got := sum(t, s, billing.UsageQuery{TenantID: "ten_a", Grain: billing.GrainMonth, From: testNow.AddDate(0, -1, 0), To: testNow.AddDate(0, 1, 0)})
		if got.Of(billing.BytesIn).Int64() != 14+28 {
			t.Errorf("bytes_in %s, want 42", got.Of(billing.BytesIn))
		}
	})
}

func TestUsage_filtersAndTenants(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		minute := minuteOf(testNow)
		for i, tenantID := range []string{"ten_a", "ten_a", "ten_b"} {
			c := cell(i)
			if err := s.Merge(t.Context(), Source{ID: fmt.Sprint("s", i)}, []MinuteCell{{Minute: minute, TenantID: tenantID, Cell: c, Counts: map[billing.Counter]uint64{billing.Calls: 1}}}); err != nil {
				t.Fatal(err)
			}
		}
		rollAll(t, s)
		q := billing.UsageQuery{TenantID: "ten_a", Grain: billing.GrainHour, From: testNow, To: testNow.Add(time.Hour)}
		if got := sum(t, s, q).Of(billing.Calls); got.Int64() != 2 {
			t.Errorf("all of ten_a: %s", got)
		}
		q.Topic = "t1"
		if got := sum(t, s, q).Of(billing.Calls); got.Int64() != 1 {
			t.Errorf("topic t1: %s", got)
		}
		q.APIKeyID = "slk_2"
		if got := sum(t, s, q).Of(billing.Calls); got.Int64() != 0 {
			t.Errorf("another key: %s", got)
		}
		records, err := s.Usage(t.Context(), billing.UsageQuery{TenantID: "ten_b", Grain: billing.GrainMinute, From: testNow, To: testNow.Add(time.Minute)})
		if err != nil || len(records) != 1 || records[0].Cell != cell(2) {
			t.Errorf("ten_b: %+v, %v", records, err)
		}
	})
}

func TestCompleteThrough_isTheSlowestLiveSource(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		at := func() int64 {
			t.Helper()
			c, err := s.CompleteThrough(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return minuteOf(c)
		}
		if got := at(); got != 0 {
			t.Errorf("without a source: minute %d", got)
		}
		merge := func(id string, dead bool, through int64) {
			t.Helper()
			if err := s.Merge(t.Context(), Source{ID: id, Broker: "b", Kind: "process", Dead: dead, SealedThrough: through}, nil); err != nil {
				t.Fatal(err)
			}
		}
		merge("log", false, 100)
		merge("p1", false, 90)
		if got := at(); got != 91 {
			t.Errorf("minute %d, want 91", got)
		}
		merge("p1", false, 80) // a late report: nothing goes back
		if got := at(); got != 91 {
			t.Errorf("after a late report: minute %d", got)
		}
		merge("p1", true, 95)
		if got := at(); got != 101 {
			t.Errorf("after p1 died: minute %d, want 101", got)
		}
		merge("p1", false, 95) // nobody rises from the dead
		if got := at(); got != 101 {
			t.Errorf("after a late report of p1: minute %d", got)
		}
	})
}

func TestTenantOf_outlivesTheNamespace(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := sqldb.AcrossTenants(t.Context())
		exec := func(sql string) {
			t.Helper()
			if err := s.db.InTx(ctx, func(ctx context.Context) error { return s.db.Conn(ctx).Exec(sql).Error }); err != nil {
				t.Fatal(err)
			}
		}
		want := func(tenantID string) {
			t.Helper()
			if got, err := s.TenantOf(ctx, "nsaaaaaa"); err != nil || got != tenantID {
				t.Errorf("TenantOf = %q, %v; want %q", got, err, tenantID)
			}
		}
		want("")
		exec("INSERT INTO namespaces (id, tenant_id, cluster_id, name, description, labels, strict_types, max_send_tps, max_receive_tps, deletion_protection, phase, reason, observed_revision, created_at, updated_at, revision) VALUES ('nsaaaaaa', 'ten_a', 'c', 'n', '', '{}', 0, 0, 0, 0, 'ready', '', 1, 1, 1, 1)")
		want("ten_a")
		for range 2 {
			if err := s.Remember(ctx, "nsaaaaaa"); err != nil {
				t.Fatal(err)
			}
		}
		exec("DELETE FROM namespaces WHERE id = 'nsaaaaaa'")
		want("ten_a")
		if err := s.Remember(ctx, "nsnobody"); err != nil {
			t.Errorf("an unknown namespace: %v", err)
		}
	})
}
