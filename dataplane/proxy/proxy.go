// Package proxy is the gRPC front: it serves the RocketMQ 5 protocol
// (apache.rocketmq.v2) to official SDKs. It translates and does nothing else:
// a request is decoded, passes package policy, gets physical names, calls the
// broker core, and leaves with the names and codes that the client knows.
//
// It owns connections of its port (TLS and plaintext told apart by the first
// byte), Telemetry streams, what clients said about themselves (sessions), and
// the renewal of messages that push consumers hold. Rules about messages,
// groups and offsets live in package broker; sessions are not kept on disk,
// because every request of a client without one is answered from its group.
//
// Refusals travel in the status of the response body with gRPC status OK; the
// text is "[SLUICE:<code>] …" as everywhere.
//
// All methods of Front may be called at the same time. Goroutines: the gRPC
// server's, one reader for each Telemetry stream, and the three of Run; Close
// and Run wait for all of them.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/sluicemq/sluice/dataplane/broker"
	"github.com/sluicemq/sluice/dataplane/policy"
)

// TLSMode says which first bytes the port takes.
type TLSMode uint8

// The TLS modes. Official SDKs differ in their default, so permissive, which
// takes both, is the mode that locks nobody out.
const (
	TLSDisabled TLSMode = iota
	TLSPermissive
	TLSRequired
)

// Config shapes a Front. DefaultConfig has the limits; zero fields are not
// filled.
type Config struct {
	TLSMode TLSMode
	TLS     *tls.Config // required unless TLSDisabled

	// Advertise are the addresses, host:port, that clients are sent to after
	// their first request. When empty, clients are sent back to the address
	// that they dialled, which also works behind port mappings.
	Advertise []string

	MaxBodyBytes         int           // body of a message
	MaxConnections       int           // open at once
	MaxConnectionsPerIP  int           // open at once from one address
	MaxConcurrentStreams uint32        // open calls of one connection: a push consumer, which has its own, waits in one for each topic
	MaxHeaderBytes       uint32        // metadata of one call, 32 for each header included: see streamBytes
	MaxUnfinished        int64         // bytes of requests that have begun to arrive on all connections
	UnfinishedTime       time.Duration // that one message may take to arrive: clients give up after a few seconds
	MaxUnpacked          int64         // bytes of bodies that are unpacked for clients; then what needs it waits
	UnreadTime           time.Duration // that an unpacked message may wait for its client to read on
	MaxSessions          int           // clients known at once
	MaxNamespaceSessions int           // clients known at once of one namespace
	HandshakeTimeout     time.Duration // from accept to the end of the TLS handshake
	MinPoll, MaxPoll     time.Duration // bounds of a receive's wait
	SettingsRepeat       time.Duration // settings are sent a second time after this: one SDK misses the first
	SessionExpiry        time.Duration // a client without call and stream is forgotten after this
	RenewPeriod          time.Duration // how often held messages and sessions are looked at
	RenewLease           time.Duration // invisible time of messages that a push consumer holds
	RenewAhead           time.Duration // how long before its end an invisible time is renewed
	RenewLimit           time.Duration // for how long at most they are renewed
}

// DefaultConfig returns the limits used in production, TLS disabled.
func DefaultConfig() Config {
	return Config{
		MaxBodyBytes: 4 << 20, MaxConnections: 20_000, MaxConnectionsPerIP: 5_000, MaxConcurrentStreams: 1_000,
		MaxHeaderBytes: 8 << 10, MaxUnfinished: 256 << 20, UnfinishedTime: 30 * time.Second,
		MaxUnpacked: 64 << 20, UnreadTime: 30 * time.Second, MaxSessions: 50_000, MaxNamespaceSessions: 10_000, HandshakeTimeout: 10 * time.Second,
		MinPoll: 500 * time.Millisecond, MaxPoll: 20 * time.Second, SettingsRepeat: time.Second,
		SessionExpiry: 120 * time.Second, RenewPeriod: 5 * time.Second, RenewLease: 60 * time.Second, RenewAhead: 20 * time.Second, RenewLimit: 3 * time.Hour,
	}
}

