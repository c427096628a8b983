package controldb

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
	"github.com/sluicemq/sluice/tenant/tenantdb"
)

var _ catalog.Source = (*Source)(nil)

// Boxes opens the data keys of tenants.
type Boxes interface {
	Box(tenantID tenant.ID, dataKey []byte) (*tenant.Box, error)
}

// Source implements catalog.Source. It is the only place that unseals many
// secrets.
type Source struct {
	db      *sqldb.DB
	tenants *tenantdb.Store
	boxes   Boxes
	jwks    func(ctx context.Context) ([]byte, error)

	Now func() time.Time // time.Now, unless set before the first use
}

// NewSource makes a Source; jwks returns the public signing keys as JSON.
func NewSource(db *sqldb.DB, tenants *tenantdb.Store, boxes Boxes, jwks func(ctx context.Context) ([]byte, error)) *Source {
	return &Source{db: db, tenants: tenants, boxes: boxes, jwks: jwks, Now: time.Now}
}

// Desired implements catalog.Source.
func (s *Source) Desired(ctx context.Context) (catalog.Desired, error) {
	return s.read(ctx, nil)
}

// DesiredFor implements catalog.Source.
func (s *Source) DesiredFor(ctx context.Context, changes []catalog.Change) (catalog.Desired, error) {
	ids := map[catalog.Kind][]tenant.ID{}
	for _, c := range changes {
		ids[c.Kind] = append(ids[c.Kind], c.ID)
	}
	return s.read(ctx, ids)
}

