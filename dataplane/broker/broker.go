// Package broker is the core of a message broker without a protocol: sending,
// pulling with parking, receiving with invisible time, groups and their
// members, offsets, topic and group administration, registration at name
// servers. Both fronts, remoting and gRPC, call the same methods.
//
// All names are physical here: who may use them, and what the client calls
// them, is package policy's work and was settled by the front. The core does
// not know how requests arrive. Every method may be called at the same time
// from anywhere unless it says otherwise; no lock of this package is held
// over I/O, except the turn of one queue that receive.go explains.
//
// Goroutines: Run starts the periodic work and waits for it; answers to parked
// pulls run on goroutines that Close waits for.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicemq/sluice/dataplane/message"
	"github.com/sluicemq/sluice/dataplane/store"
	"github.com/sluicemq/sluice/dataplane/timerlog"
	"github.com/sluicemq/sluice/dataplane/transaction"
	"github.com/sluicemq/sluice/dataplane/vfs"
	"github.com/sluicemq/sluice/dataplane/wire"
)

// Store is what the core needs of package store.
type Store interface {
	Append(ctx context.Context, m *message.Message, d store.Durability) (store.Appended, error)
	Submit(m *message.Message, d store.Durability, w store.Waiter) error
	Lead()
	AppendBatch(ctx context.Context, ms []*message.Message, d store.Durability) ([]store.Appended, error)
	Read(topic string, queueID int32, offset int64, o store.ReadOptions) (store.Batch, error)
	ReadAt(physicalOffset int64) ([]byte, error)
	FindByKey(ctx context.Context, q store.KeyQuery) ([][]byte, error)
	QueueOffsets(topic string, queueID int32) (min, max int64)
	OffsetByTime(topic string, queueID int32, ms int64, b store.Boundary) (int64, error)
	StoreTimeAt(topic string, queueID int32, offset int64) (ms int64, ok bool)
	OnArrival(func(store.Arrival))
	CommitLogRange() (min, max int64)
	Topic(name string) (store.TopicConfig, bool)
	Topics() map[string]store.TopicConfig
	PutTopic(store.TopicConfig) error
	DeleteTopic(name string) error
	TopicsVersion() store.DataVersion
	Group(name string) (store.GroupConfig, bool)
	Groups() map[string]store.GroupConfig
	PutGroup(store.GroupConfig) error
	DeleteGroup(name string) error
	GroupsVersion() store.DataVersion
	ReadPlaces(places []store.Place) (store.Batch, error)
	Synced() int64
	RequestSync()
	NewestStoreTime() int64
	OnRetain(needed func() int64)
	SaveConfig(name string, data []byte) error
	LoadConfig(name string) ([]byte, error)
}

// Delivery is what is handed to one consumer at once, for the meter.
type Delivery struct {
	Who          Caller
	Topic, Group string   // physical
	Records      [][]byte // whole stored records, valid during the call
}

// Meter counts use. Its methods must not block.
type Meter interface {
	Delivered(Delivery)
	EmptyPoll(who Caller, topic, group string)
	// Replied counts a reply that reached its client; it is in no log.
	Replied(who Caller, m *message.Message)
}

// Registrar tells name servers what this broker serves.
type Registrar interface {
	// Register announces topics. A full registration replaces what was there;
	// otherwise the topics are added or updated. lost is called, and must not
	// block, when the connection that the registration hangs on is gone.
	Register(ctx context.Context, nameServer string, r wire.Registration, lost func()) error
	// Unregister withdraws the broker.
	Unregister(ctx context.Context, nameServer string, r wire.Registration) error
}

// Protocols of callers, as the meter and the stored mark know them.
const (
	ProtocolRemoting byte = 'r'
	ProtocolGRPC     byte = 'g'
	ProtocolHTTP     byte = 'h' // console and API, on behalf of a person
)

// Caller is who a request is charged to.
type Caller struct {
	KeyID       string // API key id; the system key's id for Sluice itself
	NamespaceID string
	Protocol    byte
}

// Config is the identity and the limits of a broker. DefaultConfig has
// sensible limits.
type Config struct {
	Cluster     string
	Name        string
	ID          int64
	Addr        string // host:port that clients are told
	StoreHost   netip.AddrPort
	NameServers []string
	Dir         string // side files of the core; a folder of its own
	TimerDir    string // timer files: the store's folder, where RocketMQ looks for them; empty for Dir

	RegisterPeriod  time.Duration
	MemberExpiry    time.Duration // a client without heartbeat for so long is gone
	LockExpiry      time.Duration // an ordered queue's lock without renewal
	OffsetsPeriod   time.Duration // how often changed offsets are written
	MaxParked       int           // parked pulls, and as many waiting receives, in all
	MaxParkedOfOne  int           // the same of one namespace
	MaxHold         time.Duration // longest wait of one pull
	MaxMemberBytes  int           // what the clients of one namespace say about themselves in heartbeats
	MaxInFlight     int           // received, not acknowledged messages of one queue and group
	MaxInvisible    time.Duration
	YoungQueue      time.Duration // a new group begins at 0 of a queue whose first message is younger
	MaxBatchBytes   int           // body bytes of all messages of a batch
	MaxMessageBytes int
	MaxDelay        time.Duration // how far ahead a message may be wanted
	TimerWindow     time.Duration // how long a record waits before it is written again; less than the store keeps records
	TimerLogBytes   int64         // of each file of a new timer log
	Trace           bool          // ask clients to send trace messages
	Transactions    transaction.Config
}

