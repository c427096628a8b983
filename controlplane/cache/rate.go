package cache

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

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
// replicas with different clocks agree. A clock that was set back costs nobody
// more than an empty bucket.
var take = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local gap = tonumber(ARGV[1])
local burst = tonumber(ARGV[2])
local full = tonumber(redis.call('GET', KEYS[1]) or '0')
if full < now then full = now end
if full > now + gap * burst then full = now + gap * burst end
local after = full + gap
local wait = after - now - gap * burst
if wait > 0 then
  return {0, 0, wait, full - now}
end
redis.call('SET', KEYS[1], string.format('%d', after), 'PX', math.ceil((after - now) / 1000) + 1)
return {1, math.floor((gap * burst - (after - now)) / gap), 0, after - now}
`)

// Take takes one from the rate of a key. Without Redis, or with one that is its
// own, the process counts by itself. Redis is not asked again about a key that
// it refused until there is something to take, so that a flood costs it little.
func (c *Cache) Take(ctx context.Context, key string, r Rate) Decision {
	if r.PerSecond <= 0 || r.Burst <= 0 {
		return Decision{Allowed: true}
	}
	if c.own || c.away() {
		return c.local.take(key, r, c.now())
	}
	if d, ok := c.spent.get(key, c.now()); ok {
		return d
	}
	gap := int64(float64(time.Second/time.Microsecond) / r.PerSecond)
	v, err := take.Run(ctx, c.client, []string{c.prefix + "rate:" + key}, max(gap, 1), r.Burst).Int64Slice()
	if err != nil || len(v) != 4 {
		c.failed(err)
		return c.local.take(key, r, c.now())
	}
	c.answered()
	d := Decision{Allowed: v[0] == 1, Remaining: int(v[1]), RetryAfter: time.Duration(v[2]) * time.Microsecond, Reset: time.Duration(v[3]) * time.Microsecond}
	if !d.Allowed {
		c.spent.put(key, d, c.now())
	}
	return d
}

// refusals remembers which keys have nothing to take, and until when: a refused
// attempt takes nothing, so time alone changes that. It holds at most maxBuckets
// keys; when full it forgets those that are over, and if none is, all.
type refusals struct {
	mu sync.Mutex
	of map[string]refusal // guarded by mu
}

type refusal struct{ at, until, whole time.Time }

func (r *refusals) get(key string, now time.Time) (Decision, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.of[key]
	if !ok || now.Before(known.at) || !now.Before(known.until) {
		return Decision{}, false
	}
	return Decision{RetryAfter: known.until.Sub(now), Reset: known.whole.Sub(now)}, true
}

func (r *refusals) put(key string, d Decision, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) >= maxBuckets {
		for k, known := range r.of {
			if !now.Before(known.until) {
				delete(r.of, k)
			}
		}
		if len(r.of) >= maxBuckets {
			clear(r.of)
		}
	}
	r.of[key] = refusal{now, now.Add(d.RetryAfter), now.Add(d.Reset)}
}

// localLimiter counts in this process. It holds at most maxBuckets keys; when
// full it forgets those that are whole again, and of the others the eighth that
// will be soonest: whoever floods with new keys pushes out such keys, not those
// that are near their limit.
type localLimiter struct {
	mu      sync.Mutex
	buckets map[string]*bucket // guarded by mu
}

const maxBuckets = 100_000

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
	if most := now.Add(gap * time.Duration(r.Burst)); full.After(most) {
		full = most // the clock was set back
	}
	after := full.Add(gap)
	if wait := after.Sub(now) - gap*time.Duration(r.Burst); wait > 0 {
		return Decision{RetryAfter: wait, Reset: full.Sub(now)}
	}
	b.full = after
	return Decision{Allowed: true, Remaining: int((gap*time.Duration(r.Burst) - after.Sub(now)) / gap), Reset: after.Sub(now)}
}

func (l *localLimiter) forgetLocked(now time.Time) {
	whole := make([]time.Time, 0, len(l.buckets))
	for _, b := range l.buckets {
		whole = append(whole, b.full)
	}
	slices.SortFunc(whole, time.Time.Compare)
	until := whole[len(whole)/8]
	if until.Before(now) {
		until = now
	}
	for k, b := range l.buckets {
		if !b.full.After(until) {
			delete(l.buckets, k)
		}
	}
}