// Validate reports everything that cannot work, joined.
func (c *Config) Validate() error {
	var errs []error
	if c.TLSMode > TLSRequired {
		errs = append(errs, fmt.Errorf("grpc.tlsMode is %d: unknown", c.TLSMode))
	}
	if c.TLSMode != TLSDisabled && c.TLS == nil {
		errs = append(errs, errors.New("grpc.tls: a certificate is needed unless the mode is disabled"))
	}
	if _, err := parseEndpoints(c.Advertise); err != nil {
		errs = append(errs, fmt.Errorf("grpc.advertise: %w", err))
	}
	for name, n := range map[string]int{
		"maxBodyBytes": c.MaxBodyBytes, "maxConnections": c.MaxConnections, "maxConnectionsPerIP": c.MaxConnectionsPerIP,
		"maxConcurrentStreams": int(c.MaxConcurrentStreams), "maxHeaderBytes": int(c.MaxHeaderBytes), "maxUnfinished": int(c.MaxUnfinished), "maxUnpacked": int(c.MaxUnpacked),
		"maxSessions": c.MaxSessions, "maxNamespaceSessions": c.MaxNamespaceSessions,
	} {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("grpc.%s is %d: must be positive", name, n))
		}
	}
	for name, d := range map[string]time.Duration{
		"handshakeTimeout": c.HandshakeTimeout, "unfinishedTime": c.UnfinishedTime, "unreadTime": c.UnreadTime, "maxPoll": c.MaxPoll, "settingsRepeat": c.SettingsRepeat,
		"sessionExpiry": c.SessionExpiry, "renewPeriod": c.RenewPeriod, "renewLease": c.RenewLease, "renewAhead": c.RenewAhead, "renewLimit": c.RenewLimit,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("grpc.%s is %v: must be positive", name, d))
		}
	}
	if c.MinPoll < 0 || c.MinPoll > c.MaxPoll {
		errs = append(errs, fmt.Errorf("grpc.minPoll is %v: must be 0 to maxPoll", c.MinPoll))
	}
	return errors.Join(errs...)
}

// Meter counts the use of tenants. Its methods must not block.
type Meter interface {
	// Call counts a call that was served.
	Call(who broker.Caller)
	// Rejected counts a call that was refused after it was authenticated.
	Rejected(who broker.Caller)
	// Connected counts an open connection until closed is called.
	Connected(who broker.Caller) (closed func())
}

// Deps are what a Front is given. Broker, Policy and Listener are required.
type Deps struct {
	Broker   *broker.Broker
	Policy   *policy.Engine
	Listener net.Listener // owned by the Front from New on
	Meter    Meter
	Refused  func(code string) // counts refusals by code, for metrics
	Now      func() time.Time
	Logger   *slog.Logger
}

// Front is the gRPC server of one broker.
type Front struct {
	cfg       Config
	core      *broker.Broker
	policy    *policy.Engine
	meter     Meter
	refused   func(string)
	now       func() time.Time
	log       *slog.Logger
	advertise *v2.Endpoints // nil: the address that the client dialled

	ln       *listener
	server   *grpc.Server
	health   *health.Server
	sessions *sessions
	watches  *watches

	idBase  uint32
	idNext  atomic.Uint32
	changed chan struct{} // the policy changed
	readers sync.WaitGroup

	unfinished atomic.Int64 // bytes of requests that are not whole yet
	unpacking  *unpacking

	closing   chan struct{} // closed when Close begins
	closeOnce sync.Once
}

// service implements the protocol; its methods are one file per family.
type service struct {
	v2.UnimplementedMessagingServiceServer
	f *Front
}

