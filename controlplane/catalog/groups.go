package catalog

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Limits and defaults of a group.
const (
	DefaultMaxAttempts = 16
	DefaultMaxInFlight = 10_000
	maxAttempts        = 1000
	maxInFlight        = 1_000_000
	maxDelays          = 64
	maxDelay           = 24 * time.Hour
)

// The orders of delivery.
const (
	OrderConcurrent = "concurrent"
	OrderFIFO       = "fifo"
)

// The strategies of a retry.
const (
	RetryFixed       = "fixed"
	RetryExponential = "exponential"
	RetryCustom      = "custom"
)

// DefaultDelays are the levels of RocketMQ's retries.
func DefaultDelays() []Duration {
	return []Duration{"10s", "30s", "1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m", "10m", "20m", "30m", "1h", "2h"}
}

// Schedule is the retry as a list: the delay before each further delivery,
// the last one repeating.
func (r Retry) Schedule() []time.Duration {
	if len(r.Delays) == 0 {
		return nil
	}
	if r.Strategy == RetryExponential {
		first, longest := r.Delays[0].Std(), r.Delays[len(r.Delays)-1].Std()
		var out []time.Duration
		for d := first; len(out) < maxDelays; d *= 2 {
			if d >= longest || d <= 0 {
				return append(out, longest)
			}
			out = append(out, d)
		}
		return out
	}
	out := make([]time.Duration, len(r.Delays))
	for i, d := range r.Delays {
		out[i] = d.Std()
	}
	return out
}

// GroupUpdate is what to change of a group; nil means as it is.
type GroupUpdate struct {
	ConsumeEnabled     *bool
	Broadcast          *bool
	Retry              *Retry
	DeadLetter         *DeadLetter
	MaxInFlight        *int32
	MaxReceiveTPS      *int64
	Description        *string
	Labels             map[string]string
	DeletionProtection *bool
}

// CreateGroup makes a consumer group; the fields of in that users set count.
// Order, Retry, MaxInFlight get defaults when zero.
func (s *Service) CreateGroup(ctx context.Context, tenantID, namespaceID tenant.ID, in Group) (Group, error) {
	now := s.time()
	g := in
	g.TenantID, g.NamespaceID, g.ID = tenantID, namespaceID, tenant.NewID(tenant.PrefixGroup, now)
	if g.Order == "" {
		g.Order = OrderConcurrent
	}
	if g.MaxInFlight == 0 {
		g.MaxInFlight = DefaultMaxInFlight
	}
	if g.Labels == nil {
		g.Labels = map[string]string{}
	}
	g.Retry = withDefaults(g.Retry)
	g.Status = Status{Phase: PhasePending}
	g.CreatedAt, g.UpdatedAt, g.Revision = now, now, 1
	if err := CheckGroupName(g.Name); err != nil {
		return Group{}, err
	}
	if err := checkGroup(g); err != nil {
		return Group{}, err
	}
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		owner, err := s.open(ctx, tenantID, namespaceID)
		if err != nil {
			return err
		}
		if err := s.checkDeadLetter(ctx, g); err != nil {
			return err
		}
		if err := tenant.Reserve(ctx, s.store, owner, namespaceID, tenant.QuotaGroups, now); err != nil {
			return err
		}
		if err := exists(s.store.CreateGroup(ctx, g), "group", g.Name); err != nil {
			return err
		}
		return s.changed(ctx, groupChange(g))
	})
	return g, err
}

func withDefaults(r Retry) Retry {
	if r.MaxAttempts == 0 {
		r.MaxAttempts = DefaultMaxAttempts
	}
	if r.Strategy == "" {
		r.Strategy = RetryCustom
	}
	if len(r.Delays) == 0 && r.Strategy == RetryCustom {
		r.Delays = DefaultDelays()
	}
	return r
}

func groupChange(g Group) tenant.Change {
	return tenant.Change{TenantID: g.TenantID, NamespaceID: g.NamespaceID, Kind: string(KindGroup), ID: g.ID, Revision: g.Revision}
}

// Group returns one group by name.
func (s *Service) Group(ctx context.Context, tenantID, namespaceID tenant.ID, name string) (Group, error) {
	return s.store.Group(ctx, tenantID, namespaceID, name)
}

// Groups lists the groups of a namespace.
func (s *Service) Groups(ctx context.Context, tenantID, namespaceID tenant.ID, prefix string, p tenant.Page) ([]Group, error) {
	if _, err := s.store.Namespace(ctx, tenantID, namespaceID); err != nil {
		return nil, err
	}
	return s.store.Groups(ctx, tenantID, namespaceID, prefix, p)
}

