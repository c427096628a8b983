package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/sqldb"
	"github.com/sluicemq/sluice/tenant"
)

var inviteLink = regexp.MustCompile(`/invitations/accept\?token=(sli_[A-Za-z0-9_-]{43})`)

// invited is the token of the newest invitation mailed to an address.
func (s *system) invited(email string) string {
	s.t.Helper()
	list, err := s.mailer.Messages()
	check(s.t, err)
	for _, m := range list {
		if found := inviteLink.FindStringSubmatch(m.Body); m.To == email && found != nil {
			return found[1]
		}
	}
	s.t.Fatalf("no invitation was mailed to %s", email)
	return ""
}

func (s *system) invite(p person, email, role string) (api.Invitation, error) {
	s.clock.add(time.Second) // mails are ordered by time
	return apiclient.Created(p.sdk.CreateInvitationWithResponse(s.t.Context(), nil, api.InvitationCreate{Email: email, Role: api.Role(role)}))
}

func (s *system) accept(in api.InvitationAccept, edit ...apiclient.RequestEditorFn) (api.Session, error) {
	return apiclient.OK(s.api.AcceptInvitationWithResponse(s.t.Context(), nil, in, edit...))
}

func wantCode(t *testing.T, what string, err error, status int32, code string) {
	t.Helper()
	var p *apiclient.Error
	if !errors.As(err, &p) || p.Status != status || p.Code != code {
		t.Errorf("%s: got %v, want %d %s", what, err, status, code)
	}
}

func TestInvitation_newPerson(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		dry, err := apiclient.OK(owner.sdk.CreateInvitationWithResponse(ctx, &api.CreateInvitationParams{DryRun: ptr(true)}, api.InvitationCreate{Email: "grace@example.com", Role: "viewer"}))
		check(t, err)
		_, err = apiclient.OK(owner.sdk.GetInvitationWithResponse(ctx, dry.Id))
		wantCode(t, "a dry run", err, 404, "not_found")
		made, err := s.invite(owner, "Grace@Example.com", "developer")
		check(t, err)
		if made.Email != "grace@example.com" || made.State != "pending" || made.ExpiresAt.Sub(made.SentAt.Time) != 7*24*time.Hour {
			t.Errorf("made: %+v", made)
		}
		_, err = s.invite(owner, "grace@example.com", "viewer")
		wantCode(t, "invited twice", err, 409, "already_exists")
		_, err = s.invite(owner, "owner@example.com", "viewer")
		wantCode(t, "a member invited", err, 409, "already_member")
		old := s.invited("grace@example.com")
		s.clock.add(time.Second)
		_, err = apiclient.OK(owner.sdk.ResendInvitationWithResponse(ctx, made.Id, nil))
		check(t, err)
		token := s.invited("grace@example.com")
		offer, err := apiclient.OK(s.api.LookUpInvitationWithResponse(ctx, nil, api.InvitationLookUp{Token: token}))
		check(t, err)
		if offer.HasAccount || offer.TenantName != "Tenant of owner@example.com" || offer.Role != "developer" || offer.Email != "grace@example.com" {
			t.Errorf("offer: %+v", offer)
		}
		in := api.InvitationAccept{Token: old, Password: ptr(password), Name: ptr("Grace")}
		_, err = s.accept(in)
		wantCode(t, "the link before", err, 401, "invitation_invalid")
		in.Token, in.Password = token, ptr("short")
		_, err = s.accept(in)
		wantCode(t, "a short password", err, 400, "invalid")
		in.Password, in.Name = ptr(password), nil
		_, err = s.accept(in)
		wantCode(t, "no name", err, 400, "invalid")
		in.Name = ptr("Grace")
		ses, err := s.accept(in)
		check(t, err)
		_, err = s.accept(in)
		wantCode(t, "the link again", err, 401, "invitation_invalid")
		grace, err := apiclient.New(apiclient.Config{Endpoint: s.server.URL, Token: ses.AccessToken, MaxRetries: -1})
		check(t, err)
		me, err := apiclient.OK(grace.GetMeWithResponse(ctx))
		check(t, err)
		if me.Role != "developer" || me.TenantId != owner.TenantId || me.Name != "Grace" || *me.Email != "grace@example.com" {
			t.Errorf("me: %+v", me)
		}
		got, err := apiclient.OK(owner.sdk.GetInvitationWithResponse(ctx, made.Id))
		check(t, err)
		if got.State != "accepted" || got.AcceptedBy == nil || *got.AcceptedBy != me.Id {
			t.Errorf("invitation: %+v", got)
		}
		_, err = apiclient.OK(owner.sdk.ResendInvitationWithResponse(ctx, made.Id, nil))
		wantCode(t, "sent again after all", err, 409, "invitation_accepted")
		events, err := apiclient.OK(owner.sdk.ListAuditEventsWithResponse(ctx, &api.ListAuditEventsParams{Action: ptr("acceptInvitation")}))
		check(t, err)
		if len(events.Items) != 1 {
			t.Errorf("%d audit events", len(events.Items))
		}
		check(t, owner.remove(t, me.Id))
		if _, err = s.invite(owner, "grace@example.com", "viewer"); err != nil {
			t.Errorf("invited again after removal: %v", err)
		}
	})
}

