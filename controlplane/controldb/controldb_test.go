package controldb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
	"github.com/sluicemq/sluice/tenant"
	"github.com/sluicemq/sluice/tenant/tenantdb"
)

type fixture struct {
	db      *sqldb.DB
	outbox  *Outbox
	store   *Store
	source  *Source
	tenants *tenant.Service
	catalog *catalog.Service
	now     time.Time
}

func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		f := &fixture{db: db, now: time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)}
		now := func() time.Time { return f.now }
		f.outbox = NewOutbox(db, now)
		rows := tenantdb.New(db, f.outbox)
		keyring, err := tenant.NewKeyring(bytes.Repeat([]byte{7}, 32))
		check(t, err)
		f.store = New(db, rows)
		f.tenants = tenant.New(tenant.Deps{Store: rows, Keyring: keyring, Now: now})
		f.catalog = catalog.New(f.store, nil, now)
		f.source = NewSource(db, rows, keyring, func(context.Context) ([]byte, error) { return []byte("{}"), nil })
		check(t, f.catalog.PutCluster(t.Context(), catalog.Cluster{ID: "local", Name: "Local"}))
		test(t, f)
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) tenant(t *testing.T) (tenantID, namespaceID string) {
	t.Helper()
	org, err := f.tenants.Found(t.Context(), "T", tenant.NewID(tenant.PrefixUser, f.now))
	check(t, err)
	ns, err := f.tenants.CreateNamespace(t.Context(), org.ID, tenant.Namespace{Name: "N", ClusterID: "local"})
	check(t, err)
	return org.ID, ns.ID
}

func TestOutbox_numbersFollowCommits(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		const writers, each = 6, 8
		boom := errors.New("boom")
		var wg sync.WaitGroup
		stop := make(chan struct{})
		reader := make(chan error, 1)
		go func() { // a reader never sees a hole that fills up later
			seen := uint64(0)
			for {
				list, truncated, err := f.source.Changes(t.Context(), seen, 1000)
				if err != nil || truncated {
					reader <- fmt.Errorf("truncated %v: %w", truncated, err)
					return
				}
				for _, c := range list {
					if c.Sequence != seen+1 {
						reader <- fmt.Errorf("%d after %d", c.Sequence, seen)
						return
					}
					seen = c.Sequence
				}
				select {
				case <-stop:
					if seen == writers*each {
						reader <- nil
						return
					}
				default:
				}
			}
		}()
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					change := tenant.Change{Kind: "topic", ID: fmt.Sprintf("top_%d_%d", w, i), Revision: 1}
					if err := f.outbox.Record(t.Context(), change); err != nil {
						t.Error(err)
					}
					err := f.db.InTx(t.Context(), func(ctx context.Context) error { // rolled back: takes no number
						return errors.Join(f.outbox.Record(ctx, change), boom)
					})
					if !errors.Is(err, boom) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		close(stop)
		check(t, <-reader)
	})
}

func TestChanges_tellWhatIsGone(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		if list, truncated, err := f.source.Changes(ctx, 0, 10); err != nil || truncated || len(list) != 0 {
			t.Errorf("empty: %v %v %v", list, truncated, err)
		}
		for i := range 3 {
			check(t, f.outbox.Record(ctx, tenant.Change{Kind: "topic", ID: fmt.Sprint(i)}))
		}
		f.now = f.now.Add(time.Hour)
		check(t, f.outbox.Record(ctx, tenant.Change{Kind: "topic", ID: "3"}))
		check(t, f.outbox.Purge(ctx, time.Minute))
		if list, truncated, err := f.source.Changes(ctx, 3, 10); err != nil || truncated || len(list) != 1 {
			t.Errorf("after 3: %v %v %v", list, truncated, err)
		}
		if _, truncated, err := f.source.Changes(ctx, 1, 10); err != nil || !truncated {
			t.Errorf("after 1: truncated %v, %v", truncated, err)
		}
		f.now = f.now.Add(time.Hour)
		check(t, f.outbox.Purge(ctx, time.Minute))
		if _, truncated, err := f.source.Changes(ctx, 3, 10); err != nil || !truncated {
			t.Errorf("all gone: truncated %v, %v", truncated, err)
		}
		if list, truncated, err := f.source.Changes(ctx, 4, 10); err != nil || truncated || len(list) != 0 {
			t.Errorf("up to date: %v %v %v", list, truncated, err)
		}
		if seq, err := f.source.Sequence(ctx); err != nil || seq != 4 {
			t.Errorf("sequence %d, %v", seq, err)
		}
	})
}

