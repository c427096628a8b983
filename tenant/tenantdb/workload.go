package tenantdb

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

type workloadRow struct {
	ID               string `gorm:"primaryKey"`
	TenantID         string
	Name             string
	Issuer           string
	Audience         string
	Subject          string
	Conditions       string
	ServiceAccountID string
	KeyID            string
	MaxTTL           int64 `gorm:"column:max_ttl_ms"`
	Disabled         bool
	Created          int64 `gorm:"column:created_at"`
	Updated          int64 `gorm:"column:updated_at"`
	Revision         int64
}

func (workloadRow) TableName() string { return "workload_identities" }

func (r workloadRow) workload() (tenant.WorkloadIdentity, error) {
	w := tenant.WorkloadIdentity{TenantID: r.TenantID, ID: r.ID, Name: r.Name, Issuer: r.Issuer, Audience: r.Audience, Subject: r.Subject,
		ServiceAccountID: r.ServiceAccountID, KeyID: r.KeyID, MaxTTL: time.Duration(r.MaxTTL) * time.Millisecond, Disabled: r.Disabled,
		CreatedAt: sqldb.Time(r.Created), UpdatedAt: sqldb.Time(r.Updated), Revision: r.Revision}
	return w, sqldb.FromJSON(r.Conditions, &w.Conditions)
}

func rowOfWorkload(w tenant.WorkloadIdentity) (workloadRow, error) {
	if w.Conditions == nil {
		w.Conditions = map[string]string{}
	}
	conditions, err := sqldb.JSON(w.Conditions)
	return workloadRow{ID: w.ID, TenantID: w.TenantID, Name: w.Name, Issuer: w.Issuer, Audience: w.Audience, Subject: w.Subject, Conditions: conditions,
		ServiceAccountID: w.ServiceAccountID, KeyID: w.KeyID, MaxTTL: w.MaxTTL.Milliseconds(), Disabled: w.Disabled,
		Created: millis(w.CreatedAt), Updated: millis(w.UpdatedAt), Revision: w.Revision}, err
}

// CreateWorkload implements tenant.Store.
func (s *Store) CreateWorkload(ctx context.Context, w tenant.WorkloadIdentity) error {
	row, err := rowOfWorkload(w)
	if err != nil {
		return err
	}
	return create(s.db.Conn(ctx), &row, "workload identity")
}

// Workload implements tenant.Store.
func (s *Store) Workload(ctx context.Context, tenantID, id tenant.ID) (tenant.WorkloadIdentity, error) {
	var row workloadRow
	if err := first(s.db.Locking(ctx, s.db.Tenant(ctx, tenantID)).Where("id = ?", id), &row, "workload identity", id); err != nil {
		return tenant.WorkloadIdentity{}, err
	}
	return s.withRights(ctx, tenantID, row)
}

// WorkloadByID implements tenant.Store.
func (s *Store) WorkloadByID(ctx context.Context, id tenant.ID) (tenant.WorkloadIdentity, error) {
	var row workloadRow
	if err := first(s.db.Conn(sqldb.AcrossTenants(ctx)).Where("id = ?", id), &row, "workload identity", id); err != nil {
		return tenant.WorkloadIdentity{}, err
	}
	return row.workload()
}

func (s *Store) withRights(ctx context.Context, tenantID tenant.ID, row workloadRow) (tenant.WorkloadIdentity, error) {
	w, err := row.workload()
	if err != nil {
		return w, err
	}
	list, err := s.rights(ctx, tenantID, []tenant.WorkloadIdentity{w})
	if err != nil {
		return w, err
	}
	return list[0], nil
}

// rights adds what the keys of workload identities may.
func (s *Store) rights(ctx context.Context, tenantID tenant.ID, list []tenant.WorkloadIdentity) ([]tenant.WorkloadIdentity, error) {
	if len(list) == 0 {
		return list, nil
	}
	at := map[string]int{}
	ids := make([]string, len(list))
	for i, w := range list {
		at[w.KeyID], ids[i] = i, w.KeyID
	}
	var rows []keyRow
	if err := s.db.Tenant(ctx, tenantID).Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, sqldb.Error(err)
	}
	for _, r := range rows {
		k, err := r.key()
		if err != nil {
			return nil, err
		}
		w := &list[at[k.ID]]
		w.ControlRole, w.Scopes = k.ControlRole, k.Scopes
	}
	return list, nil
}

// Workloads implements tenant.Store.
func (s *Store) Workloads(ctx context.Context, tenantID tenant.ID, name string, p tenant.Page) ([]tenant.WorkloadIdentity, error) {
	q := s.db.Tenant(ctx, tenantID)
	if name != "" {
		q = q.Where("name = ?", name)
	}
	out, err := list(q, p, workloadRow.workload)
	if err != nil {
		return nil, err
	}
	return s.rights(ctx, tenantID, out)
}

// WorkloadsOf implements tenant.Store.
func (s *Store) WorkloadsOf(ctx context.Context, tenantID, serviceAccountID tenant.ID, p tenant.Page) ([]tenant.WorkloadIdentity, error) {
	return list(s.db.Tenant(ctx, tenantID).Where("service_account_id = ?", serviceAccountID), p, workloadRow.workload)
}

// UpdateWorkload implements tenant.Store.
func (s *Store) UpdateWorkload(ctx context.Context, w tenant.WorkloadIdentity) error {
	row, err := rowOfWorkload(w)
	if err != nil {
		return err
	}
	return update(s.db.Tenant(ctx, w.TenantID).Where("id = ?", w.ID), &row, w.Revision, "workload identity")
}

// DeleteWorkload implements tenant.Store.
func (s *Store) DeleteWorkload(ctx context.Context, tenantID, id tenant.ID) error {
	return affected(s.db.Tenant(ctx, tenantID).Where("id = ?", id).Delete(&workloadRow{}), "workload identity", id)
}