func TestInvitation_personWithAccount(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner, ada, eve := s.signUp("owner@example.com"), s.signUp("ada@example.com"), s.signUp("eve@example.com")
		made, err := s.invite(owner, "ada@example.com", "none")
		check(t, err)
		token := s.invited("ada@example.com")
		_, err = s.accept(api.InvitationAccept{Token: token})
		wantCode(t, "no proof", err, 401, "sign_in_first")
		_, err = s.accept(api.InvitationAccept{Token: token, Password: ptr("wrong password")})
		wantCode(t, "a wrong password", err, 400, "password_wrong")
		_, err = apiclient.OK(eve.sdk.AcceptInvitationWithResponse(t.Context(), nil, api.InvitationAccept{Token: token}))
		wantCode(t, "somebody else", err, 403, "invitation_of_another")
		ses, err := apiclient.OK(ada.sdk.AcceptInvitationWithResponse(t.Context(), nil, api.InvitationAccept{Token: token}))
		check(t, err)
		if ses.TenantId != owner.TenantId {
			t.Errorf("signed in to %s", ses.TenantId)
		}
		// The account's own tenant and sessions are as they were.
		me, err := apiclient.OK(ada.sdk.GetMeWithResponse(t.Context()))
		check(t, err)
		if me.TenantId != ada.TenantId || me.Role != "owner" {
			t.Errorf("me: %+v", me)
		}
		if status, p, _ := s.raw("GET", "/v1/members", "Bearer "+ses.AccessToken, ""); status != http.StatusForbidden {
			t.Errorf("role none lists members: %d %s", status, p.Code)
		}
		check(t, owner.remove(t, me.Id))
		if status, _, _ := s.raw("GET", "/v1/me", "Bearer "+ses.AccessToken, ""); status != http.StatusUnauthorized {
			t.Errorf("session in the tenant they were removed from: %d", status)
		}
		if status, _, _ := s.raw("GET", "/v1/me", "Bearer "+ada.AccessToken, ""); status != http.StatusOK {
			t.Errorf("session in their own tenant: %d", status)
		}
		_, err = apiclient.OK(eve.sdk.GetInvitationWithResponse(t.Context(), made.Id))
		wantCode(t, "another tenant reads it", err, 404, "not_found")
		// By password, without a session.
		_, err = s.invite(owner, "eve@example.com", "viewer")
		check(t, err)
		if _, err = s.accept(api.InvitationAccept{Token: s.invited("eve@example.com"), Password: ptr(password)}); err != nil {
			t.Error(err)
		}
	})
}

// What an inviter sees is the same for an address with and without an account.
func TestInvitation_tellsNobodyWhoIsKnown_Enumeration(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	owner := s.signUp("owner@example.com")
	s.signUp("known@example.com")
	shape := func(email string) any {
		made, err := s.invite(owner, email, "viewer")
		check(t, err)
		got, err := apiclient.OK(owner.sdk.GetInvitationWithResponse(t.Context(), made.Id))
		check(t, err)
		for _, i := range []*api.Invitation{&made, &got} {
			i.Id, i.Email = "", ""
			i.SentAt, i.ExpiresAt, i.CreatedAt, i.UpdatedAt = api.Timestamp{}, api.Timestamp{}, api.Timestamp{}, api.Timestamp{}
		}
		return []api.Invitation{made, got}
	}
	if a, b := shape("known@example.com"), shape("nobody@example.com"); !reflect.DeepEqual(a, b) {
		t.Errorf("known %+v\nunknown %+v", a, b)
	}
}

// OWASP API6: invitations are few, and cannot be made a tool of spammers.
func TestInvitation_spamIsStopped_OWASP_API6(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		owner := s.signUp("owner@example.com")
		ctx := t.Context()
		var first api.Invitation
		for n := range 20 {
			i, err := s.invite(owner, fmt.Sprintf("p%d@example.com", n), "viewer")
			check(t, err)
			if n == 0 {
				first = i
			}
		}
		_, err := s.invite(owner, "p20@example.com", "viewer")
		wantCode(t, "one pending too many", err, 403, "quota_exceeded")
		check(t, apiclient.Done(owner.sdk.DeleteInvitationWithResponse(ctx, first.Id, nil)))
		_, err = apiclient.OK(s.api.LookUpInvitationWithResponse(ctx, nil, api.InvitationLookUp{Token: s.invited("p0@example.com")}))
		wantCode(t, "a withdrawn one", err, 401, "invitation_invalid")
		_, err = s.invite(owner, "p0@example.com", "viewer")
		check(t, err)
		token := s.invited("p1@example.com")
		s.clock.add(7 * 24 * time.Hour)
		_, err = s.accept(api.InvitationAccept{Token: token, Password: ptr(password), Name: ptr("P")})
		wantCode(t, "an old link", err, 401, "invitation_invalid")
		owner = s.again(owner)
		if _, err = s.invite(owner, "p1@example.com", "viewer"); err != nil {
			t.Errorf("invited anew after a week: %v", err)
		}
		expired, err := apiclient.OK(owner.sdk.ListInvitationsWithResponse(ctx, &api.ListInvitationsParams{State: ptr(api.InvitationExpired), Email: ptr("p2@example.com")}))
		check(t, err)
		if len(expired.Items) != 1 {
			t.Errorf("%d expired", len(expired.Items))
		}
		_, err = apiclient.OK(owner.sdk.UpdateTenantWithResponse(ctx, nil, api.TenantUpdate{Name: ptr("Win at evil.example/x")}))
		check(t, err)
		_, err = s.invite(owner, "p3@example.com", "viewer")
		check(t, err)
		list, err := s.mailer.Messages()
		check(t, err)
		if list[0].To != "p3@example.com" || strings.Contains(list[0].Body, "evil") {
			t.Errorf("mail: %s", list[0].Body)
		}
	})
}

