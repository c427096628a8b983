package cache

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lock is a lease that one holder has at a time. Token grows with each new
// holder: whatever is written under the lock can refuse a smaller one.
type Lock struct {
	Token int64
	c     *Cache
	key   string
	owner string
	ttl   time.Duration
}

var (
	acquire = redis.NewScript(`
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`)
	extend = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
`)
	release = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`)
)

// Acquire takes the lock of a name for ttl; nil when another has it. An error
// means that Redis does not answer: nobody can know who has it.
func (c *Cache) Acquire(ctx context.Context, name string, ttl time.Duration) (*Lock, error) {
	l := &Lock{c: c, key: c.prefix + "lock:" + name, owner: rand.Text(), ttl: ttl}
	token, err := acquire.Run(ctx, c.client, []string{l.key, c.prefix + "fence:" + name}, l.owner, ttl.Milliseconds()).Int64()
	if err != nil {
		c.failed(err)
		return nil, err
	}
	c.answered()
	if token == 0 {
		return nil, nil
	}
	l.Token = token
	return l, nil
}

// Extend renews the lease; false when it was lost.
func (l *Lock) Extend(ctx context.Context) (bool, error) {
	n, err := extend.Run(ctx, l.c.client, []string{l.key}, l.owner, l.ttl.Milliseconds()).Int64()
	return n == 1, err
}

// Release gives the lock back if it is still held.
func (l *Lock) Release(ctx context.Context) error {
	return release.Run(ctx, l.c.client, []string{l.key}, l.owner).Err()
}

// Ring tells every replica that a namespace has changes; an empty id stands
// for changes above namespaces.
func (c *Cache) Ring(ctx context.Context, namespaceID string) {
	if c.away() {
		return
	}
	if err := c.client.Publish(ctx, c.prefix+"bell", namespaceID).Err(); err != nil {
		c.failed(err)
	}
}

// Listen calls heard for each bell until ctx ends; it reconnects by itself.
// What rang while the connection was away is lost, so those who listen also
// look by themselves now and then.
func (c *Cache) Listen(ctx context.Context, heard func(namespaceID string)) error {
	sub := c.client.Subscribe(ctx, c.prefix+"bell")
	defer func() { _ = sub.Close() }()
	bells := sub.Channel()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m, ok := <-bells:
			if !ok {
				return ctx.Err()
			}
			heard(m.Payload)
		}
	}
}
