package httpapi

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
)

// DeleteMe begins to close the caller's account.
func (s *server) DeleteMe(gc context.Context, r DeleteMeRequestObject) (DeleteMeResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	out, err := writeOwn(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.AccountClosing, error) {
		c.touches("user", c.principal.ID, "")
		closing, err := s.d.Auth.CloseAccount(ctx, c.principal, want)
		out := api.AccountClosing{EraseAt: at(closing.EraseAt), Tenants: []api.ClosingTenant{}}
		for _, m := range closing.Tenants {
			out.Tenants = append(out.Tenants, api.ClosingTenant{Id: m.TenantID, Name: m.Name})
		}
		return out, err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		s.setRefresh(c, "", time.Time{})
	}
	return DeleteMe202JSONResponse(out), nil
}

// ReopenAccount undoes DeleteMe.
func (s *server) ReopenAccount(gc context.Context, r ReopenAccountRequestObject) (ReopenAccountResponseObject, error) {
	c, ctx := enter(gc)
	if err := s.mayTry(ctx, c, "sign_in", r.Body.Email); err != nil {
		return nil, err
	}
	in, err := s.d.Auth.Reopen(ctx, r.Body.Email, r.Body.Password, c.device())
	if err != nil {
		return nil, err
	}
	if in.Awaited != nil {
		return ReopenAccount202JSONResponse(awaited(in.Awaited)), nil
	}
	s.setRefresh(c, in.Grant.RefreshToken, in.Grant.RefreshExpiry)
	return ReopenAccount200JSONResponse(session(in.Grant)), nil
}