// UpdateGroup changes a group. Retry and DeadLetter are replaced as a whole.
func (s *Service) UpdateGroup(ctx context.Context, tenantID, namespaceID tenant.ID, name string, u GroupUpdate, want int64) (Group, error) {
	var out Group
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		if _, err := s.open(ctx, tenantID, namespaceID); err != nil {
			return err
		}
		g, err := s.store.Group(ctx, tenantID, namespaceID, name)
		if err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, g.Revision); err != nil {
			return err
		}
		set(&g.ConsumeEnabled, u.ConsumeEnabled)
		set(&g.Broadcast, u.Broadcast)
		set(&g.DeadLetter, u.DeadLetter)
		set(&g.MaxInFlight, u.MaxInFlight)
		set(&g.MaxReceiveTPS, u.MaxReceiveTPS)
		set(&g.Description, u.Description)
		set(&g.DeletionProtection, u.DeletionProtection)
		if u.Retry != nil {
			g.Retry = withDefaults(*u.Retry)
		}
		if u.Labels != nil {
			g.Labels = u.Labels
		}
		if err := checkGroup(g); err != nil {
			return err
		}
		if err := s.checkDeadLetter(ctx, g); err != nil {
			return err
		}
		g.Status.Phase, g.Status.Reason = PhasePending, ""
		g.UpdatedAt, g.Revision = s.time(), g.Revision+1
		out = g
		if err := s.store.UpdateGroup(ctx, g); err != nil {
			return err
		}
		return s.changed(ctx, groupChange(g))
	})
	return out, err
}

// DeleteGroup removes a group with its offsets and its retry and dead-letter
// topics; the name is free at once.
func (s *Service) DeleteGroup(ctx context.Context, tenantID, namespaceID tenant.ID, name string, want int64) (Group, error) {
	var out Group
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		owner, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		g, err := s.store.Group(ctx, tenantID, namespaceID, name)
		if err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, g.Revision); err != nil {
			return err
		}
		if err := protected(g.DeletionProtection, "group", name); err != nil {
			return err
		}
		g.Status.Phase = PhaseDeleting
		g.UpdatedAt, g.Revision = s.time(), g.Revision+1
		out = g
		if err := s.store.UpdateGroup(ctx, g); err != nil {
			return err
		}
		if err := tenant.Release(ctx, s.store, owner, namespaceID, tenant.QuotaGroups); err != nil {
			return err
		}
		return s.changed(ctx, groupChange(g))
	})
	return out, err
}

const dlqPrefix = "%DLQ%"

// checkDeadLetter makes sure that a dead-letter topic of the user's own
// exists; the group's %DLQ% topic makes itself.
func (s *Service) checkDeadLetter(ctx context.Context, g Group) error {
	topic := g.DeadLetter.Topic
	if topic == "" || topic == dlqPrefix+g.Name {
		return nil
	}
	if strings.HasPrefix(topic, "%") {
		return errs.Field("dead_letter.topic", "%q is another group's topic; use %q or a topic of yours", topic, dlqPrefix+g.Name)
	}
	_, err := s.store.Topic(ctx, g.TenantID, g.NamespaceID, topic)
	if errs.Is(err, errs.NotFound) {
		return errs.Field("dead_letter.topic", "topic %q does not exist in this namespace", topic)
	}
	return err
}

func checkGroup(g Group) error {
	if g.Order != OrderConcurrent && g.Order != OrderFIFO {
		return errs.Field("order", "unknown order %q; use concurrent or fifo", g.Order)
	}
	if err := within("max_in_flight", int64(g.MaxInFlight), 1, maxInFlight); err != nil {
		return err
	}
	if err := within("max_recv_tps", g.MaxReceiveTPS, 0, maxTPS); err != nil {
		return err
	}
	if err := within("retry.max_attempts", int64(g.Retry.MaxAttempts), 1, maxAttempts); err != nil {
		return err
	}
	if err := checkDelays(g.Retry); err != nil {
		return err
	}
	if err := tenant.CheckDescription(g.Description); err != nil {
		return err
	}
	return tenant.CheckLabels(g.Labels)
}

func checkDelays(r Retry) error {
	n := len(r.Delays)
	switch {
	case r.Strategy == RetryFixed && n != 1:
		return errs.Field("retry.delays", "strategy fixed takes one delay, not %d", n)
	case r.Strategy == RetryExponential && n != 2:
		return errs.Field("retry.delays", "strategy exponential takes two delays, the first and the longest, not %d", n)
	case r.Strategy == RetryCustom && (n < 1 || n > maxDelays):
		return errs.Field("retry.delays", "strategy custom takes 1 to %d delays, not %d", maxDelays, n)
	case r.Strategy != RetryFixed && r.Strategy != RetryExponential && r.Strategy != RetryCustom:
		return errs.Field("retry.strategy", "unknown strategy %q; use fixed, exponential or custom", r.Strategy)
	}
	for i, d := range r.Delays {
		if err := checkDuration(fmt.Sprintf("retry.delays[%d]", i), d, time.Millisecond, maxDelay); err != nil {
			return err
		}
	}
	if r.Strategy == RetryExponential && r.Delays[1].Std() < r.Delays[0].Std() {
		return errs.Field("retry.delays[1]", "the longest delay is shorter than the first")
	}
	return nil
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
