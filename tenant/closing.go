package tenant

import (
	"context"

	"github.com/sluicemq/sluice/internal/errs"
)

// BeginClosing stops in a tenant what belongs to a member who closes their
// account; the caller has noted in the same transaction that they do. Their
// keys are told to brokers anew. Where they are the only member the tenant
// stops, too. Whoever is the last owner of others is refused.
func (s *Service) BeginClosing(ctx context.Context, tenantID, userID ID) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, m, err := s.member(ctx, tenantID, userID, 0, anyMember)
		if err != nil {
			return err
		}
		alone, err := s.alone(ctx, tenantID)
		if err != nil {
			return err
		}
		if !alone {
			if err := s.keepOwner(ctx, m, RoleNone); err != nil {
				return err
			}
		} else if t.State == StateActive {
			if err := s.setState(ctx, tenantID, StateClosing); err != nil {
				return err
			}
		}
		return s.eachKey(ctx, KeyFilter{OwnerID: userID}, tenantID, func(k APIKey) error { return s.touchKey(ctx, k) })
	})
}

// EndClosing undoes BeginClosing. A tenant that was suspended before, or by an
// operator meanwhile, stays so.
func (s *Service) EndClosing(ctx context.Context, tenantID, userID ID) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, _, err := s.member(ctx, tenantID, userID, 0, anyMember)
		if err != nil {
			return err
		}
		if t.State == StateClosing {
			if err := s.setState(ctx, tenantID, StateActive); err != nil {
				return err
			}
		}
		return s.eachKey(ctx, KeyFilter{OwnerID: userID}, tenantID, func(k APIKey) error { return s.touchKey(ctx, k) })
	})
}

// EraseMember takes a member whose account is erased out of a tenant, last
// owner or not. The tenant that they leave empty is theirs to take along:
// empty is true, and the caller closes it in the same transaction.
func (s *Service) EraseMember(ctx context.Context, tenantID, userID ID) (empty bool, err error) {
	err = s.store.InTx(ctx, func(ctx context.Context) error {
		t, _, err := s.member(ctx, tenantID, userID, 0, anyMember)
		if err != nil {
			return err
		}
		if empty, err = s.alone(ctx, tenantID); err != nil {
			return err
		}
		return s.removeMember(ctx, t, userID)
	})
	return empty, err
}

// Close ends a tenant without members for good: its programs, their keys and
// all rights are gone. Its namespaces must be gone before. The row stays, for
// bills and the audit trail.
func (s *Service) Close(ctx context.Context, tenantID ID) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		t, err := s.store.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		page := Page{Size: 1}
		members, err := s.store.Members(ctx, tenantID, page)
		if err != nil {
			return err
		}
		namespaces, err := s.store.Namespaces(ctx, tenantID, "", page)
		if err != nil {
			return err
		}
		if len(members)+len(namespaces) > 0 {
			return errs.E(errs.Conflict, "tenant %s still has members or namespaces", tenantID).WithReason("not_empty")
		}
		if err := s.dropPrograms(ctx, t); err != nil {
			return err
		}
		if err := s.dropBindings(ctx, t, BindingFilter{}); err != nil {
			return err
		}
		err = each(func(p Page) ([]CustomRole, error) { return s.store.Roles(ctx, tenantID, p) }, func(r CustomRole) ID { return r.ID },
			func(r CustomRole) error { return s.DeleteRole(ctx, tenantID, r.ID, 0) })
		if err != nil {
			return err
		}
		err = each(func(p Page) ([]Invitation, error) {
			return s.store.Invitations(ctx, tenantID, InvitationFilter{Now: s.time()}, p)
		}, func(i Invitation) ID { return i.ID }, func(i Invitation) error { return s.forgetInvitation(ctx, t, i) })
		if err != nil {
			return err
		}
		return s.setState(ctx, tenantID, StateClosed)
	})
}

// dropPrograms deletes service accounts, and keys of whomever.
func (s *Service) dropPrograms(ctx context.Context, t Tenant) error {
	err := each(func(p Page) ([]ServiceAccount, error) { return s.store.ServiceAccounts(ctx, t.ID, "", p) },
		func(a ServiceAccount) ID { return a.ID }, func(a ServiceAccount) error { return s.DeleteServiceAccount(ctx, t.ID, a.ID, 0) })
	if err != nil {
		return err
	}
	return s.eachKey(ctx, KeyFilter{}, t.ID, func(k APIKey) error { return s.deleteKey(ctx, t, k) })
}

// CloseNamespace is DeleteNamespace of a tenant that closes: protection does
// not hold.
func (s *Service) CloseNamespace(ctx context.Context, tenantID, id ID) error {
	return s.store.InTx(ctx, func(ctx context.Context) error {
		n, err := s.store.Namespace(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if n.DeletionProtection {
			n.DeletionProtection, n.UpdatedAt, n.Revision = false, s.time(), n.Revision+1
			if err := s.store.UpdateNamespace(ctx, n); err != nil {
				return err
			}
		}
		_, err = s.DeleteNamespace(ctx, tenantID, id, 0)
		return err
	})
}

func anyMember(Member) error { return nil }

// alone reports whether a tenant has one member. It runs under the lock of
// member.
func (s *Service) alone(ctx context.Context, tenantID ID) (bool, error) {
	list, err := s.store.Members(ctx, tenantID, Page{Size: 2})
	return len(list) == 1, err
}
