package httpapi

import (
	"context"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
)

// SignInMfa ends a sign-in with the second factor.
func (s *server) SignInMfa(gc context.Context, r SignInMfaRequestObject) (SignInMfaResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.mayTry(ctx, c, "mfa", ""); err != nil {
		return nil, err
	}
	proof := auth.Proof{Code: or(r.Body.Code, ""), RecoveryCode: or(r.Body.RecoveryCode, ""), Assertion: or(r.Body.Credential, "")}
	n := 0
	for _, given := range []string{proof.Code, proof.RecoveryCode, proof.Assertion} {
		if given != "" {
			n++
		}
	}
	if n != 1 {
		return nil, errs.Field("code", "send one of code, recovery_code and credential").WithReason("mfa_code_required")
	}
	g, err := s.d.Auth.SignInMFA(ctx, r.Body.MfaToken, proof, c.device())
	if err != nil {
		return nil, err
	}
	s.setRefresh(c, g.RefreshToken, g.RefreshExpiry)
	return SignInMfa200JSONResponse(session(g)), nil
}

func factorOut(f auth.Factor) api.MfaFactor {
	return api.MfaFactor{Id: f.ID, Type: api.MfaFactorType(f.Type), Name: f.Name, Confirmed: f.ConfirmedAt != nil, LastUsedAt: atPtr(f.LastUsedAt),
		CreatedAt: at(f.CreatedAt), UpdatedAt: at(f.UpdatedAt), Revision: f.Revision}
}

// ListMfaFactors lists the caller's second factors.
func (s *server) ListMfaFactors(gc context.Context, r ListMfaFactorsRequestObject) (ListMfaFactorsResponseObject, error) {
	c, ctx := enter(gc)
	list, left, err := s.d.Auth.Factors(ctx, c.principal)
	if err != nil {
		return nil, err
	}
	items := make([]api.MfaFactor, len(list))
	for i, f := range list {
		items[i] = factorOut(f)
	}
	items, next, err := whole(s, c, r.Params.PageSize, r.Params.PageToken, items, func(f api.MfaFactor) string { return f.Id })
	if err != nil {
		return nil, err
	}
	return ListMfaFactors200JSONResponse{Items: items, NextPageToken: next, RecoveryCodesLeft: int32(left)}, nil //nolint:gosec // at most ten
}

// CreateMfaFactor begins an enrolment.
func (s *server) CreateMfaFactor(gc context.Context, r CreateMfaFactorRequestObject) (CreateMfaFactorResponseObject, error) {
	c, ctx := enter(gc)
	c.touches("mfa_factor", "", "")
	out, err := writeOutside(ctx, s, c, func(ctx context.Context) (api.MfaEnrolment, error) {
		e, err := s.d.Auth.BeginTOTP(ctx, c.principal, r.Body.Name, s.note(c))
		if err != nil {
			return api.MfaEnrolment{}, err
		}
		f := factorOut(e.Factor)
		return api.MfaEnrolment{Id: f.Id, Type: f.Type, Name: f.Name, Secret: e.Secret, OtpauthUrl: e.URL, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt, Revision: f.Revision}, nil
	})
	if err != nil {
		return nil, err
	}
	return CreateMfaFactor201JSONResponse(out), nil
}

// ConfirmMfaFactor ends an enrolment.
func (s *server) ConfirmMfaFactor(gc context.Context, r ConfirmMfaFactorRequestObject) (ConfirmMfaFactorResponseObject, error) {
	c, ctx := enter(gc)
	c.touches("mfa_factor", r.Id, "")
	out, err := writeOutside(ctx, s, c, func(ctx context.Context) (api.MfaConfirmed, error) {
		f, codes, err := s.d.Auth.ConfirmTOTP(ctx, c.principal, r.Id, r.Body.Code, s.note(c))
		return api.MfaConfirmed{Factor: factorOut(f), RecoveryCodes: append([]string{}, codes...)}, err
	})
	if err != nil {
		return nil, err
	}
	return ConfirmMfaFactor200JSONResponse(out), nil
}

// DeleteMfaFactor removes a second factor.
func (s *server) DeleteMfaFactor(gc context.Context, r DeleteMfaFactorRequestObject) (DeleteMfaFactorResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	c.touches("mfa_factor", r.Id, "")
	_, err = writeOwn(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.d.Auth.RemoveFactor(ctx, c.principal, r.Id, want)
	})
	if err != nil {
		return nil, err
	}
	return DeleteMfaFactor204Response{}, nil
}

// RenewRecoveryCodes makes new recovery codes.
func (s *server) RenewRecoveryCodes(gc context.Context, _ RenewRecoveryCodesRequestObject) (RenewRecoveryCodesResponseObject, error) {
	c, ctx := enter(gc)
	c.touches("user", c.principal.ID, "")
	out, err := writeOwn(ctx, s, c, nil, func(ctx context.Context) (api.RecoveryCodes, error) {
		codes, err := s.d.Auth.RenewRecoveryCodes(ctx, c.principal)
		return api.RecoveryCodes{RecoveryCodes: codes}, err
	})
	if err != nil {
		return nil, err
	}
	return RenewRecoveryCodes200JSONResponse(out), nil
}
