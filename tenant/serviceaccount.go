package tenant

import (
	"context"
)

// ServiceAccountUpdate is what to change of a service account; nil means as
// it is.
type ServiceAccountUpdate struct {
	Name        *string
	Description *string
	Disabled    *bool
	Labels      map[string]string
}

// CreateServiceAccount makes a service account; Name, Description, Disabled
// and Labels of in count.
func (s *Service) CreateServiceAccount(ctx context.Context, tenantID ID, in ServiceAccount) (ServiceAccount, error) {
	if err := checkServiceAccount(in); err != nil {
		return ServiceAccount{}, err
	}
	now := s.time()
	a := ServiceAccount{TenantID: tenantID, ID: NewID(PrefixServiceAccount, now), Name: in.Name, Description: in.Description,
		Disabled: in.Disabled, Labels: orEmpty(in.Labels), CreatedAt: now, UpdatedAt: now, Revision: 1}
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		if err := active(t); err != nil {
			return err
		}
		if err := s.reserve(ctx, t, "", QuotaServiceAccounts); err != nil {
			return err
		}
		return taken(s.store.CreateServiceAccount(ctx, a), "name", "service account %q exists already", a.Name)
	})
	return a, err
}

// ServiceAccount returns one service account.
func (s *Service) ServiceAccount(ctx context.Context, tenantID, id ID) (ServiceAccount, error) {
	return s.store.ServiceAccount(ctx, tenantID, id)
}

// ServiceAccounts lists service accounts; name narrows to exactly that one.
func (s *Service) ServiceAccounts(ctx context.Context, tenantID ID, name string, p Page) ([]ServiceAccount, error) {
	return s.store.ServiceAccounts(ctx, tenantID, name, p)
}

// UpdateServiceAccount changes a service account. Disabling it is felt by
// brokers at once: its keys are refused.
func (s *Service) UpdateServiceAccount(ctx context.Context, tenantID, id ID, u ServiceAccountUpdate, want int64) (ServiceAccount, error) {
	var out ServiceAccount
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		a, err := s.store.ServiceAccount(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, a.Revision); err != nil {
			return err
		}
		was := a.Disabled
		set(&a.Name, u.Name)
		set(&a.Description, u.Description)
		set(&a.Disabled, u.Disabled)
		if u.Labels != nil {
			a.Labels = u.Labels
		}
		if err := checkServiceAccount(a); err != nil {
			return err
		}
		a.UpdatedAt, a.Revision = s.time(), a.Revision+1
		out = a
		if err := taken(s.store.UpdateServiceAccount(ctx, a), "name", "service account %q exists already", a.Name); err != nil {
			return err
		}
		if was == a.Disabled {
			return nil
		}
		return s.eachKey(ctx, KeyFilter{OwnerID: id}, tenantID, func(k APIKey) error { return s.touchKey(ctx, k) })
	})
	return out, err
}

// DeleteServiceAccount removes a service account and its keys.
func (s *Service) DeleteServiceAccount(ctx context.Context, tenantID, id ID, want int64) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		a, err := s.store.ServiceAccount(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, a.Revision); err != nil {
			return err
		}
		if err := s.eachKey(ctx, KeyFilter{OwnerID: id}, tenantID, func(k APIKey) error { return s.deleteKey(ctx, t, k) }); err != nil {
			return err
		}
		err = each(func(p Page) ([]WorkloadIdentity, error) { return s.store.WorkloadsOf(ctx, tenantID, id, p) }, func(w WorkloadIdentity) ID { return w.ID },
			func(w WorkloadIdentity) error { return s.store.DeleteWorkload(ctx, tenantID, w.ID) })
		if err != nil {
			return err
		}
		if err := s.dropBindings(ctx, t, BindingFilter{PrincipalID: id}); err != nil {
			return err
		}
		if err := s.store.DeleteServiceAccount(ctx, tenantID, id); err != nil {
			return err
		}
		return Release(ctx, s.store, t, "", QuotaServiceAccounts)
	})
}

func checkServiceAccount(a ServiceAccount) error {
	if err := CheckName("name", a.Name); err != nil {
		return err
	}
	if err := CheckDescription(a.Description); err != nil {
		return err
	}
	return CheckLabels(a.Labels)
}

func (s *Service) eachKey(ctx context.Context, f KeyFilter, tenantID ID, do func(APIKey) error) error {
	return each(func(p Page) ([]APIKey, error) { return s.store.Keys(ctx, tenantID, f, p) }, func(k APIKey) ID { return k.ID }, do)
}

// each walks over all pages of a list; do may change what it is given.
func each[T any](list func(Page) ([]T, error), id func(T) ID, do func(T) error) error {
	p := Page{Size: 1000}
	for {
		items, err := list(p)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := do(item); err != nil {
				return err
			}
			p.After = id(item)
		}
		if len(items) < p.Size {
			return nil
		}
	}
}

// set copies *from to *to unless from is nil.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
