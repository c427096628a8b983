package auth

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluicemq/sluice/internal/errs"
)

var errTokenRevoked = unauthenticated("token_revoked", "the access token was revoked")

// tokenLeeway is how long brokers and control planes may take a token for
// valid after it expired by our clock.
const tokenLeeway = 10 * time.Second

// RevokeToken ends a token (RFC 7009): a refresh token with its session, an
// access token of either audience by itself, here and at brokers. Whoever
// holds it may do so. A token that is none, or over, is no error.
func (s *Service) RevokeToken(ctx context.Context, token string) error {
	if strings.HasPrefix(token, refreshPrefix) {
		return s.SignOut(ctx, token)
	}
	c, err := s.parse(ctx, token, "")
	if errs.Is(err, errs.Unauthenticated) || err == nil && c.ID == "" {
		return nil
	}
	if err != nil {
		return err
	}
	err = s.d.Store.InTx(ctx, func(ctx context.Context) error {
		if err := s.d.Store.RevokeToken(ctx, c.ID, s.time(), c.ExpiresAt.Add(tokenLeeway)); err != nil {
			return err
		}
		s.d.Store.AfterCommit(ctx, func() { s.d.Revocations.SetRevoked(context.WithoutCancel(ctx), c.ID) })
		if err := s.acted(ctx, Act{UserID: c.Subject, KeyID: c.KeyID, TenantID: c.TenantID, TargetType: "token", TargetID: c.ID}); err != nil {
			return err
		}
		return s.recordKeys(ctx)
	})
	if err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	return nil
}

// tokenRevoked asks the cache, and the database when that knows nothing.
func (s *Service) tokenRevoked(ctx context.Context, id string) (bool, error) {
	if live, known := s.d.Revocations.Live(ctx, id); known {
		return !live, nil
	}
	revoked, err := s.d.Store.TokenRevoked(ctx, id)
	switch {
	case err != nil:
		return false, fmt.Errorf("look up revoked token: %w", err)
	case revoked:
		s.d.Revocations.SetRevoked(ctx, id)
	default:
		s.d.Revocations.SetLive(ctx, id)
	}
	return revoked, nil
}

// ForgetTokens drops revoked tokens that have expired, and tells brokers to do
// so.
func (s *Service) ForgetTokens(ctx context.Context) error {
	return s.d.Store.InTx(ctx, func(ctx context.Context) error {
		dropped, err := s.d.Store.ForgetTokens(ctx, s.time())
		if err != nil || !dropped {
			return err
		}
		return s.recordKeys(ctx)
	})
}
