package httpapi

import (
	"context"
	"fmt"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/cache"
	"github.com/sluicemq/sluice/tenant"
)

// Rates of invitation mails: each tenant sends few, each address gets few from
// one tenant.
var (
	invitationsOfTenant  = cache.Rate{PerSecond: 30.0 / 3600, Burst: 30}
	invitationsToAddress = cache.Rate{PerSecond: 5.0 / 3600, Burst: 5}
)

func (s *server) invitationOut(i tenant.Invitation) api.Invitation {
	return api.Invitation{Id: i.ID, Email: i.Email, Role: api.Role(i.Role), State: api.InvitationState(i.State(s.d.Now())), Locale: api.Locale(i.Locale),
		InvitedBy: i.InvitedBy, SentAt: at(i.SentAt), ExpiresAt: at(i.ExpiresAt), AcceptedAt: atPtr(i.AcceptedAt), AcceptedBy: some(i.AcceptedBy),
		CreatedAt: at(i.CreatedAt), UpdatedAt: at(i.UpdatedAt), Revision: i.Revision}
}

// mayMail bounds the invitations that a tenant sends, in all and to one address.
func (s *server) mayMail(ctx context.Context, c *call, email string) error {
	if d := s.d.Limiter.Take(ctx, "invite:"+c.tenantID(), invitationsOfTenant); !d.Allowed {
		return limited("invitations", c.tenantID(), invitationsOfTenant, d)
	}
	if d := s.d.Limiter.Take(ctx, "invite:"+c.tenantID()+":"+email, invitationsToAddress); !d.Allowed {
		return limited("invitations_to_address", email, invitationsToAddress, d)
	}
	return nil
}

// ListInvitations lists invitations.
func (s *server) ListInvitations(gc context.Context, r ListInvitationsRequestObject) (ListInvitationsResponseObject, error) {
	c, ctx := enter(gc)
	f := tenant.InvitationFilter{Email: or(r.Params.Email, ""), State: tenant.InvitationState(or(r.Params.State, ""))}
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]tenant.Invitation, error) {
			return s.d.Tenants.Invitations(ctx, c.tenantID(), f, p)
		},
		func(i tenant.Invitation) string { return i.ID }, s.invitationOut)
	if err != nil {
		return nil, err
	}
	return ListInvitations200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateInvitation invites a person.
func (s *server) CreateInvitation(gc context.Context, r CreateInvitationRequestObject) (CreateInvitationResponseObject, error) {
	c, ctx := enter(gc)
	if !isTrue(r.Params.DryRun) {
		if err := s.mayMail(ctx, c, auth.CleanEmail(r.Body.Email)); err != nil {
			return nil, err
		}
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Invitation, error) {
		i, err := s.d.Auth.Invite(ctx, c.principal, r.Body.Email, tenant.Role(r.Body.Role), string(or(r.Body.Locale, "en")))
		c.touches("invitation", i.ID, "")
		return s.invitationOut(i), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateInvitation200JSONResponse(out), nil
	}
	return CreateInvitation201JSONResponse{Body: out, Headers: CreateInvitation201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/invitations/" + out.Id}}, nil
}

// GetInvitation shows one invitation.
func (s *server) GetInvitation(gc context.Context, r GetInvitationRequestObject) (GetInvitationResponseObject, error) {
	c, ctx := enter(gc)
	i, err := s.d.Tenants.Invitation(ctx, c.tenantID(), r.Id)
	if err != nil {
		return nil, err
	}
	return GetInvitation200JSONResponse{Body: s.invitationOut(i), Headers: GetInvitation200ResponseHeaders{ETag: etag(i.Revision)}}, nil
}

// DeleteInvitation withdraws one invitation.
func (s *server) DeleteInvitation(gc context.Context, r DeleteInvitationRequestObject) (DeleteInvitationResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	_, err = write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		c.touches("invitation", r.Id, "")
		return struct{}{}, s.d.Tenants.WithdrawInvitation(ctx, c.tenantID(), r.Id, want)
	})
	if err != nil {
		return nil, err
	}
	return DeleteInvitation204Response{}, nil
}

// ResendInvitation mails another link.
func (s *server) ResendInvitation(gc context.Context, r ResendInvitationRequestObject) (ResendInvitationResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	was, err := s.d.Tenants.Invitation(ctx, c.tenantID(), r.Id)
	if err != nil {
		return nil, err
	}
	if err := s.mayMail(ctx, c, was.Email); err != nil {
		return nil, err
	}
	out, err := write(ctx, s, c, nil, func(ctx context.Context) (api.Invitation, error) {
		c.touches("invitation", r.Id, "")
		i, err := s.d.Auth.ResendInvitation(ctx, c.principal, r.Id, want)
		return s.invitationOut(i), err
	})
	if err != nil {
		return nil, err
	}
	return ResendInvitation200JSONResponse{Body: out, Headers: ResendInvitation200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// LookUpInvitation shows an invitation to who got it.
func (s *server) LookUpInvitation(gc context.Context, r LookUpInvitationRequestObject) (LookUpInvitationResponseObject, error) {
	_, ctx := enter(gc)
	i, err := s.d.Auth.LookUpInvitation(ctx, r.Body.Token)
	if err != nil {
		return nil, err
	}
	return LookUpInvitation200JSONResponse{TenantId: i.TenantID, TenantName: i.TenantName, Email: i.Email, Role: api.Role(i.Role), HasAccount: i.HasAccount,
		ExpiresAt: at(i.ExpiresAt)}, nil
}

// AcceptInvitation makes who got an invitation a member and signs them in.
func (s *server) AcceptInvitation(gc context.Context, r AcceptInvitationRequestObject) (AcceptInvitationResponseObject, error) {
	c, ctx := enter(gc)
	in := auth.Acceptance{Token: r.Body.Token, Password: or(r.Body.Password, ""), Name: or(r.Body.Name, ""), Locale: string(or(r.Body.Locale, ""))}
	if c.gin.GetHeader("Authorization") != "" {
		var err error
		if in.By, err = s.identify(c.gin, c); err != nil {
			return nil, err
		}
	}
	if in.Password != "" { // passwords are tried here as they are at sign-in
		i, err := s.d.Auth.LookUpInvitation(ctx, in.Token)
		if err != nil {
			return nil, err
		}
		if d := s.d.Limiter.Take(ctx, "signin:"+i.Email, s.d.Config.Limits.SignIn); !d.Allowed {
			return nil, limited("sign_in", i.Email, s.d.Config.Limits.SignIn, d)
		}
	}
	a, err := s.d.Auth.CheckAcceptance(ctx, in)
	if err != nil {
		return nil, err
	}
	c.principal = &auth.Principal{Kind: auth.KindUser, ID: a.UserID(), TenantID: a.TenantID()} // for the audit log
	c.touches("invitation", a.InvitationID(), "")
	var g auth.Grant
	err = s.d.Tx.InTx(ctx, func(ctx context.Context) error {
		if g, err = s.d.Auth.Accept(ctx, a, c.device()); err != nil {
			return err
		}
		if err := s.d.Audit.Append(ctx, s.event(c)); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.setRefresh(c, g.RefreshToken, g.RefreshExpiry)
	return AcceptInvitation200JSONResponse(session(g)), nil
}
