package httpapi

import (
	"context"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/tenant"
)

func memberOut(m tenant.Member) api.Member {
	return api.Member{Id: m.UserID, Email: m.Email, Name: m.Name, Role: api.Role(m.Role), LastSignInAt: atPtr(m.LastSeen),
		CreatedAt: at(m.CreatedAt), UpdatedAt: at(m.UpdatedAt), Revision: m.Revision}
}

// ListMembers lists the people of the tenant.
func (s *server) ListMembers(gc context.Context, r ListMembersRequestObject) (ListMembersResponseObject, error) {
	c, ctx := enter(gc)
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]tenant.Member, error) { return s.d.Tenants.Members(ctx, c.tenantID(), p) },
		func(m tenant.Member) string { return m.UserID }, memberOut)
	if err != nil {
		return nil, err
	}
	return ListMembers200JSONResponse{Items: items, NextPageToken: next}, nil
}

// GetMember shows one member.
func (s *server) GetMember(gc context.Context, r GetMemberRequestObject) (GetMemberResponseObject, error) {
	c, ctx := enter(gc)
	m, err := s.d.Tenants.Member(ctx, c.tenantID(), r.Id)
	if err != nil {
		return nil, err
	}
	return GetMember200JSONResponse{Body: memberOut(m), Headers: GetMember200ResponseHeaders{ETag: etag(m.Revision)}}, nil
}

// UpdateMember changes the role of one member.
func (s *server) UpdateMember(gc context.Context, r UpdateMemberRequestObject) (UpdateMemberResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Member, error) {
		c.touches("member", r.Id, "")
		m, err := s.d.Auth.ChangeMember(ctx, c.principal, r.Id, tenant.Role(r.Body.Role), want)
		return memberOut(m), err
	})
	if err != nil {
		return nil, err
	}
	return UpdateMember200JSONResponse{Body: out, Headers: UpdateMember200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// RemoveMember takes one member out of the tenant.
func (s *server) RemoveMember(gc context.Context, r RemoveMemberRequestObject) (RemoveMemberResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	_, err = write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		c.touches("member", r.Id, "")
		return struct{}{}, s.d.Auth.RemoveMember(ctx, c.principal, r.Id, want)
	})
	if err != nil {
		return nil, err
	}
	return RemoveMember204Response{}, nil
}

// LeaveTenant takes the caller out of the tenant.
func (s *server) LeaveTenant(gc context.Context, r LeaveTenantRequestObject) (LeaveTenantResponseObject, error) {
	c, ctx := enter(gc)
	_, err := writeOwn(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (struct{}, error) {
		c.touches("member", c.principal.ID, "")
		return struct{}{}, s.d.Auth.Leave(ctx, c.principal)
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		s.setRefresh(c, "", time.Time{})
	}
	return LeaveTenant204Response{}, nil
}
