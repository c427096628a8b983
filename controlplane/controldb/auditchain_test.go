package controldb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/auditchain"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/tenant"
)

func auditEvent(tenantID tenant.ID, n int) AuditEvent {
	return AuditEvent{ID: tenant.NewID("evt_", time.UnixMilli(int64(1_700_000_000_000+n))), TenantID: tenantID, At: time.UnixMilli(int64(1_700_000_000_000 + n)).UTC(),
		ActorType: "user", ActorID: "usr_1", SourceIP: "192.0.2.1", Action: "createTopic", TargetType: "topic", TargetID: fmt.Sprint("top_", n), RequestID: "req_1"}
}

func wantBroken(t *testing.T, a *Audit, tenantID tenant.ID, what string, sequence int64, known ...auditchain.Head) {
	t.Helper()
	var broken *auditchain.BrokenError
	if _, err := a.Verify(context.Background(), tenantID, known...); !errors.As(err, &broken) || broken.Sequence != sequence {
		t.Errorf("%s: %v, want a break at %d", what, err, sequence)
	}
}

// Whoever writes at the same time, each tenant has one chain without holes, and
// everything that is done to its rows behind the server's back is found.
func TestAudit_chain(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.SQLite, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			db := dbtest.Open(t, driver)
			a := NewAudit(db)
			ctx := sqldb.AcrossTenants(t.Context())
			if h, err := a.Verify(t.Context(), "ten_a"); err != nil || h != (auditchain.Head{}) {
				t.Errorf("nothing: %+v, %v", h, err)
			}
			const n = 40
			var wg sync.WaitGroup
			for w := range 4 {
				wg.Go(func() {
					for i := range n / 4 {
						for _, id := range []tenant.ID{"ten_a", "ten_b"} {
							if err := a.Append(t.Context(), auditEvent(id, w*100+i)); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
			head, err := a.Verify(t.Context(), "ten_a")
			if err != nil || head.Sequence != n {
				t.Fatalf("%+v, %v", head, err)
			}
			list, err := a.List(t.Context(), "ten_a", AuditFilter{}, tenant.Page{Size: 100})
			if err != nil || len(list) != n {
				t.Fatal(len(list), err)
			}
			seen := map[int64]AuditEvent{}
			for _, e := range list {
				seen[e.Sequence] = e
			}
			if len(seen) != n || seen[n].Hash != head.Hash || seen[1].PreviousHash != "" {
				t.Errorf("%d places, head %s", len(seen), seen[n].Hash)
			}

			exec := func(query string, args ...any) {
				t.Helper()
				if err := db.InTx(ctx, func(ctx context.Context) error { return db.Conn(ctx).Exec(query, args...).Error }); err != nil {
					t.Fatal(err)
				}
			}
			exec("UPDATE audit_events SET target_id = 'top_x' WHERE id = ?", seen[7].ID)
			wantBroken(t, a, "ten_a", "an event was changed", 7)
			exec("UPDATE audit_events SET target_id = ? WHERE id = ?", seen[7].TargetID, seen[7].ID)
			if _, err := a.Verify(t.Context(), "ten_a"); err != nil {
				t.Fatalf("changed back: %v", err)
			}
			exec("DELETE FROM audit_events WHERE id = ?", seen[9].ID)
			wantBroken(t, a, "ten_a", "an event was removed", 9)
			exec("DELETE FROM audit_chain WHERE event_id = ?", seen[9].ID)
			wantBroken(t, a, "ten_a", "an event was removed with its link", 9)
			exec("DELETE FROM audit_chain WHERE tenant_id = 'ten_a' AND sequence >= 9")
			wantBroken(t, a, "ten_a", "everything from an event on was removed", 9)
			exec("UPDATE audit_heads SET sequence = 8, hash = ? WHERE tenant_id = 'ten_a'", seen[8].Hash)
			if _, err := a.Verify(t.Context(), "ten_a"); err != nil {
				t.Errorf("with the head, too: nobody can tell: %v", err)
			}
			wantBroken(t, a, "ten_a", "but who kept an older head can", 9, head)
			exec("DELETE FROM audit_chain WHERE tenant_id = 'ten_a' AND sequence = 1")
			wantBroken(t, a, "ten_a", "the first event was removed", 1)
			if h, err := a.Verify(t.Context(), "ten_b"); err != nil || h.Sequence != n {
				t.Errorf("the other tenant: %+v, %v", h, err)
			}
		})
	}
}

// Events that are handed over again are there once, also when two hand them over
// at the same time, and their counts are in the chain.
func TestAudit_appendOnce(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.SQLite, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			db := dbtest.Open(t, driver)
			a := NewAudit(db)
			var events []AuditEvent
			for i := range 20 {
				e := auditEvent("ten_a", i)
				e.ID = fmt.Sprintf("evt_%026d", i)
				e.Denied, e.Count, e.FirstAt = true, int64(i+1), e.At.Add(-time.Minute)
				events = append(events, e)
			}
			if err := a.AppendOnce(t.Context(), "ten_a", events[:7]...); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					if err := a.AppendOnce(t.Context(), "ten_a", events...); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			head, err := a.Verify(t.Context(), "ten_a")
			if err != nil || head.Sequence != 20 {
				t.Fatalf("%+v, %v", head, err)
			}
			list, err := a.List(t.Context(), "ten_a", AuditFilter{}, tenant.Page{Size: 100})
			if err != nil || len(list) != 20 || list[0].Count != 20 || !list[0].FirstAt.Equal(events[19].FirstAt) || !list[0].Denied {
				t.Fatalf("%d events, %+v, %v", len(list), list[0], err)
			}
			for _, set := range []string{"count = 2", "count = 0", "first_at = first_at - 1", "first_at = 0, count = 0"} {
				err := db.InTx(sqldb.AcrossTenants(t.Context()), func(ctx context.Context) error {
					return db.Conn(ctx).Exec("UPDATE audit_events SET "+set+" WHERE id = ?", events[4].ID).Error
				})
				if err != nil {
					t.Fatal(err)
				}
				var broken *auditchain.BrokenError
				if _, err := a.Verify(t.Context(), "ten_a"); !errors.As(err, &broken) {
					t.Errorf("%s: %v", set, err)
				}
			}
		})
	}
}

// Acts are filed once, in all tenants of the person, whoever files and however
// many there are.
func TestAudit_actsAreFiledOnce(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.SQLite, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			db := dbtest.Open(t, driver)
			a := NewAudit(db)
			err := db.InTx(sqldb.AcrossTenants(t.Context()), func(ctx context.Context) error {
				for _, id := range []string{"ten_a", "ten_b"} {
					row := map[string]any{"tenant_id": id, "user_id": "usr_1", "role": "owner", "created_at": 1, "updated_at": 1, "revision": 1}
					if err := db.Conn(ctx).Table("members").Create(row).Error; err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			const n = actsAtOnce + 7
			for i := range n {
				e := auditEvent("", i)
				if i == 0 {
					e.TenantID = "ten_b"
				}
				if err := db.InTx(t.Context(), func(ctx context.Context) error { return a.Note(ctx, e) }); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if err := a.FileActs(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for id, want := range map[tenant.ID]int64{"ten_a": n - 1, "ten_b": n} {
				if h, err := a.Verify(t.Context(), id); err != nil || h.Sequence != want {
					t.Errorf("%s: %+v, %v; want %d events", id, h, err, want)
				}
			}
			var left int64
			if err := db.Conn(t.Context()).Model(&actRow{}).Count(&left).Error; err != nil || left != 0 {
				t.Errorf("%d acts are left, %v", left, err)
			}
		})
	}
}
