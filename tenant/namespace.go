package tenant

import (
	"context"
	"errors"

	"github.com/sluicemq/sluice/internal/errs"
)

// NamespaceUpdate is what to change of a namespace; nil means as it is.
type NamespaceUpdate struct {
	Name               *string
	Description        *string
	Labels             map[string]string
	StrictTypes        *bool
	MaxSendTPS         *int64
	MaxReceiveTPS      *int64
	DeletionProtection *bool
}

// CreateNamespace makes a namespace on a cluster; the fields of in that users
// set count, and ClusterID.
func (s *Service) CreateNamespace(ctx context.Context, tenantID ID, in Namespace) (Namespace, error) {
	if err := checkNamespace(in); err != nil {
		return Namespace{}, err
	}
	now := s.time()
	n := in
	n.TenantID, n.ID, n.Labels = tenantID, NewNamespaceID(), orEmpty(in.Labels)
	n.Status = Status{Phase: PhasePending}
	n.CreatedAt, n.UpdatedAt, n.Revision = now, now, 1
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		if err := active(t); err != nil {
			return err
		}
		if err := s.reserve(ctx, t, "", QuotaNamespaces); err != nil {
			return err
		}
		if err := taken(s.store.CreateNamespace(ctx, n), "name", "namespace %q exists already", n.Name); err != nil {
			return err
		}
		return s.changed(ctx, namespaceChange(n))
	})
	return n, err
}

func namespaceChange(n Namespace) Change {
	return Change{TenantID: n.TenantID, NamespaceID: n.ID, Kind: kindNamespace, ID: n.ID, Revision: n.Revision}
}

// Namespace returns one namespace.
func (s *Service) Namespace(ctx context.Context, tenantID, id ID) (Namespace, error) {
	return s.store.Namespace(ctx, tenantID, id)
}

// Namespaces lists namespaces; name narrows to exactly that one.
func (s *Service) Namespaces(ctx context.Context, tenantID ID, name string, p Page) ([]Namespace, error) {
	return s.store.Namespaces(ctx, tenantID, name, p)
}

// UpdateNamespace changes a namespace.
func (s *Service) UpdateNamespace(ctx context.Context, tenantID, id ID, u NamespaceUpdate, want int64) (Namespace, error) {
	var out Namespace
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		n, err := s.store.Namespace(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, n.Revision); err != nil {
			return err
		}
		set(&n.Name, u.Name)
		set(&n.Description, u.Description)
		set(&n.StrictTypes, u.StrictTypes)
		set(&n.MaxSendTPS, u.MaxSendTPS)
		set(&n.MaxReceiveTPS, u.MaxReceiveTPS)
		set(&n.DeletionProtection, u.DeletionProtection)
		if u.Labels != nil {
			n.Labels = u.Labels
		}
		if err := checkNamespace(n); err != nil {
			return err
		}
		n.Status.Phase, n.Status.Reason = PhasePending, ""
		n.UpdatedAt, n.Revision = s.time(), n.Revision+1
		out = n
		if err := taken(s.store.UpdateNamespace(ctx, n), "name", "namespace %q exists already", n.Name); err != nil {
			return err
		}
		return s.changed(ctx, namespaceChange(n))
	})
	return out, err
}

// DeleteNamespace removes an empty namespace with its rules and takes it out of
// the scopes of keys.
func (s *Service) DeleteNamespace(ctx context.Context, tenantID, id ID, want int64) (Namespace, error) {
	var out Namespace
	err := s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		n, err := s.store.Namespace(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if err := CheckRevision(want, n.Revision); err != nil {
			return err
		}
		if n.DeletionProtection {
			return errs.E(errs.Conflict, "namespace %s has deletion_protection; turn it off first", id).WithReason("deletion_protected")
		}
		topics, groups, err := s.store.NamespaceObjects(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if topics+groups > 0 {
			return errs.E(errs.Conflict, "namespace %s still has %d topics and %d groups; delete them first", id, topics, groups).WithReason("not_empty")
		}
		n.Status = Status{Phase: PhaseDeleting, ObservedRevision: n.Status.ObservedRevision}
		n.UpdatedAt, n.Revision = s.time(), n.Revision+1
		out = n
		if err := s.store.UpdateNamespace(ctx, n); err != nil {
			return err
		}
		if err := s.dropScopes(ctx, tenantID, id); err != nil {
			return err
		}
		if err := s.dropBindings(ctx, t, BindingFilter{NamespaceID: id}); err != nil {
			return err
		}
		if err := s.dropRules(ctx, t, id); err != nil {
			return err
		}
		if err := Release(ctx, s.store, t, "", QuotaNamespaces); err != nil {
			return err
		}
		return s.changed(ctx, namespaceChange(n))
	})
	return out, err
}

func (s *Service) dropScopes(ctx context.Context, tenantID, namespaceID ID) error {
	return s.eachKey(ctx, KeyFilter{NamespaceID: namespaceID}, tenantID, func(k APIKey) error {
		kept := make([]Scope, 0, len(k.Scopes))
		for _, sc := range k.Scopes {
			if sc.NamespaceID != namespaceID {
				kept = append(kept, sc)
			}
		}
		k.Scopes = kept
		return s.touchKey(ctx, k)
	})
}

func checkNamespace(n Namespace) error {
	if err := CheckName("name", n.Name); err != nil {
		return err
	}
	if err := CheckDescription(n.Description); err != nil {
		return err
	}
	return CheckLabels(n.Labels)
}

// taken turns the Conflict of a unique constraint into one that names the
// field.
func taken(err error, field, format string, args ...any) error {
	var coded *errs.Error
	if !errs.Is(err, errs.Conflict) || (errors.As(err, &coded) && coded.Reason != "") {
		return err
	}
	e := errs.E(errs.Conflict, format, args...).WithReason("already_exists")
	e.Field, e.Err = field, err
	return e
}
