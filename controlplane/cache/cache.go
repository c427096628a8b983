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
	own    bool
	local  localLimiter
	spent  refusals
	down   atomic.Bool  // said in the log already
	askAt  atomic.Int64 // while down: not asked again before this, in ns since 1970
}

// Config says where Redis is.
type Config struct {
	URL    string // redis://[user:password@]host:port[/db] or rediss://…
	Prefix string // of all keys; "sluice:" when empty
	Own    bool   // the Redis is this process's alone: rates are counted without it
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
	return &Cache{client: redis.NewClient(opts), log: log, now: now, prefix: cfg.Prefix, own: cfg.Own, local: localLimiter{buckets: map[string]*bucket{}}, spent: refusals{of: map[string]refusal{}}}, nil
}

// Ping checks that Redis answers.
func (c *Cache) Ping(ctx context.Context) error { return c.client.Ping(ctx).Err() }

// Close closes the connections.
func (c *Cache) Close() error { return c.client.Close() }

// restTime is how long a Redis that did not answer is left alone, so that
// requests do not each wait for it.
const restTime = time.Second

// away reports whether Redis did not answer a moment ago.
func (c *Cache) away() bool {
	left := time.Duration(c.askAt.Load() - c.now().UnixNano()) // more than restTime: the clock was set back
	return c.down.Load() && left > 0 && left <= restTime
}

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