// read reads all objects, or those that ids names.
func (s *Source) read(ctx context.Context, ids map[catalog.Kind][]tenant.ID) (catalog.Desired, error) {
	var d catalog.Desired
	ctx = sqldb.AcrossTenants(ctx)
	err := s.db.InSnapshot(ctx, func(ctx context.Context) error {
		d = catalog.Desired{}
		var err error
		if d.Sequence, err = sequence(s.db.Conn(ctx)); err != nil {
			return err
		}
		if d.Tenants, err = pick(s, ctx, ids, catalog.KindTenant, desiredTenant); err != nil {
			return fmt.Errorf("read tenants: %w", err)
		}
		if d.Namespaces, err = pick(s, ctx, ids, catalog.KindNamespace, desiredNamespace); err != nil {
			return fmt.Errorf("read namespaces: %w", err)
		}
		if d.Topics, err = pick(s, ctx, ids, catalog.KindTopic, desiredTopic); err != nil {
			return fmt.Errorf("read topics: %w", err)
		}
		if d.Groups, err = pick(s, ctx, ids, catalog.KindGroup, desiredGroup); err != nil {
			return fmt.Errorf("read groups: %w", err)
		}
		if d.Keys, err = s.keys(ctx, ids); err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		if d.Rules, err = s.rules(ctx, ids); err != nil {
			return fmt.Errorf("read rules: %w", err)
		}
		if ids == nil || len(ids[catalog.KindJWKS]) > 0 {
			if d.JWKS, err = s.jwks(ctx); err != nil {
				return fmt.Errorf("read key set: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return catalog.Desired{}, fmt.Errorf("read desired state: %w", err)
	}
	return d, nil
}

// chunk bounds the number of ids in one statement.
const chunk = 500

func pick[R, T any](s *Source, ctx context.Context, ids map[catalog.Kind][]tenant.ID, kind catalog.Kind, convert func(R) (T, error)) ([]T, error) {
	if ids == nil {
		return all(s.db.Conn(ctx).Order("id"), convert)
	}
	var out []T
	for rest := ids[kind]; len(rest) > 0; {
		n := min(chunk, len(rest))
		part, err := all(s.db.Conn(ctx).Where("id IN ?", rest[:n]).Order("id"), convert)
		if err != nil {
			return nil, err
		}
		out, rest = append(out, part...), rest[n:]
	}
	return out, nil
}

// Only the columns that brokers need are read of the tables of tenantdb.

type tenantPart struct {
	ID       string
	State    string
	Plan     string
	Revision int64
}

func (tenantPart) TableName() string { return "tenants" }

func desiredTenant(r tenantPart) (catalog.DesiredTenant, error) {
	return catalog.DesiredTenant{ID: r.ID, Suspended: r.State != string(tenant.StateActive), Rates: tenant.PlanOf(r.Plan).Rates, Revision: r.Revision}, nil
}

type namespacePart struct {
	ID               string
	TenantID         string
	ClusterID        string
	StrictTypes      bool
	MaxSendTPS       int64 `gorm:"column:max_send_tps"`
	MaxReceiveTPS    int64 `gorm:"column:max_receive_tps"`
	Phase            string
	ObservedRevision int64
	Revision         int64
}

func (namespacePart) TableName() string { return "namespaces" }

func desiredNamespace(r namespacePart) (catalog.DesiredNamespace, error) {
	return catalog.DesiredNamespace{ID: r.ID, TenantID: r.TenantID, ClusterID: r.ClusterID, StrictTypes: r.StrictTypes,
		Rates:   tenant.Rates{SendMessages: r.MaxSendTPS, ReceiveMessages: r.MaxReceiveTPS},
		Deleted: r.Phase == string(catalog.PhaseDeleting), Revision: r.Revision, Observed: r.ObservedRevision}, nil
}

// permBits are RocketMQ's.
var permBits = map[string]int32{"rw": 6, "r": 4, "w": 2}

func desiredTopic(r topicRow) (catalog.DesiredTopic, error) {
	return catalog.DesiredTopic{ID: r.ID, TenantID: r.TenantID, NamespaceID: r.NamespaceID, Name: r.Name, Physical: r.NamespaceID + "%" + r.Name,
		Type: catalog.TopicType(r.Type), Queues: r.Queues, Perm: permBits[r.Perm], Retention: catalog.Duration(r.Retention).Std(),
		MaxMessageBytes: r.MaxMessageBytes, MaxSendTPS: r.MaxSendTPS, Deleted: r.Phase == string(catalog.PhaseDeleting),
		Revision: r.Revision, Observed: r.ObservedRevision}, nil
}

func desiredGroup(r groupRow) (catalog.DesiredGroup, error) {
	g, err := r.group()
	if err != nil {
		return catalog.DesiredGroup{}, err
	}
	return catalog.DesiredGroup{ID: g.ID, TenantID: g.TenantID, NamespaceID: g.NamespaceID, Name: g.Name, Physical: g.NamespaceID + "%" + g.Name,
		FIFO: g.Order == catalog.OrderFIFO, ConsumeEnabled: g.ConsumeEnabled, Broadcast: g.Broadcast, MaxAttempts: g.Retry.MaxAttempts,
		RetryDelays: g.Retry.Schedule(), DeadLetter: g.DeadLetter.Enabled, DeadLetterTopic: g.DeadLetter.Topic, MaxInFlight: g.MaxInFlight,
		MaxReceiveTPS: g.MaxReceiveTPS, Deleted: g.Status.Phase == catalog.PhaseDeleting, Revision: g.Revision, Observed: g.Status.ObservedRevision}, nil
}

func (s *Source) keys(ctx context.Context, ids map[catalog.Kind][]tenant.ID) ([]catalog.DesiredKey, error) {
	keys, err := s.tenants.AllKeys(ctx, ids[catalog.KindKey], ids == nil)
	if err != nil {
		return nil, err
	}
	boxes := map[tenant.ID]*tenant.Box{}
	disabled := map[tenant.ID]bool{}
	var off []string
	if err := s.db.Conn(ctx).Table("service_accounts").Where("disabled = ?", true).Pluck("id", &off).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	for _, id := range off {
		disabled[id] = true
	}
	owners, err := s.owners(ctx, keys, ids == nil)
	if err != nil {
		return nil, err
	}
	out := make([]catalog.DesiredKey, 0, len(keys))
	for _, k := range keys {
		d := catalog.DesiredKey{ID: k.ID, TenantID: k.TenantID, OwnerID: k.OwnerID, State: tenant.KeyActive, ExpiresAt: k.Ends(), Scopes: k.Scopes,
			AllowedCIDRs: k.AllowedCIDRs, Deleted: k.Status.Phase == catalog.PhaseDeleting, Revision: k.Revision, Observed: k.Status.ObservedRevision}
		switch {
		case k.RevokedAt != nil || d.Deleted:
			d.State = tenant.KeyRevoked
		case k.Disabled || disabled[k.OwnerID] || owners.closing[k.OwnerID]:
			d.State = tenant.KeyDisabled
		default:
			if rights, capped := owners.rights(k, s.Now()); capped {
				d.Scopes = auth.Capped(rights, k.Scopes)
				if len(d.Scopes) == 0 && len(k.Scopes) > 0 {
					d.State = tenant.KeyDisabled // its owner lost all that it could do
				}
			}
		}
		// Brokers need the secret of a revoked key to tell its owner, and nobody
		// else, that it was revoked.
		if !d.Deleted {
			if d.Secret, err = s.open(ctx, boxes, k); err != nil {
				return nil, err
			}
		}
		out = append(out, d)
	}
	return out, nil
}

func (s *Source) rules(ctx context.Context, ids map[catalog.Kind][]tenant.ID) ([]catalog.DesiredRule, error) {
	rules, err := s.tenants.AllRules(ctx, ids[catalog.KindRule], ids == nil)
	if err != nil {
		return nil, err
	}
	out := make([]catalog.DesiredRule, len(rules))
	for i, r := range rules {
		out[i] = catalog.DesiredRule{Rule: r, Deleted: r.Status.Phase == catalog.PhaseDeleting}
	}
	return out, nil
}

func (s *Source) open(ctx context.Context, boxes map[tenant.ID]*tenant.Box, k tenant.APIKey) (string, error) {
	box := boxes[k.TenantID]
	if box == nil {
		t, err := s.tenants.Tenant(ctx, k.TenantID)
		if err != nil {
			return "", err
		}
		if box, err = s.boxes.Box(t.ID, t.DataKey); err != nil {
			return "", err
		}
		boxes[k.TenantID] = box
	}
	return box.Open(k.ID, k.Sealed)
}

// Sequence implements catalog.Source.
func (s *Source) Sequence(ctx context.Context) (uint64, error) { return sequence(s.db.Conn(ctx)) }

// Changes implements catalog.Source.
func (s *Source) Changes(ctx context.Context, after uint64, limit int) (list []catalog.Change, truncated bool, err error) {
	err = s.db.InSnapshot(ctx, func(ctx context.Context) error {
		last, err := sequence(s.db.Conn(ctx))
		if err != nil {
			return err
		}
		if list, err = all(s.db.Conn(ctx).Where("sequence > ?", after).Order("sequence").Limit(limit),
			func(r outboxRow) (catalog.Change, error) { return r.change(), nil }); err != nil {
			return err
		}
		truncated = after < last && (len(list) == 0 || list[0].Sequence != after+1)
		return nil
	})
	return list, truncated, err
}

var tables = map[catalog.Kind]string{
	catalog.KindNamespace: "namespaces",
	catalog.KindTopic:     "topics",
	catalog.KindGroup:     "consumer_groups",
	catalog.KindKey:       "api_keys",
	catalog.KindRule:      "acls",
}

// MarkReady implements catalog.Source.
func (s *Source) MarkReady(ctx context.Context, kind catalog.Kind, id tenant.ID, revision int64) error {
	return s.mark(ctx, kind, id, revision, catalog.PhaseReady, "")
}

const maxReason = 1000

// MarkFailed implements catalog.Source.
func (s *Source) MarkFailed(ctx context.Context, kind catalog.Kind, id tenant.ID, revision int64, reason string) error {
	if r := []rune(reason); len(r) > maxReason {
		reason = string(r[:maxReason])
	}
	return s.mark(ctx, kind, id, revision, catalog.PhaseFailed, reason)
}

// mark writes what the data plane said. The phase changes only when it spoke
// of the newest revision, and a deleting object stays one. What was said is
// no change of the object: revision and updated_at stay.
func (s *Source) mark(ctx context.Context, kind catalog.Kind, id tenant.ID, revision int64, phase catalog.Phase, reason string) error {
	table, ok := tables[kind]
	if !ok {
		return nil // tenants and key sets have no status
	}
	return s.db.InTx(sqldb.AcrossTenants(ctx), func(ctx context.Context) error {
		newest := "revision = ? AND phase <> 'deleting'"
		return sqldb.Error(s.db.Conn(ctx).Table(table).Where("id = ? AND observed_revision <= ?", id, revision).UpdateColumns(map[string]any{
			"phase":             gorm.Expr("CASE WHEN "+newest+" THEN ? ELSE phase END", revision, phase),
			"reason":            gorm.Expr("CASE WHEN "+newest+" THEN ? ELSE reason END", revision, reason),
			"observed_revision": revision,
		}).Error)
	})
}

// MarkDeleted implements catalog.Source.
func (s *Source) MarkDeleted(ctx context.Context, kind catalog.Kind, id tenant.ID) error {
	table, ok := tables[kind]
	if !ok {
		return errs.E(errs.Internal, "objects of kind %s are never deleted", kind)
	}
	return s.db.InTx(sqldb.AcrossTenants(ctx), func(ctx context.Context) error {
		res := s.db.Conn(ctx).Table(table).Where("id = ? AND phase = ?", id, catalog.PhaseDeleting).Delete(nil)
		if res.Error != nil || kind != catalog.KindNamespace || res.RowsAffected == 0 {
			return sqldb.Error(res.Error)
		}
		return sqldb.Error(s.db.Conn(ctx).Table("quotas").Where("scope_id = ?", id).Delete(nil).Error)
	})
}
