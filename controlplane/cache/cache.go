// Package cache owns what the control plane keeps in Redis: which sessions
// live, rate limits of the API, the lock that one replica of a job holds, and
// the bell that says that something changed.
//
// Losing Redis loses nothing. Sessions are then read from the database; rates
// are counted in this process alone; nobody holds a lock, so jobs, which are
// claims on due rows, may run twice without harm; bells stay silent, and
// those who wait for them look by themselves after a while. A Cache may be
// used by any number of goroutines.
package cache

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cache is a connection to Redis.
type Cache struct {
	client *redis.Client
	log    *slog.Logger
	now    func() time.Time
	prefix string
	local  localLimiter
	down   atomic.Bool  // said in the log already
	askAt  atomic.Int64 // while down: not asked again before this, in ns since 1970
}

// Config says where Redis is.
type Config struct {
	URL    string // redis://[user:password@]host:port[/db] or rediss://…
	Prefix string // of all keys; "sluice:" when empty
}

// answerTime bounds each call: a request must not wait for a cache.
const answerTime = 500 * time.Millisecond

// Open connects. An unreachable Redis is no error, only a bad URL is.
func Open(cfg Config, now func() time.Time, log *slog.Logger) (*Cache, error) {
	opts, err := redis.ParseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = answerTime, answerTime, answerTime
	opts.MaxRetries, opts.DialerRetries = -1, 1 // the next request is the retry
	if opts.TLSConfig != nil {
		opts.TLSConfig.MinVersion = tls.VersionTLS12
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "sluice:"
	}
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Cache{client: redis.NewClient(opts), log: log, now: now, prefix: cfg.Prefix, local: localLimiter{buckets: map[string]*bucket{}}}, nil
}

// Ping checks that Redis answers.
func (c *Cache) Ping(ctx context.Context) error { return c.client.Ping(ctx).Err() }

// Close closes the connections.
func (c *Cache) Close() error { return c.client.Close() }

// restTime is how long a Redis that did not answer is left alone, so that
// requests do not each wait for it.
const restTime = time.Second

// away reports whether Redis did not answer a moment ago.
func (c *Cache) away() bool { return c.down.Load() && c.now().UnixNano() < c.askAt.Load() }

// failed notes that Redis does not answer; the log hears of it once.
func (c *Cache) failed(err error) {
	c.askAt.Store(c.now().Add(restTime).UnixNano())
	if !c.down.Swap(true) {
		c.log.Warn("redis does not answer; going on without it", "err", err)
	}
}

func (c *Cache) answered() {
	if c.down.Swap(false) {
		c.log.Info("redis answers again")
	}
}

// How long a session is known to live before the database is asked again, and
// how long a revoked one is remembered: longer than an access token.
const (
	liveTTL    = 30 * time.Second
	revokedTTL = 20 * time.Minute
)

func (c *Cache) sessionKey(id string) string { return c.prefix + "session:" + id }

// Live reports whether a session is known to live or to be revoked; known is
// false when neither is known, or Redis does not answer.
func (c *Cache) Live(ctx context.Context, sessionID string) (live, known bool) {
	if c.away() {
		return false, false
	}
	v, err := c.client.Get(ctx, c.sessionKey(sessionID)).Result()
	switch {
	case err == redis.Nil:
		c.answered()
		return false, false
	case err != nil:
		c.failed(err)
		return false, false
	}
	c.answered()
	return v == "live", true
}

// SetLive remembers for a short time that the database knows the session as
// alive. It never overwrites a revocation.
func (c *Cache) SetLive(ctx context.Context, sessionID string) {
	if c.away() {
		return
	}
	if err := c.client.SetNX(ctx, c.sessionKey(sessionID), "live", liveTTL).Err(); err != nil {
		c.failed(err)
	}
}

// SetRevoked remembers that a session has ended. When Redis does not answer,
// a replica may let the session's access token in for up to 30 s more.
func (c *Cache) SetRevoked(ctx context.Context, sessionID string) {
	if err := c.client.Set(ctx, c.sessionKey(sessionID), "revoked", revokedTTL).Err(); err != nil {
		c.failed(err)
	}
}

// Rate is a limit: so many a second on average, Burst at once.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Decision is the outcome of taking one from a rate.
type Decision struct {
	Allowed    bool
	Remaining  int           // that could be taken at once now
	RetryAfter time.Duration // when refused
	Reset      time.Duration // until Burst is whole again
}

// take is the generic cell rate algorithm: one number a key, the time at
// which the bucket would be full again. Times come from Redis, so that
// replicas with different clocks agree.
var take = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local gap = tonumber(ARGV[1])
local burst = tonumber(ARGV[2])
local full = tonumber(redis.call('GET', KEYS[1]) or '0')
if full < now then full = now end
local after = full + gap
local wait = after - now - gap * burst
if wait > 0 then
  return {0, 0, wait, full - now}
end
redis.call('SET', KEYS[1], string.format('%d', after), 'PX', math.ceil((after - now) / 1000) + 1)
return {1, math.floor((gap * burst - (after - now)) / gap), 0, after - now}
`)

// Take takes one from the rate of a key. Without Redis each process counts by
// itself.
func (c *Cache) Take(ctx context.Context, key string, r Rate) Decision {
	if r.PerSecond <= 0 || r.Burst <= 0 {
		return Decision{Allowed: true}
	}
	if c.away() {
		return c.local.take(key, r, c.now())
	}
	gap := int64(float64(time.Second/time.Microsecond) / r.PerSecond)
	v, err := take.Run(ctx, c.client, []string{c.prefix + "rate:" + key}, max(gap, 1), r.Burst).Int64Slice()
	if err != nil || len(v) != 4 {
		c.failed(err)
		return c.local.take(key, r, c.now())
	}
	c.answered()
	return Decision{Allowed: v[0] == 1, Remaining: int(v[1]), RetryAfter: time.Duration(v[2]) * time.Microsecond, Reset: time.Duration(v[3]) * time.Microsecond}
}

// localLimiter counts in this process while Redis is away. It holds at most
// maxBuckets keys; when full it forgets those that are whole again, and if
// none is, all.
type localLimiter struct {
	mu      sync.Mutex
	buckets map[string]*bucket // guarded by mu
}

const maxBuckets = 10_000

type bucket struct{ full time.Time }

func (l *localLimiter) take(key string, r Rate, now time.Time) Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buckets) >= maxBuckets {
		l.forgetLocked(now)
	}
	b := l.buckets[key]
	if b == nil {
		b = &bucket{}
		l.buckets[key] = b
	}
	gap := time.Duration(float64(time.Second) / r.PerSecond)
	full := b.full
	if full.Before(now) {
		full = now
	}
	after := full.Add(gap)
	if wait := after.Sub(now) - gap*time.Duration(r.Burst); wait > 0 {
		return Decision{RetryAfter: wait, Reset: full.Sub(now)}
	}
	b.full = after
	return Decision{Allowed: true, Remaining: int((gap*time.Duration(r.Burst) - after.Sub(now)) / gap), Reset: after.Sub(now)}
}

func (l *localLimiter) forgetLocked(now time.Time) {
	for k, b := range l.buckets {
		if b.full.Before(now) {
			delete(l.buckets, k)
		}
	}
	if len(l.buckets) >= maxBuckets {
		l.buckets = map[string]*bucket{}
	}
}
