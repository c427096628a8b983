package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicemq/sluice/billing"
	"github.com/sluicemq/sluice/billing/billingdb"
	"github.com/sluicemq/sluice/dataplane/meter"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/internal/sqldb/dbtest"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// broker is a real meter behind a line that loses calls.
type broker struct {
	*meter.Meter
	rnd  *rand.Rand
	lose float64 // share of calls whose answer or request is lost
}

var errLost = errors.New("line broke")

func (b *broker) Name() string { return "b" }

func (b *broker) Usage(context.Context) ([]byte, string, error) {
	body, signature, err := b.Report()
	if b.rnd.Float64() < b.lose {
		return nil, "", errLost
	}
	return body, signature, err
}

func (b *broker) AckUsage(_ context.Context, sequence uint64) error {
	if b.rnd.Float64() < b.lose { // never arrived
		return errLost
	}
	if err := b.Ack(sequence); err != nil {
		return err
	}
	if b.rnd.Float64() < b.lose { // arrived, the answer did not
		return errLost
	}
	return nil
}

// crashing is a store that dies before or after some transactions.
type crashing struct {
	*billingdb.Store
	rnd  *rand.Rand
	lose float64
}

func (c *crashing) Merge(ctx context.Context, src billingdb.Source, cells []billingdb.MinuteCell) error {
	if c.rnd.Float64() < c.lose {
		return errLost
	}
	if err := c.Store.Merge(ctx, src, cells); err != nil {
		return err
	}
	if c.rnd.Float64() < c.lose {
		return errLost
	}
	return nil
}

type tenants map[string]string

func (t tenants) TenantOf(_ context.Context, ns string) (string, error) { return t[ns], nil }

func openStore(t *testing.T, now func() time.Time) *billingdb.Store {
	t.Helper()
	return billingdb.New(dbtest.Open(t, sqldb.SQLite), now)
}

func openMeter(t *testing.T, dir string, now func() time.Time) *meter.Meter {
	t.Helper()
	m, err := meter.Open(meter.Config{Dir: dir, Broker: "b", Secret: []byte("secret"), Retention: time.Hour,
		LogEnd: func() int64 { return 0 }, Now: now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Case B187: with every third answer lost between broker, collector and
// database, and the broker's process replaced many times, what is billed is
// what was used, to the last message.
func TestCollect_exactThoughAnswersAreLost(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 9))
			clock := start
			now := func() time.Time { return clock }
			store := openStore(t, now)
			dir := t.TempDir()
			b := &broker{Meter: openMeter(t, dir, now), rnd: rnd, lose: 0.3}
			c := New(Config{Secret: []byte("secret"), Logger: slog.New(slog.DiscardHandler)}, []Broker{b}, &crashing{store, rnd, 0.2}, tenants{"nsaaaaaa": "ten_a"})
			used := int64(0)
			for range 150 {
				v := meter.Values{}
				v[meter.MessagesOut] = uint64(rnd.IntN(1000))
				used += int64(v[meter.MessagesOut])
				b.Add(meter.Cell{NamespaceID: "nsaaaaaa", Topic: fmt.Sprint("t", rnd.IntN(4)), Group: "g", KeyID: "slk_1", Class: 'n', Protocol: 'g'}, &v)
				clock = clock.Add(time.Duration(rnd.IntN(40)) * time.Second)
				b.Tick()
				if rnd.IntN(3) == 0 {
					_ = c.Collect(t.Context()) // errors are what the test makes
				}
				if rnd.IntN(10) == 0 {
					if err := b.Close(); err != nil {
						t.Fatal(err)
					}
					b.Meter = openMeter(t, dir, now)
				}
			}
			b.lose = 0
			c.store = store
			for range 3 {
				clock = clock.Add(time.Minute)
				b.Tick()
				if err := c.Collect(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			u, err := billing.NewService(store, now).Usage(t.Context(), billing.UsageQuery{TenantID: "ten_a", Grain: billing.GrainMonth})
			if err != nil {
				t.Fatal(err)
			}
			if got := u.Totals.Of(billing.MessagesOut).Int64(); got != used {
				t.Errorf("billed %d, used %d", got, used)
			}
			if behind := clock.Sub(u.CompleteThrough); behind > 2*time.Minute {
				t.Errorf("complete through %s at %s", u.CompleteThrough, clock)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestCollect_refusesAWrongSignature(t *testing.T) {
	now := func() time.Time { return start }
	b := &broker{Meter: openMeter(t, t.TempDir(), now), rnd: rand.New(rand.NewPCG(1, 1))}
	c := New(Config{Secret: []byte("other"), Logger: slog.New(slog.DiscardHandler)}, []Broker{b}, openStore(t, now), tenants{})
	if err := c.Collect(t.Context()); !errors.Is(err, ErrSignature) {
		t.Errorf("got %v, want ErrSignature", err)
	}
}

func TestCollect_keepsUsageOfAnUnknownNamespace(t *testing.T) {
	clock := start
	now := func() time.Time { return clock }
	store := openStore(t, now)
	b := &broker{Meter: openMeter(t, t.TempDir(), now), rnd: rand.New(rand.NewPCG(1, 1))}
	b.Add(meter.Cell{NamespaceID: "nsgone00", Topic: "t"}, &meter.Values{meter.Calls: 7})
	c := New(Config{Secret: []byte("secret"), Logger: slog.New(slog.DiscardHandler)}, []Broker{b}, store, tenants{})
	if err := c.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	records, err := store.Usage(t.Context(), billing.UsageQuery{TenantID: UnknownTenant, Grain: billing.GrainHour, From: start, To: start.Add(time.Hour)})
	if err != nil || len(records) != 1 || records[0].Quantities.Of(billing.Calls).Int64() != 7 {
		t.Errorf("%+v, %v", records, err)
	}
}

// slow is a broker that never answers.
type slow struct{ broker }

func (s *slow) Usage(ctx context.Context) ([]byte, string, error) {
	<-ctx.Done()
	return nil, "", ctx.Err()
}

type memoryStore struct {
	mu     sync.Mutex
	merges int
}

func (m *memoryStore) Merge(context.Context, billingdb.Source, []billingdb.MinuteCell) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.merges++
	return nil
}
func (m *memoryStore) Rollup(context.Context, int) (int, error) { return 0, nil }

func TestRun_aSilentBrokerDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := &broker{Meter: openMeter(t, t.TempDir(), time.Now), rnd: rand.New(rand.NewPCG(1, 1))}
		store := &memoryStore{}
		c := New(Config{Secret: []byte("secret"), Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)}, []Broker{&slow{}, good}, store, tenants{})
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		if err := c.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v", err)
		}
		if store.merges < 6 { // two sources a round, a round every 10 s
			t.Errorf("%d merges in 35 s", store.merges)
		}
	})
}
