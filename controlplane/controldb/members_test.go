package controldb

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/migrations"
	"github.com/sluicemq/sluice/tenant"
	"github.com/sluicemq/sluice/tenant/tenantdb"
)

// Two owners who remove, demote and leave at the same time, each on a control
// plane of their own, never leave a tenant without an owner.
func TestMembers_twoOwnersOnTwoControlPlanes(t *testing.T) {
	for _, driver := range dbtest.Drivers() {
		t.Run(string(driver), func(t *testing.T) {
			dsn := dbtest.DSN(t, driver)
			keyring, err := tenant.NewKeyring([]byte(strings.Repeat("k", 32)))
			check(t, err)
			var planes [2]*tenant.Service
			var first *sqldb.DB
			for i := range planes {
				db, err := sqldb.Open(t.Context(), dsn, nil)
				check(t, err)
				t.Cleanup(func() { _ = db.Close() })
				files, err := migrations.For(string(driver))
				check(t, err)
				check(t, db.Migrate(t.Context(), files))
				if first == nil {
					first = db
				}
				planes[i] = tenant.New(tenant.Deps{Store: tenantdb.New(db, NewOutbox(db, time.Now)), Keyring: keyring})
			}
			store := tenantdb.New(first, NewOutbox(first, time.Now))
			users := NewAuthStore(first, NewOutbox(first, time.Now))
			now := time.Now()
			any := func(tenant.Member) error { return nil }
			for round := range 12 {
				var ids [2]tenant.ID
				var found tenant.Tenant
				check(t, first.InTx(t.Context(), func(ctx context.Context) error {
					for i := range ids {
						ids[i] = tenant.NewID(tenant.PrefixUser, now)
						if err := users.CreateUser(ctx, auth.User{ID: ids[i], Email: ids[i] + "@x.io", CreatedAt: now, UpdatedAt: now, Revision: 1}); err != nil {
							return err
						}
					}
					if found, err = planes[0].Found(ctx, "T", ids[0]); err != nil {
						return err
					}
					return store.CreateMember(ctx, tenant.Member{TenantID: found.ID, UserID: ids[1], Role: tenant.RoleOwner, CreatedAt: now, UpdatedAt: now, Revision: 1})
				}))
				var wg sync.WaitGroup
				var got [2]error
				for i := range planes {
					wg.Go(func() {
						victim := ids[1-i] // the other one
						if round%3 == 1 {
							victim = ids[i] // both leave
						}
						if round%3 == 2 {
							_, _, got[i] = planes[i].ChangeMember(t.Context(), found.ID, victim, tenant.RoleViewer, 0, any)
							return
						}
						got[i] = planes[i].RemoveMember(t.Context(), found.ID, victim, 0, any)
					})
				}
				wg.Wait()
				n, err := store.OwnersBesides(t.Context(), found.ID, "")
				check(t, err)
				if n != 1 || (got[0] == nil) == (got[1] == nil) {
					t.Fatalf("round %d: %d owners left; %v; %v", round, n, got[0], got[1])
				}
				for _, err := range got {
					if err != nil && !errs.Is(err, errs.Conflict) {
						t.Errorf("round %d: %v", round, err)
					}
				}
			}
		})
	}
}
