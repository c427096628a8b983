package catalog

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Store is what Service asks of a database; the rules are those of
// tenant.Store.
type Store interface {
	tenant.Reserver
	InTx(ctx context.Context, fn func(ctx context.Context) error) error
	AfterCommit(ctx context.Context, f func())
	Record(ctx context.Context, c tenant.Change) error
	Tenant(ctx context.Context, tenantID tenant.ID) (tenant.Tenant, error)
	Namespace(ctx context.Context, tenantID, id tenant.ID) (tenant.Namespace, error)

	CreateTopic(ctx context.Context, t Topic) error
	Topic(ctx context.Context, tenantID, namespaceID tenant.ID, name string) (Topic, error)
	Topics(ctx context.Context, tenantID, namespaceID tenant.ID, f TopicFilter, p tenant.Page) ([]Topic, error)
	TopicsByName(ctx context.Context, tenantID, namespaceID tenant.ID, names []string) ([]Topic, error)
	UpdateTopic(ctx context.Context, t Topic) error

	CreateGroup(ctx context.Context, g Group) error
	Group(ctx context.Context, tenantID, namespaceID tenant.ID, name string) (Group, error)
	Groups(ctx context.Context, tenantID, namespaceID tenant.ID, prefix string, p tenant.Page) ([]Group, error)
	UpdateGroup(ctx context.Context, g Group) error

	PutCluster(ctx context.Context, c Cluster) error
	Clusters(ctx context.Context) ([]Cluster, error)
}

// TopicFilter narrows a list of topics; empty fields do not.
type TopicFilter struct {
	Prefix string
	Type   TopicType
}

// Service holds the rules of topics and groups. It may be used by any number
// of goroutines; callers have asked package auth first and pass the tenant of
// the caller.
type Service struct {
	store Store
	fleet Fleet
	now   func() time.Time
}

// New makes a Service. fleet may be nil: then nothing carries intent.
func New(store Store, fleet Fleet, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{store: store, fleet: fleet, now: now}
}

func (s *Service) time() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

func (s *Service) changed(ctx context.Context, c tenant.Change) error {
	if err := s.store.Record(ctx, c); err != nil {
		return fmt.Errorf("record change of %s %s: %w", c.Kind, c.ID, err)
	}
	if s.fleet != nil {
		s.store.AfterCommit(ctx, func() { s.fleet.Wake(c.NamespaceID) })
	}
	return nil
}

// Wait blocks until brokers have the revision, it failed, or d is over. Only
// the end of ctx itself is an error: a change that takes longer than d is
// kept and goes on.
func (s *Service) Wait(ctx context.Context, kind Kind, id tenant.ID, revision int64, d time.Duration) error {
	if d <= 0 || s.fleet == nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if err := s.fleet.WaitReady(waiting, kind, id, revision); err != nil && waiting.Err() == nil {
		return fmt.Errorf("wait for %s %s: %w", kind, id, err)
	}
	return ctx.Err()
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// Names that RocketMQ keeps to itself; no topic and no group may have one.
var reservedNames = map[string]bool{
	"TBW102": true, "SELF_TEST_TOPIC": true, "OFFSET_MOVED_EVENT": true, "BenchmarkTest": true,
	"SCHEDULE_TOPIC_XXXX": true, "TRANS_CHECK_MAX_TIME_TOPIC": true, "CHECKPOINT_TOPIC": true, "DefaultCluster": true,
	"DEFAULT_CONSUMER": true, "DEFAULT_PRODUCER": true, "TOOLS_CONSUMER": true, "FILTERSRV_CONSUMER": true,
	"SELF_TEST_C_GROUP": true, "SELF_TEST_P_GROUP": true, "CLIENT_INNER_PRODUCER": true, "MONITOR_CONSUMER": true,
	"SCHEDULE_CONSUMER": true, "__MONITOR_CONSUMER": true,
}

var reservedPrefixes = []string{"rmq_sys_", "RMQ_SYS_", "CID_RMQ_SYS_", "CID_ONSAPI_", "CID_ONS-HTTP-PROXY", "sluice_", "__SLUICE"}

// CheckTopicName checks the name of a topic.
func CheckTopicName(name string) error { return checkName("topic", name) }

// CheckGroupName checks the name of a group.
func CheckGroupName(name string) error { return checkName("group", name) }

func checkName(what, name string) error {
	if !nameForm.MatchString(name) {
		e := errs.Field("name", "%s name %q: 1 to 100 of A-Z a-z 0-9 _ -", what, clip(name)).WithReason("name_invalid")
		e.Limit = "100"
		return e
	}
	if reservedNames[name] {
		return errs.Field("name", "%s name %q is reserved by RocketMQ; take another", what, name).WithReason("name_reserved")
	}
	for _, p := range reservedPrefixes {
		if strings.HasPrefix(name, p) {
			return errs.Field("name", "%s names that begin with %q are reserved; take another", what, p).WithReason("name_reserved")
		}
	}
	return nil
}

// clip bounds how much of a refused value its error repeats.
func clip(text string) string { return errs.Clip(text, 120) }

// open returns tenant and namespace if objects may be made or changed there.
func (s *Service) open(ctx context.Context, tenantID, namespaceID tenant.ID) (tenant.Tenant, error) {
	t, err := s.store.Tenant(ctx, tenantID)
	if err != nil {
		return t, err
	}
	if t.State != tenant.StateActive {
		return t, errs.E(errs.Forbidden, "tenant %s is suspended; it can look but not change", t.ID).WithReason("tenant_suspended")
	}
	_, err = s.store.Namespace(ctx, tenantID, namespaceID)
	return t, err
}

func exists(err error, what, name string) error {
	if !errs.Is(err, errs.Conflict) {
		return err
	}
	e := errs.E(errs.Conflict, "%s %q exists already in this namespace", what, name).WithReason("already_exists")
	e.Field, e.Err = "name", err
	return e
}

func protected(on bool, what, name string) error {
	if !on {
		return nil
	}
	return errs.E(errs.Conflict, "%s %q has deletion_protection; turn it off first", what, name).WithReason("deletion_protected")
}

// PutCluster makes a data plane known, or changes its endpoints.
func (s *Service) PutCluster(ctx context.Context, c Cluster) error {
	now := s.time()
	c.CreatedAt, c.UpdatedAt = now, now
	return s.store.InTx(ctx, func(ctx context.Context) error { return s.store.PutCluster(ctx, c) })
}

// Clusters lists the data planes.
func (s *Service) Clusters(ctx context.Context) ([]Cluster, error) { return s.store.Clusters(ctx) }

// Place chooses the cluster of a new namespace: the one with this name, which
// is what users call a region, or the first.
func (s *Service) Place(ctx context.Context, region string) (Cluster, error) {
	list, err := s.store.Clusters(ctx)
	if err != nil {
		return Cluster{}, err
	}
	for _, c := range list {
		if region == "" || c.Name == region {
			return c, nil
		}
	}
	if region != "" {
		return Cluster{}, errs.Field("region", "region %q does not exist", region)
	}
	return Cluster{}, errs.E(errs.Unavailable, "no cluster is registered yet")
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
