package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/meter"
	"github.com/sluicemq/sluice/dataplane/mqclient"
	"github.com/sluicemq/sluice/dataplane/policy"
	"github.com/sluicemq/sluice/dataplane/processor"
	"github.com/sluicemq/sluice/dataplane/proxy"
	"github.com/sluicemq/sluice/dataplane/remoting"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/transaction"
)

// drainTime is how long a stopping node waits for calls that run.
const drainTime = 20 * time.Second

// BrokerConfig is what a broker process is told beside Common.
type BrokerConfig struct {
	Name          string // broker name in routes
	Advertise     string // host that clients are told; empty: the listener's
	NameServers   []string
	Store         store.Config // Dir and StoreHost are set here
	MaxInFlight   int          // received, not acknowledged messages of one queue and group
	Transactions  transaction.Config
	AdvertiseGRPC []string // host:port of gRPC clients' next calls; empty: as they dialled
}

// Broker is a broker process.
type Broker struct {
	engine    *policy.Engine
	meter     *meter.Meter
	store     *store.Store
	client    *mqclient.Client
	core      *broker.Broker
	processor *processor.Processor
	server    *remoting.Server
	front     *proxy.Front
}

// NewBroker opens the node's folder and takes over both listeners. On an error
// everything that was opened is closed again.
func NewBroker(c Common, cfg BrokerConfig, ln, grpc net.Listener) (_ *Broker, err error) {
	b := &Broker{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.closeStorage(), ln.Close(), grpc.Close())
		}
	}()
	addr, err := hostPort(cfg.Advertise, ln.Addr())
	if err != nil {
		return nil, err
	}
	if b.engine, err = c.policy(filepath.Join(c.Dir, "policy")); err != nil {
		return nil, err
	}
	m := newMetrics(c.Metrics, roleBroker)
	m.policyRevision(b.engine)
	if err := b.openStorage(c, cfg, ln.Addr(), m); err != nil {
		return nil, err
	}
	if b.client, err = mqclient.New(mqclient.Config{Secret: c.Secret, Remoting: remoting.ClientOptions{Logger: c.Logger}}); err != nil {
		return nil, err
	}
	use := &counted{meter: b.meter, metrics: m}
	core := broker.DefaultConfig()
	core.Cluster, core.Name, core.Addr, core.NameServers, core.Dir = c.Cluster, cfg.Name, addr, cfg.NameServers, filepath.Join(c.Dir, "core")
	core.StoreHost, core.MaxMessageBytes = cfg.Store.StoreHost, cfg.Store.MaxMessageBytes
	core.TimerDir = filepath.Join(c.Dir, "store")
	// A record that waits is written again well before it is old enough to go.
	core.TimerWindow = max(min(core.TimerWindow, cfg.Store.Retention/2), 2*time.Second)
	if core.StoreHost, err = storeHost(ln.Addr()); err != nil {
		return nil, err
	}
	if cfg.MaxInFlight > 0 {
		core.MaxInFlight = cfg.MaxInFlight
	}
	if cfg.Transactions != (transaction.Config{}) {
		core.Transactions = cfg.Transactions
	}
	b.core, err = broker.New(core, broker.Deps{Store: b.store, Now: c.Now, Logger: c.Logger, Meter: use, Registrar: mqclient.Registrar{Client: b.client}})
	if err != nil {
		return nil, err
	}
	if err := m.registry.Register(transactionMetrics{b.core}); err != nil {
		return nil, err
	}
	if err := m.registry.Register(timerMetrics{b.core}); err != nil {
		return nil, err
	}
	b.processor = processor.New(processor.Deps{Broker: b.core, Policy: b.engine, Usage: b.meter, Calls: use, Refuse: m.refused, Logger: c.Logger, Now: c.Now})
	remotingCfg, err := c.remoting()
	if err != nil {
		return nil, err
	}
	if b.server, err = remoting.NewServer(remotingCfg, ln, b.processor, c.Logger); err != nil {
		return nil, err
	}
	front := proxy.DefaultConfig()
	front.TLSMode, front.TLS, front.Advertise, front.MaxBodyBytes = c.TLSMode.proxy(), c.TLS, cfg.AdvertiseGRPC, cfg.Store.MaxMessageBytes
	b.front, err = proxy.New(front, proxy.Deps{Broker: b.core, Policy: b.engine, Listener: grpc, Meter: use, Refused: m.refused, Now: c.Now, Logger: c.Logger})
	return b, err
}

