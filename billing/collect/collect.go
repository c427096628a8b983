// Package collect pulls usage reports out of the data plane into billing's
// tables. It is replay-proof: a report may come twice, late, or out of order,
// and the collector may die between any two steps; a broker drops a minute only
// after the collector acknowledged it as stored.
package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicemq/sluice/billing"
	"github.com/sluicemq/sluice/billing/billingdb"
	"github.com/sluicemq/sluice/dataplane/meter"
)

// Broker is where reports come from.
type Broker interface {
	Name() string
	// Usage returns the current report and its signature.
	Usage(ctx context.Context) (body []byte, signature string, err error)
	// AckUsage says that the report is stored for good.
	AckUsage(ctx context.Context, sequence uint64) error
}

// Store is what the collector writes.
type Store interface {
	Merge(ctx context.Context, src billingdb.Source, cells []billingdb.MinuteCell) error
	Rollup(ctx context.Context, limit int) (int, error)
}

// Tenants finds who pays for a namespace, also for one that was deleted.
type Tenants interface {
	TenantOf(ctx context.Context, namespaceID string) (string, error)
}

// KeyUse is what a broker tells of the last use of an API key.
type KeyUse = meter.KeyUse

// Config of a Collector.
type Config struct {
	Secret   []byte        // key of the reports' signatures
	Interval time.Duration // between two rounds; default 10 s
	Timeout  time.Duration // of one call to a broker; default 10 s
	Now      func() time.Time
	Logger   *slog.Logger
	// KeyUsed, if set, is told of API keys that were used on the message path.
	KeyUsed func(ctx context.Context, u meter.KeyUse) error
}

// Collector pulls from a fixed set of brokers.
type Collector struct {
	cfg     Config
	brokers []Broker
	store   Store
	tenants Tenants
	known   map[string]string // namespace to tenant; ids are never used again
}

// New makes a Collector; Run starts it.
func New(cfg Config, brokers []Broker, store Store, tenants Tenants) *Collector {
	if cfg.Interval == 0 {
		cfg.Interval = 10 * time.Second
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	return &Collector{cfg: cfg, brokers: brokers, store: store, tenants: tenants, known: map[string]string{}}
}

// Run collects until ctx ends. A broker that does not answer is asked again in
// the next round and delays no other.
func (c *Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(c.cfg.Interval)
	defer tick.Stop()
	for {
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Error("usage could not be collected; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// reportsPerRound bounds how long one broker's backlog holds up a round.
const reportsPerRound = 100

// Collect makes one round over all brokers and brings the roll-ups up to date.
// It must not be called by two goroutines at once.
func (c *Collector) Collect(ctx context.Context) error {
	var errs []error
	for _, b := range c.brokers {
		for range reportsPerRound {
			more, err := c.pull(ctx, b)
			if err != nil {
				errs = append(errs, fmt.Errorf("broker %s: %w", b.Name(), err))
			}
			if !more || err != nil {
				break
			}
		}
	}
	for {
		n, err := c.store.Rollup(ctx, rollupBatch)
		if err != nil {
			errs = append(errs, err)
		}
		if n == 0 || err != nil {
			return errors.Join(errs...)
		}
	}
}

const rollupBatch = 500

// ErrSignature is returned for a report that the broker did not sign.
var ErrSignature = errors.New("usage report with a wrong signature")

func (c *Collector) pull(ctx context.Context, b Broker) (more bool, err error) {
	callCtx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	body, signature, err := b.Usage(callCtx)
	if err != nil {
		return false, err
	}
	if !meter.Verify(c.cfg.Secret, body, signature) {
		return false, ErrSignature
	}
	var r meter.Report
	if err := json.Unmarshal(body, &r); err != nil {
		return false, fmt.Errorf("decode usage report: %w", err)
	}
	for _, s := range r.Sources {
		cells, err := c.cells(ctx, s)
		if err != nil {
			return false, err
		}
		src := billingdb.Source{ID: s.Source, Broker: r.Broker, Kind: s.Kind, Dead: s.Dead && !s.More, SealedThrough: s.SealedThrough}
		if err := c.store.Merge(ctx, src, cells); err != nil {
			return false, err
		}
		more = more || s.More
	}
	c.noteKeys(ctx, r.KeyUses)
	return more, b.AckUsage(callCtx, r.Sequence)
}

var (
	classes   = map[string]billing.Class{"n": billing.ClassNormal, "o": billing.ClassOrdered, "d": billing.ClassDelayed, "t": billing.ClassTransactional}
	protocols = map[string]billing.Protocol{"r": billing.ProtocolRemoting, "g": billing.ProtocolGRPC, "h": billing.ProtocolHTTP}
)

func (c *Collector) cells(ctx context.Context, s meter.SourceReport) ([]billingdb.MinuteCell, error) {
	var out []billingdb.MinuteCell
	for _, m := range s.Minutes {
		for _, cell := range m.Cells {
			tenantID, err := c.tenantOf(ctx, cell.NamespaceID)
			if err != nil {
				return nil, err
			}
			counts := make(map[billing.Counter]uint64, len(cell.Counts))
			for name, n := range cell.Counts {
				counts[billing.Counter(name)] = n
			}
			out = append(out, billingdb.MinuteCell{
				Minute: m.Minute, Sealed: m.Sealed, TenantID: tenantID, Counts: counts,
				Cell: billing.Cell{NamespaceID: cell.NamespaceID, Topic: cell.Topic, Group: cell.Group, APIKeyID: cell.KeyID,
					Class: classes[cell.Class], Protocol: protocols[cell.Protocol]},
			})
		}
	}
	return out, nil
}

// noteKeys tells which keys were used. A broker's clock may run ahead: nothing
// was used in the future.
func (c *Collector) noteKeys(ctx context.Context, uses []meter.KeyUse) {
	if c.cfg.KeyUsed == nil {
		return
	}
	now := c.cfg.Now().UnixMilli()
	for _, u := range uses {
		u.At = min(u.At, now)
		if err := c.cfg.KeyUsed(ctx, u); err != nil {
			c.cfg.Logger.Warn("last use of an API key was not noted", "key", u.KeyID, "err", err)
		}
	}
}

// UnknownTenant owns usage of a namespace that the catalogue does not know. It
// is kept and reported, never dropped.
const UnknownTenant = "ten_unknown"

func (c *Collector) tenantOf(ctx context.Context, namespaceID string) (string, error) {
	if id, ok := c.known[namespaceID]; ok {
		return id, nil
	}
	id, err := c.tenants.TenantOf(ctx, namespaceID)
	if err != nil {
		return "", fmt.Errorf("tenant of namespace %s: %w", namespaceID, err)
	}
	if id == "" {
		c.cfg.Logger.Error("usage of an unknown namespace", "namespace", namespaceID)
		return UnknownTenant, nil
	}
	c.known[namespaceID] = id
	return id, nil
}
