package catalog

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// Limits and defaults of a topic.
const (
	DefaultQueues    = 4
	MaxQueues        = 64
	DefaultRetention = Duration("72h")
	MaxMessageBytes  = 4 << 20
	minRetention     = time.Minute
	maxRetention     = 8760 * time.Hour
	maxTPS           = 1_000_000
)

// TopicUpdate is what to change of a topic; nil means as it is.
type TopicUpdate struct {
	Queues             *int32
	Retention          *Duration
	MaxMessageBytes    *int32
	MaxSendTPS         *int64
	Perm               *string
	Description        *string
	Labels             map[string]string
	DeletionProtection *bool
}

// CreateTopic makes a topic; the fields of in that users set count, and zero
// ones get their defaults.
func (s *Service) CreateTopic(ctx context.Context, tenantID, namespaceID tenant.ID, in Topic) (Topic, error) {
	now := s.time()
	t := in
	t.TenantID, t.NamespaceID, t.ID = tenantID, namespaceID, tenant.NewID(tenant.PrefixTopic, now)
	if t.Type == "" {
		t.Type = TopicNormal
	}
	if t.Queues == 0 {
		t.Queues = DefaultQueues
	}
	if t.Retention == "" {
		t.Retention = DefaultRetention
	}
	if t.MaxMessageBytes == 0 {
		t.MaxMessageBytes = MaxMessageBytes
	}
	if t.Perm == "" {
		t.Perm = "rw"
	}
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	t.Status = Status{Phase: PhasePending}
	t.CreatedAt, t.UpdatedAt, t.Revision = now, now, 1
	if err := CheckTopicName(t.Name); err != nil {
		return Topic{}, err
	}
	if err := checkTopic(t); err != nil {
		return Topic{}, err
	}
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		owner, err := s.open(ctx, tenantID, namespaceID)
		if err != nil {
			return err
		}
		if err := tenant.Reserve(ctx, s.store, owner, namespaceID, tenant.QuotaTopics, now); err != nil {
			return err
		}
		if err := exists(s.store.CreateTopic(ctx, t), "topic", t.Name); err != nil {
			return err
		}
		return s.changed(ctx, topicChange(t))
	})
	return t, err
}

func topicChange(t Topic) tenant.Change {
	return tenant.Change{TenantID: t.TenantID, NamespaceID: t.NamespaceID, Kind: string(KindTopic), ID: t.ID, Revision: t.Revision}
}

// Topic returns one topic by name.
func (s *Service) Topic(ctx context.Context, tenantID, namespaceID tenant.ID, name string) (Topic, error) {
	return s.store.Topic(ctx, tenantID, namespaceID, name)
}

// Topics lists the topics of a namespace.
func (s *Service) Topics(ctx context.Context, tenantID, namespaceID tenant.ID, f TopicFilter, p tenant.Page) ([]Topic, error) {
	if _, err := s.store.Namespace(ctx, tenantID, namespaceID); err != nil {
		return nil, err
	}
	return s.store.Topics(ctx, tenantID, namespaceID, f, p)
}

// TopicsByName returns the topics with these names, in their order, and the
// names that do not exist.
func (s *Service) TopicsByName(ctx context.Context, tenantID, namespaceID tenant.ID, names []string) (found []Topic, absent []string, err error) {
	if _, err := s.store.Namespace(ctx, tenantID, namespaceID); err != nil {
		return nil, nil, err
	}
	list, err := s.store.TopicsByName(ctx, tenantID, namespaceID, names)
	if err != nil {
		return nil, nil, err
	}
	byName := make(map[string]Topic, len(list))
	for _, t := range list {
		byName[t.Name] = t
	}
	for _, n := range names {
		if t, ok := byName[n]; ok {
			found = append(found, t)
		} else {
			absent = append(absent, n)
		}
	}
	return found, absent, nil
}

// UpdateTopic changes a topic.
func (s *Service) UpdateTopic(ctx context.Context, tenantID, namespaceID tenant.ID, name string, u TopicUpdate, want int64) (Topic, error) {
	var out Topic
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		if _, err := s.open(ctx, tenantID, namespaceID); err != nil {
			return err
		}
		t, err := s.store.Topic(ctx, tenantID, namespaceID, name)
		if err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, t.Revision); err != nil {
			return err
		}
		if u.Queues != nil && *u.Queues < t.Queues {
			e := errs.Field("queues", "queues is %d; it can grow but not shrink below %d", *u.Queues, t.Queues).WithReason("queues_shrink")
			return e
		}
		set(&t.Queues, u.Queues)
		set(&t.Retention, u.Retention)
		set(&t.MaxMessageBytes, u.MaxMessageBytes)
		set(&t.MaxSendTPS, u.MaxSendTPS)
		set(&t.Perm, u.Perm)
		set(&t.Description, u.Description)
		set(&t.DeletionProtection, u.DeletionProtection)
		if u.Labels != nil {
			t.Labels = u.Labels
		}
		if err := checkTopic(t); err != nil {
			return err
		}
		t.Status.Phase, t.Status.Reason = PhasePending, ""
		t.UpdatedAt, t.Revision = s.time(), t.Revision+1
		out = t
		if err := s.store.UpdateTopic(ctx, t); err != nil {
			return err
		}
		return s.changed(ctx, topicChange(t))
	})
	return out, err
}

// DeleteTopic removes a topic with its messages; the name is free at once.
func (s *Service) DeleteTopic(ctx context.Context, tenantID, namespaceID tenant.ID, name string, want int64) (Topic, error) {
	var out Topic
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		owner, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		t, err := s.store.Topic(ctx, tenantID, namespaceID, name)
		if err != nil {
			return err
		}
		if err := tenant.CheckRevision(want, t.Revision); err != nil {
			return err
		}
		if err := protected(t.DeletionProtection, "topic", name); err != nil {
			return err
		}
		t.Status.Phase = PhaseDeleting
		t.UpdatedAt, t.Revision = s.time(), t.Revision+1
		out = t
		if err := s.store.UpdateTopic(ctx, t); err != nil {
			return err
		}
		if err := tenant.Release(ctx, s.store, owner, namespaceID, tenant.QuotaTopics); err != nil {
			return err
		}
		return s.changed(ctx, topicChange(t))
	})
	return out, err
}

func checkTopic(t Topic) error {
	switch t.Type {
	case TopicNormal, TopicFIFO, TopicDelay, TopicTransaction:
	default:
		return errs.Field("type", "unknown type %q; use NORMAL, FIFO, DELAY or TRANSACTION", t.Type)
	}
	if t.Perm != "rw" && t.Perm != "r" && t.Perm != "w" {
		return errs.Field("perm", "unknown perm %q; use rw, r or w", t.Perm)
	}
	if err := within("queues", int64(t.Queues), 1, MaxQueues); err != nil {
		return err
	}
	if err := within("max_message_bytes", int64(t.MaxMessageBytes), 1, MaxMessageBytes); err != nil {
		return err
	}
	if err := within("max_send_tps", t.MaxSendTPS, 0, maxTPS); err != nil {
		return err
	}
	if err := checkDuration("retention", t.Retention, minRetention, maxRetention); err != nil {
		return err
	}
	if err := tenant.CheckDescription(t.Description); err != nil {
		return err
	}
	return tenant.CheckLabels(t.Labels)
}

func within(field string, v, least, most int64) error {
	if v >= least && v <= most {
		return nil
	}
	e := errs.Field(field, "%s is %d; it must be %d to %d", field, v, least, most)
	e.Limit = itoa(least) + " to " + itoa(most)
	return e
}
