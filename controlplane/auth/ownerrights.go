package auth

import (
	"context"
	"slices"
	"strings"

	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// AtBrokers is a key with the scopes that brokers are told of: what its owner
// may have of them now. A key whose owner has lost all of them is disabled there.
func (s *Service) AtBrokers(ctx context.Context, k tenant.APIKey, state tenant.KeyState) (tenant.APIKey, tenant.KeyState, error) {
	var role tenant.Role
	if strings.HasPrefix(k.OwnerID, tenant.PrefixServiceAccount) {
		a, err := s.d.Tenants.ServiceAccount(ctx, k.TenantID, k.OwnerID)
		if err != nil || !a.Bound {
			return k, state, err
		}
	} else {
		m, err := s.d.Tenants.Member(ctx, k.TenantID, k.OwnerID)
		if err != nil && !errs.Is(err, errs.NotFound) {
			return k, state, err
		}
		role = m.Role
	}
	bindings, err := s.d.Tenants.BindingsOf(ctx, k.TenantID, k.OwnerID)
	if err != nil {
		return k, state, err
	}
	had := len(k.Scopes)
	k.Scopes = Capped(RightsOf(role, bindings, s.time()), k.Scopes)
	if had > 0 && len(k.Scopes) == 0 && state == tenant.KeyActive {
		state = tenant.KeyDisabled
	}
	return k, state, nil
}

// PersonMay answers for a member what MayOn does for a caller, on the message
// path's words: what op needs on a topic or a group.
func PersonMay(rights []Right, op tenant.Permission, r Resource) bool {
	needs := dataNeeds
	if r.Group != "" {
		needs = groupNeeds
	}
	need, ok := needs[op]
	return ok && cover(rights, need, r)
}

// RightsOfMember are a member's role and the bindings that live now.
func (s *Service) RightsOfMember(ctx context.Context, m tenant.Member) ([]Right, error) {
	bindings, err := s.d.Tenants.BindingsOf(ctx, m.TenantID, m.UserID)
	return slices.Clip(RightsOf(m.Role, bindings, s.time())), err
}