func TestMark_onlyTheNewestRevisionDecides(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		tid, ns := f.tenant(t)
		topic, err := f.catalog.CreateTopic(ctx, tid, ns, catalog.Topic{Name: "a"})
		check(t, err)
		status := func() catalog.Status {
			t.Helper()
			got, err := f.catalog.Topic(ctx, tid, ns, "a")
			check(t, err)
			return got.Status
		}
		check(t, f.source.MarkFailed(ctx, catalog.KindTopic, topic.ID, 1, "no disk"))
		if st := status(); st.Phase != catalog.PhaseFailed || st.Reason != "no disk" || st.ObservedRevision != 1 {
			t.Errorf("failed: %+v", st)
		}
		check(t, f.source.MarkReady(ctx, catalog.KindTopic, topic.ID, 1))
		if st := status(); st.Phase != catalog.PhaseReady || st.Reason != "" {
			t.Errorf("ready after failed: %+v", st)
		}
		queues := int32(8)
		_, err = f.catalog.UpdateTopic(ctx, tid, ns, "a", catalog.TopicUpdate{Queues: &queues}, 0)
		check(t, err)
		check(t, f.source.MarkReady(ctx, catalog.KindTopic, topic.ID, 1)) // late news
		if st := status(); st.Phase != catalog.PhasePending || st.ObservedRevision != 1 {
			t.Errorf("late news: %+v", st)
		}
		check(t, f.source.MarkReady(ctx, catalog.KindTopic, topic.ID, 2))
		check(t, f.source.MarkFailed(ctx, catalog.KindTopic, topic.ID, 1, "late")) // older than observed
		if st := status(); st.Phase != catalog.PhaseReady || st.ObservedRevision != 2 {
			t.Errorf("older news: %+v", st)
		}
		gone, err := f.catalog.DeleteTopic(ctx, tid, ns, "a", 0)
		check(t, err)
		check(t, f.source.MarkReady(ctx, catalog.KindTopic, topic.ID, gone.Revision))
		d, err := f.source.Desired(ctx)
		check(t, err)
		if len(d.Topics) != 1 || !d.Topics[0].Deleted {
			t.Errorf("a deleting topic came back: %+v", d.Topics)
		}
		check(t, f.source.MarkDeleted(ctx, catalog.KindTopic, topic.ID))
		check(t, f.source.MarkReady(ctx, catalog.KindTenant, tid, 1)) // has no status: ignored
		if err := f.source.MarkDeleted(ctx, catalog.KindJWKS, "x"); !errs.Is(err, errs.Internal) {
			t.Errorf("deleting a key set: %v", err)
		}
	})
}

func TestNamespace_deletedForgetsItsQuotas(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		tid, ns := f.tenant(t)
		_, err := f.catalog.CreateTopic(ctx, tid, ns, catalog.Topic{Name: "a"})
		check(t, err)
		_, err = f.catalog.DeleteTopic(ctx, tid, ns, "a", 0)
		check(t, err)
		_, err = f.tenants.DeleteNamespace(ctx, tid, ns, 0)
		check(t, err)
		check(t, f.source.MarkDeleted(ctx, catalog.KindNamespace, ns))
		rows, err := f.store.QuotaRows(ctx, tid, ns)
		check(t, err)
		all, err := f.store.QuotaRows(ctx, tid, tid)
		check(t, err)
		if len(rows) != 0 {
			t.Errorf("rows of the namespace: %+v", rows)
		}
		for _, r := range all {
			if r.Used != 0 && r.Name != tenant.QuotaMembers {
				t.Errorf("%s: %d used", r.Name, r.Used)
			}
		}
	})
}

// TestNamespace_deleteAgainstCreate: of a deletion and a creation in it at the
// same time one wins; a topic without its namespace never stays behind.
func TestNamespace_deleteAgainstCreate(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		tid, _ := f.tenant(t)
		for i := range 4 {
			ns, err := f.tenants.CreateNamespace(ctx, tid, tenant.Namespace{Name: fmt.Sprint("race ", i), ClusterID: "local"})
			check(t, err)
			var wg sync.WaitGroup
			var created, deleted error
			wg.Go(func() { _, created = f.catalog.CreateTopic(ctx, tid, ns.ID, catalog.Topic{Name: "a"}) })
			wg.Go(func() { _, deleted = f.tenants.DeleteNamespace(ctx, tid, ns.ID, 0) })
			wg.Wait()
			if (created == nil) == (deleted == nil) {
				t.Fatalf("create %v, delete %v", created, deleted)
			}
			if created == nil {
				_, err = f.catalog.DeleteTopic(ctx, tid, ns.ID, "a", 0)
				check(t, err)
				_, err = f.tenants.DeleteNamespace(ctx, tid, ns.ID, 0)
				check(t, err)
			}
		}
	})
}

func TestIdempotency_aDeadClaimIsFreeAgain(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		i := NewIdempotency(f.db, func() time.Time { return f.now })
		k := IdemKey{TenantID: "ten_a", Principal: "usr_a", Key: "k"}
		if _, done, err := i.Claim(ctx, k, "h"); done || err != nil {
			t.Fatal(done, err)
		}
		if _, _, err := i.Claim(ctx, k, "h"); !errs.Is(err, errs.Conflict) {
			t.Errorf("second: %v", err)
		}
		f.now = f.now.Add(claimTime + time.Second)
		if _, done, err := i.Claim(ctx, k, "h"); done || err != nil {
			t.Errorf("after the claim's time: %v %v", done, err)
		}
		check(t, i.Finish(ctx, k, []byte("answer")))
		if answer, done, err := i.Claim(ctx, k, "h"); !done || string(answer) != "answer" || err != nil {
			t.Errorf("replay: %q %v %v", answer, done, err)
		}
		if _, _, err := i.Claim(ctx, k, "other"); !errs.Is(err, errs.Unprocessable) {
			t.Errorf("another request: %v", err)
		}
		f.now = f.now.Add(keepTime + time.Hour)
		if _, done, err := i.Claim(ctx, k, "other"); done || err != nil {
			t.Errorf("a day later: %v %v", done, err)
		}
		check(t, i.Purge(ctx))
	})
}
