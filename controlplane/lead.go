package controlplane

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/billing/billingdb"
	"github.com/sluicemq/sluice/controlplane/cache"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/controlplane/fleet"
	"github.com/sluicemq/sluice/tenant"
)

// The lease of the replica that drives the fleet and collects usage. Both are
// safe to do twice; the lock only saves the work, so that without Redis every
// replica does it.
const (
	leadLease = 15 * time.Second
	leadRenew = 5 * time.Second
)

// lead does the leader's work while this replica is the leader, until ctx ends.
func (s *Server) lead(ctx context.Context) error {
	tick := time.NewTicker(leadRenew)
	defer tick.Stop()
	for {
		lock, err := s.cache.Acquire(ctx, "leader", leadLease)
		if err != nil && ctx.Err() == nil {
			s.deps.Logger.Warn("the leader lock cannot be asked; doing the work anyway", "err", err)
		}
		if lock != nil || err != nil {
			if err := s.work(ctx, lock); ctx.Err() != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// work runs the leader's loops until the lease is lost or ctx ends.
func (s *Server) work(ctx context.Context, lock *cache.Lock) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.fleet.Run(ctx) })
	g.Go(func() error { return s.collector.Run(ctx) })
	g.Go(func() error { return s.denials.Run(ctx) })
	g.Go(func() error { return s.hold(ctx, lock) })
	return g.Wait()
}

// hold renews the lease; its return ends the work. Without a lock it tries to
// get one, so that of several replicas one goes on once Redis answers again.
func (s *Server) hold(ctx context.Context, lock *cache.Lock) error {
	tick := time.NewTicker(leadRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if lock != nil {
				release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				_ = lock.Release(release) // it runs out by itself
			}
			return ctx.Err()
		case <-tick.C:
		}
		if lock == nil {
			got, err := s.cache.Acquire(ctx, "leader", leadLease)
			if err != nil {
				continue // still without Redis
			}
			if got == nil {
				return errNotLeader
			}
			lock = got
			continue
		}
		if kept, err := lock.Extend(ctx); err == nil && !kept {
			return errNotLeader
		}
	}
}

type leadError string

func (e leadError) Error() string { return string(e) }

const errNotLeader = leadError("another replica leads")

// bell wakes the fleet of this replica at once and those of the others through
// Redis.
type bell struct {
	*fleet.Fleet
	cache *cache.Cache
	rings chan tenant.ID
}

func newBell(f *fleet.Fleet, c *cache.Cache) *bell {
	return &bell{Fleet: f, cache: c, rings: make(chan tenant.ID, 64)}
}

var _ catalog.Fleet = (*bell)(nil)

// Wake implements catalog.Fleet. A full queue drops the ring for the others:
// they look by themselves every second.
func (b *bell) Wake(namespaceID tenant.ID) {
	b.Fleet.Wake(namespaceID)
	select {
	case b.rings <- namespaceID:
	default:
	}
}

func (b *bell) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.cache.Listen(ctx, b.Fleet.Wake) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case id := <-b.rings:
				b.cache.Ring(ctx, id)
			}
		}
	})
	return g.Wait()
}

// remembering keeps who pays for a namespace before its row goes.
type remembering struct {
	catalog.Source
	usage *billingdb.Store
}

func (r *remembering) MarkDeleted(ctx context.Context, kind catalog.Kind, id tenant.ID) error {
	if kind == catalog.KindNamespace {
		if err := r.usage.Remember(ctx, id); err != nil {
			return err
		}
	}
	return r.Source.MarkDeleted(ctx, kind, id)
}
