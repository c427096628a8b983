package httpapi

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

func liveSession(c *call, v auth.Session) api.LiveSession {
	return api.LiveSession{Id: v.ID, TenantId: v.TenantID, UserAgent: v.UserAgent, Address: v.Address, Current: v.ID == c.principal.SessionID,
		LastUsedAt: at(v.LastUsedAt), AuthenticatedAt: at(v.AuthenticatedAt), ExpiresAt: at(v.ExpiresAt),
		CreatedAt: at(v.CreatedAt), UpdatedAt: at(v.LastUsedAt), Revision: 1}
}

// ListSessions lists the caller's own sessions.
func (s *server) ListSessions(gc context.Context, r ListSessionsRequestObject) (ListSessionsResponseObject, error) {
	c, ctx := enter(gc)
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]auth.Session, error) { return s.d.Auth.Sessions(ctx, c.principal, p) },
		func(v auth.Session) string { return v.ID }, func(v auth.Session) api.LiveSession { return liveSession(c, v) })
	if err != nil {
		return nil, err
	}
	return ListSessions200JSONResponse{Items: items, NextPageToken: next}, nil
}

// EndSession ends one of the caller's own sessions.
func (s *server) EndSession(gc context.Context, r EndSessionRequestObject) (EndSessionResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	c.touches("session", r.Id, "")
	_, err = writeOwn(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.d.Auth.EndSession(ctx, c.principal, r.Id, want)
	})
	if err != nil {
		return nil, err
	}
	if r.Id == c.principal.SessionID && !isTrue(r.Params.DryRun) {
		s.setRefresh(c, "", time.Time{})
	}
	return EndSession204Response{}, nil
}

// EndOtherSessions ends all sessions of the caller but the present one.
func (s *server) EndOtherSessions(gc context.Context, r EndOtherSessionsRequestObject) (EndOtherSessionsResponseObject, error) {
	c, ctx := enter(gc)
	c.touches("session", c.principal.SessionID, "")
	out, err := writeOwn(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.SessionsEnded, error) {
		n, err := s.d.Auth.EndOtherSessions(ctx, c.principal)
		return api.SessionsEnded{Ended: int32(n)}, err //nolint:gosec // sessions of one person
	})
	if err != nil {
		return nil, err
	}
	return EndOtherSessions200JSONResponse(out), nil
}

// BeginStepUp asks for the answer of a security key.
func (s *server) BeginStepUp(gc context.Context, _ BeginStepUpRequestObject) (BeginStepUpResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.proof(ctx, c); err != nil {
		return nil, err
	}
	out, err := writeOutside(ctx, s, c, func(ctx context.Context) (api.MfaAwaited, error) {
		a, err := s.d.Auth.BeginStepUp(ctx, c.principal, c.site)
		if err != nil {
			return api.MfaAwaited{}, err
		}
		return awaited(a), nil
	})
	if err != nil {
		return nil, err
	}
	return BeginStepUp200JSONResponse(out), nil
}

// StepUp takes the caller's password again.
func (s *server) StepUp(gc context.Context, r StepUpRequestObject) (StepUpResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.proof(ctx, c); err != nil {
		return nil, err
	}
	proof, token := auth.Proof{Code: or(r.Body.Code, ""), RecoveryCode: or(r.Body.RecoveryCode, ""), Assertion: or(r.Body.Credential, "")}, or(r.Body.MfaToken, "")
	if (token == "") != (proof.Assertion == "") {
		return nil, errs.Field("mfa_token", "mfa_token and credential belong together: the token is of POST /v1/auth/step-up/challenge")
	}
	c.touches("session", c.principal.SessionID, "")
	out, err := writeOutside(ctx, s, c, func(ctx context.Context) (api.LiveSession, error) {
		ses, err := s.d.Auth.StepUp(ctx, c.principal, r.Body.Password, token, proof, c.site, s.note(c))
		return liveSession(c, ses), err
	})
	if err != nil {
		return nil, err
	}
	return StepUp200JSONResponse(out), nil
}
