package auth

import (
	"context"
	"fmt"

	"github.com/sluicemq/sluice/tenant"
)

type operationKey struct{}

// WithOperation says what a request is about, for the last use of its key.
func WithOperation(ctx context.Context, operation string) context.Context {
	return context.WithValue(ctx, operationKey{}, operation)
}

// WarnOfLeak mails the owners and admins of a tenant that a key was revoked,
// because its secret was found in public. Mails leave after the commit.
func (s *Service) WarnOfLeak(ctx context.Context, k tenant.APIKey) error {
	t, err := s.d.Tenants.Tenant(ctx, k.TenantID)
	if err != nil {
		return err
	}
	page := tenant.Page{Size: 1000}
	for {
		list, err := s.d.Tenants.Members(ctx, k.TenantID, page)
		if err != nil {
			return err
		}
		for _, m := range list {
			page.After = m.UserID
			if m.Role != tenant.RoleOwner && m.Role != tenant.RoleAdmin {
				continue
			}
			u, err := s.d.Store.User(ctx, m.UserID)
			if err != nil {
				return fmt.Errorf("read member %s: %w", m.UserID, err)
			}
			s.d.Store.AfterCommit(ctx, func() {
				if err := s.d.Mailer.KeyLeaked(context.WithoutCancel(ctx), u.Email, u.Locale, t.Name, k.ID, k.Name); err != nil {
					s.d.Logger.Error("mail of a leaked key not sent", "tenant", t.ID, "key", k.ID, "err", err)
				}
			})
		}
		if len(list) < page.Size {
			return nil
		}
	}
}
