package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, url string) *Cache {
	t.Helper()
	c, err := Open(Config{URL: url, Prefix: "test:" + rand.Text() + ":"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// each runs a test on a real Redis and on the one inside the process.
func each(t *testing.T, test func(t *testing.T, c *Cache)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		url := os.Getenv("SLUICE_TEST_REDIS")
		if url == "" {
			t.Fatal("SLUICE_TEST_REDIS is not set; run the tests under scripts/test-services.sh")
		}
		test(t, open(t, url))
	})
	t.Run("embedded", func(t *testing.T) { test(t, open(t, "redis://"+miniredis.RunT(t).Addr())) })
}

func TestSession_revokedStaysRevoked(t *testing.T) {
	each(t, func(t *testing.T, c *Cache) {
		ctx := t.Context()
		if _, known := c.Live(ctx, "s"); known {
			t.Error("known before anything was said")
		}
		c.SetLive(ctx, "s")
		if live, known := c.Live(ctx, "s"); !live || !known {
			t.Error("not live")
		}
		c.SetRevoked(ctx, "s")
		c.SetLive(ctx, "s") // a slow reader of the database
		if live, known := c.Live(ctx, "s"); live || !known {
			t.Error("revocation was overwritten")
		}
	})
}

func TestTake_refusesOverTheBurst(t *testing.T) {
	each(t, func(t *testing.T, c *Cache) {
		r := Rate{PerSecond: 0.01, Burst: 5}
		var allowed atomic.Int32
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if c.Take(t.Context(), "k", r).Allowed {
					allowed.Add(1)
				}
			})
		}
		wg.Wait()
		if allowed.Load() != 5 {
			t.Errorf("%d allowed, want 5", allowed.Load())
		}
		d := c.Take(t.Context(), "k", r)
		if d.Allowed || d.RetryAfter <= 90*time.Second || d.RetryAfter > 100*time.Second || d.Remaining != 0 {
			t.Errorf("refusal: %+v", d)
		}
		if d := c.Take(t.Context(), "other", r); !d.Allowed || d.Remaining != 4 {
			t.Errorf("another key: %+v", d)
		}
	})
}

// Redis hears nothing of a key that it refused until there is something to take.
func TestTake_remembersRefusals(t *testing.T) {
	server := miniredis.RunT(t)
	c := open(t, "redis://"+server.Addr())
	now := time.Now()
	c.now = func() time.Time { return now }
	r := Rate{PerSecond: 1, Burst: 1}
	ctx := t.Context()
	if d := c.Take(ctx, "k", r); !d.Allowed {
		t.Fatalf("the first: %+v", d)
	}
	first := c.Take(ctx, "k", r)
	asked := server.CommandCount()
	now = now.Add(first.RetryAfter / 2)
	again := c.Take(ctx, "k", r)
	if first.Allowed || again.Allowed || server.CommandCount() != asked {
		t.Errorf("refused %+v, then %+v with %d commands", first, again, server.CommandCount()-asked)
	}
	if want := first.RetryAfter - first.RetryAfter/2; again.RetryAfter != want || again.Reset <= 0 || again.Reset >= first.Reset {
		t.Errorf("wait %s, want %s; whole in %s, before that %s", again.RetryAfter, want, again.Reset, first.Reset)
	}
	if d := c.Take(ctx, "other", r); !d.Allowed {
		t.Errorf("another key: %+v", d)
	}
	now = now.Add(first.RetryAfter)
	asked = server.CommandCount()
	c.Take(ctx, "k", r)
	if server.CommandCount() == asked {
		t.Error("Redis is never asked again")
	}
}

func TestRefusals_areBounded(t *testing.T) {
	r := refusals{of: map[string]refusal{}}
	now := time.Unix(1, 0)
	for i := range 3 * maxBuckets {
		r.put(strconv.Itoa(i), Decision{RetryAfter: time.Hour}, now)
	}
	if len(r.of) > maxBuckets {
		t.Errorf("%d are remembered", len(r.of))
	}
	if _, ok := r.get(strconv.Itoa(3*maxBuckets-1), now); !ok {
		t.Error("the last one is forgotten")
	}
	if _, ok := r.get(strconv.Itoa(3*maxBuckets-1), now.Add(time.Hour)); ok {
		t.Error("one that is over is remembered")
	}
}

