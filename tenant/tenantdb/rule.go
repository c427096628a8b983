package tenantdb

import (
	"context"
	"net/netip"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type ruleRow struct {
	ID               string `gorm:"primaryKey"`
	TenantID         string
	NamespaceID      string
	Effect           string
	Principal        string
	Resource         string
	Pattern          string
	Operations       string
	CIDRs            string `gorm:"column:cidrs"`
	ExpiresAt        *int64
	Description      string
	Phase            string
	Reason           string
	ObservedRevision int64
	Created          int64 `gorm:"column:created_at"`
	Updated          int64 `gorm:"column:updated_at"`
	Revision         int64
}

func (ruleRow) TableName() string { return "acls" }

func (r ruleRow) rule() (tenant.Rule, error) {
	out := tenant.Rule{ID: r.ID, TenantID: r.TenantID, NamespaceID: r.NamespaceID, Effect: tenant.Effect(r.Effect), Principal: r.Principal,
		Resource: tenant.ResourceKind(r.Resource), Pattern: r.Pattern, ExpiresAt: sqldb.TimePtr(r.ExpiresAt), Description: r.Description,
		Status:    tenant.Status{Phase: tenant.Phase(r.Phase), Reason: r.Reason, ObservedRevision: r.ObservedRevision},
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	if err := sqldb.FromJSON(r.CIDRs, &out.CIDRs); err != nil {
		return out, err
	}
	return out, sqldb.FromJSON(r.Operations, &out.Operations)
}

func rowOfRule(r tenant.Rule) (ruleRow, error) {
	if r.CIDRs == nil {
		r.CIDRs = []netip.Prefix{}
	}
	operations, err := sqldb.JSON(r.Operations)
	if err != nil {
		return ruleRow{}, err
	}
	cidrs, err := sqldb.JSON(r.CIDRs)
	return ruleRow{ID: r.ID, TenantID: r.TenantID, NamespaceID: r.NamespaceID, Effect: string(r.Effect), Principal: r.Principal,
		Resource: string(r.Resource), Pattern: r.Pattern, Operations: operations, CIDRs: cidrs, ExpiresAt: sqldb.MillisPtr(r.ExpiresAt),
		Description: r.Description, Phase: string(r.Status.Phase), Reason: r.Status.Reason, ObservedRevision: r.Status.ObservedRevision,
		Created: millis(r.CreatedAt), Updated: millis(r.UpdatedAt), Revision: r.Revision}, err
}

// CreateRule implements tenant.Store.
func (s *Store) CreateRule(ctx context.Context, r tenant.Rule) error {
	row, err := rowOfRule(r)
	if err != nil {
		return err
	}
	return create(s.db.Conn(ctx), &row, "rule")
}

func (s *Store) rules(ctx context.Context, tenantID, namespaceID tenant.ID) *gorm.DB {
	return s.db.Tenant(ctx, tenantID).Where("namespace_id = ? AND phase <> ?", namespaceID, tenant.PhaseDeleting)
}

// Rule implements tenant.Store.
func (s *Store) Rule(ctx context.Context, tenantID, namespaceID, id tenant.ID) (tenant.Rule, error) {
	var row ruleRow
	if err := first(s.db.Locking(ctx, s.rules(ctx, tenantID, namespaceID)).Where("id = ?", id), &row, "rule", id); err != nil {
		return tenant.Rule{}, err
	}
	return row.rule()
}

// Rules implements tenant.Store.
func (s *Store) Rules(ctx context.Context, tenantID, namespaceID tenant.ID, f tenant.RuleFilter, p tenant.Page) ([]tenant.Rule, error) {
	q := s.rules(ctx, tenantID, namespaceID)
	if f.Principal != "" {
		q = q.Where("principal = ?", f.Principal)
	}
	if f.Resource != "" {
		q = q.Where("resource = ?", f.Resource)
	}
	if f.Principals != nil {
		q = q.Where("principal IN ?", f.Principals)
	}
	if f.Resources != nil {
		q = q.Where("resource IN ?", f.Resources)
	}
	if f.Patterns != nil {
		q = q.Where("pattern IN ?", f.Patterns)
	}
	return list(q, p, ruleRow.rule)
}

// UpdateRule implements tenant.Store.
func (s *Store) UpdateRule(ctx context.Context, r tenant.Rule) error {
	row, err := rowOfRule(r)
	if err != nil {
		return err
	}
	return update(s.db.Tenant(ctx, r.TenantID).Where("id = ?", r.ID), &row, r.Revision, "rule")
}
