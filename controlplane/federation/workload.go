package federation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/oidc"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

// CheckIssuer checks the issuer of a workload identity.
func (s *Service) CheckIssuer(issuer string) error { return s.d.OIDC.CheckURL("issuer", issuer) }

// errWorkload is one answer for an unknown workload identity, one that is
// switched off, and a token of another issuer than its.
var errWorkload = errs.E(errs.Unauthenticated, "there is no such workload identity, it is disabled, or the token is not of its issuer").WithReason("identity_token_invalid")

// replayMargin is added to the life of a token that was used: what passes the
// check by the leeway of clocks must be remembered, too.
const replayMargin = 5 * time.Minute

// Exchange gives a short token for a token of another issuer that a workload
// identity trusts (RFC 8693). A token works once for each audience of ours.
func (s *Service) Exchange(ctx context.Context, id tenant.ID, token, audience string, from netip.Addr) (auth.KeyToken, error) {
	w, err := s.d.Tenants.WorkloadByID(ctx, id)
	if errs.Is(err, errs.NotFound) {
		return auth.KeyToken{}, errWorkload
	}
	if err != nil {
		return auth.KeyToken{}, err
	}
	out, err := s.exchange(ctx, w, token, audience, from)
	return out, auth.RefusedKey(tenant.APIKey{ID: w.KeyID, TenantID: w.TenantID, OwnerID: w.ServiceAccountID}, err)
}

func (s *Service) exchange(ctx context.Context, w tenant.WorkloadIdentity, token, audience string, from netip.Addr) (auth.KeyToken, error) {
	if issuer, _ := oidc.UnverifiedIssuer(token); w.Disabled || issuer != w.Issuer {
		return auth.KeyToken{}, errWorkload
	}
	c, err := s.d.OIDC.WorkloadToken(ctx, w.Issuer, w.Audience, token)
	if err != nil {
		return auth.KeyToken{}, err
	}
	if err := fits(w, c); err != nil {
		return auth.KeyToken{}, err
	}
	if audience == "" {
		audience = auth.AudienceControl
	}
	used := sha256.Sum256(fmt.Appendf(nil, "%x %s %s", c.Digest, w.ID, audience))
	var out auth.KeyToken
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		fresh, err := s.d.Store.Seen(ctx, used[:], c.ExpiresAt.Add(replayMargin))
		if err != nil {
			return err
		}
		if !fresh {
			return errs.E(errs.Unauthenticated, "this token was exchanged before; get a new one from its issuer").WithReason("identity_token_invalid")
		}
		out, err = s.d.Auth.TokenOfKey(ctx, w.KeyID, audience, w.MaxTTL, from)
		return err
	})
	return out, err
}

// fits holds a checked token against what the workload identity demands.
func fits(w tenant.WorkloadIdentity, c oidc.Claims) error {
	if !tenant.MatchPattern(w.Subject, c.Subject) {
		return errs.E(errs.Unauthenticated, "the token's subject %q does not fit the workload identity", errs.Clip(c.Subject, 100)).WithReason("identity_token_invalid")
	}
	for name, pattern := range w.Conditions {
		if !claimFits(pattern, c.All[name]) {
			return errs.E(errs.Unauthenticated, "the token's claim %s does not fit the workload identity", name).WithReason("identity_token_invalid")
		}
	}
	return nil
}

// claimFits reports whether a claim, or one of a list, fits a pattern.
func claimFits(pattern string, claim any) bool {
	switch v := claim.(type) {
	case string:
		return tenant.MatchPattern(pattern, v)
	case bool:
		return pattern == strconv.FormatBool(v)
	case json.Number:
		return pattern == v.String()
	case []any:
		for _, one := range v {
			if _, nested := one.([]any); !nested && claimFits(pattern, one) {
				return true
			}
		}
	}
	return false
}