func TestLock_oneHolderAndGrowingTokens(t *testing.T) {
	each(t, func(t *testing.T, c *Cache) {
		ctx := t.Context()
		a, err := c.Acquire(ctx, "job", time.Minute)
		if err != nil || a == nil {
			t.Fatal(a, err)
		}
		if b, err := c.Acquire(ctx, "job", time.Minute); err != nil || b != nil {
			t.Errorf("two holders: %v %v", b, err)
		}
		if ok, err := a.Extend(ctx); !ok || err != nil {
			t.Errorf("extend: %v %v", ok, err)
		}
		if err := a.Release(ctx); err != nil {
			t.Error(err)
		}
		b, err := c.Acquire(ctx, "job", time.Minute)
		if err != nil || b == nil || b.Token <= a.Token {
			t.Fatalf("next holder: %+v %v", b, err)
		}
		if err := a.Release(ctx); err != nil { // late: must not free the lock of another
			t.Error(err)
		}
		if ok, _ := a.Extend(ctx); ok {
			t.Error("a lost lock was extended")
		}
		if x, _ := c.Acquire(ctx, "job", time.Minute); x != nil {
			t.Error("a late release freed the lock of another")
		}
	})
}

func TestBell_isHeard(t *testing.T) {
	each(t, func(t *testing.T, c *Cache) {
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan string, 1)
		ended := make(chan error, 1)
		go func() {
			ended <- c.Listen(ctx, func(ns string) {
				select {
				case heard <- ns:
				default:
				}
			})
		}()
		// What rings before the subscription stands is lost: ring until heard.
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for done := false; !done; {
			select {
			case ns := <-heard:
				if ns != "ns1" {
					t.Errorf("heard %q", ns)
				}
				done = true
			case <-tick.C:
				c.Ring(ctx, "ns1")
			}
		}
		cancel()
		<-ended
	})
}

func TestWithoutRedis_goesOn(t *testing.T) {
	srv := miniredis.RunT(t)
	c := open(t, "redis://"+srv.Addr())
	srv.Close()
	ctx := t.Context()
	if _, known := c.Live(ctx, "s"); known {
		t.Error("known without Redis")
	}
	c.SetLive(ctx, "s")
	c.SetRevoked(ctx, "s")
	c.Ring(ctx, "ns")
	r := Rate{PerSecond: 0.01, Burst: 2}
	for i, want := range []bool{true, true, false} {
		if d := c.Take(ctx, "k", r); d.Allowed != want {
			t.Errorf("take %d: %+v", i, d)
		}
	}
	if _, err := c.Acquire(ctx, "job", time.Minute); err == nil {
		t.Error("a lock without Redis")
	}
}

// A flood of new keys costs bounded memory and does not make a key that has
// nothing left whole.
func TestLocalLimiter_isBounded(t *testing.T) {
	l := localLimiter{buckets: map[string]*bucket{}}
	now := time.Unix(1e9, 0)
	r := Rate{PerSecond: 0.001, Burst: 3}
	for range r.Burst {
		l.take("victim", r, now)
	}
	for i := range maxBuckets * 2 {
		l.take(strconv.Itoa(i), r, now)
	}
	if len(l.buckets) > maxBuckets {
		t.Errorf("%d buckets", len(l.buckets))
	}
	if d := l.take("victim", r, now); d.Allowed {
		t.Errorf("the flood gave the victim's key back: %+v", d)
	}
}

// A process whose Redis is its own counts without it.
func TestTake_ownRedisIsNotAsked(t *testing.T) {
	server := miniredis.RunT(t)
	c, err := Open(Config{URL: "redis://" + server.Addr(), Own: true}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := Rate{PerSecond: 0.01, Burst: 2}
	for i, want := range []bool{true, true, false} {
		if d := c.Take(t.Context(), "k", r); d.Allowed != want {
			t.Errorf("take %d: %+v", i, d)
		}
	}
	if n := server.CommandCount(); n != 0 {
		t.Errorf("%d commands", n)
	}
}

func TestOpen_badURL(t *testing.T) {
	if _, err := Open(Config{URL: "http://x"}, nil, nil); err == nil {
		t.Error("http passes")
	}
}

// A clock that is set back by an hour, here or at Redis, does not lock anybody
// out for that hour.
func TestTake_clockSetBack(t *testing.T) {
	now := time.Now()
	server := miniredis.RunT(t)
	c, own := open(t, "redis://"+server.Addr()), open(t, "redis://"+server.Addr())
	c.now, own.now, own.own = func() time.Time { return now }, func() time.Time { return now }, true
	server.SetTime(now)
	r := Rate{PerSecond: 1, Burst: 3}
	for range 5 {
		c.Take(t.Context(), "k", r)
		own.Take(t.Context(), "k", r)
	}
	now = now.Add(-time.Hour)
	server.SetTime(now)
	for name, c := range map[string]*Cache{"redis": c, "local": own} {
		if d := c.Take(t.Context(), "k", r); d.Allowed || d.RetryAfter > time.Second {
			t.Errorf("%s: %+v", name, d)
		}
		if d := c.Take(t.Context(), "other", r); !d.Allowed {
			t.Errorf("%s, another key: %+v", name, d)
		}
	}
	c.failed(errors.New("gone"))
	if now = now.Add(-time.Hour); c.away() {
		t.Error("Redis is not asked again")
	}
}