// New makes a Front that serves as soon as Run is called.
func New(cfg Config, deps Deps) (*Front, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Broker == nil || deps.Policy == nil || deps.Listener == nil {
		return nil, errors.New("proxy: Broker, Policy and Listener are required")
	}
	f := &Front{
		cfg: cfg, core: deps.Broker, policy: deps.Policy, meter: deps.Meter, refused: deps.Refused, now: deps.Now, log: deps.Logger,
		idBase: rand.Uint32(), changed: make(chan struct{}, 1), closing: make(chan struct{}), watches: newWatches(),
		unpacking: newUnpacking(cfg.MaxUnpacked, int64(cfg.MaxBodyBytes)),
	}
	f.fillDefaults()
	f.sessions = newSessions(f)
	f.advertise, _ = parseEndpoints(cfg.Advertise)
	f.ln = newListener(f, deps.Listener)
	f.health = health.NewServer()
	f.server = grpc.NewServer(
		grpc.Creds(&handshaker{f: f, tls: serverTLS(cfg.TLS)}),
		grpc.ConnectionTimeout(cfg.HandshakeTimeout),
		grpc.MaxRecvMsgSize(2*cfg.MaxBodyBytes),
		grpc.MaxHeaderListSize(cfg.MaxHeaderBytes),
		grpc.MaxConcurrentStreams(cfg.MaxConcurrentStreams),
		// Some SDKs ping idle connections every ten seconds.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		// No maximum age: some SDKs never reopen a Telemetry stream. Dead peers
		// are found by pings.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionIdle: 30 * time.Minute}),
		grpc.WaitForHandlers(true),
	)
	v2.RegisterMessagingServiceServer(f.server, &service{f: f})
	healthpb.RegisterHealthServer(f.server, f.health)
	reflection.Register(f.server)
	f.policy.OnChange(func() {
		select {
		case f.changed <- struct{}{}:
		default: // a look is due already
		}
	})
	return f, nil
}

func (f *Front) fillDefaults() {
	if f.meter == nil {
		f.meter = noMeter{}
	}
	if f.refused == nil {
		f.refused = func(string) {}
	}
	if f.now == nil {
		f.now = time.Now
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
}

// Addr is the listener's address.
func (f *Front) Addr() net.Addr { return f.ln.Addr() }

// Run serves until Close, or until the listener fails. When ctx ends first,
// everything that is open is cut off; call Close before to let it finish.
func (f *Front) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := f.server.Serve(f.ln); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serve gRPC: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return f.Close(ctx)
		case <-f.closing:
			return nil
		}
	})
	g.Go(func() error { f.look(ctx); return nil })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// lookPeriod is how often open streams are looked at although the policy did
// not change: keys and tokens also end by the clock.
const lookPeriod = 500 * time.Millisecond

// look ends what may not go on: streams of callers whose key was revoked or
// expired, sessions of silent clients. It renews held messages.
func (f *Front) look(ctx context.Context) {
	tick := time.NewTicker(f.cfg.RenewPeriod)
	defer tick.Stop()
	soon := time.NewTicker(lookPeriod)
	defer soon.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.closing:
			return
		case <-f.changed:
			f.watches.check()
			f.sessions.sweep()
		case <-soon.C:
			f.watches.check()
			f.ln.closeLate(time.Now().Add(-f.cfg.UnfinishedTime))
		case <-tick.C:
			f.sessions.sweep()
			f.sessions.renew()
		}
	}
}

// Close stops accepting, answers what waits, lets running calls finish, and
// closes all connections. When ctx ends first, the rest is cut off and ctx's
// error returned. It may be called again, and without Run.
func (f *Front) Close(ctx context.Context) error {
	first := false
	f.closeOnce.Do(func() {
		first = true
		close(f.closing)
	})
	f.health.Shutdown()
	f.watches.drain()
	finished := make(chan struct{})
	go func() { // ends when all calls ended, which Stop below enforces
		f.server.GracefulStop()
		f.readers.Wait()
		close(finished)
	}()
	var err error
	select {
	case <-finished:
	case <-ctx.Done():
		f.server.Stop()
		<-finished
		err = ctx.Err()
	}
	if first {
		err = errors.Join(err, f.ln.close())
		f.sessions.closeAll()
	}
	return err
}

type noMeter struct{}

func (noMeter) Call(broker.Caller)             {}
func (noMeter) Rejected(broker.Caller)         {}
func (noMeter) Connected(broker.Caller) func() { return func() {} }