// DefaultConfig returns the limits, without an identity.
func DefaultConfig() Config {
	return Config{
		Cluster: "DefaultCluster", Name: "broker-a",
		RegisterPeriod: 10 * time.Second, MemberExpiry: 120 * time.Second, LockExpiry: 60 * time.Second,
		OffsetsPeriod: 5 * time.Second, MaxParked: 100_000, MaxParkedOfOne: 20_000, MaxHold: 30 * time.Second, MaxMemberBytes: 64 << 20, MaxInFlight: 10_000,
		MaxInvisible: 12 * time.Hour, YoungQueue: time.Hour, MaxBatchBytes: 4 << 20, MaxMessageBytes: 4 << 20,
		MaxDelay: MaxDelay, TimerWindow: 48 * time.Hour, TimerLogBytes: timerlog.DefaultFileBytes,
		Transactions: transaction.DefaultConfig(),
	}
}

// Validate reports everything that cannot work, joined.
func (c *Config) Validate() error {
	var errs []error
	if c.Name == "" || c.Cluster == "" {
		errs = append(errs, errors.New("broker.name and broker.cluster must be set"))
	}
	if c.Dir == "" {
		errs = append(errs, errors.New("broker.dir must be set"))
	}
	if _, err := netip.ParseAddrPort(c.StoreHost.String()); err != nil {
		errs = append(errs, errors.New("broker.storeHost must be an address with port"))
	}
	if c.MaxDelay > MaxDelay {
		errs = append(errs, fmt.Errorf("broker.maxDelay is %v: at most %s", c.MaxDelay, DelayText(MaxDelay)))
	}
	if c.TimerWindow < 2*time.Second || c.TimerWindow > timerTurn/4*timerStep*time.Millisecond {
		errs = append(errs, fmt.Errorf("broker.timerWindow is %v: it must be from 2 s to %v", c.TimerWindow, timerTurn/4*timerStep*time.Millisecond))
	}
	if c.TimerLogBytes < 4096 {
		errs = append(errs, fmt.Errorf("broker.timerLogBytes is %d: at least 4096", c.TimerLogBytes))
	}
	for name, d := range map[string]time.Duration{
		"maxDelay":       c.MaxDelay,
		"registerPeriod": c.RegisterPeriod, "memberExpiry": c.MemberExpiry, "lockExpiry": c.LockExpiry,
		"offsetsPeriod": c.OffsetsPeriod, "maxHold": c.MaxHold, "maxInvisible": c.MaxInvisible,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("broker.%s is %v: must be positive", name, d))
		}
	}
	for name, n := range map[string]int{
		"maxParked": c.MaxParked, "maxParkedOfOne": c.MaxParkedOfOne, "maxMemberBytes": c.MaxMemberBytes, "maxInFlight": c.MaxInFlight, "maxBatchBytes": c.MaxBatchBytes, "maxMessageBytes": c.MaxMessageBytes,
	} {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("broker.%s is %d: must be positive", name, n))
		}
	}
	return errors.Join(append(errs, c.Transactions.Validate())...)
}

// Deps are what a broker is given. Store is required; the rest gets the real
// thing or nothing when nil.
type Deps struct {
	Store     Store
	FS        vfs.FS
	Now       func() time.Time
	Logger    *slog.Logger
	Meter     Meter
	Registrar Registrar
}

// Broker is the core. Make it with New, before the store's Run.
type Broker struct {
	cfg   Config
	store Store
	now   func() time.Time
	log   *slog.Logger
	meter Meter
	boot  time.Time

	holds         *holds
	offsets       *offsets
	subscriptions *subscriptions
	members       *members
	locks         *queueLocks
	receives      *receives
	schedule      *schedule
	timers        *timers
	transactions  *transaction.Coordinator
	resets        *resets
	replies       replies
	register      *register
	next          roundRobin

	closeOnce sync.Once
	closeErr  error
}