// storeHost is the address inside offset message ids.
func storeHost(addr net.Addr) (netip.AddrPort, error) {
	host, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return host, fmt.Errorf("listener address %s: %w", addr, err)
	}
	if host.Addr().IsUnspecified() {
		host = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), host.Port())
	}
	return netip.AddrPortFrom(host.Addr().Unmap(), host.Port()), nil
}

// openStorage opens meter and store, which need each other: the store feeds
// the meter's fold, the meter asks where the log ends.
func (b *Broker) openStorage(c Common, cfg BrokerConfig, addr net.Addr, m *metrics) error {
	var err error
	if cfg.Store.StoreHost, err = storeHost(addr); err != nil {
		return err
	}
	cfg.Store.Dir = filepath.Join(c.Dir, "store")
	b.meter, err = meter.Open(meter.Config{
		Dir: filepath.Join(c.Dir, "meter"), Broker: cfg.Name, Secret: c.Secret, Retention: cfg.Store.Retention,
		LogEnd: func() int64 { _, end := b.store.CommitLogRange(); return end }, Now: c.Now, Logger: c.Logger,
		KeyUses: func() []meter.KeyUse { return keyUses(b.engine.Uses()) },
	})
	if err != nil {
		return err
	}
	fold := store.Fold{From: b.meter.FoldFrom, Apply: func(offset int64, rec []byte) {
		b.meter.Fold(offset, rec)
		m.stored(rec)
	}}
	if b.store, err = store.Open(cfg.Store, store.Deps{Now: c.Now, Logger: c.Logger, Folds: []store.Fold{fold}}); err != nil {
		return err
	}
	return m.registry.Register(storeMetrics{b.store})
}

func (b *Broker) closeStorage() error {
	var errs []error
	if b.core != nil {
		errs = append(errs, b.core.Close())
	}
	if b.client != nil {
		errs = append(errs, b.client.Close())
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.meter != nil {
		errs = append(errs, b.meter.Close())
	}
	if b.engine != nil {
		errs = append(errs, b.engine.Close())
	}
	return errors.Join(errs...)
}

// Addr and GRPCAddr are the listeners' addresses.
func (b *Broker) Addr() net.Addr     { return b.server.Addr() }
func (b *Broker) GRPCAddr() net.Addr { return b.front.Addr() }

// PolicyRevision is the policy in force; 0 before the first.
func (b *Broker) PolicyRevision() uint64 { return b.engine.Revision() }

// errBackground says that something ended that should run for as long as the
// broker: messages would be stored and never read.
var errBackground = errors.New("the broker's background work ended")

// Run serves until ctx ends, or the store or the meter stops working. Then it
// stops accepting, finishes what was accepted, flushes, and returns; nil means
// that all of that worked.
func (b *Broker) Run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx)) // outlives the fronts
	defer stop()
	inner, works := errgroup.WithContext(background)
	lasting := func(name string, run func(context.Context) error) {
		inner.Go(func() error {
			err := stopped(run(works))
			if err == nil && works.Err() != nil {
				return nil
			}
			return errors.Join(fmt.Errorf("%s: %w", name, errBackground), err)
		})
	}
	lasting("store", b.store.Run)
	lasting("meter", b.meter.Run)

	fronts, ctx := errgroup.WithContext(ctx)
	fronts.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-works.Done():
			return errBackground
		}
	})
	fronts.Go(b.server.Serve)
	fronts.Go(func() error { return b.front.Run(background) })
	fronts.Go(func() error { return stopped(b.core.Run(ctx)) })
	fronts.Go(func() error { return stopped(b.processor.Run(ctx, b.server.Conns)) })
	fronts.Go(func() error {
		<-ctx.Done()
		return b.drain(ctx)
	})
	err := fronts.Wait()
	if errors.Is(err, errBackground) {
		err = nil // inner says why
	}
	err = errors.Join(err, b.core.Close(), b.client.Close())
	stop()
	err = errors.Join(err, inner.Wait())
	return errors.Join(err, b.store.Close(), b.meter.Close(), b.engine.Close())
}

func (b *Broker) drain(ctx context.Context) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	b.core.Drain() // parked polls are answered, so that no connection waits for them
	var both errgroup.Group
	both.Go(func() error { return errors.Join(b.server.Shutdown(grace), b.server.Close()) })
	both.Go(func() error { return b.front.Close(grace) })
	return both.Wait()
}

// Close gives back what New opened, for a node that never ran.
func (b *Broker) Close() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err := b.front.Close(ended) // nothing runs that it could wait for
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(b.server.Close(), err, b.closeStorage())
}