func TestInvitation_mailsAreFew_OWASP_API6(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	owner := s.signUp("owner@example.com")
	one, err := s.invite(owner, "p@example.com", "viewer")
	check(t, err)
	mails := 1
	for ; err == nil && mails < 100; mails++ {
		_, err = apiclient.OK(owner.sdk.ResendInvitationWithResponse(t.Context(), one.Id, nil))
	}
	wantCode(t, "mails to one address", err, 429, "rate_limited")
	if mails != 6 {
		t.Errorf("%d tries to one address, want the sixth to fail", mails)
	}
	err = nil
	for n := 0; n < 100 && !apiclient.Is(err, "rate_limited"); n++ {
		_, err = s.invite(owner, fmt.Sprintf("q%d@example.com", n), "viewer")
		mails++
	}
	wantCode(t, "mails of one tenant", err, 429, "rate_limited")
	if mails < 30 || mails > 33 {
		t.Errorf("%d tries of one tenant", mails)
	}
	// Another tenant is not held up.
	if _, err := s.invite(s.signUp("other@example.com"), "p@example.com", "viewer"); err != nil {
		t.Error(err)
	}
}

func TestInvitation_nobodyGivesMoreThanTheyHave(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	owner := s.signUp("owner@example.com")
	admin, adminID := s.colleague(owner, "admin@example.com", tenant.RoleAdmin)
	developer, _ := s.colleague(owner, "dev@example.com", tenant.RoleDeveloper)
	_, err := s.invite(admin, "x@example.com", "owner")
	wantCode(t, "an admin invites an owner", err, 403, "owner_only")
	_, err = s.invite(developer, "x@example.com", "viewer")
	wantCode(t, "a developer invites", err, 403, "permission_denied")
	owners, err := s.invite(owner, "x@example.com", "owner")
	check(t, err)
	_, err = apiclient.OK(admin.sdk.ResendInvitationWithResponse(t.Context(), owners.Id, nil))
	wantCode(t, "an admin sends an owner's invitation", err, 403, "owner_only")
	// Who is demoted leaves no open door behind.
	_, err = s.invite(admin, "friend@example.com", "admin")
	check(t, err)
	token := s.invited("friend@example.com")
	check(t, owner.setRole(t, adminID, "viewer"))
	_, err = apiclient.OK(s.api.LookUpInvitationWithResponse(t.Context(), nil, api.InvitationLookUp{Token: token}))
	wantCode(t, "invitation of a demoted admin", err, 401, "invitation_invalid")
}

// A password alone does not let in whose account has a second factor, by this
// door either, and a session that accepts is not proved fresh by it.
func TestInvitation_secondFactorIsNotSkipped(t *testing.T) {
	s := newSystem(t, sqldb.SQLite)
	owner, ada := s.signUp("owner@example.com"), s.signUp("ada@example.com")
	s.enrol(ada.sdk, "phone")
	_, err := s.invite(owner, "ada@example.com", "admin")
	check(t, err)
	token := s.invited("ada@example.com")
	_, err = s.accept(api.InvitationAccept{Token: token, Password: ptr("wrong password")})
	wantCode(t, "a wrong password", err, 400, "password_wrong")
	_, err = s.accept(api.InvitationAccept{Token: token, Password: ptr(password)})
	wantCode(t, "a password alone", err, 401, "sign_in_first")
	s.exec("UPDATE sessions SET authenticated_at = 1 WHERE user_id = (SELECT id FROM users WHERE email = 'ada@example.com')")
	ses, err := apiclient.OK(ada.sdk.AcceptInvitationWithResponse(t.Context(), nil, api.InvitationAccept{Token: token}))
	check(t, err)
	if status, p, _ := s.raw("POST", "/v1/invitations", "Bearer "+ses.AccessToken, `{"email":"x@example.com","role":"viewer"}`); status != http.StatusForbidden || p.Code != "step_up_required" {
		t.Errorf("a risky act after accepting with an old session: %d %s", status, p.Code)
	}
}