// New loads the saved state and hooks into the store's arrival signal; call it
// before the store runs.
func New(cfg Config, deps Deps) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Store == nil {
		return nil, errors.New("broker: no store")
	}
	if deps.FS == nil {
		deps.FS = vfs.OS()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Meter == nil {
		deps.Meter = noMeter{}
	}
	if cfg.TimerDir == "" {
		cfg.TimerDir = cfg.Dir
	}
	b := &Broker{cfg: cfg, store: deps.Store, now: deps.Now, log: deps.Logger, meter: deps.Meter, boot: deps.Now()}
	b.holds = newHolds(cfg.MaxParked, cfg.MaxParkedOfOne)
	b.locks = newQueueLocks(cfg.LockExpiry, deps.Now)
	b.members = newMembers(cfg.MemberExpiry, cfg.MaxMemberBytes, deps.Now)
	b.register = newRegister(b, deps.Registrar)
	b.resets = newResets(deps.Now)
	var err error
	if b.offsets, err = loadOffsets(b); err != nil {
		return nil, fmt.Errorf("load consumer offsets: %w", err)
	}
	if b.subscriptions, err = loadSubscriptions(b.store); err != nil {
		return nil, fmt.Errorf("load subscriptions: %w", err)
	}
	if b.schedule, err = loadSchedule(b); err != nil {
		return nil, fmt.Errorf("load delay offsets: %w", err)
	}
	if b.receives, err = openReceives(b, deps.FS); err != nil {
		return nil, fmt.Errorf("open receive journal: %w", err)
	}
	if b.transactions, err = newTransactions(b, deps); err != nil {
		return nil, errors.Join(err, b.receives.close())
	}
	if b.timers, err = openTimers(b, deps.FS); err != nil {
		return nil, errors.Join(fmt.Errorf("open timers: %w", err), b.receives.close())
	}
	b.store.OnArrival(b.arrived)
	b.store.OnRetain(b.timers.needed.Load)
	return b, nil
}

// Config returns the configuration.
func (b *Broker) Config() Config { return b.cfg }

// Booted returns when the core was made.
func (b *Broker) Booted() time.Time { return b.boot }

// Run does the periodic work until ctx ends: registration, expiry of members,
// writing of offsets, delivery of delayed retries, checks of transactions. The store must be running.
func (b *Broker) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.register.run(ctx) })
	g.Go(func() error { return b.schedule.run(ctx) })
	g.Go(func() error { return b.timers.run(ctx) })
	g.Go(func() error { return b.checkTransactions(ctx) })
	g.Go(func() error { return b.subscriptions.run(ctx, b) })
	g.Go(func() error { return b.receives.run(ctx) })
	g.Go(func() error {
		return every(ctx, b.cfg.OffsetsPeriod, func() {
			if err := b.saveProgress(); err != nil {
				b.log.Error("consumer offsets were not saved", "err", err)
			}
		})
	})
	g.Go(func() error {
		return every(ctx, b.cfg.MemberExpiry/12, func() {
			b.notify(b.members.expire())
			b.locks.expire()
		})
	})
	return g.Wait()
}

// Close answers all parked pulls and receives, then writes offsets and
// receive state. Call it after the fronts stopped taking requests and before
// the store closes. It may be called again.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.holds.close()
		b.receives.stop()
		b.closeErr = errors.Join(b.saveProgress(), b.timers.close(), b.receives.close(), b.transactions.Close())
	})
	return b.closeErr
}

// Drain answers all parked pulls and waiting receives at once, empty, and
// parks none from now on. Fronts call it when they begin to stop.
func (b *Broker) Drain() {
	b.holds.close()
	b.receives.stop()
}

func (b *Broker) saveProgress() error {
	return errors.Join(b.offsets.save(b.store), b.subscriptions.save(b.store), b.schedule.save())
}

// arrived is the store's signal; it must not block.
func (b *Broker) arrived(a store.Arrival) {
	b.holds.arrived(a)
	b.receives.arrived(a.Topic)
	b.schedule.arrived(a)
	b.timers.arrived(a)
	if a.Topic == transaction.HalfTopic {
		b.transactions.Arrived()
	}
}

// every calls fn each period until ctx ends. It returns nil then: ending is no
// failure.
func every(ctx context.Context, period time.Duration, fn func()) error {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			fn()
		}
	}
}

type noMeter struct{}

func (noMeter) Delivered(Delivery)               {}
func (noMeter) EmptyPoll(Caller, string, string) {}
func (noMeter) Replied(Caller, *message.Message) {}

// The prefixes of topics that belong to a group.
const (
	RetryPrefix = "%RETRY%"
	DLQPrefix   = "%DLQ%"
)

// RetryTopic is the topic that a group's retried messages are sent to.
func RetryTopic(group string) string { return RetryPrefix + group }

// DLQTopic is the topic of a group's dead letters.
func DLQTopic(group string) string { return DLQPrefix + group }
